"""Claims, classes, slices and an API server that keeps claims, for tests, from a few words."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec

from scheduler.catalog import KUBERNETES_VERSIONS, DynamicResourcesArgs, SecondarySchedulerOptionsArgs, minor_of
from scheduler.framework import SUCCESS, Code, CycleState, PluginContext, PodInfo, Status, UnknownOutcome, failure
from scheduler.kube.model import RESOURCECLAIMS, ResourceClaim
from scheduler.observe.metrics import Metrics
from scheduler.plugins.dynamicresources import DynamicResources
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, node
from tests.unit.scheduler.plugins.storage import made, put

DRIVER = "gpu.example.com"


def exactly(name: str = "r", device_class: str = "gpu", **more: Any) -> dict[str, Any]:
    """A request; words are fields of it. `when` is a selector."""
    selectors = [{"cel": {"expression": more.pop("when")}}] if "when" in more else []
    exact = {"deviceClassName": device_class, "allocationMode": "ExactCount", "selectors": selectors, **more}
    if exact["allocationMode"] == "ExactCount":
        exact.setdefault("count", 1)
    return {"name": name, "exactly": exact}


def first_available(name: str, *alternatives: dict[str, Any]) -> dict[str, Any]:
    """A request with alternatives, each made by `exactly`."""
    return {"name": name, "firstAvailable": [{"name": each["name"], **each["exactly"]} for each in alternatives]}


def claim(name: str, *requests: dict[str, Any], **content: Any) -> Any:
    """A claim of namespace `default`. Words: constraints, config, status, and those of `made`."""
    devices = {
        "requests": list(requests) or [exactly()],
        "constraints": content.pop("constraints", []),
        "config": content.pop("config", []),
    }
    return made("ResourceClaim", name, "default", spec={"devices": devices}, **content)


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> Any:
    """A class whose selectors are these expressions."""
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return made("DeviceClass", name, spec={"selectors": selectors, **spec})


def device(name: str, **content: Any) -> dict[str, Any]:
    """A device. Words: attributes as plain values, capacity as texts, and any other field."""
    kinds = {bool: "bool", int: "int", str: "string"}
    attributes = content.pop("attributes", {})
    capacity = content.pop("capacity", {})
    return {
        "name": name,
        "attributes": {
            key: value if isinstance(value, dict) else {kinds[type(value)]: value} for key, value in attributes.items()
        },
        "capacity": {key: {"value": value} for key, value in capacity.items()},
        **content,
    }


def devices_of(node_name: str, *devices: dict[str, Any] | str, **spec: Any) -> Any:
    """The only slice of a node's pool; devices may be plain names. Words: name, and fields of spec."""
    name = spec.pop("name", f"slice-{node_name}")
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1, **spec.pop("pool", {})}
    everything = [device(each) if isinstance(each, str) else each for each in devices]
    content = {"driver": DRIVER, "pool": pool, "nodeName": node_name, "devices": everything, **spec}
    return made("ResourceSlice", name, spec={key: value for key, value in content.items() if value is not None})


def using(*claims: str, **more: Any) -> dict[str, Any]:
    """The fields of a pod that uses claims by name."""
    return {"resourceClaims": [{"name": f"c{index}", "resourceClaimName": name} for index, name in enumerate(claims)]}


def allocated(
    name: str,
    *devices: tuple[str, str],
    only_on: str = "",
    users: tuple[str, ...] = (),
    request: str = "r",
    **more: Any,
) -> Any:
    """A claim that has devices, each a pool and a name."""
    results = [{"request": request, "driver": DRIVER, "pool": pool, "device": each} for pool, each in devices]
    allocation: dict[str, Any] = {"devices": {"results": results}}
    if only_on:
        field = {"key": "metadata.name", "operator": "In", "values": [only_on]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    reserved = [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users]
    return claim(name, status={"allocation": allocation, "reservedFor": reserved}, **more)


class Server:
    """A Handle on a state, with an API server that keeps claims: a write makes a new version, which the watch brings
    at once unless `delayed`. `lost_answers` of writes never come, `late` ones of them are carried out during the next
    pause, and `unreadable` reads fail."""

    def __init__(self, *objects: Any, nodes: str = "a", delayed: bool = False) -> None:
        self.state: ClusterState = put(cluster(*(node(name) for name in nodes)), *objects)
        self.plugin = self.plugin_for("test")
        self.delayed = delayed
        self.writes: list[tuple[str, str]] = []
        self.refusals: list[str] = []
        self.lost_answers = 0
        self.late = 0
        self.unreadable = 0
        self.seconds = 0.0
        self._landing: list[Coroutine[Any, Any, Any]] = []
        self.logged: list[str] = []
        self.events: list[tuple[str, str, str]] = []
        self.measured: list[tuple[Any, ...]] = []
        self.spawned: list[Coroutine[Any, Any, None]] = []
        self.pod_patches: list[tuple[str, str, dict[str, Any]]] = []
        self.brought_while_waiting: list[str] = []
        self._stored: dict[str, dict[str, Any]] = {}
        for item in objects:
            if isinstance(item, ResourceClaim):
                self._stored[item.metadata.name] = msgspec.to_builtins(item)

    def plugin_for(self, profile: str, kubernetes: str = "1.34", timeout: float | None = None) -> DynamicResources:
        """The plugin of one more profile."""
        version = KUBERNETES_VERSIONS[minor_of(kubernetes) or 0]
        context = PluginContext(profile, SecondarySchedulerOptionsArgs(), self, kubernetes=version)  # type: ignore[arg-type]
        plugin = DynamicResources(DynamicResourcesArgs(bindingTimeout=timeout), context)
        plugin.use_objects(self.state.objects)
        return plugin

    # The Handle -----------------------------------------------------------------------------------------------------

    async def patch_object(
        self, kind: str, item: Any, patch: dict[str, Any], subresource: str = ""
    ) -> tuple[Status, Any]:
        assert kind == "ResourceClaim"
        name, stored = item.metadata.name, self._stored.get(item.metadata.name)
        await asyncio.sleep(0)
        if self.late:
            self.late -= 1
            self._landing.append(self.patch_object(kind, item, patch, subresource))
            return UnknownOutcome(Code.ERROR, error="connection lost"), None
        if self.refusals:
            return failure(self.refusals.pop(0)), None
        if stored is None:
            return failure(f'resourceclaims "{name}" not found'), None
        if stored["metadata"]["resourceVersion"] != item.metadata.resource_version:
            return failure("the object has been modified"), None
        self.writes.append((name, subresource))
        for part, content in patch.items():
            for key, value in content.items():
                stored[part][key] = value
        answer = self.changed(name)
        if self.lost_answers:
            self.lost_answers -= 1
            return UnknownOutcome(Code.ERROR, error="connection lost"), None
        return SUCCESS, answer

    async def create_object(self, kind: str, namespace: str, manifest: dict[str, Any]) -> tuple[Status, Any]:
        assert kind == "ResourceClaim"
        await asyncio.sleep(0)
        if self.refusals:
            return failure(self.refusals.pop(0)), None
        meta = manifest["metadata"]
        name = f"{meta.pop('generateName')}{len(self._stored)}"
        self._stored[name] = {
            **manifest,
            "metadata": {**meta, "name": name, "uid": f"uid-{name}", "resourceVersion": "1", "finalizers": []},
            "status": {},
        }
        self.writes.append((name, "create"))
        if not self.delayed:
            self.watch_brings(name)
        return SUCCESS, self.stored(name)

    async def delete_object(self, kind: str, item: Any) -> Status:
        name = item.metadata.name
        await asyncio.sleep(0)
        if self.refusals:
            return failure(self.refusals.pop(0))
        assert self.stored(name).metadata.finalizers == ()
        del self._stored[name]
        self.writes.append((name, "delete"))
        if not self.delayed:
            self.state.objects.remove(kind, item.metadata.namespace, name)
        return SUCCESS

    async def patch_pod(self, pod: PodInfo, patch: dict[str, Any], subresource: str = "") -> Status:
        await asyncio.sleep(0)
        if self.refusals:
            return failure(self.refusals.pop(0))
        self.pod_patches.append((pod.name, subresource, patch))
        return SUCCESS

    async def pause(self, seconds: float, *, to_end: bool = False) -> None:
        for name in self.brought_while_waiting:
            self.watch_brings(name)
        self.brought_while_waiting.clear()
        self.seconds += seconds
        for write in [self._landing.pop(0) for _ in range(len(self._landing))]:
            await write

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> float:
        return NOW + self.seconds

    async def read_object(self, kind: str, item: Any) -> tuple[Status, Any]:
        if self.unreadable:
            self.unreadable -= 1
            return failure("no route"), None
        stored = self._stored.get(item.metadata.name)
        return SUCCESS, None if stored is None else _decoded(stored)

    def log(self, severity: str, plugin: str, message: str, **fields: object) -> None:
        self.logged.append(message)

    def measure(self, metric: str, value: float, *labels: str) -> None:
        # Fails for a metric or labels that there are not.
        Metrics().plugin_series[metric](value, *labels)
        self.measured.append((metric, value, *labels))

    def pods_on(self, node: str) -> Any:
        return self.state.pods_on(node)

    def event(self, pod: PodInfo, kind: str, reason: str, action: str, note: str, related: Any = None) -> None:
        self.events.append((pod.name, reason, note))

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        self.spawned.append(coroutine)

    # The server -----------------------------------------------------------------------------------------------------

    def changed(self, name: str, **status: Any) -> Any:
        """A claim has a new version, with these fields of its status."""
        stored = self._stored[name]
        stored["status"] |= status
        stored["metadata"]["resourceVersion"] = str(int(stored["metadata"]["resourceVersion"]) + 1)
        if not self.delayed:
            self.watch_brings(name)
        return _decoded(stored)

    def deleted(self, name: str) -> None:
        """Somebody deletes a claim."""
        del self._stored[name]

    def watch_brings(self, name: str) -> None:
        """The watch delivers a claim as it is now."""
        self.state.objects.upsert("ResourceClaim", _decoded(self._stored[name]))

    @property
    def claims(self) -> list[str]:
        """The names of all claims."""
        return sorted(self._stored)

    def stored(self, name: str) -> Any:
        """A claim as the server has it."""
        return _decoded(self._stored[name])

    def finish(self) -> None:
        """Run what was spawned."""
        while self.spawned:
            asyncio.run(self.spawned.pop(0))  # type: ignore[arg-type]


def _decoded(stored: dict[str, Any]) -> Any:
    return RESOURCECLAIMS.decode(msgspec.json.encode(stored))


class Try:
    """One attempt at a pod, step by step."""

    def __init__(self, server: Server, pod: PodInfo, plugin: DynamicResources | None = None) -> None:
        self.plugin, self.pod, self.server = plugin or server.plugin, pod, server
        self.cycle, self.view = CycleState(), server.state.snapshot(NOW)
        _, self.status = self.plugin.pre_filter(self.cycle, pod, self.view)

    def rejections(self) -> dict[str, str]:
        """The reason per node that the pod cannot run on."""
        verdicts = self.plugin.filter(self.cycle, self.pod, self.view, self.view.rows)
        if verdicts is None:
            return {}
        statuses = {self.view.name(row): verdicts.status(at, "") for at, row in enumerate(self.view.rows.tolist())}
        return {name: status.message for name, status in statuses.items() if status.code is not Code.SUCCESS}

    def reserve(self, on: str = "a") -> Status:
        """Run Reserve."""
        return self.plugin.reserve(self.cycle, self.pod, on)

    def bind(self, on: str = "a") -> Status:
        """Run PreBind, and Unreserve where it fails."""
        status = asyncio.run(self.plugin.pre_bind(self.cycle, self.pod, on))
        if not status.is_success:
            self.plugin.unreserve(self.cycle, self.pod, on)
        return status

    def post_filter(self) -> Status:
        """Run PostFilter, and what it spawns."""
        _, status = self.plugin.post_filter(self.cycle, self.pod, self.view, {})  # type: ignore[arg-type]
        self.server.finish()
        return status


def given(claim: Any) -> list[tuple[str, str, str]]:
    """Request, pool and device of each result of an allocated claim."""
    return [(each.request, each.pool, each.device) for each in claim.status.allocation.devices.results]
