"""Loads from SignalFx (Splunk Observability), asked as load-watcher v0.2.4 asks it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from msgspec import structs

from scheduler.framework import LoadReading, NodeLoad
from scheduler.load.figures import is_usable
from scheduler.load.session import GuardedSession
from scheduler.load.settings import LoadSettings
from scheduler.load.source import LoadError

DEFAULT_ADDRESS = "https://api.signalfx.com"
_SERIES = (("cpu_average", "cpu.utilization"), ("memory_average", "memory.utilization"))
_MAX_SERIES = 10_000


class SignalFxSource:
    """Four requests a read: points and names of series, for CPU and for memory. There is no deviation.

    The host's name up to its first dot names the node. If one figure cannot be read, the other still counts.
    """

    def __init__(self, settings: LoadSettings, window_seconds: float, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._window = window_seconds
        self._clock = clock
        self._session = GuardedSession(settings)

    def describe(self) -> str:
        """`SignalFx ADDRESS`."""
        return f"SignalFx {self._settings.address}"

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def read(self) -> LoadReading:
        """Read both figures; see `LoadSource.read`."""
        if not (self._settings.token or self._settings.token_file):
            raise LoadError(f"{self.describe()}: it needs a token; give a token file")
        end = int(self._clock())
        instances: dict[str, NodeLoad] = {}
        rejected: dict[str, int] = {}
        problems: list[str] = []
        for figure, metric in _SERIES:
            try:
                count = self._read_figure(instances, figure, metric, end)
            except LoadError as error:
                if figure == _SERIES[0][0]:
                    raise
                problems.append(str(error))
                continue
            if count:
                rejected[metric] = count
        return LoadReading(instances, float(end), rejected, tuple(problems))

    def _read_figure(self, instances: dict[str, NodeLoad], figure: str, metric: str, end: int) -> int:
        settings = self._settings
        query = f'host:*{settings.host_suffix} AND cluster:{settings.cluster} AND sf_metric:"{metric}"'
        start = end - int(self._window)
        window: dict[str, str | int] = {"query": query, "startMs": start * 1000, "endMs": end * 1000}
        window["resolution"] = 60_000
        points = self._get("/v1/timeserieswindow", window).get("data")
        names = self._get("/v2/metrictimeseries", {"query": query, "limit": _MAX_SERIES}).get("results")
        if not isinstance(points, dict) or not isinstance(names, list):
            raise LoadError(f"{settings.address}: the answer has no data or no results; is this SignalFx?")
        rejected = 0
        for entry in names:
            identity, host = _identity(entry)
            if host is None or identity not in points:
                continue
            mean, at = _mean(points[identity])
            if is_usable(mean):
                load = instances.get(host, NodeLoad())
                # The older of the two figures is the age of both.
                measured_at = at if math.isnan(load.measured_at) else min(at, load.measured_at)
                instances[host] = structs.replace(load, measured_at=measured_at, **{figure: mean})
            else:
                rejected += 1
        return rejected

    def _get(self, path: str, parameters: Mapping[str, str | int]) -> Mapping[str, Any]:
        address = self._settings.address.rstrip("/")
        headers = {"Content-Type": "application/json"}
        response = self._session.request("GET", f"{address}{path}?{urlencode(parameters)}", headers=headers)
        if response.status_code != 200:
            raise LoadError(f"{address}{path}: HTTP {response.status_code}")
        try:
            data = json.loads(response.content)
        except (ValueError, RecursionError) as error:
            raise LoadError(f"{address}{path}: the answer is not JSON") from error
        if not isinstance(data, dict):
            raise LoadError(f"{address}{path}: the answer is not an object; is this SignalFx?")
        return data


def _identity(entry: Any) -> tuple[str, str | None]:
    """Return a series' id and the short name of its host, None where it has none."""
    if not isinstance(entry, dict) or not isinstance(entry.get("dimensions"), dict):
        return "", None
    host = entry["dimensions"].get("host")
    if not isinstance(host, str) or not host:
        return "", None
    return str(entry.get("id")), host.partition(".")[0]


def _mean(points: Any) -> tuple[float, float]:
    """Return the mean of `[milliseconds, value]` points and the time of the newest; NaN where there is none."""
    try:
        values = [(float(point[0]), float(point[1])) for point in points]
    except (TypeError, ValueError, IndexError, KeyError):
        return math.nan, math.nan
    if not values:
        return math.nan, math.nan
    return sum(value for _, value in values) / len(values), max(at for at, _ in values) / 1000.0
