"""The order in which the real scheduler-plugins and ours take the pods of a full queue: QOSSort and TopologicalSort.

All pods are there before the scheduler starts. Upstream's comparison of TopologicalSort is no order where an AppGroup's
pods have pods of others between them; so each AppGroup has a priority of its own here. Pods that compare as equal may
come in any order.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass
from typing import Any

from scheduler.config import load_configuration
from scheduler.framework import Clocks, MonotonicSeconds, ProfileRunner, WallSeconds
from scheduler.helpers import PodReducer
from scheduler.kube.model import decode_pod
from scheduler.plugins import build_profile
from scheduler.state import CODEC_OF_KIND, ClusterState, SchedulingQueue
from tests.conformance.apiclient import Api
from tests.conformance.case import Json, key_of
from tests.conformance.controlplane import ControlPlane
from tests.conformance.profiles import document_of, scheduler_name
from tests.conformance.schedulerlog import LogState
from tests.conformance.schedulerplugins import options, scheduler_plugins_running
from tests.conformance.smallplugins import GROUP, WORKLOAD
from tests.conformance.surroundings import create_surroundings

PLUGINS = ("QOSSort", "TopologicalSort")
_PRIORITIES = ("lowest", "low", "", "middle", "high")
_PODS = 60
_SECONDS = 30.0


@dataclass(frozen=True)
class Comparison:
    """What both took, as classes of pods that are equal to the plugin."""

    plugin: str
    seed: int
    real: list[str]
    ours: dict[str, list[str]]

    @property
    def agrees(self) -> bool:
        """Whether the orders are the same, in either mode of ours."""
        return bool(self.real) and all(order == self.real for order in self.ours.values())

    def text(self) -> str:
        """The comparison as people read it."""
        if self.agrees:
            return f"{self.plugin}, seed {self.seed}: {len(self.real)} pods in the same order"
        return f"MISMATCH {self.plugin}, seed {self.seed}\n  real {self.real}\n  ours {self.ours}"


def configuration(plugin: str, kubeconfig: str, *, ours: bool, compatibility: str = "upstream") -> str:
    """A profile whose queue the plugin sorts."""
    args = {"args": {"namespaces": ["team-a", "default"]}} if plugin == "TopologicalSort" else None
    config = [{"name": plugin, **args}] if args else []
    mode = [options(compatibility)] if ours else []
    points = {
        "queueSort": {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]},
        "postFilter": {"disabled": [{"name": "*"}]},
    }
    profile = {"schedulerName": scheduler_name("small-queue"), "plugins": points, "pluginConfig": config + mode}
    return document_of([profile], kubeconfig)


def generate(plugin: str, seed: int) -> tuple[list[Json], list[Json]]:
    """AppGroups, and pods that find no node."""
    rng = random.Random(f"{plugin}/{seed}")
    groups = [_app_group(rng, f"app-{number}") for number in range(3)] if plugin == "TopologicalSort" else []
    pods = [_pod(rng, f"p-{number:03d}", groups) for number in range(_PODS)]
    return groups, pods


def _app_group(rng: random.Random, name: str) -> Json:
    selectors = sorted(f"w{number}" for number in range(rng.randint(2, 12)))
    indexes = rng.sample(range(1, 20), len(selectors))
    order = [
        {"workload": _workload(selector), "index": index} for selector, index in zip(selectors, indexes, strict=True)
    ]
    workloads = [{"workload": _workload(selector)} for selector in selectors]
    return {
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind": "AppGroup",
        "metadata": {"name": name, "namespace": rng.choice(("default", "team-a"))},
        "spec": {"numMembers": 3, "topologySortingAlgorithm": "KahnSort", "workloads": workloads},
        "status": {"topologyOrder": order},
    }


def _workload(selector: str) -> Json:
    return {"kind": "Deployment", "name": f"d-{selector}", "selector": selector}


def _pod(rng: random.Random, name: str, groups: list[Json]) -> Json:
    container: Json = {"name": "c", "image": "registry.k8s.io/pause"}
    small = {"cpu": "10m", "memory": "10Mi"}
    shape = rng.random()
    if shape < 0.35:
        container["resources"] = {"requests": small, "limits": small}
    elif shape < 0.7:
        container["resources"] = rng.choice(
            ({"requests": {"cpu": "10m"}}, {"limits": {"memory": "1Gi"}}, {"requests": small})
        )
    spec: Json = {"containers": [container], "schedulerName": scheduler_name("small-queue")}
    if rng.random() < 0.15:
        spec["initContainers"] = [{"name": "i", "image": "registry.k8s.io/pause"}]
    labels = {}
    priorities = _PRIORITIES[len(groups) :]
    if groups and rng.random() < 0.6:
        number = rng.randrange(len(groups))
        priorities = (_PRIORITIES[number],)
        labels = {GROUP: groups[number]["metadata"]["name"], WORKLOAD: f"w{rng.randrange(13)}"}
    if chosen := rng.choice(priorities):
        spec["priorityClassName"] = chosen
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": spec,
    }


async def compare(control_plane: ControlPlane, plugin: str, seed: int) -> Comparison:
    """Fill a queue and see in which order it is emptied. The CRDs must be there."""
    groups, pods = generate(plugin, seed)
    api = Api(control_plane)
    created: list[Json] = []
    try:
        await create_surroundings(api)
        await api.create_all(groups, created)
        # One after the other: the real scheduler lists them by name, and so do we.
        await api.create_all(pods, created)
        await api.create({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "small"}})
        stored = [item for item in created if item["kind"] == "Pod"]
        groups_by_name = {item["metadata"]["name"]: item for item in created if item["kind"] == "AppGroup"}
        class_of = {key_of(item): _class(plugin, item, groups_by_name) for item in stored}
        real = await _real(control_plane, plugin, len(pods))
        ours = {mode: _ours(plugin, stored, groups, mode) for mode in ("safe", "upstream")}
    finally:
        for kind in ("Pod", "AppGroup"):
            for namespace in ("default", "team-a"):
                await api.delete_all(kind, namespace)
        await api.delete_all("Node")
        await api.close()
    classes = {mode: [class_of[key] for key in order] for mode, order in ours.items()}
    return Comparison(plugin, seed, [class_of[key] for key in real], classes)


async def _real(control_plane: ControlPlane, plugin: str, number: int) -> list[str]:
    text = configuration(plugin, str(control_plane.layout.kubeconfig), ours=False)
    with scheduler_plugins_running(control_plane, text) as real:
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline and real.alive():
            log = LogState()
            for line in real.log.read_text(errors="replace").splitlines():
                log.feed(line)
            if len(log.attempts) >= number:
                return list(log.attempts)
            await asyncio.sleep(0.2)
    return []


def _ours(plugin: str, pods: list[Json], groups: list[Json], mode: str) -> list[str]:
    text = configuration(plugin, "", ours=True, compatibility=mode)
    runner: ProfileRunner = build_profile(load_configuration(text, source="conformance").profiles[0])
    state = ClusterState()
    for item in groups:
        state.objects.upsert("AppGroup", CODEC_OF_KIND["AppGroup"].decode(json.dumps(item).encode()))
    runner.use_objects(state.objects)
    now = 0.0
    queue = SchedulingQueue(
        clocks=Clocks(lambda: WallSeconds(now), lambda: MonotonicSeconds(now)), sort_key=runner.queue_sort.sort_key
    )
    reducer = PodReducer()
    for item in sorted(pods, key=key_of):
        now += 1e-6
        queue.add(reducer.reduce(decode_pod(json.dumps(item).encode())))
    return [entry.pod.key for _ in pods if (entry := queue.pop()) is not None]


def _class(plugin: str, pod: Json, groups: dict[str, Any]) -> str:
    """What the plugin tells pods apart by; ordinary pods stand for themselves."""
    name = pod["metadata"].get("labels", {}).get(GROUP)
    if plugin == "TopologicalSort" and name:
        order = {
            workload["workload"]["selector"]: workload["index"] for workload in groups[name]["status"]["topologyOrder"]
        }
        return f"{name}/{order.get(pod['metadata']['labels'][WORKLOAD], -1)}"
    return key_of(pod)
