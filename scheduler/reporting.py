"""What a scheduler says of itself to whoever operates it: in the log, in Events about its Lease, and in annotations of
the Lease, from which the operator makes conditions of the custom resource."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from scheduler.catalog import (
    ANNOTATION_CACHE_CURRENT,
    ANNOTATION_CACHE_MESSAGE,
    ANNOTATION_CLUSTER_VERSION,
    ANNOTATION_CONFIGURATION_HASH,
    ANNOTATION_LOAD_FRESH,
    ANNOTATION_LOAD_MESSAGE,
    ANNOTATION_OVERCOMMITTED,
    ANNOTATION_OVERCOMMITTED_MESSAGE,
    ANNOTATION_UNREAD,
    ANNOTATION_VERSION,
    ANNOTATION_VERSION_MESSAGE,
)
from scheduler.clusterversion import cluster_text
from scheduler.config import Configuration
from scheduler.engine import EventRecorder, OvercommitReport, Regarding, versions_text
from scheduler.kube.client import EtcdRestores, KubeError, Reflector
from scheduler.kube.lease import LeaseElector
from scheduler.load import LoadStatus
from scheduler.options import LeaderElection

_MESSAGE_LIMIT, _NOTE_LIMIT = 512, 1000
log = structlog.get_logger(component="app")


def introduce(elector: LeaseElector, configuration: Configuration) -> None:
    """Put on the Lease what holds from the start: the configuration, whom it behaves as, that nothing was undone."""
    elector.set_annotation(ANNOTATION_CACHE_CURRENT, "true")
    elector.set_annotation(ANNOTATION_CACHE_MESSAGE, "")
    elector.set_annotation(ANNOTATION_CONFIGURATION_HASH, configuration.hash)
    elector.set_annotation(ANNOTATION_VERSION, versions_text(configuration))
    elector.set_annotation(ANNOTATION_VERSION_MESSAGE, "")
    elector.set_annotation(ANNOTATION_CLUSTER_VERSION, cluster_text(configuration.cluster_minor))


class Reporter:
    """Reports the states of one process; a state goes to log and Events once per change. Without leader election there
    is no Lease to annotate."""

    def __init__(
        self,
        recorder: EventRecorder,
        election: LeaderElection,
        scheduler_name: str,
        elector: LeaseElector | None,
        may_schedule: Callable[[], bool],
    ) -> None:
        """`may_schedule` says whether it is this replica that schedules: only that one records Events."""
        self._recorder = recorder
        self._lease = Regarding("Lease", election.namespace, election.name, "", "", "coordination.k8s.io/v1")
        self._scheduler_name = scheduler_name
        self._elector = elector
        self._may_schedule = may_schedule
        self._loads: dict[str, LoadStatus] = {}
        self._overcommitted = False
        self._failing: frozenset[str] = frozenset()
        self._failure_said = False

    def report_load(self, status: LoadStatus) -> None:
        """Say whether a source of load is fresh; on the Lease whether all are, and why not or why reads fail."""
        before = self._loads.get(status.source)
        self._loads[status.source] = status
        stale = [latest for latest in self._loads.values() if not latest.fresh]
        self._annotate(ANNOTATION_LOAD_FRESH, "false" if stale else "true")
        # Of sources that are fresh still, that reads fail: it shows before their samples are too old.
        messages = [latest.message for latest in (stale or self._loads.values()) if latest.message]
        self._annotate(ANNOTATION_LOAD_MESSAGE, messages[0] if messages else "")
        if before is not None and before.fresh == status.fresh:
            return
        if status.fresh:
            log.info("load data are fresh", source=status.source, age=round(status.age_seconds, 1))
            self._record("Normal", "LoadDataFresh", "ReadLoad", f"{status.source} answers again")
        else:
            log.warning("load data are not fresh; pods are placed without them", reason=status.message)
            self._record("Warning", "LoadDataStale", "ReadLoad", f"Pods are placed without load data: {status.message}")

    def report_version(self, note: str) -> None:
        """Say that the profiles do not behave as the cluster any more; with an empty note, that they do again."""
        self._annotate(ANNOTATION_VERSION_MESSAGE, note)
        if note:
            self._record("Warning", "KubernetesVersionChanged", "ReadVersion", note)

    def report_overcommits(self, report: OvercommitReport) -> None:
        """Say whether nodes are over-committed."""
        self._annotate(ANNOTATION_OVERCOMMITTED, "true" if report.overcommitted else "false")
        self._annotate(ANNOTATION_OVERCOMMITTED_MESSAGE, report.message)
        if self._overcommitted == report.overcommitted:
            return
        self._overcommitted = report.overcommitted
        if report.overcommitted:
            log.warning("nodes are over-committed", reason=report.message)
            self._record("Warning", "NodesOvercommitted", "CompareNodes", report.message)
        else:
            log.info("no node is over-committed any more")
            self._record("Normal", "NodesWithinCapacity", "CompareNodes", "No node is over-committed any more")

    def report_restore(self, restores: EtcdRestores) -> None:
        """Say that the cluster went back to an older state, and what has become of it; `EtcdRestores` logs it."""
        self._annotate(ANNOTATION_CACHE_CURRENT, "true" if restores.current else "false")
        self._annotate(ANNOTATION_CACHE_MESSAGE, restores.message)
        if not restores.pending:
            self._record("Warning", "EtcdRestored", "ListAnew", restores.message[:_NOTE_LIMIT])

    def report_unread(self, reflectors: Mapping[str, Reflector[Any, Any]]) -> None:
        """Write on the Lease which resources the decisions go without, and why."""
        states = {name: reflector.state for name, reflector in reflectors.items()}
        absent = [f"{name} (not served)" for name, state in states.items() if state.absent]
        unread = [f"{name} (refused)" for name, state in states.items() if state.unread]
        self._annotate(ANNOTATION_UNREAD, ", ".join((*absent, *unread)) or None)

    def report_failing(self, reflectors: Mapping[str, Reflector[Any, Any]]) -> None:
        """Say in the log that lists and watches fail, when some did so in the report before, too; and when none does
        any more. Refusals are `report_refusal`'s."""
        failing = {
            name: each.state.error
            for name, each in reflectors.items()
            if each.state.error is not None
            and each.refusal is None
            and not (each.state.watching or each.state.absent or each.state.unread)
        }
        lasting = sorted(self._failing & failing.keys())
        self._failing = frozenset(failing)
        if lasting and not self._failure_said:
            self._failure_said = True
            log.warning(
                "watches fail: what changes in the cluster is not known until they work again",
                resources=", ".join(lasting),
                reason=str(failing[lasting[0]]),
            )
        elif self._failure_said and not failing:
            self._failure_said = False
            log.info("watches work again")

    def report_refusal(self, resource: str, error: KubeError | None, unread: bool) -> None:
        """Say that the API server refuses a watch, or allows it again. Called once per change.

        Args:
            resource: whose watch it is.
            error: why; None where the watch is allowed again.
            unread: whether the resource was never read, so that there is no copy.
        """
        if error is None:
            log.info("a watch is allowed again", resource=resource)
            return
        if unread:
            remedy = "give the scheduler's ServiceAccount list and watch on it, or disable the plugins that read it"
            log.warning(
                f"a resource may not be read: pods are placed without it; {remedy}",
                resource=resource,
                reason=str(error),
            )
        else:
            log.warning("a watch is refused: its copy grows old", resource=resource, reason=str(error))
        effect = f"Decisions are made without {resource}" if unread else f"Decisions rest on an old copy of {resource}"
        self._record("Warning", "WatchRefused", "Watch", f"{effect}: {error}"[:_NOTE_LIMIT])

    def _annotate(self, name: str, value: str | None) -> None:
        if self._elector:
            self._elector.set_annotation(name, value[:_MESSAGE_LIMIT] if value is not None else None)

    def _record(self, kind: str, reason: str, action: str, note: str) -> None:
        if self._may_schedule():
            self._recorder.record(self._lease, self._scheduler_name, kind, reason, action, note)
