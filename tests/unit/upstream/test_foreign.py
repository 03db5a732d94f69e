"""What plugins that tests register in Go are in ours; Go's answers are played."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from scheduler.catalog import ActionType, ExtensionPoint, SecondarySchedulerOptionsArgs
from scheduler.framework import (
    PODS_TO_ACTIVATE,
    BindingStopped,
    Code,
    CycleState,
    FilterPlugin,
    PermitPlugin,
    PluginContext,
    PreBindPlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    QueueSortPlugin,
    ScoreNormalizer,
)
from tests.unit.scheduler.engine.pods import pod_info
from tests.upstream import foreign
from tests.upstream.foreign import Bridge, Event, Foreign, ForeignError, described, registration_of, status_of

SUCCESS = {"code": 0, "reasons": None}


def _answer(**fields: Any) -> dict[str, Any]:
    return {"statuses": [SUCCESS], "names": None, "activate": None, "error": "", **fields}


class _Handle:
    """A handle whose waiting pods the tests set."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.allowed: list[str] = []
        self.rejected: list[tuple[str, str]] = []
        self.spawned: list[Any] = []
        self.pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    def waiting_pods(self) -> list[Any]:
        return self.waiting

    def allow_waiting(self, pod: Any, plugin: str) -> None:
        self.allowed.append(plugin)

    def reject_waiting(self, pod: Any, plugin: str, message: str) -> None:
        self.rejected.append((plugin, message))

    def spawn(self, coroutine: Any, name: str) -> None:
        self.spawned.append(coroutine)


Play = Callable[[Mapping[str, Any]], Any]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Answers by method; the list that is returned gets each question."""

    def start(answers: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        questions: list[tuple[str, dict[str, Any]]] = []

        def ask(bridge: Bridge, plugin: str, method: str, pod: Any, **more: Any) -> Any:
            questions.append((method, more))
            answer = answers[method]
            return answer.pop(0) if isinstance(answer, list) else answer

        monkeypatch.setattr(Bridge, "ask", ask)
        monkeypatch.setattr(foreign, "_described", lambda: foreign.Described("nowhere", ()))
        return questions

    return start


def _make(*methods: str, handle: Any = None) -> Any:
    context = PluginContext("default-scheduler", SecondarySchedulerOptionsArgs(), handle or _Handle())
    return Foreign("p", frozenset(methods), None).make(None, context)


def test_a_plugin_has_what_its_go_object_has(play: Play) -> None:
    play({})
    plugin = _make("PreFilter", "AddPod", "Filter", "PreBind", "PreBindPreFlight")
    assert isinstance(plugin, PreFilterPlugin)
    assert isinstance(plugin, PreFilterExtensions)
    assert isinstance(plugin, FilterPlugin)
    assert isinstance(plugin, PreBindPlugin)
    assert not isinstance(plugin, PermitPlugin | ScoreNormalizer | QueueSortPlugin)
    assert not hasattr(plugin, "events_to_register")


def test_what_is_described_is_read() -> None:
    events = [{"resource": "Node", "actions": ["Add"], "hint": True}]
    plugins = [
        {"name": "a b", "methods": ["PreFilter", "AddPod"], "events": events},
        {"name": "", "methods": ["Permit"], "events": None},
        {"name": "c", "methods": [], "events": []},
    ]
    read = described(json.dumps({"address": "127.0.0.1:1", "plugins": plugins}))
    assert [plugin.events for plugin in read.plugins] == [(Event("Node", ("Add",), True),), None, ()]
    assert read.plugins[0].points == {ExtensionPoint.PRE_FILTER}
    assert read.address == "127.0.0.1:1"


def test_descriptors_are_attributes_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = (Foreign("a b", frozenset({"Permit"}), None),)
    monkeypatch.setattr(foreign, "_described", lambda: foreign.Described("nowhere", plugins))
    descriptor = foreign.plugin_0
    assert (descriptor.name, descriptor.points) == ("a b", {ExtensionPoint.PERMIT})
    assert descriptor.factory == "tests.upstream.foreign:make_0"
    assert foreign.make_0 == plugins[0].make
    assert not hasattr(foreign, "plugin_x")


@pytest.mark.parametrize(
    ("event", "resource", "actions"),
    [
        (Event("Node", ("Add", "UpdateNodeTaint"), False), "Node", ActionType.ADD | ActionType.UPDATE_NODE_TAINT),
        (Event("storage.k8s.io/CSINode", ("Delete",), False), "CSINode", ActionType.DELETE),
        (Event("UnscheduledPod", ("UpdatePodScaleUp",), False), "UnschedulablePod", ActionType(0)),
    ],
)
def test_events_have_our_names(event: Event, resource: str, actions: ActionType) -> None:
    assert registration_of(event, None)[:2] == (resource, actions)


def test_all_updates_of_a_version_are_all_of_ours() -> None:
    names = [
        "".join(word.capitalize() for word in (action.name or "").split("_"))
        for action in ActionType.UPDATE
        if action is not ActionType.UPDATE_NODE_DECLARED_FEATURE
    ]
    assert registration_of(Event("Pod", tuple(names), False), None).actions == ActionType.UPDATE


def test_statuses_have_gos_codes() -> None:
    status = status_of({"code": 3, "reasons": ["no", "never"]})
    assert (status.code, status.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "no, never")


def test_an_attempt_has_a_cycle_and_its_clone_another(play: Play) -> None:
    questions = play({"PreFilter": _answer(names=["n1"]), "Clone": _answer()})
    plugin, state, waiting = _make("PreFilter"), CycleState(), pod_info("p")
    assert plugin.pre_filter(state, waiting, None)[0] == PreFilterResult(frozenset({"n1"}))
    plugin.pre_filter(state.clone(), waiting, None)
    (_, first), (method, cloned), (_, second) = questions
    assert method == "Clone"
    assert cloned == {"cycle": second["cycle"], "cloned": first["cycle"]}
    assert first["cycle"] != second["cycle"]


def test_pods_that_go_activates_are_activated(play: Play) -> None:
    play({"Reserve": _answer(activate=["uid-1"])})
    state = CycleState()
    _make("Reserve").reserve(state, pod_info("p"), "n")
    assert list(state.read(PODS_TO_ACTIVATE, dict) or ()) == ["uid-1"]


def test_a_pod_waits_until_go_decides(play: Play) -> None:
    handle, waiting = _Handle(), pod_info("p")
    rejected = {"code": 2, "reasons": ["too late"]}
    play({
        "Permit": _answer(statuses=[{"code": 4, "reasons": None}], seconds=3.0),
        "Wait": [
            {"decided": False},
            {"decided": True, "statuses": [SUCCESS], "names": ["p", "q"]},
            {"decided": True, "statuses": [rejected], "plugin": "q"},
        ],
        "LetGo": _answer(),
    })  # fmt: skip
    plugin = _make("Permit", handle=handle)
    handle.waiting = [waiting]
    for _ in range(2):
        status, seconds = plugin.permit(CycleState(), waiting, "n")
        assert (status.code, seconds) == (Code.WAIT, 3.0)
        asyncio.run(handle.spawned.pop())
    assert (handle.allowed, handle.rejected) == (["p", "q"], [("q", "too late")])


def test_go_lets_a_pod_go_that_waits_no_more(play: Play) -> None:
    handle, waiting = _Handle(), pod_info("p")
    questions = play({"Permit": _answer(statuses=[{"code": 4, "reasons": None}], seconds=3.0), "LetGo": _answer()})
    _make("Permit", handle=handle).permit(CycleState(), waiting, "n")
    asyncio.run(handle.spawned.pop())
    assert [method for method, _ in questions] == ["Permit", "LetGo"]


def test_a_pod_that_is_preempted_does_not_wait_for_gos_pre_bind(monkeypatch: pytest.MonkeyPatch, play: Play) -> None:
    play({})
    handle, released = _Handle(), threading.Event()
    monkeypatch.setattr(Bridge, "ask", lambda *arguments, **more: (released.wait(10), _answer())[1])

    async def stop(seconds: float) -> None:
        raise BindingStopped("preempted")

    async def bind() -> None:
        try:
            with pytest.raises(BindingStopped):
                await _make("PreBind", handle=handle).pre_bind(CycleState(), pod_info("p"), "n")
            assert not released.is_set()
        finally:
            released.set()

    handle.pause = stop
    asyncio.run(bind())


def test_an_error_of_a_score_fails_the_attempt(play: Play) -> None:
    play({"Score": _answer(statuses=[{"code": 1, "reasons": ["broken"]}], scores=[0])})
    with pytest.raises(ForeignError, match="broken"):
        _make("Score").score(CycleState(), pod_info("p"), _NoView(), _NoRows())


class _NoRows:
    def tolist(self) -> list[int]:
        return []


class _NoView:
    """A view of no nodes."""
