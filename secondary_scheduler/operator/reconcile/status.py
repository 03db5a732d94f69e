"""The status of an instance and the Events about its changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from scheduler.operand import FEWER_REPLICAS
from secondary_scheduler.operator.reconcile import names
from secondary_scheduler.operator.reconcile.configuration import InstanceProblem, Selection
from secondary_scheduler.operator.reconcile.model import Condition, EventDraft, Json, Observed
from secondary_scheduler.operator.reconcile.rebalancer import (
    PASSING_REASONS,
    READY as REBALANCER_READY,
    RebalancerReport,
)
from secondary_scheduler.operator.reconcile.rollout import RolloutDecision
from secondary_scheduler.operator.reconcile.workload import Rollout, lease_annotations
from secondary_scheduler.rebalancestatus import REBALANCING

AVAILABLE = "Available"
PROGRESSING = "Progressing"
DEGRADED = "Degraded"
LOAD_DATA_FRESH = "LoadDataFresh"
NODES_OVERCOMMITTED = "NodesOvercommitted"
VERSION_CURRENT = "KubernetesVersionCurrent"
CACHE_CURRENT = "CacheCurrent"
UPGRADEABLE = "Upgradeable"

AS_EXPECTED = "AsExpected"
LISTED_ANEW = "ListedAnew"
SUCCEEDED = "Succeeded"
IN_PROGRESS = "InProgress"
_CONDITION_LIMIT = 4096


@dataclass(frozen=True)
class Findings:
    """The results of a reconcile that the status reports."""

    rollout: Rollout
    problems: Sequence[InstanceProblem] = ()
    warnings: Sequence[str] = ()
    """Messages that the condition Degraded shows without becoming True."""
    shortage: str = ""
    """Why fewer replicas run than are asked for; empty if as many do."""
    selection: Selection | None = None
    decision: RolloutDecision | None = None
    """The revision to run; None if there is none."""
    running: bool = True
    """Whether a scheduler is desired at all."""
    hold: str = ""
    """The management state for which nothing is changed; empty otherwise."""
    removing: bool = False
    rebalancer: RebalancerReport | None = None
    """What there is to say about a rebalancer; None where there is none, and none is wanted."""


def build_status(observed: Observed, findings: Findings) -> Json | None:
    """The status to apply, or None if the instance already has it."""
    previous: Json = observed.resource.get("status") or {}
    last = _last_rollout(findings, previous)
    conditions = (
        _available(findings),
        _progressing(findings),
        _degraded(findings),
        _upgradeable(findings, last),
        _load_data_fresh(observed, findings),
        _nodes_overcommitted(observed, findings),
        _version_current(observed, findings),
        _cache_current(observed, findings),
        *(findings.rebalancer.conditions if findings.rebalancer is not None else ()),
    )
    rollout = findings.rollout
    status: Json = {
        "observedGeneration": int(observed.resource["metadata"].get("generation", 0)),
        "version": observed.version,
        "readyReplicas": rollout.ready,
        "conditions": [_with_transition_time(observed, previous, condition) for condition in conditions],
        **_running_configuration(findings, previous),
        **_running_version(observed, findings),
        **({"lastRollout": last} if last else {}),
        **({"rebalancer": findings.rebalancer.status} if findings.rebalancer and findings.rebalancer.status else {}),
    }
    if rollout.exists:
        generation = {"group": "apps", "resource": "deployments", "namespace": observed.namespace}
        status["generations"] = [{**generation, "name": observed.names.operand, "lastGeneration": rollout.generation}]
    return None if _is_unchanged(previous, status) else status


def events_for(observed: Observed, status: Json) -> tuple[EventDraft, ...]:
    """Events about what the new status changes; nothing about what it merely repeats."""
    previous: Json = observed.resource.get("status") or {}
    events = []
    for condition in status["conditions"]:
        before = _find_condition(previous, condition["type"])
        event = _event(condition, before)
        if event is not None:
            events.append(event)
    active = status.get("configurationHash")
    if active and active != previous.get("configurationHash"):
        served = ", ".join(status.get("schedulerNames", ()))
        events.append(EventDraft("ConfigurationActive", f"Configuration {active} is running; it serves {served}"))
    return tuple(events)


def _available(findings: Findings) -> Condition:
    rollout = findings.rollout
    if rollout.available > 0:
        message = f"{rollout.available} of {rollout.desired} replicas are available"
        if findings.shortage:
            return Condition(AVAILABLE, True, FEWER_REPLICAS, f"{findings.shortage}; {message}")
        return Condition(AVAILABLE, True, AS_EXPECTED, message)
    if not findings.running:
        return Condition(AVAILABLE, False, "Removed", "The scheduler is removed")
    if not rollout.exists:
        return Condition(AVAILABLE, False, "NotDeployed", "There is no Deployment yet")
    return Condition(AVAILABLE, False, "NoReplicaAvailable", f"None of {rollout.desired} replicas is available")


def _progressing(findings: Findings) -> Condition:
    rollout, decision = findings.rollout, findings.decision
    if findings.removing:
        return Condition(PROGRESSING, True, "Removing", "The scheduler and its objects are being deleted")
    if findings.hold:
        return Condition(PROGRESSING, False, findings.hold, f"managementState is {findings.hold}: nothing is changed")
    if not findings.running:
        return Condition(PROGRESSING, False, AS_EXPECTED, "Nothing is left to remove")
    if decision is None:
        return Condition(PROGRESSING, False, "Blocked", "Nothing can be rolled out; see the condition Degraded")
    if decision.canary is not None:
        message = f"A canary is proving {decision.wanted}: {decision.stage}"
        return Condition(PROGRESSING, True, "Proving", message[:_CONDITION_LIMIT])
    wanted = decision.target.revision.configuration
    if not rollout.exists or rollout.template_hash != wanted:
        return Condition(PROGRESSING, True, "RollingOut", f"Configuration {wanted} is about to be rolled out")
    if not rollout.complete:
        counts = f"{rollout.updated} of {rollout.desired} replicas updated, {rollout.available} available"
        return Condition(PROGRESSING, True, "RollingOut", f"Configuration {wanted}: {counts}")
    if not rollout.settled:
        reason = "WaitingForReport" if rollout.reports else "WaitingForLeader"
        return Condition(PROGRESSING, True, reason, f"Configuration {wanted}: {rollout.missing}")
    if decision.finished is None and decision.refused is None:
        # The Deployment that is there has another image, and the same configuration.
        return Condition(PROGRESSING, True, "RollingOut", f"{decision.target.revision} is about to be rolled out")
    return Condition(PROGRESSING, False, AS_EXPECTED, f"Configuration {wanted} is rolled out")


def _degraded(findings: Findings) -> Condition:
    if findings.problems:
        text = "; ".join(problem.message for problem in findings.problems)
        return Condition(DEGRADED, True, findings.problems[0].reason, text[:_CONDITION_LIMIT])
    effective = findings.selection.effective if findings.selection else None
    warnings = [*findings.warnings, *(effective.warnings if effective else ())]
    text = f"Warnings: {'; '.join(warnings)}" if warnings else ""
    return Condition(DEGRADED, False, AS_EXPECTED, text[:_CONDITION_LIMIT])


def _upgradeable(findings: Findings, last: Json) -> Condition:
    """Whether now is a time to change something else, too."""
    if not findings.running or last.get("outcome") in (None, SUCCEEDED):
        return Condition(UPGRADEABLE, True, AS_EXPECTED, "")
    if last["outcome"] == IN_PROGRESS:
        return Condition(UPGRADEABLE, False, "RollingOut", "A rollout is in progress; see status.lastRollout")
    return Condition(UPGRADEABLE, False, last["outcome"], "The last rollout failed; see status.lastRollout")


def _last_rollout(findings: Findings, previous: Json) -> Json:
    """The desired revision and how far its rollout is; the previous report where nothing was decided."""
    decision = findings.decision
    if decision is None or findings.hold:
        return dict(previous.get("lastRollout") or {})
    revision, message = decision.target.revision, ""
    if decision.canary is not None:
        revision, message = decision.wanted, f"A canary is proving it: {decision.stage}"
        outcome, time = IN_PROGRESS, decision.canary.at
    elif decision.refused is not None:
        revision, message = decision.wanted, decision.refused.message
        outcome, time = decision.refused.reason, decision.refused.at
    elif decision.finished is not None:
        outcome, time = SUCCEEDED, decision.finished.at
    else:
        outcome, time, message = IN_PROGRESS, decision.target.at, "The scheduler is being updated"
    return {
        "configurationHash": revision.configuration,
        "image": revision.image,
        "outcome": outcome,
        "message": message[:_CONDITION_LIMIT],
        "time": _written(time),
    }


def _load_data_fresh(observed: Observed, findings: Findings) -> Condition:
    if findings.rollout.available == 0:
        message = "No scheduler is available to report on load data"
        return Condition(LOAD_DATA_FRESH, None, "SchedulerNotRunning", message)
    annotations = lease_annotations(observed)
    message = annotations.get(names.ANNOTATION_LOAD_MESSAGE, "")
    match annotations.get(names.ANNOTATION_LOAD_FRESH):
        case "true":
            return Condition(LOAD_DATA_FRESH, True, "Fresh", message)
        case "false":
            return Condition(LOAD_DATA_FRESH, False, "Stale", message or "The scheduler reports stale load data")
        case _:
            explanation = (
                "The scheduler reports nothing about load data: "
                "no enabled plugin needs it, or the image does not report it"
            )
            return Condition(LOAD_DATA_FRESH, None, "NotReported", explanation)


def _nodes_overcommitted(observed: Observed, findings: Findings) -> Condition:
    if findings.rollout.available == 0:
        message = "No scheduler is available to report on over-committed nodes"
        return Condition(NODES_OVERCOMMITTED, None, "SchedulerNotRunning", message)
    annotations = lease_annotations(observed)
    message = annotations.get(names.ANNOTATION_OVERCOMMITTED_MESSAGE, "")[:_CONDITION_LIMIT]
    match annotations.get(names.ANNOTATION_OVERCOMMITTED):
        case "true":
            explanation = message or "The scheduler reports over-committed nodes"
            return Condition(NODES_OVERCOMMITTED, True, "Overcommitted", explanation)
        case "false":
            return Condition(NODES_OVERCOMMITTED, False, AS_EXPECTED, message)
        case _:
            explanation = "The scheduler has not reported on over-committed nodes yet, or the image does not"
            return Condition(NODES_OVERCOMMITTED, None, "NotReported", explanation)


def _version_current(observed: Observed, findings: Findings) -> Condition:
    if findings.rollout.available == 0:
        message = "No scheduler is available to report which Kubernetes version it behaves as"
        return Condition(VERSION_CURRENT, None, "SchedulerNotRunning", message)
    version = _running_version(observed, findings).get("kubernetesVersion")
    if version is None:
        explanation = "The scheduler does not report which Kubernetes version it behaves as: the image is not ours"
        return Condition(VERSION_CURRENT, None, "NotReported", explanation)
    changed = lease_annotations(observed).get(names.ANNOTATION_VERSION_MESSAGE, "")[:_CONDITION_LIMIT]
    if changed:
        return Condition(VERSION_CURRENT, False, "ClusterChanged", changed)
    return Condition(VERSION_CURRENT, True, AS_EXPECTED, f"The scheduler behaves as kube-scheduler {version}")


def _cache_current(observed: Observed, findings: Findings) -> Condition:
    if findings.rollout.available == 0:
        message = "No scheduler is available to report whether it knows the cluster as it is"
        return Condition(CACHE_CURRENT, None, "SchedulerNotRunning", message)
    annotations = lease_annotations(observed)
    message = annotations.get(names.ANNOTATION_CACHE_MESSAGE, "")[:_CONDITION_LIMIT]
    match annotations.get(names.ANNOTATION_CACHE_CURRENT):
        case "true":
            return Condition(CACHE_CURRENT, True, LISTED_ANEW if message else AS_EXPECTED, message)
        case "false":
            explanation = message or "The scheduler reports that the cluster went back to an older state"
            return Condition(CACHE_CURRENT, False, "EtcdRestored", explanation)
        case _:
            explanation = "The scheduler does not report whether the cluster went back to an older state"
            return Condition(CACHE_CURRENT, None, "NotReported", explanation)


def _running_version(observed: Observed, findings: Findings) -> Json:
    """The version that the scheduler's profiles behave as, if it says so."""
    if not (findings.rollout.reports and findings.rollout.available):
        return {}
    version = lease_annotations(observed).get(names.ANNOTATION_VERSION, "")[:_CONDITION_LIMIT]
    return {"kubernetesVersion": version} if version else {}


def _running_configuration(findings: Findings, previous: Json) -> Json:
    """Hash and scheduler names of what runs; during a rollout the former ones, as long as a scheduler is there."""
    rollout = findings.rollout
    effective = findings.selection.effective if findings.selection else None
    if rollout.settled and rollout.template_hash:
        result: Json = {"configurationHash": rollout.template_hash}
        if effective is not None and effective.hash == rollout.template_hash:
            result["schedulerNames"] = list(effective.scheduler_names)
        elif "schedulerNames" in previous:
            result["schedulerNames"] = previous["schedulerNames"]
        return result
    if rollout.available == 0:
        return {}
    return {key: previous[key] for key in ("configurationHash", "schedulerNames") if key in previous}


def _with_transition_time(observed: Observed, previous: Json, condition: Condition) -> Json:
    before = _find_condition(previous, condition.type)
    now = _written(observed.now)
    unchanged = before is not None and before["status"] == condition.status_text
    return {
        "type": condition.type,
        "status": condition.status_text,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": before["lastTransitionTime"] if before is not None and unchanged else now,
    }


def _written(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _event(condition: Json, before: Json | None) -> EventDraft | None:
    kind, status, reason, message = (condition[key] for key in ("type", "status", "reason", "message"))
    was = before["status"] if before else "Unknown"
    if kind == DEGRADED and status == "True":
        # A message about the configuration names a place in it: a new place is news. Others only change their wording.
        news = was != status or before is None or before["reason"] != reason
        if news or (reason.startswith("Config") and before is not None and before["message"] != message):
            return EventDraft(reason, message, warning=True)
    elif kind == REBALANCER_READY and status == "False" and reason not in PASSING_REASONS:
        if was != status or before is None or before["reason"] != reason:
            return EventDraft(f"Rebalancer{reason}", message, warning=True)
    elif kind == CACHE_CURRENT and status != "Unknown":
        # It may be over before it is seen: then the message tells that it happened.
        if message and (before is None or before["message"] != message):
            return EventDraft("EtcdRestored", message, warning=True)
    elif was != status:
        changes = {
            (REBALANCER_READY, was, "True"): EventDraft("RebalancerReady", message),
            (DEGRADED, "True", "False"): EventDraft("Recovered", "All problems are resolved"),
            (AVAILABLE, was, "True"): EventDraft("Available", message),
            (AVAILABLE, "True", "False"): EventDraft("Unavailable", message, warning=True),
            (LOAD_DATA_FRESH, was, "False"): EventDraft("LoadDataStale", message, warning=True),
            (VERSION_CURRENT, was, "False"): EventDraft("KubernetesVersionChanged", message, warning=True),
            (VERSION_CURRENT, "False", "True"): EventDraft("KubernetesVersionFollowed", message),
            (NODES_OVERCOMMITTED, was, "True"): EventDraft("NodesOvercommitted", message, warning=True),
            (NODES_OVERCOMMITTED, "True", "False"): EventDraft("NodesWithinCapacity", "No node is over-committed now"),
            (LOAD_DATA_FRESH, "False", "True"): EventDraft("LoadDataFresh", message or "Load data is fresh again"),
        }
        return changes.get((kind, was, status))
    return None


def _find_condition(status: Json, condition_type: str) -> Json | None:
    for condition in status.get("conditions") or []:
        if condition["type"] == condition_type:
            return dict(condition)
    return None


def _is_unchanged(previous: Json, status: Json) -> bool:
    ours = set(status) | {"configurationHash", "schedulerNames", "kubernetesVersion", "lastRollout", "rebalancer"}
    for key in ours - {"conditions"}:
        if previous.get(key) != status.get(key):
            return False
    # Those of a rebalancer come and go.
    for kind in (REBALANCER_READY, REBALANCING):
        if _find_condition(previous, kind) != _find_condition(status, kind):
            return False
    return all(_find_condition(previous, condition["type"]) == condition for condition in status["conditions"])
