"""Decisions with extenders: every situation of kube-scheduler's own tests of them, and what happens while they answer.

The extenders are fakes that answer at once. Calls and placements under the real kube-scheduler are compared in
tests/integration/scheduler/test_extenders.py.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.config import load_configuration
from scheduler.core import sample_size
from scheduler.framework import EXTENDER, Code, Extender, PodInfo, ProfileRunner, configured_extenders
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import cluster, container, node, pod, runner
from tests.unit.scheduler.core.extenders import Cluster, FakeExtender

PROFILE = runner()
NO_SCORES = runner({"score": {"disabled": [{"name": "*"}]}, "preScore": {"disabled": [{"name": "*"}]}})
FILTER = Extender("http://fake", filter_verb="filter", cache_capable=True)
SCORE = Extender("http://fake", prioritize_verb="prioritize", weight=1, cache_capable=True)
BOTH = replace(SCORE, filter_verb="filter")


def on_node(placed: PodInfo, name: str) -> PodInfo:
    return msgspec.structs.replace(placed, node_name=name)


def nodes(*names: str) -> ClusterState:
    return cluster(*(node(name) for name in names))


def test_the_nodes_that_all_extenders_keep_are_left_and_each_gets_what_the_former_left() -> None:
    first = FakeExtender(replace(FILTER, url="http://1"), keeps=("n1", "n2"))
    second = FakeExtender(replace(FILTER, url="http://2"), keeps=("n2", "n3"))
    placement = Cluster(nodes("n1", "n2", "n3"), PROFILE, first, second).decide(pod("p"))
    assert (placement.node, placement.feasible, placement.total) == ("n2", 1, 0)
    assert (first.questions, second.questions) == ([("n1", "n2", "n3")], [("n1", "n2")])


def test_no_extender_is_asked_about_no_node() -> None:
    first = FakeExtender(replace(FILTER, url="http://1"), keeps=())
    second = FakeExtender(replace(FILTER, url="http://2"))
    placement = Cluster(nodes("n1"), PROFILE, first, second).decide(pod("p"))
    assert placement.code is Code.UNSCHEDULABLE
    assert second.questions == []
    assert Cluster(nodes("n1"), PROFILE, second).decide(pod("p", container(cpu="64"))).node is None
    assert second.questions == []


def test_what_extenders_reject_is_counted_by_reason_and_unresolvable_goes_first() -> None:
    fake = FakeExtender(
        keeps=(),
        failed={"n1": "no GPU", "n2": "no GPU", "n3": "busy"},
        unresolvable={"n3": "no driver", "elsewhere": "unknown node"},
    )
    state = nodes("n1", "n2", "n3", "n4")
    placement = Cluster(state, PROFILE, fake).decide(pod("p"))
    assert placement.message == "0/4 nodes are available: 1 no driver, 2 no GPU."
    assert placement.rejectors == {EXTENDER}
    codes = placement.node_codes(state.snapshot(0))
    assert {name: Code(codes[name]) for name in ("n1", "n3", "n4")} == {
        "n1": Code.UNSCHEDULABLE,
        "n3": Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "n4": Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    }


def test_an_extender_does_not_overrule_what_a_plugin_says_of_a_node() -> None:
    state = cluster(node("n1"), node("full", allocatable={"cpu": "0"}))
    fake = FakeExtender(keeps=(), failed={"n1": "busy", "full": "busy"})
    placement = Cluster(state, PROFILE, fake).decide(pod("p", container(cpu="1")))
    assert placement.message == "0/2 nodes are available: 1 Insufficient cpu, 1 busy."
    assert placement.rejectors == {EXTENDER, "NodeResourcesFit"}


def test_nodes_that_vanish_have_no_reason_and_the_extender_is_still_to_blame() -> None:
    placement = Cluster(nodes("n1", "n2"), PROFILE, FakeExtender(keeps=())).decide(pod("p"))
    assert placement.message == "0/2 nodes are available:"
    assert placement.rejectors == {EXTENDER}


def test_more_reasons_than_a_verdict_has_bits_for_are_all_reported() -> None:
    names = [f"n{number:03}" for number in range(100)]
    fake = FakeExtender(keeps=(), failed={name: f"reason {name}" for name in names})
    message = Cluster(nodes(*names), PROFILE, fake).decide(pod("p")).message
    assert message is not None
    assert message.count("1 reason n") == 100


def test_an_error_fails_the_attempt_with_the_extenders_text() -> None:
    placement = Cluster(nodes("n1"), PROFILE, FakeExtender(error="boom")).decide(pod("p"))
    assert (placement.code, placement.message, placement.rejectors) == (Code.ERROR, "boom", frozenset())


def test_an_ignorable_extender_that_fails_is_skipped() -> None:
    broken = FakeExtender(replace(FILTER, ignorable=True), error="boom")
    working = FakeExtender(replace(FILTER, url="http://2"), keeps=("n2",))
    assert Cluster(nodes("n1", "n2"), PROFILE, broken, working).decide(pod("p")).node == "n2"


def test_scores_of_extenders_are_weighted_and_added_to_those_of_plugins() -> None:
    # By plugins alone n2, which is empty, is better than n1.
    state = cluster(node("n1"), node("n2"), pods={"n1": [pod("other", container(cpu="1"))]})
    assert Cluster(state, PROFILE).decide(pod("p", container(cpu="1"))).node == "n2"
    weak = FakeExtender(replace(SCORE, url="http://1"), scores={"n2": 10})
    strong = FakeExtender(replace(SCORE, url="http://2", weight=100), scores={"n1": 10, "elsewhere": 10})
    placement = Cluster(state, PROFILE, weak, strong).decide(pod("p", container(cpu="1")))
    assert placement.node == "n1"
    assert placement.total > 10_000
    assert weak.prioritized == strong.prioritized == [("n1", "n2")]


def test_scores_decide_where_the_profile_has_no_score_plugin() -> None:
    placement = Cluster(nodes("n1", "n2"), NO_SCORES, FakeExtender(SCORE, scores={"n2": 1})).decide(pod("p"))
    assert (placement.node, placement.best) == ("n2", 1)


def test_scores_beyond_64_bits_are_cut() -> None:
    fake = FakeExtender(replace(SCORE, weight=1 << 60), scores={"n1": 1 << 62, "n2": -(1 << 62)})
    assert Cluster(nodes("n1", "n2"), PROFILE, fake).decide(pod("p")).node == "n1"


def test_a_single_node_is_not_scored() -> None:
    fake = FakeExtender(BOTH, keeps=("n1",), scores={"n1": 1})
    assert Cluster(nodes("n1", "n2"), PROFILE, fake).decide(pod("p")).node == "n1"
    assert fake.prioritized == []


def test_only_pods_that_name_a_managed_resource_are_of_interest() -> None:
    gpus = Extender("http://fake", filter_verb="filter", managed_resources=frozenset({"a.example/gpu"}))
    gpu = {"a.example/gpu": "1"}
    assert Extender("http://all").is_interested(pod("p"))
    assert not gpus.is_interested(pod("p", container(cpu="1")))
    assert gpus.is_interested(pod("p", container(requests=gpu)))
    assert gpus.is_interested(pod("p", container(requests={"a.example/gpu": "0"})))
    assert gpus.is_interested(pod("p", container(limits=gpu)))
    assert gpus.is_interested(pod("p", initContainers=[container(requests=gpu)]))


def test_ignorable_extenders_are_called_last() -> None:
    text = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: a}]
extenders:
- {urlPrefix: 'http://1', ignorable: true}
- {urlPrefix: 'http://2', managedResources: [{name: a.example/gpu}]}
- {urlPrefix: 'http://3', ignorable: true}
- {urlPrefix: 'http://4'}
"""
    extenders = configured_extenders(load_configuration(text, source="f").model.extenders)
    assert [(extender.url[-1], extender.index) for extender in extenders] == [("2", 1), ("4", 3), ("1", 0), ("3", 2)]
    assert extenders[0].managed_resources == {"a.example/gpu"}


def test_the_nominated_node_is_asked_about_alone_and_then_with_all() -> None:
    fake = FakeExtender(keeps=("n2",))
    nominated = pod("p", status={"nominatedNodeName": "n2"})
    assert Cluster(nodes("n1", "n2"), PROFILE, fake).decide(nominated).node == "n2"
    assert fake.questions == [("n2",)]
    fake = FakeExtender(keeps=("n1",))
    assert Cluster(nodes("n1", "n2"), PROFILE, fake).decide(nominated).node == "n1"
    assert fake.questions == [("n2",), ("n1", "n2")]


@pytest.mark.parametrize(("count", "size"), [(3, 3), (99, 99), (100, 100), (1000, 420), (5000, 500), (15000, 750)])
def test_whole_nodes_are_sent_of_as_many_as_upstream_looks_at(count: int, size: int) -> None:
    assert sample_size(count) == size


def test_names_are_sent_of_all_nodes_and_whole_nodes_of_a_sample() -> None:
    names = [f"n{number:03}" for number in range(250)]
    by_name, whole = FakeExtender(), FakeExtender(replace(FILTER, cache_capable=False))
    state = nodes(*names)
    assert Cluster(state, PROFILE, by_name).decide(pod("p")).feasible == 250
    assert Cluster(state, PROFILE, whole).decide(pod("p")).feasible == sample_size(250) == 120
    assert (len(by_name.questions[0]), len(whole.questions[0])) == (250, 120)


# The cluster goes on -------------------------------------------------------------------------------------------------


def test_a_node_that_goes_while_the_extender_answers_is_not_chosen() -> None:
    state = nodes("n1", "n2")
    fake = FakeExtender(meanwhile=lambda: state.remove_node("n1"))
    assert Cluster(state, PROFILE, fake).decide(pod("p")).node == "n2"


def test_a_row_that_another_node_took_meanwhile_is_not_mistaken_for_the_one_kept() -> None:
    state = nodes("n1")

    def swap() -> None:
        if state.node("n1") is not None:
            state.remove_node("n1")
            state.upsert_node(node("n9"))

    fake = FakeExtender(meanwhile=swap)
    assert Cluster(state, PROFILE, fake).decide(pod("p")).node == "n9"
    assert fake.questions == [("n1",), ("n9",)]


def test_a_node_that_filled_up_meanwhile_is_not_chosen() -> None:
    state = nodes("n1")
    big = on_node(pod("big", container(cpu="4")), "n1")
    fake = FakeExtender(meanwhile=lambda: state.upsert_pod(big, 0.0))
    placement = Cluster(state, PROFILE, fake).decide(pod("p", container(cpu="1")))
    assert (placement.code, placement.message) == (Code.UNSCHEDULABLE, "0/1 nodes are available: 1 Insufficient cpu.")
    assert len(fake.questions) == 1


def test_a_decision_begins_again_at_most_once() -> None:
    state = nodes("n0")
    count = iter(range(1, 10))

    def swap() -> None:
        number = next(count)
        state.remove_node(f"n{number - 1}")
        state.upsert_node(node(f"n{number}"))

    fake = FakeExtender(meanwhile=swap)
    placement = Cluster(state, PROFILE, fake).decide(pod("p"))
    assert placement.code is Code.ERROR
    assert fake.questions == [("n0",), ("n1",)]


def test_a_node_that_goes_while_scores_are_asked_for_is_not_chosen() -> None:
    state = nodes("n1", "n2")
    fake = FakeExtender(SCORE, scores={"n1": 10}, meanwhile=lambda: state.remove_node("n1"))
    assert Cluster(state, PROFILE, fake).decide(pod("p")).node == "n2"


# Preemption ----------------------------------------------------------------------------------------------------------

PREEMPT = Extender("http://fake", preempt_verb="preempt", cache_capable=True)


def full(*names: str) -> ClusterState:
    """Nodes with room for one pod, and one of low priority on each."""
    room = {"cpu": "1"}
    return cluster(
        *(node(name, allocatable=room) for name in names),
        pods={name: [pod(f"victim-{name}", container(cpu="1"), priority=1)] for name in names},
    )


def preempting(
    state: ClusterState, *fakes: FakeExtender, profile: ProfileRunner = PROFILE
) -> tuple[str | None, list[str], str]:
    """Return the nominated node, the victims and the message."""
    running = Cluster(state, profile, *fakes)
    placement = running.decide(pod("p", container(cpu="1"), priority=100))
    outcome = running.preempt(placement)
    return outcome.nominated_node, [victim.name for victim in outcome.victims], outcome.message


def test_an_extender_chooses_among_the_nodes_where_pods_may_be_preempted() -> None:
    fake = FakeExtender(PREEMPT, preempts={"n2": (("uid-victim-n2",), 0)})
    assert preempting(full("n1", "n2"), fake)[:2] == ("n2", ["victim-n2"])
    assert fake.offered == [{"n1": ("uid-victim-n1",), "n2": ("uid-victim-n2",)}]


def test_a_later_extender_gets_the_candidates_that_the_former_left() -> None:
    first = FakeExtender(replace(PREEMPT, url="http://1"), preempts={"n2": (("uid-victim-n2",), 0)})
    second = FakeExtender(replace(PREEMPT, url="http://2"))
    assert preempting(full("n1", "n2"), first, second)[0] == "n2"
    assert [set(offered) for offered in second.offered] == [{"n2"}]


def test_without_a_candidate_left_the_pod_is_told() -> None:
    node_name, victims, message = preempting(full("n1"), FakeExtender(PREEMPT, preempts={}))
    assert (node_name, victims) == (None, [])
    assert message.endswith("preemption: no candidate node for preemption")


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"n1": ((), 0)}, 'expected at least one victim pod on node "n1"'),
        (
            {"n1": (("ghost",), 0)},
            "extender: http://fake claims to preempt pod (UID: &{ghost}) on node: n1, but the pod is not found on that "
            "node",
        ),
        (
            {"n1": (("uid-important",), 0)},
            "extender: http://fake claims to preempt pod default/important on node: n1, which is not of lower priority",
        ),
    ],
    ids=["no-victim", "unknown", "important"],
)
def test_victims_that_cannot_be_are_an_error_and_of_an_ignorable_extender_none(
    named: dict[str, tuple[tuple[str, ...], int]], message: str
) -> None:
    state = full("n1")
    state.upsert_pod(on_node(pod("important", priority=1000), "n1"), 0.0)
    node_name, victims, text = preempting(state, FakeExtender(PREEMPT, preempts=named))
    assert (node_name, victims) == (None, [])
    assert text.endswith(f"preemption: {message}")
    ignorable = FakeExtender(replace(PREEMPT, ignorable=True), preempts=named)
    assert preempting(state, ignorable)[1] == ([] if named == {"n1": ((), 0)} else ["victim-n1"])


def test_an_extender_that_fails_ends_the_preemption_unless_it_is_ignorable() -> None:
    state = full("n1")
    node_name, victims, message = preempting(state, FakeExtender(PREEMPT, error="boom"))
    assert (node_name, victims, message[-16:]) == (None, [], "preemption: boom")
    assert preempting(state, FakeExtender(replace(PREEMPT, ignorable=True), error="boom"))[1] == ["victim-n1"]


def test_a_victim_that_goes_while_the_extender_answers_is_no_victim() -> None:
    state = full("n1")
    fake = FakeExtender(PREEMPT, meanwhile=lambda: state.remove_pod("uid-victim-n1"))
    assert preempting(state, fake)[1] == []


# Its filter keeps the pod off nodes where it fits, until it has been asked about victims.
KEEPER = Extender("http://keeper", filter_verb="filter", preempt_verb="preempt", cache_capable=True)


def keeping(**more: Any) -> FakeExtender:
    return FakeExtender(KEEPER, keeps=(), failed={"n1": "no licence", "n2": "no licence"}, **more)


def with_room() -> ClusterState:
    room = {"cpu": "2"}
    return cluster(
        *(node(name, allocatable=room) for name in ("n1", "n2")),
        pods={name: [pod(f"victim-{name}", container(cpu="1"), priority=1)] for name in ("n1", "n2")},
    )


def test_an_extender_names_victims_on_nodes_that_have_none_from_1_38_on() -> None:
    newer = runner(kubernetes="1.38")
    first = keeping(preempts={"n1": ((), 0), "n2": ((), 0)})
    second = FakeExtender(PREEMPT, preempts={"n1": ((), 0), "n2": (("uid-victim-n2",), 0)})
    assert preempting(with_room(), first, second, profile=newer)[:2] == ("n2", ["victim-n2"])
    assert first.offered == second.offered == [{"n1": (), "n2": ()}]
    nobody = preempting(with_room(), keeping(preempts={"n1": ((), 0)}), profile=newer)
    assert nobody[:2] == (None, [])
    assert nobody[2].endswith("preemption: no candidate node for preemption")


def test_an_extender_may_not_leave_a_node_without_the_victims_it_was_offered_with() -> None:
    taking = FakeExtender(PREEMPT, preempts={"n1": ((), 0)})
    message = preempting(full("n1"), taking, profile=runner(kubernetes="1.38"))[2]
    assert message.endswith('preemption: expected at least one victim pod on node "n1"')


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.37", 'preemption: expected at least one victim pod on node "n1"'),
        ("1.38", "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."),
    ],
)
def test_a_node_that_needs_no_victims_is_an_error_before_1_38(version: str, message: str) -> None:
    state = cluster(node("n1", allocatable={"cpu": "2"}), pods={"n1": [pod("victim", container(cpu="1"), priority=1)]})
    filtering = FakeExtender(
        Extender("http://fake", filter_verb="filter", cache_capable=True), keeps=(), failed={"n1": "no licence"}
    )
    assert preempting(state, filtering, profile=runner(kubernetes=version))[2].endswith(message)
