"""Moving pods off overloaded nodes: which ones, where the scheduler itself would put them, and what forbids it.

Pure: no I/O, no clock, no cluster. It gets the scheduler's state and plugins, the load, and what happened before, and
returns a plan. `rules` holds the safety rules, which docs/rebalancing.md lists. Who uses this reads the cluster.
"""

from secondary_scheduler.rebalancing.history import (
    ROUNDS_TO_STOP as ROUNDS_TO_STOP,
    History as History,
    Memory as Memory,
    MoveOutcome as MoveOutcome,
    PastMove as PastMove,
    UnreadableMemory as UnreadableMemory,
    decode_memory as decode_memory,
    encode_memory as encode_memory,
)
from secondary_scheduler.rebalancing.loads import unevenness as unevenness
from secondary_scheduler.rebalancing.objects import (
    MOVABLE_PODS as MOVABLE_PODS,
    POD_METRICS as POD_METRICS,
    WORKLOADS as WORKLOADS,
    ClusterFacts as ClusterFacts,
    MovablePod as MovablePod,
    MovedPodFacts as MovedPodFacts,
    PodMetrics as PodMetrics,
    PodUsage as PodUsage,
    Workload as Workload,
    facts_of_pod as facts_of_pod,
    revision_of as revision_of,
    usage_of as usage_of,
)
from secondary_scheduler.rebalancing.observed import (
    ObservedScheduler as ObservedScheduler,
    command_flag as command_flag,
    elects_leader as elects_leader,
    lease_of as lease_of,
    outcome_of as outcome_of,
    replacement_of as replacement_of,
    scheduler_health as scheduler_health,
)
from secondary_scheduler.rebalancing.oracle import Gain as Gain, Oracle as Oracle
from secondary_scheduler.rebalancing.planning import (
    MAX_ROUNDS as MAX_ROUNDS,
    NodeChange as NodeChange,
    PlanInput as PlanInput,
    PlannedMove as PlannedMove,
    PlanSummary as PlanSummary,
    RebalancePlan as RebalancePlan,
    make_plan as make_plan,
)
from secondary_scheduler.rebalancing.rules.evictions import (
    EvictionReply as EvictionReply,
    answer_of as answer_of,
    eviction_of as eviction_of,
)
from secondary_scheduler.rebalancing.rules.health import SchedulerHealth as SchedulerHealth
from secondary_scheduler.rebalancing.rules.reasons import (
    STOPPING as STOPPING,
    MoveRefusal as MoveRefusal,
    Reason as Reason,
)
