"""`decide` and `explain`: the pure core that live scheduling, simulation, conformance tests and benchmarks all run.

May import `scheduler.framework` and `scheduler.state`; no I/O, no clock.
"""

from scheduler.core.decide import Decision, Placement, decide
from scheduler.core.explain import Explanation, NodeExplanation, Score, explain

__all__ = ["Decision", "Explanation", "NodeExplanation", "Placement", "Score", "decide", "explain"]
