"""The pod cache: usage follows from objects, whatever happened on the way. Leaves out the queue and the plugins."""

import itertools
import math
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.catalog import ActionType
from scheduler.framework import LoadReading, NodeInfo, NodeLoad, NodeView, PodInfo
from scheduler.state import ClusterState
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, container, load, node, pod

NODES = ["n0", "n1", "n2"]
RESOURCES = ("cpu", "memory", "example.com/gpu")


def on(info: PodInfo, name: str, **changes: object) -> PodInfo:
    return msgspec.structs.replace(info, node_name=name, **changes)


def sized(index: int, size: int) -> PodInfo:
    # Sizes include sums beyond 2**53, where adding floats in another order would give another result.
    memory = ["1", "100Mi", "8192Ti", "8Ei"][size % 4]
    requests = {"example.com/gpu": "3"} if size % 3 == 0 else {}
    return pod(f"p{index}", container(f"{size * 7 + 1}m", memory, requests=requests))


def usage(state: ClusterState) -> dict[str, dict[str, float]]:
    view = state.snapshot(NOW)
    result = {}
    for name in state.node_names:
        row = view.row(name)
        result[name] = {resource: float(view.requested(resource)[row]) for resource in RESOURCES}
        result[name]["pods"] = float(view.pod_count[row])
        result[name]["nonzero"] = float(view.nonzero_requested("cpu")[row]) + float(
            view.nonzero_requested("memory")[row]
        )
    return result


def expected_usage(placed: dict[str, PodInfo], names: list[str]) -> dict[str, dict[str, float]]:
    result = {}
    for name in names:
        pods = [info for info in placed.values() if info.node_name == name]
        result[name] = {resource: float(sum(info.requests.get(resource, 0) for info in pods)) for resource in RESOURCES}
        result[name]["pods"] = float(len(pods))
        result[name]["nonzero"] = float(sum(info.nonzero_cpu for info in pods)) + float(
            sum(info.nonzero_memory for info in pods)
        )
    return result


def test_a_pod_that_is_updated_has_one_copy_of_its_uid() -> None:
    state = ClusterState()
    uid, again = ("".join(["pod", "-", "1"]) for _ in range(2))
    assert uid is not again
    state.assume(msgspec.structs.replace(pod("p"), uid=uid), "n0", NOW)
    state.upsert_pod(msgspec.structs.replace(pod("p"), uid=again, node_name="n0"))
    kept = state.pod("pod-1")
    assert kept is not None
    assert kept.uid is uid


steps = st.lists(
    st.tuples(
        st.sampled_from(["bind", "move", "resize", "delete", "end", "assume", "forget", "confirm", "node", "no node"]),
        st.integers(0, 5),
        st.integers(0, 2),
        st.integers(0, 11),
    ),
    max_size=40,
)


class Model:
    """What the state must show: the pods that are placed, and the nodes there are."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.placed: dict[str, PodInfo] = {}
        self.assumed: set[str] = set()
        self.names: list[str] = []

    def step(self, action: str, index: int, node_index: int, size: int) -> None:
        uid, name = f"uid-p{index}", NODES[node_index]
        handler: Callable[[str, str, PodInfo], None] = getattr(self, f"do_{action.replace(' ', '_')}")
        handler(uid, name, sized(index, size))

    def do_bind(self, uid: str, name: str, info: PodInfo) -> None:
        self.state.upsert_pod(on(info, name), NOW)
        self.placed[uid] = on(info, name)
        self.assumed.discard(uid)

    do_move = do_resize = do_bind

    def do_delete(self, uid: str, name: str, info: PodInfo) -> None:
        self.state.remove_pod(uid)
        self.placed.pop(uid, None)
        self.assumed.discard(uid)

    def do_end(self, uid: str, name: str, info: PodInfo) -> None:
        self.state.upsert_pod(on(info, name, terminal=True), NOW)
        self.placed.pop(uid, None)
        self.assumed.discard(uid)

    def do_assume(self, uid: str, name: str, info: PodInfo) -> None:
        if uid not in self.placed:
            self.placed[uid] = self.state.assume(info, name, NOW)
            self.assumed.add(uid)

    def do_forget(self, uid: str, name: str, info: PodInfo) -> None:
        assert self.state.forget(uid) is (uid in self.assumed)
        if uid in self.assumed:
            self.assumed.remove(uid)
            del self.placed[uid]

    def do_confirm(self, uid: str, name: str, info: PodInfo) -> None:
        if uid in self.assumed:
            self.do_bind(uid, self.placed[uid].node_name, info)

    def do_node(self, uid: str, name: str, info: PodInfo) -> None:
        self.state.upsert_node(node(name))
        if name not in self.names:
            self.names.append(name)

    def do_no_node(self, uid: str, name: str, info: PodInfo) -> None:
        self.state.remove_node(name)
        if name in self.names:
            self.names.remove(name)


@settings(max_examples=tries(150), deadline=None)
@given(steps)
def test_usage_is_the_sum_over_pods_after_any_history(history: list[tuple[str, int, int, int]]) -> None:
    model = Model()
    for step in history:
        model.step(*step)
    assert usage(model.state) == expected_usage(model.placed, model.names)
    assert model.state.assumed_count == len(model.assumed)
    assert model.state.pod_count == len(model.placed)


@settings(max_examples=tries(100), deadline=None)
@given(steps, st.randoms(use_true_random=False))
def test_a_relisted_state_equals_the_one_reached_by_watching(
    history: list[tuple[str, int, int, int]], random: object
) -> None:
    watched = Model()
    for step in history:
        if step[0] not in ("assume", "forget"):
            watched.step(*step)
    listed = ClusterState()
    infos: list[NodeInfo] = [node(name) for name in watched.names]
    pods = list(watched.placed.values())
    random.shuffle(infos)
    random.shuffle(pods)
    for info in pods[::2]:
        listed.upsert_pod(info, NOW)
    for info in infos:
        listed.upsert_node(info)
    for info in pods[1::2]:
        listed.upsert_pod(info, NOW)
    assert usage(listed) == usage(watched.state)


new_nodes = st.builds(
    lambda cpu, memory, pods, gpu, zone, taint, cordoned, image: node(
        "",
        allocatable={"cpu": cpu, "memory": memory, "pods": pods, **({"example.com/gpu": gpu} if gpu else {})},
        labels={"zone": zone} if zone else {},
        taints=[("k", taint, "NoSchedule")] if taint else [],
        unschedulable=cordoned,
        images={image: 7} if image else {},
    ),
    st.sampled_from(["0", "4", "500m"]),
    st.sampled_from(["1Gi", "100Ti", "16Ei"]),
    st.sampled_from(["0", "110"]),
    st.sampled_from(["", "2"]),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "x", "y"]),
    st.booleans(),
    st.sampled_from(["", "i:1", "j:1"]),
)


def columns(state: ClusterState) -> dict[str, object]:
    """All that a table shows of its nodes."""
    view, table = state.snapshot(NOW), state.table
    zone, images = view.labels("zone"), {name: view.image(name) for name in ("i:1", "j:1")}
    cpu = view.load(load({}).source).cpu_average
    names = ["cpu", "memory", "ephemeral-storage", "example.com/gpu"]
    return {
        "rows": table.row_of,
        "infos": table.infos[: table.size],
        "allocatable": {name: view.allocatable(name).tolist() for name in names},
        "requested": {name: view.requested(name).tolist() for name in names},
        "pods": (view.pod_count.tolist(), view.allowed_pods.tolist()),
        "cordoned": view.unschedulable.tolist(),
        "capacity": table.capacity_cpu[: table.size].tolist(),
        "zone": [zone.values[code] if code >= 0 else None for code in zone.codes[: table.size].tolist()],
        "taints": [view.taints.classes[code] for code in view.taints.codes[: table.size].tolist()],
        "images": {
            name: image and (image.present[: table.size].tolist(), image.nodes) for name, image in images.items()
        },
        "load": [None if math.isnan(value) else value for value in cpu[: table.size].tolist()],
        "complete": (table.complete, table._wide),
    }


@settings(max_examples=tries(100), deadline=None)
@given(st.lists(st.lists(new_nodes, max_size=70), min_size=1, max_size=3), st.sets(st.integers(0, 5)), st.booleans())
def test_many_nodes_at_once_are_what_they_are_one_by_one(
    batches: list[list[NodeInfo]], removed: set[int], measured: bool
) -> None:
    at_once, singly = ClusterState(), ClusterState()
    states = (at_once, singly)
    for state in states:
        state.set_load(load({"n0": 50.0, "n70": 20.0} if measured else {}))
        state.upsert_pod(on(sized(0, 3), "n1"), NOW)
    named = itertools.count()
    for batch in batches:
        # Columns that were asked for before the next nodes come must hold them, too.
        before = [(columns(state), state.table.membership, state.generation) for state in states]
        infos: list[NodeInfo] = [msgspec.structs.replace(info, name=f"n{next(named)}") for info in batch]
        at_once.add_nodes(infos)
        for info in infos:
            singly.upsert_node(info)
        assert columns(at_once) == columns(singly)
        for state, (_, membership, generation) in zip(states, before, strict=True):
            assert state.table.changed_since(generation) == {state.table.row_of[info.name] for info in infos}
            assert (state.table.membership != membership) is bool(infos)
        for name in [f"n{index}" for index in removed]:
            for state in states:
                state.remove_node(name)


def test_rows_are_reused_and_come_back_empty() -> None:
    state = cluster(
        node("a", taints=[("k", "v", "NoSchedule")], unschedulable=True, labels={"zone": "z"}),
        pods={"a": [pod("p", container("1"))]},
    )
    state.set_load(load({"a": 50.0}))
    view = state.snapshot(NOW)
    assert view.labels("zone").codes.tolist() == [0]
    membership = view.membership
    state.remove_node("a")
    state.upsert_node(node("b"))
    view = state.snapshot(NOW)
    assert view.membership != membership
    assert view.size == 1
    assert view.row("a") == -1
    assert view.requested("cpu").tolist() == [0.0]
    assert view.labels("zone").codes.tolist() == [-1]
    assert not view.unschedulable.any()
    assert view.taints.classes[int(view.taints.codes[0])] == ()
    assert math.isnan(view.load(load({}).source).cpu_average[0])


def test_a_table_outgrows_its_first_capacity() -> None:
    state = cluster(node("n0", labels={"zone": "z0"}))
    assert state.snapshot(NOW).labels("zone").values == ["z0"]
    state.set_load(load({"n0": 10.0, "n150": 20.0}))
    for index in range(1, 200):
        state.upsert_node(
            node(f"n{index}", labels={"zone": f"z{index % 3}"}, allocatable={"example.com/x": str(index)})
        )
    view = state.snapshot(NOW)
    assert view.size == len(view.rows) == 200
    assert view.dense
    zones = view.labels("zone")
    assert [zones.values[code] for code in zones.codes.tolist()] == [f"z{index % 3}" for index in range(200)]
    assert view.allocatable("example.com/x").tolist() == [float(index) for index in range(200)]
    cpu = view.load(load({}).source).cpu_average[:200]
    assert (cpu[0], cpu[150]) == (10.0, 20.0)
    assert np.count_nonzero(~np.isnan(cpu)) == 2


def test_changes_of_a_node_are_distinguished() -> None:
    state = cluster(node("n"))
    A = ActionType
    assert state.upsert_node(node("n"))[0] == 0
    assert state.upsert_node(node("n", labels={"a": "b"}))[0] == A.UPDATE_NODE_LABEL
    assert state.upsert_node(node("n", labels={"a": "b"}, unschedulable=True))[0] == 0
    assert state.upsert_node(node("n", labels={"a": "b"}))[0] == A.UPDATE_NODE_TAINT
    changed, old = state.upsert_node(node("n", allocatable={"cpu": "8"}, taints=[("k", "", "NoSchedule")]))
    assert changed == A.UPDATE_NODE_LABEL | A.UPDATE_NODE_TAINT | A.UPDATE_NODE_ALLOCATABLE
    assert old.labels["a"] == "b"
    assert state.snapshot(NOW).allocatable("cpu").tolist() == [8000.0]


def test_only_changed_rows_are_in_the_log() -> None:
    state = cluster(node("n0"), node("n1"), node("n2"))
    start = state.generation
    state.assume(pod("p", container("1")), "n1", NOW)
    assert state.table.changed_since(start) == {1}
    before = state.generation
    state.set_load(load({"n0": 1.0}))
    assert state.table.changed_since(before) is None, "new load changes every row"


def test_a_pod_is_assumed_once_and_bound_pods_are_not_forgotten() -> None:
    state = cluster(node("n0"))
    info = pod("p", container("1"))
    assert state.assume(info, "n0", NOW).node_name == "n0"
    with pytest.raises(ValueError, match="already on node n0"):
        state.assume(info, "n0", NOW)
    state.upsert_pod(on(info, "n0"), NOW)
    assert not state.is_assumed(info.uid)
    assert not state.forget(info.uid)
    assert state.pod_count == 1


def test_a_binding_elsewhere_overrules_the_assumption() -> None:
    state = cluster(node("n0"), node("n1"))
    info = pod("p", container("1"))
    state.assume(info, "n0", NOW)
    state.upsert_pod(on(info, "n1"), NOW)
    assert usage(state)["n0"]["cpu"] == 0
    assert usage(state)["n1"]["cpu"] == 1000


def test_an_update_of_a_pod_whose_binding_is_under_way_changes_nothing() -> None:
    state = cluster(node("n0"))
    state.assume(pod("p", container("1")), "n0", NOW)
    state.upsert_pod(pod("p", container("1"), labels={"a": "b"}), NOW)
    assert state.is_assumed("uid-p")
    state.upsert_pod(msgspec.structs.replace(pod("p"), terminal=True), NOW)
    assert state.pod_count == state.assumed_count == 0


def test_a_missing_load_is_never_zero() -> None:
    state = cluster(node("n0"), node("n1"), node("n2"))
    loads = {"n0": NodeLoad(cpu_average=5.0), "n1": NodeLoad(cpu_average=7.0), "other": NodeLoad(cpu_average=1.0)}
    assert state.set_load(LoadReading(loads, NOW, source="s")) == ("n2",)
    columns = state.snapshot(NOW).load("s")
    assert columns.cpu_average[:2].tolist() == [5.0, 7.0]
    assert math.isnan(columns.cpu_average[2])
    assert np.isnan(columns.memory_average[:3]).all()


def test_a_load_without_sample_time_is_as_old_as_the_answer() -> None:
    state = cluster(node("n0"), node("n1"), node("n2"))
    loads = {"n0": NodeLoad(cpu_average=5.0, measured_at=90.0), "n1": NodeLoad(cpu_average=7.0)}
    state.set_load(LoadReading(loads, 100.0, source="s"))
    assert state.snapshot(NOW).load("s").sampled_at[:3].tolist() == [90.0, 100.0, 0.0]


def test_columns_laid_out_ahead_are_those_that_the_load_shows_later() -> None:
    state = cluster(node("n0"), node("n1"))
    reading = LoadReading({"n1": NodeLoad(10.0, 20.0, 30.0, 40.0, cpu_first=1.0, cpu_last=2.0)}, NOW, source="s")
    ahead = state.lay_out_load(reading)
    assert state.snapshot(NOW).load("s") is None
    state.set_load(reading)
    columns = state.snapshot(NOW).load("s")
    for name in ("cpu_average", "cpu_stddev", "memory_average", "memory_stddev", "cpu_first", "cpu_last", "sampled_at"):
        np.testing.assert_array_equal(getattr(ahead, name), getattr(columns, name))
    assert columns.cpu_first[1] == 1.0
    assert columns.cpu_last[1] == 2.0


def test_a_frozen_snapshot_does_not_follow_the_state() -> None:
    state = cluster(node("n0"), node("n1"))
    state.set_load(load({"n0": 1.0}))
    frozen = state.snapshot(NOW, frozen=True)
    state.assume(pod("p", container("1")), "n0", NOW)
    state.upsert_node(node("n2", labels={"zone": "z"}))
    state.set_load(load({"n0": 9.0}))
    assert frozen.size == 2
    assert frozen.requested("cpu").tolist() == [0.0, 0.0]
    assert not frozen.pods_on(0)
    assert frozen.load(load({}).source).cpu_average[0] == 1.0
    assert state.snapshot(NOW).requested("cpu")[0] == 1000.0


def test_an_overlay_adds_and_removes_without_touching_the_table() -> None:
    state = cluster(node("n0"), node("n1"), pods={"n0": [pod("victim", container("2", "1Gi"))]})
    overlay = state.snapshot(NOW).overlay()
    overlay.add_pod(pod("guest", container("500m", requests={"example.com/gpu": "1"})), 1)
    overlay.remove_pod(next(iter(overlay.pods_on(0))), 0)
    assert overlay.requested("cpu").tolist() == [0.0, 500.0]
    assert overlay.requested("example.com/gpu").tolist() == [0.0, 1.0]
    assert overlay.pod_count.tolist() == [0.0, 1.0]
    assert [info.name for info in overlay.pods_on(1)] == ["guest"]
    assert overlay.nonzero_requested("memory").tolist() == [0.0, 200.0 * 1024 * 1024]
    guest = next(iter(overlay.pods_on(1)))
    assert [(assignment.sign, assignment.spec) for assignment in overlay.overlay_assignments] == [(1, guest.spec)]
    assert state.snapshot(NOW).requested("cpu").tolist() == [2000.0, 0.0]


def test_wide_amounts_are_flagged_until_the_node_goes() -> None:
    state = cluster(node("n0", allocatable={"memory": "100Ti"}), node("n1"))
    assert state.snapshot(NOW).wide("memory")
    assert not state.snapshot(NOW).wide("cpu")
    state.remove_node("n0")
    assert not state.snapshot(NOW).wide("memory")


def test_the_assignment_log_tells_assumed_from_observed() -> None:
    state = cluster(node("n0"))
    info = pod("p", container("1"))
    state.assume(info, "n0", NOW)
    state.upsert_pod(on(info, "n0"), NOW + 3)
    old = on(pod("old"), "n0", assigned_at=NOW - 5000)
    state.upsert_pod(old, NOW + 4)
    state.remove_pod(info.uid)
    names = {id(info.spec): "p", id(old.spec): "old"}
    log = [(entry.sign, names[id(entry.spec)], entry.at - NOW, entry.observed) for entry in state.assignments.since(0)]
    assert log == [
        (1, "p", 0, False),
        (1, "p", 3, True),
        (1, "old", -5000, False),
        (1, "old", 4, True),
        (-1, "p", 0, False),
        (-1, "p", 3, True),
    ]


def test_old_assignments_are_dropped_from_the_log() -> None:
    state = cluster(node("n0", allocatable={"pods": "100000"}))
    for index in range(6000):
        state.assume(pod(f"p{index}"), "n0", NOW + index)
    assert state.assignments.start > 0
    kept = state.assignments.since(state.assignments.start)
    assert kept[0].at >= NOW + 6000 - 1800 - 4096
    assert state.assignments.end == 6000


def test_assignments_that_a_load_shows_already_are_dropped_from_the_log() -> None:
    state = cluster(node("n0", allocatable={"pods": "100000"}))
    for index in range(8000):
        state.assume(pod(f"p{index}"), "n0", NOW + index / 100)
    state.set_load(LoadReading({}, NOW + 120, source="source"))
    state.assume(pod("last"), "n0", NOW + 126)
    kept = state.assignments.since(state.assignments.start)
    # What the load may lack, which is what came in its last minute and later, is kept.
    assert kept[0].at == pytest.approx(NOW + 120 - 60)
    assert len(kept) == 2001
    assert state.assignments.end == 8001


def test_a_log_that_nobody_reads_keeps_nothing() -> None:
    state = cluster(node("n0"))
    state.assignments.keep(False)
    state.assume(pod("p"), "n0", NOW)
    assert not state.assignments.since(state.assignments.start)
    assert state.assignments.end == 1


def test_amounts_of_pods_are_summed_per_node_through_churn_and_overlays() -> None:
    limited = container("1", "1Gi", limits={"cpu": "2"})
    state = cluster(node("a"), node("b"), pods={"a": [pod("one", limited)]})
    state.assume(pod("two", container("500m")), "a", NOW)
    view = state.snapshot(NOW)

    def cpu_limit(info: PodInfo) -> int:
        return max(info.limits.get("cpu", 0), info.requests.get("cpu", 0))

    def memory(info: PodInfo) -> int:
        return info.requests.get("memory", 0)

    def sums(seen: NodeView) -> list[list[float]]:
        return [seen.summed(amount)[:2].tolist() for amount in (cpu_limit, memory)]

    before = [[2500, 0], [1 << 30, 0]]
    assert sums(view) == before
    overlay = view.overlay()
    overlay.add_pod(pod("three", limited), 1)
    assert overlay.summed(cpu_limit).tolist() == [2500, 2000]
    overlay.remove_pod(state.pod("uid-one"), 0)
    assert sums(overlay) == [[500, 2000], [0, 1 << 30]]
    assert sums(view) == before
    resized = msgspec.structs.replace(pod("one", container("1", "1Gi", limits={"cpu": "3"})), node_name="a")
    state.upsert_pod(resized)
    assert state.snapshot(NOW).summed(cpu_limit)[0] == 3500
    state.forget("uid-two")
    state.remove_pod("uid-one")
    assert sums(state.snapshot(NOW)) == [[0, 0]] * 2
