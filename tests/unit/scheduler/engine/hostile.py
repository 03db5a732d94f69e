"""Hostile objects: rich, valid ones in which a few values have been replaced by nonsense."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

Json = Any

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}],
}
_TERM = {
    "labelSelector": _SELECTOR,
    "topologyKey": "kubernetes.io/hostname",
    "namespaces": ["ns"],
    "namespaceSelector": {"matchLabels": {"team": "a"}},
    "matchLabelKeys": ["version"],
}
_NODE_TERM = {
    "matchExpressions": [{"key": "size", "operator": "Gt", "values": ["5"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["strange"]}],
}


def _container(name: str) -> Json:
    amounts = {"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "1Gi", "example.com/gpu": "1"}
    return {
        "name": name,
        "image": "registry.example.com/app:1",
        "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP", "hostIP": "127.0.0.1"}],
        "resources": {"requests": amounts, "limits": amounts},
    }


def _metadata(name: str, *, namespaced: bool = True) -> Json:
    return {
        "name": name,
        **({"namespace": "ns"} if namespaced else {}),
        "uid": f"{name}-uid",
        "resourceVersion": "7",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "web", "version": "1", "topology.kubernetes.io/zone": "a"},
        "annotations": {"note": "text", "pv.kubernetes.io/bind-completed": "yes"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "u", "controller": True}
        ],
    }


POD: Json = {
    "metadata": _metadata("strange"),
    "spec": {
        "schedulerName": "secondary-scheduler",
        "priority": 7,
        "preemptionPolicy": "PreemptLowerPriority",
        "containers": [_container("a"), _container("b")],
        "initContainers": [_container("i") | {"restartPolicy": "Always"}, _container("j")],
        "resources": {"requests": {"cpu": "1"}},
        "overhead": {"cpu": "10m"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 5}],
        "affinity": {
            "nodeAffinity": {
                _REQUIRED: {"nodeSelectorTerms": [_NODE_TERM]},
                _PREFERRED: [{"weight": 5, "preference": _NODE_TERM}],
            },
            "podAffinity": {_REQUIRED: [_TERM], _PREFERRED: [{"weight": 5, "podAffinityTerm": _TERM}]},
            "podAntiAffinity": {_REQUIRED: [_TERM], _PREFERRED: [{"weight": 5, "podAffinityTerm": _TERM}]},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "minDomains": 2,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": action,
                "labelSelector": _SELECTOR,
                "matchLabelKeys": ["version"],
                "nodeAffinityPolicy": "Honor",
                "nodeTaintsPolicy": "Honor",
            }
            for action in ("DoNotSchedule", "ScheduleAnyway")
        ],
        "volumes": [
            {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}},
            {"name": "g", "gcePersistentDisk": {"pdName": "disk", "readOnly": False}},
            {"name": "a", "awsElasticBlockStore": {"volumeID": "disk"}},
            {"name": "i", "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn", "lun": 0}},
            {"name": "r", "rbd": {"monitors": ["m"], "image": "i", "pool": "p"}},
            {"name": "s", "csi": {"driver": "driver.example.com"}},
        ],
    },
    "status": {
        "phase": "Pending",
        "nominatedNodeName": "strange",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "PodScheduled", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "containerStatuses": [
            {"name": "a", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "2"}}},
        ],
    },
}
PLAIN_POD: Json = {
    "metadata": {"name": "plain", "namespace": "ns", "uid": "plain-uid", "resourceVersion": "7", "labels": {}},
    "spec": {
        "schedulerName": "secondary-scheduler",
        "containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}],
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {},
        "affinity": {"podAntiAffinity": {_REQUIRED: [{"labelSelector": {}, "topologyKey": "no/such"}]}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "no/such", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
        ],
    },
    "status": {"phase": "Pending"},
}
"""Nothing of it is out of the ordinary: what is replaced here meets every plugin."""
NODE: Json = {
    "metadata": _metadata("strange", namespaced=False),
    "spec": {
        "unschedulable": False,
        "taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
    },
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "2"},
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "2"},
        "images": [{"names": ["registry.example.com/app:1", "i:latest"], "sizeBytes": 50_000_000}],
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    },
}
_NODE_SELECTOR = {"nodeSelectorTerms": [_NODE_TERM]}
OTHERS: dict[str, Json] = {
    "PersistentVolume": {
        "metadata": _metadata("volume", namespaced=False),
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
            "claimRef": {"namespace": "ns", "name": "claim", "uid": "claim-uid"},
            "csi": {"driver": "driver.example.com", "volumeHandle": "h"},
            "nodeAffinity": {"required": _NODE_SELECTOR},
        },
        "status": {"phase": "Bound"},
    },
    "PersistentVolumeClaim": {
        "metadata": _metadata("claim"),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "volumeName": "volume",
            "selector": _SELECTOR,
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound"},
    },
    "StorageClass": {
        "metadata": _metadata("fast", namespaced=False),
        "provisioner": "driver.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
    },
    "CSINode": {
        "metadata": _metadata("strange", namespaced=False),
        "spec": {"drivers": [{"name": "driver.example.com", "nodeID": "n", "allocatable": {"count": 1}}]},
    },
    "CSIDriver": {
        "metadata": _metadata("driver.example.com", namespaced=False),
        "spec": {"storageCapacity": True, "attachRequired": True},
    },
    "CSIStorageCapacity": {
        "metadata": _metadata("capacity"),
        "storageClassName": "fast",
        "nodeTopology": _SELECTOR,
        "capacity": "1Gi",
        "maximumVolumeSize": "1Gi",
    },
    "VolumeAttachment": {
        "metadata": _metadata("attachment", namespaced=False),
        "spec": {"attacher": "driver.example.com", "nodeName": "strange", "source": {"persistentVolumeName": "volume"}},
    },
    "PodDisruptionBudget": {
        "metadata": _metadata("budget"),
        "spec": {"minAvailable": 1, "selector": _SELECTOR},
        "status": {"disruptionsAllowed": 0, "disruptedPods": {"x": "2026-01-01T00:00:00Z"}},
    },
    "ResourceClaim": {
        "metadata": _metadata("devices") | {"finalizers": ["example.com/keep"]},
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "r",
                        "exactly": {
                            "deviceClassName": "gpu",
                            "allocationMode": "ExactCount",
                            "count": 1,
                            "selectors": [{"cel": {"expression": 'device.driver == "driver.example.com"'}}],
                            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
                        },
                    },
                    {"name": "f", "firstAvailable": [{"name": "a", "deviceClassName": "gpu", "allocationMode": "All"}]},
                ],
                "constraints": [{"matchAttribute": "driver.example.com/model", "requests": ["r"]}],
                "config": [{"requests": ["r"], "opaque": {"driver": "driver.example.com", "parameters": {"a": 1}}}],
            }
        },
        "status": {},
    },
    "DeviceClass": {
        "metadata": _metadata("gpu", namespaced=False),
        "spec": {
            "selectors": [{"cel": {"expression": 'device.attributes["driver.example.com"].model == "m"'}}],
            "config": [{"opaque": {"driver": "driver.example.com", "parameters": {"a": 1}}}],
        },
    },
    "ResourceSlice": {
        "metadata": _metadata("slice", namespaced=False),
        "spec": {
            "driver": "driver.example.com",
            "pool": {"name": "strange", "generation": 1, "resourceSliceCount": 1},
            "nodeSelector": _NODE_SELECTOR,
            "devices": [
                {
                    "name": "d",
                    "attributes": {"model": {"string": "m"}, "n": {"int": 1}, "v": {"version": "1.2.3"}},
                    "capacity": {"memory": {"value": "1Gi"}},
                    "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
                }
            ],
        },
    },
    "Namespace": {"metadata": _metadata("ns", namespaced=False)},
    "Service": {"metadata": _metadata("service"), "spec": {"selector": {"app": "web"}}},
    "ReplicaSet": {"metadata": _metadata("set"), "spec": {"selector": _SELECTOR}},
}

_NONSENSE: tuple[Json, ...] = (
    *(None, True, 0, -1, 2**31, -(2**31), 2**63 - 1, 2**63, 2**70, 1e30, 0.5),
    *("", " ", "-1", "1n", "1e30", "-1e30", "1e400", "0x10", "1Gi", "99999999999999999999Ei", "١", "NaN", "1.5.2"),
    *(
        "\u0000\u001b[31m\n",
        "\ud7ff\uffff",
        "x" * 300,
        "../../etc",
        "In",
        "NotIn",
        "Exists",
        "Gt",
        "NoSchedule",
        "Bogus",
    ),
    *("strange", "no/such/key/", "Always", "DoNotSchedule", "9999-99-99T99:99:99Z", "0001-01-01T00:00:00Z"),
    *([], [None], [[]], [{}], {}, {"": ""}, {"a": None}, {"": None}, [""], ["a", "a"], {"cpu": "1e30"}, {"cpu": "-5"}),
    {f"label-{number}": "v" * 60 for number in range(300)},
    [{"key": f"k{number}", "operator": "Exists", "effect": "NoSchedule"} for number in range(100)],
)


def _paths(value: Json, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    paths = [at] if at else []
    if isinstance(value, dict):
        for key, field in value.items():
            paths += _paths(field, (*at, key))
    elif isinstance(value, list):
        for index, element in enumerate(value):
            paths += _paths(element, (*at, index))
    return paths


def _put(item: Json, path: tuple[Any, ...], value: Json) -> None:
    for step in path[:-1]:
        try:
            item = item[step]
        except (LookupError, TypeError):
            return
    if isinstance(item, (dict, list)):
        if value is _LEAVE_OUT:
            if isinstance(item, dict):
                item.pop(path[-1], None)
        elif isinstance(item, dict) or (isinstance(path[-1], int) and path[-1] < len(item)):
            item[path[-1]] = copy.deepcopy(value)


_LEAVE_OUT = object()


@st.composite
def spoilt(draw: st.DrawFn, base: Json) -> Json:
    """A copy of an object with one to four values replaced or left out; names and UIDs of pods and nodes stay."""
    paths = [path for path in _paths(base) if path not in (("metadata",), ("metadata", "uid"), ("metadata", "name"))]
    values = st.sampled_from((*_NONSENSE, _LEAVE_OUT))
    item = copy.deepcopy(base)
    for path, value in draw(st.lists(st.tuples(st.sampled_from(paths), values), min_size=1, max_size=4)):
        _put(item, path, value)
    return item
