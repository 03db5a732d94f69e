"""Value types that plugin args and the configuration share: the strict base model, Go durations, quantities.

Semantic checks are not pydantic validators but methods `check()`, so that one pass finds every problem of a file, each
at its own field path and in upstream's words.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, model_validator
from pydantic.alias_generators import to_camel

from scheduler.catalog.upstream import KubernetesVersion
from scheduler.kube.primitives import QuantityError, quantity_milli_value

Loc = tuple[str | int, ...]
"""A location in a document: field names as written, and list indices."""

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


class StrictModel(BaseModel):
    """Base of everything decoded from a configuration: camelCase names only, no coercion, no unknown fields,
    immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _null_means_absent(cls, data: Any) -> Any:
        """Go's decoder leaves a field with an explicit null at its default."""
        if not isinstance(data, dict) or None not in data.values():
            return data
        known = {field.alias for field in cls.model_fields.values()}
        return {key: value for key, value in data.items() if value is not None or key not in known}

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Yield (location below this model, message) for every value that decodes but is not allowed."""
        yield from ()

    def to_dict(self) -> dict[str, Any]:
        """Return the model as JSON-ready data under its camelCase names; fields that are unset and null are left
        out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class ArgsModel(StrictModel):
    """Base of a plugin's args (`pluginConfig[].args`): exactly upstream's fields and defaults."""

    def check_as(self, kubernetes: KubernetesVersion) -> Iterator[tuple[Loc, str]]:
        """Yield what `check` does, and what only this version of kube-scheduler refuses."""
        yield from self.check()

    def completed_as(self, kubernetes: KubernetesVersion) -> Self:
        """Return the args with the defaults that depend on the version of kube-scheduler."""
        return self

    def load_figures(self) -> tuple[str, ...]:
        """Return the names of `NodeLoad.figure` without which a plugin that reads load has none of a node."""
        return ("cpu_average", "memory_average")

    def source_key(self) -> str | None:
        """Return the identity of the load source these args ask for, or None for a plugin that reads no load."""
        return None


def parse_duration(value: object) -> float:
    """Return the seconds of a Go duration string such as `15s` or `1m30s`.

    Raises:
        ValueError: the text is not a Go duration. Numbers without a unit are refused, as metav1.Duration refuses them.
    """
    if isinstance(value, float):
        return value  # a default, already in seconds
    if not isinstance(value, str):
        raise ValueError('should be a duration in quotes, such as "15s" or "1m30s"')
    text = value.lstrip("+-")
    if text == "0":
        return 0.0
    position, seconds = 0, 0.0
    for match in _DURATION.finditer(text):
        if match.start() != position:
            break
        seconds += float(match[1]) * _UNITS[match[2]]
        position = match.end()
    if position != len(text) or not text:
        raise ValueError(f'"{value}" is not a duration: write a number with a unit, such as "15s" or "1m30s"')
    return -seconds if value.startswith("-") else seconds


def format_duration(seconds: float) -> str:
    """Return seconds as Go prints a duration: `1m30s`, `500ms`, `0s`."""
    sign, rest = ("-", -seconds) if seconds < 0 else ("", seconds)
    if rest == 0:
        return "0s"
    if rest < 1:
        for unit, size in (("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
            if rest >= size:
                return f"{sign}{rest / size:.9g}{unit}"
        return "0s"
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    text = f"{int(hours)}h" if hours else ""
    if minutes or hours:
        text += f"{int(minutes)}m"
    return f"{sign}{text}{round(rest, 9):.11g}s"


def _quantity(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError('should be a quantity, such as "500m" or "1Gi"')
    text = str(value)
    try:
        quantity_milli_value(text)
    except QuantityError:
        raise ValueError(
            f'"{value}" is not a quantity: write a number with a suffix, such as "500m" or "1Gi"'
        ) from None
    return text


Duration = Annotated[float, BeforeValidator(parse_duration), PlainSerializer(format_duration)]
"""Seconds, written as a Go duration string."""

Quantity = Annotated[str, BeforeValidator(_quantity)]
"""A Kubernetes quantity as text; a bare number is accepted as JSON accepts it."""
