# ruff: noqa: E501 -- tables with one case to a line
"""What a pod requests, in the ways kube-scheduler counts it."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from scheduler.catalog import nearest_kubernetes
from scheduler.helpers import reduce_pod
from scheduler.kube.model import is_scalar_resource, pod_requests, runs_as_specified
from scheduler.kube.primitives.quantity import QuantityError
from tests.unit.scheduler.core.builders import api_pod, container

MIB = 1024 * 1024
DEFAULT_MEMORY = 200 * MIB


def sidecar(cpu: str | None = None, memory: str | None = None, **more: Any) -> dict[str, Any]:
    return container(cpu, memory, restartPolicy="Always", **more)


CASES = {
    "sum of containers": ({"containers": [container("100m", "1Mi"), container("200m", "2Mi")]}, {"cpu": 300, "memory": 3 * MIB}),
    "an init container may be the peak": (
        {"containers": [container("100m")], "initContainers": [container("300m", "1Mi"), container("200m")]},
        {"cpu": 300, "memory": MIB},
    ),
    "sidecars run beside containers and later init containers": (
        {
            "containers": [container("100m")],
            "initContainers": [container("200m"), sidecar("50m", name="s1"), container("500m"), sidecar("30m", name="s2")],
        },
        {"cpu": 550},
    ),
    "sidecars and containers together": (
        {"containers": [container("400m")], "initContainers": [sidecar("50m", name="s1"), container("100m"), sidecar("80m", name="s2")]},
        {"cpu": 530},
    ),
    "pod-level requests replace, others stay": (
        {
            "containers": [container("100m", "1Mi", requests={"example.com/gpu": "1"})],
            "resources": {"requests": {"cpu": "2", "example.com/gpu": "9"}},
        },
        {"cpu": 2000, "memory": MIB, "example.com/gpu": 1},
    ),
    "overhead comes on top of everything": (
        {"containers": [container("100m")], "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "10m", "memory": "5"}},
        {"cpu": 2010, "memory": 5},
    ),
    "each container rounds up on its own": ({"containers": [container("0.1m", "0.4"), container("0.1m", "0.4")]}, {"cpu": 2, "memory": 2}),
    "uncounted resources are dropped": (
        {"containers": [container(requests={"foo": "1", "hugepages-2Mi": "4Mi", "requests.example.com/x": "1"})]},
        {"hugepages-2Mi": 4 * MIB},
    ),
    "nothing": ({"containers": [container()]}, {}),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), CASES.values(), ids=CASES.keys())
def test_effective_requests(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert pod_requests(api_pod("p", *spec.pop("containers"), **spec)).requests == expected


def test_defaults_count_per_container_that_names_nothing() -> None:
    requests = pod_requests(
        api_pod("p", container("0", "1Mi"), container(), initContainers=[container("50m", name="i")])
    )
    assert requests.nonzero_cpu == 100
    assert requests.nonzero_memory == MIB + DEFAULT_MEMORY
    assert requests.score_requests == {"cpu": 100, "memory": MIB + DEFAULT_MEMORY}


def test_scoring_ignores_pod_level_requests_and_node_sums_do_not() -> None:
    requests = pod_requests(api_pod("p", container(), container(), resources={"requests": {"cpu": "1"}}))
    assert requests.requests == {"cpu": 1000}
    assert requests.score_requests == {"cpu": 200, "memory": 2 * DEFAULT_MEMORY}
    assert (requests.nonzero_cpu, requests.nonzero_memory) == (1000, 2 * DEFAULT_MEMORY)


def test_with_pod_level_requests_defaults_are_for_what_the_total_lacks_overhead_included() -> None:
    spec: dict[str, Any] = {"resources": {"requests": {"cpu": "1"}}, "overhead": {"memory": "5"}}
    requests = pod_requests(api_pod("p", container(), container(), **spec))
    assert (requests.nonzero_cpu, requests.nonzero_memory) == (1000, 5)


def test_a_container_status_without_resources_says_nothing_about_them() -> None:
    status = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "9"}}]}
    requests = pod_requests(api_pod("p", container("100m"), status=status), use_status=True)
    assert requests.requests == {"cpu": 100}


def test_only_sidecars_among_init_containers_are_counted_as_their_status_says() -> None:
    status = {"initContainerStatuses": [{"name": "init", "resources": {"requests": {"cpu": "9"}}}]}
    for policy, expected in (({}, 200), ({"restartPolicy": "Always"}, 9100)):
        init = [{**container("200m"), "name": "init", **policy}]
        requests = pod_requests(api_pod("p", container("100m"), initContainers=init, status=status), use_status=True)
        assert requests.requests == {"cpu": expected}


def resized(phase: str | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {
        "containerStatuses": [
            {"name": "c", "resources": {"requests": {"cpu": "300m"}}, "allocatedResources": {"cpu": "250m"}}
        ]
    }
    if phase:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": phase}]
    return status


@pytest.mark.parametrize(
    ("spec_cpu", "status", "expected"),
    [
        pytest.param("100m", resized(), 300, id="actual above spec"),
        pytest.param("1", resized(), 1000, id="spec above actual"),
        pytest.param("1", resized("Infeasible"), 300, id="spec dropped while infeasible"),
        pytest.param("1", resized("Deferred"), 1000, id="spec kept while deferred"),
        # Up to 1.32 a field of the status says it.
        pytest.param("1", {**resized(), "resize": "Infeasible"}, 300, id="spec dropped while infeasible, 1.32"),
        pytest.param("1", {**resized(), "resize": "InProgress"}, 1000, id="spec kept while in progress, 1.32"),
    ],
)
def test_a_bound_pod_occupies_the_most_while_it_is_resized(
    spec_cpu: str, status: dict[str, Any], expected: int
) -> None:
    bound = reduce_pod(api_pod("p", container(spec_cpu), nodeName="n", status=status))
    assert bound.requests["cpu"] == expected
    waiting = reduce_pod(api_pod("p", container(spec_cpu), status=status))
    assert waiting.requests["cpu"] == waiting.spec.requests["cpu"] == (1000 if spec_cpu == "1" else 100)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("example.com/gpu", True),
        ("kubernetes.io/batch-cpu", True),
        ("hugepages-1Gi", True),
        ("attachable-volumes-aws-ebs", True),
        ("cpu", False),
        ("gpu", False),
        ("requests.example.com/gpu", False),
        ("requests.kubernetes.io/gpu", True),
    ],
)
def test_which_resources_count(name: str, expected: bool) -> None:
    assert is_scalar_resource(name) is expected


def test_an_unreadable_quantity_is_an_error_that_says_so() -> None:
    with pytest.raises(QuantityError, match="is not a Kubernetes quantity"):
        reduce_pod(api_pod("p", container("lots")))


def test_hostile_amounts_do_not_overflow() -> None:
    info = reduce_pod(api_pod("p", *(container("1e30", "1e30", name=f"c{index}") for index in range(500))))
    assert info.spec.requests["cpu"] == 500 * (2**63 - 1)
    assert reduce_pod(api_pod("p", container("-1"))).spec.requests["cpu"] == 0


@pytest.mark.parametrize(("spec", "cpu", "memory"), [({}, 700, 900 << 20), ({"cpu": "600m"}, 700, 900 << 20)])
def test_sums_of_a_resized_pod_take_the_place_of_its_containers_words_since_1_37(
    spec: dict[str, str], cpu: int, memory: int
) -> None:
    """Defaults are for what containers specify, not for these sums; and they count for resources that the pod does not
    request as a whole, too."""
    status = {
        "resources": {"requests": {"cpu": "700m", "memory": "900Mi"}},
        "allocatedResources": {"cpu": "150m", "memory": "300Mi"},
        "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "5", "memory": "5Gi"}}],
    }
    more = {"resources": {"requests": spec}} if spec else {}
    resized_pod = api_pod("p", container("100m"), status=status, **more)
    requests = pod_requests(resized_pod, use_status=True, rules=nearest_kubernetes(37))
    assert requests.requests == {"cpu": cpu, "memory": memory}
    assert (requests.nonzero_cpu, requests.nonzero_memory) == (cpu, memory)


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "2"]))
NAMES = ("app", "log", "setup", "proxy")


@st.composite
def running_pods(draw: st.DrawFn) -> Any:
    """Pods whose kubelet repeats what their spec says, leaves it out, or contradicts it in one or two places."""
    requests: dict[str, dict[str, str]] = {name: draw(AMOUNTS) for name in NAMES}
    statuses: dict[str, dict[str, Any]] = {
        name: {"name": name, "resources": {"requests": amounts}, "allocatedResources": amounts}
        for name, amounts in requests.items()
    }
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=2)):
        statuses[name]["resources"] = draw(st.none() | st.builds(dict, requests=AMOUNTS))
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=1)):
        statuses[name]["allocatedResources"] = draw(AMOUNTS)
    status: dict[str, Any] = {
        "containerStatuses": [statuses["app"], statuses["log"]],
        "initContainerStatuses": [statuses["setup"], statuses["proxy"]],
    }
    if draw(st.booleans()):
        reason = draw(st.sampled_from(["Infeasible", "Deferred"]))
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    more: dict[str, Any] = {}
    if draw(st.booleans()):
        more["resources"] = {"requests": draw(AMOUNTS)}
        if draw(st.booleans()):
            status |= {"resources": {"requests": draw(AMOUNTS)}, "allocatedResources": draw(st.just({}) | AMOUNTS)}
    for each in statuses.values():
        if each["resources"] is None:
            del each["resources"]
    init = [container(requests=requests["setup"], name="setup"), sidecar(requests=requests["proxy"], name="proxy")]
    main = [container(requests=requests[name], name=name) for name in ("app", "log")]
    return api_pod("p", *main, initContainers=init, status=status, **more)


@pytest.mark.parametrize("minor", [29, 32, 33, 34, 36, 37])
@given(pod=running_pods())
def test_a_pod_that_runs_as_specified_occupies_what_it_requests(minor: int, pod: Any) -> None:
    if runs_as_specified(pod):
        occupied = pod_requests(pod, use_status=True, rules=nearest_kubernetes(minor))
        assert occupied == pod_requests(pod)


def test_a_kubelet_that_repeats_the_spec_needs_no_closer_look() -> None:
    repeated = {"name": "c", "resources": {"requests": {"cpu": "100m"}}, "allocatedResources": {"cpu": "100m"}}
    assert runs_as_specified(api_pod("p", container("100m", name="c"), status={"containerStatuses": [repeated]}))
    assert not runs_as_specified(api_pod("p", container("200m", name="c"), status={"containerStatuses": [repeated]}))


def allowed(spec: str, actual: str | None, *, reason: str = "", init: bool = False) -> dict[str, int]:
    """The limits of a pod whose container has a limit of cpu by its spec, and by the kubelet."""
    named = {**container(limits={"cpu": spec}), **({"restartPolicy": "Always"} if init else {})}
    statuses = [{"name": "c", "resources": {"limits": {"cpu": actual}}}] if actual else []
    status: dict[str, Any] = {"initContainerStatuses" if init else "containerStatuses": statuses}
    if reason:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    fields = {"initContainers": [named]} if init else {}
    mains = [container(name="main")] if init else [named]
    return dict(reduce_pod(api_pod("p", *mains, nodeName="n", status=status, **fields)).limits)


@pytest.mark.parametrize("init", [False, True], ids=["main", "sidecar"])
def test_limits_are_the_larger_ones_while_a_pod_is_resized(init: bool) -> None:
    assert allowed("1", None, init=init) == allowed("1", "1", init=init) == {"cpu": 1000}
    assert allowed("1", "3", init=init) == allowed("3", "1", init=init) == {"cpu": 3000}
    assert allowed("3", "1", reason="Infeasible", init=init) == {"cpu": 1000}


def test_limits_of_the_pod_as_a_whole_replace_those_of_its_containers() -> None:
    spec: dict[str, Any] = {"resources": {"limits": {"cpu": "2"}}, "overhead": {"cpu": "1", "memory": "1Gi"}}
    assert reduce_pod(api_pod("p", container(limits={"cpu": "9", "memory": "1Gi"}), **spec)).limits == {
        "cpu": 3000,
        "memory": 2 << 30,
    }


@pytest.mark.parametrize(("minor", "cpu"), [(34, 2000), (36, 5000)])
def test_limits_of_the_pod_as_a_whole_are_resized_where_kube_scheduler_knows_it(minor: int, cpu: int) -> None:
    status = {"resources": {"limits": {"cpu": "5"}}}
    resized_pod = api_pod("p", container(), resources={"limits": {"cpu": "2"}}, nodeName="n", status=status)
    assert reduce_pod(resized_pod, nearest_kubernetes(minor)).limits == {"cpu": cpu}
