"""What a decision about a pod ends with."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from scheduler.core.feasible import FeasibleNodes
from scheduler.framework import Code, CodeArray, CycleState, Diagnosis, NodeCodes, PluginError, PodInfo
from scheduler.state import Snapshot


class Choice(NamedTuple):
    """The chosen row, its total, how many rows share it, how many were feasible and how many looked at."""

    row: int
    total: int
    best: int
    feasible: int
    evaluated: int


class Placement(Struct):
    """What became of one pod in one attempt.

    Attributes:
        pod: the pod.
        node: the chosen node; None when there is none.
        code: SUCCESS, UNSCHEDULABLE (rejected by `rejectors`) or ERROR.
        message: the FailedScheduling text without PostFilter's part; None on success.
        total: the chosen node's score; 0 where only one node was feasible, which is then not scored.
        evaluated: nodes that filters looked at.
        feasible: nodes that passed them.
        best: nodes that shared the best score.
        rejectors, pending: plugins that rejected the pod, and those of them that wait for something outside.
        diagnosis: who rejected which node; None on success and on an error.
        state: the cycle's state, for the extension points that follow.
        generation: of the node table the decision was made on.
        load_ages: seconds since each load source answered, as seen by the decision.
        failure: what a plugin raised, which knows plugin and extension point; None where none failed.
        remark: on success, which plugins stepped back; "" where none did.
    """

    pod: PodInfo
    node: str | None
    code: Code
    message: str | None
    state: CycleState
    total: int = 0
    evaluated: int = 0
    feasible: int = 0
    best: int = 0
    rejectors: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    diagnosis: Diagnosis | None = None
    generation: int = 0
    load_ages: Mapping[str, float] = field(default_factory=dict)
    failure: PluginError | None = None
    remark: str = ""

    @property
    def counters(self) -> Mapping[str, int]:
        """Return what plugins counted, for metrics."""
        return self.state.counters

    def prepared_by(self, decision: "Placement") -> "Placement":
        """Return this placement with what plugins prepared for Reserve in a later decision for the same node. What they
        counted stays: it was not scored again."""
        decision.state.counters = self.state.counters
        return replace(self, state=decision.state)

    def node_codes(self, snapshot: Snapshot) -> NodeCodes:
        """Return every node's status code: what PostFilter chooses candidates from.

        Raises:
            ValueError: the pod was not rejected.
        """
        if self.diagnosis is None:
            raise ValueError(f"pod {self.pod.key} was not rejected")
        everyone = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        if self.diagnosis.pre_filter is not None:
            everyone = self.diagnosis.pre_filter.code
        codes: CodeArray = np.full(snapshot.size, everyone, dtype=np.int8)
        for rejection in self.diagnosis.rejections:
            codes[rejection.rows] = rejection.codes
        return NodeCodes(snapshot, codes)


def placed(
    snapshot: Snapshot, pod: PodInfo, state: CycleState, choice: Choice, ages: Mapping[str, float], remark: str = ""
) -> Placement:
    """Return the placement of a pod on the node of a choice."""
    return Placement(
        pod,
        snapshot.name(choice.row),
        Code.SUCCESS,
        None,
        state,
        total=choice.total,
        evaluated=choice.evaluated,
        feasible=choice.feasible,
        best=choice.best,
        generation=snapshot.generation,
        load_ages=ages,
        remark=remark,
    )


def rejected(
    snapshot: Snapshot, pod: PodInfo, state: CycleState, filtered: FeasibleNodes, ages: Mapping[str, float]
) -> Placement:
    """Return the placement of a pod that fits nowhere."""
    rejectors, pending = filtered.diagnosis.rejectors()
    return Placement(
        pod,
        None,
        Code.UNSCHEDULABLE,
        filtered.diagnosis.message(),
        state,
        evaluated=filtered.evaluated,
        rejectors=rejectors,
        pending=pending,
        diagnosis=filtered.diagnosis,
        generation=snapshot.generation,
        load_ages=ages,
    )


def failed(
    snapshot: Snapshot, pod: PodInfo, state: CycleState, reason: str | PluginError, ages: Mapping[str, float]
) -> Placement:
    """Return the placement of an attempt that ended with an error: what a plugin raised, or a text."""
    failure = reason if isinstance(reason, PluginError) else None
    return Placement(
        pod, None, Code.ERROR, str(reason), state, generation=snapshot.generation, load_ages=ages, failure=failure
    )


def load_ages(snapshot: Snapshot) -> dict[str, float]:
    """Return, per load source, the seconds since its last answer; 0 where the answer has no time."""
    return {
        source: max(0.0, snapshot.now - load.timestamp) if load.timestamp else 0.0
        for source, load in snapshot.table.load_sources().items()
    }
