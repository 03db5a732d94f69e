"""Objects of custom kinds, the provider that every object goes through, and what the SDK's resource classes share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, Protocol

import pulumi
import pulumi_kubernetes as k8s

Manifest = Mapping[str, Any]


class KubeObject(pulumi.CustomResource):
    """An object of a kind that the SDK has no class for, as its whole manifest; values may be Outputs.

    The SDK's own `CustomResource` exposes no `status`, which this program reads of most custom kinds. The type token is
    the same, so state and official provider see no difference.
    """

    metadata: pulumi.Output[dict[str, Any]]
    spec: pulumi.Output[dict[str, Any] | None]
    status: pulumi.Output[dict[str, Any] | None]

    def __init__(self, name: str, manifest: Manifest, opts: pulumi.ResourceOptions | None = None) -> None:
        defaults = pulumi.ResourceOptions(version=_provider_version())
        super().__init__(
            f"kubernetes:{manifest['apiVersion']}:{manifest['kind']}",
            name,
            {**manifest, "status": None},  # declares the output; None is not sent
            pulumi.ResourceOptions.merge(defaults, opts),
        )


def service_monitor(
    name: str, metadata: Mapping[str, Any], spec: pulumi.Input[Any], opts: pulumi.ResourceOptions
) -> KubeObject:
    """Have the Prometheus operator scrape a Service; needs that one's CRDs."""
    kind = {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor"}
    return KubeObject(name, {**kind, "metadata": metadata, "spec": spec}, opts)


def unawaited_service(
    name: str, metadata: Mapping[str, Any], spec: pulumi.Input[Any], opts: pulumi.ResourceOptions
) -> k8s.core.v1.Service:
    """Register a Service that an update does not wait for to have endpoints."""
    annotations = {"annotations": {"pulumi.com/skipAwait": "true"}}
    return k8s.core.v1.Service(
        name, metadata=in_kubernetes_spelling({**metadata, **annotations}), spec=in_kubernetes_spelling(spec), opts=opts
    )


def cluster_role_binding(
    name: str,
    metadata: Mapping[str, Any],
    role: pulumi.Input[str],
    subjects: Sequence[Mapping[str, Any]],
    opts: pulumi.ResourceOptions,
) -> k8s.rbac.v1.ClusterRoleBinding:
    """Bind a ClusterRole everywhere."""
    return k8s.rbac.v1.ClusterRoleBinding(
        name,
        metadata=in_kubernetes_spelling(metadata),
        role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        subjects=in_kubernetes_spelling(subjects),
        opts=opts,
    )


class _HasMetadata(Protocol):
    @property
    def metadata(self) -> pulumi.Output[Any]: ...


def name_of(resource: _HasMetadata) -> pulumi.Output[str]:
    """Return an object's `metadata.name`; a resource that uses it depends on the object."""
    return resource.metadata.apply(lambda metadata: str(metadata["name"]))


def namespace_of(resource: _HasMetadata) -> pulumi.Output[str]:
    """Return an object's `metadata.namespace`; a resource that uses it depends on the object."""
    return resource.metadata.apply(lambda metadata: str(metadata["namespace"]))


def ready_replicas_of(deployment: k8s.apps.v1.Deployment) -> pulumi.Output[int]:
    """Return how many replicas of a Deployment are ready; 0 in a preview that makes it."""
    return deployment.status.apply(lambda status: int(status.ready_replicas or 0) if status else 0)


def in_kubernetes_spelling(manifest: object) -> Any:
    """Return a part of a manifest that is spelled as in YAML, for a resource class, which takes it unchanged.

    Parts that the operator's code renders, too, and bundled files are spelled like that; their types, in snake_case,
    are the classes' own for everything written here.
    """
    return manifest


class ClusterProvider(pulumi.ProviderResource):
    """The one Kubernetes provider of a stack.

    Unlike the SDK's class it does not copy $KUBECONFIG into its inputs. A path in state would be a change in every
    preview on another machine, and `pulumi destroy` would follow a path that exists on the first machine only; left
    out, the provider reads $KUBECONFIG, or ~/.kube/config, where it runs.

    `adopts`: it adopts objects that exist instead of failing. Fields that another manager set to another value stay a
    conflict; `components.drift` says whose conflicts are forced.
    """

    def __init__(
        self,
        name: str,
        *,
        cluster_identifier: str,
        context: str | None = None,
        kubeconfig: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
        adopts: bool = False,
    ) -> None:
        props: dict[str, pulumi.Input[str] | None] = {
            # Without it, a new kubeconfig would replace the provider and every object that uses it.
            "clusterIdentifier": cluster_identifier,
            "context": context,
            "kubeconfig": kubeconfig,
            # A rotated token updates the Secret in place; a replacement would delete the Secret that is mounted.
            "enableSecretMutable": "true",
        }
        if adopts:
            props["upsertExistingObjects"] = "true"
        self.cluster_identifier = cluster_identifier
        self._connection = {"cluster_identifier": cluster_identifier, "context": context, "kubeconfig": kubeconfig}
        defaults = pulumi.ResourceOptions(version=_provider_version())
        super().__init__("kubernetes", name, props, pulumi.ResourceOptions.merge(defaults, opts))

    def adopting(self, name: str) -> ClusterProvider:
        """A second provider for the same cluster, which adopts objects that others create."""
        return ClusterProvider(name, adopts=True, **self._connection)  # type: ignore[arg-type]


def child(
    parent: pulumi.Resource,
    *,
    depends_on: Sequence[pulumi.Resource] = (),
    protect: bool | None = None,
    retain_on_delete: bool | None = None,
    custom_timeouts: pulumi.CustomTimeouts | None = None,
) -> pulumi.ResourceOptions:
    """Return the options of a component's child."""
    return pulumi.ResourceOptions(
        parent=parent,
        depends_on=list(depends_on),
        protect=protect,
        retain_on_delete=retain_on_delete,
        custom_timeouts=custom_timeouts,
    )


def rollout_timeouts(seconds: int) -> pulumi.CustomTimeouts:
    """Timeouts of an object that is created or updated when its pods are ready."""
    return pulumi.CustomTimeouts(create=f"{seconds}s", update=f"{seconds}s", delete="3m")


@cache
def _provider_version() -> str:
    return version("pulumi-kubernetes")
