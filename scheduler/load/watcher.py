"""Loads from a load-watcher: the JSON it serves at `/watcher` (paypal/load-watcher v0.2.4)."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Raw, Struct, field

from scheduler.framework import LoadReading
from scheduler.load.answers import MAX_BYTES, AnswerDecoder, AnswerError
from scheduler.load.figures import Metric, Rejections, is_usable, load_of_metrics
from scheduler.load.session import GuardedSession
from scheduler.load.settings import LoadError, LoadSettings, ObjectCount

WATCHER_PATH = "/watcher"
_QUERY = "watcher"


class _Metric(Struct, gc=False):
    type: str | None = None
    operator: str | None = None
    value: Raw = Raw(b"0")


class _WatcherNode(Struct, gc=False):
    metrics: list[_Metric | None] | None = None


class _WatcherData(Struct):
    nodes: dict[str, Any] | None = field(name="NodeMetricsMap", default=None)


_DURATION = re.compile(r"([0-9]{1,9}(ms|[smhdwy])){1,7}")


class Window(Struct):
    """An averaging window; times in seconds since the epoch."""

    duration: str | None = None
    start: float | None = None
    end: float | None = None

    @property
    def shown(self) -> str:
        """The duration, where it is one: an answer may hold any text."""
        return self.duration if self.duration and _DURATION.fullmatch(self.duration) else ""


class _Rest(Struct):
    timestamp: float | None = None
    window: Window | None = None
    source: str | None = None
    data: _WatcherData | None = None


_NODE: AnswerDecoder[_WatcherNode | None, _Metric | None] = AnswerDecoder(
    _WatcherNode | None, "metrics", sample=_Metric | None, seam=b"},{"
)
_WATCHER: AnswerDecoder[_Rest, _WatcherNode | None] = AnswerDecoder(
    _Rest, "data", "NodeMetricsMap", sample=_WatcherNode | None, seam=b'}},"', inner=_NODE, keyed=True
)
_NO_METRIC = _Metric()
_EXACT_LENGTH = 16
"""Characters of a decimal number up to which its digits and the power of ten are exact, so that both ways agree."""


@dataclass(frozen=True, slots=True)
class WatcherAnswer:
    """What a load-watcher answers.

    Attributes:
        timestamp: when it fetched the metrics, seconds since the epoch; 0: it does not say.
        window: what they are averaged over.
        source: where it has them from.
        metrics: those that can be a load, by node.
        rejections: what is left out.
    """

    timestamp: float
    window: Window
    source: str
    metrics: Mapping[str, Sequence[Metric]]
    rejections: Rejections

    def reading(self, now: float) -> LoadReading:
        """Return the loads. A window without an end ends `now`."""
        measured_at = self.timestamp or math.nan
        loads = {name: load_of_metrics(metrics, measured_at) for name, metrics in self.metrics.items()}
        counts, reasons = self.rejections.counts, self.rejections.reasons
        return LoadReading(loads, self.window.end or now, counts, reasons=reasons, window=self.window.shown)


class WatcherSource:
    """One GET a read. The timestamp of the answer is the sample time of every value: a load-watcher that has stopped
    fetching still serves its last values, and only the timestamp shows it."""

    def __init__(
        self, settings: LoadSettings, clock: Callable[[], float] = time.time, object_count: ObjectCount | None = None
    ) -> None:
        """`object_count` is that of `GuardedSession`."""
        self._settings = settings
        self._clock = clock
        self._session = GuardedSession(settings, {WATCHER_PATH: _decode}, object_count)

    def describe(self) -> str:
        """`load-watcher ADDRESS`."""
        return f"load-watcher {self._settings.address}"

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def read(self) -> LoadReading:
        """Read the answer; see `LoadSource.read`."""
        return self.ask().reading(self._clock())

    def ask(self) -> WatcherAnswer:
        """Return the answer as it is.

        Raises:
            LoadError: there is none, or it is not that of a load-watcher.
        """
        url = f"{self._settings.address.rstrip('/')}{WATCHER_PATH}"
        response = self._session.request("GET", url, headers={"Content-Type": "application/json"})
        if response.status_code != 200:
            raise LoadError(f"{url}: HTTP {response.status_code}; a load-watcher answers so while it has no metrics")
        answer: WatcherAnswer = response.json()
        return answer


def parse_watcher(body: bytes, origin: str, *, now: float = 0.0) -> LoadReading:
    """Read an answer as upstream's client does, but what is wrong in a metric costs that metric only.

    Unknown fields are ignored; absent ones and nulls are 0 or empty. A `window.end` of 0 is read as `now`.

    Raises:
        LoadError: it is not a JSON object, or a field outside the metrics has the wrong type; begins with `origin`.
    """
    try:
        return _decode(body, max(len(body), MAX_BYTES)).reading(now)
    except AnswerError as error:
        raise LoadError(f"{origin}: not what a load-watcher answers: {error}") from error


def _decode(body: bytes, limit: int) -> WatcherAnswer:
    answer = _WATCHER.decode(body, limit)
    rejections = Rejections()
    rejections.add(_QUERY, answer.reason, answer.rejected)
    nodes: dict[str, list[Metric]] = {}
    for name, node in answer.samples:
        metrics = []
        for entry in (node and node.metrics) or ():
            read = entry or _NO_METRIC
            value = _value(str(read.value, "ascii", "replace"))
            if is_usable(value):
                metrics.append(Metric(read.type or "", read.operator or "", value))
            else:
                rejections.add(_QUERY, f"{bytes(read.value)[:40]!r} of {name[:80]!r} cannot be a load")
        if metrics:
            nodes[name] = metrics
    rest = answer.rest
    return WatcherAnswer(rest.timestamp or 0.0, rest.window or Window(), rest.source or "", nodes, rejections)


def _value(text: str) -> float:
    """Return what a value of JSON is; NaN where it is no number."""
    if text[0] in "-0123456789":
        return float(text) if len(text) <= _EXACT_LENGTH else _long_number(text)
    return 0.0 if text == "null" else math.nan


def _long_number(text: str) -> float:
    """Read a number of JSON as upstream's library does: all its digits as an integer, over a power of ten.

    From 16 digits on that may be one unit in the last place off, which is nothing for a load. But Peaks turns such
    differences into whole scores, which must be upstream's.
    """
    before, _, after = text.partition(".")
    digits = before + after
    # Beyond 18 digits upstream's integers overflow; those numbers, and exponents, are read as they should be.
    if after.isdigit() and len(digits.lstrip("-")) <= 18:
        return float(int(digits)) / 10.0 ** len(after)
    return float(text)
