"""Who holds a port, a claim or a disk: the same as looking at every pod on every node, whatever happened before."""

import msgspec
from hypothesis import given, strategies as st

from scheduler.helpers.holding import ATTACHABLE, DISKS, claim_key, port_key
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, container, node, pod

PORT = [{"containerPort": 80, "hostPort": 8080}]
CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
KINDS = {
    "port": pod("port", container(ports=PORT)),
    "claim": pod("claim", volumes=[CLAIM]),
    "disk": pod("disk", volumes=[{"name": "d", "iscsi": {"iqn": "q"}}, CLAIM]),
    "migrated": pod("migrated", volumes=[{"name": "d", "gcePersistentDisk": {"pdName": "p"}}]),
    "scratch": pod("scratch", volumes=[{"name": "e", "ephemeral": {}}]),
    "plain": pod("plain"),
}
KEYS = (port_key(KINDS["port"].spec.host_ports[0]), claim_key("default", "data"), DISKS, ATTACHABLE)
NODES = ("a", "b", "c")

steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "move", "remove", "node", "no node"]),
        st.sampled_from(sorted(KINDS)),
        st.integers(0, 3),
        st.sampled_from(NODES),
    ),
    max_size=40,
)


def play(state, history):
    for action, kind, number, name in history:
        info = msgspec.structs.replace(KINDS[kind], uid=f"{kind}-{number}", node_name=name)
        if action in ("add", "move"):
            state.upsert_pod(info, NOW)
        elif action == "remove":
            state.remove_pod(info.uid)
        elif action == "node":
            state.upsert_node(node(name))
        else:
            state.remove_node(name)


def looked_at(view, key):
    return {(row, info.uid) for row in view.rows.tolist() for info in view.pods_on(row) if key in info.spec.holds}


def check(view):
    for key in KEYS:
        assert {(holder.row, holder.pod.uid) for holder in view.holders(key)} == looked_at(view, key)
    counted = {row: sum(info.spec.attachable for info in view.pods_on(row)) for row in view.rows.tolist()}
    assert {row: int(view.attachable[row]) for row in counted} == counted


@given(steps)
def test_holders_are_those_found_by_looking_at_every_pod(history):
    state = ClusterState()
    play(state, history)
    check(state.snapshot(NOW))
    check(state.snapshot(NOW, frozen=True))


@given(steps, st.lists(st.tuples(st.booleans(), st.sampled_from(sorted(KINDS)), st.integers(0, 2)), max_size=8))
def test_a_what_if_view_counts_what_it_adds_and_removes(history, moves):
    state = ClusterState()
    state.upsert_node(node("z"))
    play(state, history)
    before = {key: looked_at(state.snapshot(NOW), key) for key in KEYS}
    overlay = state.snapshot(NOW).overlay()
    for number, (remove, kind, place) in enumerate(moves):
        rows = overlay.rows.tolist()
        row = rows[place % len(rows)]
        present = list(overlay.pods_on(row))
        if remove and present:
            overlay.remove_pod(present[0], row)
        else:
            overlay.add_pod(msgspec.structs.replace(KINDS[kind], uid=f"new-{number}"), row)
    check(overlay)
    assert {key: looked_at(state.snapshot(NOW), key) for key in KEYS} == before
