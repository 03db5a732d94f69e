"""The list of decisions with its filter, and every detail of one decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.answers import DecisionDetail, ScoredNode
from secondary_scheduler.views.nodes import page_of
from secondary_scheduler.views.runs import PodDecision, SimulationRun

_MAX_NAMESPACES = 1000


@dataclass(frozen=True, slots=True)
class Filter:
    """What is shown; an empty field lets everything pass.

    Attributes:
        text: part of the pod's name, its node's name or the message, in any case.
        plugin: that rejected a node.
    """

    text: str = ""
    result: str = ""
    namespace: str = ""
    plugin: str = ""

    def passes(self, decision: PodDecision) -> bool:
        """Tell whether a decision is shown."""
        if self.result not in ("", decision.result) or self.namespace not in ("", decision.namespace):
            return False
        if self.plugin and self.plugin not in rejectors_of(decision):
            return False
        wanted = self.text.casefold()
        return any(wanted in part.casefold() for part in (decision.pod, decision.node or "", decision.message or ""))


@dataclass(frozen=True, slots=True)
class Choices:
    """What the filter offers."""

    results: Counter[str]
    namespaces: tuple[str, ...]
    plugins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """One page of the list: `pages` is how many there are."""

    rows: Sequence[PodDecision]
    number: int
    page: int
    pages: int


@dataclass(frozen=True, slots=True)
class Bar:
    """One plugin's score of one node. `percent` of the longest bar in the table, for its length."""

    plugin: str
    raw: int
    normalized: int
    weighted: int
    percent: int


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A node that fits, with the scores in the order of the table's columns; None where a plugin gave none."""

    node: ScoredNode
    bars: tuple[Bar | None, ...]


@dataclass(frozen=True, slots=True)
class ScoreMatrix:
    """The scores of a decision: the plugins in the order they run, and a row per node, the chosen one first. `hidden`
    nodes that fit have no row."""

    plugins: tuple[str, ...]
    rows: tuple[MatrixRow, ...]
    hidden: int


@dataclass(frozen=True, slots=True)
class DecisionPage:
    """What the page of a decision shows.

    Attributes:
        earlier: other attempts before it, the last one first.
    """

    decision: PodDecision
    previous: int | None
    next: int | None
    earlier: Sequence[PodDecision]


def choices_of(run: SimulationRun) -> Choices:
    """Return what the filter of a run's decisions offers."""
    namespaces = {decision.namespace for decision in run.decisions}
    plugins = {plugin for decision in run.decisions for plugin in rejectors_of(decision)}
    return Choices(
        Counter(decision.result for decision in run.decisions),
        tuple(sorted(namespaces)[:_MAX_NAMESPACES]),
        tuple(sorted(plugins)),
    )


def rejectors_of(decision: PodDecision) -> set[str]:
    """Return the plugins that rejected a node."""
    return set() if decision.details is None else {group.plugin for group in decision.details.rejected}


def listed(run: SimulationRun, wanted: Filter, page: int) -> Listed:
    """Return a page of the decisions that pass a filter; the last one for a larger number."""
    rows = [decision for decision in run.decisions if wanted.passes(decision)]
    page_rows, page, pages = page_of(rows, page)
    return Listed(page_rows, len(rows), page, pages)


def decision_page(decision: PodDecision, last: int, attempts: Sequence[PodDecision] = ()) -> DecisionPage:
    """Return every detail of a decision; `last` is the number of the last one, `attempts` are all of the pod."""
    number = decision.number
    return DecisionPage(
        decision,
        number - 1 if number > 1 else None,
        number + 1 if number < last else None,
        [attempt for attempt in reversed(attempts) if attempt.moment < decision.moment],
    )


def score_matrix(detail: DecisionDetail) -> ScoreMatrix:
    """Return the scores of a decision as a table."""
    nodes = detail.nodes
    plugins = tuple(dict.fromkeys(plugin for node in nodes for plugin in node.scores))
    longest = max((abs(score.weighted) for node in nodes for score in node.scores.values()), default=0)
    ordered = sorted(nodes, key=lambda node: (not node.chosen, -node.total))
    rows = tuple(MatrixRow(node, tuple(_bars(node, plugins, longest))) for node in ordered)
    return ScoreMatrix(plugins, rows, detail.feasible - len(nodes))


def _bars(node: ScoredNode, plugins: Sequence[str], longest: int) -> Iterator[Bar | None]:
    for plugin in plugins:
        score = node.scores.get(plugin)
        if score is None:
            yield None
            continue
        percent = round(100 * abs(score.weighted) / longest) if longest else 0
        yield Bar(plugin, score.raw, score.normalized, score.weighted, percent)
