"""Loads from SignalFx (Splunk Observability), asked as load-watcher v0.2.4 asks it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from msgspec import Struct, structs

from scheduler.framework import LoadReading, NodeLoad
from scheduler.load.answers import AnswerDecoder, AnswerError, LoadAnswer
from scheduler.load.figures import Rejections, is_usable
from scheduler.load.session import GuardedSession
from scheduler.load.settings import LoadError, LoadSettings, ObjectCount

_SERIES = (("cpu_average", "cpu.utilization"), ("memory_average", "memory.utilization"))
_MAX_SERIES = 10_000
_POINTS_PATH = "/v1/timeserieswindow"
_NAMES_PATH = "/v2/metrictimeseries"


class _SignalFxData(Struct):
    data: dict[str, Any]


class _Results(Struct):
    results: list[Any]


class _Dimensions(Struct, gc=False):
    host: str


class _SignalFxSeries(Struct, gc=False):
    id: str
    dimensions: _Dimensions


Points = list[tuple[float, float]]
"""Milliseconds since the epoch, and values."""


class Mean(NamedTuple):
    """The mean of points, and the time of the newest in seconds since the epoch."""

    value: float
    at: float


def _mean(points: Points) -> Mean:
    if not points:
        raise AnswerError("no points")
    return Mean(sum(value for _, value in points) / len(points), max(at for at, _ in points) / 1000.0)


_POINTS: AnswerDecoder[_SignalFxData, Mean] = AnswerDecoder(
    _SignalFxData, "data", sample=Points, seam=b']],"', read=_mean, keyed=True
)
_NAMES: AnswerDecoder[_Results, _SignalFxSeries] = AnswerDecoder(
    _Results, "results", sample=_SignalFxSeries, seam=b"},{"
)


class SignalFxSource:
    """Four requests a read: points and names of series, for CPU and for memory. There is no deviation.

    The host's name up to its first dot names the node. If one figure cannot be read, the other still counts.
    """

    def __init__(
        self,
        settings: LoadSettings,
        window_seconds: float,
        clock: Callable[[], float] = time.time,
        object_count: ObjectCount | None = None,
    ) -> None:
        """`object_count` is that of `GuardedSession`."""
        self._settings = settings
        self._window = window_seconds
        self._clock = clock
        self._session = GuardedSession(
            settings, {_POINTS_PATH: _POINTS.decode, _NAMES_PATH: _NAMES.decode}, object_count
        )

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
        rejections = Rejections()
        problems: list[str] = []
        for figure, metric in _SERIES:
            try:
                self._read_figure(instances, figure, metric, end, rejections)
            except LoadError as error:
                if figure == _SERIES[0][0]:
                    raise
                problems.append(str(error))
        counts, reasons = rejections.counts, rejections.reasons
        window = self._settings.window
        return LoadReading(instances, float(end), counts, tuple(problems), reasons=reasons, window=window)

    def _read_figure(
        self, instances: dict[str, NodeLoad], figure: str, metric: str, end: int, rejections: Rejections
    ) -> None:
        settings = self._settings
        query = f'host:*{settings.host_suffix} AND cluster:{settings.cluster} AND sf_metric:"{metric}"'
        start = end - int(self._window)
        window: dict[str, str | int] = {"query": query, "startMs": start * 1000, "endMs": end * 1000}
        window["resolution"] = 60_000
        points: LoadAnswer[_SignalFxData, Mean] = self._get(_POINTS_PATH, window)
        names: LoadAnswer[_Results, _SignalFxSeries] = self._get(_NAMES_PATH, {"query": query, "limit": _MAX_SERIES})
        for answer in (points, names):
            rejections.add(metric, answer.reason, answer.rejected)
        by_id = dict(points.samples)
        for _, series in names.samples:
            host = series.dimensions.host.partition(".")[0]
            if not host or series.id not in by_id:
                continue
            mean, at = by_id[series.id]
            if is_usable(mean):
                load = instances.get(host, NodeLoad())
                # The older of the two figures is the age of both.
                measured_at = at if math.isnan(load.measured_at) else min(at, load.measured_at)
                instances[host] = structs.replace(load, measured_at=measured_at, **{figure: mean})
            else:
                rejections.add(metric, f"{mean} of {host[:80]!r} cannot be a load")

    def _get(self, path: str, parameters: Mapping[str, str | int]) -> Any:
        address = self._settings.address.rstrip("/")
        headers = {"Content-Type": "application/json"}
        response = self._session.request("GET", f"{address}{path}?{urlencode(parameters)}", headers=headers)
        if response.status_code != 200:
            raise LoadError(f"{address}{path}: HTTP {response.status_code}")
        return response.json()
