"""What a scheduler writes on its Lease about its load sources, and in its log about watches that fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.catalog import ANNOTATION_LOAD_FRESH, ANNOTATION_LOAD_MESSAGE
from scheduler.kube.client import ConnectionFailed, ReflectorState
from scheduler.load import LoadStatus
from scheduler.reporting import Reporter


class FakeLease:
    """Keeps the annotations."""

    def __init__(self) -> None:
        self.annotations: dict[str, str | None] = {}

    def set_annotation(self, key: str, value: str | None) -> None:
        self.annotations[key] = value


def status(source: str, message: str = "", *, fresh: bool = True) -> LoadStatus:
    return LoadStatus(source, fresh, message, 10.0, int(bool(message)))


def reporter_on(lease: Any) -> Reporter:
    recorder: Any = SimpleNamespace(record=lambda *_: None)
    election: Any = SimpleNamespace(namespace="n", name="lease")
    return Reporter(recorder, election, "mine", lease, lambda: True)


def watch(error: str = "", *, refusal: bool = False, **state: bool) -> Any:
    """A reflector as it is between two attempts, or while it watches."""
    failure = ConnectionFailed(error) if error else None
    return SimpleNamespace(state=ReflectorState(error=failure, **state), refusal=failure if refusal else None)


def said(*reports: dict[str, Any]) -> list[str]:
    """What the log says after these reports, one after the other."""
    reporter = reporter_on(FakeLease())
    with capture_logs() as lines:
        for reflectors in reports:
            reporter.report_failing(reflectors)
    return [f"{line['event'].partition(':')[0]} {line.get('resources', '')} {line.get('reason', '')}" for line in lines]


def test_watches_that_fail_from_one_report_to_the_next_are_said_once_and_so_is_their_end() -> None:
    well = {"pods": watch(watching=True), "nodes": watch(watching=True)}
    blind = {"pods": watch("429"), "nodes": watch("429, too")}
    assert said(well, blind, well) == [], "it has happened between two reports, and is over"
    lines = ["watches fail nodes, pods 429, too"]
    assert said(blind, blind, blind) == lines
    assert said(blind, blind, blind | {"pods": watch(watching=True)}) == lines, "some still fail"
    assert said(blind, blind, well, well) == [*lines, "watches work again  "]


@pytest.mark.parametrize("state", [{"absent": True}, {"unread": True}, {"refusal": True}, {"watching": True}])
def test_a_watch_that_is_refused_absent_or_open_does_not_count_as_failing(state: dict[str, bool]) -> None:
    reflectors = {"pods": watch("why", **state)}
    assert said(reflectors, reflectors) == []


CASES = [
    ((status("a"), status("b")), "true", ""),
    ((status("a"), status("b", "b: refused")), "true", "b: refused"),
    ((status("a", "a: refused"), status("b", "b: too old", fresh=False)), "false", "b: too old"),
    ((status("a", "a: refused"), status("a")), "true", ""),
]


@pytest.mark.parametrize(("statuses", "fresh", "message"), CASES)
def test_the_lease_says_whether_all_are_fresh_and_what_goes_wrong_first(
    statuses: tuple[LoadStatus, ...], fresh: str, message: str
) -> None:
    lease: Any = FakeLease()
    reporter = reporter_on(lease)
    for each in statuses:
        reporter.report_load(each)
    assert lease.annotations == {ANNOTATION_LOAD_FRESH: fresh, ANNOTATION_LOAD_MESSAGE: message}
