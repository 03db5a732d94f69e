"""What became of the victims of an attack, and whether that is good enough."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.harness.contestants import OURS, PEER
from benchmarks.harness.figures import markdown, percentile

FREE_SECONDS = 0.5
"""A victim may always wait for so long, however quick the peer is."""
TIMES_PEER = 2.0
WELL_SECONDS = 5.0
"""So long after the attack's pods are gone, nobody may wait for what they did."""
_AFTERMATH_SECONDS = 1.0
"""Victims created so shortly after the attack's end still count as its victims."""


@dataclass(frozen=True)
class AttackedPod:
    """When a victim was created and when it got a node, in seconds of one clock; None: never."""

    created: float
    bound: float | None


@dataclass(frozen=True)
class Waits:
    """How long victims waited that were created in one phase, in seconds.

    Attributes:
        victims: how many there were.
        unbound: those of them that had no node in the end; they waited at least until then.
        p50, p99, most: of all of them.
    """

    victims: int
    unbound: int
    p50: float
    p99: float
    most: float

    @classmethod
    def of(cls, victims: Sequence[AttackedPod], end: float) -> Waits:
        """Sum up victims that were watched until `end`."""
        if not victims:
            return cls(0, 0, math.nan, math.nan, math.nan)
        waits = [(end if victim.bound is None else victim.bound) - victim.created for victim in victims]
        unbound = sum(victim.bound is None for victim in victims)
        return cls(len(victims), unbound, percentile(waits, 0.5), percentile(waits, 0.99), max(waits))


@dataclass(frozen=True)
class Turn:
    """One contestant under one attack.

    Attributes:
        attack, contestant: their names.
        number: of the round.
        load: the machine's load average before.
        before, during, after: of the victims that were created in each phase; `during` ends when the attack's pods are
            gone.
        lost: victims that the API server did not create.
        attackers: pods of the tenant in the end, on nodes or not.
        creating, deleting: seconds that the API server took for what the tenant began with, and for all of its pods.
        probes: of /livez, one a second, each within a second.
        failed_probes: when they failed, in seconds from the attack's beginning.
        ended: whether the process had ended by itself.
        well_after: seconds from when the attack's pods were gone until nobody waited for what they did; None: somebody
            still did when the measurement ended.
        mib_before, mib: the most resident memory, before the attack and in all.
    """

    attack: str
    contestant: str
    number: int
    load: float
    before: Waits
    during: Waits
    after: Waits
    lost: int
    attackers: int
    creating: float
    deleting: float
    probes: int
    failed_probes: list[float]
    ended: bool
    well_after: float | None
    mib_before: float
    mib: float


def well_after(victims: Iterable[AttackedPod], gone: float) -> float | None:
    """Return how long after `gone` the last binding came that was late because of the attack.

    It is late when the victim was created by then, or shortly after, and waited longer than it always may. None where
    a victim was never bound.
    """
    latest = gone
    for victim in victims:
        if victim.created > gone + _AFTERMATH_SECONDS:
            continue
        if victim.bound is None:
            return None
        if victim.bound - victim.created > FREE_SECONDS:
            latest = max(latest, victim.bound)
    return latest - gone


def complaints(turns: Sequence[Turn]) -> list[str]:
    """Say what is not good enough about ours, one line each; a peer of the same round is what it is compared with."""
    peers = {(turn.attack, turn.number): turn for turn in turns if turn.contestant == PEER}
    lines = []
    for turn in (measured for measured in turns if measured.contestant == OURS):
        peer = peers.get((turn.attack, turn.number))
        lines += [f"{turn.attack}, round {turn.number}: {line}" for line in _complaints(turn, peer)]
    return lines


def _complaints(ours: Turn, peer: Turn | None) -> Iterable[str]:
    for phase in ("during", "after"):
        for figure in ("p50", "p99"):
            seconds = getattr(getattr(ours, phase), figure)
            limit = FREE_SECONDS
            if peer is not None:
                limit = max(limit, TIMES_PEER * getattr(getattr(peer, phase), figure))
            if not seconds <= limit:
                yield f"{figure} {phase} is {seconds:.2f} s, at most {limit:.2f} wanted"
    if ours.failed_probes:
        yield f"/livez failed {len(ours.failed_probes)} times of {ours.probes}"
    if ours.ended:
        yield "the process has ended"
    if ours.well_after is None:
        yield f"not well when the measurement ended, at most {WELL_SECONDS:.0f} s after the attack's pods wanted"
    elif ours.well_after > WELL_SECONDS:
        yield f"well {ours.well_after:.1f} s after the attack's pods were gone, at most {WELL_SECONDS:.0f} wanted"


_PHASES = ("before", "during", "after")


def table(turns: Sequence[Turn], names: Mapping[str, str]) -> list[str]:
    """Return a Markdown table, a row per contestant and round; `names` are the contestants' names in it."""
    headings = [f"victim {phase}: p50 / p99 / most, s" for phase in _PHASES]
    headings += ["no node", "/livez failed", "well after, s", "attack created, deleted in, s", "MiB before, most"]
    return markdown(["attack", "scheduler", *headings], (_cells(turn, names) for turn in turns))


def _cells(turn: Turn, names: Mapping[str, str]) -> list[str]:
    waits = [getattr(turn, phase) for phase in _PHASES]
    return [
        turn.attack,
        names.get(turn.contestant, turn.contestant),
        *(f"{phase.p50:.2f} / {phase.p99:.2f} / {phase.most:.2f}" for phase in waits),
        f"{sum(phase.unbound for phase in waits)} of {sum(phase.victims for phase in waits)}",
        f"{len(turn.failed_probes)} of {turn.probes}{', ended' if turn.ended else ''}",
        "never" if turn.well_after is None else f"{turn.well_after:.1f}",
        f"{turn.creating:.0f}, {turn.deleting:.0f}",
        f"{turn.mib_before:.0f}, {turn.mib:.0f}",
    ]
