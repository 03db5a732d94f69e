# ruff: noqa: E501 -- tables with one case to a line
"""Reduction of pods and nodes, classes of pods, and the small formulas."""

import gc
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from scheduler.helpers import (
    PodReducer,
    class_key,
    default_normalize,
    go_round,
    has_untolerated_taint,
    normalized_image,
    reduce_node,
    reduce_pod,
    round_half_away,
    tolerates,
)
from scheduler.helpers.scoring import floor_divide
from scheduler.kube.model import Taint, Toleration
from tests.unit.scheduler.core.builders import api_node, api_pod, container


def test_pods_that_differ_in_identity_only_share_one_spec() -> None:
    reducer = PodReducer()
    first = reducer.reduce(api_pod("a", container("1"), labels={"app": "x"}, priority=1))
    two = reducer.reduce(api_pod("b", container("1"), labels={"app": "y"}, nodeName="n"))
    assert first.spec is two.spec
    assert first.uid != two.uid


@pytest.mark.parametrize(
    "change",
    [
        {"namespace": "other"},
        {"nodeSelector": {"a": "b"}},
        {"tolerations": [{"key": "k"}]},
        {"overhead": {"cpu": "1m"}},
        {"initContainers": [{"name": "i"}]},
        {"schedulingGates": [{"name": "g"}]},
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]},
        {
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
            }
        },
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_a_filter_can_see_makes_another_class(change: dict) -> None:
    plain, changed = api_pod("a", container("1")), api_pod("a", container("1"), **change)
    assert class_key(plain) != class_key(changed)
    reducer = PodReducer()
    assert reducer.reduce(plain).spec is not reducer.reduce(changed).spec


def test_a_pod_has_the_spec_of_its_class_whichever_came_before_it() -> None:
    reducer = PodReducer()
    small, large = (api_pod(amount, container(amount)) for amount in ("1", "2"))
    first, *specs = (reducer.reduce(each).spec for each in (small, large, large, small, small))
    assert [spec is first for spec in specs] == [False, False, True, True]
    assert [spec.requests["cpu"] for spec in (first, *specs)] == [1000, 2000, 2000, 1000, 1000]


def test_a_pod_with_a_number_beyond_64_bits_is_refused_after_pods_without_one() -> None:
    reducer = PodReducer()
    fine, vast = (api_pod("p", container("1", requests={"example.com/x": amount})) for amount in (1, 1 << 70))
    for _ in range(2):
        reducer.reduce(fine)
        with pytest.raises(ValueError, match="beyond 64 bits"):
            reducer.reduce(vast)


def test_the_token_volume_of_the_api_server_does_not_make_every_pod_a_class_of_its_own() -> None:
    reducer = PodReducer()
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    projected = [{"name": f"kube-api-access-{suffix}", "projected": {"sources": []}} for suffix in ("x7zqk", "pl2v9")]
    first, other = (reducer.reduce(api_pod(each["name"], volumes=[claim, each])) for each in projected)
    assert first.spec is other.spec
    assert [volume.name for volume in first.spec.volumes] == ["data"]


def test_the_order_of_a_map_does_not_make_another_class() -> None:
    first = api_pod("a", nodeSelector={"a": "1", "b": "2"})
    two = api_pod("a", nodeSelector={"b": "2", "a": "1"})
    assert class_key(first) == class_key(two)


def test_unused_specs_are_not_kept() -> None:
    reducer = PodReducer()
    for index in range(100):
        reducer.reduce(api_pod("p", container(f"{index}m")))
    gc.collect()
    assert len(reducer._specs) <= 1


def test_a_pod_keeps_what_the_scheduler_reports_with() -> None:
    info = reduce_pod(
        api_pod(
            "p",
            container("1", ports=[{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]),
            version="12",
            priority=7,
            initContainers=[
                container(name="i", ports=[{"containerPort": 1, "hostPort": 1}]),
                container(
                    name="s",
                    restartPolicy="Always",
                    ports=[{"containerPort": 2, "hostPort": 2, "hostIP": "10.0.0.1", "protocol": "UDP"}],
                ),
            ],
            metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "creationTimestamp": "2026-01-01T00:00:00Z"},
            status={"phase": "Failed", "nominatedNodeName": "n9", "startTime": "2026-01-01T00:00:10Z"},
        )
    )
    assert (info.key, info.priority, info.resource_version) == ("default/p", 7, "12")
    assert info.deleting
    assert info.terminal
    assert info.nominated_node == "n9"
    assert info.assigned_at == info.started_at == info.created_at + 10
    assert [(port.protocol, port.ip, port.port) for port in info.spec.host_ports] == [
        ("TCP", "", 8080),
        ("UDP", "10.0.0.1", 2),
    ]


def test_the_time_of_binding_is_the_pod_scheduled_condition() -> None:
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}
    bound = reduce_pod(api_pod("p", status={"conditions": [condition], "startTime": "2026-01-01T00:01:00Z"}))
    assert bound.assigned_at == bound.started_at - 55
    refused = {**condition, "status": "False"}
    assert math.isnan(reduce_pod(api_pod("p", status={"conditions": [refused]})).assigned_at)


def test_of_the_conditions_those_stay_that_somebody_reads() -> None:
    time = {"lastTransitionTime": "2026-01-01T00:00:05Z"}
    types = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled", "DisruptionTarget"]
    pods = [
        reduce_pod(api_pod(name, status={"conditions": [{"type": kind, "status": "True", **time} for kind in types]}))
        for name in ("a", "b")
    ]
    kept = [(condition.type, condition.last_transition_time) for condition in pods[0].conditions]
    assert kept == [
        ("Ready", None),
        ("PodScheduled", time["lastTransitionTime"]),
        ("DisruptionTarget", time["lastTransitionTime"]),
    ]
    assert pods[0].conditions[0] is pods[1].conditions[0]
    unready = reduce_pod(api_pod("c", status={"conditions": [{"type": "Ready", "status": "False"}]}))
    assert unready.conditions == ()


def test_words_that_many_pods_share_are_kept_once() -> None:
    first, second = (
        reduce_pod(
            api_pod(
                name,
                metadata={"namespace": "team-" + "a" * len(name)},
                nodeName="node-" + "1" * len(name),
                schedulerName="scheduler-" + "b" * len(name),
                status={"phase": "Run" + "ning"[: 4 * len(name)]},
            )
        )
        for name in ("p", "q")
    )
    assert first.namespace is second.namespace
    assert first.node_name is second.node_name
    assert first.scheduler_name is second.scheduler_name
    assert first.phase is second.phase


def test_a_node_is_reduced_to_amounts() -> None:
    info = reduce_node(
        api_node("n", allocatable={"cpu": "3500m", "memory": "1Ki", "pods": "7", "foo": "1", "example.com/x": "2"}, capacity={"cpu": "4"},
                 images={"a:1": 5}, addresses=["10.0.0.1"], conditions={"Ready": "True"}),
    )  # fmt: skip
    assert info.allocatable == {"cpu": 3500, "memory": 1024, "example.com/x": 2}
    assert (info.allowed_pods, info.capacity_cpu) == (7, 4000)
    assert (info.images, info.addresses, info.conditions) == ({"a:1": 5}, ("10.0.0.1",), {"Ready": "True"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1", "nginx:1"),
        ("host:5000/nginx", "host:5000/nginx:latest"),
        ("a@sha256:b", "a@sha256:b"),
    ],
)
def test_images_without_a_tag_are_latest(name: str, expected: str) -> None:
    assert normalized_image(name) == expected


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", operator="Equal", value="w"), False),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(value="v"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="k", operator="Odd", value="v"), False),
    ],
    ids=["equal", "other value", "exists", "everything", "any key", "other key", "other effect", "unknown operator"],
)
def test_tolerations(toleration: Toleration, expected: bool) -> None:
    taint = Taint(key="k", value="v", effect="NoSchedule")
    assert tolerates(toleration, taint) is expected
    assert has_untolerated_taint([taint], [toleration]) is not expected


def test_prefer_no_schedule_taints_reject_no_pod() -> None:
    assert not has_untolerated_taint([Taint(key="k", effect="PreferNoSchedule")], [])


@given(st.lists(st.floats(-1e15, 1e15), min_size=1, max_size=20))
def test_rounding_columns_equals_rounding_one_by_one(values: list[float]) -> None:
    assert round_half_away(np.array(values)).tolist() == [float(go_round(value)) for value in values]


@pytest.mark.parametrize(
    ("value", "expected"), [(0.5, 1), (1.5, 2), (2.5, 3), (-0.5, -1), (-2.5, -3), (0.49999999999999994, 0), (3.0, 3)]
)
def test_halves_round_away_from_zero(value: float, expected: int) -> None:
    assert go_round(value) == expected
    assert round_half_away(np.array([value])).tolist() == [float(expected)]


@pytest.mark.parametrize(
    ("scores", "reverse", "expected"),
    [
        ([0, 0], False, [0, 0]),
        ([0, 0], True, [100, 100]),
        ([1, 3], False, [33, 100]),
        ([1, 3], True, [67, 0]),
        ([], False, []),
    ],
)
def test_default_normalisation(scores: list[int], reverse: bool, expected: list[int]) -> None:
    assert default_normalize(np.array(scores, dtype=np.int64), reverse=reverse).tolist() == expected


@given(
    st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**54), st.integers(0, 10_000)), max_size=6),
    st.one_of(st.integers(1, 2**62), st.integers(1, 1000)),
)
def test_quick_quotients_are_those_of_integers(dividends: list[int], divisor: int) -> None:
    near_multiples = [each for factor in (1, 99, 2**53 // divisor) for each in (factor * divisor, factor * divisor - 1)]
    values = dividends + [each for each in near_multiples if each < 2**63]
    assert floor_divide(np.array(values, dtype=np.int64), divisor).tolist() == [value // divisor for value in values]
