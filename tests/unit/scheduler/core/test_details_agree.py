"""What `explain` says of a decision is what `decide` did, on random clusters after random histories.

A case is one pod on one cluster. `make test` takes a few hundred; for more:

    EXPLAIN_CASES=10000 python -m pytest -q -n 0 -s tests/unit/scheduler/core/test_details_agree.py
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable

import msgspec

from scheduler.answers import DecisionDetail
from scheduler.core import Explanation, Placement, decide, detail_of, explain, judge_node
from scheduler.framework import Code, PodInfo, ProfileRunner, conclude
from scheduler.state import Snapshot
from tests.unit.scheduler.core.test_exactness import CLASSES, PROFILES, History

CASES = int(os.environ.get("EXPLAIN_CASES", "300"))
BEST = 3
STEPS = (
    ["place"] * 6
    + ["look", "look", "confirm", "forget", "delete", "relabel", "resize", "bind"]
    + ["node", "change", "remove", "load", "time", "service", "nominate"]
)


class Explained(History):
    """A cluster on which things happen; each decision about a pod is a case."""

    def __init__(self, profile: ProfileRunner, chance: random.Random, tally: Counter[str]) -> None:
        favourites = [chance.randrange(len(CLASSES)) for _ in range(chance.randrange(1, 5))]
        super().__init__(profile, profile, favourites)
        self.chance, self.tally = chance, tally

    def check(self, pod: PodInfo, seed: int) -> str | None:
        view = self.state.snapshot(self.now)
        placement = conclude(decide(view, pod, self.profile, random.Random(seed)))
        explanation = explain(view, pod, self.profile)
        detail = detail_of(explanation, view, self.profile, placement.node, BEST)
        self.tally["cases"] += 1
        self.tally[placement.code.name] += 1
        self.tally["several feasible nodes"] += placement.feasible > 1
        agrees_with_decision(placement, explanation, detail)
        rejections_partition_the_infeasible(explanation, detail, view, placement)
        best_nodes_are_kept(explanation, detail, placement)
        if view.node_count:
            self.judge(view, pod)
        return placement.node

    def judge(self, view: Snapshot, pod: PodInfo) -> None:
        """The verdict on one node is the one that stands in the whole matrix."""
        name = self.chance.choice(sorted(self.state.node_names))
        unnominated = msgspec.structs.replace(pod, nominated_node="")
        whole = explain(view, unnominated, self.profile)
        verdict = judge_node(view, pod, self.profile, name)
        assert verdict.error == whole.error
        if verdict.error is not None:
            return
        own = whole.node(name)
        assert (verdict.rejection is None) == own.feasible
        says_no = [each.plugin for each in verdict.verdicts if each.objects]
        if own.feasible:
            totals = sorted(whole.totals.tolist(), reverse=True)
            assert totals[(verdict.rank or 0) - 1] == own.total
            assert (verdict.rank, verdict.ties) == (totals.index(own.total) + 1, totals.count(own.total))
            assert says_no == []
            self.tally["verdict: fits"] += 1
        else:
            assert own.rejection is not None
            assert verdict.rejection is not None
            assert verdict.rejection.plugin == own.rejection.plugin
            assert verdict.nominated == (not says_no)
            # Without pods nominated here, the first to say no is the one that a decision names.
            assert view.nominations or says_no[0] == own.rejection.plugin
            self.tally["verdict: kept for nominated pods" if verdict.nominated else "verdict: rejected"] += 1


def agrees_with_decision(placement: Placement, explanation: Explanation, detail: DecisionDetail) -> None:
    """Both see the same feasible nodes, and fail with the same words."""
    assert explanation.message == placement.message
    assert (detail.error is not None) == (placement.code is Code.ERROR)
    if placement.node is None:
        assert (detail.feasible, detail.nodes) == (0, ())
        return
    assert detail.feasible == placement.feasible
    assert placement.node in explanation.best
    if placement.feasible > 1:
        assert detail.ties == placement.best
        (chosen,) = [scored for scored in detail.nodes if scored.chosen]
        assert chosen.total == placement.total == explanation.totals.max()


def rejections_partition_the_infeasible(
    explanation: Explanation, detail: DecisionDetail, view: Snapshot, placement: Placement
) -> None:
    """Each node either fits or has one plugin that rejects it, and the groups count exactly these."""
    if explanation.error is not None:
        return
    groups: Counter[tuple[str, str]] = Counter()
    plugins: set[str] = set()
    feasible = 0
    for _, judged in explanation.nodes():
        feasible += judged.feasible
        if judged.feasible or explanation.nominated:
            continue
        assert judged.rejection is not None
        assert judged.rejection.plugin
        plugins.add(judged.rejection.plugin)
        groups.update(_kind(judged.rejection.plugin, reason) for reason in judged.rejection.reasons)
    rows = [row for rejection in explanation.diagnosis.rejections for row in rejection.rows.tolist()]
    assert len(rows) == len(set(rows)), "a node is in the rejections of one plugin"
    assert not set(rows) & set(explanation.feasible.tolist())
    assert feasible == len(explanation.feasible)
    assert len({(group.plugin, group.reason) for group in detail.rejected}) == len(detail.rejected)
    kept: Counter[tuple[str, str]] = Counter()
    for group in detail.rejected:
        kept[_kind(group.plugin, group.reason)] += group.nodes
    assert kept == groups
    if placement.code is Code.UNSCHEDULABLE:
        assert plugins <= placement.rejectors
        assert len(rows) + explanation.diagnosis.absent == view.node_count or explanation.diagnosis.pre_filter


def _kind(plugin: str, reason: str) -> tuple[str, str]:
    """HighLoadFilter says of one node its share, and of many the range of theirs."""
    return plugin, reason.partition(" (")[0] if plugin == "HighLoadFilter" else reason


def best_nodes_are_kept(explanation: Explanation, detail: DecisionDetail, placement: Placement) -> None:
    """The kept nodes have the best totals, in order, and the chosen one is among them."""
    totals = sorted(explanation.totals.tolist(), reverse=True)
    assert [scored.total for scored in detail.nodes[:BEST]] == totals[:BEST]
    assert [scored.name for scored in detail.nodes if scored.chosen] == ([placement.node] if placement.node else [])
    for scored in detail.nodes:
        if scored.scores:
            assert scored.total == sum(score.weighted for score in scored.scores.values())


def test_details_agree_with_decisions() -> None:
    tally: Counter[str] = Counter()
    number = 0
    while tally["cases"] < CASES:
        chance = random.Random(number)
        build: Callable[[], ProfileRunner] = PROFILES[sorted(PROFILES)[number % len(PROFILES)]]
        history = Explained(build(), chance, tally)
        for _ in range(chance.randrange(10, 50)):
            history.happen(chance.choice(STEPS), random.Random(chance.random()))
        number += 1
    print(f"\n{number} histories of {len(PROFILES)} profiles: {dict(tally)}")
    # Else the cases would say little.
    assert tally["several feasible nodes"] > CASES / 10
    assert tally["UNSCHEDULABLE"] > CASES / 20
    assert tally["verdict: rejected"] > CASES / 20
