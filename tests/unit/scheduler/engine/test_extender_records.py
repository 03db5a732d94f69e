"""Answers of extenders, written and read again: later questions about the same nodes are answered, others are not."""

from __future__ import annotations

import io

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.engine.extenderrecords import (
    AnswerRecord,
    AnswerRecorder,
    RecordedAnswers,
    UnrecordedError,
    open_recording,
)
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
    Victims,
)
from tests.unit.scheduler.engine.pods import pod_info

POD, VICTIM = pod_info("p"), pod_info("victim")
EXTENDER = Extender("http://x/", filter_verb="filter", prioritize_verb="score", preempt_verb="preempt", weight=2)


def recorded(*exchanges: tuple[Question, Answer]) -> RecordedAnswers:
    stream = io.BytesIO()
    recorder = AnswerRecorder(stream)
    for question, answer in exchanges:
        recorder.note(question, answer)
    return RecordedAnswers(msgspec.json.decode(line, type=AnswerRecord) for line in stream.getvalue().splitlines())


def test_the_answer_to_filter_is_given_for_any_of_the_nodes() -> None:
    answer = FilterAnswer(("n1", "n3"), {"n2": "busy"}, {"n4": "no driver"})
    answers = recorded((FilterQuestion(EXTENDER, POD, ("n1", "n2", "n3", "n4")), answer))
    assert answers.answer(FilterQuestion(EXTENDER, POD, ("n1", "n2", "n3", "n4"))) == answer
    assert answers.answer(FilterQuestion(EXTENDER, POD, ("n2", "n3"))) == FilterAnswer(("n3",), {"n2": "busy"})


def test_the_latest_answer_about_a_node_counts() -> None:
    question = FilterQuestion(EXTENDER, POD, ("n1",))
    answers = recorded(
        (question, FilterAnswer()), (question, FilterAnswer(error="down")), (question, FilterAnswer(("n1",)))
    )
    assert answers.answer(question) == FilterAnswer(("n1",))
    answers = recorded((question, FilterAnswer(("n1",))), (question, FilterAnswer(error="down")))
    assert answers.answer(question) == FilterAnswer(error="down")


def test_what_was_not_recorded_is_refused_with_the_extender() -> None:
    answers = recorded((FilterQuestion(EXTENDER, POD, ("n1",)), FilterAnswer(("n1",))))
    with pytest.raises(
        UnrecordedError, match="no answer of the extender http://x/filter about node n2, n3, n4 and 1 more"
    ):
        answers.answer(FilterQuestion(EXTENDER, POD, ("n1", "n2", "n3", "n4", "n5")))
    with pytest.raises(UnrecordedError, match="no answer of the extender http://x/filter about this pod"):
        answers.answer(FilterQuestion(EXTENDER, VICTIM, ("n1",)))


def test_scores_are_given_again_for_the_same_extenders_and_weights() -> None:
    question = PrioritizeQuestion((EXTENDER,), POD, ("n1", "n2"))
    answers = recorded((question, PrioritizeAnswer({"n1": 60})))
    assert answers.answer(question) == PrioritizeAnswer({"n1": 60, "n2": 0})
    with pytest.raises(UnrecordedError, match="http://x/score with weight 3 about this pod"):
        answers.answer(replace(question, extenders=(replace(EXTENDER, weight=3),)))


def test_victims_are_given_again_for_the_same_offer() -> None:
    question = PreemptQuestion(EXTENDER, POD, {"n1": Victims((VICTIM,), 1), "n2": Victims((POD,), 0)})
    answer = PreemptAnswer({"n1": ((VICTIM.uid,), 1)})
    answers = recorded((question, answer))
    assert answers.answer(question) == answer
    with pytest.raises(UnrecordedError, match="about victims on n1"):
        answers.answer(replace(question, victims={"n1": Victims((POD,), 0)}))


def test_a_recording_that_cannot_be_written_ends_and_costs_nothing() -> None:
    stream = io.BytesIO()
    recorder = AnswerRecorder(stream)
    stream.close()
    for _ in range(2):
        recorder.note(FilterQuestion(EXTENDER, POD, ("n1",)), FilterAnswer())


def test_a_recording_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.engine.extenderrecords._MAX_BYTES", 1000)
    stream = io.BytesIO()
    recorder = AnswerRecorder(stream)
    for _ in range(100):
        recorder.note(FilterQuestion(EXTENDER, POD, ("n1",)), FilterAnswer(("n1",)))
    assert 100 < len(stream.getvalue()) <= 1000
    assert stream.getvalue().endswith(b"\n")


def test_a_file_that_cannot_be_opened_is_named() -> None:
    with pytest.raises(OSError, match="--extender-recording /nowhere/x: No such file or directory"):
        open_recording("/nowhere/x")
