# ruff: noqa: E501 (a template of an expression per line)
"""Selectors and allocations answered by Kubernetes' own Go packages, and random questions for both sides.

The Go program is `dra_oracle/main.go`. It reads questions and writes answers as JSON, one per line.
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from scheduler.catalog import DEFAULT_KUBERNETES, KUBERNETES_VERSIONS
from scheduler.cel import CompiledSelector, CompileError, EvaluationError
from scheduler.kube.model import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.plugins.dynamicresources.allocator import Allocator
from scheduler.plugins.dynamicresources.capacity import AllocationError, amounts
from scheduler.plugins.dynamicresources.devices import OfferedSlice, PlaceOf, gather_pools
from scheduler.plugins.dynamicresources.ledger import SHARERS
from scheduler.plugins.dynamicresources.requests import Budget, OutOfBudget, SelectorCache
from tests.support.goprograms import built

_SOURCE = Path(__file__).parent / "dra_oracle"
Json = Any


def oracle_binary(minor: int = 36) -> Path:
    """Return the Go program with the packages of Kubernetes 1.36, 1.37 or 1.38, built where it has not been."""
    return built(_SOURCE, _SOURCE if minor == 36 else _SOURCE / f"1.{minor}")


class Oracle:
    """The Go program, running."""

    def __init__(self, minor: int = 36) -> None:
        command = [oracle_binary(minor)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question: Json) -> Json:
        """Return its answer."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.communicate()


# Selectors ----------------------------------------------------------------------------------------------------------

DRIVER = "dra.example.com"


def ours_of(expression: str, device: Json, driver: str = DRIVER) -> Json:
    """Return our answer in the form of the oracle's."""
    content = {"metadata": {"name": "s"}, "spec": {"driver": driver, "pool": {"name": "p"}, "devices": [device]}}
    offered = OfferedSlice(msgspec.convert(content, ResourceSlice)).devices[0]
    try:
        selector = CompiledSelector(expression)
        first = selector.matches(offered).matches
        assert selector.matches(offered) == (first, 0)
        return {"result": first}
    except CompileError as error:
        return {"compileError": str(error)}
    except EvaluationError as error:
        return {"error": str(error)}


def same_selection(ours: Json, theirs: Json) -> bool:
    """Tell whether our answer is the oracle's; what does not compile there is not let in by the API server."""
    if theirs.get("compileError"):
        return True
    if theirs.get("error"):
        words = theirs["error"] if theirs["error"].startswith("no such key") else ours.get("error")
        return ours.get("error") is not None and ours["error"] == words
    return bool(ours == {"result": theirs["result"]})


def selector_answer(answer: Json) -> Json:
    """Return an oracle's answer without costs."""
    return {key: value for key, value in answer.items() if key not in ("maxCost", "actualCost")}


class Expressions:
    """Random expressions, by the type of their value."""

    _STRINGS = ("", "a", "a100", "A100-80GB", "ab,c", "x y", "añ€", "1.2.3", "10Gi", "a.b")
    _ATTRIBUTES = ("model", "count", "ok", "version", "absent")
    _QUANTITIES = (
        *(
            "0",
            "1",
            "-3",
            "40Gi",
            "1500m",
            "1e3",
            "2.5",
            "41943040Ki",
            "0.1",
            "2000m",
            "2.0",
            "1u",
            "3e-1",
            "+7k",
            "007",
        ),
    )
    """All of them within an int64 of billionths or less: upstream's sums of larger ones change their operands."""
    _VERSIONS = ("1.2.3", "1.2.3-alpha.1", "1.2.3-beta", "2.0.0", "1.10.0+build", "v1.2")
    _PATTERNS = ("^a", "[0-9]+", "a.*c$", "(ab|a)c?", "\\\\d{2,3}", "(?i)A100", "^$", "[^a-c]+", "x*", "\\\\bA")

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def device(self) -> Json:
        """Return a device with some of the attributes that expressions ask about."""
        rng = self._rng
        values = {
            "model": {"string": rng.choice(self._STRINGS)},
            "count": {"int": rng.choice((0, 1, 7, -5, 9223372036854775807))},
            "ok": {"bool": rng.random() < 0.5},
            "version": {"version": rng.choice(self._VERSIONS[:5])},
            "other.example.com/model": {"string": "a100"},
        }
        names = [name for name in values if rng.random() < 0.85]
        capacity = {
            name: {"value": rng.choice(self._QUANTITIES)} for name in ("memory", "cores") if rng.random() < 0.85
        }
        return {"name": "d", "attributes": {name: values[name] for name in names}, "capacity": capacity}

    def _pick(self, *makers: Any) -> str:
        return str(self._rng.choice(makers)())

    def _quoted(self, text: str) -> str:
        return '"' + text + '"'

    def attribute(self) -> str:
        """A value of any type."""
        rng = self._rng
        domain = rng.choice((DRIVER, DRIVER, DRIVER, "other.example.com", "absent.example.com"))
        name = rng.choice(self._ATTRIBUTES)
        form = rng.choice((f".{name}", f'["{name}"]'))
        return f'device.attributes["{domain}"]{form}'

    def boolean(self, depth: int) -> str:
        """A bool."""
        rng = self._rng
        if depth <= 0:
            return self._pick(
                lambda: rng.choice(("true", "false")),
                lambda: f'device.attributes["{DRIVER}"].ok',
                lambda: f'"{rng.choice((DRIVER, "other.example.com", "no.example.com"))}" in device.attributes',
                lambda: f'"{rng.choice(self._ATTRIBUTES)}" in device.attributes["{DRIVER}"]',
                lambda: f'has(device.attributes["{DRIVER}"].{rng.choice(self._ATTRIBUTES)})',
                lambda: f'has(device.capacity["{DRIVER}"].{rng.choice(("memory", "absent"))})',
            )
        d = depth - 1
        return self._pick(
            lambda: f"({self.boolean(d)} && {self.boolean(d)})",
            lambda: f"({self.boolean(d)} || {self.boolean(d)})",
            lambda: f"!{self.boolean(d)}" if rng.random() < 0.5 else f"!({self.boolean(d)})",
            lambda: f"({self.boolean(d)} ? {self.boolean(d)} : {self.boolean(d)})",
            lambda: f"({self.integer(d)} {rng.choice(('<', '<=', '>', '>=', '==', '!='))} {self.integer(d)})",
            lambda: f"({self.text(d)} {rng.choice(('<', '<=', '>', '>=', '==', '!='))} {self.text(d)})",
            lambda: f"({self.attribute()} {rng.choice(('==', '!='))} {self.anything(d)})",
            # Of a version in a list of constants, cel-go says that it cannot be hashed.
            lambda: f"({self.attribute()} in {self.list(d)}.map(x, x))",
            lambda: f"({self.integer(d)} in {self.list(d)})",
            lambda: f"({self.list(d)} {rng.choice(('==', '!='))} {self.list(d)})",
            lambda: f"{self.quantity(d)}.{rng.choice(('isGreaterThan', 'isLessThan'))}({self.quantity(d)})",
            lambda: f"({self.quantity(d)} {rng.choice(('==', '!='))} {self.quantity(d)})",
            lambda: f"{self.version(d)}.{rng.choice(('isGreaterThan', 'isLessThan'))}({self.version(d)})",
            lambda: f"({self.version(d)} == {self.version(d)})",
            lambda: f"{self.quantity(d)}.isInteger()",
            lambda: f'isQuantity("{rng.choice((*self._QUANTITIES, "x", "1x", "1.2.3", "10 Gi"))}")',
            lambda: f"isSemver({self.text(d)}{rng.choice(('', ', true', ', false'))})",
            lambda: f"{self.text(d)}.{rng.choice(('contains', 'startsWith', 'endsWith'))}({self.text(d)})",
            lambda: f"{self.text(d)}.matches({self._quoted(rng.choice(self._PATTERNS))})",
            lambda: (
                f"{self.list(d)}.{rng.choice(('all', 'exists', 'exists_one'))}(x, x {rng.choice(('>', '==', '!='))} {self.integer(d)})"
            ),
            lambda: f"{self.list(d)}.{rng.choice(('all', 'exists', 'existsOne'))}(i, x, x > i)",
            lambda: (
                f'device.attributes["{DRIVER}"].{rng.choice(("all", "exists", "exists_one"))}(k, k < {self.text(d)})'
            ),
            lambda: f"device.attributes.{rng.choice(('all', 'exists'))}(k, k == {self.text(d)})",
            lambda: f"cel.bind(v, {self.anything(d)}, {self.boolean(d)} || v == {self.anything(d)})",
            lambda: f"sets.{rng.choice(('contains', 'equivalent', 'intersects'))}({self.list(d)}, {self.list(d)})",
            lambda: f"{self.list(d)}.isSorted()",
            lambda: (
                f'(device.attributes["{DRIVER}"].?{rng.choice(self._ATTRIBUTES)}.orValue({self.anything(d)}) == {self.anything(d)})'
            ),
            lambda: f'device.attributes["{DRIVER}"].?{rng.choice(self._ATTRIBUTES)}.hasValue()',
            lambda: f"(type({self.anything(d)}) == {rng.choice(('int', 'string', 'bool', 'list', 'double'))})",
            lambda: f"bool({self.text(d)})",
            lambda: f"({self.double(d)} {rng.choice(('<', '>', '==', '!=', '>='))} {self.double(d)})",
            lambda: f"(dyn({self.integer(d)}) {rng.choice(('<', '>', '=='))} dyn({self.double(d)}))",
        )

    def integer(self, depth: int) -> str:
        """An int."""
        rng = self._rng
        if depth <= 0:
            return rng.choice(("0", "1", "-1", "7", "2", "-5", "9223372036854775807", "-9223372036854775808", "0x1F"))
        d = depth - 1
        return self._pick(
            lambda: self.integer(0),
            lambda: f"({self.integer(d)} {rng.choice('+-*/%')} {self.integer(d)})",
            lambda: f"size({rng.choice((self.text, self.list))(d)})",
            lambda: f"-({self.integer(d)})",
            lambda: f"int({rng.choice((self.text, self.integer, self.double))(d)})",
            lambda: (
                f"{self.quantity(d)}.{rng.choice(('compareTo(' + self.quantity(d) + ')', 'sign()', 'asInteger()'))}"
            ),
            lambda: f"{self.version(d)}.{rng.choice(('major()', 'minor()', 'patch()'))}",
            lambda: f"{self.version(d)}.compareTo({self.version(d)})",
            lambda: f"{self.text(d)}.{rng.choice(('indexOf', 'lastIndexOf'))}({self.text(d)})",
            lambda: f"{self.text(d)}.{rng.choice(('indexOf', 'lastIndexOf'))}({self.text(d)}, {self.integer(0)})",
            lambda: f"{self.list(d)}.{rng.choice(('sum', 'min', 'max'))}()",
            lambda: f"{self.list(d)}[{self.integer(0)}]",
            lambda: (
                f'{{"a": {self.integer(d)}, "b": {self.integer(d)}}}[{rng.choice((self._quoted("a"), self._quoted("c")))}]'
            ),
        )

    def double(self, depth: int) -> str:
        """A double."""
        rng = self._rng
        if depth <= 0:
            return rng.choice(("0.0", "1.5", "-2.25", "1e10", "7.0", "0.1"))
        d = depth - 1
        return self._pick(
            lambda: self.double(0),
            lambda: f"({self.double(d)} {rng.choice('+-*/')} {self.double(d)})",
            lambda: f"double({rng.choice((self.integer, self.double))(d)})",
            lambda: f"{self.quantity(d)}.asApproximateFloat()",
        )

    def text(self, depth: int) -> str:
        """A string."""
        rng = self._rng
        if depth <= 0:
            return self._pick(lambda: self._quoted(rng.choice(self._STRINGS)), lambda: "device.driver")
        d = depth - 1
        return self._pick(
            lambda: self.text(0),
            lambda: f"({self.text(d)} + {self.text(d)})",
            lambda: f"{self.text(d)}.{rng.choice(('lowerAscii', 'upperAscii', 'trim'))}()",
            lambda: f"{self.text(d)}.substring({self.integer(0)}{rng.choice(('', ', 2', ', 3'))})",
            lambda: f"{self.text(d)}.charAt({self.integer(0)})",
            lambda: f"{self.text(d)}.replace({self.text(0)}, {self.text(0)}{rng.choice(('', ', 1', ', -1', ', 0'))})",
            lambda: (
                f"{self.text(d)}.split({self.text(0)}{rng.choice(('', ', 2', ', 1', ', 0', ', -1'))}).join({rng.choice(('', self._quoted('-')))})"
            ),
            lambda: f"string({rng.choice((self.integer, self.boolean, self.text, self.double))(d)})",
            lambda: f"{self.text(d)}.find({self._quoted(rng.choice(self._PATTERNS))})",
            lambda: (
                f"{self.text(d)}.findAll({self._quoted(rng.choice(self._PATTERNS))}{rng.choice(('', ', 1', ', 2'))}).join({self._quoted('|')})"
            ),
            lambda: f"({self.boolean(d)} ? {self.text(d)} : {self.text(d)})",
        )

    def list(self, depth: int) -> str:
        """A list of ints."""
        rng = self._rng
        plain = "[" + ", ".join(self.integer(max(0, depth - 1)) for _ in range(rng.randrange(4))) + "]"
        if depth <= 0 or plain == "[]":
            return plain if plain != "[]" else "[1]"
        d = depth - 1
        return self._pick(
            lambda: plain,
            lambda: f"({self.list(d)} + {self.list(d)})",
            lambda: f"{self.list(d)}.map(x, x {rng.choice('+-*')} {self.integer(0)})",
            lambda: f"{self.list(d)}.map(x, x > 0, x + 1)",
            lambda: f"{self.list(d)}.filter(x, x {rng.choice(('<', '>', '!='))} {self.integer(0)})",
            lambda: f"{self.list(d)}.{rng.choice(('distinct', 'reverse', 'sort'))}()",
            lambda: f"{self.list(d)}.slice(0, {rng.choice('012')})",
            lambda: f"lists.range({rng.choice('0123')})",
            lambda: f"[{self.list(d)}, {self.list(d)}].flatten()",
            lambda: f"{self.list(d)}.transformList(i, x, x * i)",
        )

    def quantity(self, depth: int) -> str:
        """A quantity."""
        rng = self._rng
        if depth <= 0 or rng.random() < 0.6:
            return self._pick(
                lambda: f'quantity("{rng.choice(self._QUANTITIES)}")',
                lambda: f'device.capacity["{DRIVER}"].{rng.choice(("memory", "cores", "absent"))}',
            )
        d = depth - 1
        return f"{self.quantity(d)}.{rng.choice(('add', 'sub'))}({rng.choice((self.quantity(d), '1', '-7', '1000'))})"

    def version(self, depth: int) -> str:
        """A semantic version."""
        rng = self._rng
        return self._pick(
            lambda: f'semver("{rng.choice(self._VERSIONS)}"{rng.choice(("", ", true"))})',
            lambda: f'device.attributes["{DRIVER}"].version' if rng.random() < 0.3 else 'semver("1.2.3")',
        )

    def anything(self, depth: int) -> str:
        """A value of any type."""
        return self._pick(
            lambda: self.integer(depth),
            lambda: self.text(depth),
            lambda: self.boolean(depth),
            lambda: self.attribute(),
            lambda: self.list(depth),
            lambda: self.quantity(depth),
            lambda: self.double(depth),
        )


# Allocations --------------------------------------------------------------------------------------------------------

FEATURES = {
    "AdminAccess": True,
    "PrioritizedList": True,
    "DeviceTaints": True,
    "PartitionableDevices": True,
    "DeviceBindingAndStatus": True,
    "ConsumableCapacity": True,
}


def ours_allocates(question: Json, minor: int = DEFAULT_KUBERNETES.minor) -> Json:
    """Return our answer in the form of the oracle's, behaving as a Kubernetes minor."""
    classes = {item["metadata"]["name"]: msgspec.convert(item, DeviceClass) for item in question["classes"]}
    slices = [OfferedSlice(msgspec.convert(item, ResourceSlice)) for item in question["slices"]]
    claims = [msgspec.convert(item, ResourceClaim) for item in question["claims"]]
    in_use, shared = set(), {}
    for each in question["allocated"]:
        device = (each["driver"], each["pool"], each["device"])
        if "shareID" in each:
            shared[device] = {SHARERS: 1} | amounts(each["consumedCapacity"], each["driver"])
        else:
            in_use.add(device)
    place = PlaceOf(question["node"]["metadata"]["name"], question["node"]["metadata"]["labels"])
    allocator = Allocator(
        classes.get,
        in_use.__contains__,
        lambda device: shared.get(device, {}),
        SelectorCache(),
        Budget(3_000_000),
        KUBERNETES_VERSIONS[minor],
    )
    try:
        relevant = [each for each in slices if each.own_node in ("", place.name)]
        pools = gather_pools(place, relevant, lambda pool: [each for each in slices if each.pool == pool])
        outcome = allocator.allocate(place, pools, claims)
    except AllocationError as error:
        return {"error": str(error)}
    except OutOfBudget:
        return {"error": "out of budget"}
    if isinstance(outcome, str):
        return {"allocations": None, "reason": outcome}
    allocations = json.loads(msgspec.json.encode(outcome))
    for allocation in allocations:
        _without_nothing(allocation)
    return {"allocations": allocations}


def comparable(answer: Json) -> Json:
    """Return an oracle's answer in the form of ours."""
    if answer.get("error"):
        return {"error": answer["error"], "nodeOnly": answer.get("nodeOnly", False)}
    allocations = answer["allocations"]
    for allocation in allocations or ():
        _without_nothing(allocation)
    return {"allocations": allocations}


def agrees(ours: Json, theirs: Json) -> bool:
    """Tell whether our answer is the oracle's, in its `comparable` form."""
    if "error" in theirs:
        return bool(ours.get("reason" if theirs["nodeOnly"] else "error") == theirs["error"])
    return ours.get("error") is None and ours.get("allocations") == theirs["allocations"]


def _without_nothing(value: Json) -> None:
    """Drop what Go writes for nothing, and ours leaves out; the ids of shares are drawn."""
    if isinstance(value, dict):
        if "shareID" in value:
            value["shareID"] = "drawn"
        for key in [key for key, content in value.items() if content in (None, [], {})]:
            del value[key]
        for content in value.values():
            _without_nothing(content)
    elif isinstance(value, list):
        for content in value:
            _without_nothing(content)


def random_allocation(rng: random.Random) -> Json:
    """Return a question about one node: pools of several shapes, devices in use, claims."""
    node = {"metadata": {"name": "n0", "labels": {"zone": rng.choice(("east", "west"))}}}
    slices = [each for number in range(rng.randrange(1, 4)) for each in _random_pool(rng, number)]
    classes = [
        {"metadata": {"name": "gpu"}, "spec": {"selectors": [], "config": _random_config(rng, "class")}},
        {
            "metadata": {"name": "large"},
            "spec": {"selectors": [_selector(rng)], "config": _random_config(rng, "large")},
        },
    ]
    names = {
        (item["spec"]["driver"], item["spec"]["pool"]["name"], device["name"]): device
        for item in slices
        for device in item["spec"].get("devices", ())
    }
    allocated = [_allocated(rng, *key, device) for key, device in names.items() if rng.random() < 0.2]
    claims = [_random_claim(rng, number) for number in range(rng.choice((1, 1, 2)))]
    return {
        "features": FEATURES,
        "node": node,
        "claims": claims,
        "classes": classes,
        "slices": slices,
        "allocated": allocated,
    }


def _allocated(rng: random.Random, driver: str, pool: str, name: str, device: Json) -> Json:
    result: Json = {"driver": driver, "pool": pool, "device": name}
    if device.get("allowMultipleAllocations"):
        result |= {"shareID": f"share-{name}", "consumedCapacity": {"memory": rng.choice(("1Gi", "5Gi", "9Gi"))}}
    return result


def _policy(rng: random.Random) -> Json:
    """Return what a capacity says of requests; its values are those that the API server takes."""
    return rng.choice(
        (
            {"default": "2Gi"},
            {"default": "2Gi", "validValues": ["2Gi", "4Gi", "8Gi"]},
            {"default": "2Gi", "validRange": {"min": "1Gi"}},
            {"default": "2Gi", "validRange": {"min": "1Gi", "max": "6Gi"}},
            {"default": "3Gi", "validRange": {"min": "1Gi", "max": "9Gi", "step": "2Gi"}},
        )
    )


def _zone(zone: str) -> Json:
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def _random_pool(rng: random.Random, number: int) -> list[Json]:
    driver = rng.choice((DRIVER, "other.example.com"))
    count = rng.choice((1, 1, 2))
    listed = count if rng.random() < 0.93 else count + 1
    slices = []
    for index in range(count):
        per_device = rng.random() < 0.15
        placement: Json = rng.choice(
            (
                *({"nodeName": "n0"},) * 5,
                {"nodeName": "n1"},
                {"allNodes": True},
                {"nodeSelector": _zone("east")},
            )
        )
        devices = [_random_device(rng, f"d{index}{at}", per_device) for at in range(rng.randrange(1, 5))]
        if rng.random() < 0.03:
            devices.append(devices[0])
        spec = {
            "driver": driver,
            "pool": {
                "name": f"p{number}",
                "generation": 1 if rng.random() < 0.95 else 2,
                "resourceSliceCount": listed,
            },
            "devices": devices,
            **({"perDeviceNodeSelection": True} if per_device else placement),
        }
        slices.append({"metadata": {"name": f"s-{rng.randrange(1000)}-{number}-{index}"}, "spec": spec})
    if rng.random() < 0.2 and listed == count:
        slices.append(_with_counters(rng, number, slices))
    return slices


def _with_counters(rng: random.Random, number: int, slices: list[Json]) -> Json:
    """Have devices of a pool share counters; return the slice that has them."""
    # Of an invalid pool elsewhere upstream speaks on every node, because its counters are for all of them.
    own = all(item["spec"].get("nodeName") == "n0" for item in slices)
    for item in slices:
        pool = item["spec"]["pool"]
        pool["resourceSliceCount"], pool["generation"] = len(slices) + 1, 1
        for each in item["spec"]["devices"]:
            if rng.random() < 0.8:
                amounts = {
                    name: {"value": rng.choice(("1", "2", "3", "1500m"))} for name in ("x", "y") if rng.random() < 0.7
                }
                if own and rng.random() < 0.05:
                    amounts["absent"] = {"value": "1"}
                each["consumesCounters"] = [{"counterSet": "set", "counters": amounts}]
    counters = {name: {"value": rng.choice(("2", "4", "6"))} for name in ("x", "y")}
    spec = {
        "driver": slices[0]["spec"]["driver"],
        "pool": slices[0]["spec"]["pool"],
        "sharedCounters": [{"name": "set", "counters": counters}],
        **rng.choice(({"nodeName": "n0"}, {"allNodes": True})),
    }
    return {"metadata": {"name": f"s-{rng.randrange(1000)}-{number}-counters"}, "spec": spec}


def _random_device(rng: random.Random, name: str, per_device: bool) -> Json:
    attributes = {
        "model": {"string": rng.choice(("small", "large"))},
        "numa": {"int": rng.randrange(2)},
        f"{DRIVER}/serial": {"string": rng.choice("abc")},
    }
    device: Json = {
        "name": name,
        "attributes": {key: value for key, value in attributes.items() if rng.random() < 0.95},
        "capacity": {"memory": {"value": rng.choice(("10Gi", "40Gi"))}},
    }
    if per_device:
        device |= rng.choice(
            ({"nodeName": "n0"}, {"nodeName": "n1"}, {"allNodes": True}, {"nodeSelector": _zone("east")})
        )
    if rng.random() < 0.1:
        device["taints"] = [{"key": "t", "value": "v", "effect": rng.choice(("NoSchedule", "NoExecute", "None"))}]
    if rng.random() < 0.05:
        device["bindsToNode"] = True
    if rng.random() < 0.25:
        device["allowMultipleAllocations"] = True
    if rng.random() < 0.1:
        device |= {"bindingConditions": ["attached"], "bindingFailureConditions": ["failed", "gone"]}
    if rng.random() < 0.3:
        device["capacity"]["memory"]["requestPolicy"] = _policy(rng)
    if rng.random() < 0.2:
        device["capacity"]["cores"] = {"value": "4"}
    return device


def _selector(rng: random.Random) -> Json:
    expression = rng.choice(
        (
            f'has(device.attributes["{DRIVER}"].model) && device.attributes["{DRIVER}"].model == "large"',
            f'device.attributes["{DRIVER}"].?numa.orValue(1) == 0',
            f'device.driver == "{DRIVER}"',
            'device.capacity[device.driver].memory.compareTo(quantity("20Gi")) > 0',
            f'device.attributes["{DRIVER}"].numa == 1',
        )
    )
    return {"cel": {"expression": expression}}


def _random_config(rng: random.Random, value: str) -> Json:
    return [{"opaque": {"driver": DRIVER, "parameters": {"from": value}}}] if rng.random() < 0.4 else []


def _random_exact(rng: random.Random) -> Json:
    exact: Json = {
        "deviceClassName": rng.choice(
            ("gpu", "gpu", "large", "large", "large", "gpu", "none")[: 6 + (rng.random() < 0.1)]
        )
    }
    if rng.random() < 0.12:
        exact["allocationMode"] = "All"
    else:
        exact |= {"allocationMode": "ExactCount", "count": rng.choice((1, 1, 1, 2, 2, 3))}
    exact["selectors"] = [_selector(rng)] if rng.random() < 0.3 else []
    if rng.random() < 0.25:
        amount = rng.choice(("512Mi", "1Gi", "1500Mi", "2Gi", "3Gi", "5Gi", "7Gi", "20Gi", "0.5Gi", "3500000000"))
        exact["capacity"] = {"requests": {"memory": amount, **({"cores": "1500m"} if rng.random() < 0.2 else {})}}
    if rng.random() < 0.2:
        exact["tolerations"] = [rng.choice(({"operator": "Exists"}, {"key": "t", "operator": "Equal", "value": "v"}))]
    return exact


def _random_claim(rng: random.Random, number: int) -> Json:
    requests: list[Json] = []
    for index in range(rng.choice((1, 1, 2, 3))):
        if rng.random() < 0.25:
            alternatives = [{"name": f"a{at}", **_random_exact(rng)} for at in range(rng.randrange(1, 4))]
            requests.append({"name": f"r{index}", "firstAvailable": alternatives})
        else:
            exact = _random_exact(rng)
            if rng.random() < 0.08:
                exact["adminAccess"] = True
            requests.append({"name": f"r{index}", "exactly": exact})
    constraints = []
    if rng.random() < 0.3:
        names = [] if rng.random() < 0.5 else [rng.choice(requests)["name"]]
        constraints.append({"requests": names, "matchAttribute": f"{DRIVER}/{rng.choice(('numa', 'model', 'serial'))}"})
    if rng.random() < 0.15 and all(each.get("exactly", {}).get("count") == 1 for each in requests):
        # Of more than one device per request upstream compares the last only.
        constraints.append({"distinctAttribute": f"{DRIVER}/serial"})
    config = []
    if rng.random() < 0.3:
        names = [] if rng.random() < 0.4 else [each["name"] for each in requests if rng.random() < 0.7]
        config.append({"requests": names, "opaque": {"driver": DRIVER, "parameters": {"from": "claim"}}})
    devices = {"requests": requests, "constraints": constraints, "config": config}
    return {"metadata": {"name": f"c{number}", "namespace": "ns", "uid": f"u{number}"}, "spec": {"devices": devices}}
