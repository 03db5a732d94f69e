"""The status of the installations for people: what is wrong first, then what runs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain

from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import aligned, text_width
from secondary_scheduler.clusterstatus.health import age_of
from secondary_scheduler.clusterstatus.status import InstanceStatus, State, StatusReport
from secondary_scheduler.clusterstatus.summary import facts_of

Paint = Callable[[str, State], str]
"""Returns a word in the colour of a state, or as it is."""
_LABEL = 14
_WIDTH = 130
_APART = {"Deployment": " (Deployment without a SecondaryScheduler)", "Lease": " (as far as its Lease shows)"}
_MAX_LINES = 12
"""Of a message: the API server takes 32 KiB in a condition."""
_MAX_REFUSAL_LENGTH = 1000
"""It ends with the right that is missing, after up to 300 characters of who refuses."""


def unpainted(word: str, _: State) -> str:
    """Where there is no terminal, or colours are not wanted."""
    return word


def lines(document: StatusReport, now: datetime, *, wide: bool, paint: Paint = unpainted) -> Iterator[str]:
    """Yield the text: a line about the cluster, the instances with the worst first, and what could not be read.

    Args:
        document: as `status_document` returns it.
        now: to tell ages by.
        wide: with every condition, every plugin that scores, and all errors that are known.
        paint: colours the states.
    """
    yield printable(f"{document.cluster.server}: {document.cluster.versions}")
    for instance in document.worst_first:
        yield ""
        word = "FAILED" if instance.state is State.FAILED else instance.state.value
        yield f"{printable(instance.title + _APART.get(instance.kind, ''))}: {paint(word, instance.state)}"
        for problem in instance.problems:
            severity = problem.severity
            since = f" for {age_of(problem.since, now)}" if problem.since else ""
            first, *rest = _wrapped(f"{problem.subject}{since}: {problem.message}")
            yield f"  {paint(f'{severity.value:{_LABEL}}', severity)} {first}"
            yield from (f"  {'':{_LABEL}} {line}" for line in rest)
        conditions = (("condition", text) for text in _conditions(instance, now, wide=wide))
        for label, text in chain(facts_of(instance, now, wide=wide), conditions):
            for number, line in enumerate(_wrapped(text)):
                yield f"  {'' if number else label:{_LABEL}} {line}"
    if document.not_shown:
        yield ""
        yield from (printable(f"Not shown: {line}", _MAX_REFUSAL_LENGTH) for line in document.not_shown)


def _wrapped(text: str) -> list[str]:
    """The lines of a text that came from the cluster, and may hold anything."""
    wrapped = textwrap.wrap(text, text_width(_WIDTH, _LABEL + 3), break_on_hyphens=False)
    return [printable(line) for line in wrapped[:_MAX_LINES]] or [""]


def _conditions(instance: InstanceStatus, now: datetime, *, wide: bool) -> Iterator[str]:
    """A line for each that is not as it should be and no problem, or for all; the others are named."""
    conditions, named = instance.current_conditions, {problem.subject for problem in instance.problems}
    apart = [condition for condition in conditions if wide or not (condition.is_expected or condition.type in named)]
    rows = [
        [
            f"{condition.type}={condition.status}",
            age_of(condition.since, now),
            condition.reason,
            " ".join(condition.message.split()),
        ]
        for condition in apart
    ]
    if rows:
        yield from aligned(rows)
    expected = [condition.type for condition in conditions if condition.is_expected]
    if expected and not wide:
        # What an operator wrote that is down itself may have changed since.
        seen = " when the operator last looked" if instance.is_operator_down else ""
        yield f"as expected{seen}: {', '.join(expected)}"
