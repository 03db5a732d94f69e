"""Plugins that a test registers in Go, as plugins of our scheduler: each method asks the Go object over loopback.

The test's process (`bridge/plugins.go`) says in a file which plugins there are, and offers them to ours as those of an
installed package: its entry points are `plugin_0`, `plugin_1`... of this module. Three things a plugin has in Go are
not passed on: what PostFilter is told of each node, `Handle.Activate`, which is the Go queue's, and the end of a
context.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from scheduler.catalog import ActionType, ExtensionPoint, PluginDescriptor
from scheduler.framework import (
    PODS_TO_ACTIVATE,
    Code,
    CycleState,
    Hint,
    HintRegistration,
    IntArray,
    NodeCodes,
    NodeInfo,
    NodeView,
    Plugin,
    PluginContext,
    PodInfo,
    PostFilterResult,
    PreFilterResult,
    QueueingHint,
    RowArray,
    Status,
    Verdicts,
    filter_by_node,
)

VARIABLE = "JUDGED_SCHEDULER_PLUGINS"
"""Names the file that describes the plugins."""
_CYCLE = "foreign/cycle"
"""Key of `CycleState` for the cycle that Go keeps of an attempt, for all plugins of its profile."""
_WATCHED = "foreign/watched"
"""Key of `CycleState` that says that somebody waits for the plugins' permission."""
_LOOK_SECONDS = 0.01
"""How often Go is asked whether a pod still waits."""
_POINTS: Mapping[str, ExtensionPoint] = {
    "PreEnqueue": ExtensionPoint.PRE_ENQUEUE,
    "PreFilter": ExtensionPoint.PRE_FILTER,
    "Filter": ExtensionPoint.FILTER,
    "PostFilter": ExtensionPoint.POST_FILTER,
    "PreScore": ExtensionPoint.PRE_SCORE,
    "Score": ExtensionPoint.SCORE,
    "Reserve": ExtensionPoint.RESERVE,
    "Permit": ExtensionPoint.PERMIT,
    "PreBind": ExtensionPoint.PRE_BIND,
    "Bind": ExtensionPoint.BIND,
    "PostBind": ExtensionPoint.POST_BIND,
}
"""Extension points by the Go methods that make them up."""
_UPDATES = frozenset(
    # The last one came with 1.35.
    {action.name for action in ActionType.UPDATE} - {ActionType.UPDATE_NODE_DECLARED_FEATURE.name}
)
_RESOURCES: Mapping[str, str] = {"UnscheduledPod": "UnschedulablePod", "TargetPod": "Pod"}
"""Resources of events that ours has under other names."""


class ForeignError(Exception):
    """A plugin in Go failed, or could not be asked."""


@dataclass(frozen=True)
class Event:
    """An event that a plugin registers: `actions` by Go's names; whether a hint looks closer at it."""

    resource: str
    actions: tuple[str, ...]
    hint: bool


@dataclass(frozen=True)
class Foreign:
    """A plugin of the test's process.

    Attributes:
        name: as it is registered.
        methods: what it has of the methods of `_POINTS` and `_PARTS`.
        events: None where it registers none and is woken by all.
    """

    name: str
    methods: frozenset[str]
    events: tuple[Event, ...] | None

    @property
    def points(self) -> frozenset[ExtensionPoint]:
        """Its extension points."""
        return frozenset(point for method, point in _POINTS.items() if method in self.methods)

    def make(self, args: object, context: PluginContext) -> Plugin:
        """Build it, as the constructor of a plugin."""
        parts = [part for method, part in _PARTS.items() if method in self.methods]
        if self.events is not None:
            parts.append(_Registers)
        plugin: Plugin = type("ForeignPlugin", (*parts, _ForeignPlugin), {})(self, context)
        return plugin


class Bridge:
    """The test's process, as a profile asks it."""

    def __init__(self, address: str, profile: str) -> None:
        self._address = address
        self._profile = profile

    def ask(self, plugin: str, method: str, pod: PodInfo, **more: Any) -> dict[str, Any]:
        """Call a method in Go; returns what it answers. Raises ForeignError."""
        question = {"profile": self._profile, "plugin": plugin, "method": method, "pod": version(pod), **more}
        connection = http.client.HTTPConnection(self._address)
        try:
            connection.request("POST", "/", json.dumps(question))
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ForeignError(f"{plugin} {method}: {error}") from error
        finally:
            connection.close()
        if answer["error"]:
            raise ForeignError(f"{plugin} {method}: {answer['error']}")
        return answer


class _Cycle:
    """Stands for the CycleState that Go keeps of an attempt; a clone of ours gets a clone of that."""

    _numbers = itertools.count(1)

    def __init__(self, bridge: Bridge, pod: PodInfo) -> None:
        self.number = next(self._numbers)
        self._bridge = bridge
        self._pod = pod

    def clone(self) -> _Cycle:
        twin = _Cycle(self._bridge, self._pod)
        self._bridge.ask("", "Clone", self._pod, cycle=twin.number, cloned=self.number)
        return twin


def version(item: PodInfo | NodeInfo) -> dict[str, str]:
    """How an object that was seen is named to Go."""
    return {"uid": item.uid, "version": item.resource_version}


def status_of(answer: Mapping[str, Any]) -> Status:
    """A status of Go: its codes are ours."""
    return Status(Code(answer["code"]), tuple(answer["reasons"] or ()))


def registration_of(event: Event, hint: QueueingHint | None) -> HintRegistration:
    """An event that Go registers, as ours. Actions that ours does not tell apart are left out."""
    names = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper() for name in event.actions}
    actions = ActionType.UPDATE if names >= _UPDATES else ActionType(0)
    for name in names & set(ActionType.__members__):
        actions |= ActionType[name]
    kind = event.resource.rpartition("/")[2]
    return HintRegistration(_RESOURCES.get(kind, kind), actions, hint)


class _ForeignPlugin:
    """What all have; the parts add the methods of extension points."""

    def __init__(self, foreign: Foreign, context: PluginContext) -> None:
        self.name = foreign.name
        self._events = foreign.events or ()
        self._bridge = Bridge(_described().address, context.scheduler_name)
        assert context.handle is not None, "nothing but the daemon has these plugins"
        self._handle = context.handle

    def _ask(self, method: str, state: CycleState, pod: PodInfo, **more: Any) -> dict[str, Any]:
        """Call a method in the attempt's cycle. What the plugin activates goes to the state."""
        cycle = state.read(_CYCLE, _Cycle)
        if cycle is None:
            cycle = _Cycle(self._bridge, pod)
            state.write(_CYCLE, cycle)
        answer = self._bridge.ask(self.name, method, pod, cycle=cycle.number, **more)
        if answer["activate"]:
            waiting = state.read(PODS_TO_ACTIVATE, dict) or {}
            state.write(PODS_TO_ACTIVATE, {**waiting, **dict.fromkeys(answer["activate"])})
        return answer

    def _ask_status(self, method: str, state: CycleState, pod: PodInfo, **more: Any) -> Status:
        return status_of(self._ask(method, state, pod, **more)["statuses"][0])

    async def _await_status(self, method: str, state: CycleState, pod: PodInfo, node: str) -> Status:
        """As `_ask_status`, for a call that may take long."""
        return await asyncio.to_thread(self._ask_status, method, state, pod, node=node)


class _PreEnqueues(_ForeignPlugin):
    def pre_enqueue(self, pod: PodInfo) -> Status:
        return status_of(self._bridge.ask(self.name, "PreEnqueue", pod)["statuses"][0])


class _Registers(_ForeignPlugin):
    def events_to_register(self) -> Sequence[HintRegistration]:
        return [
            registration_of(event, self._hint(number) if event.hint else None)
            for number, event in enumerate(self._events)
        ]

    def _hint(self, number: int) -> QueueingHint:
        def ask(pod: PodInfo, old: object, new: object) -> Hint:
            objects = {"old": _seen(old), "new": _seen(new)}
            answer = self._bridge.ask(self.name, "QueueingHint", pod, event=number, **objects)
            return Hint.QUEUE if answer["queue"] else Hint.SKIP

        return ask


class _PreFilters(_ForeignPlugin):
    def pre_filter(self, state: CycleState, pod: PodInfo, view: NodeView) -> tuple[PreFilterResult | None, Status]:
        answer = self._ask("PreFilter", state, pod)
        names = answer["names"]
        result = None if names is None else PreFilterResult(frozenset(names))
        return result, status_of(answer["statuses"][0])


class _FollowsPods(_ForeignPlugin):
    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, view: NodeView, row: int) -> None:
        self._move("AddPod", state, pod, added, view, row)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, view: NodeView, row: int) -> None:
        self._move("RemovePod", state, pod, removed, view, row)

    def _move(self, method: str, state: CycleState, pod: PodInfo, moved: PodInfo, view: NodeView, row: int) -> None:
        status = self._ask_status(method, state, pod, moved=version(moved), nodes=[_node(view, row)])
        if not status.is_success:
            raise ForeignError(status.message)


class _Filters(_ForeignPlugin):
    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        answer = self._ask("Filter", state, pod, nodes=_nodes(view, rows))
        statuses = [status_of(status) for status in answer["statuses"]]
        for status in statuses:
            if status.code is Code.ERROR:
                raise ForeignError(status.message)
        names = map(view.name, rows.tolist())
        return _Answers(self.name, dict(zip(names, statuses, strict=True))).verdicts(state, pod, view, rows)


@dataclass(frozen=True)
class _Answers:
    """A filter written node by node that has its answers, by the nodes' names."""

    name: str
    by_node: Mapping[str, Status]

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo, pods: object) -> Status:
        return self.by_node[node.name]

    def verdicts(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        return filter_by_node(self, state, pod, view, rows)


class _PostFilters(_ForeignPlugin):
    def post_filter(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes
    ) -> tuple[PostFilterResult | None, Status]:
        answer = self._ask("PostFilter", state, pod)
        return PostFilterResult(answer["nominated"]), status_of(answer["statuses"][0])


class _PreScores(_ForeignPlugin):
    def pre_score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Status:
        return self._ask_status("PreScore", state, pod, nodes=_nodes(view, rows))


class _Scores(_ForeignPlugin):
    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray | None:
        answer = self._ask("Score", state, pod, nodes=_nodes(view, rows))
        for status in map(status_of, answer["statuses"]):
            if not status.is_success:
                raise ForeignError(status.message)
        return np.array(answer["scores"], dtype=np.int64)


class _Normalizes(_ForeignPlugin):
    def normalize(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, scores: IntArray) -> IntArray:
        answer = self._ask("NormalizeScore", state, pod, nodes=_nodes(view, rows), scores=scores.tolist())
        status = status_of(answer["statuses"][0])
        if not status.is_success:
            raise ForeignError(status.message)
        return np.array(answer["scores"], dtype=np.int64)


class _Reserves(_ForeignPlugin):
    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        return self._ask_status("Reserve", state, pod, node=node)

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        self._ask("Unreserve", state, pod, node=node)


class _Permits(_ForeignPlugin):
    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[Status, float]:
        answer = self._ask("Permit", state, pod, node=node)
        status = status_of(answer["statuses"][0])
        if status.code is Code.WAIT and state.read(_WATCHED, bool) is None:
            state.write(_WATCHED, True)
            # It begins when all plugins have answered: the pod waits then, or does not.
            self._handle.spawn(self._watch(pod), f"permission for {pod.key}")
        return status, float(answer["seconds"])

    async def _watch(self, pod: PodInfo) -> None:
        """Wait until a plugin decides in Go about a pod that waits here, or ours does."""
        while any(waiting is pod for waiting in self._handle.waiting_pods()):
            answer = self._bridge.ask("", "Wait", pod)
            if answer["decided"]:
                status = status_of(answer["statuses"][0])
                if not status.is_success:
                    self._handle.reject_waiting(pod, answer["plugin"] or self.name, status.message)
                    return
                for plugin in answer["names"] or ():
                    self._handle.allow_waiting(pod, plugin)
                return
            await asyncio.sleep(_LOOK_SECONDS)
        self._bridge.ask("", "LetGo", pod)


class _PreBinds(_ForeignPlugin):
    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        answered = asyncio.ensure_future(self._await_status("PreBind", state, pod, node))
        while not answered.done():
            # Raises where the pod gives up its node. Go's plugin goes on: nobody looks at its answer.
            await self._handle.pause(_LOOK_SECONDS)
        return answered.result()


class _HasPreFlight(_ForeignPlugin):
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        status = self._ask_status("PreBindPreFlight", state, pod, node=node)
        if not status.is_success and not status.is_skip:
            raise ForeignError(status.message)
        return status.is_success


class _Binds(_ForeignPlugin):
    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        return await self._await_status("Bind", state, pod, node)


class _PostBinds(_ForeignPlugin):
    async def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        await self._await_status("PostBind", state, pod, node)


_PARTS: Mapping[str, type[_ForeignPlugin]] = {
    "PreEnqueue": _PreEnqueues,
    "PreFilter": _PreFilters,
    "AddPod": _FollowsPods,
    "Filter": _Filters,
    "PostFilter": _PostFilters,
    "PreScore": _PreScores,
    "Score": _Scores,
    "NormalizeScore": _Normalizes,
    "Reserve": _Reserves,
    "Permit": _Permits,
    "PreBind": _PreBinds,
    "PreBindPreFlight": _HasPreFlight,
    "Bind": _Binds,
    "PostBind": _PostBinds,
}
"""What a plugin gets of our Protocols for each method that it has in Go."""


@dataclass(frozen=True)
class Described:
    """What the test's process says: where it listens, and which plugins it has."""

    address: str
    plugins: tuple[Foreign, ...]


def described(text: str) -> Described:
    """Read the file that the test's process writes."""
    content = json.loads(text)
    plugins = tuple(
        Foreign(plugin["name"], frozenset(plugin["methods"] or ()), _events(plugin["events"]))
        for plugin in content["plugins"]
    )
    return Described(content["address"], plugins)


def _events(named: list[dict[str, Any]] | None) -> tuple[Event, ...] | None:
    if named is None:
        return None
    return tuple(Event(event["resource"], tuple(event["actions"] or ()), event["hint"]) for event in named)


@cache
def _described() -> Described:
    return described(Path(os.environ[VARIABLE]).read_text())


def __getattr__(name: str) -> PluginDescriptor | Callable[[Any, PluginContext], Plugin]:
    """`plugin_0` is the descriptor of the first plugin, `make_0` its constructor."""
    word, _, number = name.partition("_")
    if word not in ("plugin", "make") or not number.isdecimal():
        raise AttributeError(name)
    foreign = _described().plugins[int(number)]
    if word == "make":
        return foreign.make
    return PluginDescriptor(
        name=foreign.name,
        points=foreign.points,
        implemented=True,
        flavours=frozenset({"ours"}),
        factory=f"{__name__}:make_{number}",
    )


def _node(view: NodeView, row: int) -> dict[str, Any]:
    return {**version(view.info(row)), "pods": [version(pod) for pod in view.pods_on(row)]}


def _nodes(view: NodeView, rows: RowArray) -> list[dict[str, Any]]:
    return [_node(view, row) for row in rows.tolist()]


def _seen(item: object) -> dict[str, str] | None:
    """An object of an event; None where it is neither a pod nor a node, which are all that Go looks up."""
    return version(item) if isinstance(item, PodInfo | NodeInfo) else None
