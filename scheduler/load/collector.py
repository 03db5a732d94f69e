"""Reads a source again and again in a thread of its own and keeps the last good reading with its age."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from scheduler.framework import LoadReading, is_fresh
from scheduler.load.source import LoadError, LoadSource


@dataclass(frozen=True, slots=True)
class LoadStatus:
    """How it stands with a source.

    Attributes:
        source: what `LoadSource.describe` says.
        fresh: whether the newest sample is younger than the allowed age.
        message: why it is not fresh, in words; empty where it is.
        age_seconds: age of the newest sample; infinite where there never was one.
        consecutive_failures: reads that failed since the last good one.
    """

    source: str
    fresh: bool
    message: str
    age_seconds: float
    consecutive_failures: int


class Collector:
    """One thread per source and process, however many plugins and profiles read from it.

    `on_reading` is called from that thread after each good read, `on_change` after each read, good or bad.
    """

    def __init__(
        self,
        source: LoadSource,
        *,
        refresh_seconds: float,
        max_age_seconds: float,
        on_reading: Callable[[LoadReading], None],
        on_change: Callable[[LoadStatus], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._refresh_seconds = refresh_seconds
        self._max_age_seconds = max_age_seconds
        self._on_reading = on_reading
        self._on_change = on_change
        self._clock = clock
        self._stop = threading.Event()
        self._newest_sample = -float("inf")
        self._failures = 0
        self._reason = "not read yet"
        self._thread = threading.Thread(target=self._run, name="load-collector", daemon=True)

    def start(self) -> None:
        """Start reading; returns at once, a source that is down delays nobody."""
        self._thread.start()

    def request_stop(self) -> None:
        """Read no more; a read under way ends by itself and delays nobody."""
        self._stop.set()

    def stop(self) -> None:
        """Stop reading; waits for a read under way, at most its deadline."""
        self.request_stop()
        if self._thread.is_alive():
            self._thread.join(timeout=15)
        self._source.close()

    def status(self) -> LoadStatus:
        """How it stands now; age goes on while the source is silent."""
        age = self._clock() - self._newest_sample
        fresh = is_fresh(self._newest_sample, self._clock(), self._max_age_seconds)
        message = "" if fresh else self._reason
        return LoadStatus(self._source.describe(), fresh, message, age, self._failures)

    def read_once(self) -> None:
        """One read, with what follows from it; the thread's body, and callable in tests."""
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
            self._take(reading)
        self._on_change(self.status())

    def _take(self, reading: LoadReading) -> None:
        times = [load.measured_at for load in reading.loads.values() if load.measured_at == load.measured_at]
        if times:
            # A source whose clock is ahead must not make its samples look younger than they can be.
            self._newest_sample = min(max(times), self._clock())
            self._reason = f"{self._source.describe()}: its newest sample is older than {self._max_age_seconds:g} s"
        elif reading.loads:
            self._newest_sample = reading.window_end
        else:
            why = reading.problems[0] if reading.problems else "has no load of any node"
            self._reason = f"{self._source.describe()}: answers, but {why}"
        self._on_reading(reading)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.read_once()
            # While there is nothing fresh, try sooner: the first data after a start or an outage matter most.
            pause = self._refresh_seconds if self.status().fresh else min(5.0, self._refresh_seconds)
            self._stop.wait(pause)
