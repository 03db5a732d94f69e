"""Loads from Prometheus or anything that speaks its query API (Thanos, Mimir, VictoriaMetrics)."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Template
from typing import Any, Final

from msgspec import Struct, structs
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from scheduler.framework import LoadReading, NodeLoad
from scheduler.load.answers import AnswerDecoder, AnswerError, LoadAnswer
from scheduler.load.figures import Rejections, is_usable
from scheduler.load.session import GuardedSession
from scheduler.load.settings import LoadError, LoadSettings, ObjectCount

_CONTAINERS: Final = 'container!="",container!="POD"'
"""Without a pod's own cgroup, which sums its containers up, and without sandboxes."""
_BY_POD: Final = "(namespace, pod)"
_PODS_A_QUERY: Final = 40_000
"""At 250 bytes each, 10 of the 16 MiB that an answer may have: some queries bring more pods than others."""
_LAST_CHARACTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
"""Of the names of pods. Controllers choose them at random, or number their pods."""


@dataclass(frozen=True, slots=True)
class PodUse:
    """What a pod used on average: CPU in milli-units, memory in bytes; NaN where there is no series.

    Attributes:
        at: of the newest sample, seconds since the epoch.
    """

    cpu: float = math.nan
    memory: float = math.nan
    at: float = math.nan


@dataclass(frozen=True, slots=True)
class PodUseAnswer:
    """What pods used.

    Attributes:
        by_pod: by `namespace/name`; pods without a sample of the last minutes are missing.
        left_out: how many samples could not be used, and why; "" for none.
    """

    by_pod: Mapping[str, PodUse]
    left_out: str = ""


class PodSeriesSource:
    """What pods use by the series of cAdvisor, averaged over the same window as the nodes' loads: a metrics server
    tells what a pod used for some seconds, a guess beside a node's average of a quarter of an hour.

    Three instant queries a read, and in a large cluster several of each. Blocking; used by one thread at a time.
    """

    def __init__(
        self, settings: LoadSettings, clock: Callable[[], float] = time.time, object_count: ObjectCount | None = None
    ) -> None:
        """`object_count` is how many pods there are."""
        self._window = settings.window
        self._clock = clock
        self._object_count = object_count
        self._prometheus = PrometheusSource(settings, object_count=object_count)

    def close(self) -> None:
        """Close the session."""
        self._prometheus.close()

    def read(self) -> PodUseAnswer:
        """Return what pods used.

        Raises:
            LoadError: a query was not answered.
        """
        now = self._clock()
        rejections = Rejections()
        cpu, memory, sampled = (
            self._by_pod(function, series, now, rejections)
            for function, series in (
                ("sum", f"rate(container_cpu_usage_seconds_total{{$pods}}[{self._window}])"),
                ("sum", f"avg_over_time(container_memory_working_set_bytes{{$pods}}[{self._window}])"),
                ("max", "timestamp(container_memory_working_set_bytes{$pods})"),
            )
        )
        uses = {
            key: PodUse(1000 * cpu.get(key, math.nan), memory.get(key, math.nan), at) for key, at in sampled.items()
        }
        count, reason = sum(rejections.counts.values()), next(iter(rejections.reasons.values()), "")
        return PodUseAnswer(uses, f"{count} samples are left out, the first as {reason}" if count else "")

    def _by_pod(self, function: str, series: str, at: float, rejections: Rejections) -> dict[str, float]:
        values: dict[str, float] = {}
        for pods in _selectors(0 if self._object_count is None else self._object_count()):
            vector = self._prometheus.ask(f"{function} by {_BY_POD} ({series.replace('$pods', pods)})", at)
            rejections.add(series, vector.reason, vector.rejected)
            for sample in vector.samples:
                namespace, pod = sample.labels.get("namespace"), sample.labels.get("pod")
                if not namespace or not pod:
                    rejections.add(series, "it names no pod")
                elif is_amount(sample.value):
                    values[f"{namespace}/{pod}"] = sample.value
                else:
                    rejections.add(series, f"{sample.value} is no use of a pod")
        return values


def _selectors(pods: int) -> list[str]:
    """Return selectors that have all pods between them, and so many that no answer gets too large."""
    parts = -(-pods // _PODS_A_QUERY)
    if parts <= 1:
        return [_CONTAINERS]
    return [f'{_CONTAINERS},pod=~".*[{_LAST_CHARACTERS[part::parts]}]"' for part in range(parts)]


_STAT = "secondary_scheduler_stat"
_SAMPLE_TIME = "sample_time"
_FIGURES = ("cpu_average", "cpu_stddev", "memory_average", "memory_stddev")
_NUMBER: Final = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?(e[+-][0-9]{2,3})?|NaN|[+-]Inf")


class _Vector(Struct):
    result: list[Any]


class _Answer(Struct):
    data: _Vector


class _Sample(Struct, gc=False):
    metric: dict[str, str]
    value: tuple[float, str]


class VectorSample(Struct, frozen=True, gc=False):
    """A sample of an instant query: its labels, and its value, which may be NaN or infinite."""

    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Vector:
    """The answer to an instant query.

    Attributes:
        samples: of every series.
        rejected: how many samples are not as Prometheus writes them.
        reason: why the first of them is not.
    """

    samples: list[VectorSample]
    rejected: int
    reason: str


def _read(sample: _Sample) -> VectorSample:
    text = sample.value[1]
    if not _NUMBER.fullmatch(text):
        raise AnswerError(f"{text[:40]!r} is not a number as Prometheus writes it")
    return VectorSample(sample.metric, float(text))


_VECTOR: AnswerDecoder[_Answer, VectorSample] = AnswerDecoder(
    _Answer, "data", "result", sample=_Sample, seam=b"]},{", read=_read
)


class PrometheusSource:
    """Four instant queries a read: {cpu, memory} x {average, standard deviation over the window}.

    load-watcher asks 102 a minute and drops all of them when one fails; here a figure that fails is missing and the
    others count; it is an error only when no figure can be read.
    """

    def __init__(
        self, settings: LoadSettings, clock: Callable[[], float] = time.time, object_count: ObjectCount | None = None
    ) -> None:
        """`object_count` is that of `GuardedSession`."""
        self._settings = settings
        self._clock = clock
        self._session = GuardedSession(settings, {"/api/v1/query": _decode}, object_count)
        self._client = PrometheusConnect(url=settings.address.rstrip("/"), session=self._session, retry=Retry(0))

    def describe(self) -> str:
        """`Prometheus ADDRESS`."""
        return f"Prometheus {self._settings.address}"

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def read(self) -> LoadReading:
        """Read all figures; see `LoadSource.read`."""
        window_end = self._clock()
        instances: dict[str, NodeLoad] = {}
        rejections = Rejections()
        failures: list[LoadError] = []
        duplicated: list[str] = []
        for figure in _FIGURES:
            try:
                vector = self.ask(self._expression(figure), window_end)
            except LoadError as error:
                failures.append(error)
                if len(failures) == 1 and figure == _FIGURES[0]:
                    # The source itself is down or refuses us: three more timeouts would add nothing.
                    raise
                continue
            rejections.add(figure, vector.reason, vector.rejected)
            if _merge(instances, figure, vector.samples, self._settings.node_label, rejections):
                duplicated.append(figure)
        if len(failures) == len(_FIGURES):
            raise failures[0]
        # The time of a sample alone is no load.
        instances = {name: load for name, load in instances.items() if _has_figure(load)}
        problems = tuple(str(error) for error in failures)
        if duplicated:
            label = self._settings.node_label
            problems += (
                f"{', '.join(duplicated)}: several series per {label}, of which the largest counts; "
                f"aggregate the query by ({label})",
            )
        if not instances and not problems:
            problems = ("has no series for the queries; do the recording rules exist?",)
        window = self._settings.window
        return LoadReading(
            instances, window_end, rejections.counts, problems, reasons=rejections.reasons, window=window
        )

    def expression(self, figure: str) -> str:
        """Return the query for a figure such as `cpu_average`, with the window filled in."""
        template: str = getattr(self._settings.queries, figure)
        return Template(template).safe_substitute(window=self._settings.window)

    def _expression(self, figure: str) -> str:
        expression = self.expression(figure)
        if figure != _FIGURES[0]:
            return expression
        times = self.expression(_SAMPLE_TIME)
        # One request carries both: `or` keeps the two apart by the label that is put on the second.
        return f'({expression}) or label_replace({times}, "{_STAT}", "{_SAMPLE_TIME}", "", "")'

    def ask(self, expression: str, at: float) -> Vector:
        """Return the answer to an instant query at a time, in seconds since the epoch.

        Raises:
            LoadError: it does not answer, or not with a vector.
        """
        try:
            answer: LoadAnswer[_Answer, VectorSample] = self._client.custom_query(
                expression, params={"time": f"{at:.3f}"}
            )
        except PrometheusApiClientException as error:
            raise LoadError(
                f"{self._settings.address}: query refused: {str(error)[:300]} (query: {expression})"
            ) from error
        return Vector([sample for _, sample in answer.samples], answer.rejected, answer.reason)


def _decode(body: bytes, limit: int) -> Any:
    # prometheus-api-client takes the result out by its keys.
    return {"data": {"result": _VECTOR.decode(body, limit)}}


def _merge(
    instances: dict[str, NodeLoad], figure: str, series: list[VectorSample], node_label: str, rejections: Rejections
) -> bool:
    """Put one figure's series into the instances. Returns whether an instance has several series."""
    has_duplicates = False
    for sample in series:
        labels, value = sample.labels, sample.value
        instance = labels.get(node_label)
        if not instance:
            rejections.add(figure, f"it has no label {node_label}")
            continue
        load = instances.get(instance, NodeLoad())
        is_time = labels.get(_STAT) == _SAMPLE_TIME
        if is_time and is_amount(value):
            newest = value if math.isnan(load.measured_at) else max(value, load.measured_at)
            instances[instance] = structs.replace(load, measured_at=newest)
        elif not is_time and is_usable(value * 100):
            before: float = getattr(load, figure)
            has_duplicates |= not math.isnan(before)
            # Duplicates from a replicated Prometheus differ little; of series that should have been added up, the
            # largest is the least wrong.
            percent = before if before > value * 100 else value * 100
            instances[instance] = structs.replace(load, **{figure: percent})
        else:
            rejections.add(figure, f"{value} of {instance[:80]!r} cannot be a {'time' if is_time else 'load'}")
    return has_duplicates


def is_amount(value: float) -> bool:
    """Return whether a value can be a time or a use: finite, and not negative."""
    return math.isfinite(value) and value >= 0.0


def _has_figure(load: NodeLoad) -> bool:
    return not all(math.isnan(getattr(load, figure)) for figure in _FIGURES)
