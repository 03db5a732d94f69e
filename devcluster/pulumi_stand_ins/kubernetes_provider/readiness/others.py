"""Readiness of the other kinds that are waited for."""

from devcluster.pulumi_stand_ins.kubernetes_provider.objects import (
    annotation,
    conditions,
    metadata_of,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.readiness.states import (
    READY,
    ClusterReader,
    Failed,
    Pending,
    State,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object


def custom_resource_definition(obj: Object, reader: ClusterReader) -> State:
    """Ready when established and served: a custom resource made next must find its kind."""
    by_type = conditions(obj)
    refused = by_type.get("NamesAccepted", {})
    if refused.get("status") == "False":
        return Failed((f"its names were not accepted: {refused.get('reason')}: {refused.get('message')}",))
    if by_type.get("Established", {}).get("status") != "True":
        return Pending("Waiting for the CustomResourceDefinition to be established")
    spec = obj.get("spec") or {}
    kind, group = (spec.get("names") or {}).get("kind", ""), spec.get("group", "")
    for version in spec.get("versions") or ():
        if version.get("served") and not reader.is_served(f"{group}/{version['name']}", kind):
            return Pending(f"Waiting for the API server to serve {group}/{version['name']} {kind}")
    return READY


def persistent_volume_claim(obj: Object, reader: ClusterReader) -> State:
    """Ready when bound; a claim whose class binds for its first pod is not waited for."""
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Bound":
        return READY
    if phase == "Lost":
        return Failed(("its volume is lost",))
    name = (obj.get("spec") or {}).get("storageClassName")
    if name:
        storage_class = reader.get("storage.k8s.io/v1", "StorageClass", "", str(name))
        if storage_class and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer":
            return READY
    return Pending("Waiting for the claim to be bound")


def service(obj: Object, reader: ClusterReader) -> State:
    """Ready when it has an address behind it: of the load balancer, or of a ready pod that it selects."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    kind = spec.get("type", "ClusterIP")
    if kind == "LoadBalancer" and not (status.get("loadBalancer") or {}).get("ingress"):
        return Pending("Waiting for the load balancer's address")
    if kind == "ExternalName" or spec.get("clusterIP") == "None" or not spec.get("selector"):
        return READY
    metadata = metadata_of(obj)
    selector = {"matchLabels": {"kubernetes.io/service-name": metadata["name"]}}
    slices = reader.list("discovery.k8s.io/v1", "EndpointSlice", str(metadata.get("namespace", "default")), selector)
    endpoints = [endpoint for slice_ in slices for endpoint in slice_.get("endpoints") or ()]
    if any((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints):
        return READY
    text = (
        "Waiting for a ready pod that the Service selects; selected pods may not be ready, or none match .spec.selector"
    )
    return Pending(text, (text,))


def secret(obj: Object, reader: ClusterReader) -> State:
    """Ready at once, except that a ServiceAccount token must have been filled in."""
    if obj.get("type") == "kubernetes.io/service-account-token" and not (obj.get("data") or {}).get("token"):
        account = annotation(obj, "kubernetes.io/service-account.name")
        return Pending(f"Waiting for the token of ServiceAccount {account}")
    return READY
