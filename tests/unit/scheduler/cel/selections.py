"""Selectors in the situations of upstream's own table (cel/compile_test.go of k8s.io/dynamic-resource-allocation
0.36.3); the expressions and devices are ours. `recorded_selectors` has what the Go package answers.

Of upstream's 69 situations 41 are here. Not here are 27 of list attributes (DRAListTypeAttributes: alpha, off in 1.34
to 1.37), which are not read, and one of a feature that is off. Costs are not compared: the server has
estimated them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = Any
DRIVER = "a.example.com"
ANSWERS = Path(__file__).parents[3] / "data" / "devices" / "selectors.json"
CASES: dict[str, tuple[str, str, Json]] = {}
"""By situation an expression, the driver and the device."""


def case(title, expression, attributes=None, capacity=None, driver=DRIVER, **more):
    device = {"name": "d", "attributes": attributes or {}, **more}
    device["capacity"] = {key: {"value": value} for key, value in (capacity or {}).items()}
    CASES[title] = (expression, driver, device)


def own(kind, name):
    return f'device.{kind}["{DRIVER}"].{name}'


case("true", "true")
case("false", "false")
case("no expression at all", "?")
case("a number instead of a bool", "1 + 1")
case("a bool by way of dyn", "dyn(true)")
case("a number by way of dyn", "dyn(1)")
case("an id that is missing", own("attributes", "absent") + " == 1")
case("an id that is missing, by brackets", f'device.attributes["{DRIVER}"]["absent"] == 1')
case("a domain that is missing has no id", 'device.attributes["other.example.com"].absent == 1')
case("a domain that is missing", '"other.example.com" in device.attributes')
case("a domain that is there", f'"{DRIVER}" in device.attributes', {"x": {"int": 1}})
case("a domain that is missing is a map", 'size(device.attributes["other.example.com"]) == 0')
case("an id that is there", f'"x" in device.attributes["{DRIVER}"]', {"x": {"int": 1}})
case("has of a missing id", f"has({own('attributes', 'x')})")
case("no driver", 'device.driver == ""', driver="")
case("the driver", f'device.driver == "{DRIVER}"')
case("an id without domain is the driver's", own("attributes", "x") + " == 1", {"x": {"int": 1}})
case("a domain by the driver", "device.attributes[device.driver].x == 1", {"x": {"int": 1}})
case("a name with a domain", own("attributes", "x") + " == 1", {f"{DRIVER}/x": {"int": 1}})
case("a name with another domain", 'device.attributes["b.example.com"].x == 1', {"b.example.com/x": {"int": 1}})
case(
    "bind",
    f'cel.bind(own, device.attributes["{DRIVER}"], own.x == 1 && own.y == "z")',
    {"x": {"int": 1}, "y": {"string": "z"}},
)
case("a bool", own("attributes", "x"), {"x": {"bool": True}})
case("a false bool", own("attributes", "x"), {"x": {"bool": False}})
case("an int", own("attributes", "x") + " > 0", {"x": {"int": 1}})
case("a text", own("attributes", "x") + ' == "y"', {"x": {"string": "y"}})
case("a text where a bool is wanted", own("attributes", "x"), {"x": {"string": "y"}})
case(
    "exists over ids with an int",
    f'device.attributes["{DRIVER}"].exists(k, k == "x" && {own("attributes", "x")} == 1)',
    {"x": {"int": 1}},
)
case(
    "exists over ids with a bool",
    f'device.attributes["{DRIVER}"].exists(k, {own("attributes", "x")})',
    {"x": {"bool": True}},
)
case(
    "exists over ids with a text",
    f'device.attributes["{DRIVER}"].exists(k, k.startsWith("x"))',
    {"xy": {"string": "z"}},
)
case("a version", own("attributes", "x") + '.isGreaterThan(semver("0.0.1"))', {"x": {"version": "1.0.0"}})
case(
    "a version with a v", own("attributes", "x") + '.isGreaterThan(semver("v0.0.1", true))', {"x": {"version": "1.0.0"}}
)
case(
    "a version with a v that is not normalised",
    own("attributes", "x") + '.isGreaterThan(semver("v0.0.1"))',
    {"x": {"version": "1.0.0"}},
)
case(
    "a version that is not older", own("attributes", "x") + '.isLessThan(semver("1.0.0"))', {"x": {"version": "1.0.0"}}
)
case("a version that is wrong", own("attributes", "x") + '.isLessThan(semver("1.0.0"))', {"x": {"version": "x"}})
case(
    "exists over ids with a version",
    f'device.attributes["{DRIVER}"].exists(k, {own("attributes", "x")} == semver("1.0.0"))',
    {"x": {"version": "1.0.0"}},
)
case("a quantity", own("capacity", "x") + '.isGreaterThan(quantity("1Ki"))', {}, {"x": "1Mi"})
case("a quantity that is too small", own("capacity", "x") + '.compareTo(quantity("1Mi")) >= 0', {}, {"x": "1Ki"})
case(
    "an id checked first, there",
    f'"x" in device.attributes["{DRIVER}"] && {own("attributes", "x")} == 1',
    {"x": {"int": 1}},
)
case("an id checked first, missing", f'"x" in device.attributes["{DRIVER}"] && {own("attributes", "x")} == 1')
EVERYTHING = {"b": {"bool": True}, "i": {"int": 7}, "s": {"string": "x"}, "v": {"version": "1.2.3"}}
case(
    "everything",
    " && ".join(
        (
            own("attributes", "b"),
            own("attributes", "i") + " == 7",
            own("attributes", "s") + ' == "x"',
            own("attributes", "v") + ' == semver("1.2.3")',
            own("capacity", "q") + ' == quantity("1")',
        )
    ),
    EVERYTHING,
    {"q": "1"},
)
MANY = {f"{domain}.example.com/n{index}": {"int": index} for domain in "abc" for index in range(10)}
case(
    "many",
    " && ".join(
        f'device.attributes["{domain}.example.com"].n{index} == {index}' for domain in "abc" for index in range(10)
    ),
    MANY,
)
case("domains of attributes", "device.attributes.all(d, d.endsWith('.example.com'))", MANY)
case("ids of attributes", f"device.attributes['{DRIVER}'].all(i, i.startsWith('n'))", MANY)
case("a text that is split", own("attributes", "s") + '.split("-").exists(x, x == "b")', {"s": {"string": "a-b-c"}})
case("a pattern", own("attributes", "s") + '.matches("^a-[a-c]+-c$")', {"s": {"string": "a-b-c"}})
case(
    "domains of capacities",
    "device.capacity.all(d, d.endsWith('.example.com'))",
    {},
    {"x": "1", "b.example.com/y": "2"},
)
case("ids of capacities", f"device.capacity['{DRIVER}'].all(i, i == 'x')", {}, {"x": "1"})
case("too much work", " && ".join(["[1,2,3,4,5,6,7,8,9,10].all(x, [1,2,3,4,5,6,7,8,9,10].all(y, x + y > 0))"] * 3))
case("shared", "device.allowMultipleAllocations", allowMultipleAllocations=True)
case("shared, not said", "device.allowMultipleAllocations")
case("not shared", "device.allowMultipleAllocations == false", allowMultipleAllocations=False)
case(
    "shared, and more",
    f'device.allowMultipleAllocations && {own("capacity", "x")}.compareTo(quantity("1")) >= 0',
    {},
    {"x": "1"},
    allowMultipleAllocations=True,
)


def recorded_selectors() -> Json:
    """Return the Go package's answers by situation."""
    return json.loads(ANSWERS.read_text())
