"""A clock for tests."""


class Clock:
    """Says `now`, which a test sets, or runs ahead by `step` at each look; seconds."""

    def __init__(self, now: float = 1000.0, step: float = 0.0) -> None:
        self.now = now
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now
