"""Sums by namespace agree with a recount, whatever happened to pods, and whoever asked when."""

from collections.abc import Mapping

import msgspec
from hypothesis import given, settings, strategies as st

from scheduler.framework import PodInfo, Resources
from scheduler.state import ClusterState, Snapshot
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod

NODES = ("n0", "n1", "never there")


def occupied(info: PodInfo) -> Resources:
    return info.requests


def specified(info: PodInfo) -> Resources:
    return info.spec.requests


def recount(pods: list[PodInfo], resized: bool) -> dict[str, dict[str, int]]:
    sums: dict[str, dict[str, int]] = {}
    for info in pods:
        total = sums.setdefault(info.namespace, {})
        for name, amount in (info.requests if resized else info.spec.requests).items():
            total[name] = total.get(name, 0) + amount
    return plain(sums)


def plain(sums: Mapping[str, Resources]) -> dict[str, dict[str, int]]:
    kept = {name: {key: value for key, value in amounts.items() if value} for name, amounts in sums.items()}
    return {name: amounts for name, amounts in kept.items() if amounts}


def sized(index: int, size: int) -> PodInfo:
    requests = {"example.com/gpu": str(size % 3)} if size % 2 else {}
    return pod(f"p{index}", container(f"{size}m", f"{size % 4}Mi", requests=requests), namespace=f"ns{index % 3}")


steps = st.lists(
    st.tuples(
        st.sampled_from(["bind", "resize", "move", "delete", "end", "assume", "forget", "confirm", "node", "no node"]),
        st.integers(0, 7),
        st.integers(0, 9),
    ),
    max_size=40,
)


def do(state: ClusterState, action: str, index: int, size: int) -> None:
    info, name = sized(index, size), NODES[size % 3]
    known = state.pod(info.uid)
    change = msgspec.structs.replace
    match action:
        case "bind" | "move":
            state.upsert_pod(change(info, node_name=name))
        case "resize" if known is not None and not state.is_assumed(info.uid):
            state.upsert_pod(change(known, requests={"cpu": size * 5, "memory": 7}))
        case "delete":
            state.remove_pod(info.uid)
        case "end" if known is not None:
            state.upsert_pod(change(known, terminal=True))
        case "assume" if known is None:
            state.assume(info, name, NOW)
        case "forget":
            state.forget(info.uid)
        case "confirm" if known is not None:
            state.upsert_pod(known)
        case "node":
            state.upsert_node(node(NODES[size % 2]))
        case "no node":
            state.remove_node(NODES[size % 2])


@settings(max_examples=tries(200), deadline=None)
@given(steps, st.integers(0, 40))
def test_the_sums_are_those_of_a_recount(history: list[tuple[str, int, int]], asked_at: int) -> None:
    state = cluster(node("n0"), node("n1"))
    for number, step in enumerate(history):
        if number == asked_at:
            state.snapshot(NOW).requests_by_namespace(occupied)
        do(state, *step)
    pods = [placed for uid in state.pod_uids if (placed := state.pod(uid)) is not None]
    for view in (state.snapshot(NOW), state.snapshot(NOW, frozen=True)):
        assert plain(view.requests_by_namespace(occupied)) == recount(pods, resized=True)
        assert plain(view.requests_by_namespace(specified)) == recount(pods, resized=False)


@settings(max_examples=tries(100), deadline=None)
@given(steps, st.lists(st.tuples(st.booleans(), st.integers(0, 11), st.integers(0, 1)), max_size=8))
def test_a_what_if_counts_what_it_moves(
    history: list[tuple[str, int, int]], moves: list[tuple[bool, int, int]]
) -> None:
    state = cluster(node("n0"), node("n1"))
    for step in history:
        do(state, *step)
    base = state.snapshot(NOW)
    before = plain(base.requests_by_namespace(occupied))
    nested = base.overlay().overlay()
    pods = {uid: placed for uid in state.pod_uids if (placed := state.pod(uid)) is not None}
    for adding, index, node_index in moves:
        row = base.row(NODES[node_index])
        if row < 0:
            continue
        if adding and f"uid-p{index}" not in pods:
            pods[f"uid-p{index}"] = sized(index, index)
            nested.add_pod(sized(index, index), row)
        elif not adding and (gone := first_on(nested, row)) is not None:
            del pods[gone.uid]
            nested.remove_pod(gone, row)
    assert plain(nested.requests_by_namespace(occupied)) == recount(list(pods.values()), resized=True)
    assert plain(base.requests_by_namespace(occupied)) == before


def first_on(view: Snapshot, row: int) -> PodInfo | None:
    return next(iter(view.pods_on(row)), None)
