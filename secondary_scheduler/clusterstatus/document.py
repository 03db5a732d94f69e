"""The document of `status`: everything that is known about the installations, and a judgement of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from scheduler.catalog import OPERATOR_NAMESPACE
from scheduler.kube.client import ClientConfig
from scheduler.kube.primitives import format_time
from secondary_scheduler.clusterstatus.asking import LiveState, Question, ask_all
from secondary_scheduler.clusterstatus.health import (
    State,
    is_silent,
    is_without_replica,
    problems_of,
    worst,
)
from secondary_scheduler.clusterstatus.installations import CallerLimits, Installations, Place, installations_of
from secondary_scheduler.clusterstatus.instancepart import instance_part
from secondary_scheduler.clusterstatus.instances import Instance, instances_of
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
