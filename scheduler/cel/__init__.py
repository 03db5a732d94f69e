"""CEL as Kubernetes gives it to selectors of devices (DRA): own evaluator, bounded in time, no I/O.

No package on PyPI can express Kubernetes' environment (docs/adr): own code, compared with the Go evaluator by
differential fuzzing. There is no type checker and no cost estimator, as the API server has run both on every
expression that reaches a scheduler.
"""

from scheduler.cel.device import Outcome, SelectableDevice, Selector
from scheduler.cel.errors import CelError, CompileError, CostExceeded, EvaluationError

__all__ = ["CelError", "CompileError", "CostExceeded", "EvaluationError", "Outcome", "SelectableDevice", "Selector"]
