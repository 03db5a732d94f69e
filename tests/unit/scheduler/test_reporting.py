"""What a scheduler writes on its Lease about its load sources."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.catalog import ANNOTATION_LOAD_FRESH, ANNOTATION_LOAD_MESSAGE
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
    recorder: Any = SimpleNamespace(record=lambda *_: None)
    election: Any = SimpleNamespace(namespace="n", name="lease")
    reporter = Reporter(recorder, election, "mine", lease, lambda: True)
    for each in statuses:
        reporter.report_load(each)
    assert lease.annotations == {ANNOTATION_LOAD_FRESH: fresh, ANNOTATION_LOAD_MESSAGE: message}
