"""What the alerts about a rebalancer are; the rules that all alerts follow are those of `_alert_rules`.

One that waits for the Lease has gauges of 0, so the largest of all replicas is the leader's.
"""

from __future__ import annotations

from collections.abc import Iterator

from ._alert_rules import Alert, none_up

_BY = "by (namespace, job)"
_PLACE = "job {{ $labels.job }} in namespace {{ $labels.namespace }}"
_HELD = "schedulerUnavailable|otherConfiguration|podsPending|nodeNotReady|noRoom"
"""Reasons that end by themselves, or that have alerts of their own where it is the scheduler's fault."""


def rebalancer_alerts(job: str, namespace: str) -> Iterator[Alert]:
    """Yield the alerts about the rebalancer whose metrics have these labels."""
    selected = f'job="{job}",namespace="{namespace}"'
    yield from _running(selected)
    yield from _held(selected)
    yield from _moves(selected)


def _gauge(name: str, selected: str, **only: str) -> str:
    """The leader's value; of series with a label that has one of these values, as a regular expression."""
    labels = "".join(f',{label}=~"{value}"' for label, value in only.items())
    return f"max {_BY} (secondary_scheduler_rebalance_{name}{{{selected}{labels}}})"


def _running(selected: str) -> Iterator[Alert]:
    """Whether there is one that makes plans."""
    yield Alert(
        name="SecondarySchedulerRebalancerDown",
        expression=none_up(selected),
        lasting="10m",
        severity="warning",
        summary="No rebalancer is up: no pod leaves an overloaded node.",
        description="Prometheus has scraped no rebalancer of job {{ $labels.job }} in namespace"
        " {{ $labels.namespace }} for 10 minutes: none runs, or its metrics cannot be read. Pods are scheduled all the"
        " same.",
    )
    yield Alert(
        name="SecondarySchedulerRebalancerNoLeader",
        expression=f"{_gauge('leader', selected)} == 0",
        lasting="10m",
        severity="warning",
        summary="No rebalancer holds the Lease: no pod leaves an overloaded node.",
        description=f"Rebalancers of {_PLACE} run, and for 10 minutes none has led.",
    )
    late = f"time() - {_gauge('last_round_timestamp_seconds', selected)} > 3 * {_gauge('interval_seconds', selected)}"
    off = f"{_gauge('mode', selected, mode='Off')} == 1"
    yield Alert(
        name="SecondarySchedulerRebalancerRoundsFailing",
        # Not while none leads, which is another alert; the last round is known over a restart.
        expression=(
            f"({late} and {_gauge('leader', selected)} == 1 unless {off})"
            f" or {_gauge('status_unwritten', selected)} == 1"
        ),
        lasting="10m",
        severity="warning",
        summary="The rebalancer makes no plans, or cannot write its status: no pod leaves an overloaded node.",
        description=f"The rebalancer of {_PLACE} has made no plan for three intervals, or has not been able to write"
        " its status for 10 minutes. Its log says why.",
    )


def _held(selected: str) -> Iterator[Alert]:
    """Whether its plans may move anything."""
    yield Alert(
        name="SecondarySchedulerRebalancerLoadStale",
        expression=f"{_gauge('stopped', selected, reason='noLoad|loadNotFresh')} == 1",
        lasting="30m",
        severity="warning",
        summary="The rebalancer has no fresh load of enough nodes: it moves nothing.",
        description=f"For 30 minutes each round of {_PLACE} has ended because fewer than 80 % of the nodes had fresh"
        " load, or the scheduler's is not fresh.",
    )
    stopped = f'secondary_scheduler_rebalance_stopped{{{selected},reason=~"{_HELD}"}}'
    yield Alert(
        name="SecondarySchedulerRebalancerStopped",
        expression=f"max by (namespace, job, reason) ({stopped}) == 1",
        lasting="2h",
        severity="warning",
        summary="A safety rule has kept the rebalancer from moving anything for two hours.",
        description=f"Each round of {_PLACE} has ended for 2 hours with the reason {{{{ $labels.reason }}}}.",
    )
    yield Alert(
        name="SecondarySchedulerRebalancerAtLimit",
        # With evictions that are only tried, nothing is used up.
        expression=f"{_gauge('limited', selected)} == 1 and {_gauge('active', selected)} == 1",
        lasting="1h",
        severity="warning",
        summary="The rebalancer evicts as many pods as evictionLimits allow, and nodes stay overloaded.",
        description=f"For an hour each round of {_PLACE} has used up its limits, and pods stayed on overloaded nodes"
        " for that.",
    )


def _moves(selected: str) -> Iterator[Alert]:
    """What became of evictions."""

    def ended(window: str, outcome: str = "") -> str:
        only = f',outcome=~"{outcome}"' if outcome else ""
        return f"sum {_BY} (increase(secondary_scheduler_rebalance_moves_total{{{selected}{only}}}[{window}]))"

    missed = ended("6h", "elsewhere|back")
    yield Alert(
        name="SecondarySchedulerRebalancerPredictionsFail",
        expression=(
            f"{_gauge('stopped', selected, reason='predictionFails')} == 1"
            f" or ({missed} > 2 and {missed} / {ended('6h')} > 0.5)"
        ),
        lasting="0m",
        severity="warning",
        summary="Evicted pods come back, or land elsewhere than planned: evictions are in vain.",
        description=f"Most moves of {_PLACE} within 6 hours ended on the same node or on another than planned, or three"
        " in a row did: then the rebalancer has ended Automatic by itself.",
    )
    yield Alert(
        name="SecondarySchedulerRebalancerReplacementsNotPlaced",
        expression=f"{ended('1h', 'expired')} > 0",
        lasting="0m",
        severity="warning",
        summary="A pod was evicted, and its replacement has no node.",
        description=f"{{{{ $value | humanize }}}} moves of {_PLACE} within an hour had no replacement on a node after"
        " 10 minutes: the workload runs with fewer pods than before.",
    )
    tried = f'secondary_scheduler_rebalance_dry_runs_total{{{selected},answer="refused"}}'
    yield Alert(
        name="SecondarySchedulerRebalancerEvictionsRefused",
        expression=f"{ended('1h', 'refused')} + sum {_BY} (increase({tried}[1h])) > 2",
        lasting="0m",
        severity="warning",
        summary="The API server refuses evictions of the rebalancer: overloaded nodes stay so.",
        description=f"{{{{ $value | humanize }}}} evictions of {_PLACE} within an hour were refused, by a"
        " PodDisruptionBudget, a webhook, a policy or for want of a right. Those that are only tried count, too.",
    )
