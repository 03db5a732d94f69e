"""The store reports what changed, and its content depends on versions only."""

from __future__ import annotations

from hypothesis import given, strategies as st

from scheduler.kube.client import Store, object_meta
from scheduler.kube.model import EventType, ObjectMeta, Pod, ResourceVersion

ADDED, MODIFIED, DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED


def pod(name: str, version: int, uid: str = "") -> Pod:
    meta = ObjectMeta(
        name=name, namespace="ns", uid=uid or f"uid-{name}", resource_version=ResourceVersion(str(version))
    )
    return Pod(metadata=meta)


def filled(*pods: Pod) -> Store[Pod]:
    store: Store[Pod] = Store(object_meta)
    store.replace(pods)
    return store


def test_a_new_list_tells_added_updated_and_deleted() -> None:
    store = filled(pod("same", 1), pod("old", 2), pod("gone", 3))
    changes = store.replace([pod("same", 1), pod("old", 5), pod("new", 6)])
    assert changes.added == [pod("new", 6)]
    assert changes.updated == [(pod("old", 2), pod("old", 5))]
    assert changes.deleted == [pod("gone", 3)]
    assert len(store) == 3


def test_a_recreated_namesake_is_a_deletion_and_an_addition() -> None:
    before, after = pod("web", 1, "first"), pod("web", 9, "second")
    store = filled(before)
    changes = store.replace([after])
    assert (changes.deleted, changes.updated, changes.added) == ([before], [], [after])
    store = filled(before)
    changes = store.apply([(ADDED, after)])  # its deletion was missed
    assert (changes.deleted, changes.updated, changes.added) == ([before], [], [after])
    assert store.named("web", "ns") == after
    assert store.get("first") is None


def test_a_late_deletion_of_the_first_does_not_remove_its_namesake() -> None:
    store = filled(pod("web", 9, "second"))
    assert not store.apply([(DELETED, pod("web", 10, "first"))])
    assert store.named("web", "ns") == pod("web", 9, "second")


def test_a_batch_is_folded_to_its_net_effect() -> None:
    store = filled(pod("a", 1))
    changes = store.apply(
        [
            (MODIFIED, pod("a", 2)),
            (MODIFIED, pod("a", 3)),
            (ADDED, pod("b", 4)),
            (DELETED, pod("b", 5)),
            (ADDED, pod("c", 6)),
            (MODIFIED, pod("c", 7)),
        ]
    )
    assert changes.updated == [(pod("a", 1), pod("a", 3))]
    assert changes.added == [pod("c", 7)]
    assert changes.deleted == []


def test_stale_events_and_unknown_deletions_change_nothing() -> None:
    store = filled(pod("a", 5))
    assert not store.apply([(MODIFIED, pod("a", 4)), (MODIFIED, pod("a", 5)), (DELETED, pod("x", 9))])
    assert store.named("a", "ns") == pod("a", 5)
    assert store.named("a") is None


operations = st.lists(st.tuples(st.sampled_from(["put", "recreate", "delete"]), st.sampled_from("abc")), max_size=25)


@given(operations=operations, cuts=st.lists(st.integers(1, 5), min_size=1), missed=st.integers(0, 25))
def test_watching_in_any_batches_after_any_gap_equals_listing(
    operations: list[tuple[str, str]], cuts: list[int], missed: int
) -> None:
    live: dict[str, Pod] = {}
    events: list[tuple[EventType, Pod]] = []
    snapshots: list[list[Pod]] = [[]]
    version = 0
    for action, name in operations:
        version += 1
        held = live.get(name)
        if action == "put" or (action == "recreate" and held is None):
            live[name] = pod(name, version, held.metadata.uid if held else f"uid-{version}")
            events.append((MODIFIED if held else ADDED, live[name]))
        elif held is not None:
            del live[name]
            events.append((DELETED, pod(name, version, held.metadata.uid)))
            if action == "recreate":
                version += 1
                live[name] = pod(name, version, f"uid-{version}")
                events.append((ADDED, live[name]))
        snapshots.append(list(live.values()))

    store: Store[Pod] = Store(object_meta)
    reported: dict[str, Pod] = {}

    def hear(changes: object) -> None:
        for pod in changes.deleted:  # type: ignore[attr-defined]
            assert reported.pop(pod.metadata.uid) == pod
        for old, new in changes.updated:  # type: ignore[attr-defined]
            assert reported[old.metadata.uid] == old
            reported[new.metadata.uid] = new
        for pod in changes.added:  # type: ignore[attr-defined]
            assert pod.metadata.uid not in reported
            reported[pod.metadata.uid] = pod

    start = min(missed, len(snapshots) - 1)
    hear(store.replace(snapshots[start]))
    # Everything is replayed, also what the list already held: old news must not count.
    seen_versions = {int(pod.metadata.resource_version) for pod in snapshots[start]}
    listed_at = max(seen_versions, default=0)
    position, turn = 0, 0
    todo = [event for event in events if int(event[1].metadata.resource_version) > listed_at or event[0] is DELETED]
    while position < len(todo):
        size = cuts[turn % len(cuts)]
        hear(store.apply(todo[position : position + size]))
        position, turn = position + size, turn + 1
    assert not store.replace(snapshots[-1])
    assert sorted(reported) == sorted(pod.metadata.uid for pod in live.values())
    assert {pod.metadata.uid: pod for pod in store} == reported
