"""How the operator says that fewer replicas run than a SecondaryScheduler asks for: for the stack and for `status`."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

FEWER_REPLICAS: Final = "FewerReplicas"
"""Reason of the condition Available, whose message then begins with both numbers and why, up to a semicolon."""


def shortage_of(conditions: Iterable[Mapping[str, Any]]) -> str:
    """Return what the conditions of a SecondaryScheduler say about it, such as `1 of 2 wanted: one suitable node`; ""
    where as many replicas run as are wanted."""
    for condition in conditions:
        if condition.get("type") == "Available" and condition.get("reason") == FEWER_REPLICAS:
            return str(condition.get("message") or "").partition(";")[0]
    return ""
