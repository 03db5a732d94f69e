"""The first view of a running cluster, from what `status` says: how its schedulers are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduler.kube.primitives import parse_time
from secondary_scheduler.clusterstatus.health import age_of, duration
from secondary_scheduler.clusterstatus.status import InstanceStatus, StatusReport
from secondary_scheduler.clusterstatus.summary import facts_of

_IN_FIGURES = frozenset({"replicas", "queue", "placed"})
"""Labels of facts that are shown otherwise."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number or word that counts, with what it is about and a line below it."""

    title: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class InstanceView:
    """One scheduler: its status, with what stands out of it; `facts` are labels and texts."""

    status: InstanceStatus
    figures: Sequence[Figure]
    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class HealthPage:
    """What the view shows: the worst instance first, each age as of `now`, when the status was read."""

    status: StatusReport
    instances: Sequence[InstanceView]
    now: datetime

    def age(self, time: str | None) -> str:
        """Return how long ago something was, for people."""
        return age_of(time, self.now)


def health_page(status: StatusReport) -> HealthPage:
    """Return what is shown of a status."""
    now = parse_time(status.time)
    return HealthPage(status, [_instance(instance, now) for instance in status.worst_first], now)


def _instance(instance: InstanceStatus, now: datetime) -> InstanceView:
    facts = facts_of(instance, now, wide=False)
    return InstanceView(
        instance, [*_figures(instance, now)], [(label, text) for label, text in facts if label not in _IN_FIGURES]
    )


def _figures(instance: InstanceStatus, now: datetime) -> Iterator[Figure]:
    deployment, leader, queue = instance.deployment, instance.leader, instance.queue
    replicas = "not known" if deployment is None else f"{deployment.ready} of {deployment.replicas}"
    yield Figure("Replicas ready", replicas)
    if not instance.leader_election:
        yield Figure("Leader", "none elected", "runs without leader election")
    elif leader is None:
        yield Figure("Leader", "none" if instance.alive is False else "not known")
    elif instance.alive:
        yield Figure("Leader", leader.pod, f"for {age_of(leader.since, now)}" if leader.since else "")
    else:
        renewed = f"{leader.pod} last renewed the Lease {age_of(leader.renewed_at, now)} ago"
        yield Figure("Leader", "gone" if instance.alive is False else "not known", renewed)
    if queue is None:
        yield Figure("Pods waiting", "not known")
    else:
        held = ", ".join(f"{count} {name}" for name, count in queue.items() if count)
        yield Figure("Pods waiting", f"{sum(queue.values()):,}", held)
    yield from _load_figures(instance)


def _load_figures(instance: InstanceStatus) -> Iterator[Figure]:
    sources, load = instance.load_sources, instance.load_data
    if sources:
        oldest = max(sources, key=lambda source: (source.age_seconds is None, source.age_seconds))
        age = "never read" if oldest.age_seconds is None else duration(oldest.age_seconds)
        states = {source.fresh for source in sources}
        yield Figure("Age of the load", age, "fresh" if states == {True} else "stale")
    elif load is not None:
        yield Figure("Load", "fresh" if load.fresh else "stale", load.message)
    else:
        yield Figure("Age of the load", "not known" if sources is None else "no source")
