"""What is kept per class of pods never changes a decision: after any history, for any profile, deciding by it gives
what asking every plugin about every node gives, and the kept columns are those made from nothing."""

import math
import random
import sys
from bisect import bisect
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from scheduler.core import Placement, classes, decide, decide_gang, explain, shared
from scheduler.core.classes import ClassColumns, usable_columns
from scheduler.core.shared import SharedAnswers
from scheduler.framework import (
    GANG_UNITS,
    SUCCESS,
    Code,
    CycleState,
    Gang,
    GangTopology,
    IntArray,
    LoadReading,
    Node,
    NodeInfo,
    NodeLoad,
    Nodes,
    NodeView,
    PodInfo,
    ProfileRunner,
    Reads,
    RowArray,
    Rule,
    SpecInfo,
    Status,
    Verdicts,
    Work,
    answers_of,
    as_scores,
    conclude,
    reject,
)
from scheduler.helpers import PodReducer
from scheduler.plugins import FACTORIES
from scheduler.state import CODEC_OF_KIND, ClusterState, Snapshot
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, SOURCE, WATCHER, api_pod, container, in_turns, node, runner

TLP = {"TargetLoadPacking": {"watcherAddress": WATCHER}}
ZONE, HOST = "zone", "kubernetes.io/hostname"
SELECT_X = {"matchLabels": {"app": "x"}}


def shaped(kind: str, **shape: Any) -> dict[str, Any]:
    weights = {"cpu": 3, "memory": 1, "example.com/gpu": 2}
    resources = [{"name": name, "weight": weight} for name, weight in weights.items()]
    return {"NodeResourcesFit": {"scoringStrategy": {"type": kind, "resources": resources, **shape}}}


def with_load(compatibility: str = "safe") -> ProfileRunner:
    return runner(
        {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 5}]}}, TLP, compatibility=compatibility
    )


def limited(
    when: str = "leaveOut", compatibility: str = "safe", *, fail_open: bool = True, **limit: Any
) -> ProfileRunner:
    enabled = {"enabled": [{"name": "HighLoadFilter"}]}
    thresholds = {"cpu": 70, "memory": 90}
    return runner(
        {"preFilter": enabled, "filter": enabled},
        {"HighLoadFilter": {"watcherAddress": WATCHER, "usageThresholds": thresholds, "failOpen": fail_open}},
        compatibility=compatibility,
        options={"load": {"limit": {"whenAllExceed": when, **limit}}},
    )


def spread_by_default() -> ProfileRunner:
    defaults = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
    return runner(args={"PodTopologySpread": {"defaultingType": "List", "defaultConstraints": defaults}})


def added_affinity() -> ProfileRunner:
    preference = {"matchExpressions": [{"key": "size", "operator": "Exists"}]}
    term = {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["c"]}]}
    return runner(
        args={
            "NodeAffinity": {
                "addedAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": preference}],
                }
            }
        }
    )


class Branching:
    """A filter that reads more of a pod where some node has a label, by names that it makes up; and a score that reads
    other things for each kind of pod and of cluster."""

    name = "Branching"

    def __init__(self, args: Any, context: Any) -> None:
        pass

    def pre_filter(self, state: CycleState, pod: PodInfo, view: NodeView) -> tuple[None, Status]:
        return None, SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        column = view.labels("size")
        large = column.codes[rows] == column.index.get("3", -2)
        if not large.any() or getattr(pod.spec, "tole" + "rations"):
            return None
        return reject(large & ("busy" in getattr(pod.spec, "ima" + "ges")[0]), Code.UNSCHEDULABLE, "large")

    def filter_rule(self, spec: SpecInfo, nodes: Nodes) -> Reads:
        return Reads.NODE

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray | None:
        answers = answers_of(self._rule, pod.spec, view, rows)
        return None if answers is None else as_scores(answers, rows)

    def score_rule(self, spec: SpecInfo, nodes: Nodes) -> Rule | Reads:
        return self._rule(spec, nodes)

    def _rule(self, spec: SpecInfo, nodes: Nodes) -> Rule | Reads:
        if spec.images[0].startswith("busy"):
            return Reads.NOTHING
        if spec.tolerations:
            requested = getattr(nodes, "reques" + "ted")("cpu")
            return lambda node: nodes.at_most(requested(node) / 100.0, 100.0)
        if nodes.value(lambda view: view.pods_have_terms):
            allocatable = nodes.allocatable("cpu")
            return lambda node: nodes.at_most(allocatable(node) / 100.0, 100.0)
        load = nodes.load(SOURCE)
        if load is None:
            return lambda node: 5
        measured = nodes.column(load.cpu_average)
        return lambda node: nodes.select(measured(node) >= 50.0, 100.0, 0.0)


class Late(Branching):
    """A score that asks for a reader only when it is asked about a large node."""

    def _rule(self, spec: SpecInfo, nodes: Nodes) -> Rule | Reads:
        allocatable = nodes.allocatable("cpu")

        def score(node: Node) -> Any:
            large = allocatable(node) > 3500.0
            used = nodes.requested("cpu")(node) if np.any(large) else 0.0
            return nodes.select(large, nodes.at_most(used / 100.0, 100.0) if np.any(large) else 0.0, 1.0)

        return score


class OfLabels(Branching):
    """A filter that reads the pod's labels where a node has pods, and says that it looks at the node and its pods."""

    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        crowded = view.pod_count[rows] > 1.0
        if not crowded.any():
            return None
        return reject(crowded & (pod.labels.get("app") == "x"), Code.UNSCHEDULABLE, "crowded")

    def filter_rule(self, spec: SpecInfo, nodes: Nodes) -> Reads:
        return Reads.PODS


def sly(kind: type[Branching]) -> ProfileRunner:
    """A profile with such a plugin in the place of two others."""
    ports, images = (type(kind.__name__, (kind,), {"name": name}) for name in ("NodePorts", "ImageLocality"))
    return ProfileRunner(runner().effective, {**FACTORIES, "NodePorts": ports, "ImageLocality": images})


SHAPE = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 60, "score": 10}, {"utilization": 100, "score": 2}]}
PROFILES = {
    "default": runner,
    "load": with_load,
    "load as upstream": lambda: with_load("upstream"),
    "load alone": lambda: runner(
        {"score": {"enabled": [{"name": "TargetLoadPacking"}], "disabled": [{"name": "*"}]}}, TLP
    ),
    "load limit": limited,
    "load limit, rejecting": lambda: limited("reject", fail_open=False, exempt=["DaemonSet"]),
    "load limit as upstream": lambda: limited(compatibility="upstream"),
    "shared nodes": lambda: runner({"filter": {"enabled": [{"name": "SharedNodes"}]}}),
    "heavy weights": lambda: runner(
        {
            "score": {
                "enabled": [{"name": "TaintToleration", "weight": 900}, {"name": "NodeResourcesFit", "weight": 800}],
                "disabled": [{"name": "TaintToleration"}, {"name": "NodeResourcesFit"}],
            }
        }
    ),
    "most allocated": lambda: runner(args=shaped("MostAllocated")),
    "by shape": lambda: runner(args=shaped("RequestedToCapacityRatio", requestedToCapacityRatio=SHAPE)),
    "spread by default": spread_by_default,
    "added affinity": added_affinity,
    "no scores": lambda: runner({"score": {"disabled": [{"name": "*"}]}}),
    "reads in branches": lambda: sly(Branching),
    "late reads": lambda: sly(Late),
    "reads of labels": lambda: sly(OfLabels),
    "variation": lambda: runner(
        {"score": {"enabled": [{"name": "LoadVariationRiskBalancing"}]}},
        {"LoadVariationRiskBalancing": {"watcherAddress": WATCHER}},
    ),
}


IMAGES = ({"busy:latest": 500 * 2**20}, {"rare:latest": 500 * 2**20}, {})
SHARES = (0.3, 0.4)
"""Which images nodes have, and how many of them, added up."""


def affinity(kind: str, term: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def preferring(kind: str, key: str, weight: int) -> dict[str, Any]:
    term = {"weight": weight, "podAffinityTerm": {"topologyKey": key, "labelSelector": SELECT_X}}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


def node_affinity(**terms: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": terms}}


def spread(when: str, key: str = ZONE) -> dict[str, Any]:
    return {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": SELECT_X}
        ]
    }


NAMED = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
SIZED = {"matchExpressions": [{"key": "size", "operator": "In", "values": ["1", "2"]}]}
UNREADABLE = {"matchExpressions": [{"key": "size", "operator": "Bad", "values": ["1"]}]}
TOLERATIONS = {"tolerations": [{"key": "x", "operator": "Exists"}]}
PORT = container("100m", ports=[{"containerPort": 80, "hostPort": 80}])
CLASSES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (container("100m", "1Gi"), {}),
    (container("1", "1Gi", image="busy"), {}),
    (container("1500m", "3Gi"), TOLERATIONS),
    (container(), {}),
    (container("500m", requests={"example.com/gpu": "1"}), {}),
    (container("500m"), {"nodeSelector": {"zone": "a"}}),
    (container("500m"), node_affinity(requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": [NAMED]})),
    (
        container("200m"),
        node_affinity(preferredDuringSchedulingIgnoredDuringExecution=[{"weight": 9, "preference": SIZED}]),
    ),
    (
        container("200m"),
        node_affinity(preferredDuringSchedulingIgnoredDuringExecution=[{"weight": 9, "preference": UNREADABLE}]),
    ),
    (PORT, {}),
    (container("100m"), spread("DoNotSchedule")),
    (container("100m"), spread("ScheduleAnyway", HOST)),
    (container("100m"), affinity("podAntiAffinity", {"topologyKey": HOST, "labelSelector": SELECT_X})),
    (container("100m"), affinity("podAffinity", {"topologyKey": ZONE, "labelSelector": SELECT_X})),
    (container("100m"), preferring("podAffinity", ZONE, 30)),
    (container("100m"), preferring("podAntiAffinity", HOST, 60)),
    (container("100m"), {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "absent"}}]}),
    (container("100m"), {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}),
    (container("500m", "2Gi"), {"schedulerName": "default-scheduler"}),
]

steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["place"] * 8
            + ["confirm", "forget", "delete", "delete", "relabel", "resize", "bind"]
            + ["node", "change", "change", "remove", "load", "load", "time", "service", "look"]
            + ["nominate"] * 3
            + ["gang"] * 3
        ),
        st.integers(0, 2**20),
    ),
    min_size=4,
    max_size=60,
)


crowding = st.lists(
    st.tuples(
        st.sampled_from(["place", "look", "look", "nominate", "nominate", "delete", "change", "load"]),
        st.integers(0, 2**20),
    ),
    min_size=10,
    max_size=60,
)


class History:
    """A cluster on which things happen, and decisions are checked against ones made again."""

    def __init__(
        self,
        profile: ProfileRunner,
        reference: ProfileRunner,
        favourites: list[int],
        kinds: list[tuple[dict[str, Any], dict[str, Any]]] = CLASSES,
    ) -> None:
        self.kinds = kinds
        self.state = ClusterState()
        self.profile, self.reference, self.favourites = profile, reference, favourites
        self.now = NOW
        self.reducer = PodReducer()
        self.names = (f"p{number}" for number in range(1000))
        self.pods: list[PodInfo] = []
        for index in range(4):
            self.state.upsert_node(self.some_node(random.Random(index), f"n{index}"))

    def some_node(self, chance: random.Random, name: str) -> NodeInfo:
        # Many nodes are alike, so that ties are common.
        chance = random.Random(chance.choice([1, 2, chance.random()]))
        words: dict[str, Any] = {
            "labels": {"zone": chance.choice("abc"), "size": chance.choice("123")} if chance.random() < 0.8 else {},
            "taints": [("x", "", chance.choice(["NoSchedule", "PreferNoSchedule"]))] if chance.random() < 0.3 else [],
            "unschedulable": chance.random() < 0.1,
            "images": IMAGES[bisect(SHARES, chance.random())],
            "allocatable": {
                "cpu": chance.choice(["0", "2", "4", "3333m"]),
                "memory": chance.choice(["4Gi", "16Gi", "12345678901", "100Ti"] if chance.random() < 0.1 else ["16Gi"]),
                "pods": chance.choice(["2", "5", "110"]),
                **({"example.com/gpu": "2"} if chance.random() < 0.3 else {}),
            },
        }
        return node(name, **words)

    def some_pod(self, chance: random.Random, **more: Any) -> PodInfo:
        kind, fields = self.kinds[chance.choice(self.favourites)]
        labels = {"app": chance.choice("xy")} if chance.random() < 0.8 else {}
        name = next(self.names)
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
        metadata = {"ownerReferences": [owner]} if chance.random() < 0.2 else {}
        words = {"labels": labels, "priority": chance.choice([0, 0, 5]), "metadata": metadata, **fields, **more}
        return self.reducer.reduce(api_pod(name, msgspec.json.decode(msgspec.json.encode(kind)), **words))

    def place(self, chance: random.Random) -> None:
        pod = self.some_pod(chance)
        nominated = self.state.node_names and chance.random() < 0.05
        if nominated:
            pod = msgspec.structs.replace(pod, nominated_node=chance.choice(sorted(self.state.node_names)))
        elif self.state.node_names and chance.random() < 0.1:
            # Nominated here, and the API server has yet to show it.
            self.state.nominator.set(pod, chance.choice(sorted(self.state.node_names)))
        chosen = self.check(pod, chance.randrange(2**32))
        if chosen is not None:
            self.pods.append(self.state.assume(pod, chosen, self.now))

    def place_gang(self, chance: random.Random) -> None:
        """Decide about pods that belong together both ways, and in turns between which nothing happens; take the
        nodes."""
        pods = tuple(self.some_pod(chance) for _ in range(chance.randint(2, 12)))
        topology = chance.choice([None, GangTopology(("zone",)), GangTopology(("size", "zone"), anywhere=True)])
        gang = Gang("gang", pods, chance.randint(1, len(pods)), 0, 60.0, topology=topology)
        view, seed, decisions = self.state.snapshot(self.now), chance.randrange(2**32), []
        slowly = (self.reference, lambda *_: None, None)
        for profile, usable, turn_is_over in (
            slowly,
            (self.profile, usable_columns, None),
            (self.profile, usable_columns, lambda: chance.random() < 0.5),
        ):
            with patch.object(sys.modules["scheduler.core.decide"], "usable_columns", usable):
                rng, work = random.Random(seed), Work(GANG_UNITS, turn_is_over)
                asking = decide_gang(view, gang, pods, lambda pod, by=profile: by, rng, gang.missing, work=work)  # type: ignore[misc]
                decisions.append((in_turns(asking, lambda: self.state.snapshot(self.now)), rng.random()))
        (wanted, wanted_drawn), *others = decisions
        for decision, drawn in others:
            assert [_seen(each) for each in decision.placements] == [_seen(each) for each in wanted.placements]
            assert (decision.domain, drawn) == (wanted.domain, wanted_drawn)
        for placement in decision.placed:
            self.pods.append(self.state.assume(placement.pod, placement.node or "", self.now))

    def check(self, pod: PodInfo, seed: int) -> str | None:
        """Decide both ways and compare all that a caller can see."""
        view = self.state.snapshot(self.now)
        placement = conclude(decide(view, pod, self.profile, random.Random(seed)))
        wanted = conclude(decide(view, pod, self.reference, random.Random(seed), from_scratch=True))
        for name in (
            "node",
            "code",
            "message",
            "total",
            "evaluated",
            "feasible",
            "best",
            "rejectors",
            "pending",
            "remark",
        ):
            assert getattr(placement, name) == getattr(wanted, name), name
        assert placement.counters == wanted.counters
        if placement.node is None:
            assert (placement.diagnosis is None) == (wanted.diagnosis is None)
            if placement.diagnosis is not None and wanted.diagnosis is not None:
                assert placement.diagnosis.histogram() == wanted.diagnosis.histogram()
                assert placement.state.skip_filter == wanted.state.skip_filter
        columns = usable_columns(view, pod, self.profile)
        if columns is not None:
            self.compare(columns, classes.make_columns(view, pod, self.profile, SharedAnswers(view.table)), view.size)
            self.compare_shared(pod, columns, view)
            explanation = explain(view, pod, self.reference)
            assert placement.node in explanation.best or placement.feasible < 2
        return placement.node

    def compare_shared(self, pod: PodInfo, columns: ClassColumns, view: Snapshot) -> None:
        """What classes share of scores is what the plugin says of this pod, bit for bit."""
        for answer in (*columns.plan.base.ranged, *columns.plan.base.scores, *columns.plan.shared_scores):
            fresh = answer.side.plugin.score(CycleState(), pod, view, view.rows)
            assert answer.catch_up(view)
            assert answer.at(view.rows).tolist() == fresh.tolist()

    @staticmethod
    def compare(kept: ClassColumns, remade: ClassColumns, size: int) -> None:
        assert kept.totals[:size].tolist() == remade.totals[:size].tolist()
        assert kept.feasible == remade.feasible

    def happen(self, step: str, chance: random.Random) -> None:
        state, pods = self.state, self.pods
        if step == "place":
            self.place(chance)
        elif step == "look":
            self.check(self.some_pod(chance), 7)
        elif step == "gang":
            self.place_gang(chance)
        elif step == "time":
            self.now += chance.choice([0.5, 30.0, 299.0, 301.0])
        elif step == "node":
            name = f"n{chance.randrange(9)}"
            state.upsert_node(self.some_node(chance, name))
        elif step == "load":
            names = [name for name in sorted(state.node_names) if chance.random() < 0.95]
            at = self.now - chance.choice([0.0, 100.0, 400.0])
            # Often too high for a limit, and one of the two may be missing.
            loads = {
                name: NodeLoad(
                    cpu_average=chance.uniform(0, 110),
                    memory_average=chance.choice([math.nan, chance.uniform(0, 110)]),
                    measured_at=at - chance.choice([0.0, 150.0]),
                )
                for name in names
            }
            state.set_load(LoadReading(loads, at, source=SOURCE, answered_at=self.now))
        elif step == "service":
            service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "x"}}}
            state.objects.upsert("Service", CODEC_OF_KIND["Service"].decode(msgspec.json.encode(service)))
        elif step in ("change", "remove", "nominate", "bind") and state.node_names:
            self.happen_to_node(step, chance.choice(sorted(state.node_names)), chance)
        elif pods:
            self.happen_to_pod(step, pods[chance.randrange(len(pods))], chance)

    def happen_to_node(self, step: str, name: str, chance: random.Random) -> None:
        state = self.state
        if step == "remove":
            state.remove_node(name)
        elif step == "nominate":
            self.nominate(name, chance)
        elif step == "bind":
            self.pods.append(self.some_pod(chance, nodeName=name))
            state.upsert_pod(self.pods[-1], self.now)
        else:
            old = state.node(name)
            assert old is not None
            new = self.some_node(chance, name)
            field = chance.choice(["labels", "taints", "unschedulable", "allocatable", "images", "allowed_pods"])
            state.upsert_node(msgspec.structs.replace(old, **{field: getattr(new, field)}))

    def nominate(self, name: str, chance: random.Random) -> None:
        nominator = self.state.nominator
        if chance.random() < 0.2:
            for pods in list(nominator.by_node.values()):
                nominator.remove(chance.choice(pods).uid)
        for priority in chance.sample([-5, 0, 5, 9], chance.randrange(1, 4)):
            nominator.set(self.some_pod(chance, priority=priority), name)

    def happen_to_pod(self, step: str, pod: PodInfo, chance: random.Random) -> None:
        state = self.state
        if step == "confirm":
            state.upsert_pod(pod, self.now)
            return
        if step == "relabel":
            changed = msgspec.structs.replace(pod, labels={"app": chance.choice("xyz")})
        elif step == "resize":
            amounts = {"cpu": chance.choice([50, 700]), "memory": 2**30}
            changed = msgspec.structs.replace(pod, requests=amounts, nonzero_cpu=amounts["cpu"])
        else:
            gone = state.forget(pod.uid) if step == "forget" else state.remove_pod(pod.uid)
            if gone:
                self.pods.remove(pod)
            return
        self.pods[self.pods.index(pod)] = changed
        state.upsert_pod(changed, self.now)


def _seen(placement: Placement) -> tuple[Any, ...]:
    """What a caller sees of a member's placement."""
    return (
        placement.pod.name,
        placement.node,
        placement.code,
        placement.message,
        placement.total,
        placement.evaluated,
        placement.feasible,
        placement.best,
        placement.rejectors,
        placement.counters,
    )


@pytest.fixture(params=[0, 1, 16])
def few_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """From how many changed rows on arrays are used instead of single rows."""
    monkeypatch.setattr(classes, "_FEW_ROWS", request.param)
    return int(request.param)


@pytest.mark.parametrize("profile", sorted(PROFILES))
@settings(max_examples=tries(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    favourites=st.lists(st.integers(0, len(CLASSES) - 1), min_size=1, max_size=4),
    steps=steps,
    seed=st.integers(0, 2**16),
)
def test_any_history_gives_the_decisions_that_asking_every_plugin_gives(
    profile: str, favourites: list[int], steps: list[tuple[str, int]], seed: int, few_rows: int
) -> None:
    build = PROFILES[profile]
    history = History(build(), build(), favourites)
    for number, (step, draw) in enumerate(steps):
        history.happen(step, random.Random(seed * 1000 + number + draw))


@pytest.mark.parametrize("profile", ["default", "load", "load limit", "no scores", "spread by default"])
@settings(max_examples=tries(40), deadline=None)
@given(
    favourites=st.lists(st.sampled_from([1, 2, 4, 9]), min_size=1, max_size=2), steps=crowding, seed=st.integers(0, 9)
)
def test_nominations_of_any_priority_are_looked_at_as_by_asking_every_plugin(
    profile: str, favourites: list[int], steps: list[tuple[str, int]], seed: int
) -> None:
    # Few classes, all of which want much of a node: nominations often decide.
    build = PROFILES[profile]
    history = History(build(), build(), favourites)
    for number, (step, draw) in enumerate(steps):
        history.happen(step, random.Random(seed * 1000 + number + draw))


ALONE = sorted(
    {
        "default",
        "reads in branches",
        "reads of labels",
        "late reads",
        "load",
        "load as upstream",
        "load limit as upstream",
        "heavy weights",
        "added affinity",
    }
)
STOCKED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (container("200m", image="rare"), {}),
    (container("200m", image="busy"), TOLERATIONS),
    (container("300m", "1Gi", image="busy"), {"nodeSelector": {"zone": "a"}}),
    (
        container("300m", image="rare"),
        {
            **TOLERATIONS,
            **node_affinity(preferredDuringSchedulingIgnoredDuringExecution=[{"weight": 9, "preference": SIZED}]),
        },
    ),
    (container("100m", "1Gi"), {"tolerations": [{"operator": "Exists"}]}),
    (
        container("1"),
        node_affinity(preferredDuringSchedulingIgnoredDuringExecution=[{"weight": 3, "preference": NAMED}]),
    ),
]


@pytest.mark.parametrize("profile", ALONE)
@settings(max_examples=tries(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    favourites=st.lists(st.integers(0, len(CLASSES) + len(STOCKED) - 1), min_size=1, max_size=5),
    steps=steps,
    seed=st.integers(0, 2**16),
)
def test_pods_that_are_each_of_a_class_of_their_own_share_parts_and_are_placed_as_by_asking_every_plugin(
    profile: str, favourites: list[int], steps: list[tuple[str, int]], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No class is remembered, so that every pod is the first of its class: parts coincide, or differ.
    monkeypatch.setattr(classes, "_MAX_SEEN", 0)
    monkeypatch.setattr(shared, "_MIN_ANSWERS", 4)
    monkeypatch.setattr(shared, "_BYTES", (seed % 8) * shared._OVERHEAD)
    build = PROFILES[profile]
    history = History(build(), build(), favourites, [*CLASSES, *STOCKED])
    for number, (step, draw) in enumerate(steps):
        history.happen(step, random.Random(seed * 1000 + number + draw))
