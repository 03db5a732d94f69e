"""Volumes: claims bound, waiting, missing or lost; zones, limits, access modes, disks named in the pod."""

from __future__ import annotations

import random

from tests.conformance.features.draft import Draft, Feature, Json, labels_of, needs

_VOLUMES = needs("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
_DRIVER = "disk.example.com"
_ZONE = "topology.kubernetes.io/zone"


def _class(name: str, **fields: object) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": _DRIVER,
        **fields,
    }


def _volume(rng: random.Random, name: str, claim: str, namespace: str, **spec: object) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {}},
        "spec": {
            "capacity": {"storage": rng.choice(["1Gi", "5Gi", "10Gi"])},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "immediate",
            "csi": {"driver": _DRIVER, "volumeHandle": f"handle-{name}"},
            **({"claimRef": _reference(claim, namespace)} if claim else {}),
            **spec,
        },
        "status": {"phase": "Bound" if claim else "Available"},
    }


def _reference(claim: str, namespace: str) -> Json:
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": claim, "namespace": namespace}


def _claim(name: str, namespace: str, size: str = "1Gi", volume: str = "", storage_class: str = "immediate") -> Json:
    claim: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "annotations": {}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        },
        "status": {"phase": "Bound" if volume else "Pending"},
    }
    if volume:
        claim["spec"]["volumeName"] = volume
        claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
    return claim


def _mount(pod: Json, claim: str) -> None:
    volumes = pod["spec"].setdefault("volumes", [])
    volumes.append({"name": f"volume-{len(volumes)}", "persistentVolumeClaim": {"claimName": claim}})


def _bound_pair(rng: random.Random, draft: Draft, pod: Json, number: int) -> tuple[Json, Json]:
    namespace = pod["metadata"]["namespace"]
    name = f"{draft.seed}-{number}"
    claim = _claim(f"bound-{name}", namespace, volume=f"volume-{name}")
    volume = _volume(rng, f"volume-{name}", claim["metadata"]["name"], namespace)
    draft.others += [volume, claim]
    _mount(pod, claim["metadata"]["name"])
    return volume, claim


def _start(draft: Draft) -> int:
    if not any(one["kind"] == "StorageClass" for one in draft.others):
        draft.others += [
            _class("immediate", volumeBindingMode="Immediate"),
            _class("waiting", volumeBindingMode="WaitForFirstConsumer"),
            _class("local", volumeBindingMode="WaitForFirstConsumer") | {"provisioner": "kubernetes.io/no-provisioner"},
            _class(
                "zoned",
                volumeBindingMode="WaitForFirstConsumer",
                allowedTopologies=[{"matchLabelExpressions": [{"key": _ZONE, "values": ["zone-a", "zone-b"]}]}],
            ),
        ]
    return len(draft.others)


def _some(rng: random.Random, draft: Draft, chance: float = 0.3) -> list[Json]:
    return [*(pod for pod in draft.existing if rng.random() < chance), *draft.incoming]


def _bound(rng: random.Random, draft: Draft) -> None:
    start = _start(draft)
    for number, pod in enumerate(_some(rng, draft), start):
        volume, claim = _bound_pair(rng, draft, pod, number)
        if rng.random() < 0.6:
            expression = {"key": rng.choice(["tier", _ZONE]), "operator": "In", "values": ["gold", "zone-a", "silver"]}
            terms = [{"matchExpressions": [expression]}]
            volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        if rng.random() < 0.1:
            draft.others.remove(volume)
        if rng.random() < 0.1:
            claim["status"]["phase"] = "Lost"


def _zones(rng: random.Random, draft: Draft) -> None:
    start = _start(draft)
    for node in draft.nodes:
        zone = labels_of(node).get(_ZONE)
        if zone and rng.random() < 0.2:
            labels_of(node)["failure-domain.beta.kubernetes.io/zone"] = zone
        if rng.random() < 0.2:
            labels_of(node).pop(_ZONE, None)
    for number, pod in enumerate(draft.incoming, start):
        volume, _ = _bound_pair(rng, draft, pod, number)
        key = rng.choice([_ZONE, "failure-domain.beta.kubernetes.io/zone"])
        volume["metadata"]["labels"][key] = rng.choice(["zone-a", "zone-b", "zone-a__zone-c"])


def _waiting(rng: random.Random, draft: Draft) -> None:
    start = _start(draft)
    for number in range(start, start + rng.randint(0, 4)):
        volume = _volume(rng, f"free-{draft.seed}-{number}", "", "", storageClassName=rng.choice(["waiting", "local"]))
        if rng.random() < 0.7:
            expression = {"key": _ZONE, "operator": "In", "values": [rng.choice(["zone-a", "zone-b", "zone-c"])]}
            terms = [{"matchExpressions": [expression]}]
            volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        draft.others.append(volume)
    for number, pod in enumerate(draft.incoming, start):
        for part in range(rng.choice([1, 1, 2])):
            size = rng.choice(["1Gi", "3Gi", "7Gi", "50Gi"])
            storage_class = rng.choice(["waiting", "local", "zoned"])
            name = f"waits-{draft.seed}-{number}-{part}"
            claim = _claim(name, pod["metadata"]["namespace"], size, storage_class=storage_class)
            draft.others.append(claim)
            _mount(pod, claim["metadata"]["name"])


def _broken(rng: random.Random, draft: Draft) -> None:
    start = _start(draft)
    for number, pod in enumerate(draft.incoming, start):
        namespace = pod["metadata"]["namespace"]
        kind = rng.randrange(5)
        name = f"broken-{draft.seed}-{number}"
        if kind == 1:
            draft.others.append(_claim(name, namespace))
        elif kind == 2:
            draft.others.append(_claim(name, namespace, storage_class="no-such-class"))
        elif kind == 3:
            draft.others.append(_claim(name, namespace, volume="no-such-volume"))
        elif kind == 4:
            claim = _claim(name, namespace, storage_class="waiting")
            claim["metadata"] |= {"finalizers": ["example.com/hold"], "deletionTimestamp": "now"}
            draft.others.append(claim)
        _mount(pod, name)


def _limits(rng: random.Random, draft: Draft) -> None:
    start = _start(draft)
    for node in draft.nodes:
        if rng.random() < 0.8:
            driver: Json = {"name": _DRIVER, "nodeID": node["metadata"]["name"]}
            if rng.random() < 0.9:
                driver["allocatable"] = {"count": rng.choice([0, 1, 2])}
            draft.others.append(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "CSINode",
                    "metadata": {"name": node["metadata"]["name"]},
                    "spec": {"drivers": [driver]},
                }
            )
    shared: dict[str, str] = {}
    for number, pod in enumerate(_some(rng, draft, 0.6), start):
        namespace = pod["metadata"]["namespace"]
        if namespace in shared and rng.random() < 0.4:
            _mount(pod, shared[namespace])
            continue
        _, claim = _bound_pair(rng, draft, pod, number)
        shared[namespace] = claim["metadata"]["name"]


def _exclusive(rng: random.Random, draft: Draft) -> None:
    _start(draft)
    for namespace in ("default", "team-a", "team-b"):
        claim = _claim("exclusive", namespace, volume=f"exclusive-{namespace}")
        volume = _volume(rng, f"exclusive-{namespace}", "exclusive", namespace)
        for one in (claim, volume):
            one["spec"]["accessModes"] = ["ReadWriteOncePod"]
        draft.others += [volume, claim]
    for pod in [*(one for one in draft.existing if rng.random() < 0.1), *draft.incoming]:
        _mount(pod, "exclusive")


def _disk(rng: random.Random) -> Json:
    read_only = rng.random() < 0.4
    kind = rng.randrange(4)
    if kind == 0:
        return {"gcePersistentDisk": {"pdName": rng.choice("ab"), "readOnly": read_only}}
    if kind == 1:
        return {"awsElasticBlockStore": {"volumeID": rng.choice(["vol-1", "vol-2"]), "readOnly": read_only}}
    if kind == 2:
        iqn = f"iqn.2001-04.com.example:{rng.choice('ab')}"
        return {"iscsi": {"targetPortal": "1.2.3.4", "iqn": iqn, "lun": 0, "readOnly": read_only}}
    monitors = rng.sample(["10.0.0.1", "10.0.0.2", "10.0.0.3"], 2)
    return {"rbd": {"monitors": monitors, "image": rng.choice("ab"), "readOnly": read_only}}


def _disks(rng: random.Random, draft: Draft) -> None:
    for pod in _some(rng, draft, 0.6):
        for _ in range(rng.choice([1, 1, 2])):
            volumes = pod["spec"].setdefault("volumes", [])
            volumes.append({"name": f"disk-{len(volumes)}", **_disk(rng)})


FEATURES = (
    Feature("volumes-bound", _VOLUMES, cluster=_bound),
    Feature("volumes-zones", _VOLUMES, cluster=_zones),
    Feature("volumes-waiting", _VOLUMES, cluster=_waiting),
    Feature("volumes-broken", _VOLUMES, cluster=_broken),
    Feature("volumes-limits", _VOLUMES, cluster=_limits),
    Feature("volumes-exclusive", _VOLUMES, cluster=_exclusive),
    Feature("volumes-disks", needs("VolumeRestrictions"), cluster=_disks),
)
