"""Events about moves: on the pod that goes, and on the workload that it is of."""

from __future__ import annotations

import math
from collections.abc import Mapping

from scheduler.engine import EventRecorder, Regarding
from scheduler.framework import PodInfo
from scheduler.kube.model import Object
from secondary_scheduler.rebalancing import Move, Outcome, PastMove

CONTROLLER = "secondary-scheduler-rebalancer"
_API_VERSIONS = {"Job": "batch/v1", "ReplicationController": "v1"}
_REASONS = {
    Outcome.LANDED: "RebalanceLanded",
    Outcome.ELSEWHERE: "RebalanceElsewhere",
    Outcome.BACK: "RebalanceBack",
    Outcome.REFUSED: "RebalanceRefused",
    Outcome.EXPIRED: "RebalanceExpired",
}


class Announcer:
    """Writes them behind everything else."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def moved(self, move: Move, pod: PodInfo, workload: Object | None) -> None:
        """Say that a pod is evicted, and where its replacement is to go."""
        note = (
            f"evicts {move.pod} from {move.source.name} ({_loads(move.source.before)}); the scheduler prefers "
            f"{move.target.name} ({_loads(move.target.before)} → {_loads(move.target.after)}) by {move.gain.total} of "
            f"{move.gain.attainable} points"
        )
        node = Regarding("Node", "", move.target.name, "")
        self._record(Regarding("Pod", pod.namespace, pod.name, pod.uid), "Normal", "Rebalancing", note, node)
        owner = _regarding(move.workload, workload)
        if owner is not None:
            self._record(owner, "Normal", "Rebalancing", note, node)

    def ended(self, move: PastMove, node: str, workload: Object | None) -> None:
        """Say how a move ended."""
        owner = _regarding(move.workload, workload)
        if owner is None or move.outcome is None:
            return
        words = {
            Outcome.LANDED: f"the replacement of {move.pod} is on {node}, as planned",
            Outcome.ELSEWHERE: f"the replacement of {move.pod} is on {node}, not on {move.target} as planned",
            Outcome.BACK: f"the replacement of {move.pod} is on {node} again, not on {move.target} as planned",
            Outcome.REFUSED: f"{move.pod} was not evicted: {move.detail}",
            Outcome.EXPIRED: f"{move.pod} was not replaced within 10 minutes: {move.detail}",
        }
        kind = "Normal" if move.outcome is Outcome.LANDED else "Warning"
        self._record(owner, kind, _REASONS[move.outcome], words[move.outcome], None)

    def _record(self, regarding: Regarding, kind: str, reason: str, note: str, related: Regarding | None) -> None:
        self._recorder.record(regarding, CONTROLLER, kind, reason, "Rebalancing", note, related)


def _regarding(key: tuple[str, str, str], workload: Object | None) -> Regarding | None:
    """The workload as an Event names it; None where its object is not known, and so not its UID."""
    if workload is None:
        return None
    kind, namespace, name = key
    return Regarding(kind, namespace, name, workload.metadata.uid, api_version=_API_VERSIONS.get(kind, "apps/v1"))


def _loads(load: Mapping[str, float]) -> str:
    known = (f"{resource} {value:.0f} %" for resource, value in load.items() if not math.isnan(value))
    return ", ".join(known) or "load unknown"
