"""The JSON that load-watcher serves at `/watcher`, from a file or from a snapshot, as the scheduler would read it."""

from __future__ import annotations

import math
from dataclasses import replace

from scheduler.framework import LoadReading
from secondary_scheduler.errors import InputError
from secondary_scheduler.simulation.report import Report


def read_load(data: bytes, place: str, report: Report) -> LoadReading:
    """Read an answer. One without a timestamp has no age, and counts as fresh at any time that is simulated.

    Raises:
        InputError: it is not JSON, or a field has the wrong type; begins with `place`.
    """
    # Imported here: most simulations read no load.
    from scheduler.load import LoadError, parse_watcher

    try:
        reading = parse_watcher(data, place)
    except LoadError as error:
        raise InputError(str(error)) from error
    if reading.rejected:
        report.warn(f"{place}: values that cannot be a load left out: {reading.left_out}")
    times = [load.measured_at for load in reading.loads.values() if not math.isnan(load.measured_at)]
    return replace(reading, answered_at=max(times, default=0.0))
