"""Preemption: which pods have to be evicted so that another one fits, and on which node that hurts least.

What the preempting plugins (DefaultPreemption, CapacityScheduling, PreemptionToleration) share; they differ in their
`VictimRules`. Follows pkg/scheduler/framework/preemption of kube-scheduler 1.34 to 1.38. May import
`scheduler.framework`, `scheduler.helpers` and `scheduler.kube.model` and `.primitives`; has effects through the
`Handle` only.
"""

from scheduler.preemption.evaluator import (
    WAITING as WAITING,
    Evaluator as Evaluator,
    PreemptingPlugin as PreemptingPlugin,
    wanted_candidates as wanted_candidates,
)
from scheduler.preemption.gangs import (
    WAITING_AS_GROUP as WAITING_AS_GROUP,
    GangEvaluator as GangEvaluator,
)
from scheduler.preemption.victims import (
    PREEMPTED_REASON as PREEMPTED_REASON,
    NodeError as NodeError,
    ReprieveResult as ReprieveResult,
    VictimRules as VictimRules,
)
