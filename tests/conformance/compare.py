"""Compares two answers about one pod, and words what differs so that it can be replayed."""

from __future__ import annotations

import json

from tests.conformance.case import BOUND, GATED, Answer, Asked, Case

_SCORED_ALIKE = frozenset({"DynamicResources", "VolumeBinding"})
"""Plugins that newer versions let score every pod, nearly all of them 0 everywhere, where ours skips those pods."""


def differences(real: Answer, ours: Answer) -> list[str]:
    """Every way in which ours departs from the real scheduler's answer; empty when they agree."""
    if real.outcome != ours.outcome:
        return [f"outcome: real {_outcome(real)}, ours {_outcome(ours)}"]
    if real.outcome == GATED:
        # The real scheduler says nothing about a gated pod.
        return []
    if real.outcome != BOUND:
        return _message(real, ours)
    differing = _feasible(real, ours)
    if not differing:
        differing = _scores(real, ours)
    if real.node not in ours.best:
        differing.append(f"choice: real chose {real.node}, ours would choose one of {sorted(ours.best)}")
    if ours.node not in real.best:
        differing.append(f"choice: ours chose {ours.node}, the real scheduler would choose one of {sorted(real.best)}")
    return differing


def _outcome(answer: Answer) -> str:
    return f"{answer.outcome} ({answer.node or answer.message})"


def _message(real: Answer, ours: Answer) -> list[str]:
    differing = []
    if real.message != ours.message:
        differing.append(f"message:\n  real {real.message!r}\n  ours {ours.message!r}")
    if (real.nominated, real.victims) not in (ours.evictions or ((ours.nominated, ours.victims),)):
        differing.append(
            f"preemption: real on {real.nominated or 'no node'} of {list(real.victims)}, "
            f"ours on {ours.nominated or 'no node'} of {list(ours.victims)}"
        )
    return differing


def _feasible(real: Answer, ours: Answer) -> list[str]:
    only_real, only_ours = sorted(real.feasible - ours.feasible), sorted(ours.feasible - real.feasible)
    differing = []
    if only_real:
        differing.append(f"feasible for the real scheduler only: {', '.join(only_real)}")
    if only_ours:
        differing.append(f"feasible for ours only: {', '.join(only_ours)}")
    return differing


def _scores(real: Answer, ours: Answer) -> list[str]:
    differing = []
    for node in sorted(real.totals):
        expected, mine = real.scores.get(node, {}), ours.scores.get(node, {})
        for plugin in sorted(expected.keys() | mine.keys()):
            absent = 0 if plugin in _SCORED_ALIKE else None
            if expected.get(plugin, absent) != mine.get(plugin, absent):
                differing.append(
                    f"score of {plugin} on {node}: real {expected.get(plugin, 'none')}, ours {mine.get(plugin, 'none')}"
                )
        if real.totals[node] != ours.totals.get(node):
            differing.append(f"total of {node}: real {real.totals[node]}, ours {ours.totals.get(node)}")
    return differing


def report(case: Case, question: Asked, ours: Answer, differing: list[str]) -> str:
    """A mismatch with everything needed to look at it and to ask again."""
    return "\n".join(
        [
            f"MISMATCH seed {case.seed}, features {','.join(case.features)}, profile {case.profile}, "
            f"pod {question.pod['metadata']['name']}",
            *(f"  {line}" for line in differing),
            f"  again: python -m tests.conformance --replay {case.seed} --features {','.join(case.features)}",
            f"  pod: {json.dumps(question.pod['spec'], sort_keys=True)}",
            f"  labels: {json.dumps(question.pod['metadata'].get('labels', {}), sort_keys=True)}",
            f"  real: {json.dumps(question.answer.to_json(), sort_keys=True)}",
            f"  ours: {json.dumps(ours.to_json(), sort_keys=True)}",
            f"  case: {json.dumps(case.to_json(), sort_keys=True)}",
        ]
    )
