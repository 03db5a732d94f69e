"""Scores of NodeResourcesFit where a hundred times an amount is beyond int64."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from scheduler.core import explain
from scheduler.plugins.noderesources.fit import exact_percent
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner

EXBI = 1 << 60


@given(st.floats(0, 2.0**63), st.floats(1, 2.0**63))
def test_percentages_are_those_of_fractions(part: float, whole: float) -> None:
    part, whole = float(int(min(part, whole))), float(int(whole))
    expected = int(Fraction(part) * 100 / Fraction(whole))
    assert exact_percent(np.array([part]), np.array([whole])).tolist() == [expected]


@pytest.mark.parametrize(("strategy", "score"), [("LeastAllocated", 75), ("MostAllocated", 25)])
def test_a_node_of_exbibytes_scores_by_its_share_from_1_38_on(strategy: str, score: int) -> None:
    resources = [{"name": "memory", "weight": 1}]
    args = {"NodeResourcesFit": {"scoringStrategy": {"type": strategy, "resources": resources}}}
    held = cluster(node("n", allocatable={"memory": str(4 * EXBI)})).snapshot(NOW)
    incoming = pod("p", container("1", str(EXBI)))
    shown = {
        version: explain(held, incoming, runner(args=args, kubernetes=version)).node("n").scores["NodeResourcesFit"].raw
        for version in ("1.37", "1.38")
    }
    assert shown["1.38"] == score
    assert shown["1.37"] != score, "the product overflows"
