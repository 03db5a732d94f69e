"""How long a scenario waits before it calls something late.

Limits are promises in seconds on a machine that does nothing else, and `python -m tests.faults` judges by them. Tests
run beside others: they prove what happens, and wait `FAULTS_PATIENCE` times as long for it.
"""

from __future__ import annotations

import os

VARIABLE = "FAULTS_PATIENCE"
OF_TESTS = "6"
"""What the tests set; the longest limit of a scenario times this stays below pytest's own limit."""


def patience(seconds: float) -> float:
    """Return how many seconds to wait where a quiet machine gets these."""
    return seconds * float(os.environ.get(VARIABLE, "1"))
