"""Situations in which devices are allocated on one node, as questions to the allocator.

They follow the situations of upstream's own table (structured/internal/allocatortesting of
k8s.io/dynamic-resource-allocation 0.36.3: 221, and 4 about order); the objects are ours. `recorded` has what the Go
package answers. Of upstream's situations

- 195 are here, some in several cases;
- 14 are not: they switch a feature off that is always on here, as the API server drops the fields of those it has off;
- 16 are not: they are of list attributes (DRAListTypeAttributes: alpha, off in 1.34 to 1.37), which are not read.

0.37.0 has 48 more. Of those that are possible with the default gates of 1.37, the last group has cases.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = Any
A, B = "a.example.com", "b.example.com"
ANSWERS = Path(__file__).parents[3] / "data" / "devices" / "allocations.json"
CHANGED = {minor: ANSWERS.with_name(f"allocations-1.{minor}.json") for minor in (37, 38)}
"""The answers of 0.37.0 and 0.38.0-beta.0 that differ from those before."""


def dev(name, attributes=None, capacity=None, **more):
    """A device; attributes are plain values ("1.2.3v" is a version), capacity texts or whole entries."""
    return {
        "name": name,
        "attributes": {key: _attribute(value) for key, value in (attributes or {}).items()},
        "capacity": {
            key: value if isinstance(value, dict) else {"value": value} for key, value in (capacity or {}).items()
        },
        **more,
    }


def _attribute(value):
    if isinstance(value, dict):
        return value
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    return {"version": value[:-1]} if value.endswith("v") and value[0].isdigit() else {"string": value}


def devs(*names, **more):
    return [dev(name, **more) for name in names]


def sl(name, *devices, pool="p", driver=A, on="n0", generation=1, of=1, counters=None):
    """A slice: `on` is a node, "*" for all, "device" where each device says so, or a zone such as "zone=east"."""
    spec = {"driver": driver, "pool": {"name": pool, "generation": generation, "resourceSliceCount": of}}
    if counters is None:
        spec["devices"] = [dev(each) if isinstance(each, str) else each for each in devices]
    else:
        spec["sharedCounters"] = [{"name": key, "counters": amounts(value)} for key, value in counters.items()]
    return {"metadata": {"name": name}, "spec": {**spec, **_place(on)}}


def _place(on):
    if on == "*":
        return {"allNodes": True}
    if on == "device":
        return {"perDeviceNodeSelection": True}
    if on.startswith("zone="):
        return {"nodeSelector": zone(on[5:])}
    return {"nodeName": on}


def zone(*zones):
    expression = {"key": "zone", "operator": "In", "values": list(zones)}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def amounts(values):
    return {key: {"value": value} for key, value in values.items()}


def takes(counter_set="set", **values):
    """What a device takes of shared counters."""
    return {"consumesCounters": [{"counterSet": counter_set, "counters": amounts(values)}]}


def cel(expression):
    return {"cel": {"expression": expression}}


def exact(cls="a", count=1, when=None, **more):
    mode = {"allocationMode": "All"} if count == "All" else {"allocationMode": "ExactCount", "count": count}
    return {"deviceClassName": cls, **mode, "selectors": [cel(each) for each in when or ()], **more}


def req(name="r", *args, **kwargs):
    return {"name": name, "exactly": exact(*args, **kwargs)}


def first(name, *alternatives):
    """A request with alternatives, each made by `exact`."""
    return {"name": name, "firstAvailable": [{"name": f"s{at}", **each} for at, each in enumerate(alternatives)]}


def cl(*requests, name="c", constraints=(), config=()):
    spec = {"requests": list(requests), "constraints": list(constraints), "config": list(config)}
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"u-{name}"}, "spec": {"devices": spec}}


def match(attribute, *requests):
    return {"matchAttribute": attribute, "requests": list(requests)}


def distinct(attribute, *requests):
    return {"distinctAttribute": attribute, "requests": list(requests)}


def opaque(value, *requests):
    return {
        "opaque": {"driver": A, "parameters": {"from": value}},
        **({"requests": list(requests)} if requests else {}),
    }


def cls(name, *expressions, config=()):
    return {
        "metadata": {"name": name},
        "spec": {"selectors": [cel(each) for each in expressions], "config": list(config)},
    }


ANY = (cls("any"),)
"""Without selectors: for these the Go package reads all attributes of a device, also those of no known type."""
CLASSES = (cls("a", f'device.driver == "{A}"'), cls("b", f'device.driver == "{B}"'))


def used(device, pool="p", driver=A, **more):
    return {"driver": driver, "pool": pool, "device": device, **more}


def shared_by(device, pool="p", **consumed):
    return used(device, pool, shareID="11111111-2222-3333-4444-555555555555", consumedCapacity=consumed)


FEATURES = {
    "AdminAccess": True,
    "PrioritizedList": True,
    "DeviceTaints": True,
    "PartitionableDevices": True,
    "DeviceBindingAndStatus": True,
    "ConsumableCapacity": True,
}


def ask(slices, claims, *, classes=CLASSES, allocated=(), node="n0"):
    return {
        "features": FEATURES,
        "node": {"metadata": {"name": node, "labels": {"zone": "east", "host": node}}},
        "slices": slices if isinstance(slices, list) else [slices],
        "claims": claims if isinstance(claims, list) else [claims],
        "classes": list(classes),
        "allocated": list(allocated),
    }


ADMIN = {"adminAccess": True}
TOLERATE = {"tolerations": [{"key": "t", "operator": "Exists"}]}
LARGE, SMALL = f'device.attributes["{A}"].size == "large"', f'device.attributes["{A}"].size == "small"'
ANY_SIZE = f'has(device.attributes["{A}"].size)'
big, little = {"size": "large"}, {"size": "small"}
TWO = sl("s", "d1", "d2")
BROKEN = f'device.attributes["{A}"].absent == "x"'
EXCLUSIVE = {"allowMultipleAllocations": True}


def taint(effect="NoSchedule", key="t", value="v"):
    return {"key": key, "value": value, "effect": effect}


def conditions(*names, failing=("broken",)):
    return {"bindingConditions": list(names), "bindingFailureConditions": list(failing)}


def policy(value, **fields):
    return {"value": value, "requestPolicy": fields}


def wants(**amount):
    return {"capacity": {"requests": amount}}


def shared(name, memory="8Gi", **more):
    """A device that several may have."""
    return dev(name, capacity={"memory": memory}, **EXCLUSIVE, **more)


def counted(*devices, counters=None, on="n0", sets=None):
    """A pool with counters."""
    return [sl("s", *devices, of=2, on=on), sl("t", of=2, on=on, counters=sets or {"set": counters})]


def numa(*nodes):
    return [dev(f"d{at}", {"numa": node}) for at, node in enumerate(nodes)]


CASES: dict[str, Json] = {}


def group(title, **cases):
    for name, case in cases.items():
        CASES[f"{title}: {name.replace('_', ' ')}"] = case


group(
    "plain",
    nothing_at_all=ask([], []),
    one_device=ask(sl("s", "d"), cl(req())),
    a_device_of_another_node=ask(sl("s", "d", on="n1"), cl(req())),
    large_and_small=ask(sl("s", dev("d1", little), dev("d2", big)), cl(req("x", when=[LARGE]), req("y", when=[SMALL]))),
    back_to_an_earlier_request=ask(
        sl("s", dev("d1", big), dev("d2", little)), cl(req("x", when=[ANY_SIZE]), req("y", when=[LARGE]))
    ),
    back_to_an_earlier_claim=ask(
        sl("s", dev("d1", big), dev("d2", little)),
        [cl(req("x", when=[ANY_SIZE]), name="c1"), cl(req("y", when=[LARGE]), name="c2")],
    ),
    devices_of_two_slices=ask([sl("s1", "d1", of=2), sl("s2", "d2", of=2)], cl(req(count=2))),
    an_obsolete_slice=ask([sl("s1", "d1"), sl("s2", "d2", generation=2)], cl(req())),
    only_an_obsolete_slice_has_enough=ask([sl("s1", "d1", "d2"), sl("s2", "d3", generation=2)], cl(req(count=2))),
    a_slice_twice=ask([sl("s1", "d1"), sl("s2", "d1")], cl(req())),
    a_device_twice=ask(sl("s", "d1", "d1"), cl(req())),
    no_slices=ask([], cl(req())),
    too_few_suitable_devices=ask(sl("s", dev("d1", big), dev("d2", little)), cl(req(count=2, when=[LARGE]))),
    no_classes=ask(TWO, cl(req()), classes=()),
    an_unknown_class=ask(TWO, cl(req("r", "absent"))),
    no_class_named=ask(TWO, cl(req("r", ""))),
    no_claims=ask(TWO, []),
    several_drivers=ask([sl("s", "d"), sl("t", "d", driver=B, pool="q")], cl(req("x"), req("y", "b"))),
    all_in_use=ask(TWO, cl(req()), allocated=[used("d1"), used("d2")]),
    some_in_use=ask(TWO, cl(req()), allocated=[used("d1")]),
    a_namesake_in_use=ask(TWO, cl(req()), allocated=[used("d1", driver=B), used("d1", pool="q")]),
    an_unknown_selector=ask(TWO, cl({"name": "r", "exactly": {**exact(), "selectors": [{}]}})),
    an_unknown_mode=ask(TWO, cl({"name": "r", "exactly": {"deviceClassName": "a", "allocationMode": "Other"}})),
    an_unknown_constraint=ask(TWO, cl(req(), constraints=[{}])),
    a_selector_fails_at_the_first=ask(TWO, cl(req(when=[BROKEN]))),
    a_selector_fails_behind_the_first=ask(sl("s", dev("d1", {"absent": "x"}), dev("d2")), cl(req(when=[BROKEN]))),
    a_selector_fails_at_a_device_in_use=ask(
        sl("s", dev("d1"), dev("d2", {"absent": "x"})), cl(req(when=[BROKEN])), allocated=[used("d1")]
    ),
    a_class_selector_fails=ask(TWO, cl(req("r", "bad")), classes=(cls("bad", BROKEN),)),
    too_many_in_one_request=ask(sl("s", *(f"d{at}" for at in range(40))), cl(req(count=33))),
    as_many_as_there_may_be=ask(sl("s", *(f"d{at}" for at in range(40))), cl(req(count=32))),
    too_many_in_all=ask(sl("s", *(f"d{at}" for at in range(40))), cl(req("x", count=20), req("y", count=13))),
    as_many_in_two_requests=ask(sl("s", *(f"d{at}" for at in range(40))), cl(req("x", count=20), req("y", count=12))),
    more_than_there_are=ask(TWO, cl(req(count=3))),
)

group(
    "all devices",
    one=ask(sl("s", "d"), cl(req(count="All"))),
    many=ask(TWO, cl(req(count="All"))),
    of_an_incomplete_pool=ask(sl("s", "d", of=2), cl(req(count="All"))),
    of_an_invalid_pool=ask(sl("s", "d", "d"), cl(req(count="All"))),
    then_another=ask([sl("s", "d1", "d2"), sl("t", "d", driver=B, pool="q")], cl(req("x", count="All"), req("y", "b"))),
    another_first=ask(
        [sl("s", "d1", "d2"), sl("t", "d", driver=B, pool="q")], cl(req("y", "b"), req("x", count="All"))
    ),
    then_one_of_the_same=ask(TWO, cl(req("x", count="All"), req("y"))),
    one_of_the_same_first=ask(TWO, cl(req("y"), req("x", count="All"))),
    large_ones_then_a_small_one=ask(
        sl("s", dev("d1", big), dev("d2", little)), cl(req("x", count="All", when=[LARGE]), req("y"))
    ),
    a_small_one_then_large_ones=ask(
        sl("s", dev("d1", big), dev("d2", little)), cl(req("y"), req("x", count="All", when=[LARGE]))
    ),
    of_a_slice_without_devices=ask(sl("s"), cl(req(count="All"))),
    without_slices=ask([], cl(req(count="All"))),
    one_in_use=ask(TWO, cl(req(count="All")), allocated=[used("d1")]),
    one_in_use_for_an_administrator=ask(TWO, cl(req(count="All", **ADMIN)), allocated=[used("d1")]),
    one_taken_by_the_claim_before=ask(TWO, [cl(req(), name="c1"), cl(req(count="All", **ADMIN), name="c2")]),
    more_than_a_claim_may_have=ask(sl("s", *(f"d{at}" for at in range(33))), cl(req(count="All"))),
    as_many_as_a_claim_may_have=ask(sl("s", *(f"d{at}" for at in range(32))), cl(req(count="All"))),
    a_selector_fails=ask(sl("s", dev("d1", {"absent": "x"}), "d2"), cl(req(count="All", when=[BROKEN]))),
    of_two_nodes=ask([sl("s1", "d1", of=2, on="n0"), sl("s2", "d2", of=2, on="n1")], cl(req(count="All"))),
    with_counters=ask(
        counted(dev("d1", **takes(x="1")), dev("d2", **takes(x="1")), counters={"x": "2"}), cl(req(count="All"))
    ),
    with_too_few_counters=ask(
        counted(dev("d1", **takes(x="1")), dev("d2", **takes(x="2")), counters={"x": "2"}), cl(req(count="All"))
    ),
    a_constraint_fails=ask(sl("s", *numa(0, 1)), cl(req(count="All"), constraints=[match(f"{A}/numa")])),
    a_constraint_fails_after_counters=ask(
        counted(dev("d1", {"numa": 0}, **takes(x="1")), dev("d2", {"numa": 1}, **takes(x="1")), counters={"x": "2"}),
        cl(req(count="All"), constraints=[match(f"{A}/numa")]),
    ),
    a_tainted_one=ask(sl("s", "d1", dev("d2", taints=[taint()])), cl(req(count="All"))),
    a_tainted_one_tolerated=ask(sl("s", "d1", dev("d2", taints=[taint()])), cl(req(count="All", **TOLERATE))),
)

group(
    "administrators",
    a_device_in_use=ask(sl("s", "d"), cl(req(**ADMIN)), allocated=[used("d")]),
    several_in_use=ask(TWO, cl(req(count=2, **ADMIN)), allocated=[used("d1")]),
    two_claims_share=ask(sl("s", "d"), [cl(req(**ADMIN), name="c1"), cl(req(**ADMIN), name="c2")]),
    two_requests_of_a_claim_do_not=ask(sl("s", "d"), cl(req("x", **ADMIN), req("y", **ADMIN))),
    beside_a_claim_that_has_it=ask(sl("s", "d"), [cl(req(), name="c1"), cl(req(**ADMIN), name="c2")]),
    before_a_claim_that_wants_it=ask(sl("s", "d"), [cl(req(**ADMIN), name="c1"), cl(req(), name="c2")]),
    a_tainted_device=ask(sl("s", dev("d", taints=[taint()])), cl(req(**ADMIN))),
    not_asked_for=ask(sl("s", "d"), cl(req(adminAccess=False)), allocated=[used("d")]),
    counters_that_are_used_up=ask(
        counted(dev("d1", **takes(x="2")), dev("d2", **takes(x="1")), counters={"x": "2"}),
        cl(req(count="All", **ADMIN)),
        allocated=[used("d1")],
    ),
)

group(
    "beyond nodes",
    for_all_nodes=ask(sl("s", "d", on="*"), cl(req())),
    for_the_nodes_zone=ask(sl("s", "d", on="zone=east"), cl(req())),
    for_another_zone=ask(sl("s", "d", on="zone=west"), cl(req())),
    several_selectors=ask(
        [
            {**sl("s", "d1", of=2), "spec": {**sl("s", "d1", of=2, on="zone=east")["spec"]}},
            {
                "metadata": {"name": "t"},
                "spec": {
                    **sl("t", "d2", of=2, on="zone=east")["spec"],
                    "nodeSelector": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "zone", "operator": "In", "values": ["east"]},
                                    {"key": "host", "operator": "In", "values": ["n0", "n1"]},
                                ],
                                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}],
                            }
                        ]
                    },
                },
            },
        ],
        cl(req(count=2)),
    ),
    one_of_the_node_and_one_of_the_zone=ask([sl("s", "d1"), sl("t", "d2", pool="q", on="zone=east")], cl(req(count=2))),
    per_device_by_node=ask(sl("s", dev("d1", nodeName="n1"), dev("d2", nodeName="n0"), on="device"), cl(req())),
    per_device_by_zone=ask(
        sl("s", dev("d1", nodeSelector=zone("west")), dev("d2", nodeSelector=zone("east")), on="device"), cl(req())
    ),
    per_device_several=ask(
        sl(
            "s",
            dev("d1", nodeName="n0"),
            dev("d2", nodeSelector=zone("east", "west")),
            dev("d3", allNodes=True),
            on="device",
        ),
        cl(req(count=3)),
    ),
    per_device_without_the_nodes=ask(
        sl("s", dev("d1", nodeSelector=zone("east", "west")), dev("d3", allNodes=True), on="device"), cl(req(count=2))
    ),
    per_device_all_elsewhere=ask(sl("s", dev("d1", nodeName="n1"), on="device"), cl(req())),
    that_are_bound_to_the_node=ask(sl("s", dev("d", bindsToNode=True), on="*"), cl(req())),
    a_pool_of_two_nodes=ask([sl("s1", "d1", of=2, on="n0"), sl("s2", "d2", of=2, on="n1")], cl(req())),
    a_pool_of_two_nodes_has_not_enough_here=ask(
        [sl("s1", "d1", of=2, on="n0"), sl("s2", "d2", of=2, on="n1")], cl(req(count=2))
    ),
)

group(
    "pools in change",
    stale_here_and_newer_there=ask([sl("s1", "d1", on="n0"), sl("s2", "d1", on="n1", generation=2)], cl(req())),
    newer_here_and_stale_there=ask([sl("s1", "d1", on="n0", generation=2), sl("s2", "d1", on="n1")], cl(req())),
    two_slices_stale_here=ask(
        [sl("s1", "d1", of=2), sl("s2", "d2", of=2, on="n1"), sl("t", "d1", on="n1", generation=2)], cl(req())
    ),
    two_slices_complete_there=ask(
        [
            sl("s1", "d1", of=2),
            sl("s2", "d2", of=2, on="n1"),
            sl("t1", "d1", of=2, on="n1", generation=2),
            sl("t2", "d2", of=2, on="n1", generation=2),
        ],
        cl(req()),
    ),
    two_slices_one_of_each_generation=ask(
        [sl("s1", "d1", of=2), sl("s2", "d2", of=2, on="n1"), sl("t1", "d1", of=2, generation=2)], cl(req())
    ),
    incomplete=ask(sl("s", "d", of=2), cl(req())),
    incomplete_and_another_one=ask([sl("s", "d", of=2), sl("t", "d", pool="q")], cl(req())),
    invalid_and_another_one=ask([sl("s", "d", "d"), sl("t", "d", pool="q")], cl(req())),
    invalid_and_another_one_in_use=ask(
        [sl("s", "d", "d"), sl("t", "d", pool="q")], cl(req()), allocated=[used("d", "q")]
    ),
    invalid_of_another_driver=ask([sl("s", "d", "d", driver=B, pool="q"), sl("t", "d")], cl(req())),
)

CONFIGURED = (
    cls("a", f'device.driver == "{A}"', config=[opaque("class a")]),
    cls("b", f'device.driver == "{B}"', config=[opaque("class b"), opaque("class b again")]),
)
group(
    "configuration",
    of_a_class=ask(sl("s", "d"), cl(req()), classes=CONFIGURED),
    of_classes_and_a_claim=ask(
        [sl("s", "d1", "d2"), sl("t", "d", driver=B, pool="q")],
        cl(req("x"), req("y", "b"), req("z"), config=[opaque("claim"), opaque("x and z", "x", "z"), opaque("y", "y")]),
        classes=CONFIGURED,
    ),
    of_a_claim=ask(sl("s", "d"), cl(req(), config=[opaque("claim")])),
    for_an_alternative=ask(
        TWO,
        cl(first("r", exact(count=3), exact()), config=[opaque("s0", "r/s0"), opaque("s1", "r/s1"), opaque("r", "r")]),
    ),
    of_an_alternatives_class=ask(
        [sl("s", "d1"), sl("t", "d", driver=B, pool="q")],
        cl(first("r", exact(count=2), exact("b"))),
        classes=CONFIGURED,
    ),
    of_two_claims=ask(TWO, [cl(req(), name="c1", config=[opaque("c1")]), cl(req(), name="c2")], classes=CONFIGURED),
)

N = f"{A}/numa"
group(
    "matchAttribute",
    of_three_two_match=ask(sl("s", *numa(0, 1, 1)), cl(req(count=2), constraints=[match(N)])),
    of_two_requests=ask(sl("s", *numa(0, 1, 1)), cl(req("x"), req("y"), constraints=[match(N)])),
    by_its_short_name=ask(
        sl("s", dev("d1", {f"{A}/numa": 1}), dev("d2", {"numa": 1})), cl(req(count=2), constraints=[match(N)])
    ),
    an_attribute_that_no_device_has=ask(sl("s", *numa(0, 0)), cl(req(), constraints=[match(f"{A}/absent")])),
    of_another_domain=ask(
        sl("s", dev("d1", {"numa": 1}), dev("d2", {"other.example.com/numa": 1})),
        cl(req(), constraints=[match("other.example.com/numa")]),
    ),
    ints_differ=ask(sl("s", *numa(0, 1)), cl(req(count=2), constraints=[match(N)])),
    texts_differ=ask(sl("s", dev("d1", big), dev("d2", little)), cl(req(count=2), constraints=[match(f"{A}/size")])),
    bools_differ=ask(
        sl("s", dev("d1", {"x": True}), dev("d2", {"x": False})), cl(req(count=2), constraints=[match(f"{A}/x")])
    ),
    versions_differ=ask(
        sl("s", dev("d1", {"x": "1.0.0v"}), dev("d2", {"x": "1.0.1v"})),
        cl(req(count=2), constraints=[match(f"{A}/x")]),
    ),
    types_differ=ask(
        sl("s", dev("d1", {"x": "1"}), dev("d2", {"x": 1})), cl(req(count=2), constraints=[match(f"{A}/x")])
    ),
    of_no_known_type=ask(
        sl("s", dev("d1", {"x": {}}), dev("d2", {"x": {}})),
        cl(req("r", "any", count=2), constraints=[match(f"{A}/x")]),
        classes=ANY,
    ),
    a_single_one_of_no_known_type=ask(
        sl("s", dev("d1", {"x": {}})), cl(req("r", "any"), constraints=[match(f"{A}/x")]), classes=ANY
    ),
    texts_are_equal=ask(sl("s", dev("d1", big), dev("d2", big)), cl(req(count=2), constraints=[match(f"{A}/size")])),
    bools_are_equal=ask(
        sl("s", dev("d1", {"x": True}), dev("d2", {"x": True})), cl(req(count=2), constraints=[match(f"{A}/x")])
    ),
    versions_are_equal=ask(
        sl("s", dev("d1", {"x": "1.0.0v"}), dev("d2", {"x": "1.0.0v"})),
        cl(req(count=2), constraints=[match(f"{A}/x")]),
    ),
    for_some_requests=ask(sl("s", *numa(0, 1, 1)), cl(req("x"), req("y"), req("z"), constraints=[match(N, "y", "z")])),
    for_some_requests_after_going_back=ask(
        sl("s", *numa(0, 1, 0)), cl(req("x"), req("y"), constraints=[match(N, "x", "y")])
    ),
    of_two_claims_each=ask(
        sl("s", *numa(0, 1, 0, 1)),
        [
            cl(req(count=2), name="c1", constraints=[match(N)]),
            cl(req(count=2), name="c2", constraints=[match(N)]),
        ],
    ),
    two_constraints=ask(
        sl(
            "s",
            dev("d1", {"numa": 0, "size": "large"}),
            dev("d2", {"numa": 0, "size": "small"}),
            dev("d3", {"numa": 0, "size": "small"}),
        ),
        cl(req(count=2), constraints=[match(N), match(f"{A}/size")]),
    ),
)

group(
    "distinctAttribute",
    of_two_requests=ask(sl("s", *numa(0, 0, 1)), cl(req("x"), req("y"), constraints=[distinct(N)])),
    all_are_equal=ask(sl("s", *numa(0, 0)), cl(req("x"), req("y"), constraints=[distinct(N)])),
    not_set=ask(sl("s", "d1", "d2"), cl(req("x"), req("y"), constraints=[distinct(N)])),
    of_no_known_type=ask(
        sl("s", dev("d1", {"x": {}}), dev("d2", {"x": {}})),
        cl(req("x", "any"), req("y", "any"), constraints=[distinct(f"{A}/x")]),
        classes=ANY,
    ),
    types_differ=ask(
        sl("s", dev("d1", {"x": "1"}), dev("d2", {"x": 1})), cl(req("x"), req("y"), constraints=[distinct(f"{A}/x")])
    ),
    bools=ask(
        sl("s", dev("d1", {"x": True}), dev("d2", {"x": True}), dev("d3", {"x": False})),
        cl(req("x"), req("y"), constraints=[distinct(f"{A}/x")]),
    ),
    texts=ask(
        sl("s", dev("d1", big), dev("d2", big), dev("d3", little)),
        cl(req("x"), req("y"), constraints=[distinct(f"{A}/size")]),
    ),
    versions=ask(
        sl("s", dev("d1", {"x": "1.0.0v"}), dev("d2", {"x": "1.0.0v"}), dev("d3", {"x": "1.0.1v"})),
        cl(req("x"), req("y"), constraints=[distinct(f"{A}/x")]),
    ),
    with_alternatives=ask(
        sl("s", *numa(0, 0, 1)), cl(first("x", exact()), first("y", exact()), constraints=[distinct(N)])
    ),
    for_some_requests=ask(
        sl("s", *numa(0, 0, 1)), cl(req("x"), req("y"), req("z"), constraints=[distinct(N, "y", "z")])
    ),
    one_shared_device=ask(
        sl("s", dev("d1", {"numa": 0}, {"memory": "8Gi"}, **EXCLUSIVE)),
        cl(req("x", **wants(memory="1Gi")), req("y", **wants(memory="1Gi")), constraints=[distinct(N)]),
    ),
    two_shared_devices=ask(
        sl(
            "s",
            dev("d1", {"numa": 0}, {"memory": "8Gi"}, **EXCLUSIVE),
            dev("d2", {"numa": 1}, {"memory": "8Gi"}, **EXCLUSIVE),
        ),
        cl(req("x", **wants(memory="1Gi")), req("y", **wants(memory="1Gi")), constraints=[distinct(N)]),
    ),
)

group(
    "alternatives",
    the_second=ask(TWO, cl(first("r", exact(count=3), exact()))),
    the_first=ask(TWO, cl(first("r", exact(count=2), exact()))),
    none=ask(TWO, cl(first("r", exact(count=3), exact(count=4)))),
    with_selectors=ask(
        sl("s", dev("d1", little), dev("d2", big)),
        cl(first("r", exact(count=2, when=[LARGE]), exact(when=[LARGE]), exact(when=[SMALL]))),
    ),
    a_constraint_names_the_request=ask(
        sl("s", *numa(0, 1, 1)), cl(req("x"), first("y", exact(count=3), exact()), constraints=[match(N, "x", "y")])
    ),
    a_constraint_names_an_alternative=ask(
        sl("s", *numa(0, 1, 2)), cl(req("x"), first("y", exact(), exact()), constraints=[match(N, "x", "y/s0")])
    ),
    all=ask(TWO, cl(first("r", exact(count="All"), exact()))),
    all_of_several_requests=ask(
        [sl("s", "d1"), sl("t", "d", "e", driver=B, pool="q")],
        cl(first("x", exact(count="All")), first("y", exact("b", count="All"))),
    ),
    all_and_one_in_use=ask(TWO, cl(first("r", exact(count="All"), exact())), allocated=[used("d1")]),
    all_without_devices=ask(sl("s"), cl(first("r", exact(count="All"), exact("b", count="All")))),
    all_without_slices=ask([], cl(first("r", exact(count="All"), exact()))),
    all_with_selectors=ask(
        sl("s", dev("d1", little), dev("d2", big), dev("d3", big)),
        cl(first("r", exact(count="All", when=[LARGE]), exact())),
    ),
    all_of_the_second=ask(
        sl("s", dev("d1", little), dev("d2", little)),
        cl(first("r", exact(count="All", when=[LARGE]), exact(count="All", when=[SMALL]))),
    ),
    all_of_two_pools=ask(
        [sl("s", dev("d1", big), dev("d2", little)), sl("t", dev("d3", big), pool="q")],
        cl(first("r", exact(count="All", when=[LARGE]), exact())),
    ),
    all_of_two_pools_and_nodes=ask(
        [
            sl("s1", dev("d1", big), of=2),
            sl("s2", dev("d2", big), of=2, on="n1"),
            sl("t", dev("d3", big), pool="q"),
        ],
        cl(first("r", exact(count="All", when=[LARGE]), exact())),
    ),
    all_of_a_narrower_class=ask(
        sl("s", dev("d1", little), dev("d2", big)),
        cl(first("r", exact("large", count="All"), exact(count="All"))),
        classes=(*CLASSES, cls("large", LARGE)),
    ),
    of_two_requests=ask(
        sl("s", *numa(0, 1, 2, 3)), cl(first("x", exact(count=3), exact(count=2)), first("y", exact(count=3), exact()))
    ),
    back_to_an_earlier_one=ask(
        sl("s", dev("d1", big), dev("d2", little)),
        cl(first("x", exact(when=[LARGE]), exact(when=[SMALL])), req("y", when=[LARGE])),
    ),
    too_many_in_the_first=ask(sl("s", *(f"d{at}" for at in range(40))), cl(first("r", exact(count=33), exact()))),
    too_many_beside_another=ask(
        sl("s", *(f"d{at}" for at in range(40))), cl(req("x", count=30), first("y", exact(count=3), exact(count=2)))
    ),
    too_many_of_all=ask(sl("s", *(f"d{at}" for at in range(40))), cl(first("r", exact(count="All"), exact(count=2)))),
    too_many_in_each=ask(sl("s", *(f"d{at}" for at in range(40))), cl(first("r", exact(count=33), exact(count=34)))),
    of_unknown_classes=ask(TWO, cl(first("r", exact("absent"), exact()))),
    two_claims=ask(
        TWO, [cl(first("r", exact(count=2), exact()), name="c1"), cl(first("r", exact(count=2), exact()), name="c2")]
    ),
)

PARTS = (dev("whole", **takes(x="4")), dev("half1", **takes(x="2")), dev("half2", **takes(x="2")))
group(
    "counters",
    one_device=ask(counted(PARTS[0], counters={"x": "4"}), cl(req())),
    the_whole_is_in_use=ask(counted(*PARTS, counters={"x": "4"}), cl(req()), allocated=[used("whole")]),
    a_half_is_in_use=ask(counted(*PARTS, counters={"x": "4"}), cl(req()), allocated=[used("half1")]),
    two_halves=ask(counted(*PARTS, counters={"x": "4"}), cl(req(count=2))),
    three_are_too_many=ask(counted(*PARTS, counters={"x": "4"}), cl(req(count=3))),
    a_tainted_device_takes_nothing=ask(
        counted(dev("d1", taints=[taint()], **takes(x="2")), dev("d2", **takes(x="2")), counters={"x": "2"}),
        cl(req()),
    ),
    what_a_constraint_refuses_takes_nothing=ask(
        counted(
            dev("d1", {"numa": 0}, **takes(x="1")),
            dev("d2", {"numa": 1}, **takes(x="2")),
            dev("d3", {"numa": 0}, **takes(x="2")),
            counters={"x": "3"},
        ),
        cl(req(count=2), constraints=[match(N)]),
    ),
    what_capacity_refuses_takes_nothing=ask(
        counted(shared("d1", "1Gi", **takes(x="2")), shared("d2", "8Gi", **takes(x="2")), counters={"x": "2"}),
        cl(req(**wants(memory="4Gi"))),
    ),
    what_capacity_refuses_leaves_constraints=ask(
        sl(
            "s",
            dev("d1", {"numa": 0}, {"memory": "1Gi"}, **EXCLUSIVE),
            dev("d2", {"numa": 1}, {"memory": "8Gi"}, **EXCLUSIVE),
            dev("d3", {"numa": 1}, {"memory": "8Gi"}, **EXCLUSIVE),
        ),
        cl(req(count=2, **wants(memory="4Gi")), constraints=[match(N)]),
    ),
    a_second_share_takes_nothing_more=ask(
        counted(shared("d1", **takes(x="2")), shared("d2", **takes(x="2")), counters={"x": "2"}),
        cl(req("x", **wants(memory="1Gi")), req("y", **wants(memory="1Gi"))),
    ),
    a_second_share_is_undone=ask(
        counted(shared("d1", "3Gi", **takes(x="2")), dev("d2", big, **takes(x="2")), counters={"x": "4"}),
        cl(req("x", **wants(memory="2Gi")), req("y", **wants(memory="2Gi"))),
    ),
    a_device_shared_before_takes_nothing_more=ask(
        counted(shared("d1", **takes(x="2")), shared("d2", **takes(x="2")), counters={"x": "2"}),
        cl(req(**wants(memory="1Gi"))),
        allocated=[shared_by("d1", memory="1Gi")],
    ),
    alternatives=ask(counted(*PARTS, counters={"x": "4"}), cl(first("r", exact(count=3), exact(count=2)))),
    several_requests=ask(counted(*PARTS, counters={"x": "4"}), cl(req("x"), req("y"))),
    several_sets=ask(
        counted(
            dev(
                "d1",
                consumesCounters=[*takes("s1", x="1")["consumesCounters"], *takes("s2", x="2")["consumesCounters"]],
            ),
            dev("d2", **takes("s2", x="1")),
            dev("d3", **takes("s1", x="1")),
            sets={"s1": {"x": "2"}, "s2": {"x": "2"}},
        ),
        cl(req(count=2)),
    ),
    several_counters=ask(
        counted(
            dev("d1", **takes(x="1", y="2")),
            dev("d2", **takes(x="2", y="1")),
            dev("d3", **takes(x="1", y="1")),
            counters={"x": "2", "y": "3"},
        ),
        cl(req(count=2)),
    ),
    several_pools=ask(
        [
            *counted(*PARTS, counters={"x": "2"}),
            sl("u", dev("d1", **takes(x="3")), pool="q", of=2),
            sl("v", pool="q", of=2, counters={"set": {"x": "3"}}),
        ],
        cl(req(count=2)),
    ),
    counters_that_nobody_takes=ask(counted(dev("d1", **takes(x="1")), counters={"x": "1", "y": "9"}), cl(req())),
    none_are_left=ask(
        counted(dev("d1", **takes(x="2")), dev("d2", **takes(x="1")), counters={"x": "2"}),
        cl(req()),
        allocated=[used("d1")],
    ),
    more_were_taken_than_there_are=ask(
        counted(dev("d1", **takes(x="2")), dev("d2", **takes(x="2")), dev("d3"), counters={"x": "3"}),
        cl(req()),
        allocated=[used("d1"), used("d2")],
    ),
    a_device_that_takes_nothing=ask(counted(dev("d1", **takes(x="2")), dev("d2"), counters={"x": "1"}), cl(req())),
    fractions=ask(
        counted(dev("d1", **takes(x="1500m")), dev("d2", **takes(x="600m")), counters={"x": "2"}), cl(req(count=2))
    ),
    with_selectors=ask(
        counted(dev("d1", big, **takes(x="4")), dev("d2", little, **takes(x="2")), counters={"x": "4"}),
        cl(req("x", when=[SMALL]), req("y", when=[LARGE])),
    ),
    a_set_name_twice=ask(
        [
            sl("s", dev("d1", **takes(x="1")), of=3),
            *(sl(f"t{at}", of=3, counters={"set": {"x": "2"}}) for at in (1, 2)),
        ],
        cl(req()),
    ),
    an_unknown_set=ask(counted(dev("d1", **takes("absent", x="1")), counters={"x": "2"}), cl(req())),
    an_unknown_counter=ask(counted(dev("d1", **takes(absent="1")), counters={"x": "2"}), cl(req())),
    a_set_of_another_pool=ask(
        [
            sl("s", dev("d1", **takes(x="1"))),
            sl("u", "d1", pool="q", of=2),
            sl("t", pool="q", of=2, counters={"set": {"x": "2"}}),
        ],
        cl(req("x", count=2)),
    ),
    devices_of_two_nodes=ask(
        [
            sl("s1", dev("d1", **takes(x="1")), of=3),
            sl("s2", dev("d2", **takes(x="1")), of=3, on="n1"),
            sl("t", of=3, on="*", counters={"set": {"x": "1"}}),
        ],
        cl(req()),
        allocated=[used("d2")],
    ),
    devices_of_two_nodes_and_enough=ask(
        [
            sl("s1", dev("d1", **takes(x="1")), of=3),
            sl("s2", dev("d2", **takes(x="1")), of=3, on="n1"),
            sl("t", of=3, on="*", counters={"set": {"x": "2"}}),
        ],
        cl(req()),
        allocated=[used("d2")],
    ),
    something_unknown_on_another_node=ask(
        [
            sl("s1", dev("d1", **takes(x="1")), of=3),
            sl("s2", dev("d2", **takes(absent="1")), of=3, on="n1"),
            sl("t", of=3, on="*", counters={"set": {"x": "2"}}),
        ],
        cl(req()),
    ),
    counters_are_missing=ask(sl("s", dev("d1", **takes(x="1")), of=2), cl(req())),
    per_device_nodes=ask(
        [
            sl(
                "s",
                dev("d1", nodeName="n1", **takes(x="1")),
                dev("d2", nodeName="n0", **takes(x="1")),
                of=2,
                on="device",
            ),
            sl("t", of=2, on="*", counters={"set": {"x": "1"}}),
        ],
        cl(req()),
        allocated=[used("d1")],
    ),
)

group(
    "taints",
    both_devices=ask(sl("s", dev("d1", taints=[taint()]), dev("d2", taints=[taint("NoExecute")])), cl(req())),
    one_device=ask(sl("s", dev("d1", taints=[taint()]), "d2"), cl(req())),
    two_of_a_device=ask(sl("s", dev("d", taints=[taint(), taint("NoExecute", "u")])), cl(req(**TOLERATE))),
    both_tolerated=ask(
        sl("s", dev("d", taints=[taint(), taint("NoExecute", "u")])),
        cl(req(tolerations=[{"key": "t", "operator": "Exists"}, {"key": "u", "operator": "Exists"}])),
    ),
    all_tolerated=ask(
        sl("s", dev("d", taints=[taint(), taint("NoExecute", "u")])), cl(req(tolerations=[{"operator": "Exists"}]))
    ),
    of_equal_value=ask(
        sl("s", dev("d", taints=[taint()])), cl(req(tolerations=[{"key": "t", "operator": "Equal", "value": "v"}]))
    ),
    of_another_value=ask(
        sl("s", dev("d", taints=[taint()])), cl(req(tolerations=[{"key": "t", "operator": "Equal", "value": "w"}]))
    ),
    of_another_effect=ask(
        sl("s", dev("d", taints=[taint()])), cl(req(tolerations=[{"operator": "Exists", "effect": "NoExecute"}]))
    ),
    of_another_key=ask(sl("s", dev("d", taints=[taint()])), cl(req(tolerations=[{"key": "u", "operator": "Exists"}]))),
    two_devices_tolerated=ask(
        sl("s", dev("d1", taints=[taint()]), dev("d2", taints=[taint("NoExecute")])), cl(req(count=2, **TOLERATE))
    ),
    without_effect=ask(sl("s", dev("d", taints=[taint("None")])), cl(req())),
    an_alternative_tolerates=ask(sl("s", dev("d", taints=[taint()])), cl(first("r", exact(), exact(**TOLERATE)))),
    no_alternative_tolerates=ask(sl("s", dev("d", taints=[taint()])), cl(first("r", exact(), exact()))),
)

READY = conditions("attached", "ready")
group(
    "binding conditions",
    one_device=ask(sl("s", dev("d", **READY)), cl(req())),
    several_devices=ask(sl("s", dev("d1", **READY), dev("d2", **conditions("attached"))), cl(req(count=2))),
    devices_without_come_first=ask([sl("s", dev("d1", **READY)), sl("t", "d2", pool="q")], cl(req())),
    both_are_wanted=ask([sl("s", dev("d1", **READY)), sl("t", "d2", pool="q")], cl(req(count=2))),
    bound_to_the_node=ask(sl("s", dev("d", bindsToNode=True, **READY), on="*"), cl(req())),
    with_counters=ask(counted(dev("d", **READY, **takes(x="1")), counters={"x": "1"}), cl(req())),
    several_with_counters=ask(
        counted(dev("d1", **READY, **takes(x="1")), dev("d2", **READY, **takes(x="1")), counters={"x": "2"}),
        cl(req(count=2)),
    ),
    some_with_counters=ask(
        counted(dev("d1", **READY, **takes(x="1")), dev("d2", **takes(x="1")), counters={"x": "1"}), cl(req())
    ),
    slices_with_counters=ask(
        [
            sl("s1", dev("d1", **READY, **takes(x="1")), of=3),
            sl("s2", dev("d2", **takes(x="1")), of=3),
            sl("t", of=3, counters={"set": {"x": "2"}}),
        ],
        cl(req(count=2)),
    ),
    with_taints=ask(
        counted(
            dev("d1", taints=[taint()], **READY, **takes(x="1")),
            dev("d2", **READY, **takes(x="1")),
            counters={"x": "2"},
        ),
        cl(req()),
    ),
    with_taints_tolerated=ask(
        counted(
            dev("d1", taints=[taint()], **READY, **takes(x="1")),
            dev("d2", **READY, **takes(x="1")),
            counters={"x": "2"},
        ),
        cl(req(**TOLERATE)),
    ),
)

RANGE = policy("8Gi", default="2Gi", validRange={"min": "1Gi", "max": "6Gi", "step": "2Gi"})
VALUES = policy("8Gi", default="2Gi", validValues=["2Gi", "4Gi"])
group(
    "shared capacity",
    a_capacity_that_the_device_lacks=ask(sl("s", shared("d")), cl(req(**wants(cores="1")))),
    all_of_a_capacity_that_a_device_lacks=ask(sl("s", shared("d")), cl(req(count="All", **wants(cores="1")))),
    a_device_without_capacity=ask(sl("s", dev("d", **EXCLUSIVE)), cl(req("x"), req("y"))),
    no_request_takes_all=ask(sl("s", shared("d")), cl(req())),
    no_request_takes_all_of_one=ask(sl("s", shared("d")), cl(req("x"), req("y"))),
    a_request_without_policy=ask(
        sl("s", shared("d")), cl(req("x", **wants(memory="3Gi")), req("y", **wants(memory="5Gi")))
    ),
    the_policys_default=ask(sl("s", shared("d", RANGE)), cl(req("x"), req("y"))),
    nothing_by_default=ask(
        sl("s", shared("d", policy("8Gi", default="0", validRange={"min": "0"}))), cl(req("x"), req("y"))
    ),
    nothing_by_request=ask(
        sl("s", shared("d", policy("8Gi", default="0", validRange={"min": "0", "max": "0"}))),
        cl(req(**wants(memory="1"))),
    ),
    a_range=ask(sl("s", shared("d", RANGE)), cl(req(**wants(memory="3Gi")))),
    below_the_range=ask(sl("s", shared("d", RANGE)), cl(req(**wants(memory="1Mi")))),
    rounded_up_to_a_step=ask(sl("s", shared("d", RANGE)), cl(req(**wants(memory="3500Mi")))),
    over_the_range=ask(sl("s", shared("d", RANGE)), cl(req(**wants(memory="6500Mi")))),
    a_value=ask(sl("s", shared("d", VALUES)), cl(req(**wants(memory="2Gi")))),
    rounded_up_to_a_value=ask(sl("s", shared("d", VALUES)), cl(req(**wants(memory="3Gi")))),
    over_all_values=ask(sl("s", shared("d", VALUES)), cl(req(**wants(memory="5Gi")))),
    more_than_there_is=ask(sl("s", shared("d")), cl(req(**wants(memory="9Gi")))),
    what_others_leave=ask(
        sl("s", shared("d")), cl(req(**wants(memory="3Gi"))), allocated=[shared_by("d", memory="5Gi")]
    ),
    others_leave_too_little=ask(
        sl("s", shared("d1"), shared("d2")), cl(req(**wants(memory="4Gi"))), allocated=[shared_by("d1", memory="5Gi")]
    ),
    others_leave_nothing=ask(sl("s", shared("d")), cl(req()), allocated=[shared_by("d", memory="8Gi")]),
    back_to_an_earlier_request=ask(
        sl("s", shared("d1", "4Gi"), shared("d2", "2Gi")),
        cl(req("x", **wants(memory="2Gi")), req("y", **wants(memory="4Gi"))),
    ),
    an_alternative=ask(
        sl("s", shared("d")), cl(first("r", exact(**wants(memory="9Gi")), exact(**wants(memory="4Gi"))))
    ),
    all_without_those_that_lack_it=ask(
        sl("s", shared("d1"), dev("d2", **EXCLUSIVE)), cl(req(count="All", **wants(memory="1Gi")))
    ),
    all_without_those_that_have_too_little=ask(
        sl("s", shared("d1"), shared("d2", "1Gi")), cl(req(count="All", **wants(memory="4Gi")))
    ),
    all_beside_another_request=ask(
        sl("s", shared("d")),
        cl(req("x", count="All", **wants(memory="4Gi")), req("y", count="All", **wants(memory="4Gi"))),
    ),
    all_beside_too_much=ask(
        sl("s", shared("d")),
        cl(req("x", count="All", **wants(memory="5Gi")), req("y", count="All", **wants(memory="4Gi"))),
    ),
    all_of_what_others_leave=ask(
        sl("s", shared("d")), cl(req(count="All", **wants(memory="4Gi"))), allocated=[shared_by("d", memory="4Gi")]
    ),
    all_of_which_others_leave_too_little=ask(
        sl("s", shared("d1"), shared("d2")),
        cl(req(count="All", **wants(memory="4Gi"))),
        allocated=[shared_by("d1", memory="5Gi")],
    ),
    of_a_device_for_one=ask(sl("s", dev("d", capacity={"memory": RANGE})), cl(req(**wants(memory="3Gi")))),
    of_a_device_for_one_twice=ask(
        sl("s", dev("d", capacity={"memory": "8Gi"})),
        cl(req("x", **wants(memory="1Gi")), req("y", **wants(memory="1Gi"))),
    ),
    too_much_of_a_device_for_one=ask(sl("s", dev("d", capacity={"memory": "8Gi"})), cl(req(**wants(memory="9Gi")))),
    a_class_excludes_shared_devices=ask(
        sl("s", shared("d1"), dev("d2")),
        cl(req("r", "own")),
        classes=(cls("own", "!device.allowMultipleAllocations"),),
    ),
    a_class_wants_shared_devices=ask(
        sl("s", dev("d1"), shared("d2")),
        cl(req("r", "own", **wants(memory="1Gi"))),
        classes=(cls("own", "device.allowMultipleAllocations"),),
    ),
    a_shared_device_that_one_has=ask(sl("s", shared("d")), cl(req(**wants(memory="1Gi"))), allocated=[used("d")]),
    a_device_for_one_that_was_shared=ask(
        sl("s", dev("d", capacity={"memory": "8Gi"})),
        cl(req(**wants(memory="1Gi"))),
        allocated=[shared_by("d", memory="1Gi")],
    ),
    with_counters=ask(
        counted(shared("d1", **takes(x="1")), dev("d2", **takes(x="1")), counters={"x": "1"}),
        cl(req("x", **wants(memory="1Gi")), req("y", **wants(memory="1Gi"))),
    ),
    with_several_sets=ask(
        counted(
            shared("d1", **takes("s1", x="1")),
            shared("d2", **takes("s2", x="1")),
            sets={"s1": {"x": "1"}, "s2": {"x": "1"}},
        ),
        cl(req("x", **wants(memory="5Gi")), req("y", **wants(memory="5Gi"))),
    ),
    two_claims=ask(
        sl("s", shared("d")), [cl(req(**wants(memory="5Gi")), name="c1"), cl(req(**wants(memory="3Gi")), name="c2")]
    ),
    several_of_one_request=ask(sl("s", shared("d1"), shared("d2")), cl(req(count=2, **wants(memory="1Gi")))),
    for_an_administrator=ask(
        sl("s", shared("d")), cl(req(**ADMIN, **wants(memory="8Gi"))), allocated=[shared_by("d", memory="8Gi")]
    ),
)

group(
    "many combinations",
    of_one_slice=ask(sl("s", *numa(*range(8)), dev("last", {"numa": 0})), cl(req(count=2), constraints=[match(N)])),
    without_a_solution=ask(sl("s", *numa(*range(12))), cl(req(count=3), constraints=[match(N)])),
    of_several_slices=ask(
        [sl("s1", *numa(0, 1, 2), of=2), sl("s2", dev("e0", {"numa": 3}), dev("e1", {"numa": 1}), of=2)],
        cl(req(count=2), constraints=[match(N)]),
    ),
    of_several_pools=ask(
        [sl(f"s{at}", dev("d0", {"numa": at}), dev("d1", {"numa": 9 - at}), pool=f"p{at}") for at in range(6)],
        cl(req(count=2), constraints=[match(N)]),
    ),
    with_several_requests=ask(
        sl("s", *numa(0, 1, 2, 2, 1, 0)),
        cl(req("x", count=2), req("y", count=2), constraints=[match(N, "x"), match(N, "y")]),
    ),
    across_slices_and_pools=ask(
        [
            sl("s1", *numa(0, 1), of=2),
            sl("s2", dev("e0", {"numa": 2}), of=2),
            sl("t", dev("f0", {"numa": 1}), dev("f1", {"numa": 2}), pool="q"),
        ],
        cl(req("x", count=2), req("y", count=2), constraints=[match(N, "x"), match(N, "y")]),
    ),
    with_alternatives=ask(
        sl("s", *numa(0, 1, 2, 1)),
        cl(first("r", exact(count=3), exact(count=2)), constraints=[match(N)]),
    ),
    ten_slices_in_order=ask([sl(f"s{at}", f"d{at}", of=10) for at in reversed(range(10))], cl(req(count=3))),
    pools_in_order=ask([sl(f"s{at}", f"d{at}", pool=f"p{9 - at}") for at in range(10)], cl(req(count=3))),
    drivers_before_pools=ask(
        [sl("s1", "d1", driver=B, pool="a"), sl("s2", "d2", pool="z")],
        cl(req("r", "any")),
        classes=ANY,
    ),
)


# Situations that 0.37.0 added, as far as they are possible with its default gates.

BUGS_OF_1_36 = {"1.37: counters of two drivers with pools of one name"}
"""It takes the counters of two drivers' pools for those of one (docs/differences.md); 0.37.0 does not."""

BUGS_BEFORE_1_38 = {"1.38: a share with the drivers name"}
"""What a claim takes under the driver's name is not counted where the device has the capacity without it; 0.38.0 counts
it, and ours always does (docs/differences.md)."""

LESS = (cls("a", f'device.driver == "{A}"', config=[opaque("class")]),)
PLAIN_RANGE = policy("20", default="1", validRange={"min": "1", "max": "20", "step": "3"})
THOUSANDS = policy("9k", default="1k", validRange={"min": "1k", "max": "9k", "step": "1k"})
group(
    "1.37",
    configuration_for_all_requests=ask(
        TWO, cl(req("x"), req("y"), config=[opaque("both", "x", "y"), opaque("x", "x"), opaque("all")])
    ),
    configuration_for_two_of_three=ask(
        sl("s", "d1", "d2", "d3"), cl(req("x"), req("y"), req("z"), config=[opaque("x and y", "x", "y")])
    ),
    configuration_of_the_class_of_all_requests=ask(TWO, cl(req("x"), req("y")), classes=LESS),
    configuration_of_the_class_of_an_alternative=ask(TWO, cl(first("r", exact(count=3), exact())), classes=LESS),
    configuration_for_alternatives=ask(
        TWO, cl(first("r", exact(count=3), exact()), config=[opaque("both", "r/s0", "r/s1"), opaque("s1", "r/s1")])
    ),
    configuration_for_an_alternative_and_a_request=ask(
        TWO, cl(first("r", exact(), exact()), req("x"), config=[opaque("s0 and x", "r/s0", "x"), opaque("s1", "r/s1")])
    ),
    two_of_one_request_are_distinct=ask(sl("s", *numa(0, 0, 1)), cl(req(count=2), constraints=[distinct(N)])),
    two_of_one_request_are_equal=ask(sl("s", *numa(0, 0)), cl(req(count=2), constraints=[distinct(N)])),
    two_of_one_request_without_the_attribute=ask(TWO, cl(req(count=2), constraints=[distinct(N)])),
    counters_of_two_drivers_with_pools_of_one_name=ask(
        [
            *counted(dev("d1", **takes(x="2")), counters={"x": "2"}),
            sl("u", dev("d1", **takes(x="4")), driver=B, of=2),
            sl("v", driver=B, of=2, counters={"set": {"x": "4"}}),
        ],
        cl(req("x"), req("y", "b")),
    ),
    a_share_without_capacity_has_its_counters=ask(
        counted(dev("d1", **EXCLUSIVE, **takes(x="2")), dev("d2", **takes(x="2")), counters={"x": "2"}),
        cl(req()),
        allocated=[shared_by("d1")],
    ),
    devices_of_different_nodes_share_counters=ask(
        [
            sl("s1", dev("d1", **takes(x="2")), of=3),
            sl("s2", dev("d2", **takes(x="1")), of=3, on="n1"),
            sl("t", of=3, on="n1", counters={"set": {"x": "2"}}),
        ],
        cl(req()),
    ),
    counters_of_another_nodes_device_in_use=ask(
        [
            sl("s1", dev("d1", **takes(x="2")), of=3),
            sl("s2", dev("d2", **takes(x="1")), of=3, on="n1"),
            sl("t", of=3, on="n1", counters={"set": {"x": "2"}}),
        ],
        cl(req()),
        allocated=[used("d2")],
    ),
    a_step_without_suffix=ask(sl("s", shared("d", PLAIN_RANGE)), cl(req(**wants(memory="5")))),
    a_step_of_thousands=ask(sl("s", shared("d", THOUSANDS)), cl(req(**wants(memory="1500")))),
    all_of_which_one_is_shared_out=ask(
        sl("s", shared("d1"), shared("d2")),
        cl(first("r", exact(count="All", **wants(memory="4Gi")), exact(**wants(memory="4Gi")))),
        allocated=[shared_by("d1", memory="5Gi")],
    ),
)

# What 0.38.0-beta.0 does otherwise.

MEMORY = f"{A}/memory"
group(
    "1.38",
    a_request_with_the_drivers_name=ask(sl("s", shared("d")), cl(req(**wants(**{MEMORY: "2Gi"})))),
    a_device_with_the_drivers_name=ask(
        sl("s", dev("d", capacity={MEMORY: "8Gi"}, **EXCLUSIVE)), cl(req("x", **wants(memory="5Gi")), req("y"))
    ),
    both_with_the_drivers_name=ask(
        sl("s", dev("d", capacity={MEMORY: "8Gi"}, **EXCLUSIVE)),
        cl(req("x", **wants(**{MEMORY: "5Gi"})), req("y", **wants(**{MEMORY: "3Gi"}))),
    ),
    a_share_with_the_drivers_name=ask(
        sl("s", shared("d")), cl(req(**wants(memory="4Gi"))), allocated=[shared_by("d", **{MEMORY: "5Gi"})]
    ),
    another_drivers_name=ask(sl("s", shared("d")), cl(req(**wants(**{f"{B}/memory": "2Gi"})))),
    a_negative_request=ask(sl("s", shared("d")), cl(req(**wants(memory="-2Gi")))),
    a_negative_request_for_all=ask(sl("s", shared("d")), cl(req(count="All", **wants(memory="-2Gi")))),
    a_negative_request_with_a_policy=ask(sl("s", shared("d", PLAIN_RANGE)), cl(req(**wants(memory="-5")))),
    a_share_without_capacity_keeps_a_device=ask(sl("s", "d1", "d2"), cl(req()), allocated=[shared_by("d1")]),
    an_administrator_gets_what_is_shared=ask(
        sl("s", "d1"), cl(req(adminAccess=True)), allocated=[shared_by("d1", memory="1Gi")]
    ),
    all_devices_of_which_one_was_shared=ask(
        sl("s", "d1", "d2"), cl(req(count="All")), allocated=[shared_by("d1", memory="1Gi")]
    ),
    too_many_beside_alternatives=ask(
        sl("s", *(f"d{at}" for at in range(40))), cl(req("x", count=30), first("y", exact(count=4), exact(count=3)))
    ),
)


def recorded(minor: int = 36) -> Json:
    """Return the Go package's answers by situation."""
    answers: Json = json.loads(ANSWERS.read_text())
    for newer, changed in CHANGED.items():
        if newer <= minor:
            answers |= json.loads(changed.read_text())
    return answers
