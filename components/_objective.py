"""The objective, without pulumi: nearly all pods are bound within 5 s. The rules that record it, and its alert."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._alert_rules import Alert

OBJECTIVE = 0.99
"""Share of the pods placed at the first attempt that is to be bound within 5 s."""
BY_NAMESPACE = "namespace_job_pod_namespace:secondary_scheduler_pods_bound_in_time:ratio_rate1h"
_WINDOWS = ("5m", "30m", "1h", "6h")


def recording_rules(job: str, namespace: str) -> Iterator[dict[str, Any]]:
    """Yield the rules that record the share of pods that are bound in time: of the scheduler for the windows of the
    alert, and of each namespace of pods.

    The scheduler answers for pods that it places at the first attempt; one that found no room waits for the cluster.
    By namespace all pods count, as their owners see it.
    """
    selected = f'job="{job}",namespace="{namespace}"'
    for window in _WINDOWS:
        yield {"record": _in_time(window), "expr": _share_in_time(f'{selected},attempt="first"', window, "")}
    yield {"record": BY_NAMESPACE, "expr": _share_in_time(selected, "1h", ", pod_namespace")}


def _in_time(window: str) -> str:
    return f"namespace_job:secondary_scheduler_pods_bound_in_time:ratio_rate{window}"


def _share_in_time(selected: str, window: str, by: str) -> str:
    bound = f"sum by (namespace, job{by}) (rate(secondary_scheduler_pods_bound_total{{{selected}"
    every = f"{bound}}}[{window}]))"
    return f'({bound},late="false"}}[{window}])) or 0 * {every}) / {every}'


def objective_alert(job: str, namespace: str) -> Alert:
    """Whether the objective is missed so fast that it matters: by two pairs of windows, as SREs do."""
    selected = f'job="{job}",namespace="{namespace}"'

    def burns(fast: str, slow: str, rate: float) -> str:
        bound = f"{1 - rate * (1 - OBJECTIVE):g}"
        return f"({_in_time(slow)}{{{selected}}} < {bound} and {_in_time(fast)}{{{selected}}} < {bound})"

    pods = f'increase(secondary_scheduler_pods_bound_total{{{selected},attempt="first"}}[1h])'
    return Alert(
        name="SecondarySchedulerPodsBoundLate",
        expression=(
            f"({burns('5m', '1h', 14.4)} or {burns('30m', '6h', 6)})"
            f" and on (namespace, job) sum by (namespace, job) ({pods}) > 20"
        ),
        lasting="2m",
        severity="warning",
        summary="Pods get their node late: fewer than the objective allows are bound within 5 s.",
        description="Only {{ $value | humanizePercentage }} of the pods that job {{ $labels.job }} in namespace"
        " {{ $labels.namespace }} placed at their first attempt were bound within 5 s, lately and over hours.",
    )
