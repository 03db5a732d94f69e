"""What an attempt tells of the time it takes, to whoever measures it; nothing here reads a clock."""

from typing import Protocol

from scheduler.framework.status import Code


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

    def called(self, plugin: str, point: str) -> None:
        """A plugin is called."""

    def now(self) -> float:
        """Return seconds of a monotonic clock."""

    def plugin(self, plugin: str, point: str, answer: object, seconds: float) -> None:
        """A plugin gave an answer after so many seconds: a `Status`, a tuple with one, or numbers."""
