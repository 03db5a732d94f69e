"""Which revision the Deployment runs: a new one only after a canary proved it, the previous one if it fails.

Everything is decided from what stands on the objects, so that an operator that was killed at any write goes on where
it was. See docs/operator.md for the states.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from secondary_scheduler.operator.reconcile import canary, names
from secondary_scheduler.operator.reconcile.configuration import InstanceProblem, active_copies
from secondary_scheduler.operator.reconcile.model import Json, Observed
from secondary_scheduler.operator.reconcile.revision import (
    Revision,
    RevisionTrial,
    Run,
    annotation_value,
    newest,
    read_run,
    read_trial,
)
from secondary_scheduler.operator.reconcile.workload import Rollout, permanent_failure, pods_of

CANARY_FAILED = "CanaryFailed"
ROLLED_BACK = "RolledBack"

CANARY_TIMEOUT = timedelta(seconds=180)
"""How long a canary may take; a scheduler may need two minutes to list a large cluster."""
RETRY_AFTER = timedelta(minutes=5)
"""A refusal may have been the cluster's fault."""
_ROLLOUT_TIMEOUT = timedelta(seconds=60)
_TIMEOUT_PER_REPLICA = timedelta(seconds=120)


@dataclass(frozen=True)
class RolloutDecision:
    """What to do about the revision that is wanted."""

    wanted: Revision
    target: Run
    """The desired revision of the Deployment, and since when it is desired."""
    canary: Run | None = None
    """The revision that a canary proves, and since when."""
    probe: bool = False
    """Whether the canary is ready for the pod that it has to bind."""
    stage: str = ""
    """How far the canary is, for people."""
    trial: RevisionTrial | None = None
    """How the last attempt at `wanted` ended, if it did."""
    finished: Run | None = None
    """`target`, and when it was found to run as it should; None while it has not been."""
    notes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Annotations of the copies of configurations, by the configuration's hash."""
    recheck: timedelta | None = None
    """After which time the decision may be another one though nothing changes."""

    @property
    def refused(self) -> RevisionTrial | None:
        """The last attempt at `wanted`, if it failed and `wanted` does not run."""
        trial = self.trial
        return trial if trial and trial.reason and self.target.revision.key != self.wanted.key else None

    @property
    def problem(self) -> InstanceProblem | None:
        """The failed attempt as a problem of the instance; None if there is none."""
        trial = self.refused
        if trial is None:
            return None
        again = f"{trial.at + RETRY_AFTER:%H:%M:%S} UTC"
        return InstanceProblem(
            trial.reason,
            f"{self.wanted} was rejected: {trial.message} ({self.target.revision} keeps running; the rejected one is "
            f"tried again when the spec or the configuration changes, and after {again})",
        )


def decide(observed: Observed, wanted: Revision, rollout: Rollout, *, prove: bool) -> RolloutDecision:
    """Choose between the desired revision, the one that runs and the previous one.

    Args:
        observed: everything that may be looked at; its annotations are the only memory.
        wanted: the desired revision.
        rollout: the state of the live Deployment.
        prove: whether a new revision needs a canary first.

    A live revision that does not run within its time is rolled back to the previous one, if there is one. A desired
    revision that failed is not tried again before `RETRY_AFTER`, unless the spec changes.

    These times are counted by the wall clock, as they have to outlive this process. A beginning that lies ahead of it
    says that the clock was set back: what it counts starts again, or a failure would go unnoticed for as long.
    """
    copies = {str(copy["metadata"]["name"]): copy for copy in active_copies(observed)}
    ran = [read_run(copy, names.ANNOTATION_RAN) for copy in copies.values()]
    trial = read_trial(copies.get(observed.names.active_config_map(wanted.configuration)))
    if trial is not None and (trial.key != wanted.key or (trial.at > observed.now and not trial.proven)):
        trial = None
    live = read_run(observed.get("Deployment", observed.names.operand), names.ANNOTATION_REVISION)
    if live is not None and live.at > observed.now:
        live = Run(live.revision, observed.now)
    if live is None:
        return _with_notes(_decide_first(observed, wanted, trial, ran), copies, observed, None)
    finished = next((run for run in ran if run and run.revision == live.revision and run.at >= live.at), None)
    if finished is None and rollout.settled:
        finished = Run(live.revision, observed.now)
    before = newest(run for run in ran if run and run.revision.key != live.revision.key)
    target, failure, left = live, "", None
    if finished is None and before is not None:
        left = live.at + _rollout_timeout(rollout) - observed.now
        failure = permanent_failure(_pods(observed, live.revision)) or (
            "" if left > timedelta() else _timeout_message(rollout, live)
        )
        if failure:
            target, left = Run(before.revision, observed.now), None
    if live.revision.key == wanted.key:
        if failure:
            trial = _failed_trial(observed, wanted, ROLLED_BACK, failure)
        elif finished is not None:
            trial = None
        decision = RolloutDecision(wanted, target, trial=trial, recheck=left)
    else:
        tried = any(run and run.revision == wanted for run in ran)
        # Without a scheduler that runs there is nothing to protect, and every second without one counts.
        prove = prove and not tried and rollout.available > 0
        decision = _decide_change(observed, RolloutDecision(wanted, target, trial=trial, recheck=left), prove=prove)
    return _with_notes(decision, copies, observed, None if failure else finished)


def _decide_first(
    observed: Observed, wanted: Revision, trial: RevisionTrial | None, ran: list[Run | None]
) -> RolloutDecision:
    """Choose where there is no Deployment (or one of an older operator): no running scheduler can be harmed."""
    before = newest(run for run in ran if run and run.revision.key != wanted.key)
    # Also after the Deployment was deleted by hand: a revision that just failed must not come back that way.
    revision = before.revision if before and trial and _is_still_refused(observed, trial) else wanted
    return RolloutDecision(wanted, Run(revision, observed.now), trial=trial)


def _decide_change(observed: Observed, now: RolloutDecision, *, prove: bool) -> RolloutDecision:
    """Choose where the desired revision is not the Deployment's; `now` is the decision without such a change."""
    wanted, trial = now.wanted, now.trial
    if trial is not None and _is_still_refused(observed, trial):
        return _wait_for_retry(observed, now, trial)
    if not prove or (trial is not None and trial.proven):
        return RolloutDecision(wanted, Run(wanted, observed.now), trial=trial)
    run = canary.current_run(observed, wanted)
    # A canary that is older than the last attempt belongs to that one: it must not pass or fail this one.
    if run is None or run.at > observed.now or (trial is not None and run.at <= trial.at):
        run = Run(wanted, observed.now)
    assessment = canary.assess(observed, run)
    left = run.at + CANARY_TIMEOUT - observed.now
    if assessment.proven:
        return RolloutDecision(wanted, Run(wanted, observed.now), trial=_passed_trial(observed, wanted))
    failure = assessment.failure or (
        "" if left > timedelta() else f"not proven within {CANARY_TIMEOUT.seconds} s: {assessment.stage}"
    )
    if failure:
        trial = _failed_trial(observed, wanted, CANARY_FAILED, f"the canary {observed.names.canary} failed: {failure}")
        return _wait_for_retry(observed, now, trial)
    recheck = min(left, now.recheck) if now.recheck is not None else left
    return RolloutDecision(wanted, now.target, run, assessment.ready, assessment.stage, trial, recheck=recheck)


def _wait_for_retry(observed: Observed, now: RolloutDecision, trial: RevisionTrial) -> RolloutDecision:
    left = trial.at + RETRY_AFTER - observed.now
    recheck = min(left, now.recheck) if now.recheck is not None else left
    return RolloutDecision(now.wanted, now.target, trial=trial, recheck=recheck)


def _is_still_refused(observed: Observed, trial: RevisionTrial) -> bool:
    recent = observed.now - trial.at < RETRY_AFTER
    return not trial.proven and recent and trial.generation == _generation(observed)


def _failed_trial(observed: Observed, revision: Revision, reason: str, message: str) -> RevisionTrial:
    return RevisionTrial(revision.key, observed.now, _generation(observed), reason, message)


def _passed_trial(observed: Observed, revision: Revision) -> RevisionTrial:
    return RevisionTrial(revision.key, observed.now, _generation(observed))


def _generation(observed: Observed) -> int:
    return int(observed.resource["metadata"].get("generation", 0))


def _rollout_timeout(rollout: Rollout) -> timedelta:
    return _ROLLOUT_TIMEOUT + _TIMEOUT_PER_REPLICA * max(1, rollout.desired)


def _timeout_message(rollout: Rollout, live: Run) -> str:
    progress = f"{rollout.updated} of {rollout.desired} replicas run it and {rollout.available} are available"
    if rollout.complete:
        progress = rollout.missing
    return f"it was not running within {_rollout_timeout(rollout).seconds} s: {progress}"


def _pods(observed: Observed, revision: Revision) -> list[Json]:
    return [
        pod
        for pod in pods_of(observed, observed.names.operand)
        if (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_REVISION) == revision.key
    ]


def _with_notes(
    now: RolloutDecision, copies: Mapping[str, Json], observed: Observed, finished: Run | None
) -> RolloutDecision:
    """What has to stand on the copies: who ran with which, and how the attempt at the wanted one ended."""
    notes: dict[str, dict[str, str]] = {}
    involved = {now.wanted.configuration, now.target.revision.configuration}
    for configuration in involved | ({finished.revision.configuration} if finished else set()):
        ran = read_run(copies.get(observed.names.active_config_map(configuration)), names.ANNOTATION_RAN)
        if finished is not None and finished.revision.configuration == configuration:
            ran = finished
        notes[configuration] = {names.ANNOTATION_RAN: annotation_value(ran)} if ran is not None else {}
    if now.trial is not None:
        notes[now.wanted.configuration][names.ANNOTATION_TRIAL] = annotation_value(now.trial)
    done = finished if finished is not None and finished.revision == now.target.revision else None
    return replace(now, finished=done, notes=notes)
