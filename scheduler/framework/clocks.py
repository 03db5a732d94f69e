"""Two clocks whose times cannot be mixed up: the monotonic one for waiting, the wall clock for times from outside.

The wall clock may be set while we run, by an hour and in either direction. A wait that it measures then ends at once,
or an hour late, and nothing says so. So what this process waits for (backoff, flush, expiry, deadlines) is measured on
the monotonic clock. The wall clock is for times that others write or read: samples of a load, creation timestamps, the
order of the queue, Events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NewType, Protocol

from msgspec import Struct

from scheduler.framework.status import Code

WallSeconds = NewType("WallSeconds", float)
"""Seconds since the epoch, as the wall clock shows them: a number to compare with times from outside."""

if TYPE_CHECKING:

    class MonotonicSeconds:
        """A moment on the monotonic clock; its zero means nothing. To the interpreter it is a float.

        No subtype of float: mypy would let it be compared with the wall clock's.
        """

        def __init__(self, seconds: float, /) -> None: ...
        def __add__(self, seconds: float, /) -> MonotonicSeconds: ...
        def __sub__(self, earlier: MonotonicSeconds, /) -> float: ...
        def __lt__(self, other: MonotonicSeconds, /) -> bool: ...
        def __le__(self, other: MonotonicSeconds, /) -> bool: ...
        def __gt__(self, other: MonotonicSeconds, /) -> bool: ...
        def __ge__(self, other: MonotonicSeconds, /) -> bool: ...
        def __floor__(self) -> int: ...
else:
    MonotonicSeconds = float


class Clocks(Struct, frozen=True):
    """The clocks of a process, or of a test or a simulation.

    Attributes:
        wall: for what is compared with times from outside, and for what people read.
        monotonic: for waiting; never goes back.
    """

    wall: Callable[[], WallSeconds]
    monotonic: Callable[[], MonotonicSeconds]


def _wall_at_zero() -> WallSeconds:
    return WallSeconds(0.0)


def _monotonic_at_zero() -> MonotonicSeconds:
    return MonotonicSeconds(0.0)


STOPPED_CLOCKS = Clocks(_wall_at_zero, _monotonic_at_zero)
"""Clocks that stand still, for what needs none."""


class AttemptTiming(Protocol):
    """Measures attempts of one profile, one after the other. The engine makes metrics of it; without one, an attempt
    goes unmeasured.

    Attributes:
        times_plugins: whether each plugin is measured in the attempt under way, as in one of ten.
    """

    times_plugins: bool

    def begin(self) -> None:
        """Extension points begin that are called one right after the other."""

    def lap(self, point: str, code: Code = Code.SUCCESS) -> None:
        """An extension point ended with a code; it began when the one before ended."""

    def point(self, point: str, code: Code, seconds: float) -> None:
        """An extension point took so many seconds."""

    def called(self, plugin: str, point: str) -> None:
        """A plugin is called."""

    def now(self) -> float:
        """Return seconds of a monotonic clock."""

    def plugin(self, plugin: str, point: str, answer: object, seconds: float) -> None:
        """A plugin gave an answer after so many seconds: a `Status`, a tuple with one, or numbers."""
