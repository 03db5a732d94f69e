"""What is told of an installation but its conditions, a label and a text at a time: in the terminal, and on a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from secondary_scheduler.clusterstatus.ages import age_of, duration

Json = Mapping[str, Any]
_SHOWN_HASH = 16
_MOST_CHANGES = 4
"""Of a shadow from its profile, unless the output is wide."""
_MOST_REJECTORS = 5


def facts_of(instance: Json, now: datetime, *, wide: bool) -> Iterator[tuple[str, str]]:
    """Yield label and text of each line; `wide` as for `status`."""
    if instance["managementState"] not in (None, "Managed"):
        yield "management", f"{instance['managementState']}: the operator changes nothing else"
    yield "replicas", _replicas(instance, now)
    yield from (("profile", text) for text in _profiles(instance["profiles"], wide=wide))
    yield from (("shadow", text) for text in _shadows(instance["profiles"], wide=wide))
    yield "configuration", _configuration(instance, wide=wide)
    if (rollout := _rollout(instance["rollout"], now)) is not None:
        yield "rollout", rollout
    yield from (("load", text) for text in _load(instance))
    if instance["queue"] is not None:
        yield "queue", f"{_queue(instance['queue'])}{_rejectors(instance['rejectedBy'], wide=wide)}"
    if (attempts := _attempts(instance["attempts"])) is not None:
        yield "attempts", attempts
    for placed in (instance["placements"] or ())[: None if wide else 1]:
        yield "placed", f"{age_of(placed['time'], now)} ago, {placed['pod']} on {placed['node']}"
    for error in (instance["errors"] or ())[: None if wide else 1]:
        yield "error", f"{age_of(error['time'], now)} ago, {error['pod']}: {error['message']}"
    yield from (("version", text) for text in _versions(instance["versions"]))


def _replicas(instance: Json, now: datetime) -> str:
    deployment, leader = instance["deployment"], instance["leader"]
    ready = "not known" if deployment is None else f"{deployment['ready']} of {deployment['replicas']} ready"
    if leader is None:
        return f"{ready}; no replica leads" if instance["alive"] is False and instance["leaderElection"] else ready
    if not instance["alive"]:
        return f"{ready}; {leader['pod']} last renewed the Lease {age_of(leader['renewedAt'], now)} ago"
    since = f" for {age_of(leader['since'], now)}" if leader["since"] else ""
    return f"{ready}; {leader['pod']} leads{since}"


def _profiles(profiles: Sequence[Json] | Json | None, *, wide: bool) -> Iterator[str]:
    if not isinstance(profiles, Sequence):
        return
    for profile in profiles:
        score = [f"{plugin['name']} {plugin['weight']}" for plugin in profile["score"]]
        scoring = {plugin["name"] for plugin in profile["score"]}
        added = profile["plugins"] if wide else profile["added"]
        others = _listed("; also ", [name for name in added if name not in scoring])
        removed = _listed("; without ", profile["removed"])
        yield f"{profile['schedulerName']}: scores by {', '.join(score) or 'nothing'}{others}{removed}"


def _shadows(profiles: Sequence[Json] | Json | None, *, wide: bool) -> Iterator[str]:
    """What is tried beside a profile, with which outcome, and how it differs."""
    if not isinstance(profiles, Sequence):
        return
    for profile in profiles:
        if (shadow := profile.get("shadow")) is None:
            continue
        changes = shadow["differences"]
        most = len(changes) if wide else _MOST_CHANGES
        differs = "; ".join(changes[:most]) or "decides as the profile itself does"
        more = f"; and {len(changes) - most} more (-o wide)" if len(changes) > most else ""
        yield (
            f"{shadow['schedulerName']} is tried beside {profile['schedulerName']}{_compared(shadow['compared'])}: "
            f"{differs}{more}"
        )


def _compared(counts: Mapping[str, int] | None) -> str:
    if counts is None:
        return ""
    skipped = counts.get("notCompared", 0)
    compared = sum(counts.values()) - skipped
    same = counts.get("sameNode", 0) + counts.get("neitherPlaced", 0)
    return f" ({compared:,} decisions compared, {compared - same:,} otherwise; {skipped:,} not compared)"


def _listed(before: str, names: Sequence[str]) -> str:
    return f"{before}{', '.join(names)}" if names else ""


def _configuration(instance: Json, *, wide: bool) -> str:
    hashes = instance["configuration"]
    wanted, running = (value and (value if wide else value[:_SHOWN_HASH]) for value in hashes.values())
    if running is None:
        runs = "none runs" if instance["alive"] is False else "which runs is not reported"
        return f"{wanted} is wanted; {runs}" if wanted else "not known"
    if wanted is None or wanted == running:
        return f"{running} runs{', as wanted' if wanted else ''}"
    return f"{running} runs, {wanted} is wanted"


def _rollout(rollout: Json | None, now: datetime) -> str | None:
    if rollout is None:
        return None
    since = f" {age_of(rollout['time'], now)} ago" if rollout["time"] else ""
    return f"{rollout['outcome']}{since}{': ' if rollout['message'] else ''}{rollout['message'] or ''}"


def _queue(queue: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in queue.items())


def _rejectors(plugins: Mapping[str, int] | None, *, wide: bool) -> str:
    shown = list((plugins or {}).items())[: None if wide else _MOST_REJECTORS]
    return _listed("; rejected by ", [f"{plugin} {count}" for plugin, count in shown])


def _load(instance: Json) -> Iterator[str]:
    for source in instance["loadSources"] or ():
        age = "never read" if source["ageSeconds"] is None else f"newest sample {duration(source['ageSeconds'])} old"
        nodes = _results({state: count for state, count in source["nodes"].items() if count})
        state = "fresh" if source["fresh"] else "STALE"
        yield f"{source['source']}: {state}, {age}{f'; nodes: {nodes}' if nodes else ''}"
    load = instance["loadData"]
    if not instance["loadSources"] and load is not None:
        yield "fresh" if load["fresh"] else f"STALE: {load['message']}"


def _attempts(attempts: Json) -> str | None:
    last, total = attempts["last"], attempts["sinceStart"]
    texts = []
    if last and last["count"]:
        rate = f" ({last['count'] / last['seconds']:.2g}/s)" if last["seconds"] else ""
        texts.append(f"last {last['count']} in {duration(last['seconds'])}{rate}: {_results(last['results'])}")
    if total:
        texts.append(f"since the start: {_results(total)}")
    nothing = "none since the start" if total is not None or last else None
    return "; ".join(texts) or nothing


def _results(results: Mapping[str, int]) -> str:
    """Numbers with what they count."""
    return ", ".join(f"{count} {result}" for result, count in results.items())


def _versions(versions: Json) -> Iterator[str]:
    behaves = f" behaves as Kubernetes {versions['behavesAs']}" if versions["behavesAs"] else ""
    fits = "" if versions["incompatibilities"] else "; it goes with this cluster"
    yield f"scheduler {versions['image']}{behaves}{fits}" if versions["image"] else "not known"
    if versions["operatorImage"]:
        yield f"operator {versions['operatorImage']} ({versions['operatorReady']} ready)"
