"""Driving a decision that asks: questions out, answers in, each with the cluster as it is then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from scheduler.framework import Answer, Answered, Asking, ExtenderError, NodeView, Question

T = TypeVar("T")


class AbandonedError(Exception):
    """The decision is of no use any more."""


async def interview(
    asking: Asking[T],
    ask: Callable[[Question], Awaitable[Answer]],
    view: Callable[[], NodeView],
    is_wanted: Callable[[], bool],
) -> T:
    """Return what a computation returns once all its questions are answered.

    Args:
        asking: the computation.
        ask: answers a question; its ExtenderError is raised in the computation.
        view: returns the cluster as it is now.
        is_wanted: asked after each answer.

    Raises:
        AbandonedError: it is no longer wanted. Nothing has come of it.
    """
    try:
        question = next(asking)
        while True:
            answer: Answer | ExtenderError
            try:
                answer = await ask(question)
            except ExtenderError as error:
                answer = error
            if not is_wanted():
                raise AbandonedError
            if isinstance(answer, ExtenderError):
                question = asking.throw(answer)
            else:
                question = asking.send(Answered(answer, view()))
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        asking.close()
