"""What a rebalancer says of itself in its ConfigMap: written by the rebalancer, read by the operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import DecodeError, Raw, Struct, ValidationError, field, json

from scheduler.answers import API_VERSION

STATUS_KEY: Final = "status.json"
"""Of the ConfigMap."""
REBALANCING: Final = "Rebalancing"
"""The type of the rebalancer's only condition."""
_MAX_STATUS = 1 << 20
"""Characters of a ConfigMap's value, which others may have written."""


class StatusCondition(Struct, frozen=True, rename="camel"):
    """A condition as Kubernetes has them."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Workload(Struct, frozen=True):
    """The owner of a pod."""

    kind: str
    namespace: str
    name: str


class UnevennessChange(Struct, frozen=True):
    """The nodes' unevenness in percentage points; None where no load was known."""

    before: float | None
    after: float | None


class NodeLoads(Struct, frozen=True):
    """A node and its load in percent, by resource; None where it is unknown."""

    node: str
    before: Mapping[str, float | None]
    after: Mapping[str, float | None]


class MoveGain(Struct, frozen=True):
    """The points that a move gains, of those attainable, and the least that it has to gain."""

    points: int
    attainable: int
    minimum: int


class MoveStatus(Struct, frozen=True, rename="camel"):
    """A move of the last plan; `answer` is what the API server said to it."""

    pod: str
    uid: str
    source: NodeLoads = field(name="from")
    target: NodeLoads = field(name="to")
    equally_good_nodes: int
    gain: MoveGain
    share: str
    answer: str


class StoppedBy(Struct, frozen=True):
    """A rule that lets nothing be moved."""

    reason: str
    rule: int
    message: str


class PlanStatus(Struct, frozen=True, rename="camel"):
    """The last plan, its lists cut.

    Attributes:
        overloaded_nodes: how many nodes are overloaded; `overloaded` names the first ones.
        not_moved: how many pods stay, by the reason.
    """

    time: str | None
    pods: int
    overloaded: tuple[str, ...]
    overloaded_nodes: int
    spread: UnevennessChange
    moves: tuple[MoveStatus, ...]
    stopped: tuple[StoppedBy, ...]
    not_moved: Mapping[str, int]


class PastMoveStatus(Struct, frozen=True, rename="camel"):
    """A move that was asked for; `outcome` is None until it has ended."""

    pod: str
    workload: Workload
    source: str = field(name="from")
    target: str = field(name="to")
    begun_at: str | None
    ended_at: str | None
    outcome: str | None
    detail: str


class RebalanceStatus(Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag=True):
    """The whole status.

    Attributes:
        mode, effective_mode: as it was set, and as it is now: Predictive where Automatic was stopped.
        moves: the newest first.
    """

    api_version: str = API_VERSION
    mode: str
    effective_mode: str
    configuration_hash: str
    conditions: tuple[StatusCondition, ...]
    last_plan: PlanStatus | None
    moves: tuple[PastMoveStatus, ...]


class ReportedStatus(Struct, frozen=True, rename="camel"):
    """What the operator reads of it. Each part is decoded by itself, so that a wrong one does not hide the others."""

    effective_mode: Raw = Raw(b"null")
    conditions: Raw = Raw(b"null")

    @property
    def mode_in_effect(self) -> str:
        """The effective mode; "" where none is readable."""
        try:
            return json.decode(self.effective_mode, type=str)
        except ValidationError:
            return ""

    @property
    def condition(self) -> StatusCondition | None:
        """The first condition of the type `REBALANCING`; None where none is readable."""
        return next((condition for condition in self._conditions() if condition.type == REBALANCING), None)

    def _conditions(self) -> Iterator[StatusCondition]:
        try:
            conditions = json.decode(self.conditions, type=list[Raw])
        except ValidationError:
            return
        for condition in conditions:
            try:
                yield json.decode(condition, type=StatusCondition)
            except ValidationError:
                continue


def read_status(text: str) -> ReportedStatus:
    """Return what a rebalancer reported; nothing of a text that is too long or no JSON object."""
    if len(text) > _MAX_STATUS:
        return ReportedStatus()
    try:
        return json.decode(text, type=ReportedStatus)
    except (DecodeError, ValueError, RecursionError):
        return ReportedStatus()
