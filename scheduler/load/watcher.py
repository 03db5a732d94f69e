"""Loads from a load-watcher: the JSON it serves at `/watcher` (paypal/load-watcher v0.2.4)."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import structs

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
        timestamp = _number(root.get("timestamp"), "timestamp")
        rejected = 0
        instances: dict[str, NodeLoad] = {}
        for name, node in nodes.items():
            listed = list(_metrics(node, f"data.NodeMetricsMap.{name}"))
            usable = [metric for metric in listed if is_usable(metric.value)]
            rejected += len(listed) - len(usable)
            if usable:
                instances[name] = structs.replace(load_of_metrics(usable), measured_at=timestamp or math.nan)
    except _WrongTypeError as error:
        raise LoadError(f"{origin}: {error}; is this a load-watcher?") from error
    return LoadReading(instances, end, {"watcher": rejected} if rejected else {})


def _parse_decimal(text: str) -> float:
    """A number as upstream's JSON library reads it: all digits as an integer, over a power of ten.

    From 16 digits on that may be one unit in the last place off, which is nothing for a load. But Peaks turns such
    differences into whole scores, which must be upstream's.
    """
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
