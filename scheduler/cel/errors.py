"""What can go wrong with an expression."""


class EvaluationError(Exception):
    """An expression has no value."""


class CelError(EvaluationError):
    """Evaluating an expression failed; the text is cel-go's where Kubernetes shows it."""


class CompileError(Exception):
    """The text is no expression, or uses something that this package does not know; the text names it."""


class CostExceeded(EvaluationError):
    """An evaluation did more than it may; unlike other errors, no `||` absorbs it."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def no_such_overload() -> CelError:
    """Return the error for arguments of types that a function does not take."""
    return CelError("no such overload")
