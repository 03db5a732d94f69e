"""The log of rows that changed: what came after a position, how far it reaches back, and what it forgets."""

import pytest

from scheduler.state import table
from scheduler.state.table import RowLog
from tests.unit.scheduler.core.builders import NOW, cluster, node


def test_a_reader_gets_what_came_after_its_position() -> None:
    log = RowLog()
    for row in (3, 1, 3):
        log.add(row)
    assert log.end == 3
    rows = log.since(1)
    assert rows is not None
    assert rows.tolist() == [1, 3]
    assert log.since(3) is not None


def test_a_full_log_forgets_its_older_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_CAPACITY", 128)
    log = RowLog()
    for row in range(300):
        log.add(row)
    assert log.end == 300
    assert log.since(log.start - 1) is None
    rows = log.since(log.start)
    assert rows is not None
    assert rows.tolist() == list(range(log.start, 300))
    assert 300 - log.start >= 64


@pytest.mark.parametrize("number", [3, 40, 64, 65, 200])
@pytest.mark.parametrize("before", [0, 60, 64, 127, 130])
def test_many_rows_at_once_are_read_as_if_added_one_by_one(
    before: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "_CAPACITY", 128)
    log = RowLog()
    for row in range(before):
        log.add(row)
    log.extend(range(before, before + number))
    log.add(before + number)
    assert log.end == before + number + 1
    assert log.since(log.start - 1) is None or log.start == 0
    rows = log.since(log.start)
    assert rows is not None
    assert rows.tolist() == list(range(log.start, log.end))
    assert (log.since(before) is not None) is (number <= 64)


def test_after_forgetting_every_earlier_reader_is_told_to_look_at_everything() -> None:
    log = RowLog()
    log.add(1)
    log.forget()
    assert log.since(1) is None
    rows = log.since(log.end)
    assert rows is not None
    assert not len(rows)


def test_a_node_that_is_cordoned_is_seen_so_before_its_taint_comes() -> None:
    state = cluster(node("n0"), node("n1"))
    before = state.generation
    state.upsert_node(node("n1", unschedulable=True))
    assert state.snapshot(NOW).unschedulable.tolist() == [False, True]
    assert state.table.changed_since(before) == {1}


def test_where_an_image_is_follows_the_nodes() -> None:
    state = cluster(node("n0", images={"a:1": 5, "b:1": 7}), node("n1", images={"a:1": 5}))
    assert [state.snapshot(NOW).image(name) is not None for name in ("a:1", "b:1", "c:1")] == [True, True, False]
    state.upsert_node(node("n1", images={"b:1": 7, "c:1": 9}))
    columns = {name: state.snapshot(NOW).image(name) for name in ("a:1", "b:1", "c:1")}
    assert {name: column.present.tolist() for name, column in columns.items() if column is not None} == {
        "a:1": [True, False],
        "b:1": [True, True],
        "c:1": [False, True],
    }
