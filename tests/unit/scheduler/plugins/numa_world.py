"""A cluster with the plugin in it, driven by hand: what is published, what runs, and when it is compared."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from scheduler.config import load_configuration
from scheduler.framework import CycleState, PeriodicWork, PodInfo, ProfileRunner
from scheduler.plugins import build_profile
from scheduler.plugins.noderesourcetopologymatch import NodeResourceTopologyMatch
from scheduler.plugins.noderesourcetopologymatch.fingerprint import fingerprint
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, pod
from tests.unit.scheduler.plugins.numa import KIND, NAME, guaranteed, state_of, topology, verdicts, zone

STALE = "invalid node topology data"
FULL = "cannot align container"
TWO = {"cpu": "2", "memory": "1Gi"}


class FakeHandle:
    """What the plugin needs of the engine, driven by hand."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.repeated: dict[str, tuple[float, PeriodicWork]] = {}
        self.lines: list[tuple[str, dict[str, object]]] = []
        self.activated: list[str] = []
        self.ended: list[PodInfo] = []
        self.asked: list[str] = []

    def run_every(self, seconds: float, work: PeriodicWork, name: str) -> None:
        self.repeated[name] = (seconds, work)

    def log(self, severity: str, plugin: str, message: str, **fields: object) -> None:
        self.lines.append((severity, fields))

    def watch_pods(self, listener: Callable[[PodInfo | None, PodInfo | None], None]) -> None:
        self.state.watch_pods(listener)

    def pods_on(self, node: str) -> Iterable[PodInfo]:
        return self.state.pods_on(node)

    async def ended_pods(self, node: str) -> list[PodInfo]:
        self.asked.append(node)
        return [pod for pod in self.ended if pod.node_name == node]

    def node(self, name: str) -> Any:
        return self.state.node(name)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        self.activated += [pod.name for pod in pods]


async def keep_going() -> None:
    """There is nobody to give way to."""


class NumaCluster:
    """A cluster with a plugin that is told of everything, and whose loop runs when it is asked to."""

    def __init__(self, *topologies: Any, compatibility: str = "safe", **args: Any) -> None:
        self.state = state_of(*topologies)
        self.handle = FakeHandle(self.state)
        config = [
            {"name": NAME, "args": args},
            {"name": "SecondarySchedulerOptions", "args": {"compatibility": compatibility}},
        ]
        points: dict[str, Any] = {
            point: {"enabled": [{"name": NAME}]} for point in ("filter", "score", "reserve", "postBind")
        }
        profile = {"schedulerName": "test", "plugins": points, "pluginConfig": config}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
        text = msgspec.json.encode(document).decode()
        configuration = load_configuration(text, source="test")
        self.runner: ProfileRunner = build_profile(configuration.profiles[0], self.handle)  # type: ignore[arg-type]
        plugin = self.runner.plugins[NAME]
        assert isinstance(plugin, NodeResourceTopologyMatch)
        self.plugin = plugin

    def verdicts(self, new: PodInfo) -> dict[str, str]:
        return verdicts(self.state, new, self.runner)

    def place(self, new: PodInfo, node: str) -> PodInfo:
        assumed = self.state.assume(new, node, NOW)
        assert self.plugin.reserve(CycleState(), new, node).is_success
        return assumed

    def show(self, new: PodInfo, node: str, phase: str = "Running", version: str = "1") -> PodInfo:
        """The watch brings a pod on a node."""
        shown = msgspec.structs.replace(new, node_name=node, phase=phase, resource_version=version)
        self.state.upsert_pod(shown)
        return shown

    def publish(self, item: Any) -> None:
        self.state.objects.upsert(KIND, item)

    def resync(self) -> int:
        resync = self.plugin._resync
        assert resync is not None
        return asyncio.run(resync.once(self.state.objects, keep_going))


def signed(name: str, *zones: Any, pods: Iterable[PodInfo] = (), method: str = "", **content: Any) -> Any:
    """An object whose agent says which pods it includes."""
    attributes = content.pop("attributes", {})
    attributes["nodeTopologyPodsFingerprint"] = fingerprint((pod.namespace, pod.name) for pod in pods)
    if method:
        attributes["nodeTopologyPodsFingerprintMethod"] = method
    return topology(name, *zones, attributes=attributes, **content)


def two_zones(cpu: str = "4") -> list[dict[str, Any]]:
    return [zone(0, cpu=cpu, memory="8Gi"), zone(1, cpu=cpu, memory="8Gi")]


def named(name: str, *amounts: dict[str, str], **fields: Any) -> PodInfo:
    return msgspec.structs.replace(guaranteed(*amounts, **fields), name=name, uid=f"uid-{name}", key=f"default/{name}")


OVER_RESERVE = {"cacheResyncPeriodSeconds": 5}


def foreign(name: str, *containers: dict[str, Any]) -> PodInfo:
    new = guaranteed(TWO) if not containers else pod("x", *containers)
    return msgspec.structs.replace(
        new, name=name, uid=f"uid-{name}", key=f"default/{name}", scheduler_name="somebody-else"
    )
