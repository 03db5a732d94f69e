"""Recorded answers of extenders: reading them, and deciding with them."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from scheduler.engine import AnswerRecord, AttemptPipeline, RecordedAnswers
from scheduler.framework import Answered, Asking, to_extender
from secondary_scheduler.files import MAX_OBJECTS, read_bytes
from secondary_scheduler.simulation.report import InputReport, ObjectPlace, with_field

T = TypeVar("T")
_MARK = b'"ExtenderAnswer"'


def read_recording(name: str, report: InputReport) -> RecordedAnswers:
    """Read what the scheduler recorded with `--extender-recording`; other lines, such as its log, are skipped.

    Raises:
        InputError: the file cannot be read.
    """
    records = []
    decoder = msgspec.json.Decoder(AnswerRecord)
    for number, line in enumerate(read_bytes(name, limit=MAX_OBJECTS, option="--extender-recording").splitlines(), 1):
        if _MARK not in line:
            continue
        try:
            records.append(decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            report.leave_out(ObjectPlace(name, number, number), "ExtenderAnswer", with_field(error))
    if not records:
        report.warn(f"--extender-recording {name}: no answer of an extender is recorded there")
    return RecordedAnswers(records)


def answered(asking: Asking[T], answers: RecordedAnswers, attempts: AttemptPipeline) -> T:
    """Return what a computation returns once its questions are answered from a recording.

    Raises:
        UnrecordedError: the recording has no answer.
    """
    try:
        question = next(asking)
        while True:
            question = asking.send(Answered(answers.answer(to_extender(question)), attempts.snapshot()))
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        asking.close()
