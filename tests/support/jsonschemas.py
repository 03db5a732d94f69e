"""The part of JSON Schema (draft 7) that `tools/schemas.py` writes, for tests. Editors bring the whole of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
_NOTES = {"$schema", "title", "description", "default", "$defs", "format", "then"}


def mistakes(value: Any, schema: Any, root: Mapping[str, Any], path: str = "$") -> Iterator[str]:
    """Yield what is wrong with a value.

    Raises:
        KeyError: the schema has a keyword that is not implemented here.
    """
    if isinstance(schema, bool):
        if not schema:
            yield f"{path}: is not allowed"
        return
    for keyword, operand in schema.items():
        if keyword not in _NOTES:
            yield from _CHECKS[keyword](value, operand, schema, root, path)


def _type(value: Any, operand: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    names = operand if isinstance(operand, list) else [operand]
    fits = (isinstance(value, _TYPES[name]) and (not isinstance(value, bool) or name == "boolean") for name in names)
    if not any(fits):
        yield f"{path}: is not of type {operand}"


def _ref(value: Any, operand: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    yield from mistakes(value, root["$defs"][operand.removeprefix("#/$defs/")], root, path)


def _any_of(value: Any, operand: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    tried = [list(mistakes(value, each, root, path)) for each in operand]
    if all(tried):
        yield from min(tried, key=len)


def _all_of(value: Any, operand: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    for each in operand:
        yield from mistakes(value, each, root, path)


def _if(value: Any, operand: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    if not any(mistakes(value, operand, root, path)):
        yield from mistakes(value, schema["then"], root, path)


def _properties(value: Any, operand: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    for key, each in operand.items():
        if isinstance(value, dict) and key in value:
            yield from mistakes(value[key], each, root, f"{path}.{key}")


def _additional(value: Any, operand: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for key in value if isinstance(value, dict) else ():
        if key not in known and not any(re.search(pattern, key) for pattern in patterns):
            yield from mistakes(value[key], operand, root, f"{path}.{key}")


def _required(value: Any, operand: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    for key in operand:
        if isinstance(value, dict) and key not in value:
            yield f"{path}.{key}: is missing"


def _items(value: Any, operand: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    for index, item in enumerate(value if isinstance(value, list) else ()):
        yield from mistakes(item, operand, root, f"{path}[{index}]")


def _allowed(fits: Any) -> Any:
    def check(value: Any, operand: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
        if not fits(value, operand):
            yield f"{path}: {value!r} does not fit {operand!r}"

    return check


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_CHECKS: Mapping[str, Any] = {
    "type": _type,
    "$ref": _ref,
    "anyOf": _any_of,
    "allOf": _all_of,
    "if": _if,
    "properties": _properties,
    "patternProperties": lambda *_: iter(()),
    "additionalProperties": _additional,
    "required": _required,
    "items": _items,
    "const": _allowed(lambda value, operand: value == operand),
    "enum": _allowed(lambda value, operand: value in operand),
    "pattern": _allowed(lambda value, operand: not isinstance(value, str) or re.search(operand, value)),
    "minimum": _allowed(lambda value, operand: not _number(value) or value >= operand),
    "maximum": _allowed(lambda value, operand: not _number(value) or value <= operand),
    "exclusiveMinimum": _allowed(lambda value, operand: not _number(value) or value > operand),
    "minLength": _allowed(lambda value, operand: not isinstance(value, str) or len(value) >= operand),
    "maxLength": _allowed(lambda value, operand: not isinstance(value, str) or len(value) <= operand),
    "minItems": _allowed(lambda value, operand: not isinstance(value, list) or len(value) >= operand),
    "maxItems": _allowed(lambda value, operand: not isinstance(value, list) or len(value) <= operand),
    "minProperties": _allowed(lambda value, operand: not isinstance(value, dict) or len(value) >= operand),
    "maxProperties": _allowed(lambda value, operand: not isinstance(value, dict) or len(value) <= operand),
}
