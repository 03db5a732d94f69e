"""The status of the installations for people: what is wrong first, then what runs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Any

from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import aligned, text_width
from secondary_scheduler.clusterstatus.document import facts_of
from secondary_scheduler.clusterstatus.health import State, age_of, current_conditions, is_expected, is_without_replica

Json = Mapping[str, Any]
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


def lines(document: Json, now: datetime, *, wide: bool, paint: Paint = unpainted) -> Iterator[str]:
    """Yield the text: a line about the cluster, the instances with the worst first, and what could not be read.

    Args:
        document: as `status_document` returns it.
        now: to tell ages by.
        wide: with every condition, every plugin that scores, and all errors that are known.
        paint: colours the states.
    """
    cluster, instances = document["cluster"], document["instances"]
    openshift = f", OpenShift {cluster['openshift']}" if cluster["openshift"] else ""
    yield printable(f"{cluster['server']}: Kubernetes {cluster['kubernetes']}{openshift}")
    order = [State.FAILED, State.WARNING, State.OK]
    for instance in sorted(instances, key=lambda each: order.index(each["state"])):
        yield ""
        state = State(instance["state"])
        word = {State.OK: "ok", State.WARNING: "warning", State.FAILED: "FAILED"}[state]
        yield f"{printable(_title(instance))}: {paint(word, state)}"
        for problem in instance["problems"]:
            severity = State(problem["severity"])
            since = f" for {age_of(problem['since'], now)}" if problem["since"] else ""
            first, *rest = _wrapped(f"{problem['subject']}{since}: {problem['message']}")
            yield f"  {paint(f'{severity.value:{_LABEL}}', severity)} {first}"
            yield from (f"  {'':{_LABEL}} {line}" for line in rest)
        conditions = (("condition", text) for text in _conditions(instance, now, wide=wide))
        for label, text in chain(facts_of(instance, now, wide=wide), conditions):
            for number, line in enumerate(_wrapped(text)):
                yield f"  {'' if number else label:{_LABEL}} {line}"
    if document["notShown"]:
        yield ""
        yield from (printable(f"Not shown: {line}", _MAX_REFUSAL_LENGTH) for line in document["notShown"])


def _wrapped(text: str) -> list[str]:
    """The lines of a text that came from the cluster, and may hold anything."""
    wrapped = textwrap.wrap(text, text_width(_WIDTH, _LABEL + 3), break_on_hyphens=False)
    return [printable(line) for line in wrapped[:_MAX_LINES]] or [""]


def _title(instance: Json) -> str:
    return f"{instance['namespace']}/{instance['name']}{_APART.get(instance['kind'], '')}"


def _conditions(instance: Json, now: datetime, *, wide: bool) -> Iterator[str]:
    """A line for each that is not as it should be and no problem, or for all; the others are named."""
    conditions, named = current_conditions(instance), {problem["subject"] for problem in instance["problems"]}
    apart = [each for each in conditions if wide or not (is_expected(each) or each["type"] in named)]
    rows = [
        [
            f"{each['type']}={each['status']}",
            age_of(each["since"], now),
            each["reason"],
            " ".join(each["message"].split()),
        ]
        for each in apart
    ]
    if rows:
        yield from aligned(rows)
    expected = [each["type"] for each in conditions if is_expected(each)]
    if expected and not wide:
        # What an operator wrote that is down itself may have changed since.
        seen = " when the operator last looked" if _is_operator_down(instance) else ""
        yield f"as expected{seen}: {', '.join(expected)}"


def _is_operator_down(instance: Json) -> bool:
    ready = instance["versions"]["operatorReady"]
    return ready is not None and is_without_replica(ready)
