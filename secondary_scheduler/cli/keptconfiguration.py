"""What of a scheduler's configuration leaves the cluster: the fields that we know, and no secret."""

from __future__ import annotations

import types
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from scheduler import catalog
from scheduler.config import KubeSchedulerConfiguration, names_secret
from secondary_scheduler.cli.redaction import MASK
from secondary_scheduler.cli.shapes import DROPPED, Each, Fields, Masked, Scalar, Shape, Table, scalars


def keep_configuration(data: Any) -> Any:
    """Return what of a KubeSchedulerConfiguration is kept: the fields of our model, and of the plugins' args that we
    know. Values whose key names a secret are masked."""
    kept = _of_model(KubeSchedulerConfiguration).keep(data)
    return kept if isinstance(kept, dict) else {}


class _Args(Shape):
    """An entry of `pluginConfig`: which args are known depends on the name of the plugin."""

    def keep(self, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            return DROPPED
        name = value["name"]
        kept = {"name": Scalar().keep(name)}
        if "args" in value:
            model = _args_model(name)
            args = _of_model(model).keep(value["args"]) if model is not None else DROPPED
            kept["args"] = "[left out]" if args is DROPPED else args
        return kept


def _args_model(plugin: str) -> type[BaseModel] | None:
    if plugin == catalog.OPTIONS:
        return catalog.SecondarySchedulerOptionsArgs
    descriptor = catalog.lookup(plugin)
    return None if descriptor is None else descriptor.args_model


@lru_cache
def _of_model(model: type[BaseModel]) -> Fields:
    """The fields of a model, under the names that a file has."""
    kept: dict[str, Shape] = {}
    if issubclass(model, catalog.ArgsModel):
        # As kube-scheduler writes them; the model takes them away before it decodes.
        kept |= scalars("apiVersion", "kind")
    for name, field in model.model_fields.items():
        shape = _of_type(field.annotation)
        key = field.alias or name
        if shape is not None:
            kept[key] = Masked(MASK) if names_secret(key) and isinstance(shape, Scalar) else shape
    if model is KubeSchedulerConfiguration:
        profiles = kept["profiles"]
        if isinstance(profiles, Each) and isinstance(profiles.shape, Fields):
            kept["profiles"] = Each(Fields({**profiles.shape.fields, "pluginConfig": Each(_Args())}))
    return Fields(kept)


def _of_type(annotation: Any) -> Shape | None:
    """What is kept of a value of a type; None for one that may be anything."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _of_type(arguments[0])
    if origin is Literal:
        return Scalar()
    if origin in (Union, types.UnionType):
        shapes_ = [shape for part in arguments if part is not type(None) and (shape := _of_type(part)) is not None]
        return shapes_[0] if shapes_ else None
    if origin in (list, tuple, set, frozenset):
        element = _of_type(arguments[0])
        return None if element is None else Each(element)
    if origin is dict:
        value = _of_type(arguments[1])
        return None if value is None else Table(value)
    if isinstance(annotation, type):
        if issubclass(annotation, BaseModel):
            return _of_model(annotation)
        if issubclass(annotation, str | int | float):
            return Scalar()
    return None
