"""The first view of a running cluster, from the document of `status`: how its schedulers are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduler.kube.primitives import parse_time
from secondary_scheduler.clusterstatus.document import facts_of
from secondary_scheduler.clusterstatus.health import age_of, current_conditions, duration, is_expected

Json = Mapping[str, Any]
_IN_FIGURES = frozenset({"replicas", "queue", "placed"})
"""Labels of facts that are shown otherwise."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong. `since` is an age; "" where it is not known."""

    severity: str
    subject: str
    since: str
    message: str


@dataclass(frozen=True, slots=True)
class Figure:
    """One number or word that counts, with what it is about and a line below it."""

    title: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition; `expected` is whether it is as it should be."""

    type: str
    status: str
    expected: bool
    age: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod that was placed lately; `age` is for people."""

    namespace: str
    name: str
    node: str
    age: str


@dataclass(frozen=True, slots=True)
class InstanceHealth:
    """One scheduler.

    Attributes:
        state: `ok`, `warning` or `failed`.
        rejected_by: waiting pods by the plugin that rejected them last; None where it is not known.
        placements: the newest first; None likewise.
    """

    title: str
    kind: str
    state: str
    problems: Sequence[Problem]
    figures: Sequence[Figure]
    facts: Sequence[tuple[str, str]]
    rejected_by: Sequence[tuple[str, int]] | None
    waiting: int | None
    placements: Sequence[PlacedPod] | None
    conditions: Sequence[Condition]


@dataclass(frozen=True, slots=True)
class HealthPage:
    """What the view shows. `read_at` is in seconds since the epoch, `not_shown` says which rights are missing."""

    read_at: float
    state: str
    versions: str
    instances: Sequence[InstanceHealth]
    not_shown: Sequence[str]


def health_page(document: Json) -> HealthPage:
    """Return what is shown of the document of `status`: the worst instance first, each age as of its time."""
    now, cluster = parse_time(document["time"]), document["cluster"]
    openshift = f", OpenShift {cluster['openshift']}" if cluster["openshift"] else ""
    order = ("failed", "warning", "ok")
    instances = sorted(document["instances"], key=lambda instance: order.index(instance["state"]))
    return HealthPage(
        now.timestamp(),
        document["state"],
        f"Kubernetes {cluster['kubernetes']}{openshift}" if cluster["kubernetes"] else "",
        [_instance(instance, now) for instance in instances],
        document["notShown"],
    )


def _instance(instance: Json, now: datetime) -> InstanceHealth:
    placements, rejected = instance["placements"], instance["rejectedBy"]
    return InstanceHealth(
        f"{instance['namespace']}/{instance['name']}",
        instance["kind"],
        instance["state"],
        [_problem(problem, now) for problem in instance["problems"]],
        [*_figures(instance, now)],
        [(label, text) for label, text in facts_of(instance, now, wide=False) if label not in _IN_FIGURES],
        None if rejected is None else list(rejected.items()),
        None if instance["queue"] is None else sum(instance["queue"].values()),
        None if placements is None else [_placed(placed, now) for placed in placements],
        [_condition(condition, now) for condition in current_conditions(instance)],
    )


def _problem(problem: Json, now: datetime) -> Problem:
    since = age_of(problem["since"], now) if problem["since"] else ""
    return Problem(problem["severity"], problem["subject"], since, problem["message"])


def _figures(instance: Json, now: datetime) -> Iterator[Figure]:
    deployment, leader, queue = instance["deployment"], instance["leader"], instance["queue"]
    replicas = "not known" if deployment is None else f"{deployment['ready']} of {deployment['replicas']}"
    yield Figure("Replicas ready", replicas)
    if not instance["leaderElection"]:
        yield Figure("Leader", "none elected", "runs without leader election")
    elif leader is None:
        yield Figure("Leader", "none" if instance["alive"] is False else "not known")
    elif instance["alive"]:
        yield Figure("Leader", leader["pod"], f"for {age_of(leader['since'], now)}" if leader["since"] else "")
    else:
        renewed = f"{leader['pod']} last renewed the Lease {age_of(leader['renewedAt'], now)} ago"
        yield Figure("Leader", "gone" if instance["alive"] is False else "not known", renewed)
    if queue is None:
        yield Figure("Pods waiting", "not known")
    else:
        held = ", ".join(f"{count} {name}" for name, count in queue.items() if count)
        yield Figure("Pods waiting", f"{sum(queue.values()):,}", held)
    yield from _load_figures(instance)


def _load_figures(instance: Json) -> Iterator[Figure]:
    sources, load = instance["loadSources"], instance["loadData"]
    if sources:
        oldest = max(sources, key=lambda source: (source["ageSeconds"] is None, source["ageSeconds"]))
        age = "never read" if oldest["ageSeconds"] is None else duration(oldest["ageSeconds"])
        states = {source["fresh"] for source in sources}
        yield Figure("Age of the load", age, "fresh" if states == {True} else "stale")
    elif load is not None:
        yield Figure("Load", "fresh" if load["fresh"] else "stale", load["message"])
    else:
        yield Figure("Age of the load", "not known" if sources is None else "no source")


def _placed(placed: Json, now: datetime) -> PlacedPod:
    namespace, _, name = placed["pod"].partition("/")
    return PlacedPod(namespace, name, placed["node"], age_of(placed["time"], now))


def _condition(condition: Json, now: datetime) -> Condition:
    return Condition(
        condition["type"],
        condition["status"],
        is_expected(condition),
        age_of(condition["since"], now),
        condition["reason"],
        condition["message"],
    )
