"""What pydantic finds wrong, in the words of those who write the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from scheduler.catalog import Loc

UNKNOWN_FIELD = "unknown field"
"""So begins the message about one."""
_EXPECTED = {
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "string_type": "text (put it in quotes)",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "model_attributes_type": "a map",
}
_LIMITS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
"""Of numbers: the words for each, and where pydantic has the number."""


def messages_of(error: ValidationError) -> Iterator[tuple[Loc, str]]:
    """Yield the place and the message of each error."""
    for detail in error.errors(include_url=False):
        yield detail["loc"], message_of(detail)


def message_of(detail: ErrorDetails) -> str:
    """Return what is wrong, without the place."""
    loc, kind, context = detail["loc"], detail["type"], detail.get("ctx", {})
    # A token of the wrong type is still secret.
    value = "…" if loc and str(loc[-1]).lower() == "token" else detail["input"]
    if kind == "extra_forbidden":
        return f'{UNKNOWN_FIELD} "{loc[-1]}"'
    if kind == "missing":
        return "is required"
    if kind in ("literal_error", "enum"):
        return f"{describe_value(value)} is not allowed; allowed values: {context.get('expected', '')}"
    if kind in _EXPECTED:
        return f"should be {_EXPECTED[kind]}, not {describe_value(value)}"
    if kind in _LIMITS:
        words, limit = _LIMITS[kind]
        return f"must be {words} {context[limit]}, not {describe_value(value)}"
    if kind in ("string_too_short", "too_short"):
        return "must not be empty" if context.get("min_length") == 1 else f"needs at least {context['min_length']}"
    if kind == "string_too_long":
        return f"must have at most {context['max_length']} characters, not {len(str(value))}"
    if kind == "string_pattern_mismatch":
        return f"{describe_value(value)} must match {context['pattern']}"
    return message_without_value(detail)


def message_without_value(detail: ErrorDetails) -> str:
    """Return what is wrong, without the value, which may be secret."""
    if detail["type"] == "value_error":
        return str(detail.get("ctx", {}).get("error", detail["msg"]))
    # Whatever it is: people write values, and no input.
    return detail["msg"].replace("Input should", "must")


def describe_value(value: Any) -> str:
    """Return a value as text for a message: shortened, and with its kind."""
    if isinstance(value, str):
        return f'the text "{value if len(value) <= 40 else value[:37] + "..."}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    return "null" if value is None else str(value)[:40]
