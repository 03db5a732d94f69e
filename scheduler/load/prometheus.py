"""Loads from Prometheus or anything that speaks its query API (Thanos, Mimir, VictoriaMetrics)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from string import Template
from typing import Any

from msgspec import structs
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from scheduler.framework import LoadReading, NodeLoad
from scheduler.load.figures import is_usable
from scheduler.load.session import GuardedSession
from scheduler.load.settings import LoadSettings
from scheduler.load.source import LoadError

_STAT = "secondary_scheduler_stat"
_SAMPLE_TIME = "sample_time"
_FIGURES = ("cpu_average", "cpu_stddev", "memory_average", "memory_stddev")


class PrometheusSource:
    """Four instant queries a read: {cpu, memory} x {average, standard deviation over the window}.

    load-watcher asks 102 a minute and drops all of them when one fails; here a figure that fails is missing and the
    others count; it is an error only when no figure can be read.
    """

    def __init__(self, settings: LoadSettings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._session = GuardedSession(settings)
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
        rejected: dict[str, int] = {}
        failures: list[LoadError] = []
        duplicated: list[str] = []
        for figure in _FIGURES:
            try:
                series = self.ask(self._expression(figure), window_end)
            except LoadError as error:
                failures.append(error)
                if len(failures) == 1 and figure == _FIGURES[0]:
                    # The source itself is down or refuses us: three more timeouts would add nothing.
                    raise
                continue
            rejected[figure], has_duplicates = _merge(instances, figure, series, self._settings.node_label)
            if has_duplicates:
                duplicated.append(figure)
        if len(failures) == len(_FIGURES):
            raise failures[0]
        # The time of a sample alone is no load.
        instances = {name: load for name, load in instances.items() if _has_figure(load)}
        counted = {name: count for name, count in rejected.items() if count}
        problems = tuple(str(error) for error in failures)
        if duplicated:
            label = self._settings.node_label
            problems += (
                f"{', '.join(duplicated)}: several series per {label}, of which the largest counts; "
                f"aggregate the query by ({label})",
            )
        if not instances and not problems:
            problems = ("has no series for the queries; do the recording rules exist?",)
        return LoadReading(instances, window_end, counted, problems)

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

    def ask(self, expression: str, at: float) -> list[Mapping[str, Any]]:
        """Return the samples of an instant query at a time, as Prometheus writes them.

        Raises:
            LoadError: it does not answer, or not with a vector.
        """
        try:
            result = self._client.custom_query(expression, params={"time": f"{at:.3f}"})
        except PrometheusApiClientException as error:
            raise LoadError(
                f"{self._settings.address}: query refused: {str(error)[:300]} (query: {expression})"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise LoadError(
                f"{self._settings.address}: answer is not a Prometheus query result (query: {expression})"
            ) from error
        if not isinstance(result, list):
            raise LoadError(f"{self._settings.address}: query yields no vector (query: {expression})")
        return result


def _merge(
    instances: dict[str, NodeLoad], figure: str, series: list[Mapping[str, Any]], node_label: str
) -> tuple[int, bool]:
    """Put one figure's series into the instances.

    Returns how many values were unusable, and whether an instance has several series.
    """
    rejected, has_duplicates = 0, False
    for sample in series:
        labels, value = sample.get("metric") or {}, sample_value(sample.get("value"))
        instance = labels.get(node_label)
        if not instance or value is None:
            rejected += 1
            continue
        load = instances.get(instance, NodeLoad())
        if labels.get(_STAT) == _SAMPLE_TIME:
            newest = value if math.isnan(load.measured_at) else max(value, load.measured_at)
            instances[instance] = structs.replace(load, measured_at=newest)
        elif is_usable(value * 100):
            before: float = getattr(load, figure)
            has_duplicates |= not math.isnan(before)
            # Duplicates from a replicated Prometheus differ little; of series that should have been added up, the
            # largest is the least wrong.
            percent = before if before > value * 100 else value * 100
            instances[instance] = structs.replace(load, **{figure: percent})
        else:
            rejected += 1
    return rejected, has_duplicates


def _has_figure(load: NodeLoad) -> bool:
    return not all(math.isnan(getattr(load, figure)) for figure in _FIGURES)


def sample_value(value: Any) -> float | None:
    """Return the number of a `[time, "value"]` pair; None where it is not finite or below zero."""
    try:
        number = float(value[1])
    except (TypeError, ValueError, IndexError, KeyError):
        return None
    return number if math.isfinite(number) and number >= 0 else None
