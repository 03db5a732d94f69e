"""CEL as Kubernetes gives it to selectors of devices (DRA): own evaluator, bounded in time, no I/O.

No package on PyPI can express Kubernetes' environment (docs/adr): own code, compared with the Go evaluator by
differential fuzzing. There is no type checker and no cost estimator, as the API server has run both on every
expression that reaches a scheduler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.cel.errors import (
    CelError as CelError,
    CompileError as CompileError,
    CostExceeded as CostExceeded,
    EvaluationError as EvaluationError,
)
from scheduler.lazy import lazy_attributes

if TYPE_CHECKING:
    from scheduler.cel.device import (
        CompiledSelector as CompiledSelector,
        Outcome as Outcome,
        SelectableDevice as SelectableDevice,
    )

if not TYPE_CHECKING:
    # Few clusters have a device class; the evaluator is imported with the first selector.
    __getattr__ = lazy_attributes(
        __name__, {"Outcome": "device", "SelectableDevice": "device", "CompiledSelector": "device"}
    )
