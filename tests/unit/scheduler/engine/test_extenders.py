"""The loop with extenders: what goes on while one is asked, what becomes of its failures, and Bindings by extenders.

The extender is a fake; HTTP is tested in tests/integration/scheduler/test_extenders.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from scheduler.engine.extending import Extenders
from scheduler.framework import (
    Answer,
    Extender,
    ExtenderError,
    FilterAnswer,
    FilterQuestion,
    PodInfo,
    PreemptAnswer,
    PrioritizeAnswer,
    Question,
)
from scheduler.kube.model import EventType
from tests.unit.scheduler.engine.fakes import Engine, eventually, started
from tests.unit.scheduler.engine.gangs import GangEngine

GPU = "a.example/gpu"


@dataclass
class FakeExtender:
    """An extender that filters and perhaps binds; only pods with a GPU interest it.

    Attributes:
        gate: an answer waits for it.
        answers: returns the answer to a question; may raise.
        bind_error: what it answers to bind.
        bound_to: returns on which node the API server shows a pod.
    """

    bind_verb: str = ""
    ignorable: bool = False
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    answers: Callable[[Question], Answer] | None = None
    bind_error: str = ""
    bound_to: Callable[[str], str | None] = lambda node: node
    questions: list[Question] = field(default_factory=list)
    binds: list[tuple[str, str]] = field(default_factory=list)
    pods_read: int = 0

    def __post_init__(self) -> None:
        self.gate.set()
        self._node = ""
        self.in_order = (
            Extender(
                "http://fake",
                filter_verb="filter",
                prioritize_verb="prioritize",
                weight=1,
                bind_verb=self.bind_verb,
                managed_resources=frozenset({GPU}),
                ignorable=self.ignorable,
                cache_capable=True,
            ),
        )

    async def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        await self.gate.wait()
        if self.answers is not None:
            return self.answers(question)
        if isinstance(question, FilterQuestion):
            return FilterAnswer(question.nodes)
        return PrioritizeAnswer({"n2": 100}) if hasattr(question, "nodes") else PreemptAnswer()

    async def bind(self, extender: Extender, pod: PodInfo, node: str) -> str:
        self.binds.append((pod.name, node))
        self._node = node
        if self.bind_error == "timeout":
            raise ExtenderError("failed bind with extender at URL http://fake/bind: no answer within 5 s")
        return self.bind_error

    async def read_node(self, pod: PodInfo) -> str | None:
        return self.bound_to(self._node)

    def timeout(self, extender: Extender) -> float:
        return 5.0

    def forget_pod(self) -> None:
        self.pods_read += 1


def running(fake: FakeExtender, engine: Engine | None = None) -> AbstractAsyncContextManager[Engine]:
    return started(engine or Engine(extenders=Extenders(fake, fake.read_node)))


def add_gpu_pod(engine: Engine, name: str = "gpu") -> PodInfo:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {GPU: "0"}}}]
    return engine.add_pod(name, containers=containers)


def conditions(engine: Engine) -> list[tuple[str, str]]:
    return [
        (condition["reason"], condition["message"])
        for _, patch in engine.api.patches
        for condition in patch["status"]["conditions"]
    ]


async def test_a_pod_of_interest_is_placed_where_the_extender_wants_it() -> None:
    async with running(FakeExtender()) as engine:
        engine.add_node("n1")
        engine.add_node("n2")
        add_gpu_pod(engine)
        await eventually(lambda: engine.api.bindings == [("gpu", "gpu-uid", "n2")], "bound to n2")


async def test_other_pods_are_not_asked_about() -> None:
    fake = FakeExtender()
    async with running(fake) as engine:
        engine.add_node("n1")
        engine.add_pod("plain")
        await eventually(lambda: bool(engine.api.bindings), "bound")
        assert fake.questions == []


async def test_while_an_extender_is_asked_no_other_pod_is_tried_and_watches_go_on() -> None:
    fake = FakeExtender()
    fake.gate.clear()
    async with running(fake) as engine:
        engine.add_node("n1")
        add_gpu_pod(engine)
        await eventually(lambda: len(fake.questions) == 1, "asked")
        engine.add_pod("plain")
        engine.add_node("n2")
        await asyncio.sleep(30)
        assert engine.api.bindings == []
        assert engine.state.node_count == 2
        fake.gate.set()
        await eventually(lambda: len(engine.api.bindings) == 2, "both are bound")
        assert [name for name, _, _ in engine.api.bindings] == ["gpu", "plain"]
        assert engine.api.bindings[0][2] == "n1"


async def test_a_failure_fails_the_attempt_with_its_text_and_others_go_on() -> None:
    text = "failed filter with extender at URL http://fake/filter: no answer within 5 s"
    fake = FakeExtender(answers=lambda question: FilterAnswer(error=text))
    async with running(fake) as engine:
        engine.add_node("n1")
        add_gpu_pod(engine)
        engine.add_pod("plain")
        await eventually(lambda: bool(engine.api.bindings) and bool(engine.api.patches), "one bound, one told")
        assert engine.api.bindings[0][0] == "plain"
        assert conditions(engine)[0] == ("SchedulerError", text)
        await eventually(lambda: len(fake.questions) > 1, "tried again after its backoff", 30)


async def test_what_cannot_be_read_for_an_extender_fails_the_attempt() -> None:
    def unreadable(question: Question) -> Answer:
        raise ExtenderError("pod ns/gpu cannot be read for an extender: 403")

    async with running(FakeExtender(answers=unreadable)) as engine:
        engine.add_node("n1")
        add_gpu_pod(engine)
        await eventually(lambda: bool(engine.api.patches), "told")
        assert conditions(engine)[0] == ("SchedulerError", "pod ns/gpu cannot be read for an extender: 403")


async def test_an_extender_that_raises_costs_one_attempt() -> None:
    def broken(question: Question) -> Answer:
        raise RuntimeError("a defect")

    async with running(FakeExtender(answers=broken)) as engine:
        engine.add_node("n1")
        add_gpu_pod(engine)
        engine.add_pod("plain")
        await eventually(lambda: bool(engine.api.bindings) and bool(engine.api.patches), "one bound, one told")
        assert conditions(engine)[0] == ("SchedulerError", "the attempt raised RuntimeError: a defect")


async def test_a_pod_that_an_extender_rejected_is_woken_by_any_event() -> None:
    kept: list[str] = []
    fake = FakeExtender(answers=lambda question: FilterAnswer(tuple(kept), {"n1": "busy"}))
    async with running(fake) as engine:
        engine.add_node("n1")
        add_gpu_pod(engine)
        await eventually(lambda: bool(engine.api.patches), "rejected")
        assert conditions(engine)[0][1].startswith("0/1 nodes are available: 1 busy.")
        await asyncio.sleep(30)
        assert len(fake.questions) == 1
        kept.append("n1")
        engine.add_pod("elsewhere", node="n1", scheduler="other")
        await eventually(lambda: bool(engine.api.bindings), "bound", 30)


async def test_a_pod_that_is_deleted_while_an_extender_is_asked_is_forgotten() -> None:
    fake = FakeExtender()
    fake.gate.clear()
    async with running(fake) as engine:
        engine.add_node("n1")
        pod = add_gpu_pod(engine)
        await eventually(lambda: len(fake.questions) == 1, "asked")
        engine.pods.apply([(EventType.DELETED, pod)])
        fake.gate.set()
        engine.add_pod("plain")
        await eventually(lambda: bool(engine.api.bindings), "the next is bound")
        assert [name for name, _, _ in engine.api.bindings] == ["plain"]


async def test_a_process_that_leads_no_more_does_nothing_with_an_answer() -> None:
    fake = FakeExtender()
    fake.gate.clear()
    async with running(fake) as engine:
        engine.add_node("n1")
        add_gpu_pod(engine)
        await eventually(lambda: len(fake.questions) == 1, "asked")
        engine.leading = False
        fake.gate.set()
        await asyncio.sleep(5)
        assert engine.api.bindings == []
        assert engine.state.assumed_count == 0
        engine.leading = True
        engine.cycle.wake()
        await eventually(lambda: bool(engine.api.bindings), "tried again by a leader")


async def test_an_extender_with_a_bind_verb_binds_instead_of_the_plugins() -> None:
    fake = FakeExtender(bind_verb="bind")
    async with running(fake) as engine:
        engine.add_node("n1")
        add_gpu_pod(engine)
        engine.add_pod("plain")
        await eventually(lambda: len(engine.api.events) == 2, "both are bound")
        assert fake.binds == [("gpu", "n1")]
        assert [name for name, _, _ in engine.api.bindings] == ["plain"]
        assert "Successfully assigned ns/gpu to n1" in [event["note"] for event in engine.api.events]


async def test_a_binding_that_the_extender_refuses_fails_and_the_pod_is_tried_again() -> None:
    fake = FakeExtender(bind_verb="bind", bind_error="no device left", bound_to=lambda node: "")
    async with running(fake) as engine:
        engine.add_node("n1")
        add_gpu_pod(engine)
        await eventually(lambda: bool(engine.api.patches), "told")
        assert conditions(engine)[0] == ("SchedulerError", "no device left")
        await eventually(lambda: len(fake.binds) > 1, "tried again", 30)
        assert engine.api.bindings == []


async def test_an_extender_that_bound_the_pod_without_answering_is_believed() -> None:
    async with running(FakeExtender(bind_verb="bind", bind_error="timeout")) as engine:
        engine.add_node("n1")
        add_gpu_pod(engine)
        await eventually(lambda: bool(engine.api.events), "told")
        assert engine.api.events[0]["reason"] == "Scheduled"


async def test_an_extender_that_claims_a_binding_which_never_comes_is_not_believed() -> None:
    async with running(FakeExtender(bind_verb="bind", bound_to=lambda node: "")) as engine:
        engine.add_node("n1")
        add_gpu_pod(engine)
        await eventually(lambda: bool(engine.api.patches), "told", 30)
        assert conditions(engine)[0] == (
            "SchedulerError",
            "extender http://fake answered bind without an error, but the pod is not bound",
        )


async def test_an_ignorable_binder_that_fails_leaves_the_pod_to_the_plugins() -> None:
    fake = FakeExtender(bind_verb="bind", ignorable=True, bind_error="down", bound_to=lambda node: "")
    async with running(fake) as engine:
        engine.add_node("n1")
        add_gpu_pod(engine)
        await eventually(lambda: bool(engine.api.bindings), "bound by DefaultBinder")


async def test_the_pod_is_read_once_per_attempt() -> None:
    fake = FakeExtender()
    async with running(fake) as engine:
        engine.add_node("n1")
        engine.add_node("n2")
        add_gpu_pod(engine)
        await eventually(lambda: bool(engine.api.bindings), "bound")
        assert (len(fake.questions), fake.pods_read) == (2, 1)


def gangs_asking(fake: FakeExtender, members: int = 2, minimum: int | None = None, **args: object) -> GangEngine:
    """Two nodes and a gang, all of whose members are of interest."""
    gangs = GangEngine(extenders=Extenders(fake, fake.read_node), **args)
    gangs.add_node("n1")
    gangs.add_node("n2")
    gangs.add_group("g", members if minimum is None else minimum)
    containers = [{"name": "c", "image": "i", "resources": {"requests": {GPU: "0"}}}]
    gangs.add_members("g", members, containers=containers)
    return gangs


async def test_a_gang_is_placed_where_the_extender_wants_its_members() -> None:
    fake = FakeExtender()
    async with running(fake, gangs := gangs_asking(fake)):
        await eventually(lambda: len(gangs.api.bindings) == 2, "bound")
        assert {node for _, _, node in gangs.api.bindings} == {"n2"}
        names = [question.pod.name for question in fake.questions if isinstance(question, FilterQuestion)]
        assert sorted(names) == ["g-0", "g-1"]


async def test_a_gang_that_an_extender_rejects_holds_nothing_and_others_go_on() -> None:
    fake = FakeExtender(answers=lambda question: FilterAnswer((), {"n1": "no GPU", "n2": "no GPU"}))
    async with running(fake, gangs := gangs_asking(fake)):
        gangs.add_pod("plain")
        await eventually(lambda: bool(gangs.message("g-0") and gangs.bound), "one bound, one told")
        assert gangs.message("g-0").startswith("pod group ns/g: 0 of 2 members fit, minMember is 2: 0/2 nodes")
        assert "2 no GPU" in gangs.message("g-0")
        assert (gangs.bound, gangs.state.is_assumed("g-0-uid")) == ({"plain"}, False)


async def test_a_dead_extender_is_asked_once_per_attempt_at_a_gang_and_named() -> None:
    text = "failed filter with extender at URL http://fake/filter: no answer within 5 s"
    fake = FakeExtender(answers=lambda question: FilterAnswer(error=text, unanswered=True))
    async with running(fake, gangs := gangs_asking(fake, members=10)):
        await eventually(lambda: len(gangs.messages) == 10, "all are told")
        assert len(fake.questions) == 1
        assert all(message.endswith(text) for message in gangs.messages)
        gangs.add_pod("plain")
        await eventually(lambda: bool(gangs.bound), "another pod is bound")
        await eventually(lambda: len(fake.questions) > 1, "tried again after its backoff", 30)


async def test_a_gang_that_loses_a_member_while_an_extender_is_asked_begins_again() -> None:
    fake = FakeExtender()
    fake.gate.clear()
    async with running(fake, gangs := gangs_asking(fake, members=3, minimum=2)):
        await eventually(lambda: len(fake.questions) == 1, "asked")
        lost = fake.questions[0].pod
        gangs.pods.apply([(EventType.DELETED, lost)])
        fake.gate.set()
        await eventually(lambda: len(gangs.messages) == 2, "the others are told")
        text = "pod group ns/g: it changed while its members were decided"
        assert gangs.messages == [text, text]
        await eventually(lambda: len(gangs.api.bindings) == 2, "the others are bound", 30)
        assert lost.name not in gangs.bound


async def test_a_gang_whose_minimum_grows_while_an_extender_is_asked_is_not_bound_in_part() -> None:
    fake = FakeExtender()
    fake.gate.clear()
    async with running(fake, gangs := gangs_asking(fake)):
        await eventually(lambda: len(fake.questions) == 1, "asked")
        gangs.add_group("g", 3, event=EventType.MODIFIED, version=2)
        fake.gate.set()
        await asyncio.sleep(5)
        assert (gangs.bound, gangs.state.assumed_count) == (set(), 0)


async def test_a_gang_that_asks_for_too_long_lets_others_go_on() -> None:
    fake = FakeExtender()
    gangs = gangs_asking(fake, members=100)

    async def slowly(question: Question) -> Answer:
        await asyncio.sleep(2)
        return await FakeExtender.ask(fake, question)

    fake.ask = slowly  # type: ignore[method-assign] # an extender that takes its time
    async with running(fake, gangs):
        await eventually(lambda: len(fake.questions) == 1, "asked")
        gangs.add_pod("plain")
        await eventually(lambda: gangs.bound == {"plain"}, "another pod is bound", 90)
        assert 30 <= len(fake.questions) <= 32
        expected = "pod group ns/g: asking extenders about its members took more than 60 s"
        assert gangs.messages[0] == expected


async def test_a_process_that_leads_no_more_does_nothing_with_an_answer_about_a_gang() -> None:
    fake = FakeExtender()
    fake.gate.clear()
    async with running(fake, gangs := gangs_asking(fake)):
        await eventually(lambda: len(fake.questions) == 1, "asked")
        gangs.leading = False
        fake.gate.set()
        await asyncio.sleep(5)
        assert (gangs.bound, gangs.state.assumed_count) == (set(), 0)
        gangs.leading = True
        gangs.cycle.wake()
        await eventually(lambda: len(gangs.bound) == 2, "tried again by a leader")


async def test_members_of_a_gang_are_bound_by_the_extender_that_binds() -> None:
    fake = FakeExtender(bind_verb="bind")
    async with running(fake, gangs := gangs_asking(fake)):
        await eventually(lambda: len(fake.binds) == 2, "both are bound")
        assert sorted(name for name, _ in fake.binds) == ["g-0", "g-1"]
        assert gangs.api.bindings == []


async def test_an_extender_that_raises_costs_a_gang_one_attempt() -> None:
    def broken(question: Question) -> Answer:
        raise RuntimeError("a defect")

    fake = FakeExtender(answers=broken)
    async with running(fake, gangs := gangs_asking(fake)):
        await eventually(lambda: len(gangs.messages) == 2, "told")
        assert gangs.messages == ["the attempt raised RuntimeError: a defect"] * 2
        fake.answers = None
        await eventually(lambda: len(gangs.bound) == 2, "tried again", 30)
