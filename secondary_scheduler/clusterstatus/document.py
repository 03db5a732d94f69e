"""The document of `status`: everything that is known about the installations, and a judgement of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from scheduler.catalog import OPERATOR_NAMESPACE
from scheduler.kube.client import ClientConfig
from scheduler.kube.primitives import format_time
from secondary_scheduler.clusterstatus.asking import LiveState, Question, ask_all
from secondary_scheduler.clusterstatus.health import (
    State,
    age_of,
    duration,
    is_silent,
    is_without_replica,
    problems_of,
    worst,
)
from secondary_scheduler.clusterstatus.installations import CallerLimits, Installations, Place, installations_of
from secondary_scheduler.clusterstatus.instances import Instance, instance_part, instances_of
from secondary_scheduler.clusterstatus.listing import first_names, part


def read_status(
    config: ClientConfig,
    namespace: str | None,
    *,
    everywhere: bool,
    asker: ClientConfig | None = None,
    command: str = "status",
) -> dict[str, Any]:
    """Read the installations of a namespace (None: of all) and ask the schedulers that lead, with the credentials of
    `asker`, if there is one; the API server hears from which `command` the question is.

    Without a namespace only those in the operator's are asked: whoever may create a Deployment or a SecondaryScheduler
    can make it lead, and its pod gets the token of who asks.

    Raises:
        KubeError: the API server does not answer.
    """
    limits = CallerLimits()
    read = installations_of(config, namespace, limits, everywhere=everywhere, command=command)
    return live_status(config, read, limits, namespace or OPERATOR_NAMESPACE, asker)


def live_status(
    config: ClientConfig, read: Installations, limits: CallerLimits, trusted: str, asker: ClientConfig | None
) -> dict[str, Any]:
    """Ask the schedulers that lead in the namespace `trusted`, and return the document; the rest as `read_status`."""
    instances = instances_of(read)
    now = datetime.now(UTC)
    if unasked := {instance.place[0] for instance in instances if instance.leader} - {trusted}:
        limits.note(
            f"queue, attempts and load by source in {first_names(unasked)}: a scheduler's pod sees the token of who "
            "asks, so name a namespace that you trust with --namespace"
        )
    questions = questions_to(instances, trusted)
    answers = ask_all(config, list(questions.values()), now, asker) if questions else []
    for answer in answers:
        for line in answer.missing:
            limits.note(line)
    return status_document(read, instances, dict(zip(questions, answers, strict=True)), limits, now)


def questions_to(instances: Iterable[Instance], trusted: str) -> dict[Place, Question]:
    """Return who is to be asked, by the instance's place: the leaders in the one namespace that the caller trusts."""
    return {
        # The pod is where the Deployment is, which is where the SecondaryScheduler is, too.
        each.place: Question(trusted, each.leader, each.port, each.kind == "Lease" or each.flavour.is_ours)
        for each in instances
        if each.leader and each.place[0] == trusted
    }


def status_document(
    read: Installations,
    instances: Sequence[Instance],
    live: Mapping[tuple[str, str], LiveState],
    limits: CallerLimits,
    now: datetime,
) -> dict[str, Any]:
    """Return the document.

    Args:
        read: what the API server says.
        instances: those of it.
        live: what the schedulers answered, by the instance's place.
        limits: what could not be read.
        now: the time of the answers.
    """
    shown = [
        _with_live(instance, instance_part(instance, read, alive=alive), answered, now)
        for instance in instances
        for answered in (live.get(instance.place),)
        for alive in (_is_alive(instance, answered, now),)
    ]
    states = [State(instance["state"]) for instance in shown]
    return {
        "apiVersion": "secondary-scheduler.io/v1",
        "kind": "Status",
        "time": format_time(now),
        "state": (worst(states) if states else State.FAILED).value,
        "cluster": {
            "server": read.server,
            "kubernetes": read.kubernetes,
            "openshift": read.openshift or None,
        },
        "instances": shown,
        "notShown": limits.lines,
    }


def _is_alive(instance: Instance, live: LiveState | None, now: datetime) -> bool | None:
    """Whether a replica leads and works: it says so, or nothing speaks against it; None where that is not known.

    Another replica that is ready says nothing about the leader.
    """
    ready = None if instance.scheduler is None else not is_without_replica(instance.scheduler.component.ready)
    if not instance.elects:
        return ready  # A Lease was left from before, and says nothing.
    if live is not None and live.leads is not None:
        return live.leads
    if not instance.lease_readable:
        return None
    spec = part(instance.lease, "spec")
    leads = bool(instance.leader) and not is_silent(spec.get("renewTime"), spec.get("leaseDurationSeconds"), now)
    # One that is not ready and has just renewed its Lease starts, or has just ended.
    return None if leads and ready is False else leads


def _with_counts(profiles: Any, metrics: Mapping[str, Any]) -> Any:
    """The profiles; those that have a shadow with what the scheduler counts of it, None where it does not say."""
    if not isinstance(profiles, list):
        return profiles
    return [
        {**each, "shadow": {**each["shadow"], "compared": _counts(each["schedulerName"], metrics)}}
        if "shadow" in each
        else each
        for each in profiles
    ]


def _counts(profile: str, metrics: Mapping[str, Any]) -> dict[str, int] | None:
    counts: dict[str, int] = metrics.get("shadows", {}).get(profile, {})
    return counts if metrics else None


def _with_live(instance: Instance, document: dict[str, Any], live: LiveState | None, now: datetime) -> dict[str, Any]:
    """The instance's part with what its scheduler answered, and with the judgement of all of it."""
    metrics, attempts = (live.metrics, live.attempts) if live else ({}, {})
    facts = {
        **document,
        "profiles": _with_counts(document["profiles"], metrics),
        "loadSources": metrics.get("load") if metrics else None,
        "queue": metrics.get("queue") if metrics else None,
        "rejectedBy": metrics.get("rejectedBy") if metrics else None,
        "attempts": {
            "sinceStart": metrics.get("totals") if metrics else None,
            "last": {key: attempts[key] for key in ("count", "seconds", "results")} if attempts else None,
        },
        "placements": attempts["placements"] if attempts else None,
        "errors": attempts["errors"] if attempts else None,
    }
    readable = instance.scheduler is not None or instance.deployment_readable
    problems = problems_of(facts, lease_readable=instance.lease_readable, deployment_readable=readable, now=now)
    listed = [
        {"severity": each.severity.value, "subject": each.subject, "message": each.message, "since": each.since}
        for each in problems
    ]
    names = {key: facts.pop(key) for key in ("namespace", "name", "kind")}
    return {**names, "state": worst(each.severity for each in problems).value, "problems": listed, **facts}


Json = Mapping[str, Any]
_SHOWN_HASH = 16
_MAX_CHANGES = 4
"""Of a shadow from its profile, unless the output is wide."""
_MAX_REJECTORS = 5


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
        most = len(changes) if wide else _MAX_CHANGES
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
    shown = list((plugins or {}).items())[: None if wide else _MAX_REJECTORS]
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
