"""Volumes: claims bound, waiting, missing or lost; zones, limits, access modes, disks named in the pod."""

from __future__ import annotations

import random

from tests.conformance.features.draft import Draft, Feature, Json, labels_of, needs

_VOLUMES = needs("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
_DRIVER = "disk.example.com"
_ZONE = "topology.kubernetes.io/zone"
_ZONES = ["zone-a", "zone-b", "zone-c"]
_CAPACITIES = ["0", "2Gi", "5Gi", "100Gi"]


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
    # Several features may count from the same number.
    name = f"{draft.seed}-{number}-{len(draft.others)}"
    claim = _claim(f"bound-{name}", namespace, volume=f"volume-{name}")
    volume = _volume(rng, f"volume-{name}", claim["metadata"]["name"], namespace)
    draft.others += [volume, claim]
    _mount(pod, claim["metadata"]["name"])
    return volume, claim


def _start(draft: Draft) -> int:
    if not any(item["kind"] == "StorageClass" for item in draft.others):
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
            expression = {"key": _ZONE, "operator": "In", "values": [rng.choice(_ZONES)]}
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
            driver: Json = {"name": _DRIVER}
            if rng.random() < 0.9:
                driver["allocatable"] = {"count": rng.choice([0, 1, 2])}
            _speak(draft, node, driver, {})
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
        for item in (claim, volume):
            item["spec"]["accessModes"] = ["ReadWriteOncePod"]
        draft.others += [volume, claim]
    for pod in [*(existing for existing in draft.existing if rng.random() < 0.1), *draft.incoming]:
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


def _attributes(rng: random.Random, draft: Draft) -> None:
    """As `_choice`; claims and volumes may have a VolumeAttributesClass."""
    _choice(rng, draft)
    claims = [item for item in draft.others if item["metadata"]["name"].startswith("chooses-")]
    volumes = [item for item in draft.others if item["kind"] == "PersistentVolume"]
    for item in rng.sample(claims, len(claims) // 3) + rng.sample(volumes, len(volumes) // 3):
        item["spec"]["volumeAttributesClassName"] = "silver"


def _choice(rng: random.Random, draft: Draft) -> None:
    """Volumes that suit a claim, or miss it by one property; all sizes differ, as ties are broken at random."""
    start = _start(draft)
    sizes = rng.sample(range(900, 4000), 12)
    for number, pod in enumerate(draft.incoming, start):
        namespace = pod["metadata"]["namespace"]
        for part in range(rng.choice([1, 2, 2])):
            claim = _claim(f"chooses-{number}-{part}", namespace, f"{1000 + 37 * part}Mi", storage_class="local")
            if rng.random() < 0.3:
                claim["spec"]["selector"] = {"matchLabels": {"tier": "gold"}}
            if rng.random() < 0.2:
                claim["spec"]["volumeMode"] = "Block"
            if rng.random() < 0.2:
                claim["spec"]["accessModes"] = ["ReadWriteOnce", "ReadOnlyMany"]
            if rng.random() < 0.15:
                claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = _any_node(rng, draft)
            draft.others.append(claim)
            _mount(pod, claim["metadata"]["name"])
    claims = [item for item in draft.others if item["metadata"]["name"].startswith("chooses-")]
    for number, size in enumerate(sizes[: rng.randint(2, 12)]):
        draft.others.append(_offered(rng, f"offer-{start}-{number}", f"{size}Mi", claims))


def _offered(rng: random.Random, name: str, size: str, claims: list[Json]) -> Json:
    # At most one for a claim: of two, upstream takes the one its map gives first.
    claim = claims.pop(rng.randrange(len(claims))) if claims and rng.random() < 0.2 else None
    volume = _volume(rng, name, "", "", storageClassName=rng.choice(["local", "local", "local", "waiting"]))
    spec = volume["spec"]
    spec["capacity"] = {"storage": size}
    if claim is not None:
        spec["claimRef"] = _reference(claim["metadata"]["name"], claim["metadata"]["namespace"])
    if rng.random() < 0.5:
        volume["metadata"]["labels"]["tier"] = rng.choice(["gold", "silver"])
    if rng.random() < 0.2:
        spec["volumeMode"] = "Block"
    if rng.random() < 0.4:
        spec["accessModes"] = ["ReadOnlyMany", "ReadWriteOnce"]
    if rng.random() < 0.15:
        volume["status"]["phase"] = rng.choice(["Released", "Pending", "Failed"])
    if rng.random() < 0.6:
        zones = rng.sample(_ZONES, rng.randint(1, 2))
        expressions: list[Json] = [{"key": _ZONE, "operator": rng.choice(["In", "NotIn"]), "values": zones}]
        if rng.random() < 0.2:
            expressions.append({"key": "tier", "operator": "Exists"})
        terms: list[Json] = [{"matchExpressions": expressions}]
        if rng.random() < 0.2:
            terms.append({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["nowhere"]}]})
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return volume


def _any_node(rng: random.Random, draft: Draft) -> str:
    return str(rng.choice(draft.nodes)["metadata"]["name"]) if draft.nodes else "nowhere"


def _capacity(rng: random.Random, draft: Draft) -> None:
    """A driver that may tell how much room it has where, and classes that make volumes in some places only."""
    start = _start(draft)
    driver = "tracked.example.com"
    if rng.random() < 0.85:
        spec = {"attachRequired": False, "storageCapacity": rng.random() < 0.85}
        draft.others.append(
            {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": driver}, "spec": spec}
        )
    places = [{"key": _ZONE, "values": rng.sample(_ZONES, rng.randint(1, 3))}]
    if rng.random() < 0.3:
        places.append({"key": "tier", "values": ["gold", "silver"]})
    topologies: Json = {"allowedTopologies": [{"matchLabelExpressions": places}]} if rng.random() < 0.5 else {}
    draft.others.append(
        _class("tracked", volumeBindingMode="WaitForFirstConsumer", **topologies) | {"provisioner": driver}
    )
    draft.others += _rooms(rng, start)
    for number, pod in enumerate(draft.incoming, start):
        size = rng.choice(["1Gi", "3Gi", "7Gi"])
        claim = _claim(f"grows-{number}", pod["metadata"]["namespace"], size, storage_class="tracked")
        draft.others.append(claim)
        _mount(pod, claim["metadata"]["name"])


def _rooms(rng: random.Random, start: int) -> list[Json]:
    """Where several with room fit a node, kube-scheduler 1.37 scores any of them (docs/differences.md). So either each
    is for a zone of its own, or all say the same."""
    if rng.random() < 0.5:
        return [
            _room(rng, f"room-{start}-{number}", {"matchLabels": {_ZONE: zone}}, rng.choice(_CAPACITIES))
            for number, zone in enumerate(rng.sample(_ZONES, rng.randint(0, len(_ZONES))))
        ]
    capacity = rng.choice(_CAPACITIES)
    return [
        _room(rng, f"room-{start}-{number}", _topology(rng), capacity if rng.random() < 0.9 else None)
        for number in range(rng.randint(0, 4))
    ]


def _topology(rng: random.Random) -> Json | None:
    if rng.random() < 0.1:
        return None
    zones = rng.sample(_ZONES, rng.randint(1, 2))
    expression = {"key": _ZONE, "operator": rng.choice(["In", "NotIn"]), "values": zones}
    topologies: list[Json] = [{"matchLabels": {_ZONE: zones[0]}}, {"matchExpressions": [expression]}, {}]
    return rng.choice(topologies)


def _room(rng: random.Random, name: str, topology: Json | None, capacity: str | None) -> Json:
    room: Json = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": rng.choice(["tracked", "tracked", "tracked", "waiting"]),
    }
    if topology is not None:
        room["nodeTopology"] = topology
    if capacity is not None:
        room["capacity"] = capacity
        if rng.random() < 0.4:  # without a capacity beside it, kube-scheduler 1.37 panics: docs/differences.md
            room["maximumVolumeSize"] = rng.choice(["1Gi", "4Gi", "3221225472"])
    return room


_IN_TREE = (
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com", ""),
)


def _in_tree_source(plugin: str, disk: str) -> Json:
    match plugin:
        case "kubernetes.io/aws-ebs":
            return {"awsElasticBlockStore": {"volumeID": disk}}
        case "kubernetes.io/gce-pd":
            return {"gcePersistentDisk": {"pdName": disk}}
        case "kubernetes.io/cinder":
            return {"cinder": {"volumeID": disk}}
        case _:
            return {"portworxVolume": {"volumeID": disk}}


def _migrated(rng: random.Random, draft: Draft) -> None:
    """Disks of in-tree plugins, in the pod or behind a claim, on nodes that did or did not hand them to a driver."""
    start = _start(draft)
    plugin, driver, topology = rng.choice(_IN_TREE)
    for node in draft.nodes:
        zone = labels_of(node).get(_ZONE)
        if topology and zone and rng.random() < 0.7:
            labels_of(node)[topology] = zone if rng.random() < 0.7 else rng.choice(["zone-a", "zone-b"])
        if rng.random() < 0.85:
            _csi_node(rng, draft, node, driver, plugin)
    for number, pod in enumerate(_some(rng, draft, 0.6), start):
        disk = f"vol-{rng.choice('abc')}"
        if rng.random() < 0.4:
            volumes = pod["spec"].setdefault("volumes", [])
            volumes.append({"name": f"disk-{len(volumes)}", **_in_tree_source(plugin, disk)})
            continue
        volume, _ = _bound_pair(rng, draft, pod, number)
        del volume["spec"]["csi"]
        volume["spec"] |= _in_tree_source(plugin, f"aws://zone-a/{disk}" if "aws" in plugin else disk)
        key = rng.choice([_ZONE, "failure-domain.beta.kubernetes.io/zone"])
        zones = rng.sample(_ZONES, rng.randint(1, 2))
        if rng.random() < 0.5:
            expression = {"key": key, "operator": "In", "values": zones}
            terms = [{"matchExpressions": [expression]}]
            volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        elif rng.random() < 0.5:
            volume["metadata"]["labels"][key] = zones[0]


def _speak(draft: Draft, node: Json, driver: Json, annotations: Json) -> None:
    """Let a driver speak of a node: what all drivers say stands in one object."""
    name = node["metadata"]["name"]
    known = [item for item in draft.others if item["kind"] == "CSINode" and item["metadata"]["name"] == name]
    if not known:
        known = [
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": name, "annotations": {}},
                "spec": {"drivers": []},
            }
        ]
        draft.others += known
    drivers = known[0]["spec"]["drivers"]
    if all(entry["name"] != driver["name"] for entry in drivers):
        drivers.append({**driver, "nodeID": name})
    known[0]["metadata"]["annotations"] |= annotations


def _csi_node(rng: random.Random, draft: Draft, node: Json, driver: str, plugin: str) -> None:
    spoken: Json = {"name": driver}
    if rng.random() < 0.8:
        spoken["allocatable"] = {"count": rng.choice([0, 1, 2, 3])}
    annotations: Json = {}
    if rng.random() < 0.7:
        plugins = rng.choice([plugin, f"kubernetes.io/other,{plugin}"])
        annotations["storage.alpha.kubernetes.io/migrated-plugins"] = plugins
    _speak(draft, node, spoken, annotations)


def _attached(rng: random.Random, draft: Draft) -> None:
    """Volumes that are attached although no pod on the node uses them, or one does."""
    _limits(rng, draft)
    volumes = [item for item in draft.others if item["kind"] == "PersistentVolume"]
    for number, volume in enumerate(volumes):
        if rng.random() < 0.5:
            continue
        attacher = _DRIVER if rng.random() < 0.9 else "other.example.com"
        source = {"persistentVolumeName": volume["metadata"]["name"]}
        draft.others.append(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "VolumeAttachment",
                "metadata": {"name": f"attached-{number}"},
                "spec": {"attacher": attacher, "nodeName": _any_node(rng, draft), "source": source},
            }
        )


def _ephemeral(rng: random.Random, draft: Draft) -> None:
    """Ephemeral volumes: nobody makes their claims here, and a claim of that name may be somebody else's."""
    _start(draft)
    for pod in draft.incoming:
        template = {"spec": _claim("x", "x", storage_class="waiting")["spec"]}
        volumes = pod["spec"].setdefault("volumes", [])
        name = f"scratch-{len(volumes)}"
        volumes.append({"name": name, "ephemeral": {"volumeClaimTemplate": template}})
        if rng.random() < 0.4:
            claim = _claim(f"{pod['metadata']['name']}-{name}", pod["metadata"]["namespace"], storage_class="waiting")
            draft.others.append(claim)


FEATURES = (
    Feature("volumes-bound", _VOLUMES, cluster=_bound),
    Feature("volumes-zones", _VOLUMES, cluster=_zones),
    Feature("volumes-waiting", _VOLUMES, cluster=_waiting),
    Feature("volumes-broken", _VOLUMES, cluster=_broken),
    Feature("volumes-limits", _VOLUMES, cluster=_limits),
    Feature("volumes-exclusive", _VOLUMES, cluster=_exclusive),
    Feature("volumes-choice", _VOLUMES, cluster=_choice),
    Feature("volumes-attributes", _VOLUMES, cluster=_attributes),
    Feature("volumes-capacity", _VOLUMES, cluster=_capacity),
    Feature("volumes-migrated", _VOLUMES, cluster=_migrated),
    Feature("volumes-attached", _VOLUMES, cluster=_attached),
    Feature("volumes-ephemeral", _VOLUMES, cluster=_ephemeral),
    Feature("volumes-disks", needs("VolumeRestrictions"), cluster=_disks),
)
