"""Pods by label: with and without a node, as they come, change and go."""

import msgspec

from scheduler.framework import PodInfo
from scheduler.state.cluster import PodDirectory
from tests.unit.scheduler.core.builders import pod

LABEL = "group"


def named(directory: PodDirectory, value: str) -> set[str]:
    return {info.name for info in directory.labelled(LABEL, "default", value)}


def test_pods_are_found_by_the_value_they_have_now() -> None:
    directory = PodDirectory(lambda uid: "")
    directory.index(LABEL)
    directory.upsert(pod("a", labels={LABEL: "x"}))
    directory.upsert(pod("b", labels={LABEL: "x"}, namespace="other"))
    directory.upsert(pod("c"))
    assert named(directory, "x") == {"a"}
    directory.upsert(pod("a", labels={LABEL: "y"}))
    assert (named(directory, "x"), named(directory, "y")) == (set(), {"a"})
    directory.upsert(pod("a"))
    assert named(directory, "y") == set()
    directory.remove("uid-a")


def test_pods_that_end_or_are_not_in_a_fresh_list_are_gone() -> None:
    directory = PodDirectory(lambda uid: "")
    directory.index(LABEL)
    pods = [pod(name, labels={LABEL: "x"}) for name in ("a", "b", "c")]
    for info in pods:
        directory.upsert(info)
    directory.upsert(msgspec.structs.replace(pods[0], terminal=True))
    directory.retain({"uid-c"})
    assert named(directory, "x") == {"c"}


def test_listeners_hear_what_happens_to_pods_with_the_label() -> None:
    directory = PodDirectory(lambda uid: "n1")
    heard: list[tuple[str, str]] = []

    def listen(old: PodInfo | None, new: PodInfo | None) -> None:
        heard.append((old.resource_version if old else "-", new.resource_version if new else "-"))

    directory.index(LABEL, listen)
    directory.upsert(pod("other"))
    directory.upsert(pod("a", labels={LABEL: "x"}, version="1"))
    directory.upsert(pod("a", labels={LABEL: "x"}, version="2"))
    directory.remove("uid-a")
    directory.remove("uid-a")
    assert heard == [("-", "1"), ("1", "2"), ("2", "-")]
    assert directory.node_of(pod("a")) == "n1"


def test_nothing_is_kept_where_nobody_asks() -> None:
    directory = PodDirectory(lambda uid: "")
    directory.upsert(pod("a", labels={LABEL: "x"}))
    assert named(directory, "x") == set()
