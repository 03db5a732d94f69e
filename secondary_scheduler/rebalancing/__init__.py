"""Moving pods off overloaded nodes: which ones, where the scheduler itself would put them, and what forbids it.

Pure: no I/O, no clock, no cluster. It gets the scheduler's state and plugins, the load, and what happened before, and
returns a plan. `rules` holds the safety rules, which docs/rebalancing.md lists. Who uses this reads the cluster.
"""

from secondary_scheduler.rebalancing.history import (
    ROUNDS_TO_STOP,
    History,
    Memory,
    Outcome,
    PastMove,
    UnreadableMemory,
    decode_memory,
    encode_memory,
)
from secondary_scheduler.rebalancing.loads import unevenness
from secondary_scheduler.rebalancing.objects import (
    MOVABLE_PODS,
    POD_METRICS,
    WORKLOADS,
    ClusterFacts,
    MovablePod,
    PodFacts,
    PodMetrics,
    Usage,
    Workload,
    facts_of_pod,
    usage_of,
)
from secondary_scheduler.rebalancing.observed import (
    ObservedScheduler,
    command_flag,
    elects_leader,
    lease_of,
    outcome_of,
    replacement_of,
    scheduler_health,
)
from secondary_scheduler.rebalancing.oracle import Gain, Oracle
from secondary_scheduler.rebalancing.planning import MOST_ROUNDS, Situation, make_plan
from secondary_scheduler.rebalancing.plans import Move, NodeChange, PlanSummary, RebalancePlan
from secondary_scheduler.rebalancing.rules.evictions import Answer, answer_of, eviction_of
from secondary_scheduler.rebalancing.rules.pods import SchedulerHealth
from secondary_scheduler.rebalancing.rules.reasons import STOPPING, Reason, Refusal
from secondary_scheduler.rebalancing.settings import RESOURCES, RebalanceSettings, SettingsError, read_settings
from secondary_scheduler.rebalancing.workloads import revision_of

__all__ = [
    "MOST_ROUNDS",
    "MOVABLE_PODS",
    "POD_METRICS",
    "RESOURCES",
    "ROUNDS_TO_STOP",
    "STOPPING",
    "WORKLOADS",
    "Answer",
    "ClusterFacts",
    "Gain",
    "History",
    "Memory",
    "MovablePod",
    "Move",
    "NodeChange",
    "ObservedScheduler",
    "Oracle",
    "Outcome",
    "PastMove",
    "PlanSummary",
    "PodFacts",
    "PodMetrics",
    "Reason",
    "RebalancePlan",
    "RebalanceSettings",
    "Refusal",
    "SchedulerHealth",
    "SettingsError",
    "Situation",
    "UnreadableMemory",
    "Usage",
    "Workload",
    "answer_of",
    "command_flag",
    "decode_memory",
    "elects_leader",
    "encode_memory",
    "eviction_of",
    "facts_of_pod",
    "lease_of",
    "make_plan",
    "outcome_of",
    "read_settings",
    "replacement_of",
    "revision_of",
    "scheduler_health",
    "unevenness",
    "usage_of",
]
