"""A pod that the running scheduler does not know: the pod itself says which of the reasons it is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from scheduler.kube.primitives import TimestampError, parse_time
from secondary_scheduler.cli.errors import CommandError, printable
from secondary_scheduler.cli.explain.objects import node_of, suggestion
from secondary_scheduler.cli.schedulers import Schedulers, UnknownPodError
from secondary_scheduler.clusterstatus.ages import age_of
from secondary_scheduler.clusterstatus.listing import part, parts

Json = Mapping[str, Any]


def answer_about(
    pod: Json, unknown: UnknownPodError, schedulers: Schedulers, namespace: str, name: str, now: datetime | None = None
) -> dict[str, Any]:
    """Return the answer about a pod that was placed and forgotten: `forgotten` in it says when it was placed, and its
    `whyNot` is about the pod's own node.

    Args:
        pod: as the API server has it.
        unknown: what the schedulers answered.
        schedulers: they are asked again.
        namespace, name: of the pod.
        now: for ages.

    Raises:
        CommandError: it is another scheduler's, has ended, or waits unseen; or nobody answers any more.
    """
    key, node = f"{namespace}/{name}", node_of(pod)
    scheduler, phase = str(part(pod, "spec").get("schedulerName") or ""), part(pod, "status").get("phase")
    names = ", ".join(unknown.pods)
    if phase in ("Succeeded", "Failed"):
        ran_on = f"it ran on {node}; " if node else ""
        raise CommandError(printable(f"{key}: it has ended ({phase}); {ran_on}why is no longer remembered by {names}"))
    if unknown.scheduler_names and scheduler not in unknown.scheduler_names:
        raise CommandError(printable(f"{key}: {_anothers(pod, scheduler, node, unknown, now or datetime.now(UTC))}"))
    if not node:
        raise CommandError(printable(f"{key}: it waits for {scheduler}, and {names} has not seen it yet: ask again"))
    return with_forgotten(pod, schedulers.about_pod(namespace, name, node), key)


def with_forgotten(pod: Json, answer: Json, key: str) -> dict[str, Any]:
    """Return an answer of no decision about a pod that has a node, with what is still known of its placement.

    Args:
        pod: as the API server has it.
        answer: whose `whyNot` is about this node or another.
        key: namespace and name of the pod.
    """
    return {**answer, "forgotten": {"pod": key, **_forgotten(pod, part(answer, "history"))}}


def _anothers(pod: Json, scheduler: str, node: str, unknown: UnknownPodError, now: datetime) -> str:
    served = " and ".join(unknown.scheduler_names)
    serves = f"{', '.join(unknown.pods)} decides for {served}"
    if node:
        return f"placed on {node} by {scheduler}, which knows why; {serves}"
    like = suggestion(scheduler, unknown.scheduler_names)
    conditions = {each.get("type") for each in parts(pod, "status", "conditions")}
    untried = ""
    if "PodScheduled" not in conditions:
        untried = f", which has not tried it in {age_of(part(pod, 'metadata').get('creationTimestamp'), now)}"
    # `schedulerName` of a pod is immutable.
    advice = " Create the pod anew with this schedulerName." if like else ""
    return f"it waits for the scheduler {scheduler}{untried}; {serves}{like}{advice}"


def _forgotten(pod: Json, history: Json) -> dict[str, Any]:
    """What is still known of the decision: where and when, and whether the scheduler has restarted since."""
    placed = next(
        (each.get("lastTransitionTime") for each in parts(pod, "status", "conditions") if _is_placed(each)), None
    )
    leading = history.get("leadingSince")
    return {
        "node": node_of(pod),
        "schedulerName": str(part(pod, "spec").get("schedulerName") or ""),
        "time": placed,
        "before": leading if _is_before(placed, leading) else None,
        "historySince": history.get("since"),
    }


def _is_placed(condition: Json) -> bool:
    return condition.get("type") == "PodScheduled" and condition.get("status") == "True"


def _is_before(first: object, second: object) -> bool:
    try:
        return parse_time(str(first)) < parse_time(str(second))
    except TimestampError:
        return False
