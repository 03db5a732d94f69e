"""Answers of extenders, recorded by the daemon and read by `simulate`: a line of JSON each.

What is recorded is what a decision learned: the nodes that were asked about, and what came of each. So `simulate` can
answer a later question about some of these nodes, and knows when nobody ever answered one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from scheduler.framework import (
    Answer,
    Extender,
    FilterAnswer,
    FilterQuestion,
    PreemptAnswer,
    PreemptQuestion,
    PrioritizeAnswer,
    PrioritizeQuestion,
    Question,
)

KIND: Final = "ExtenderAnswer"
_API_VERSION: Final = "secondary-scheduler.io/v1"
_MAX_BYTES: Final = 64 << 20
_SHOWN = 3


class AnswerRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer.

    Attributes:
        verb: `filter`, `prioritize` or `preempt`.
        extenders: weights by URL, each with its verb; one but for `prioritize`.
        pod: `namespace/name`.
        nodes: that were asked about; for `preempt` with the UIDs of the victims offered.
        kept, failed, unresolvable: the answer to `filter`.
        scores: the answer to `prioritize`: what is added to the nodes' totals.
        victims: the answer to `preempt`: UIDs, and how many break a PodDisruptionBudget.
        error: of `filter` or `preempt`.
    """

    verb: str
    extenders: dict[str, int]
    pod: str
    nodes: dict[str, list[str]]
    kept: list[str] = []
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    scores: dict[str, int] = {}
    victims: dict[str, tuple[list[str], int]] = {}
    error: str = ""


def record_of(question: Question, answer: Answer) -> AnswerRecord:
    """Return what is recorded of an answer."""
    verb, extenders, pod = _subject(question)
    match question, answer:
        case FilterQuestion(), FilterAnswer():
            return AnswerRecord(
                verb, extenders, pod, {name: [] for name in question.nodes},
                kept=list(answer.kept), failed=dict(answer.failed), unresolvable=dict(answer.unresolvable),
                error=answer.error,
            )  # fmt: skip
        case PrioritizeQuestion(), PrioritizeAnswer():
            nodes: dict[str, list[str]] = {name: [] for name in question.nodes}
            return AnswerRecord(verb, extenders, pod, nodes, scores=dict(answer.scores))
        case PreemptQuestion(), PreemptAnswer():
            victims = {node: (list(uids), number) for node, (uids, number) in answer.victims.items()}
            return AnswerRecord(verb, extenders, pod, _offered(question), victims=victims, error=answer.error)
    raise AssertionError(f"{question} is not answered by {answer}")


def _subject(question: Question) -> tuple[str, dict[str, int], str]:
    match question:
        case FilterQuestion():
            return "filter", {_address(question.extender, question.extender.filter_verb): 0}, question.pod.key
        case PreemptQuestion():
            return "preempt", {_address(question.extender, question.extender.preempt_verb): 0}, question.pod.key
        case PrioritizeQuestion():
            weights = {_address(extender, extender.prioritize_verb): extender.weight for extender in question.extenders}
            return "prioritize", weights, question.pod.key


def _address(extender: Extender, verb: str) -> str:
    return f"{extender.url.rstrip('/')}/{verb}"


def _offered(question: PreemptQuestion) -> dict[str, list[str]]:
    return {node: [victim.uid for victim in victims.pods] for node, victims in question.victims.items()}


class AnswerRecorder:
    """Writes answers to a stream, until it has written 64 MiB or a write fails."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write to an open stream, which stays the caller's."""
        self._stream = stream
        self._left = _MAX_BYTES

    def note(self, question: Question, answer: Answer) -> None:
        """Write one answer. A failure is logged, and ends the recording: it must cost no pod its attempt."""
        if not self._left:
            return
        record = msgspec.to_builtins(record_of(question, answer))
        line = msgspec.json.encode({"apiVersion": _API_VERSION, "kind": KIND, **record}) + b"\n"
        reason = f"it has {_MAX_BYTES} bytes" if len(line) > self._left else ""
        try:
            if not reason:
                self._left -= len(line)
                self._stream.write(line)
                self._stream.flush()
        except (OSError, ValueError) as error:
            reason = str(error)
        if reason:
            # Imported here: `simulate` reads recordings, and starts without it.
            import structlog

            self._left = 0
            structlog.get_logger(component="extenders").warning("the recording of answers ends", reason=reason)


def open_recording(name: str) -> BinaryIO:
    """Open a file to append answers to; `-` is standard output.

    Raises:
        OSError: it cannot be opened.
    """
    if name == "-":
        return sys.stdout.buffer
    try:
        return Path(name).open("ab")
    except OSError as error:
        raise OSError(f"--extender-recording {name}: {error.strerror}") from error


class UnrecordedError(Exception):
    """Nobody answered a question while answers were recorded; one line that names the extender."""


class RecordedAnswers:
    """Answers questions from records; of several about one node, the latest counts."""

    def __init__(self, records: Iterable[AnswerRecord]) -> None:
        """Take records in the order in which they were written."""
        self._nodes: dict[_Key, dict[str, Any]] = {}
        self._errors: dict[_Key, str] = {}
        for record in records:
            key = _key(record.verb, record.extenders, record.pod)
            self._errors[key] = record.error
            if not record.error:
                self._nodes.setdefault(key, {}).update(_by_node(record))

    def answer(self, question: Question) -> Answer:
        """Return the answer to a question.

        Raises:
            UnrecordedError: there is none for its pod, or for one of its nodes.
        """
        verb, extenders, pod = _subject(question)
        key = _key(verb, extenders, pod)
        urls = " and ".join(extenders)
        error = self._errors.get(key)
        if error is None:
            weights = f" with weight {', '.join(map(str, extenders.values()))}" if verb == "prioritize" else ""
            raise UnrecordedError(f"the recording has no answer of the extender {urls}{weights} about this pod")
        if error:
            return PreemptAnswer(error=error) if isinstance(question, PreemptQuestion) else FilterAnswer(error=error)
        answers = self._nodes[key]
        if isinstance(question, PreemptQuestion):
            return self._preempt(question, answers, urls)
        missing = [name for name in question.nodes if name not in answers]
        if missing:
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            nodes = f"{', '.join(missing[:_SHOWN])}{more}"
            raise UnrecordedError(f"the recording has no answer of the extender {urls} about node {nodes}")
        if isinstance(question, PrioritizeQuestion):
            return PrioritizeAnswer({name: answers[name] for name in question.nodes})
        return _filtered(question, answers)

    @staticmethod
    def _preempt(question: PreemptQuestion, answers: Mapping[str, Any], urls: str) -> PreemptAnswer:
        victims = {}
        for node, uids in _offered(question).items():
            offered, answer = answers.get(node, (None, None))
            if offered != uids:
                raise UnrecordedError(f"the recording has no answer of the extender {urls} about victims on {node}")
            if answer is not None:
                victims[node] = tuple(answer[0]), answer[1]
        return PreemptAnswer(victims)


_Key = tuple[str, tuple[tuple[str, int], ...], str]


def _key(verb: str, extenders: Mapping[str, int], pod: str) -> _Key:
    return verb, tuple(sorted(extenders.items())), pod


def _by_node(record: AnswerRecord) -> dict[str, Any]:
    """Return what is known of each node: a score; victims offered and named; or kept and both reasons."""
    if record.verb == "prioritize":
        return {name: record.scores.get(name, 0) for name in record.nodes}
    if record.verb == "preempt":
        return {name: (offered, record.victims.get(name)) for name, offered in record.nodes.items()}
    names = frozenset(record.kept)
    return {name: (name in names, record.failed.get(name), record.unresolvable.get(name)) for name in record.nodes}


def _filtered(question: FilterQuestion, answers: Mapping[str, Any]) -> FilterAnswer:
    left: list[str] = []
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    for name in question.nodes:
        keeps, reason, final_reason = answers[name]
        if keeps:
            left.append(name)
        if reason is not None:
            failed[name] = reason
        if final_reason is not None:
            unresolvable[name] = final_reason
    return FilterAnswer(tuple(left), failed, unresolvable)
