"""The history of decisions on its way to the next leader: what arrives, and what is refused."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from scheduler.core import decide
from scheduler.engine.decisions import DecisionHistory, HistoryLimits
from scheduler.engine.handedover import HandedOver, HistoryError, decode_history, encode_history
from scheduler.framework import Clocks, MonotonicSeconds, conclude
from tests.support.clock import Clock
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner

PROFILE = runner()
SNAPSHOT = cluster(node("n0"), node("n1")).snapshot(NOW)
START = 1_000.0


def history(now: float, *names: str, records: int = 100, most_bytes: int = 1 << 20) -> DecisionHistory:
    clocks = Clocks(Clock(now, step=1.0), lambda: MonotonicSeconds(NOW))
    recorded = DecisionHistory(HistoryLimits(records, most_bytes, detail_share=1.0), clocks)
    for name in names:
        info = pod(name, container("900" if name.startswith("big") else "1"), namespace="ns", uid=name)
        recorded.decided(SNAPSHOT, conclude(decide(SNAPSHOT, info, PROFILE, random.Random(0))), PROFILE)
    return recorded


def handed(before: DecisionHistory, now: float = START + 100, most: int = 100) -> HandedOver:
    return decode_history(before.export(), now, most)


def items(of: DecisionHistory) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = json.loads(msgspec.json.encode(of.show()))["items"]
    return shown


def test_the_next_leader_shows_what_the_one_before_remembers_before_its_own() -> None:
    before, after = history(START, "a", "big"), history(START + 50, "c")
    expected = items(before)
    after.inherit(handed(before), "s-1")
    inherited = items(after)
    assert [item["pod"] for item in inherited] == ["ns/c", "ns/big", "ns/a"]
    assert inherited[1:] == [{**item, "decidedBy": "s-1"} for item in expected]
    covered = after.coverage()
    assert (covered.since, covered.inherited_from) == (before.coverage().since, "s-1")
    # The one after that hears who decided first.
    third = history(START + 60)
    third.inherit(handed(after), "s-2")
    assert [item["decidedBy"] for item in items(third)] == ["s-2", "s-1", "s-1"]


def test_what_is_inherited_is_dropped_before_what_is_ones_own_and_within_the_same_limits() -> None:
    after = history(START + 50, "c", records=2)
    after.inherit(handed(history(START, "a", "b")), "s-1")
    assert [item["pod"] for item in items(after)] == ["ns/c", "ns/b"]
    assert after.coverage().since == "1970-01-01T00:16:42Z", "a, the second after the start, is gone"
    small = history(START + 50, "c", most_bytes=3000)
    small.inherit(handed(history(START, *(f"p{number}" for number in range(20)))), "s-1")
    assert small.size <= 3000
    assert items(small)[0]["pod"] == "ns/c"


def test_an_inherited_attempt_is_not_taken_for_one_that_is_under_way() -> None:
    after = history(START + 50)
    after.inherit(handed(history(START, "a")), "s-1")
    after.not_tried("a")
    assert [item["result"] for item in items(after)] == ["binding"]


def test_a_large_history_is_cut_and_says_since_when_it_is_whole() -> None:
    before = history(START, "a", "b", "c")
    cut = decode_history(encode_history(reversed(before._records.values()), START, 3000), START + 100, 100)
    whole = handed(before)
    assert 0 < len(cut.records) < 3
    assert [record.name for record in cut.records] == [record.name for record in whole.records][-len(cut.records) :]
    assert cut.since == whole.records[2 - len(cut.records)].at
    newest = handed(before, most=1)
    assert [record.name for record in newest.records] == ["c"]
    assert newest.since == newest.records[0].at


@pytest.mark.parametrize(
    "change",
    [
        {"name": "n" * 300},
        {"message": "m" * 3000},
        {"result": "lost"},
        {"victims": [["a", "b"]] * 30},
        {"rejectors": ["p"] * 200},
        {"at": "yesterday"},
        {"number": None},
    ],
)
def test_a_record_that_no_leader_writes_is_left_out(change: dict[str, Any]) -> None:
    document = json.loads(history(START, "a", "b").export())
    document["records"][0].update(change)
    arrived = decode_history(json.dumps(document).encode(), START + 100, 100)
    assert ([record.name for record in arrived.records], arrived.refused) == (["a"], 1)


@pytest.mark.parametrize("details", ["bm90IEpTT04=", "e30=", "W10="])
def test_details_in_another_form_are_left_out_and_the_decision_stays(details: str) -> None:
    document = json.loads(history(START, "a").export())
    document["records"][0]["details"] = details
    (record,) = decode_history(json.dumps(document).encode(), START + 100, 100).records
    assert (record.name, record.details) == ("a", None)


def test_no_time_lies_in_the_future() -> None:
    arrived = handed(history(START, "a"), now=5.0)
    assert (arrived.since, arrived.records[0].at) == (5.0, 5.0)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"{}", b"[" * 100_000, b'{"apiVersion":"v1","kind":"Pod","since":0,"records":[]}', b"\xff"]
)
def test_what_is_no_history_is_refused(body: bytes) -> None:
    with pytest.raises(HistoryError, match="not a history"):
        decode_history(body, START, 100)
