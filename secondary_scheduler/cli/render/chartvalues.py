"""The values of the chart: what stays variable of a stack's settings, their schema, and values.yaml.

Why these and not more: docs/adr/0028-what-stays-variable-in-the-chart.md.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema

from secondary_scheduler.cli.render.directory import MARK
from secondary_scheduler.cli.render.images import ImageReference
from secondary_scheduler.cli.render.manifests import dump, heading

_DRAFT = "http://json-schema.org/draft-07/schema#"
_WIDTH = 110

Quantity = str | float


class _Values(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class ImageValues(_Values):
    """An image, by tag, digest or both."""

    repository: str = Field(
        pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._:-]*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$",
        description="Registry and repository, without tag and digest.",
    )
    tag: str = Field("", pattern=r"^(\w[\w.-]{0,127})?$", description="Tag, in quotes; it may be empty.")
    digest: str = Field(
        "", pattern=r"^(sha256:[0-9a-f]{64})?$", description="Digest, as sha256:…; where there is one, it decides."
    )

    @classmethod
    def of(cls, image: str) -> ImageValues:
        """The parts of a reference."""
        reference = ImageReference.parse(image)
        return cls(repository=reference.repository, tag=reference.tag, digest=reference.digest)


class ResourceValues(_Values):
    """Requests and limits of a container, as Kubernetes' quantities by resource."""

    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class TolerationValues(_Values):
    """A taint that pods tolerate."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class PodValues(_Values):
    """What every Deployment has."""

    image: ImageValues = Field(description="The image.")
    resources: ResourceValues = Field(ResourceValues(), description="Requests and limits of the container.")
    node_selector: dict[str, str] = Field({}, description="Labels of the nodes on which its pods may run.")
    tolerations: list[TolerationValues] = Field([], description="Taints that its pods tolerate.")


class SchedulerValues(PodValues):
    """The scheduler, which the operator runs."""

    resources: ResourceValues = Field(
        ResourceValues(), description="Requests and limits of the container; empty: the operator's defaults."
    )
    replicas: int = Field(1, ge=1, le=9, description="Number of schedulers; one leads, the others wait for the Lease.")
    log_level: Literal["Normal", "Debug", "Trace", "TraceAll"] = Field("Normal", description="Its verbosity.")


class ChartValues(_Values):
    """The values of the chart."""

    scheduler: SchedulerValues = Field(description="The scheduler, which the operator runs.")
    operator: PodValues = Field(description="The operator.")
    load_watcher: PodValues | None = Field(
        None, description="The load-watcher, which serves the load to the scheduler."
    )
    page: PodValues | None = Field(None, description="The page, which shows each visitor what it may read.")
    argocd: bool = Field(
        False,
        description=(
            "Whether Argo CD applies the chart: objects get the annotation by which it applies them in order, and "
            "Helm's hook of an uninstall is left out."
        ),
    )
    configuration: str = Field(
        min_length=1,
        description=(
            "The KubeSchedulerConfiguration, as text. `secondary-scheduler validate FILE` checks one, and "
            "`--set-file configuration=FILE` takes it."
        ),
    )


def values_yaml(values: ChartValues, stack: str) -> str:
    """The file values.yaml, each value with its description."""
    return heading(stack) + "# Keep your own values in a file of your own.\n" + "".join(_described(values, ""))


def values_schema(values: ChartValues, stack: str) -> str:
    """The file values.schema.json, with which Helm checks values; only of what this chart has."""
    schema = ChartValues.model_json_schema(schema_generator=_Generator)
    for name in [name for name, value in _items(values) if value is None]:
        del schema["properties"][name]
    # Helm hands the global values of a parent chart to every chart below it.
    schema["properties"]["global"] = {"type": "object", "description": "Of a parent chart; not read."}
    return json.dumps({"$comment": f"{MARK} from stack {stack}.", "$schema": _DRAFT, **schema}, indent=2) + "\n"


class _Generator(GenerateJsonSchema):
    """Without titles, which only repeat names, without defaults, which values.yaml has, and without null."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        # For Helm, null removes a value before it is checked.
        return self.generate_inner(schema["schema"])

    def model_schema(self, schema: Any) -> dict[str, Any]:
        content = super().model_schema(schema)
        content.pop("title", None)
        return content


def _items(values: BaseModel) -> Iterator[tuple[str, Any]]:
    for name, info in type(values).model_fields.items():
        yield info.alias or name, getattr(values, name)


def _described(values: BaseModel, indent: str) -> Iterator[str]:
    for name, info in type(values).model_fields.items():
        value = getattr(values, name)
        if value is None:
            continue
        yield textwrap.fill(
            info.description or "", _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
        )
        yield f"\n{indent}{info.alias or name}:"
        if isinstance(value, _Values) and not isinstance(value, ResourceValues):
            yield "\n"
            yield from _described(value, f"{indent}  ")
        else:
            yield _leaf(value, indent)


def _leaf(value: Any, indent: str) -> str:
    plain = _plain(value)
    if plain in ({}, []):
        return f" {json.dumps(plain)}\n"
    text = dump({"x": plain}).removeprefix("x:")
    return textwrap.indent(text, indent).removeprefix(indent)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, exclude_none=True)
    if isinstance(value, Mapping):
        return dict(value)
    return [_plain(item) for item in value] if isinstance(value, list) else value
