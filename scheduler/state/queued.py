"""A pod in the queue, and where a pod can be."""

from enum import IntEnum
from typing import Literal

from msgspec import Struct, field

from scheduler.framework import MonotonicSeconds, PodInfo, WallSeconds

QueueName = Literal["active", "backoff", "unschedulable", "gated", "in-flight"]


class Requeue(IntEnum):
    """What an event means for a pod, in rising order of urgency."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class QueuedPod(Struct, eq=False):
    """A pod waiting or in flight (upstream's QueuedPodInfo).

    Attributes:
        pod: the newest state known.
        timestamp: when it was last queued, which gives the order.
        queued_at: the same moment, by which it waits.
        attempts: how often it was popped.
        unschedulable_count: attempts that ended in a rejection.
        consecutive_errors: attempts in a row that ended in an error.
        initial_attempt_at: when it first became active; None before. May give the order.
        first_active_at: the same moment, from which it is measured how long the pod took.
        unschedulable_plugins: who rejected it last.
        pending_plugins: who rejected it last with Pending: they wake it without back-off.
        gating_plugin: who keeps it from becoming active, or "".
        gate_message: what that plugin says.
        may_pass: whether that plugin was seen to let it pass, at an event that did not help it otherwise.
        flushed: whether it is tried because no event woke it for long.
    """

    pod: PodInfo
    timestamp: WallSeconds
    queued_at: MonotonicSeconds
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    initial_attempt_at: WallSeconds | None = None
    first_active_at: MonotonicSeconds | None = None
    unschedulable_plugins: frozenset[str] = field(default_factory=frozenset)
    pending_plugins: frozenset[str] = field(default_factory=frozenset)
    gating_plugin: str = ""
    gate_message: str = ""
    may_pass: bool = False
    flushed: bool = False

    @property
    def gated(self) -> bool:
        """Tell whether a PreEnqueue plugin parks it."""
        return bool(self.gating_plugin)

    @property
    def rejectors(self) -> frozenset[str]:
        """Return all plugins that rejected it last."""
        return self.unschedulable_plugins | self.pending_plugins
