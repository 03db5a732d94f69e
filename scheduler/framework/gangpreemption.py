"""PostFilter for a whole gang: what a preempting plugin is asked, what it may try, and what it answers."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from scheduler.framework.cycle import CycleState, Work
from scheduler.framework.handle import Preemptor
from scheduler.framework.interface import Plugin
from scheduler.framework.objects import PodInfo
from scheduler.framework.status import Status
from scheduler.framework.view import NodeView


class GangAssignment(NamedTuple):
    """A member, and the node that it was given in a trial."""

    pod: PodInfo
    node: str


class GangTrial(Struct, frozen=True):
    """What came of placing a gang on some view.

    Attributes:
        assignments: the members that fit, in the order in which they were placed.
        status: Success where they are enough.
    """

    assignments: tuple[GangAssignment, ...]
    status: Status


class GangTrials(Protocol):
    """Places a gang on views with fewer pods, as the attempt would place it on the cluster. Asks no extender.

    Its methods raise OverBudgetError where that is more work than the attempt may be.
    """

    def place(self, view: NodeView, before: NodeView) -> Iterator[GangTrial]:
        """Place the members that have no node on a view; once for each domain that is worth a look, where the gang is
        not placed by score, those first where the view `before` pods were taken away had room for most members."""

    def prepare(self, view: NodeView, pod: PodInfo) -> tuple[CycleState, bool] | None:
        """Return a member's state for filters that look at the node alone, and whether there are others, which are left
        out; None where PreFilter rejects the member on this view, or fails."""

    def still_fit(self, view: NodeView, assignments: Sequence[GangAssignment]) -> bool:
        """Tell whether each of some members passes the filters of the node that it was given, beside the ones before
        it; the view has none of them."""


class GangPostFilterResult(Struct, frozen=True):
    """What a gang waits for.

    Attributes:
        nominated: by UID the nodes of its members.
        victims: who is to be evicted for it now.
        awaits_others: whether others have to go: those, or some that are on their way already.
    """

    nominated: Mapping[str, str]
    victims: tuple[PodInfo, ...] = ()
    awaits_others: bool = True


@runtime_checkable
class GangPostFilter(Plugin, Protocol):
    """Implemented by a PostFilter plugin that also makes room for gangs (PodGroupPostFilter of kube-scheduler)."""

    @abstractmethod
    def post_filter_gang(
        self, preemptor: Preemptor, view: NodeView, trials: GangTrials, work: Work
    ) -> tuple[GangPostFilterResult | None, Status]:
        """Nominate the members of a gang that does not fit and start evicting, or say why preemption does not help.

        Raises:
            OverBudgetError: it is more work than the attempt may be.
        """

    @abstractmethod
    def preemption_for_gang(self, preemptor: Preemptor) -> str:
        """Say which pods are evicted for a gang, or why that did not help when it was tried last; "" where it was not
        tried, or that is forgotten."""
