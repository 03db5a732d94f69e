"""Which devices a claim gets on a node; tests/conformance/test_dra.py asks Kubernetes' own allocator at random.

A case is a claim, slices, and what is expected: devices by request, or a reason.
"""

from typing import Any

import pytest

from scheduler.catalog import nearest_kubernetes
from scheduler.kube.model import DeviceClass
from scheduler.plugins.dynamicresources.allocator import Allocator
from scheduler.plugins.dynamicresources.capacity import AllocationError
from scheduler.plugins.dynamicresources.devices import OfferedSlice, PlaceOf, gather_pools
from scheduler.plugins.dynamicresources.ledger import SHARERS
from scheduler.plugins.dynamicresources.requests import Budget, OutOfBudget, SelectorCache
from tests.unit.scheduler.plugins.devices import (
    DRIVER,
    claim,
    device,
    device_class,
    devices_of,
    exactly,
    first_available,
)

NODE = PlaceOf("a", {"zone": "east"})
CANNOT = "cannot allocate all claims"


def allocations(
    claims: list[Any],
    *slices: Any,
    in_use: tuple[tuple[str, str], ...] = (),
    classes: tuple[Any, ...] = (),
    shared: dict[tuple[str, str], dict[str, int]] | None = None,
    minor: int = 34,
    budget: int = 100_000,
) -> Any:
    """What the allocator answers."""
    offered = [OfferedSlice(each) for each in slices]
    known: dict[str, DeviceClass] = {each.metadata.name: each for each in (device_class(), *classes)}
    busy = {(DRIVER, pool, name) for pool, name in in_use}
    shares = {(DRIVER, *device): amounts for device, amounts in (shared or {}).items()}
    allocator = Allocator(
        known.get,
        busy.__contains__,
        lambda device: shares.get(device, {}),
        SelectorCache(),
        Budget(budget),
        nearest_kubernetes(minor),
    )
    relevant = [each for each in offered if each.own_node in ("", NODE.name)]
    pools = gather_pools(NODE, relevant, lambda pool: [each for each in offered if each.pool == pool])
    return allocator.allocate(NODE, pools, claims)


def got(wanted: Any, *slices: Any, **more: Any) -> Any:
    """Request and device of each result of one claim, or the reason."""
    answer = allocations([wanted], *slices, **more)
    if isinstance(answer, str):
        return answer
    return [(each.request, each.device) for each in answer[0].devices.results]


def numbered(count: int, **attributes: Any) -> list[dict[str, Any]]:
    return [device(f"g{index}", attributes={"n": index, "pair": index // 2, **attributes}) for index in range(count)]


# Order --------------------------------------------------------------------------------------------------------------


def test_devices_go_in_the_order_of_pool_slice_and_list():
    slices = [
        devices_of("a", "z", name="s2", pool={"name": "p2"}),
        devices_of("a", "y", "x", name="s1", pool={"name": "p1", "resourceSliceCount": 2}),
        devices_of("a", "w", name="s0", pool={"name": "p1", "resourceSliceCount": 2}),
    ]
    assert got(claim("c", exactly(count=4)), *slices) == [("r", "w"), ("r", "y"), ("r", "x"), ("r", "z")]


def test_a_later_request_may_take_an_earlier_device():
    wanted = claim("c", exactly("r", when=f'device.attributes["{DRIVER}"].n == 1'), exactly("s"))
    assert got(wanted, devices_of("a", *numbered(2))) == [("r", "g1"), ("s", "g0")]


def test_the_search_goes_back_when_a_later_request_finds_nothing():
    wanted = claim("c", exactly("r"), exactly("s", when=f'device.attributes["{DRIVER}"].n == 0'))
    assert got(wanted, devices_of("a", *numbered(2))) == [("r", "g1"), ("s", "g0")]


def test_claims_do_not_share_a_device():
    answer = allocations([claim("c"), claim("d")], devices_of("a", "g0", "g1"))
    assert [each.devices.results[0].device for each in answer] == ["g0", "g1"]
    assert allocations([claim("c"), claim("d")], devices_of("a", "g0")) == CANNOT


# Requests -----------------------------------------------------------------------------------------------------------


def test_all_devices_are_all_or_none():
    everything = claim("c", exactly(allocationMode="All"))
    assert got(everything, devices_of("a", "g0", "g1")) == [("r", "g0"), ("r", "g1")]
    assert got(everything, devices_of("a", "g0", "g1"), in_use=(("a", "g1"),)) == CANNOT
    assert got(everything) == CANNOT


def test_the_first_alternative_that_leaves_room_for_the_rest_is_taken():
    wanted = claim("c", first_available("r", exactly("two", count=2), exactly("one")), exactly("s"))
    assert got(wanted, devices_of("a", *numbered(3))) == [("r/two", "g0"), ("r/two", "g1"), ("s", "g2")]
    assert got(wanted, devices_of("a", *numbered(2))) == [("r/one", "g0"), ("s", "g1")]


def test_an_alternative_that_would_be_too_many_devices_gives_way():
    wanted = claim("c", first_available("r", exactly("many", count=30), exactly("few", count=2)), exactly("s", count=5))
    assert len(got(wanted, devices_of("a", *numbered(40)))) == 7


def test_more_devices_than_a_claim_may_have_are_an_error():
    with pytest.raises(AllocationError, match="number of requested devices 33 exceeds the claim limit of 32"):
        got(claim("c", exactly(count=33)), devices_of("a", *numbered(40)))


def test_an_administrator_gets_devices_in_use_but_none_twice():
    watching = claim("c", exactly(adminAccess=True, count=2))
    assert got(watching, devices_of("a", "g0", "g1"), in_use=(("a", "g0"),)) == [("r", "g0"), ("r", "g1")]
    assert got(watching, devices_of("a", "g0")) == CANNOT


# Constraints --------------------------------------------------------------------------------------------------------


def test_matching_devices_have_one_value():
    wanted = claim("c", exactly(count=2), constraints=[{"matchAttribute": f"{DRIVER}/pair"}])
    assert got(wanted, devices_of("a", *numbered(4)), in_use=(("a", "g0"),)) == [("r", "g2"), ("r", "g3")]
    assert got(wanted, devices_of("a", device("g0"), device("g1"))) == CANNOT


def test_a_constraint_concerns_the_requests_that_it_names():
    wanted = claim(
        "c",
        exactly("r"),
        exactly("s"),
        exactly("t"),
        constraints=[{"matchAttribute": f"{DRIVER}/n", "requests": ["r"]}],
    )
    assert len(got(wanted, devices_of("a", *numbered(3)))) == 3


def test_distinct_devices_have_different_values_all_of_them():
    wanted = claim("c", exactly(count=3), constraints=[{"distinctAttribute": f"{DRIVER}/pair"}])
    assert got(wanted, devices_of("a", *numbered(6))) == [("r", "g0"), ("r", "g2"), ("r", "g4")]
    assert got(wanted, devices_of("a", *numbered(4))) == CANNOT


def test_all_devices_that_do_not_match_are_an_error():
    wanted = claim("c", exactly(allocationMode="All"), constraints=[{"matchAttribute": f"{DRIVER}/n"}])
    with pytest.raises(AllocationError, match=r"cannot add device gpu\.example\.com/a/g1 because a claim constraint"):
        got(wanted, devices_of("a", *numbered(2)))


# Pools --------------------------------------------------------------------------------------------------------------


def test_a_pool_that_is_incomplete_is_left_out_and_fails_who_wants_all():
    partial = devices_of("a", "g0", pool={"resourceSliceCount": 2})
    assert got(claim("c"), partial) == CANNOT
    with pytest.raises(AllocationError, match=r"resource pool gpu\.example\.com/a is currently being updated"):
        got(claim("c", exactly(allocationMode="All")), partial)


def test_a_pool_is_complete_whichever_nodes_its_slices_are_for():
    near = devices_of("a", "g0", name="here", pool={"name": "p", "resourceSliceCount": 2})
    far = devices_of("b", "g1", name="there", pool={"name": "p", "resourceSliceCount": 2})
    assert got(claim("c"), near, far) == [("r", "g0")]


def test_an_invalid_pool_is_left_out_and_named():
    twice = devices_of("a", "g0", "g0")
    assert got(claim("c"), twice) == "invalid resource pools were encountered"
    assert got(claim("c"), twice, devices_of("a", "x", name="other", pool={"name": "z"})) == [("r", "x")]


def test_of_two_generations_the_newer_counts():
    old = devices_of("a", "old", name="s1")
    new = devices_of("a", "new", name="s2", pool={"generation": 2})
    assert got(claim("c"), old, new) == [("r", "new")]
    elsewhere = devices_of("b", "new", name="s2", pool={"name": "a", "generation": 2, "resourceSliceCount": 2})
    partial = devices_of("a", "old", name="s1", pool={"resourceSliceCount": 2})
    assert got(claim("c"), partial, elsewhere) == CANNOT


SELECTED = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}]}
ELSEWHERE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["west"]}]}]}


def selector_of(*slices: Any) -> Any:
    (answer,) = allocations([claim("c")], *slices)
    return answer.node_selector


def test_where_a_device_can_be_used_becomes_the_claims_node_selector():
    (term,) = selector_of(devices_of("a", "g0")).node_selector_terms
    assert [(each.key, each.operator, each.values) for each in term.match_fields] == [("metadata.name", "In", ("a",))]
    (term,) = selector_of(devices_of("x", "g0", nodeName=None, nodeSelector=SELECTED)).node_selector_terms
    assert [(each.key, each.values) for each in term.match_expressions] == [("zone", ("east",))]
    assert selector_of(devices_of("x", "g0", nodeName=None, allNodes=True)) is None
    bound = device("g0", bindsToNode=True)
    assert selector_of(devices_of("x", bound, nodeName=None, allNodes=True)).node_selector_terms[0].match_fields


def test_devices_may_say_themselves_where_they_can_be_used():
    mixed = devices_of(
        "x",
        device("elsewhere", nodeSelector=ELSEWHERE),
        device("other", nodeName="b"),
        device("here", nodeName="a"),
        device("selected", nodeSelector=SELECTED),
        device("all", allNodes=True),
        nodeName=None,
        perDeviceNodeSelection=True,
    )
    assert got(claim("c", exactly(count=3)), mixed) == [("r", "here"), ("r", "selected"), ("r", "all")]


# Counters -----------------------------------------------------------------------------------------------------------


def partition(name: str, memory: str) -> dict[str, Any]:
    return device(name, consumesCounters=[{"counterSet": "gpu-0", "counters": {"memory": {"value": memory}}}])


PARTITIONS = (
    devices_of("a", partition("half-0", "20Gi"), partition("half-1", "20Gi"), partition("whole", "40Gi"), name="s1",
               pool={"resourceSliceCount": 2}),
    devices_of("a", name="s0", pool={"resourceSliceCount": 2},
               sharedCounters=[{"name": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}]),
)  # fmt: skip


def test_partitions_together_take_no_more_than_there_is():
    assert got(claim("c", exactly(count=2)), *PARTITIONS) == [("r", "half-0"), ("r", "half-1")]
    assert got(claim("c", exactly(count=3)), *PARTITIONS) == CANNOT


def test_what_is_allocated_counts():
    assert got(claim("c"), *PARTITIONS, in_use=(("a", "half-0"),)) == [("r", "half-1")]
    assert got(claim("c"), *PARTITIONS, in_use=(("a", "whole"),)) == CANNOT


def test_what_is_allocated_on_other_nodes_counts_too():
    shared = [devices_of("p", partition("here", "30Gi"), name="s1", nodeName="a", pool={"resourceSliceCount": 3})]
    shared.append(devices_of("p", partition("there", "20Gi"), name="s2", nodeName="b", pool={"resourceSliceCount": 3}))
    counters = [{"name": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}]
    shared.append(
        devices_of(
            "p", name="s0", nodeName=None, allNodes=True, pool={"resourceSliceCount": 3}, sharedCounters=counters
        )
    )
    assert got(claim("c"), *shared) == [("r", "here")]
    assert got(claim("c"), *shared, in_use=(("p", "there"),)) == CANNOT


def test_a_pool_whose_devices_take_of_counters_that_it_lacks_is_invalid():
    assert got(claim("c"), devices_of("a", partition("g0", "1"))) == "invalid resource pools were encountered"


# Configuration ------------------------------------------------------------------------------------------------------


def opaque(value: int) -> dict[str, Any]:
    return {"opaque": {"driver": DRIVER, "parameters": {"value": value}}}


def test_configuration_of_classes_comes_once_then_that_of_the_claim_per_request():
    wanted = claim(
        "c",
        exactly("r", "tuned"),
        exactly("s", "tuned"),
        first_available("f", exactly("x", "absent-devices"), exactly("y", "tuned")),
        config=[opaque(2), {"requests": ["r", "f/y"], **opaque(3)}, {"requests": ["f/x"], **opaque(4)}],
    )
    tuned = device_class("tuned", config=[opaque(1)])
    none = device_class("absent-devices", "false")
    (answer,) = allocations([wanted], devices_of("a", *numbered(3)), classes=(tuned, none))
    assert [(each.source, each.requests, each.opaque.parameters["value"]) for each in answer.devices.config] == [
        ("FromClass", ("r", "s", "f/y"), 1),
        ("FromClaim", (), 2),
        ("FromClaim", ("r", "f/y"), 3),
        ("FromClaim", ("r", "f/y"), 3),
    ]


# Bounds -------------------------------------------------------------------------------------------------------------


def test_a_search_without_end_is_given_up():
    # 12 of 24 devices, no two of one value, of which there are but 11.
    devices = [device(f"g{index:02}", attributes={"n": index % 11}) for index in range(24)]
    wanted = claim("c", exactly(count=12), constraints=[{"distinctAttribute": f"{DRIVER}/n"}])
    with pytest.raises(OutOfBudget):
        got(wanted, devices_of("a", *devices), budget=2_000)


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (exactly(selectors=[{}]), "claim default/c, request r, selector #0: CEL expression empty"),
        (exactly("r", ""), "claim default/c, request r: missing device class name"),
        (
            exactly("r", "absent"),
            'claim default/c, request r: could not retrieve device class absent: deviceclass.resource.k8s.io "absent" '
            "not found",
        ),
        (exactly(allocationMode="Some"), "claim default/c, request r: unsupported count mode Some"),
        (exactly(when="1 / 0 == 1"), "claim default/c: selector #0: CEL runtime error: division by zero"),
    ],
)
def test_what_no_node_can_cure_is_an_error(wanted, error):
    with pytest.raises(AllocationError) as raised:
        got(claim("c", wanted), devices_of("a", "g0"))
    assert str(raised.value).startswith(error)


# Capacity -----------------------------------------------------------------------------------------------------------

STEPS = {"default": "3Gi", "validRange": {"min": "1Gi", "max": "9Gi", "step": "2Gi"}}
VALUES = {"default": "2Gi", "validValues": ["2Gi", "4Gi"]}


def sharing(policy=None, **more):
    memory = {"value": "10Gi", **({"requestPolicy": policy} if policy else {})}
    return devices_of("a", {"name": "g0", "capacity": {"memory": memory}, "allowMultipleAllocations": True, **more})


def asking(amount, name="r", capacity="memory"):
    return exactly(name, capacity={"requests": {capacity: amount}})


@pytest.mark.parametrize(
    ("policy", "request_", "consumed"),
    [
        (None, asking("3Gi"), "3Gi"),
        (None, exactly(), "10Gi"),
        (None, asking("11Gi"), None),
        (None, asking("1", capacity="cores"), None),
        (STEPS, exactly(), "3Gi"),
        (STEPS, asking("1Mi"), "1Gi"),
        (STEPS, asking("3.5Gi"), "5Gi"),
        (STEPS, asking("9.5Gi"), None),
        (VALUES, asking("3Gi"), "4Gi"),
        (VALUES, asking("5Gi"), None),
    ],
)
def test_a_request_takes_of_a_capacity_what_the_policy_makes_of_it(policy, request_, consumed):
    answer = allocations([claim("c", request_)], sharing(policy))
    expected = [{"memory": consumed}] if consumed else CANNOT
    assert (answer if consumed is None else [each.consumed_capacity for each in answer[0].devices.results]) == expected


def test_requests_share_a_device_and_one_request_gets_different_ones():
    assert got(claim("c", asking("5Gi", "r"), asking("5Gi", "s")), sharing()) == [("r", "g0"), ("s", "g0")]
    assert got(claim("c", asking("5Gi", "r"), asking("6Gi", "s")), sharing()) == CANNOT
    assert got(claim("c", exactly(count=2, capacity={"requests": {"memory": "1Gi"}})), sharing()) == CANNOT


def test_a_device_that_one_claim_has_alone_must_have_the_capacity_too():
    alone = devices_of("a", device("g0", capacity={"memory": "10Gi"}))
    (allocation,) = allocations([claim("c", asking("3Gi"))], alone)
    assert (allocation.devices.results[0].share_id, allocation.devices.results[0].consumed_capacity) == (None, {})
    assert got(claim("c", asking("11Gi")), alone) == CANNOT


def test_who_shares_a_device_takes_its_counters_once():
    counters = devices_of(
        "a",
        name="c",
        pool={"resourceSliceCount": 2},
        sharedCounters=[{"name": "gpu", "counters": {"slots": {"value": "1"}}}],
    )
    slot = {"consumesCounters": [{"counterSet": "gpu", "counters": {"slots": {"value": "1"}}}]}
    slice_ = devices_of(
        "a",
        {"name": "g0", "capacity": {"memory": {"value": "10Gi"}}, "allowMultipleAllocations": True, **slot},
        pool={"resourceSliceCount": 2},
    )
    wanted = claim("c", asking("5Gi", "r"), asking("5Gi", "s"))
    assert got(wanted, slice_, counters) == [("r", "g0"), ("s", "g0")]


# By version ---------------------------------------------------------------------------------------------------------


def refused(wanted: Any, *slices: Any, **more: Any) -> str:
    with pytest.raises(AllocationError) as caught:
        got(wanted, *slices, **more)
    return str(caught.value)


def test_all_devices_of_an_incomplete_pool_are_missed_on_its_nodes_alone_from_1_38_on() -> None:
    partial = devices_of("a", "g0", pool={"resourceSliceCount": 2})
    everything = claim("c", exactly(allocationMode="All"))
    text = f"claim default/c, request r: asks for all devices, but resource pool {DRIVER}/a is currently being updated"
    assert refused(everything, partial, minor=37) == text
    assert got(everything, partial, minor=38) == text


def test_a_device_that_is_no_longer_shared_is_not_given_away_while_it_is_from_1_38_on() -> None:
    slice_, shares = devices_of("a", "g0", "g1"), {("a", "g0"): {SHARERS: 1}}
    assert got(claim("c", exactly()), slice_, shared=shares, minor=37) == [("r", "g0")]
    assert got(claim("c", exactly()), slice_, shared=shares, minor=38) == [("r", "g1")]
    admin = claim("c", exactly(adminAccess=True))
    assert got(admin, slice_, shared=shares, minor=38) == [("r", "g0")]


@pytest.mark.parametrize("published", ["memory", f"{DRIVER}/memory"])
@pytest.mark.parametrize("requested", ["memory", f"{DRIVER}/memory"])
def test_a_capacity_may_be_named_with_or_without_its_driver_from_1_38_on(published: str, requested: str) -> None:
    slice_ = devices_of("a", device("g0", capacity={published: "10Gi"}, allowMultipleAllocations=True))
    wanted = claim("c", exactly(capacity={"requests": {requested: "4Gi"}}))
    answers = {minor: allocations([wanted], slice_, minor=minor) for minor in (37, 38)}
    (result,) = answers[38][0].devices.results
    assert result.consumed_capacity == {published: "4Gi"}
    assert (answers[37] == CANNOT) is (published != requested)
    # What others take counts by either name.
    full = {("a", "g0"): {SHARERS: 1, "memory": 7 * 1024**3 * 10**9}}
    assert allocations([wanted], slice_, shared=full, minor=38) == CANNOT


def test_a_capacity_that_is_requested_by_both_names_is_refused_from_1_38_on() -> None:
    slice_ = devices_of("a", device("g0", capacity={"memory": "10Gi"}))
    wanted = claim("c", exactly(capacity={"requests": {"memory": "1Gi", f"{DRIVER}/memory": "2Gi"}}))
    assert refused(wanted, slice_, minor=38).endswith(
        f'capacity "memory" requested both as "memory" and as "{DRIVER}/memory"'
    )


def test_a_negative_request_for_capacity_is_refused() -> None:
    slice_ = devices_of("a", device("g0", capacity={"memory": "10Gi"}))
    assert refused(claim("c", exactly(capacity={"requests": {"memory": "-1"}})), slice_, minor=38) == (
        f"claim default/c, request r: checking capacity for device {DRIVER}/a/g0: "
        f'capacity "{DRIVER}/memory": capacity value is negative: request -1'
    )


def test_too_many_devices_are_refused_with_the_request_from_1_38_on() -> None:
    wanted = claim("c", exactly("x", count=30), exactly("y", count=3))
    slice_ = devices_of("a", *(f"g{number}" for number in range(40)))
    assert (
        refused(wanted, slice_, minor=37)
        == "claim default/c: number of requested devices 33 exceeds the claim limit of 32"
    )
    assert refused(wanted, slice_, minor=38) == (
        "claim default/c, request y: adding 3 devices exceeds the claim limit of 32, with 30 already accounted for"
    )
