"""A pod that the running scheduler does not know: the pod itself says which of the reasons it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn

from msgspec.structs import replace

from scheduler.answers import DecisionList, ForgottenDecision
from scheduler.kube.client import ClientConfig, KubeError, SyncConnection
from scheduler.kube.primitives import TimestampError, parse_time
from secondary_scheduler.clusterstatus.health import age_of
from secondary_scheduler.clusterstatus.listing import read_named, suggestion
from secondary_scheduler.errors import CommandError, printable
from secondary_scheduler.kubeobjects import KubeObject, node_of, part, parts

_TIMEOUT = 15.0


@dataclass(frozen=True, slots=True)
class AskedSchedulers:
    """Who was asked about a pod, and does not know it.

    Attributes:
        pods: of the schedulers.
        scheduler_names: those that they decide for; empty where they are older and do not say.
    """

    pods: tuple[str, ...]
    scheduler_names: tuple[str, ...]


def why_unknown(pod: KubeObject, key: str, schedulers: AskedSchedulers, now: datetime | None = None) -> str:
    """Return why none of them knows a pod; "" for one that was placed by one of them, which has forgotten why.

    Args:
        pod: as the API server has it.
        key: its namespace and name.
        schedulers: those that do not know it.
        now: for ages.
    """
    node, names = node_of(pod), ", ".join(schedulers.pods)
    scheduler, phase = str(part(pod, "spec").get("schedulerName") or ""), part(pod, "status").get("phase")
    if phase in ("Succeeded", "Failed"):
        ran_on = f"it ran on {node}; " if node else ""
        return f"{key}: it has ended ({phase}); {ran_on}why is no longer remembered by {names}"
    if schedulers.scheduler_names and scheduler not in schedulers.scheduler_names:
        return f"{key}: {_anothers(pod, scheduler, node, schedulers, now or datetime.now(UTC))}"
    if not node:
        return f"{key}: it waits for {scheduler}, and {names} has not seen it yet: ask again"
    return ""


def refuse_unknown(
    config: ClientConfig, command: str, namespace: str, name: str, schedulers: AskedSchedulers
) -> NoReturn:
    """Read a pod that none of the schedulers knows.

    Args:
        config: with whose credentials.
        command: of which the API server hears.
        namespace, name: of the pod.
        schedulers: those that do not know it.

    Raises:
        CommandError: always, with what the pod itself says, or why it cannot be read.
    """
    key = f"{namespace}/{name}"
    connection = SyncConnection(config, timeout=_TIMEOUT, user_agent=f"secondary-scheduler/{command}")
    try:
        pod = read_named(connection, "pod", namespace, name)
    except KubeError as error:
        raise CommandError(printable(f"{key}: unknown to {', '.join(schedulers.pods)}; {error}")) from error
    finally:
        connection.close()
    placed = f"placed on {node_of(pod)} by {part(pod, 'spec').get('schedulerName')}, and why is no longer known"
    raise CommandError(printable(why_unknown(pod, key, schedulers) or f"{key}: {placed}"))


def with_forgotten(pod: KubeObject, answer: DecisionList, key: str) -> DecisionList:
    """Return an answer of no decision about a pod that has a node, with what is still known of its placement: where and
    when, and whether the scheduler has restarted since.

    Args:
        pod: as the API server has it.
        answer: whose `why_not` is about this node or another.
        key: namespace and name of the pod.
    """
    scheduled = (
        condition for condition in parts(pod, "status", "conditions") if condition.get("type") == "PodScheduled"
    )
    placed = next(
        (condition.get("lastTransitionTime") for condition in scheduled if condition.get("status") == "True"), None
    )
    leading, since = (answer.history.leading_since, answer.history.since) if answer.history else (None, None)
    forgotten = ForgottenDecision(
        key,
        node_of(pod),
        str(part(pod, "spec").get("schedulerName") or ""),
        placed and str(placed),
        leading if _is_before(placed, leading) else None,
        since,
    )
    return replace(answer, forgotten=forgotten)


def _anothers(pod: KubeObject, scheduler: str, node: str, schedulers: AskedSchedulers, now: datetime) -> str:
    served = " and ".join(schedulers.scheduler_names)
    serves = f"{', '.join(schedulers.pods)} decides for {served}"
    if node:
        return f"placed on {node} by {scheduler}, which knows why; {serves}"
    like = suggestion(scheduler, schedulers.scheduler_names)
    conditions = {condition.get("type") for condition in parts(pod, "status", "conditions")}
    untried = ""
    if "PodScheduled" not in conditions:
        untried = f", which has not tried it in {age_of(part(pod, 'metadata').get('creationTimestamp'), now)}"
    # `schedulerName` of a pod is immutable.
    advice = " Create the pod anew with this schedulerName." if like else ""
    return f"it waits for the scheduler {scheduler}{untried}; {serves}{like}{advice}"


def _is_before(first: object, second: object) -> bool:
    try:
        return parse_time(str(first)) < parse_time(str(second))
    except TimestampError:
        return False
