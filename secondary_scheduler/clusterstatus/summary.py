"""An instance in words: for the text of `status`, and for the pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import UNSET

from secondary_scheduler.clusterstatus.health import age_of, duration
from secondary_scheduler.clusterstatus.status import (
    AttemptTotals,
    InstanceStatus,
    ProfileStatus,
    RolloutStatus,
    VersionStatus,
)

_SHOWN_HASH = 16
_MAX_CHANGES = 4
"""Of a shadow from its profile, unless the output is wide."""
_MAX_REJECTORS = 5


def facts_of(instance: InstanceStatus, now: datetime, *, wide: bool) -> Iterator[tuple[str, str]]:
    """Yield label and text of each line; `wide` as for `status`."""
    if instance.management_state not in (None, "Managed"):
        yield "management", f"{instance.management_state}: the operator changes nothing else"
    yield "replicas", _replicas(instance, now)
    profiles = instance.profiles if isinstance(instance.profiles, list) else []
    yield from (("profile", _profile(profile, wide=wide)) for profile in profiles)
    yield from (("shadow", text) for profile in profiles if (text := _shadow(profile, wide=wide)))
    yield "configuration", _configuration(instance, wide=wide)
    if instance.rollout is not None:
        yield "rollout", _rollout(instance.rollout, now)
    yield from (("load", text) for text in _load(instance))
    if instance.queue is not None:
        yield "queue", f"{_counted(instance.queue)}{_rejectors(instance.rejected_by, wide=wide)}"
    if attempts := _attempts(instance.attempts):
        yield "attempts", attempts
    for placed in (instance.placements or ())[: None if wide else 1]:
        yield "placed", f"{age_of(placed.time, now)} ago, {placed.pod} on {placed.node}"
    for error in (instance.errors or ())[: None if wide else 1]:
        yield "error", f"{age_of(error.time, now)} ago, {error.pod}: {error.message}"
    yield from (("version", text) for text in _versions(instance.versions))


def _replicas(instance: InstanceStatus, now: datetime) -> str:
    deployment, leader = instance.deployment, instance.leader
    ready = "not known" if deployment is None else f"{deployment.ready} of {deployment.replicas} ready"
    if leader is None:
        return f"{ready}; no replica leads" if instance.alive is False and instance.leader_election else ready
    if not instance.alive:
        return f"{ready}; {leader.pod} last renewed the Lease {age_of(leader.renewed_at, now)} ago"
    since = f" for {age_of(leader.since, now)}" if leader.since else ""
    return f"{ready}; {leader.pod} leads{since}"


def _profile(profile: ProfileStatus, *, wide: bool) -> str:
    score = [f"{plugin.name} {plugin.weight}" for plugin in profile.score]
    scoring = {plugin.name for plugin in profile.score}
    added = profile.plugins if wide else profile.added
    others = _listed("; also ", [name for name in added if name not in scoring])
    removed = _listed("; without ", profile.removed)
    return f"{profile.scheduler_name}: scores by {', '.join(score) or 'nothing'}{others}{removed}"


def _shadow(profile: ProfileStatus, *, wide: bool) -> str:
    """What is tried beside a profile, with which outcome, and how it differs; "" where nothing is."""
    if (shadow := profile.shadow) is UNSET:
        return ""
    changes = shadow.differences
    limit = len(changes) if wide else _MAX_CHANGES
    differs = "; ".join(changes[:limit]) or "decides as the profile itself does"
    more = f"; and {len(changes) - limit} more (-o wide)" if len(changes) > limit else ""
    tried = f"{shadow.scheduler_name} is tried beside {profile.scheduler_name}{_compared(shadow.compared)}"
    return f"{tried}: {differs}{more}"


def _compared(counts: Mapping[str, int] | None) -> str:
    if counts is None:
        return ""
    skipped = counts.get("notCompared", 0)
    compared = sum(counts.values()) - skipped
    same = counts.get("sameNode", 0) + counts.get("neitherPlaced", 0)
    return f" ({compared:,} decisions compared, {compared - same:,} otherwise; {skipped:,} not compared)"


def _listed(before: str, names: Sequence[str]) -> str:
    return f"{before}{', '.join(names)}" if names else ""


def _configuration(instance: InstanceStatus, *, wide: bool) -> str:
    hashes = (instance.configuration.wanted, instance.configuration.running)
    wanted, running = (value and (value if wide else value[:_SHOWN_HASH]) for value in hashes)
    if running is None:
        runs = "none runs" if instance.alive is False else "which runs is not reported"
        return f"{wanted} is wanted; {runs}" if wanted else "not known"
    if wanted is None or wanted == running:
        return f"{running} runs{', as wanted' if wanted else ''}"
    return f"{running} runs, {wanted} is wanted"


def _rollout(rollout: RolloutStatus, now: datetime) -> str:
    since = f" {age_of(rollout.time, now)} ago" if rollout.time else ""
    return f"{rollout.outcome}{since}{': ' if rollout.message else ''}{rollout.message or ''}"


def _rejectors(plugins: Mapping[str, int] | None, *, wide: bool) -> str:
    rejectors = list((plugins or {}).items())[: None if wide else _MAX_REJECTORS]
    return _listed("; rejected by ", [f"{plugin} {count}" for plugin, count in rejectors])


def _load(instance: InstanceStatus) -> Iterator[str]:
    for source in instance.load_sources or ():
        age = "never read" if source.age_seconds is None else f"newest sample {duration(source.age_seconds)} old"
        nodes = _counted({state: count for state, count in source.nodes.items() if count})
        state = "fresh" if source.fresh else "STALE"
        yield f"{source.source}: {state}, {age}{f'; nodes: {nodes}' if nodes else ''}"
    load = instance.load_data
    if not instance.load_sources and load is not None:
        yield "fresh" if load.fresh else f"STALE: {load.message}"


def _attempts(attempts: AttemptTotals) -> str:
    last, total = attempts.last, attempts.since_start
    texts = []
    if last and last.count:
        rate = f" ({last.count / last.seconds:.2g}/s)" if last.seconds else ""
        texts.append(f"last {last.count} in {duration(last.seconds)}{rate}: {_counted(last.results)}")
    if total:
        texts.append(f"since the start: {_counted(total)}")
    nothing = "none since the start" if total is not None or last else ""
    return "; ".join(texts) or nothing


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {subject}" for subject, count in counts.items())


def _versions(versions: VersionStatus) -> Iterator[str]:
    behaves = f" behaves as Kubernetes {versions.behaves_as}" if versions.behaves_as else ""
    fits = "" if versions.incompatibilities else "; it goes with this cluster"
    yield f"scheduler {versions.image}{behaves}{fits}" if versions.image else "not known"
    if versions.operator_image:
        yield f"operator {versions.operator_image} ({versions.operator_ready} ready)"
