"""Compares two answers about one pod, and words what differs so that it can be replayed."""

from __future__ import annotations

import json

from tests.conformance.case import BOUND, GATED, Answer, Asked, Case


def differences(real: Answer, ours: Answer) -> list[str]:
    """Every way in which ours departs from the real scheduler's answer; empty when they agree."""
    if real.outcome != ours.outcome:
        return [f"outcome: real {_outcome(real)}, ours {_outcome(ours)}"]
    if real.outcome == GATED:
        # The real scheduler says nothing about a gated pod.
        return []
    if real.outcome != BOUND:
        return _message(real, ours)
    found = _feasible(real, ours)
    if not found:
        found = _scores(real, ours)
    if real.node not in ours.best:
        found.append(f"choice: real chose {real.node}, ours would choose one of {sorted(ours.best)}")
    if ours.node not in real.best:
        found.append(f"choice: ours chose {ours.node}, the real scheduler would choose one of {sorted(real.best)}")
    return found


def _outcome(answer: Answer) -> str:
    return f"{answer.outcome} ({answer.node or answer.message})"


def _message(real: Answer, ours: Answer) -> list[str]:
    found = []
    if real.message != ours.message:
        found.append(f"message:\n  real {real.message!r}\n  ours {ours.message!r}")
    if (real.nominated, real.victims) not in (ours.evictions or ((ours.nominated, ours.victims),)):
        found.append(
            f"preemption: real on {real.nominated or 'no node'} of {list(real.victims)}, "
            f"ours on {ours.nominated or 'no node'} of {list(ours.victims)}"
        )
    return found


def _feasible(real: Answer, ours: Answer) -> list[str]:
    only_real, only_ours = sorted(real.feasible - ours.feasible), sorted(ours.feasible - real.feasible)
    found = []
    if only_real:
        found.append(f"feasible for the real scheduler only: {', '.join(only_real)}")
    if only_ours:
        found.append(f"feasible for ours only: {', '.join(only_ours)}")
    return found


def _scores(real: Answer, ours: Answer) -> list[str]:
    found = []
    for node in sorted(real.totals):
        theirs, mine = real.scores.get(node, {}), ours.scores.get(node, {})
        for plugin in sorted(theirs.keys() | mine.keys()):
            if theirs.get(plugin) != mine.get(plugin):
                found.append(
                    f"score of {plugin} on {node}: real {theirs.get(plugin, 'none')}, ours {mine.get(plugin, 'none')}"
                )
        if real.totals[node] != ours.totals.get(node):
            found.append(f"total of {node}: real {real.totals[node]}, ours {ours.totals.get(node)}")
    return found


def report(case: Case, asked: Asked, ours: Answer, found: list[str]) -> str:
    """A mismatch with everything needed to look at it and to ask again."""
    return "\n".join(
        [
            f"MISMATCH seed {case.seed}, features {','.join(case.features)}, profile {case.profile}, "
            f"pod {asked.pod['metadata']['name']}",
            *(f"  {line}" for line in found),
            f"  again: python -m tests.conformance --replay {case.seed} --features {','.join(case.features)}",
            f"  pod: {json.dumps(asked.pod['spec'], sort_keys=True)}",
            f"  labels: {json.dumps(asked.pod['metadata'].get('labels', {}), sort_keys=True)}",
            f"  real: {json.dumps(asked.answer.to_json(), sort_keys=True)}",
            f"  ours: {json.dumps(ours.to_json(), sort_keys=True)}",
            f"  case: {json.dumps(case.to_json(), sort_keys=True)}",
        ]
    )
