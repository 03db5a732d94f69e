"""Loads from a load-watcher: the JSON it serves at `/watcher` (paypal/load-watcher v0.2.4)."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from scheduler.framework import LoadReading, NodeLoad
from scheduler.load.figures import Metric, is_usable, load_of_metrics
from scheduler.load.session import GuardedSession
from scheduler.load.settings import LoadSettings
from scheduler.load.source import LoadError


class WatcherSource:
    """One GET a read. The timestamp of the answer is the sample time of every value: a load-watcher that has stopped
    fetching still serves its last values, and only the timestamp shows it."""

    def __init__(self, settings: LoadSettings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._session = GuardedSession(settings)

    def describe(self) -> str:
        """`load-watcher ADDRESS`."""
        return f"load-watcher {self._settings.address}"

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def read(self) -> LoadReading:
        """Read the answer; see `LoadSource.read`."""
        address = self._settings.address.rstrip("/")
        response = self._session.request("GET", f"{address}/watcher", headers={"Content-Type": "application/json"})
        if response.status_code != 200:
            raise LoadError(
                f"{address}/watcher: HTTP {response.status_code}; a load-watcher answers so while it has no metrics"
            )
        return parse_watcher(response.content, f"{address}/watcher", now=self._clock())


def parse_watcher(body: bytes, origin: str, *, now: float = 0.0) -> LoadReading:
    """Read an answer as leniently as upstream's client, and more: a bare NaN is one missing value, not a broken answer.

    Unknown fields are ignored; absent ones and nulls are 0 or empty. A `window.end` of 0 is read as `now`.

    Raises:
        LoadError: it is not a JSON object, or a field has the wrong type; begins with `origin`.
    """
    try:
        return _parse_regular(body, now)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # Not as a load-watcher writes it: read what can be read, or say which field is wrong.
        return _parse_lenient(body, origin, now)


class _Entry(Struct, gc=False):
    type: str | None = None
    operator: str | None = None
    value: Raw = Raw(b"0")


class _Node(Struct, gc=False):
    metrics: list[_Entry | None] | None = None


class _Data(Struct, gc=False):
    nodes: dict[str, _Node | None] | None = field(name="NodeMetricsMap", default=None)


class _Window(Struct, gc=False):
    start: int | None = None
    end: int | None = None


class _Answer(Struct, gc=False):
    timestamp: int | None = None
    window: _Window | None = None
    data: _Data | None = None


_EXACT_LENGTH = 16
"""Characters of a decimal number up to which its digits and the power of ten are exact, so that both ways agree."""
_decoder = msgspec.json.Decoder(_Answer)
_NO_ENTRY = _Entry()


def _parse_regular(body: bytes, now: float) -> LoadReading:
    """Read an answer whose fields all have their types, which takes half the time for thousands of nodes.

    Raises:
        MsgspecError, ValueError, RecursionError: it is another one.
    """
    answer = _decoder.decode(body)
    end = float(answer.window.end or 0) if answer.window else 0.0
    loads = _Loads(float(answer.timestamp or 0))
    for name, node in ((answer.data and answer.data.nodes) or {}).items():
        entries = (node and node.metrics) or ()
        read = (_NO_ENTRY if entry is None else entry for entry in entries)
        loads.add(name, [Metric(entry.type or "", entry.operator or "", _value(entry.value)) for entry in read])
    return loads.reading(end or now)


def _value(raw: Raw) -> float:
    text = str(raw, "ascii")
    if "." in text:
        return _parse_decimal(text)
    if text == "null":
        return 0.0
    return float(text) if "e" in text or "E" in text else float(int(text))


def _parse_lenient(body: bytes, origin: str, now: float) -> LoadReading:
    try:
        answer = json.loads(body, parse_float=_parse_decimal)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{origin}: not JSON ({str(error)[:100]}); is this a load-watcher?") from error
    try:
        root = _object(answer, "answer")
        window = _object(root.get("window"), "window")
        nodes = _object(_object(root.get("data"), "data").get("NodeMetricsMap"), "data.NodeMetricsMap")
        end = _number(window.get("end"), "window.end") or now
        # Upstream refuses an answer whose start is no number, although nothing reads it.
        _number(window.get("start"), "window.start")
        loads = _Loads(_number(root.get("timestamp"), "timestamp"))
        for name, node in nodes.items():
            loads.add(name, list(_metrics(node, f"data.NodeMetricsMap.{name}")))
    except _WrongTypeError as error:
        raise LoadError(f"{origin}: {error}; is this a load-watcher?") from error
    return loads.reading(end)


class _Loads:
    """The loads of an answer, as they are read."""

    def __init__(self, timestamp: float) -> None:
        self._measured_at = timestamp or math.nan
        self._loads: dict[str, NodeLoad] = {}
        self._rejected = 0

    def add(self, name: str, metrics: Sequence[Metric]) -> None:
        """Take a node's metrics; those that cannot be a load are counted."""
        usable = [metric for metric in metrics if is_usable(metric.value)]
        self._rejected += len(metrics) - len(usable)
        if usable:
            self._loads[name] = load_of_metrics(usable, self._measured_at)

    def reading(self, end: float) -> LoadReading:
        """Return what was taken, for a window with that end."""
        return LoadReading(self._loads, end, {"watcher": self._rejected} if self._rejected else {})


def _parse_decimal(text: str) -> float:
    """A number as upstream's JSON library reads it: all digits as an integer, over a power of ten.

    From 16 digits on that may be one unit in the last place off, which is nothing for a load. But Peaks turns such
    differences into whole scores, which must be upstream's.
    """
    if len(text) <= _EXACT_LENGTH:
        return float(text)
    before, _, after = text.partition(".")
    digits = before + after
    # Beyond 18 digits upstream's integers overflow; those numbers, and exponents, are read as they should be.
    if after.isdigit() and len(digits.lstrip("-")) <= 18:
        return float(int(digits)) / 10.0 ** len(after)
    return float(text)


class _WrongTypeError(Exception):
    pass


def _object(data: Any, field: str) -> Mapping[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise _WrongTypeError(f"{field} is not an object")
    return data


def _number(data: Any, field: str) -> float:
    if data is None:
        return 0.0
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise _WrongTypeError(f"{field} is not a number")
    try:
        number = float(data)
    except OverflowError:
        return math.inf
    return number


def _text(data: Any, field: str) -> str:
    if data is None:
        return ""
    if not isinstance(data, str):
        raise _WrongTypeError(f"{field} is not a string")
    return data


def _metrics(node: Any, field: str) -> Iterator[Metric]:
    entries = _object(node, field).get("metrics")
    if entries is None:
        return
    if not isinstance(entries, list):
        raise _WrongTypeError(f"{field}.metrics is not a list")
    for index, entry in enumerate(entries):
        at = f"{field}.metrics[{index}]"
        metric = _object(entry, at)
        yield Metric(
            _text(metric.get("type"), f"{at}.type"),
            _text(metric.get("operator"), f"{at}.operator"),
            _number(metric.get("value"), f"{at}.value"),
        )
