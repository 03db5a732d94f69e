"""What only a running scheduler knows: its queue, its attempts and its load sources.

It is asked for its metrics and its last decisions through a forwarded port, as docs/adr/0025 has it: with the caller's
own rights. All schedulers are asked at the same time.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from scheduler.answers import Decision, DecisionList
from scheduler.kube.primitives import TimestampError, parse_time
from secondary_scheduler.clusterstatus.schedulerclient import NoSuchPodError, RefusedAnswerError, SchedulerPod
from secondary_scheduler.clusterstatus.status import LoadSourceStatus, RecentAttempts, RecentError, RecentPlacement
from secondary_scheduler.errors import CommandError

_METRICS = {
    "scheduler_pending_pods",
    "scheduler_schedule_attempts_total",
    "scheduler_unschedulable_pods",
    "secondary_scheduler_load_data_fresh",
    "secondary_scheduler_load_data_age_seconds",
    "secondary_scheduler_load_node_states",
    "secondary_scheduler_shadow_decisions_total",
    "secondary_scheduler_shadow_skipped_total",
    "leader_election_master_status",
    "rest_client_requests_total",
}
_QUEUES = ("active", "backoff", "unschedulable", "gated")
_DECISIONS = 100
"""The newest decisions, from which the present rate, the last placements and the last errors follow."""
_MAX_ERRORS = 10
_MAX_PLACEMENTS = 10
_MAX_LINES = 200_000
Sample = tuple[Mapping[str, str], float]


@dataclass(frozen=True)
class MetricsSummary:
    """What the metrics of a scheduler say.

    Attributes:
        leads: True where they do not say.
        queue: waiting pods by queue; None where they do not say.
        rejected_by: waiting pods by the plugin that rejected them last.
        attempts: since the start, by result.
        shadows: decisions by outcome, by profile.
        forbidden: requests that the API server refused with 403, since the start; None where they do not say.
    """

    leads: bool
    queue: dict[str, int] | None
    rejected_by: dict[str, int]
    attempts: dict[str, int]
    load: list[LoadSourceStatus]
    shadows: dict[str, dict[str, int]]
    forbidden: int | None


@dataclass(frozen=True)
class DecisionsSummary:
    """What the last decisions of a scheduler say: their number, and the last placements and errors."""

    attempts: RecentAttempts
    placements: list[RecentPlacement]
    errors: list[RecentError]


@dataclass(frozen=True)
class LiveState:
    """What a scheduler answered.

    Attributes:
        metrics, decisions: None where these could not be had.
        missing: why something is not shown, a line each.
        absent: whether there is no such pod.
    """

    metrics: MetricsSummary | None = None
    decisions: DecisionsSummary | None = None
    missing: tuple[str, ...] = ()
    absent: bool = False

    @property
    def leads(self) -> bool | None:
        """Whether it leads, whatever its Lease says: that outlasts a process that was killed. None: not known."""
        if self.decisions:
            return True  # Only one that leads shows them.
        return False if self.absent else self.metrics.leads if self.metrics else None


def ask_all(schedulers: Iterable[SchedulerPod], now: datetime) -> list[LiveState]:
    """Return what each scheduler answers, in order; one that does not answer says so in `missing`."""

    async def ask_each() -> list[LiveState]:
        return list(await asyncio.gather(*(_ask(scheduler, now) for scheduler in schedulers)))

    return asyncio.run(ask_each())


async def _ask(scheduler: SchedulerPod, now: datetime) -> LiveState:
    place = scheduler.place
    missing: list[str] = []
    metrics: MetricsSummary | None = None
    decisions: DecisionsSummary | None = None
    absent = False
    try:
        answer = await scheduler.get("/metrics", {})
        if answer.is_unknown_user:
            refusal = answer.refusal("get on the paths /metrics and /debug/decisions", "")
            return LiveState(missing=(f"queue, attempts and load by source: {place} answers {refusal}",))
        if answer.status == 200:
            metrics = summarize_metrics(answer.body.decode("utf-8", "replace"))
        else:
            refusal = answer.refusal("get on the path /metrics (nonResourceURLs)", "it serves no metrics")
            missing.append(f"queue and load by source: {place} answers {refusal}")
        if scheduler.is_ours:
            path, query = "/debug/decisions", {"limit": str(_DECISIONS)}
            last = await scheduler.ask(path, query, DecisionList, f"get on the path {path} (nonResourceURLs)")
            decisions = summarize_decisions(last.items, now)
    except NoSuchPodError as error:
        absent = True
        missing.append(f"queue, attempts and load by source: {error}")
    except RefusedAnswerError as error:
        if error.answer.status != 404:
            missing.append(f"last attempts and errors: {error}")
    except CommandError as error:
        subject = "last attempts and errors" if metrics else "queue, attempts and load by source"
        missing.append(f"{subject}: {error}")
    except (ValueError, RecursionError) as error:
        missing.append(f"what {place} answers cannot be read: {error}")
    return LiveState(metrics, decisions, tuple(missing), absent)


def summarize_metrics(text: str) -> MetricsSummary:
    """Return what a scheduler's metrics say, from their text.

    Raises:
        ValueError: the text is no exposition of metrics.
    """
    samples = _samples(text)
    pending = {labels.get("queue"): value for labels, value in samples.get("scheduler_pending_pods", ())}
    total: Counter[str] = Counter()
    for labels, value in samples.get("scheduler_schedule_attempts_total", ()):
        total[labels.get("result", "")] += int(value)
    rejected: Counter[str] = Counter()
    for labels, value in samples.get("scheduler_unschedulable_pods", ()):
        rejected[labels.get("plugin", "")] += int(value)
    compared: dict[str, Counter[str]] = {}
    for labels, value in samples.get("secondary_scheduler_shadow_decisions_total", ()):
        compared.setdefault(labels.get("profile", ""), Counter())[labels.get("outcome", "")] += int(value)
    for labels, value in samples.get("secondary_scheduler_shadow_skipped_total", ()):
        compared.setdefault(labels.get("profile", ""), Counter())["notCompared"] += int(value)
    requests = samples.get("rest_client_requests_total")
    masters = [value for _, value in samples.get("leader_election_master_status", ())]
    return MetricsSummary(
        leads=not masters or any(masters),
        queue={queue: int(pending.get(queue, 0)) for queue in _QUEUES} if pending else None,
        rejected_by={plugin: count for plugin, count in rejected.most_common() if count},
        attempts=dict(sorted(total.items())),
        load=list(_sources(samples)),
        forbidden=None
        if requests is None
        else int(sum(count for labels, count in requests if labels.get("code") == "403")),
        shadows={profile: dict(sorted(counts.items())) for profile, counts in sorted(compared.items())},
    )


def _samples(text: str) -> dict[str, list[Sample]]:
    """The samples that are of interest by the metric's name: a scheduler has thousands of others."""
    from prometheus_client.parser import text_string_to_metric_families

    lines = text.splitlines()[:_MAX_LINES]
    chosen = [line for line in lines if line.partition("{")[0].partition(" ")[0] in _METRICS]
    samples: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families("\n".join(chosen) + "\n"):
        for sample in family.samples:
            if math.isfinite(sample.value) or sample.name.endswith("age_seconds"):
                samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def _sources(samples: Mapping[str, list[Sample]]) -> Iterator[LoadSourceStatus]:
    ages = {labels.get("source"): age for labels, age in samples.get("secondary_scheduler_load_data_age_seconds", ())}
    states: dict[str | None, dict[str, int]] = {}
    for labels, count in samples.get("secondary_scheduler_load_node_states", ()):
        states.setdefault(labels.get("source"), {})[labels.get("state", "")] = int(count)
    for labels, fresh in samples.get("secondary_scheduler_load_data_fresh", ()):
        source = labels.get("source")
        age = ages.get(source, math.nan)
        nodes = states.get(source, {})
        yield LoadSourceStatus(
            source=source,
            fresh=bool(fresh),
            age_seconds=round(age, 1) if math.isfinite(age) else None,
            nodes={state: nodes.get(state, 0) for state in ("fresh", "stale", "absent")},
        )


def summarize_decisions(items: Sequence[Decision], now: datetime) -> DecisionsSummary:
    """Return how many attempts there were lately, with which results, the last placements and the last errors.

    Args:
        items: decisions of all namespaces, the newest first.
        now: when they were asked for.
    """
    times = [time for item in items if (time := _time(item)) is not None]
    if not times:
        return DecisionsSummary(RecentAttempts(0, 0.0, {}), [], [])
    placements = (item for item in items if item.result == "scheduled")
    errors = (item for item in items if item.result == "error")
    return DecisionsSummary(
        RecentAttempts(
            len(items),
            max(0.0, round((now - min(times)).total_seconds(), 1)),
            dict(sorted(Counter(item.result for item in items).items())),
        ),
        [RecentPlacement(item.time, item.pod, item.node or "") for item in islice(placements, _MAX_PLACEMENTS)],
        [RecentError(item.time, item.pod, item.message or "") for item in islice(errors, _MAX_ERRORS)],
    )


def _time(item: Decision) -> datetime | None:
    try:
        return parse_time(item.time)
    except TimestampError:
        return None
