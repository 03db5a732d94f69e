"""What is kept per class of pods: when it is made, what it stands for, what is asked all the same, and its bounds."""

import itertools
import random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.catalog import ExtensionPoint
from scheduler.core import classes, decide, shared
from scheduler.core.classes import usable_columns
from scheduler.framework import (
    SUCCESS,
    CycleState,
    IntArray,
    Node,
    Nodes,
    NodeView,
    Plugin,
    PodInfo,
    ProfileRunner,
    Reads,
    RowArray,
    Rule,
    SpecInfo,
    Status,
    conclude,
)
from scheduler.plugins import FACTORIES, build_profile
from scheduler.state import ClusterState
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, only_scores, pod, runner
from tests.unit.scheduler.core.strategies import clusters, pods


def some_cluster() -> ClusterState:
    return cluster(*(node(f"n{index}") for index in range(4)))


_uids = itertools.count()


def another(info: PodInfo) -> PodInfo:
    return msgspec.structs.replace(info, uid=f"uid-{next(_uids)}")


def place(state: ClusterState, info: PodInfo, profile: ProfileRunner, **how: Any) -> Any:
    """Decide about another pod that is otherwise like this one."""
    return retry(state, another(info), profile, **how)


def retry(state: ClusterState, info: PodInfo, profile: ProfileRunner, **how: Any) -> Any:
    return conclude(decide(state.snapshot(NOW), info, profile, random.Random(1), **how))


class Scorer:
    """A score plugin that counts how often it is asked, and about how many rows."""

    name = "ImageLocality"
    word = Reads.ANYTHING
    fields: tuple[str, ...] = ()
    answer = 7

    def __init__(self, args: Any, context: Any) -> None:
        self.row_counts: list[int] = []

    def score(self, state: CycleState, info: PodInfo, view: NodeView, rows: RowArray) -> IntArray | None:
        self.row_counts.append(len(rows))
        for name in self.fields:
            getattr(info.spec, name)
        return np.full(len(rows), self.answer, dtype=np.int64)

    def score_rule(self, spec: SpecInfo, nodes: Nodes) -> Rule | Reads:
        return self.word


def profile_with(**attributes: Any) -> tuple[ProfileRunner, Any]:
    """A profile that scores by one plugin of the test."""
    kind = type("Odd", (Scorer,), attributes)
    profile = ProfileRunner(runner(only_scores("ImageLocality")).effective, {**FACTORIES, "ImageLocality": kind})
    return profile, profile.plugins["ImageLocality"]


def test_the_second_pod_of_a_class_makes_the_columns_that_are_kept() -> None:
    state, profile = some_cluster(), runner()
    info = pod("p", container("100m"))
    assert usable_columns(state.snapshot(NOW), info, profile) is not None
    memory: Any = profile.memory["core.classes"]
    assert not memory.columns, "those of the first one were good for that attempt"
    assert usable_columns(state.snapshot(NOW), info, profile) is None, "it is tried again"
    assert usable_columns(state.snapshot(NOW), another(info), profile) is memory.columns[info.spec.class_key]
    assert usable_columns(state.snapshot(NOW), another(info), profile) is memory.columns[info.spec.class_key]


def test_pods_that_list_much_have_no_columns_and_leave_nothing_behind() -> None:
    state, profile = some_cluster(), runner()
    much = [{"key": f"k{index}", "operator": "Exists"} for index in range(300)]
    for name in "pqr":
        assert usable_columns(state.snapshot(NOW), pod(name, container("1m"), tolerations=much), profile) is None
    assert "core.classes" not in profile.memory


def test_views_of_views_and_named_nodes_are_decided_without_columns() -> None:
    state, profile = some_cluster(), runner()
    info = pod("p", container("100m"), priority=1)
    for each in (info, another(info)):
        usable_columns(state.snapshot(NOW), each, profile)
    overlay = state.snapshot(NOW).overlay()
    assert usable_columns(overlay, info, profile) is None
    assert usable_columns(overlay, info, profile) is not None
    assert usable_columns(state.snapshot(NOW).overlay().overlay(), info, profile) is None
    assert usable_columns(state.snapshot(NOW), pod("p", container("100m"), nodeName="n1"), profile) is None


@pytest.mark.parametrize(("word", "kept"), [(Reads.PODS, True), (Reads.ANYTHING, False)])
def test_nominations_matter_to_their_nodes_alone_where_verdicts_do_not_look_further(word: Reads, kept: bool) -> None:
    class Local:
        name = "NodePorts"

        def __init__(self, args: Any, context: Any) -> None:
            self.row_counts: list[int] = []

        def pre_filter(self, state: CycleState, info: PodInfo, view: NodeView) -> tuple[None, Status]:
            return None, SUCCESS

        def filter(self, state: CycleState, info: PodInfo, view: NodeView, rows: RowArray) -> None:
            self.row_counts.append(len(rows))

        def filter_rule(self, spec: SpecInfo, nodes: Nodes) -> Reads:
            return word

    profile = ProfileRunner(runner().effective, {**FACTORIES, "NodePorts": Local})
    state, info = some_cluster(), pod("p", container("3"), priority=1)
    for each in (info, another(info)):
        usable_columns(state.snapshot(NOW), each, profile)
    state.nominator.set(pod("lower", container("3"), priority=0), "n0")
    assert usable_columns(state.snapshot(NOW), info, profile) is not None
    state.nominator.set(pod("equal", container("3"), priority=1), "n1")
    state.nominator.set(pod("higher but small", container("100m"), priority=2), "n2")
    plugin: Any = profile.plugins["NodePorts"]
    plugin.row_counts.clear()
    assert (usable_columns(state.snapshot(NOW), info, profile) is not None) is kept
    placement = place(state, info, profile)
    assert placement.feasible == 3, "there is no room beside the equal one"
    # Beside the nominated pods on their two nodes; where it might look further, also without them on all others.
    assert plugin.row_counts == ([2] if kept else [2, 3])


def test_a_plugin_that_reads_anything_is_asked_in_every_attempt() -> None:
    profile, plugin = profile_with()
    state = some_cluster()
    for _ in range(5):
        place(state, pod("p", container("100m")), profile)
    assert plugin.row_counts == [4] * 5


def test_a_plugin_that_looks_at_nodes_alone_is_asked_again_only_about_nodes_that_change() -> None:
    profile, plugin = profile_with(word=Reads.NODE)
    state = some_cluster()
    for index in range(3):
        place(state, pod("p", container("100m")), profile)
        state.assume(pod(f"other-{index}", container("100m")), "n0", NOW)
    assert plugin.row_counts == [4]
    state.upsert_node(node("n2", labels={"a": "b"}))
    for _ in range(2):
        assert place(state, pod("p", container("100m")), profile).total == 7
        state.assume(pod(f"more-{len(state.pod_uids)}", container("100m")), "n1", NOW)
    assert plugin.row_counts == [4, 1]


def test_where_nothing_fits_few_classes_get_columns_for_their_first_pod_until_one_fits_again() -> None:
    state, profile = some_cluster(), runner()

    def have_columns(number: int, cpu: str) -> list[bool]:
        infos = [pod("p", container(cpu, f"{uid + 1}Mi"), uid=f"{cpu}-{uid}") for uid in range(number)]
        return [usable_columns(state.snapshot(NOW), info, profile) is not None for info in infos]

    tried = have_columns(40, "1000")
    assert tried[:4] == [True] * 4
    assert sum(tried[4:]) == 2
    assert True in have_columns(16, "1m")
    assert have_columns(10, "2m") == [True] * 10


def test_classes_that_are_alike_in_what_is_read_of_them_share_the_answers_about_nodes() -> None:
    profile, plugin = profile_with(word=Reads.NODE, fields=("tolerations",))
    state, millis = some_cluster(), iter(range(1, 100))

    def asked(count: int, **fields: Any) -> list[int]:
        """About how many nodes the plugin is asked for some pods of classes of their own."""
        del plugin.row_counts[:]
        for _ in range(count):
            assert place(state, pod("p", container(f"{next(millis)}m"), **fields), profile).total == 7
        return list(plugin.row_counts)

    assert asked(5) == [4]
    assert asked(5) == []
    state.upsert_node(node("n2", labels={"a": "b"}))
    assert asked(2) == [1]
    assert asked(2, tolerations=[{"operator": "Exists"}]) == [4]
    state.upsert_node(node("n4"))
    assert asked(2) == [5], "a node more: all of them"
    plugin.fields = ("tolerations", "requests")
    state.upsert_node(node("n3", labels={"a": "b"}))
    assert asked(3)[-3:] == [5, 5, 5], "no two classes are alike in it"


@pytest.mark.parametrize("word", [Reads.NODE, Reads.PODS])
def test_what_is_read_only_once_a_node_has_a_label_tells_pods_apart_from_then_on(word: Reads) -> None:
    def score(self: Any, state: CycleState, info: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        labelled = view.labels("large").codes[rows] >= 0
        return labelled * (50 if labelled.any() and getattr(info.spec, "ima" + "ges")[0] == "busy:latest" else 10)

    profile, _ = profile_with(word=word, score=score)
    state, millis = some_cluster(), iter(range(1, 100))

    def totals() -> list[int]:
        """Of pods of two images: twice of a class of its own, twice of one that is kept."""
        amounts = [f"{next(millis)}m", f"{next(millis)}m", "100m", "100m"]
        images = [{"image": "busy"}, {"image": "other"}]
        return [place(state, pod("p", container(cpu, **each)), profile).total for cpu in amounts for each in images]

    assert totals() == [0] * 8
    state.upsert_node(node("n2", labels={"large": ""}))
    assert totals() == [50, 10] * 4
    state.upsert_node(node("n2"))
    state.upsert_node(node("n1", labels={"large": ""}))
    assert totals() == [50, 10] * 4


def test_classes_that_are_alike_in_what_scores_read_share_them_and_ask_again_about_nodes_whose_pods_changed() -> None:
    counts: list[int] = []
    read = {"of": lambda spec: 0}

    def rule(self: Any, spec: SpecInfo, nodes: Nodes) -> Rule:
        spec.of(read["of"])
        nodes.requested("cpu")

        def score(node: Node) -> Any:
            counts.append(np.size(node))
            return 7

        return score

    profile, _ = profile_with(score_rule=rule)
    state, millis = some_cluster(), iter(range(1, 100))

    def asked(count: int) -> list[int]:
        """About how many nodes the plugin is asked for some pods of classes of their own, each put on a node."""
        del counts[:]
        for _ in range(count):
            info = another(pod("p", container(f"{next(millis)}m")))
            placement = retry(state, info, profile)
            assert placement.total == 7
            state.assume(info, placement.node, NOW)
        return list(counts)

    assert asked(5) == [4, 1, 1, 1, 1]
    state.upsert_node(node("n4"))
    assert asked(2) == [5, 1], "a node more: all of them"
    read["of"] = lambda spec: spec.requests["cpu"]
    assert asked(3) == [5, 5, 5]


def test_shared_answers_that_stop_being_the_same_everywhere_are_asked_for_again() -> None:
    profile = runner(only_scores("ImageLocality"))
    state = some_cluster()
    image = {"image": "busy"}
    assert place(state, pod("p", container("1m", **image)), profile).best == 4
    state.upsert_node(node("n2", images={"busy:latest": 900 * 2**20}))
    assert place(state, pod("p", container("2m", **image)), profile).node == "n2"
    state.upsert_node(node("n2"))
    assert place(state, pod("p", container("3m", **image)), profile).best == 4


def test_a_value_of_the_cluster_that_changes_has_answers_asked_for_again() -> None:
    value = [1]

    def rule(self: Any, spec: SpecInfo, nodes: Nodes) -> Reads:
        nodes.value(lambda view: value[0])
        return Reads.NODE

    profile, plugin = profile_with(score_rule=rule)
    state = some_cluster()
    for index, value[0] in enumerate([1, 1, 2, 2, 1, 1]):
        # Pods of classes of their own, and two of one.
        for millis in (index + 1, 100, 100):
            place(state, pod("p", container(f"{millis}m")), profile)
    assert plugin.row_counts == [4] * 3


@pytest.mark.parametrize("bound", ["_BYTES", "_MIN_ANSWERS"])
def test_shared_answers_are_bounded(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(shared, "_BYTES", 0 if bound == "_MIN_ANSWERS" else 20 * shared._OVERHEAD)
    state, profile = some_cluster(), runner()
    for index in range(100):
        place(state, pod("p", container("1m"), tolerations=[{"key": f"k{index}", "operator": "Exists"}]), profile)
    memory: Any = profile.memory["core.classes"]
    assert len(memory.shared) == (shared._MIN_ANSWERS if bound == "_MIN_ANSWERS" else 20)


@pytest.mark.parametrize("answer", [101, -1])
def test_a_score_out_of_range_is_clamped_and_counted_whatever_the_plugin_vouches_for(answer: int) -> None:
    profile, _ = profile_with(word=Reads.PODS, answer=answer)
    state = some_cluster()
    for _ in range(3):
        placement = place(state, pod("p", container("100m")), profile)
        assert placement.counters == {"clamped_scores/ImageLocality": 4}
        assert placement.total == (100 if answer > 100 else 0)


def test_a_plugin_that_fails_fails_the_attempt_with_columns_too() -> None:
    def rule(self: Any, spec: SpecInfo, nodes: Nodes) -> Rule:
        nodes.requested("cpu")

        def refuse(node: Node) -> Any:
            if not nodes.in_columns:
                raise RuntimeError("boom")
            return np.zeros(len(node))

        return refuse

    def score(self: Any, state: CycleState, info: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        if view.pods_on(0):
            raise RuntimeError("boom")
        return np.zeros(len(rows), dtype=np.int64)

    profile, _ = profile_with(score_rule=rule, score=score)
    state = some_cluster()
    for _ in range(2):
        assert place(state, pod("p", container("100m")), profile).node is not None
    state.assume(pod("first", container("100m")), "n0", NOW)
    for _ in range(2):
        assert place(state, pod("p", container("100m")), profile).message == (
            'running Score plugins: plugin "ImageLocality" failed with: boom'
        )


def test_an_observer_that_does_not_pass_rules_on_sees_every_attempt() -> None:
    seen: list[str] = []

    class Observed:
        def __init__(self, plugin: Any) -> None:
            self.plugin, self.name = plugin, plugin.name

        def score(self, *args: Any) -> Any:
            seen.append(self.name)
            return self.plugin.score(*args)

    def wrap(point: ExtensionPoint, plugin: Plugin) -> Plugin:
        return Observed(plugin) if point is ExtensionPoint.SCORE and plugin.name == "NodeResourcesFit" else plugin

    profile = build_profile(runner(only_scores("NodeResourcesFit", "ImageLocality")).effective, wrap=wrap)
    state = some_cluster()
    totals = {place(state, pod("p", container("100m")), profile).total for _ in range(4)}
    assert seen == ["NodeResourcesFit"] * 4
    assert totals == {place(state, pod("p", container("100m")), runner(only_scores("NodeResourcesFit"))).total}


def test_the_columns_of_the_class_unused_longest_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "_BYTES", 0)
    monkeypatch.setattr(classes, "_MIN_CLASSES", 16)
    state, profile = some_cluster(), runner()
    infos = [pod(f"p{index}", container(f"{index + 1}m")) for index in range(40)]
    for info in infos * 2:
        place(state, info, profile)
    memory: Any = profile.memory["core.classes"]
    assert list(memory.columns) == [info.spec.class_key for info in infos[-16:]]
    assert usable_columns(state.snapshot(NOW), infos[0], profile) is not None, "made again as soon as it is used"


def test_a_pod_that_is_tried_again_and_again_leaves_no_columns_behind() -> None:
    state, profile = some_cluster(), runner()
    for index in range(20):
        lonely = pod(f"p{index}", container(f"{index + 100}"))
        for _ in range(5):
            assert retry(state, lonely, profile).node is None
    memory: Any = profile.memory["core.classes"]
    assert not memory.columns
    place(state, lonely, profile)
    assert list(memory.columns) == [lonely.spec.class_key], "a second pod of the class"


def test_classes_seen_once_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "_MAX_SEEN", 10)
    state, profile = some_cluster(), runner()
    for index in range(40):
        place(state, pod(f"p{index}", container(f"{index + 1}m")), profile)
    memory: Any = profile.memory["core.classes"]
    assert (len(memory.seen), len(memory.columns)) == (10, 0)


def test_a_profile_on_another_cluster_starts_from_nothing() -> None:
    profile, info = runner(), pod("p", container("100m"))
    first, second = some_cluster(), cluster(node("other"), node("more"))
    for _ in range(3):
        place(first, info, profile)
    assert place(second, info, profile).node in ("other", "more")


def test_ties_are_broken_evenly_with_columns_too() -> None:
    state, profile, rng = some_cluster(), runner(), random.Random(5)
    info = pod("p", container("100m"))
    chosen = [conclude(decide(state.snapshot(NOW), info, profile, rng)).node for _ in range(2000)]
    assert all(400 < chosen.count(f"n{index}") < 600 for index in range(4))


def test_the_best_nodes_follow_pods_that_come_and_go() -> None:
    state, profile = some_cluster(), runner()
    info = pod("p", container("100m"))
    for _ in range(2):
        place(state, info, profile)
    best = []
    for change in ("n1", "n3", "-n1", "n0", "n2", "-n3", "-n0", "-n2"):
        if change.startswith("-"):
            state.forget(f"uid-{change[1:]}")
        else:
            state.assume(pod(change, container("100m")), change, NOW)
        placement = place(state, info, profile)
        assert placement.node == place(state, info, profile, from_scratch=True).node
        best.append(placement.best)
    assert best == [3, 2, 3, 2, 1, 2, 3, 4]


class OneByOne(ProfileRunner):
    """A profile that tries each node with nominated pods by itself."""

    def looks_beyond_node(self, state: CycleState) -> bool:
        return True


TOGETHER = runner()
ONE_BY_ONE = OneByOne(TOGETHER.effective, FACTORIES)


@settings(max_examples=tries(60), deadline=None)
@given(
    state=clusters(),
    info=pods("new"),
    promised=st.lists(pods("promised"), min_size=1, max_size=5),
    rows_of_promised=st.lists(st.integers(0, 3), min_size=5, max_size=5),
    seed=st.integers(0, 99),
)
def test_nodes_promised_to_others_are_judged_together_as_one_by_one(
    state: ClusterState, info: PodInfo, promised: list[PodInfo], rows_of_promised: list[int], seed: int
) -> None:
    for index, (nominee, row) in enumerate(zip(promised, rows_of_promised, strict=False)):
        state.nominator.set(msgspec.structs.replace(nominee, uid=f"promised-{index}"), f"n{row}")
    placement, wanted = (
        conclude(decide(state.snapshot(NOW), info, profile, random.Random(seed))) for profile in (TOGETHER, ONE_BY_ONE)
    )
    assert (placement.node, placement.message, placement.feasible) == (wanted.node, wanted.message, wanted.feasible)
    if placement.node is None:
        assert dict(placement.node_codes(state.snapshot(NOW))) == dict(wanted.node_codes(state.snapshot(NOW)))
