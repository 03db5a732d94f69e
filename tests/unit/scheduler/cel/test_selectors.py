"""Selectors of devices: what they give, what they refuse by name, what they remember, that they end.

The comparison with the Go evaluator is tests/conformance/test_dra.py; these are the answers it gave.
"""

import dataclasses
from collections.abc import Hashable, Mapping

import pytest

from scheduler.cel import CelError, CompiledSelector, CompileError, CostExceeded
from scheduler.kube.model import DeviceAttribute

DRIVER = "gpu.example.com"


@dataclasses.dataclass
class Device:
    attributes: Mapping[str, Hashable]
    quantities: Mapping[str, Hashable]
    driver: str = DRIVER
    shared: bool = False
    reads: int = 0


def gpu(**more: DeviceAttribute) -> Device:
    attributes = {
        "model": DeviceAttribute(string="a100"),
        "count": DeviceAttribute(int_=7),
        "ok": DeviceAttribute(bool_=True),
        "version": DeviceAttribute(version="1.2.3"),
        "other.example.com/model": DeviceAttribute(string="x"),
        **more,
    }
    return Device(attributes, {"memory": "40Gi"})


MINE = f'device.attributes["{DRIVER}"]'
TRUE = [
    f'device.driver == "{DRIVER}"',
    f'{MINE}.model == "a100" && {MINE}["count"] == 7',
    f"{MINE}.ok",
    f'{MINE}.model in ["h100", "a100"]',
    f'{MINE}.model.startsWith("a") && {MINE}.model.endsWith("100") && {MINE}.model.contains("10")',
    f'{MINE}.version.isGreaterThan(semver("1.2.0")) && {MINE}.version.major() == 1',
    f'{MINE}.version == semver("1.2.3+build")',
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40960Mi")) == 0',
    f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("39Gi"))',
    'device.attributes["other.example.com"].model == "x"',
    '!("absent.example.com" in device.attributes) && "other.example.com" in device.attributes',
    '!has(device.attributes["absent.example.com"].model)',
    f'has({MINE}.model) && !has({MINE}.absent) && "model" in {MINE}',
    f'{MINE}.exists(name, name == "count") && {MINE}.all(name, name != "absent")',
    f'cel.bind(mine, {MINE}, mine.count > 5 && mine.model == "a100")',
    f'{MINE}.?absent.orValue("none") == "none" && {MINE}.?model.hasValue()',
    f'{MINE}[?"model"].optMap(m, m + "!").value() == "a100!"',
    "device.allowMultipleAllocations == false",
    "1 + 2 * 3 == 7 && 7 / 2 == 3 && -7 / 2 == -3 && -7 % 3 == -1 && 2.5 * 2.0 == 5.0",
    "1 / 0 == 1 || true",
    "!(false && 1 / 0 == 1)",
    "(1 < 2 ? 'yes' : 'no') == 'yes'",
    "[1, 2, 3].filter(x, x > 1).map(x, x * x) == [4, 9]",
    "[1, 2, 3].all(i, x, x == i + 1) && [1, 2, 2].exists_one(x, x == 1)",
    "{'a': 1, 'b': 2}.transformMap(k, v, v * 2) == {'a': 2, 'b': 4}",
    "{1: 'int', true: 'bool'}[true] == 'bool'",
    "dyn(1) == dyn(1.0) && dyn(1) < dyn(1.5)",
    "dyn(1) != dyn('1') && dyn(true) != dyn(1)",
    "'añ€'.size() == 3 && 'añ€'.charAt(1) == 'ñ'",
    "'a,b,c'.split(',', 2) == ['a', 'b,c'] && ['a', 'b'].join('-') == 'a-b'",
    "'tacocat'.indexOf('c') == 2 && 'tacocat'.lastIndexOf('c') == 4 && 'tacocat'.substring(4) == 'cat'",
    "'AbC'.lowerAscii() == 'abc' && '  x '.trim() == 'x' && 'aaa'.replace('a', 'b', 2) == 'bba'",
    "r'a\\d' == 'a\\\\d' && '\\u00f1' == 'ñ' && \"\"\"a\"b\"\"\" == 'a\"b'",
    "'gpu-12'.matches('^gpu-[0-9]{2}$') && !'gpu-1'.matches('[0-9]{2}') && 'a1b22'.findAll('[0-9]+') == ['1', '22']",
    "sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])",
    "[3, 1, 2].sort() == [1, 2, 3] && [1, 2].sum() == 3 && [1, 2].max() == 2 && [1, 2].isSorted()",
    "[[1], [2, [3]]].flatten() == [1, 2, [3]] && lists.range(3) == [0, 1, 2] && [1, 1].distinct() == [1]",
    "quantity('1k').asInteger() == 1000 && quantity('1').add(2).sub(quantity('1')) == quantity('2')",
    "quantity('1e999999999').isGreaterThan(quantity('1')) && !isQuantity('x') && quantity('-5').sign() == -1",
    "semver('1.0.0-alpha').isLessThan(semver('1.0.0')) && semver('v1.2', true).minor() == 2 && !isSemver('1.2')",
    "int('7') == 7 && string(7) == '7' && double('1.5') == 1.5 && bool('true') && type(1) == int",
    "0x1F == 31 && 2u + 3u == 5u && -9223372036854775808 < 0",
]


@pytest.mark.parametrize("expression", TRUE)
def test_it_is_true(expression):
    selector = CompiledSelector(expression)
    assert selector.matches(gpu()).matches
    assert selector.matches(gpu()) == (True, 0)


@pytest.mark.parametrize("values", ['["1.2.3"]', "[1, 2]", '["1.2.3"].map(x, x)'])
def test_a_version_in_a_list_of_other_values_is_not_there(values):
    """Of a list of constants cel-go says that a version cannot be hashed."""
    assert not CompiledSelector(f"{MINE}.version in {values}").matches(gpu()).matches


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (f"{MINE}.absent == 1", "no such key: absent"),
        (f'device.capacity["{DRIVER}"].absent.isInteger()', "no such key: absent"),
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("-9223372036854775808 - 1 > 0", "integer overflow"),
        ("[1][3] == 1", "index out of bounds: 3"),
        ("dyn(1) < dyn('a')", "no such overload"),
        (f"{MINE}.model > 3", "no such overload"),
        (f"{MINE}.model", "CEL result of type string could not be converted to bool"),
        ("optional.none().value()", "optional.none() dereference"),
        ("'a'.matches('(')", "error parsing regexp: missing ): ("),
        (f"{MINE}.count == 8 || {MINE}.absent", "no such key: absent"),
    ],
)
def test_it_has_no_value(expression, message):
    selector = CompiledSelector(expression)
    for _ in range(2):
        with pytest.raises(CelError) as raised:
            selector.matches(gpu())
        assert str(raised.value) == message


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("frobnicate(1)", "function frobnicate is not supported"),
        ("device.driver.frobnicate()", "function frobnicate is not supported"),
        ("timestamp('2026-01-01T00:00:00Z') == 1", "function timestamp is not supported"),
        ("math.abs(1) == 1", "function math.abs is not supported"),
        ("devices.driver == 'x'", "undeclared reference to 'devices'"),
        ("1 +", "syntax error at character 4: unexpected the end"),
        ("a b", "syntax error at character 3: unexpected 'b'"),
        ("'abc", "syntax error: a string has no end"),
        ("9223372036854775808 > 0", "syntax error at character 1: 9223372036854775808 is no 64-bit number"),
        ("Device{name: 'x'}", "messages cannot be built here"),
        ("(" * 60 + "true" + ")" * 60, "the expression is nested more than 50 deep"),
        ("true" + " " * 20_000, "an expression may have 10240 characters; this one has 20004"),
    ],
)
def test_it_is_refused_by_name(expression, message):
    with pytest.raises(CompileError) as raised:
        CompiledSelector(expression)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(1000000000).size() > 0",
        "[1,2,3,4,5,6,7,8,9].map(a, [1,2,3,4,5,6,7,8,9].map(b, [1,2,3,4,5,6,7,8,9].map(c, "
        "[1,2,3,4,5,6,7,8,9].map(d, [1,2,3,4,5,6,7,8,9].map(e, [1,2,3,4,5,6,7,8,9].map(f, [1,2,3,4,5,6,7,8,9]))))))"
        ".size() > 0 || true",
        "cel.bind(a, 'xxxxxxxxxx', " + "cel.bind(a, a + a + a + a, " * 20 + "a.size() > 0" + ")" * 21,
        "cel.bind(a, [1,1,1,1,1,1,1,1,1,1], " + "cel.bind(a, [a,a,a,a,a,a,a,a,a,a], " * 9 + "a == a" + ")" * 10,
        "('a' + 'b').replace('', 'x').matches('(((a?){30}){30}){5}b')"
        " || lists.range(500000).map(x, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa').exists(x, x.matches('(a*)*b'))",
    ],
)
def test_what_would_run_for_ever_is_given_up(expression):
    with pytest.raises((CostExceeded, CelError)):
        CompiledSelector(expression).matches(gpu())


def test_an_expression_that_python_could_not_follow_is_refused():
    nested = "true"
    for _ in range(40):
        nested = f"({nested}" + " == true" * 20 + ")"
    with pytest.raises((CompileError, CelError), match="nested too deeply"):
        CompiledSelector(nested).matches(gpu())


# What is remembered -------------------------------------------------------------------------------------------------


def test_a_result_is_remembered_by_what_was_read():
    selector = CompiledSelector(f'{MINE}.model == "a100"')
    assert selector.matches(gpu(uuid=DeviceAttribute(string="1"))).steps > 0
    # Another serial number, which the selector does not read.
    assert selector.matches(gpu(uuid=DeviceAttribute(string="2"))) == (True, 0)
    other = gpu(model=DeviceAttribute(string="h100"))
    assert selector.matches(other).steps > 0
    assert selector.matches(other) == (False, 0)


def test_what_is_read_next_may_depend_on_what_was_read():
    selector = CompiledSelector(f'{MINE}.model == "a100" ? {MINE}.count == 7 : {MINE}.ok')
    for count, expected in ((7, True), (8, False)):
        assert selector.matches(gpu(count=DeviceAttribute(int_=count))).matches is expected
    assert not selector.matches(gpu(model=DeviceAttribute(string="x"), ok=DeviceAttribute(bool_=False))).matches
    assert selector.matches(gpu(model=DeviceAttribute(string="x"))).matches
    assert selector.matches(gpu(count=DeviceAttribute(int_=7))) == (True, 0)


def test_true_and_1_are_remembered_apart():
    selector = CompiledSelector(f"{MINE}.count == true")
    assert not selector.matches(gpu(count=DeviceAttribute(int_=1))).matches
    assert selector.matches(gpu(count=DeviceAttribute(bool_=True))).matches


def test_a_look_at_all_attributes_depends_on_all_of_them():
    selector = CompiledSelector(f"{MINE}.size() == 4")
    assert selector.matches(gpu()).matches
    assert not selector.matches(gpu(more=DeviceAttribute(int_=1))).matches


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr("scheduler.cel.device.MAX_RESULTS", 10)
    selector = CompiledSelector(f'{MINE}.uuid != "x"')
    for number in range(100):
        assert selector.matches(gpu(uuid=DeviceAttribute(string=str(number)))).matches
    assert selector._results <= 10
