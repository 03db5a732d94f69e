"""Pods that list thousands of terms, on a real API server: they delay nobody, and one that is too much work is parked
with a reason that says what to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.apiclient import Api
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.integration.scheduler.preemption import OURS, our_daemon
from tests.integration.scheduler.queueing import HOSTNAME, NAMESPACE, ZONE, node, pod

pytestmark = [pytest.mark.integration]

Json = dict[str, Any]
NODES, RUNNING, KEYS, HOSTILE = 6, 300, 1000, 4
TOO_MANY = 7000
"""Terms; each is compared with the labels of all running pods, of which no two have the same."""
_PATIENCE_SECONDS = 120.0
"""Classes that were rebuilt for each key took 15 s for one of the pods, and a minute for all."""


def _near(keys: list[str], topology: str) -> Json:
    """Preferred terms, of a key each."""
    terms = [
        {
            "weight": 1,
            "podAffinityTerm": {
                "topologyKey": topology,
                "labelSelector": {"matchExpressions": [{"key": key, "operator": "Exists"}]},
            },
        }
        for key in keys
    ]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def _waiting(name: str, **spec: Any) -> Json:
    return pod(name, "1m", schedulerName=OURS, labels={"app": name}, **spec)


def test_pods_of_a_thousand_keys_delay_nobody_and_one_beyond_the_budget_is_parked(tmp_path: Path) -> None:
    with control_plane_running() as plane, our_daemon(plane, tmp_path):
        asyncio.run(_play(plane))


async def _play(plane: ControlPlane) -> None:
    api = Api(plane)
    try:
        await api.create({"kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for number in range(NODES):
            await api.create(node(f"n{number}", "64", zone=f"z{number % 3}"))
        labels = [{"app": f"app-{number}", f"key-{number}": "x"} for number in range(RUNNING)]
        running = [pod(f"old-{n}", "1m", on=f"n{n % NODES}", labels=each) for n, each in enumerate(labels)]
        await api.create_all(running, [])
        for number in range(HOSTILE):
            # Keys of its own, and those that the running pods carry.
            keys = [f"key-{n}" if n % 2 else f"own-{number}-{n}" for n in range(KEYS)]
            await api.create(_waiting(f"hostile-{number}", affinity=_near(keys, (ZONE, HOSTNAME)[number % 2])))
        await api.create(_waiting("next"))
        await _until(api, lambda pods: all(pods[name]["spec"].get("nodeName") for name in pods))
        await api.create(_waiting("too-much", affinity=_near(["app"] * TOO_MANY, ZONE)))
        await api.create(_waiting("after"))
        await _until(api, lambda pods: bool(pods["after"]["spec"].get("nodeName") and _reason(pods["too-much"])))
        pods = {item["metadata"]["name"]: item for item in await api.list_all("Pod", NAMESPACE)}
        message = _reason(pods["too-much"])
        assert not pods["too-much"]["spec"].get("nodeName")
        assert "0/6 nodes are available: the pod is too much work for plugin InterPodAffinity: " in message
        assert "at most 1000000 are done in one attempt; list fewer in the pod's spec" in message
        # Whatever happens in the cluster, it is not tried at once again: each attempt is an Event.
        await api.delete(pods["old-0"])
        await api.create(_waiting("last"))
        await _until(api, lambda pods: bool(pods["last"]["spec"].get("nodeName")))
    finally:
        await api.close()


def _reason(item: Json) -> str:
    conditions = {condition["type"]: condition for condition in item["status"].get("conditions", ())}
    message: str = conditions.get("PodScheduled", {}).get("message", "")
    return message


async def _until(api: Api, check: Callable[[Json], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        pods = {item["metadata"]["name"]: item for item in await api.list_all("Pod", NAMESPACE)}
        if check(pods):
            return
        late = {name: item["status"] for name, item in pods.items() if not item["spec"].get("nodeName")}
        assert time.monotonic() < deadline, late
        await asyncio.sleep(0.2)
