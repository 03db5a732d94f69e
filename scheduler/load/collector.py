"""Reads a source again and again in a thread of its own, and knows how old its newest sample is."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from scheduler.framework import MAX_AHEAD, LoadReading, is_fresh
from scheduler.load.settings import LoadError, LoadSource

_RETRY_SECONDS = 5.0
_STOP_SECONDS = 15.0
"""How long `stop` waits for a read under way: more than the default deadline of a read."""


@dataclass(frozen=True, slots=True)
class LoadStatus:
    """The state of a source.

    Attributes:
        source: what `LoadSource.describe` says.
        fresh: whether its newest sample is fresh.
        message: why it is not, or why the last read failed though the samples are fresh still; else empty.
        age_seconds: age of the newest sample; infinite where there never was one.
        consecutive_failures: reads that failed since the last good one.
    """

    source: str
    fresh: bool
    message: str
    age_seconds: float
    consecutive_failures: int


class LoadCollector:
    """One thread per source and process, however many plugins and profiles read from it."""

    def __init__(
        self,
        source: LoadSource,
        *,
        refresh_seconds: float,
        max_age_seconds: float,
        on_reading: Callable[[LoadReading], None],
        on_status: Callable[[LoadStatus], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create a collector; `start` starts its thread.

        Args:
            source: what to read; closed by `stop`.
            refresh_seconds: pause between two reads; at most 5 s while nothing is fresh.
            max_age_seconds: the oldest age that is fresh.
            on_reading: called from the thread after each good read; must not raise.
            on_status: called from the thread after each read, good or bad.
            clock: seconds since the epoch.
        """
        self._source = source
        self._refresh_seconds = refresh_seconds
        self._max_age_seconds = max_age_seconds
        self._on_reading = on_reading
        self._on_status = on_status
        self._clock = clock
        self._stop = threading.Event()
        self._newest_sample = -math.inf
        self._failures = 0
        self._reason = "not read yet"
        self._thread = threading.Thread(target=self._run, name="load-collector", daemon=True)

    def start(self) -> None:
        """Start reading. Returns at once: a source that is down must not delay the start of the process."""
        self._thread.start()

    def request_stop(self) -> None:
        """Read no more. Does not wait for a read under way."""
        self._stop.set()

    def stop(self) -> None:
        """Read no more and close the source. Waits for a read under way, at most 15 s."""
        self.request_stop()
        if self._thread.is_alive():
            self._thread.join(timeout=_STOP_SECONDS)
        self._source.close()

    def status(self) -> LoadStatus:
        """Return the state of the source now: its samples age while it is silent."""
        now = self._clock()
        fresh = is_fresh(self._newest_sample, now, self._max_age_seconds)
        message = "" if fresh and not self._failures else self._reason
        return LoadStatus(self._source.describe(), fresh, message, now - self._newest_sample, self._failures)

    def read_once(self) -> None:
        """Read once and call the callbacks: one round of the thread."""
        try:
            reading = self._source.read()
        except LoadError as error:
            self._failures += 1
            self._reason = str(error)
        except Exception as error:
            # A mistake of ours must not end the thread: nobody would read the load any more, and nothing would say so.
            self._failures += 1
            self._reason = f"{self._source.describe()}: {type(error).__name__} in the reader: {str(error)[:200]}"
        else:
            self._failures = 0
            self._note_age(reading)
            self._on_reading(reading)
        self._on_status(self.status())

    def _note_age(self, reading: LoadReading) -> None:
        times = [load.measured_at for load in reading.loads.values() if not math.isnan(load.measured_at)]
        if times:
            self._note_newest(times)
        elif reading.loads:
            self._note_newest([reading.window_end])
        else:
            cause = reading.problems[0] if reading.problems else "has no load of any node"
            self._reason = f"{self._source.describe()}: answers, but {cause}"

    def _note_newest(self, times: list[float]) -> None:
        now = self._clock()
        # What is too far ahead must not hide how old the others are.
        newest = max((at for at in times if at - now <= MAX_AHEAD), default=math.inf)
        if newest < math.inf:
            # A source whose clock is a little ahead must not make its samples look younger than they can be.
            self._newest_sample = min(newest, now)
            problem = f"its newest sample is older than {self._max_age_seconds:g} s"
        else:
            self._newest_sample = min(times)
            problem = f"its samples are {self._newest_sample - now:.0f} s ahead of this machine's clock"
        self._reason = f"{self._source.describe()}: {problem}"

    def _run(self) -> None:
        while not self._stop.is_set():
            self.read_once()
            # While nothing is fresh, try sooner: the first data after a start or an outage matter most.
            pause = self._refresh_seconds if self.status().fresh else min(_RETRY_SECONDS, self._refresh_seconds)
            self._stop.wait(pause)
