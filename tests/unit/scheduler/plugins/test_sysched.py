"""SySched: names of profiles, a plain reference on random clusters that change, and profiles that are missing."""

import random
from typing import Any

import msgspec
import pytest

from scheduler.core import explain
from scheduler.framework import CycleState, PodInfo, ProfileRunner, ScorePlugin
from scheduler.kube.primitives.quantity import INT64_MAX
from scheduler.plugins.sysched import profile_name
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, node, only_scores, pod, runner
from tests.unit.scheduler.plugins.storage import made

NAME = "SySched"
ANNOTATION = "seccomp.security.alpha.kubernetes.io"
STARTED = {"startTime": "2026-01-01T00:00:00Z"}


def profile(compatibility: str = "safe") -> ProfileRunner:
    return runner(only_scores(NAME), compatibility=compatibility)


def seccomp(name: str, allowed: str = "", namespace: str = "default", **other: str) -> Any:
    """Calls as a text of letters; words: further actions."""
    actions = {"SCMP_ACT_ALLOW": allowed, **other}
    syscalls = [{"action": action, "names": list(calls)} for action, calls in actions.items()]
    return made("SeccompProfile", name, namespace, spec={"defaultAction": "SCMP_ACT_ERRNO", "syscalls": syscalls})


def local(name: str, namespace: str = "default") -> dict[str, Any]:
    path = f"operator/{namespace}/{name}.json"
    return {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": path}}}


def user(name: str, of: str, **fields: Any) -> PodInfo:
    """A pod with a profile; it has been started."""
    return pod(name, {"name": "c", **local(of)}, status=STARTED, **fields)


def with_profiles(state: ClusterState, **calls: str) -> ClusterState:
    for name, allowed in calls.items():
        state.objects.upsert("SeccompProfile", seccomp(name.replace("_", "-"), allowed))
    return state


def scores(state: ClusterState, info: PodInfo, scheduler: ProfileRunner) -> dict[str, tuple[int, int]]:
    explanation = explain(state.snapshot(NOW), info, scheduler)
    return {
        name: (explained.scores[NAME].raw, explained.scores[NAME].normalized) for name, explained in explanation.nodes()
    }


def raw(state: ClusterState, info: PodInfo, compatibility: str = "safe") -> dict[str, int]:
    return {name: score[0] for name, score in scores(state, info, profile(compatibility)).items()}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("localhost/operator/default/httpd-seccomp.json", ("default", "httpd-seccomp")),
        ("operator/default/httpd-seccomp.json", ("default", "httpd-seccomp")),
        ("default/two.parts.json", ("default", "two.parts")),
        ("default/bare", ("default", "bare")),
        ("default/.json", ("default", "")),
        ("alone.json", ("", "")),
        ("/name.json", ("", "name")),
        ("", ("", "")),
    ],
)
def test_the_last_two_parts_of_a_path_name_a_profile(path: str, expected: tuple[str, str]) -> None:
    assert profile_name(path) == expected


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
def test_extraneous_calls_are_summed_up_over_all_pods_of_a_node(compatibility: str) -> None:
    state = cluster(node("empty"), node("same"), node("other"))
    with_profiles(state, one="abc", two="cdef")
    state.upsert_pod(msgspec.structs.replace(user("1", "one"), node_name="same"))
    state.upsert_pod(msgspec.structs.replace(user("2", "two"), node_name="other"))
    # On `other` the pod sees d, e, f; and the one there sees a, b.
    assert scores(state, user("new", "one"), profile(compatibility)) == {
        "empty": (0, 100),
        "same": (0, 100),
        "other": (5, 0),
    }


def test_a_pod_has_the_calls_of_its_own_its_containers_and_its_annotations_profiles() -> None:
    state = with_profiles(cluster(node("a")), own="a", first="b", second="c", noted="d", unrelated="e")
    info = pod(
        "p",
        {"name": "c1", **local("first")},
        {"name": "c2", **local("second")},
        initContainers=[{"name": "i", **local("unrelated")}],
        metadata={"annotations": {f"{ANNOTATION}/pod": "operator/default/noted.json", "other": "default/unrelated"}},
        **local("own"),
    )
    state.upsert_pod(msgspec.structs.replace(info, node_name="a"))
    # Whoever needs nothing of a, b, c, d makes four calls extraneous, and brings one.
    assert raw(state, user("new", "unrelated")) == {"a": 4 + 1}


def test_calls_that_are_logged_count_as_allowed_and_others_do_not() -> None:
    state = with_profiles(cluster(node("a")), new="x")
    state.objects.upsert(
        "SeccompProfile", seccomp("old", "a", SCMP_ACT_LOG="b", SCMP_ACT_NOTIFY="c", SCMP_ACT_KILL="d")
    )
    state.upsert_pod(msgspec.structs.replace(user("1", "old"), node_name="a"))
    assert raw(state, user("new", "new")) == {"a": 2 + 1}


@pytest.mark.parametrize("of", ["missing", ""])
def test_a_pod_without_a_profile_that_exists_has_the_default_one(of: str) -> None:
    state = with_profiles(cluster(node("a"), node("b")), one="ab", all_syscalls="abcdef")
    state.upsert_pod(msgspec.structs.replace(user("1", of) if of else pod("1"), node_name="a"))
    assert raw(state, user("new", "one")) == {"a": 4, "b": 0}


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
def test_without_any_profile_all_nodes_are_alike(compatibility: str) -> None:
    state = cluster(node("a"), node("b"), pods={"a": [user("1", "one")]})
    expected = {"a": (INT64_MAX, 100), "b": (INT64_MAX, 100)}
    assert scores(state, user("new", "one"), profile(compatibility)) == expected


def test_a_changed_or_deleted_profile_shows_at_once() -> None:
    state, scheduler = with_profiles(cluster(node("a")), one="ab", new="x"), profile()
    state.upsert_pod(msgspec.structs.replace(user("1", "one"), node_name="a"))
    assert scores(state, user("new", "new"), scheduler)["a"][0] == 2 + 1
    with_profiles(state, one="abcd")
    assert scores(state, user("new", "new"), scheduler)["a"][0] == 4 + 1
    with_profiles(state, one="x")
    assert scores(state, user("new", "new"), scheduler)["a"][0] == 0
    state.objects.remove("SeccompProfile", "default", "one")
    assert scores(state, user("new", "new"), scheduler)["a"][0] == 1


# Where safe and upstream differ ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("compatibility", "expected"), [("safe", 3), ("upstream", 0)])
def test_a_pod_counts_at_once_here_and_once_it_is_started_upstream(compatibility: str, expected: int) -> None:
    state = with_profiles(cluster(node("a")), one="ab", new="x")
    waiting = pod("1", {"name": "c", **local("one")})
    placed = state.assume(waiting, "a", NOW)
    assert raw(state, user("new", "new"), compatibility) == {"a": expected}
    scheduler = profile(compatibility)
    assert scores(state, user("new", "new"), scheduler)["a"][0] == expected
    state.upsert_pod(msgspec.structs.replace(placed, started_at=NOW))
    assert scores(state, user("new", "new"), scheduler)["a"][0] == 3


@pytest.mark.parametrize(("compatibility", "expected"), [("safe", 4 + 3 + 3), ("upstream", 2 + 1)])
def test_namesakes_of_two_namespaces_both_count_here_and_one_of_them_upstream(
    compatibility: str, expected: int
) -> None:
    state = with_profiles(cluster(node("a")), one="ab", two="cd", new="x")
    for number, (namespace, of) in enumerate((("first", "one"), ("second", "two"))):
        info = user("web", of, namespace=namespace, uid=f"u{number}")
        state.upsert_pod(msgspec.structs.replace(info, node_name="a"))
    # a, b, c, d for the newcomer; c, d, x and a, b, x for those there.
    assert raw(state, user("new", "new"), compatibility) == {"a": expected}


@pytest.mark.parametrize(("compatibility", "expected"), [("safe", 4 + 1), ("upstream", 2 + 1)])
def test_all_annotations_count_here_and_one_of_them_upstream(compatibility: str, expected: int) -> None:
    state = with_profiles(cluster(node("a")), one="ab", two="cd", new="x")
    paths = {f"{ANNOTATION}/pod": "default/two.json", f"container.{ANNOTATION}/c": "default/one.json"}
    info = pod("1", status=STARTED, metadata={"annotations": paths})
    state.upsert_pod(msgspec.structs.replace(info, node_name="a"))
    assert raw(state, user("new", "new"), compatibility) == {"a": expected}


def test_upstream_goes_on_to_the_next_annotation_where_a_profile_is_missing_and_stops_where_none_is_named() -> None:
    state = with_profiles(cluster(node("a"), node("b")), two="cd", new="x", all_syscalls="uvw")
    for number, (name, first) in enumerate((("a", "default/missing.json"), ("b", "nonsense"))):
        paths = {f"a.{ANNOTATION}": first, f"b.{ANNOTATION}": "default/two.json"}
        info = pod(f"p{number}", status=STARTED, metadata={"annotations": paths})
        state.upsert_pod(msgspec.structs.replace(info, node_name=name))
    assert raw(state, user("new", "new"), "upstream") == {"a": 2 + 1, "b": 3 + 1}


# What-if views and changes --------------------------------------------------------------------------------------------


def test_what_an_overlay_shows_counts_there_and_nowhere_else() -> None:
    state, scheduler = with_profiles(cluster(node("a"), node("b")), one="ab", two="cd", new="x"), profile()
    state.upsert_pod(msgspec.structs.replace(user("1", "one"), node_name="a"))
    plugin: Any = scheduler.plugins[NAME]
    assert isinstance(plugin, ScorePlugin)
    info = user("new", "new")
    base = state.snapshot(NOW)
    overlay = base.overlay()
    overlay.add_pod(user("2", "two"), base.row("b"))
    overlay.remove_pod(next(iter(base.pods_on(base.row("a")))), base.row("a"))

    def found(view: Any) -> list[int]:
        return list(plugin.score(CycleState(), info, view, view.rows))

    assert found(overlay) == [0, 3]
    assert found(base) == [3, 0]
    assert found(overlay) == [0, 3]
    state.upsert_pod(msgspec.structs.replace(user("3", "two"), node_name="b"))
    assert found(state.snapshot(NOW)) == [3, 3]


def test_more_calls_than_a_word_has_bits() -> None:
    names = [f"call-{number}" for number in range(150)]
    state = cluster(node("a"), node("b"))
    for name, calls in (("one", names[:100]), ("two", names[50:])):
        spec = {"syscalls": [{"action": "SCMP_ACT_ALLOW", "names": calls}]}
        state.objects.upsert("SeccompProfile", made("SeccompProfile", name, "default", spec=spec))
    state.upsert_pod(msgspec.structs.replace(user("1", "one"), node_name="a"))
    assert raw(state, user("new", "two")) == {"a": 50 + 50, "b": 0}


def _reference(state: ClusterState, calls: dict[str, set[str]], info_calls: set[str], upstream: bool) -> dict[str, int]:
    """Node by node and pod by pod, as it reads in the Go code."""
    raw = {}
    for name in state.node_names:
        calls_on: dict[str, set[str]] = {}
        for number, placed in enumerate(state.pods_on(name)):
            if upstream and placed.started_at != placed.started_at:
                continue
            paths = placed.spec.seccomp.contexts
            own = set().union(*(calls.get(profile_name(path)[1], set()) for path in paths)) or calls["all-syscalls"]
            calls_on.setdefault(placed.name if upstream else f"{number}", own)
        host = set().union(*calls_on.values())
        total = len(host - info_calls)
        total += sum(len((host | info_calls) - own) for own in calls_on.values())
        raw[name] = total
    return raw


@pytest.mark.parametrize("seed", range(40))
def test_a_plain_reference_agrees_while_a_cluster_changes(seed: int) -> None:
    rng = random.Random(seed)
    upstream = rng.random() < 0.5
    scheduler = profile("upstream" if upstream else "safe")
    letters = "abcdefghijklmnopqrstuvwxyz"
    calls = {f"s{number}": set(rng.sample(letters, rng.randint(1, 20))) for number in range(6)}
    calls["all-syscalls"] = set(letters)
    state = ClusterState()
    for number in range(rng.randint(1, 6)):
        state.upsert_node(node(f"n{number}"))
    for name, allowed in calls.items():
        state.objects.upsert("SeccompProfile", seccomp(name, "".join(sorted(allowed))))
    for step in range(40):
        roll = rng.random()
        names = sorted(state.node_names)
        if roll < 0.5:
            fields: dict[str, Any] = {"uid": f"u{step}", "status": STARTED if rng.random() < 0.7 else {}}
            containers = [{"name": f"c{n}", **local(rng.choice([*calls, "missing"]))} for n in range(rng.randint(0, 2))]
            info = pod(f"p{rng.randint(0, 8)}", *containers, **fields)
            state.upsert_pod(msgspec.structs.replace(info, node_name=rng.choice(names)))
        elif roll < 0.65 and state.pod_uids:
            state.remove_pod(rng.choice(sorted(state.pod_uids)))
        elif roll < 0.75 and state.pod_uids:
            info = state.pod(rng.choice(sorted(state.pod_uids)))
            assert info is not None
            state.upsert_pod(msgspec.structs.replace(info, started_at=NOW, resource_version=str(step)))
        elif roll < 0.8:
            name = rng.choice(sorted(calls))
            calls[name] = set(rng.sample(letters, rng.randint(1, 26)))
            state.objects.upsert("SeccompProfile", seccomp(name, "".join(sorted(calls[name]))))
        elif roll < 0.85 and len(names) > 1:
            state.remove_node(rng.choice(names))
        elif roll < 0.9:
            state.upsert_node(node(f"n{rng.randint(0, 9)}"))
        wanted = rng.choice(sorted(calls))
        raw = {name: score[0] for name, score in scores(state, user("new", wanted), scheduler).items()}
        assert raw == _reference(state, calls, calls[wanted], upstream), (seed, step)
