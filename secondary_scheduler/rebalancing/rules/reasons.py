"""Why a pod is not moved, or a round is not made: by a name for programs, the number of its rule, and words."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Reason(enum.StrEnum):
    """Names in the output and in metrics. `rule` is 0 for what a setting says, not a safety rule."""

    rule: int
    words: str

    def __new__(cls, value: str, rule: int, words: str) -> Reason:
        """Make a member that is the name and bears the rest."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.rule, member.words = rule, words
        return member

    # The pod itself.
    OTHER_SCHEDULER = "otherScheduler", 1, "another scheduler would place its replacement"
    NOT_READY = "notReady", 1, "not running and ready"
    TERMINATING = "terminating", 1, "being deleted"
    NO_REPLACEMENT = "noReplacement", 1, "no controller is known to replace it"
    GANG = "gang", 1, "placed together with other pods"
    GATED = "gated", 1, "has scheduling gates"
    QUEUED = "queued", 1, "its replacement would wait in a queue"
    CRITICAL = "critical", 1, "has a priority of the system"
    SYSTEM_NAMESPACE = "systemNamespace", 1, "in a namespace of the system, or of the scheduler"
    UNKNOWN = "unknown", 1, "its object could not be read whole"
    NOT_SELECTED = "notSelected", 0, "not selected by namespaces or podSelector"
    OPTED_OUT = "optedOut", 0, "an annotation forbids it"
    PRIORITY = "priority", 0, "priority at or above priorityThreshold"
    LOCAL_STORAGE = "localStorage", 0, "would lose local storage (evictLocalStorage)"
    VOLUMES = "volumes", 0, "has persistent volumes"
    DEVICES = "devices", 0, "has claimed devices"
    JOB = "job", 0, "of a Job (evictJobs)"
    NO_BUDGET = "noBudget", 0, "no PodDisruptionBudget covers it (evictPodsWithoutPDB)"
    BUDGET = "disruptionBudget", 4, "its PodDisruptionBudgets allow no eviction"
    TOO_YOUNG = "tooYoung", 0, "younger than minPodAgeSeconds"
    FEW_REPLICAS = "fewReplicas", 0, "fewer pods than minReplicas"
    # The plan.
    NODE_NOT_OVERLOADED = "nodeNotOverloaded", 2, "its node is not overloaded"
    NOT_LONG_ENOUGH = "notLongEnough", 2, "its node was not overloaded for long enough"
    NODE_IS_LEFT_ALONE = "nodeIsLeftAlone", 2, "its node is cordoned, or about to be removed"
    NO_SHARE = "noShare", 2, "its share of the load is not known"
    EXTENDER = "extender", 2, "an extender would be asked about it"
    STAYS = "stays", 2, "the scheduler would put it back"
    FITS_NOWHERE = "fitsNowhere", 2, "the scheduler finds no node for it"
    UNSURE = "unsure", 2, "the scheduler would choose another node while the pod still runs"
    SMALL_GAIN = "smallGain", 2, "the other node is not enough better (minimumGain)"
    TARGET_OVERLOADED = "targetOverloaded", 2, "would overload the other node"
    TARGET_UNFIT = "targetUnfit", 2, "the other node is too new, or about to be removed"
    NO_BETTER_SPREAD = "noBetterSpread", 2, "would not make the load more even"
    STALE_LOAD = "staleLoad", 3, "without fresh load on one of both nodes"
    # The pace.
    NODE_SETTLING = "nodeSettling", 5, "a move from or to one of both nodes does not show in its load yet"
    MACHINE_MOVES = "machineMoves", 5, "a virtual machine is being moved from or to one of both nodes"
    IN_FLIGHT = "inFlight", 5, "a pod of its workload is being moved"
    UNSETTLED = "unsettled", 5, "its workload rolls out, scales, or has pods that are not ready"
    LIMIT = "limit", 6, "evictionLimits of this interval are used up"
    COOLDOWN = "cooldown", 7, "its workload was moved lately"
    MOVED = "moved", 7, "moved in this plan already"
    NOT_TRIED = "notTried", 2, "not tried: enough pods of its node, or of the cluster, were"
    # The round.
    NO_LOAD = "noLoad", 3, "no load of any node"
    LOAD_NOT_FRESH = "loadNotFresh", 3, "fresh load on too few nodes"
    NO_ROOM = "noRoom", 2, "no node has room"
    PREDICTION_FAILS = "predictionFails", 7, "the last moves did not land where they were to"
    SCHEDULER_UNAVAILABLE = "schedulerUnavailable", 8, "the scheduler is not available, or rolls out"
    OTHER_CONFIGURATION = "otherConfiguration", 8, "the scheduler runs another configuration"
    PODS_PENDING = "podsPending", 8, "too many pods are pending"
    NODE_NOT_READY = "nodeNotReady", 8, "a node is not ready"


STOPPING = (
    Reason.NO_LOAD,
    Reason.LOAD_NOT_FRESH,
    Reason.NO_ROOM,
    Reason.PREDICTION_FAILS,
    Reason.SCHEDULER_UNAVAILABLE,
    Reason.OTHER_CONFIGURATION,
    Reason.PODS_PENDING,
    Reason.NODE_NOT_READY,
)
"""Those of a whole round."""


@dataclass(frozen=True, slots=True)
class MoveRefusal:
    """A rule that says no.

    Attributes:
        detail: the case, in words; may hold names of the cluster.
    """

    reason: Reason
    detail: str = ""

    @property
    def message(self) -> str:
        """The reason in words, with the case."""
        return f"{self.reason.words}: {self.detail}" if self.detail else self.reason.words
