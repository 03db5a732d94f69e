"""What a real API server takes, however absurd, must not stop our daemon: every pod gets a node or a reason, and the
ordinary one beside them is placed at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.apiclient import Api, ApiError
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.integration.scheduler.preemption import OURS, our_daemon
from tests.integration.scheduler.queueing import HOSTNAME, claim, csi_node, node, pod, storage_class, using, volume
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.integration]

_NAMESPACE = "queue-a"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_AT_ONCE_SECONDS = 10.0
_KEPT_FREE = {"key": "example.com/kept-free", "effect": "NoSchedule"}
_KINDS = ("Pod", "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "Node")


def _sized(item: Any, **amounts: str) -> Any:
    item["status"]["allocatable"] = item["status"]["capacity"] = item["status"]["allocatable"] | amounts
    return item


def _asking(name: str, **amounts: str) -> Any:
    item = pod(name)
    item["spec"]["containers"][0]["resources"] = {"requests": amounts}
    return item


def _with(item: Any, **metadata: Any) -> Any:
    item["metadata"] |= metadata
    return item


def _term(**fields: Any) -> Any:
    return {_REQUIRED: [{"topologyKey": HOSTNAME, **fields}]}


def _node_term(key: str, operator: str, *values: str) -> Any:
    expression = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


def _spread(key: str, **fields: Any) -> list[Any]:
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **fields}]


HOSTILE: dict[str, Any] = {
    "a node of any size": _sized(node("huge"), cpu="1e30", memory="9223372036854775807", pods="999999999999"),
    "a node of nothing": _sized(node("tiny"), cpu="1n", memory="1m", pods="0"),
    "a node with odd resources": _sized(node("odd"), **{"example.com/x": "1e18", "hugepages-2Mi": "0"}),
    "a node of a thousand labels": node("labels", **{f"l{number}": "v" for number in range(1000)}),
    "a node of five hundred taints": node(
        "tainted", taints=tuple({"key": f"k{number}", "effect": "NoSchedule"} for number in range(500))
    ),
    "a node with images of nonsense": _with(
        node("images") | {"status": node("x")["status"] | {"images": [{"names": [""], "sizeBytes": -5}, {"names": []}]}}
    ),
    "more than there can be": _asking("cpu-1e30", cpu="1e30"),
    "more bytes than there can be": _asking("memory-1e30", memory="1e30"),
    "less than nothing": _asking("minus", cpu="-1"),
    "next to nothing": _asking("nano", cpu="1n", memory="1n"),
    "a resource of nobody": _asking("unknown", **{"example.com/none": "9223372036854775807"}),
    "five hundred containers": pod("containers")
    | {
        "spec": {
            "containers": [
                {"name": f"c{number}", "image": "i", "resources": {"requests": {"cpu": "1m"}}} for number in range(500)
            ]
        }
    },
    "annotations as long as they may be": _with(pod("annotations"), annotations={"a": "x" * (250 << 10)}),
    "annotations of a mebibyte": _with(pod("too-long"), annotations={"a": "x" * (1 << 20)}),
    "control characters in a name": _with(pod("x"), name="a\u0001b"),
    "control characters in an annotation": _with(pod("control"), annotations={"a": "\u0001\u001b[31m\r\n"}),
    "a thousand labels": pod("labels", labels={f"l{number}": "v" for number in range(1000)}),
    "a thousand tolerations": pod(
        "tolerations", tolerations=[{"key": f"k{number}", "operator": "Exists"} for number in range(1000)]
    ),
    "an unknown effect": pod("effect", tolerations=[{"operator": "Exists", "effect": "Bogus"}]),
    "an empty selector of pods to be near": pod("near-all", affinity={"podAffinity": _term(labelSelector={})}),
    "no selector of pods to be near": pod("near-none", affinity={"podAffinity": _term()}),
    "an empty selector of pods to be away from": pod("away-all", affinity={"podAntiAffinity": _term(labelSelector={})}),
    "a topology of nobody": pod(
        "topology", affinity={"podAffinity": {_REQUIRED: [{"topologyKey": "no/such", "labelSelector": {}}]}}
    ),
    "spreading over a topology of nobody": pod(
        "spread", topologySpreadConstraints=_spread("no/such", labelSelector={})
    ),
    "spreading over billions of domains": pod(
        "domains", topologySpreadConstraints=_spread(HOSTNAME, minDomains=2**31 - 1, labelSelector={})
    ),
    "spreading with nobody": pod("nobody", topologySpreadConstraints=_spread(HOSTNAME)),
    "more than no number": pod("greater", affinity=_node_term(HOSTNAME, "Gt", "99999999999999999999")),
    "an unknown operator": pod("operator", affinity=_node_term(HOSTNAME, "Bogus", "x")),
    "a thousand values": pod("values", affinity=_node_term(HOSTNAME, "NotIn", *(f"v{n}" for n in range(1000)))),
    "an unknown policy": pod("policy", preemptionPolicy="Bogus"),
    "claims to devices": pod("devices", resourceClaims=[{"name": "d", "resourceClaimName": "none"}]),
    "a pod on a node of nobody": pod("ghost", on="nowhere"),
    "a class of nobody": storage_class("nobody", "x" * 60),
    "a claim to more than there can be": claim("endless", "nobody")
    | {"spec": claim("x", "nobody")["spec"] | {"resources": {"requests": {"storage": "1e30"}}}},
    "a volume of more than there can be": volume("endless", "nobody")
    | {"spec": volume("x", "nobody")["spec"] | {"capacity": {"storage": "1e30"}}},
    "a pod that uses it": pod("endless", **using("endless")),
    "a pod with a claim of nobody": pod("claimless", **using("none")),
    "a node of no volumes": csi_node("huge", 0),
    "a budget of nobody": {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "nobody", "namespace": _NAMESPACE},
        "spec": {"minAvailable": "1000%", "selector": {}},
    },
}
"""The API server refuses some of them. Which, is its own business."""


def test_nothing_that_is_accepted_stops_the_scheduler(tmp_path: Path) -> None:
    with control_plane_running() as plane, our_daemon(plane, tmp_path):
        asyncio.run(_play(plane))


async def _play(plane: ControlPlane) -> None:
    api = Api(plane)
    try:
        await api.create({"kind": "Namespace", "metadata": {"name": _NAMESPACE}})
        accepted = [name for name, item in HOSTILE.items() if await _accepted(api, item)]
        assert len(accepted) > len(HOSTILE) * 2 / 3, f"refused: {sorted(set(HOSTILE) - set(accepted))}"
        # The others shall not come here: some of them want no neighbours.
        await _create(api, node("healthy", taints=(_KEPT_FREE,)))
        tolerations = [{"key": _KEPT_FREE["key"], "operator": "Exists"}]
        await _create(api, pod("beside", nodeSelector={HOSTNAME: "healthy"}, tolerations=tolerations))
        await _until(api, lambda pods: pods["beside"]["spec"].get("nodeName") == "healthy", _AT_ONCE_SECONDS)
        await _until(api, lambda pods: all(map(_answered, pods.values())), PATIENCE_SECONDS)
        for kind in _KINDS:
            await api.delete_all(kind, _NAMESPACE if kind in ("Pod", "PersistentVolumeClaim") else "")
        await _create(api, node("last"))
        # By name: nodes just deleted may still be in the scheduler's cache, and a pod may be bound to one, as upstream.
        await _create(api, pod("after", nodeSelector={HOSTNAME: "last"}))
        await _until(api, lambda pods: pods["after"]["spec"].get("nodeName") == "last", _AT_ONCE_SECONDS)
    finally:
        await api.close()


async def _accepted(api: Api, item: Any) -> bool:
    try:
        await _create(api, item)
    except ApiError:
        return False
    return True


async def _create(api: Api, item: Any) -> None:
    if item["kind"] == "Pod":
        item = item | {"spec": item["spec"] | {"schedulerName": OURS}}
    await api.create(item)


def _answered(item: Any) -> bool:
    """Whether a pod has a node, a reason, or waits for its volume or its claim, which nobody makes here."""
    conditions = {condition["type"]: condition for condition in item["status"].get("conditions", ())}
    reason = conditions.get("PodScheduled", {}).get("message")
    return bool(item["spec"].get("nodeName") or reason or item["metadata"]["name"] in ("endless", "devices"))


async def _until(api: Api, check: Callable[[dict[str, Any]], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        pods = {item["metadata"]["name"]: item for item in await api.list_all("Pod", _NAMESPACE)}
        if check(pods):
            return
        late = {name: item for name, item in pods.items() if not _answered(item)} or pods
        assert time.monotonic() < deadline, {
            name: (item["spec"].get("nodeName"), item["status"]) for name, item in late.items()
        }
        await asyncio.sleep(0.05)
