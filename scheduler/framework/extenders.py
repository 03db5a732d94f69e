"""Extenders: HTTP services of the cluster's administrator that have a say in a decision.

The core knows them as descriptions and as questions. A decision that needs an answer yields a question and is resumed
with the answer; who asks whom, and how, is the driver's business: the engine asks by HTTP, `simulate` reads recorded
answers, a test makes them up. So a decision stays pure.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field

from scheduler.config import Extender as ExtenderConfiguration
from scheduler.framework.objects import PodInfo
from scheduler.framework.view import NodeView

T = TypeVar("T")

EXTENDER = "Extender"
"""Upstream's name of the plugin that stands for all extenders among the rejectors of a pod: any event wakes the pod."""
SCORE_FACTOR = 10
"""By it an extender's score (0..10 by convention) becomes one of a plugin's range (0..100)."""


class ExtenderError(Exception):
    """An extender did not answer, answered nonsense, or says that it failed; one line for the pod's event."""


class Extender(Struct, frozen=True):
    """One extender, as the core needs it. An empty verb: it is not called for that.

    Attributes:
        url: urlPrefix of the configuration; names the extender in messages.
        weight: of its scores.
        cache_capable: it knows the nodes, so their names are enough for it.
        managed_resources: it is asked about pods that name one of these; about all pods where there are none.
        ignorable: its failures do not fail the attempt.
        index: its place in the configuration.
    """

    url: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    preempt_verb: str = ""
    weight: int = 0
    cache_capable: bool = False
    managed_resources: frozenset[str] = frozenset()
    ignorable: bool = False
    index: int = 0

    def is_interested(self, pod: PodInfo) -> bool:
        """Tell whether a container of the pod requests or limits a managed resource (IsInterested of kube-scheduler);
        an amount of zero counts."""
        managed = self.managed_resources
        if not managed:
            return True
        return any(not managed.isdisjoint(container.requests) for container in pod.spec.containers) or (
            not managed.isdisjoint(pod.spec.limits)
        )


def configured_extenders(extenders: Sequence[ExtenderConfiguration]) -> tuple[Extender, ...]:
    """Return extenders in calling order: as configured, the ignorable ones last (buildExtenders)."""
    built = [
        Extender(
            url=extender.url_prefix,
            filter_verb=extender.filter_verb,
            prioritize_verb=extender.prioritize_verb,
            bind_verb=extender.bind_verb,
            preempt_verb=extender.preempt_verb,
            weight=extender.weight,
            cache_capable=extender.node_cache_capable,
            managed_resources=frozenset(resource.name for resource in extender.managed_resources),
            ignorable=extender.ignorable,
            index=index,
        )
        for index, extender in enumerate(extenders)
    ]
    return tuple(sorted(built, key=lambda extender: extender.ignorable))


class FilterQuestion(Struct, frozen=True):
    """Which of these nodes may the pod run on?"""

    extender: Extender
    pod: PodInfo
    nodes: tuple[str, ...]


class FilterAnswer(Struct, frozen=True):
    """The nodes that are left, which are some of those asked about, and reasons for others; or an error.

    Attributes:
        unresolvable: reasons of nodes where removing pods does not help; goes before `failed`.
        unanswered: the error is not the extender's own: there is no answer, or none that can be read.
    """

    kept: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    unanswered: bool = False


class PrioritizeQuestion(Struct, frozen=True):
    """How good is each of these nodes for the pod? Put to several extenders at the same time."""

    extenders: tuple[Extender, ...]
    pod: PodInfo
    nodes: tuple[str, ...]


class PrioritizeAnswer(Struct, frozen=True):
    """What to add to the nodes' totals: weighted, of all extenders that answered, 0 for a node that none names.

    Attributes:
        errors: of those that did not answer, for the log: such an extender gives no scores.
        unanswered: these extenders.
    """

    scores: Mapping[str, int] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    unanswered: tuple[Extender, ...] = ()


class Victims(Struct, frozen=True):
    """Pods that would be evicted from a node, the most important first; `violations` of them break a
    PodDisruptionBudget."""

    pods: tuple[PodInfo, ...]
    violations: int


class PreemptQuestion(Struct, frozen=True):
    """On which of these nodes may pods be preempted, and which pods?"""

    extender: Extender
    pod: PodInfo
    victims: Mapping[str, Victims]


class PreemptAnswer(Struct, frozen=True):
    """UIDs of the victims by node, and how many break a PodDisruptionBudget; or an error."""

    victims: Mapping[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    error: str = ""


class TurnQuestion(Struct, frozen=True):
    """Whose turn is it? Asked by a long attempt, so that others are decided meanwhile.

    Attributes:
        holds: pods that the attempt has placed so far, and their nodes: room that those others leave.
    """

    holds: tuple[tuple[PodInfo, str], ...]


Question = FilterQuestion | PrioritizeQuestion | PreemptQuestion
Answer = FilterAnswer | PrioritizeAnswer | PreemptAnswer
"""A question is answered by the answer of its name."""


class Answered(Struct, frozen=True):
    """What a computation is resumed with: the answer, None where it had asked for its turn, and the cluster as it is by
    then. Nothing that was read from an earlier view is valid any more: nodes may have gone, and rows may hold other
    nodes."""

    answer: Answer | None
    view: NodeView


Asking = Generator[Question | TurnQuestion, Answered, T]
"""A computation that yields questions, is resumed with answers, and returns a result. One that was not told when its
turn is over (`Work`) asks extenders only."""


def to_extender(question: Question | TurnQuestion) -> Question:
    """Return the question of an attempt that has no turns."""
    assert not isinstance(question, TurnQuestion)
    return question


def conclude(asking: Asking[T]) -> T:
    """Return the result of a computation that has nothing to ask."""
    try:
        question = next(asking)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError(f"nobody is here to answer {question}")
