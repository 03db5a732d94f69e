"""Objects shown as a plugin is about to write them, and the indexes over them."""

import msgspec
import pytest
from hypothesis import given, strategies as st

from scheduler.state import ObjectStore
from tests.unit.scheduler.plugins.storage import volume

KIND = "PersistentVolume"


def version(item, number):
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, resource_version=str(number)))


def labelled(name, number, label):
    return version(volume(name, labels={"x": label}), number)


def label_of(item):
    return item.metadata.labels["x"]


@pytest.fixture
def store():
    store = ObjectStore()
    store.upsert(KIND, labelled("disk", 10, "real"))
    return store


def shown(store):
    return label_of(store.latest(KIND, "", "disk")), label_of(store.get(KIND, "", "disk"))


def test_an_assumption_is_seen_by_those_who_ask_for_the_latest(store):
    store.assume(KIND, labelled("disk", 10, "assumed"))
    assert shown(store) == ("assumed", "real")


def test_restoring_forgets_the_assumed_object_and_may_be_repeated(store):
    store.assume(KIND, labelled("disk", 10, "assumed"))
    store.restore(KIND, "", "disk")
    store.restore(KIND, "", "disk")
    assert shown(store) == ("real", "real")


def test_a_newer_version_ends_it(store):
    store.assume(KIND, labelled("disk", 10, "assumed"))
    store.upsert(KIND, labelled("disk", 11, "newer"))
    assert shown(store) == ("newer", "newer")


def test_the_same_version_listed_again_does_not(store):
    store.assume(KIND, labelled("disk", 10, "assumed"))
    store.upsert(KIND, labelled("disk", 10, "real"))
    assert shown(store) == ("assumed", "real")


def test_all_that_is_assumed_can_be_forgotten_at_once(store):
    store.assume(KIND, labelled("disk", 10, "assumed"))
    store.forget_assumed()
    assert shown(store) == ("real", "real")
    store.forget_assumed()


def test_what_is_out_of_date_or_gone_cannot_be_assumed(store):
    store.upsert(KIND, labelled("disk", 12, "newer"))
    with pytest.raises(ValueError, match=r'"disk" is out of sync \(stored: 12, assume: 10\)'):
        store.assume(KIND, labelled("disk", 10, "assumed"))
    store.remove(KIND, "", "disk")
    with pytest.raises(ValueError, match=r'could not find v1\.PersistentVolume "disk"'):
        store.assume(KIND, labelled("disk", 12, "assumed"))
    assert store.latest(KIND, "", "disk") is None


def test_a_recreated_object_does_not_inherit_an_assumption(store):
    store.assume(KIND, labelled("disk", 10, "assumed"))
    store.remove(KIND, "", "disk")
    store.upsert(KIND, labelled("disk", 13, "recreated"))
    assert shown(store) == ("recreated", "recreated")


def test_every_change_that_is_seen_changes_the_generation(store):
    seen = [store.generation(KIND)]
    for change in (
        lambda: store.assume(KIND, labelled("disk", 10, "assumed")),
        lambda: store.restore(KIND, "", "disk"),
        lambda: store.upsert(KIND, labelled("disk", 11, "newer")),
        lambda: store.remove(KIND, "", "disk"),
    ):
        change()
        seen.append(store.generation(KIND))
    assert len(set(seen)) == 5


names, labels = st.sampled_from("abc"), st.sampled_from(["red", "blue"])


@given(
    st.lists(st.tuples(st.sampled_from(["upsert", "remove", "assume", "restore", "ask"]), names, labels), max_size=40)
)
def test_an_index_shows_what_going_through_all_would(history):
    store = ObjectStore()
    for number, (action, name, label) in enumerate(history, 1):
        if action == "upsert":
            store.upsert(KIND, labelled(name, number, label))
        elif action == "remove":
            store.remove(KIND, "", name)
        elif action == "assume" and store.latest(KIND, "", name) is not None:
            store.assume(KIND, labelled(name, number, label))
        elif action == "restore":
            store.restore(KIND, "", name)
        else:
            store.latest_by(KIND, label_of, label)
    for label in ("red", "blue"):
        expected = {
            stored.metadata.name
            for stored in store.every(KIND)
            if label_of(store.latest(KIND, "", stored.metadata.name)) == label
        }
        assert {stored.metadata.name for stored in store.latest_by(KIND, label_of, label)} == expected
