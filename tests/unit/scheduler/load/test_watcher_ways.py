"""A load-watcher's answer is read in one of two ways: both must say the same of what both can read."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.load import LoadError
from scheduler.load.watcher import _parse_lenient, _parse_regular

_NUMBERS = st.one_of(
    st.integers(-5, 200),
    st.floats(-1, 200),
    st.sampled_from([1e5, 1e300, 10**17, 10**30, 0.1, 33.333333333333336, 12.345678901234567]),
)
_VALUES = st.one_of(_NUMBERS, st.sampled_from([None, True, "12", [], {}, float("nan"), float("inf")]))
_WORDS = st.sampled_from(["CPU", "Memory", "AVG", "STD", "Latest", "", None, 3])
_METRICS = st.dictionaries(st.sampled_from(["type", "operator", "value", "name", "more"]), _WORDS, max_size=3)
_ENTRIES = st.one_of(st.none(), st.builds(lambda entry, value: {**entry, "value": value}, _METRICS, _VALUES), _METRICS)
_NODES = st.one_of(
    st.none(), st.fixed_dictionaries({}, optional={"metrics": st.one_of(st.none(), st.lists(_ENTRIES, max_size=6))})
)
_ANSWERS = st.fixed_dictionaries(
    {},
    optional={
        "timestamp": st.one_of(st.none(), st.integers(0, 2**40), st.floats(0, 9), st.just("5")),
        "window": st.one_of(st.none(), st.dictionaries(st.sampled_from(["start", "end", "duration"]), _VALUES)),
        "data": st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {}, optional={"NodeMetricsMap": st.one_of(st.none(), st.dictionaries(st.text(max_size=4), _NODES))}
            ),
        ),
        "source": st.just("x"),
    },
)


@given(_ANSWERS)
def test_both_ways_read_the_same(answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    try:
        regular = _parse_regular(body, 7.0)
    except (msgspec.MsgspecError, ValueError):
        return
    assert repr(regular) == repr(_parse_lenient(body, "w", 7.0))


@given(st.from_regex(rb"\A-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?\Z"))
def test_both_ways_read_a_number_to_the_last_bit(number: bytes) -> None:
    entry = b'{"type":"CPU","operator":"AVG","value":' + number + b"}"
    body = b'{"timestamp":1,"data":{"NodeMetricsMap":{"n":{"metrics":[' + entry + b"]}}}}"
    assert repr(_parse_regular(body, 0.0)) == repr(_parse_lenient(body, "w", 0.0))


def test_the_quick_way_reads_what_a_load_watcher_writes() -> None:
    body = {
        "timestamp": 1000,
        "window": {"duration": "15m", "start": 90, "end": 990},
        "source": "Prometheus",
        "data": {
            "NodeMetricsMap": {
                "n1": {
                    "metrics": [
                        {"name": "a", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": 33.333333333333336},
                        {"name": "a", "type": "CPU", "operator": "STD", "rollup": "15m", "value": 2},
                    ],
                    "tags": {},
                    "metadata": {"dataCenter": ""},
                }
            }
        },
    }
    reading = _parse_regular(json.dumps(body).encode(), 0.0)
    assert reading.loads["n1"].cpu_average == pytest.approx(33.333333333333336)
    assert (reading.loads["n1"].cpu_stddev, reading.loads["n1"].measured_at, reading.window_end) == (2.0, 1000.0, 990.0)


@pytest.mark.parametrize(
    "body",
    [
        b'{"timestamp":1.5}',
        b'{"data":{"NodeMetricsMap":{"n":{"metrics":[{"value":"12"}]}}}}',
        b'{"data":{"NodeMetricsMap":{"n":{"metrics":[{"value":NaN}]}}}}',
        b"[" * 100_000,
    ],
)
def test_the_quick_way_leaves_other_answers_to_the_lenient_one(body: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, ValueError, RecursionError)):
        _parse_regular(body, 0.0)


def test_an_answer_that_neither_way_reads_is_refused_with_its_origin() -> None:
    with pytest.raises(LoadError, match=r"^w: not JSON"):
        _parse_lenient(b"[" * 100_000, "w", 0.0)
