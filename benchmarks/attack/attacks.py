"""The attacks: what whoever may create pods, claims, ReplicaSets, Services or PodGroups in one namespace can do.

All of it is within the limits of the API server (3 MB a request; 10 KiB and a cost of a million per CEL selector) and
of etcd (1.5 MiB an object).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from benchmarks.attack.objects import (
    CARRIED,
    CROWD,
    HOSTNAME,
    REQUIRED,
    VICTIM_LABELS,
    ZONE,
    absent,
    cluster_object,
    crowd,
    crowd_selector,
    namespace_labels,
    node_name,
    of_crowd,
    pod,
    tenant_object,
)
from benchmarks.harness.scenario import ContestantProfile, Json

Objects = Callable[[int], Iterable[Json]]
"""Makes objects for a cluster with this number of nodes."""


def _nothing(nodes: int) -> Iterable[Json]:
    return ()


@dataclass(frozen=True)
class Attack:
    """What a tenant does.

    Attributes:
        exploits: what it makes a scheduler do, in one sentence.
        cluster: objects that an administrator has made for other reasons, and that stay.
        objects: what the tenant creates first, pods on nodes among it.
        pod: the pod with this number, for the contestant to place; None where the tenant creates no such pods.
        at_once: so many of them in the beginning.
        every: then one more every so many seconds; 0 for no more.
        profile: how the contestants are configured.
        definitions: CustomResourceDefinitions that this needs, beside the scenarios of the race.
    """

    exploits: str
    cluster: Objects = _nothing
    objects: Objects = _nothing
    pod: Callable[[int], Json] | None = None
    at_once: int = 0
    every: float = 0.0
    profile: ContestantProfile = field(default_factory=ContestantProfile)
    definitions: tuple[str, ...] = ()


# Claims ---------------------------------------------------------------------------------------------------------------

_CLASS = "late"
_SIZE, _TOO_LARGE = "1Gi", "1Ti"
_LAST_KEY = "zone-disk"
"""Label of all volumes; kube-scheduler compares requirements in the order of their keys."""


def _volumes(count: int) -> Objects:
    def make(nodes: int) -> Iterable[Json]:
        binding = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
        yield cluster_object("storage.k8s.io/v1", "StorageClass", _CLASS, **binding)
        anywhere = {"matchExpressions": [{"key": HOSTNAME, "operator": "Exists"}]}
        spec = {
            "capacity": {"storage": _SIZE},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": _CLASS,
            "local": {"path": "/mnt"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [anywhere]}},
        }
        for number in range(count):
            item = cluster_object("v1", "PersistentVolume", f"volume-{number}", spec=spec)
            item["metadata"]["labels"] = {_LAST_KEY: "ssd"}
            # In a cluster, the controller of volumes writes this.
            yield item | {"status": {"phase": "Available"}}

    return make


def _claims(count: int, size: str) -> Objects:
    def make(nodes: int) -> Iterable[Json]:
        rejection = [{"key": _LAST_KEY, "operator": "DoesNotExist"}]
        for number in range(count):
            spec = {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": _CLASS,
                "resources": {"requests": {"storage": size}},
                "selector": {"matchExpressions": [*absent(15_000, f"claim{number}"), *rejection]},
            }
            yield tenant_object("v1", "PersistentVolumeClaim", f"claim-{number}", spec=spec)

    return make


def _claiming(claims: int) -> Callable[[int], Json]:
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": f"claim-{number}"}} for number in range(claims)
    ]
    return lambda number: pod(f"attack-{number}", volumes=volumes)


def _claim_selectors(volumes: int, claims: int, size: str, every: float) -> Attack:
    small = "" if size == _SIZE else ", which are too small,"
    return Attack(
        exploits=f"each attempt at a pod of {claims} claims matches selectors of 15,000 requirements with {volumes} "
        f"volumes{small} for every node",
        cluster=_volumes(volumes),
        objects=_claims(claims, size),
        pod=_claiming(claims),
        at_once=3,
        every=every,
    )


# Owners and Services --------------------------------------------------------------------------------------------------


def _replica_sets(owners: int, requirements: int) -> Objects:
    def make(nodes: int) -> Iterable[Json]:
        containers = [{"name": "c", "image": "registry.example/app:1"}]
        template = {"metadata": {"labels": of_crowd()}, "spec": {"containers": containers}}
        for number in range(owners):
            selector = crowd_selector(requirements, f"owner{number}")
            spec = {"replicas": 0, "selector": selector, "template": template}
            yield tenant_object("apps/v1", "ReplicaSet", f"owner-{number}", spec=spec)
        yield from crowd(nodes)

    return make


def _owned(number: int, owners: int) -> Json:
    name = f"owner-{number % owners}"
    # The garbage collector compares the UID, a scheduler does not; in a cluster, the ReplicaSet would make these pods.
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    return pod(f"attack-{number}", labels=of_crowd(), owners=[owner])


def _owner_selectors(owners: int, requirements: int, every: float) -> Attack:
    return Attack(
        exploits=f"pods that list nothing are spread by default by the selector of their ReplicaSet: {owners} of them "
        f"with {requirements} requirements each, and {CROWD} pods of which no two have the same labels",
        objects=_replica_sets(owners, requirements),
        pod=lambda number: _owned(number, owners),
        at_once=5,
        every=every,
    )


_SERVICES, _LABELS, _ALIKE = 500, 10_000, 100


def _label(number: int) -> tuple[str, str]:
    return f"label-{number:05d}", f"{number}"


def _services(nodes: int) -> Iterable[Json]:
    share = _LABELS // _SERVICES
    for number in range(_SERVICES):
        selector = dict(_label(number * share + index) for index in range(share))
        yield tenant_object("v1", "Service", f"service-{number}", spec={"clusterIP": "None", "selector": selector})
    yield from (_labelled(f"bound-{number}", node_name(number, nodes)) for number in range(_ALIKE))


def _labelled(name: str, on: str = "") -> Json:
    return pod(name, labels={"name": name} | dict(map(_label, range(_LABELS))), on=on)


# Terms and constraints ------------------------------------------------------------------------------------------------


def _spreading(number: int) -> Json:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": crowd_selector(CARRIED, f"spread{number}"),
    }
    return pod(f"attack-{number}", labels=of_crowd(), topologySpreadConstraints=[constraint])


_BOUND = 20
_ALL_NAMESPACES: Json = {}


def _away_from(name: str, on: str, *, labels: list[Json], namespaces: Json) -> Json:
    """A pod with anti-affinity towards the pods that these requirements mean."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchExpressions": labels}, "namespaceSelector": namespaces}
    return pod(name, on=on, affinity={"podAntiAffinity": {REQUIRED: [term]}})


_VICTIMS = [{"key": key, "operator": "In", "values": [value]} for key, value in VICTIM_LABELS.items()]


def _bound_terms(nodes: int) -> Iterable[Json]:
    for number in range(_BOUND):
        requirements = [*_VICTIMS, *absent(12_000, f"bound{number:02d}")]
        on = node_name(number, nodes)
        yield _away_from(f"bound-{number}", on, labels=requirements, namespaces=_ALL_NAMESPACES)


_NAMESPACES = 500


def _namespaces(nodes: int) -> Iterable[Json]:
    for number in range(_NAMESPACES):
        item = cluster_object("v1", "Namespace", f"team-{number}")
        item["metadata"]["labels"] = namespace_labels(number)
        yield item


def _bound_namespace_terms(nodes: int) -> Iterable[Json]:
    for number in range(_BOUND):
        selector = {"matchExpressions": absent(12_000, f"bound{number:02d}")}
        yield _away_from(f"bound-{number}", node_name(number, nodes), labels=_VICTIMS, namespaces=selector)


def _choosing_namespaces(number: int) -> Json:
    selector = {"matchExpressions": absent(20_000, f"choice{number}")}
    # Not away from the victims: they shall have all the nodes that they had.
    nobody = [{"key": "app", "operator": "In", "values": ["nobody"]}]
    return _away_from(f"attack-{number}", "", labels=nobody, namespaces=selector)


# Devices --------------------------------------------------------------------------------------------------------------

_DRIVER = "attack.example.com"
_DEVICES = 128
"""Of a node, as many as one ResourceSlice may have."""
_SELECTORS = 32
"""Of a request, as many as it may have."""
_LOOP = 340
"""So many steps within so many steps cost a little less than a million."""
_DEVICE_PODS = 10


def _slices(nodes: int) -> Iterable[Json]:
    yield cluster_object("resource.k8s.io/v1", "DeviceClass", "attack", spec={})
    for number in range(nodes):
        name = node_name(number, nodes)
        spec = {
            "driver": _DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"device-{index}", "attributes": {"serial": {"string": f"{number}-{index}"}}}
                for index in range(_DEVICES)
            ],
        }
        yield cluster_object("resource.k8s.io/v1", "ResourceSlice", name, spec=spec)


def costly_expression(number: int, *, true: bool) -> str:
    """A CEL selector that costs a little less than it may, and that no other one equals."""
    steps = ",".join(map(str, range(_LOOP)))
    verdict = "==" if true else "!="
    return f'[{steps}].all(x, [{steps}].all(y, x != -1)) && device.driver {verdict} "{_DRIVER}" || {number} == -1'


def _device_claims(nodes: int) -> Iterable[Json]:
    for number in range(_DEVICE_PODS):
        selectors = [
            {"cel": {"expression": costly_expression(number * _SELECTORS + index, true=index < _SELECTORS - 1)}}
            for index in range(_SELECTORS)
        ]
        exactly = {"deviceClassName": "attack", "allocationMode": "ExactCount", "count": 1, "selectors": selectors}
        spec = {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}
        yield tenant_object("resource.k8s.io/v1", "ResourceClaim", f"claim-{number}", spec=spec)


def _wanting_devices(number: int) -> Json:
    return pod(f"attack-{number}", resourceClaims=[{"name": "device", "resourceClaimName": f"claim-{number}"}])


# Gangs ----------------------------------------------------------------------------------------------------------------

_MEMBERS = 10_000
_GANGS = 10


def _group(nodes: int) -> Iterable[Json]:
    spec = {"minMember": _MEMBERS, "scheduleTimeoutSeconds": 10}
    yield tenant_object("scheduling.x-k8s.io/v1alpha1", "PodGroup", "gang", spec=spec)


def _member(number: int) -> Json:
    # Nodes of 16, 32 and 64 cores keep room for others' pods.
    return pod(f"attack-{number}", labels={"scheduling.x-k8s.io/pod-group": "gang"}, cpu="7")


def _groups_of_shapes(nodes: int) -> Iterable[Json]:
    for number in range(_GANGS):
        spec = {"minMember": _MEMBERS // _GANGS, "scheduleTimeoutSeconds": 10}
        yield tenant_object("scheduling.x-k8s.io/v1alpha1", "PodGroup", f"gang-{number}", spec=spec)


def _member_of_shapes(number: int) -> Json:
    labels = {"scheduling.x-k8s.io/pod-group": f"gang-{number % _GANGS}"}
    # No two need the same, and one of each hundred is larger than any node.
    return pod(f"attack-{number}", labels=labels, cpu="900" if number % 1000 > 989 else f"{100 + number}m")


_COSCHEDULING = ContestantProfile(
    peer="scheduler-plugins",
    plugins={
        "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "Coscheduling"}]},
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
    },
)


# All of them ----------------------------------------------------------------------------------------------------------

ATTACKS: dict[str, Attack] = {
    "claim-selectors": _claim_selectors(1000, 6, _TOO_LARGE, every=2.0),
    "claim-selectors-few": _claim_selectors(300, 4, _TOO_LARGE, every=0.0),
    "claim-selectors-sized": _claim_selectors(300, 4, _SIZE, every=2.0),
    "owner-selectors": _owner_selectors(5, 12_000, every=1.0),
    "owner-selectors-many": _owner_selectors(200, 1000, every=0.2),
    "spread-selector": Attack(
        exploits=f"one topologySpreadConstraint has {CARRIED} requirements, and each pod another one; "
        f"{CROWD} pods of which no two have the same labels",
        objects=crowd,
        pod=_spreading,
        at_once=1,
        every=1.0,
    ),
    "bound-terms": Attack(
        exploits=f"every pod of every tenant is compared with the anti-affinity of {_BOUND} pods that are bound: "
        "12,000 requirements each, over all namespaces",
        objects=_bound_terms,
    ),
    "namespace-selectors": Attack(
        exploits=f"selectors of namespaces with 20,000 requirements, of pods that wait, over {_NAMESPACES} "
        f"namespaces; and such with 12,000 of {_BOUND} pods that are bound, for every pod",
        cluster=_namespaces,
        objects=_bound_namespace_terms,
        pod=_choosing_namespaces,
        at_once=1,
        every=1.0,
    ),
    "device-selectors": Attack(
        exploits=f"{_SELECTORS} CEL selectors per claim at the API server's limit of cost, evaluated for "
        f"{_DEVICES} devices of every node, of which none is right",
        cluster=_slices,
        objects=_device_claims,
        pod=_wanting_devices,
        at_once=_DEVICE_PODS,
    ),
    "gang": Attack(
        exploits=f"a PodGroup of {_MEMBERS} pods, which are all there and do not fit: each attempt looks at its group",
        objects=_group,
        pod=_member,
        at_once=_MEMBERS,
        profile=_COSCHEDULING,
        definitions=("definitions/podgroups.yaml",),
    ),
    "gangs-of-shapes": Attack(
        exploits=f"{_GANGS} PodGroups of {_MEMBERS // _GANGS} pods, no two alike, of which some fit on no node; each "
        "new pod has its group tried again",
        objects=_groups_of_shapes,
        pod=_member_of_shapes,
        at_once=_MEMBERS,
        every=0.5,
        profile=_COSCHEDULING,
        definitions=("definitions/podgroups.yaml",),
    ),
    "services": Attack(
        exploits=f"{_SERVICES} Services that each select other ones of a pod's {_LABELS} labels: by default it is "
        f"spread by a selector of them all, which means {_ALIKE} pods",
        objects=_services,
        pod=lambda number: _labelled(f"attack-{number}"),
        at_once=1,
        every=1.0,
    ),
}
