"""What is hostile costs that pod only."""

from __future__ import annotations

import pytest

from scheduler.helpers import PodReducer
from tests.unit.scheduler.engine.pods import pod


def test_a_number_beyond_64_bits_is_the_pods_own_error() -> None:
    with pytest.raises(ValueError, match=r"64 bits|int64|too large|quantity"):
        PodReducer().reduce(pod("p", overhead={"cpu": 10**30}))
