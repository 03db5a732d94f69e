"""A gang whose decision takes long takes turns with the pods behind it.

A gang of thousands of unlike members takes seconds to decide, and one scheduling loop decides everything: without
turns, every other pod would wait, and a tenant's gangs could keep the scheduler to themselves. Between two turns other
pods are decided as if the gang came after them, and leave the room that its members hold so far: they overtake the gang
in time, and take nothing from it. Those that go before it in the queue take what they want. What became of the cluster
meanwhile is judged again before the gang reserves anything (`scheduler.core.decide_gang`). The outcome is that of some
serial order, which the records name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import structlog
from msgspec.structs import replace

from scheduler.core import Placement, decide
from scheduler.engine.attemptlog import AttemptLog
from scheduler.engine.attempts import AttemptPipeline
from scheduler.engine.extending import AskingAttempt, AttemptOwner
from scheduler.engine.gangs import GangOutcome, Gangs
from scheduler.framework import FIRST_OF_EQUALS, Answered, Gang, PodInfo, RowArray, TurnQuestion, conclude
from scheduler.state import Overlay, QueuedPod, SchedulingQueue

TURN_SECONDS: Final = 0.020
"""A gang is decided for so long, then other pods are, in turn. Its second turn is twice as long, and so on: each begins
with columns for the kinds of its members, half a millisecond each on 5,000 nodes."""
_MAX_TURN_SECONDS: Final = 0.100
"""The second look at 1,000 members in the end takes as long."""
_NAMED: Final = 3
"""Pods placed between turns that the gang's record names."""
log = structlog.get_logger(component="gangs")


class GangTurns:
    """The one gang that is being decided in turns, if there is any. Methods run on the scheduling loop.

    Args:
        attempts, queue, gangs, pending, attempt_log: of the scheduling cycle, which is the owner.
    """

    def __init__(
        self,
        attempts: AttemptPipeline,
        queue: SchedulingQueue,
        gangs: Gangs,
        pending: Mapping[str, PodInfo],
        attempt_log: AttemptLog,
        owner: AttemptOwner,
    ) -> None:
        self._attempts = attempts
        self._queue = queue
        self._gangs = gangs
        self._pending = pending
        self._log = attempt_log
        self._owner = owner
        self._attempt: AskingAttempt | None = None
        self._head: QueuedPod | None = None
        self._turn_ends = 0.0
        self._is_next = False
        self._turns = 0
        self._holds: Overlay | None = None
        self._refused: list[QueuedPod] = []
        self._placed_between: list[str] = []

    @property
    def under_way(self) -> bool:
        """Whether a gang has turns left."""
        return self._attempt is not None

    def first_turn(self, members: Sequence[QueuedPod]) -> Callable[[], bool] | None:
        """Begin a gang's first turn; returns what tells that its turn is over, None where the gang has no turns: they
        are for one gang at a time, and not where it is decided as upstream. With extenders everybody waits for their
        answers anyway."""
        options = self._attempts.runner_of(members[0].pod).options
        if self._attempt is not None or self._attempts.extenders or options.compatibility != "safe":
            return None
        self._begin_turn(1)
        return self._is_over

    def _is_over(self) -> bool:
        return time.perf_counter() > self._turn_ends

    def _begin_turn(self, number: int) -> None:
        self._turn_ends = time.perf_counter() + min(_MAX_TURN_SECONDS, number * TURN_SECONDS)
        self._is_next = False

    def begin(self, attempt: AskingAttempt) -> None:
        """A gang has had its first turn, and asks for the next."""
        self._attempt, self._turns = attempt, 1
        self._head = min(attempt.members, key=self._queue.order)
        self._holds, self._refused, self._placed_between = None, [], []

    # The gang's turn ------------------------------------------------------------------------------------------------

    def take_turn(self) -> bool:
        """Go on with the gang if it is its turn; False where it is the others' turn."""
        attempt = self._attempt
        if attempt is None or self._head is None:
            return False
        self._is_next = not self._is_next
        if self._is_next or self._queue.next_is_before(self._head):
            return False
        self._holds = None
        assert attempt.gang is not None
        if change := self._gangs.change_of(attempt.gang, attempt.members, self._pending):
            self._owner.fail_gang(attempt, change)
            self._end()
            return True
        self._turns += 1
        self._begin_turn(self._turns)
        try:
            question = attempt.steps.send(Answered(None, self._attempts.snapshot()))
            self._attempt = replace(attempt, question=question)
        except StopIteration:
            self._end()
        except Exception as error:
            self._owner.members_raised(attempt, error)
            self._end()
        return True

    def give_back(self) -> None:
        """End the gang's attempt as if it had not begun: something goes before it, or this process decides nothing any
        more."""
        attempt = self._attempt
        if attempt is not None:
            self._owner.return_untried(attempt)
            self._end()

    def _end(self) -> None:
        """Let those be tried again that only the gang's members kept from a node."""
        refused, self._refused = self._refused, []
        self._attempt = self._holds = None
        for queued in refused:
            self._owner.put_back(queued)

    def record(self, gang: Gang, outcome: GangOutcome) -> None:
        """Say in the records of a gang that was decided in turns which pods were placed in between."""
        if self._attempt is None or not outcome.placed:
            return
        names, count = self._placed_between[:_NAMED], len(self._placed_between)
        text = f"decided in {self._turns} turns, no pod was placed in between"
        if count:
            others = f" and {count - len(names)} more" if count > len(names) else ""
            text = f"decided in {self._turns} turns, after {', '.join(names)}{others} that came in between"
        log.info("gang was decided in turns", gang=gang.name, turns=self._turns, placedBetween=count, first=names)
        for placed in outcome.placed:
            self._log.remarked(placed.pod.uid, text)

    # The others' turn -----------------------------------------------------------------------------------------------

    def comes_later(self, queued: QueuedPod, gang: Gang | None) -> bool:
        """Tell whether a popped pod waits until the gang's attempt ends: its own gang would want the same room. One
        that goes before the gang does so, and the attempt begins again after it."""
        if self._attempt is None or gang is None:
            return False
        if self._goes_first(queued):
            self.give_back()
            return False
        self._refused.append(queued)
        return True

    def beside(self, queued: QueuedPod, placement: Placement) -> Placement | None:
        """Return the placement of a pod where it takes nothing from the gang's members, elsewhere if need be; None
        where it waits until the gang's attempt ends. A pod that goes before the gang takes what it wants."""
        if self._attempt is None or placement.node is None or self._goes_first(queued):
            return placement
        assert self._attempt.gang is not None
        holds = self._view_with_holds()
        row = holds.row(placement.node)
        if self._judged(holds, placement.pod, row) is None:
            chosen = self._on_rows(holds, placement.pod, holds.rows)
            # Its node may suit it only because of a member that is there for the time being.
            alone = None
            if chosen.node is not None:
                snapshot = self._attempts.snapshot()
                alone = self._judged(snapshot.overlay(), placement.pod, snapshot.row(chosen.node))
            if alone is None:
                self._refused.append(queued)
                return None
            placement = chosen.prepared_by(alone)
        self._holds = None
        self._placed_between.append(placement.pod.key)
        note = f"placed between turns of {self._attempt.gang.name}, beside the nodes that its members hold"
        return replace(placement, remark=f"{placement.remark}; {note}" if placement.remark else note)

    def _goes_first(self, queued: QueuedPod) -> bool:
        assert self._head is not None
        return bool(self._queue.order(queued) < self._queue.order(self._head))

    def _view_with_holds(self) -> Overlay:
        """Return the cluster with the gang's members on the nodes that they hold so far."""
        if self._holds is None:
            assert self._attempt is not None
            assert isinstance(self._attempt.question, TurnQuestion)
            self._holds = holds = self._attempts.snapshot().overlay()
            held = ((holds.row(node), pod) for pod, node in self._attempt.question.holds)
            holds.add_pods([(row, pod) for row, pod in held if row >= 0])
        return self._holds

    def _judged(self, view: Overlay, pod: PodInfo, row: int) -> Placement | None:
        """Return the pod's placement on one node; None where it does not fit there."""
        placement = self._on_rows(view, pod, np.array([row], dtype=np.intp))
        return None if placement.node is None else placement

    def _on_rows(self, view: Overlay, pod: PodInfo, rows: RowArray) -> Placement:
        view.narrow(rows)
        return conclude(decide(view, pod, self._attempts.runner_of(pod), FIRST_OF_EQUALS))
