"""The configurations that the schedulers of a cluster run: as they are, and without secrets for a snapshot."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from scheduler import catalog
from scheduler.answers import API_VERSION
from scheduler.config import Configuration, KubeSchedulerConfiguration, names_secret, redacted, render
from scheduler.kube.client import ClientConfig
from secondary_scheduler.cli.redaction import MASK
from secondary_scheduler.cli.shapes import DROPPED, Each, KeptShape, MapShape, Masked, Scalar, Table, scalars
from secondary_scheduler.cli.storedconfigurations import InstalledConfiguration, stored_document
from secondary_scheduler.clustersnapshot.measuring import LoadOrigin, as_scheduled
from secondary_scheduler.clustersnapshot.reading import SnapshotObject
from secondary_scheduler.clusterstatus.installations import (
    MAX_INSTANCES,
    CallerLimits,
    Installations,
    Instance,
    configuration_of,
    installations_of,
    instances_of,
)
from secondary_scheduler.nodeload import CONFIGURATION_KIND


def keep_configuration(data: Any) -> Any:
    """Return what of a KubeSchedulerConfiguration is kept: the fields of our model, and of the plugins' args that we
    know. Values whose key names a secret are masked."""
    part = _of_model(KubeSchedulerConfiguration).keep(data)
    return part if isinstance(part, dict) else {}


class _Args(KeptShape):
    """An entry of `pluginConfig`: which args are known depends on the name of the plugin."""

    def keep(self, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            return DROPPED
        name = value["name"]
        part = {"name": Scalar().keep(name)}
        if "args" in value:
            model = _args_model(name)
            args = _of_model(model).keep(value["args"]) if model is not None else DROPPED
            part["args"] = "[left out]" if args is DROPPED else args
        return part


def _args_model(plugin: str) -> type[BaseModel] | None:
    if plugin == catalog.OPTIONS:
        return catalog.SecondarySchedulerOptionsArgs
    descriptor = catalog.lookup(plugin)
    return None if descriptor is None else descriptor.args_model


@lru_cache
def _of_model(model: type[BaseModel]) -> MapShape:
    """The fields of a model, under the names that a file has."""
    shapes: dict[str, KeptShape] = {}
    if issubclass(model, catalog.ArgsModel):
        # As kube-scheduler writes them; the model takes them away before it decodes.
        shapes |= scalars("apiVersion", "kind")
    for name, field in model.model_fields.items():
        shape = _of_type(field.annotation)
        key = field.alias or name
        if shape is not None:
            shapes[key] = Masked(MASK) if names_secret(key) and isinstance(shape, Scalar) else shape
    if model is KubeSchedulerConfiguration:
        profiles = shapes["profiles"]
        if isinstance(profiles, Each) and isinstance(profiles.shape, MapShape):
            shapes["profiles"] = Each(MapShape({**profiles.shape.fields, "pluginConfig": Each(_Args())}))
    return MapShape(shapes)


def _of_type(annotation: Any) -> KeptShape | None:
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


_NOT_KNOWN = "args of its plugins are not known here, and may hold secrets; give --config to what reads the snapshot"


def read_installed(
    config: ClientConfig, namespace: str | None, limits: CallerLimits, *, command: str
) -> list[InstalledConfiguration]:
    """Return what the schedulers of a cluster mount.

    Args:
        config: the cluster.
        namespace: where to look; None: beside the SecondarySchedulers and the operator, and if nothing is there,
            everywhere.
        limits: gets what the caller may not read.
        command: named to the API server.

    Raises:
        KubeError: the API server does not answer.
    """
    return [installed for installed, _ in _installed(config, namespace, limits, command)]


Running = list[tuple[InstalledConfiguration, Configuration | str]]
"""What schedulers mount, each with what it means or what is wrong with it."""


def running_configurations(config: ClientConfig, say: Callable[[str], None]) -> Running:
    """Return what the schedulers of a cluster run, for a snapshot of it; what may not be read is said.

    Raises:
        KubeError: the API server does not answer.
    """
    limits = CallerLimits(option="")
    running = _installed(config, None, limits, "snapshot")
    for line in limits.lines if not running else ():
        say(f"left out the configurations of schedulers: {line}")
    return running


def as_running(origin: LoadOrigin, running: Running, say: Callable[[str], None]) -> LoadOrigin:
    """Return where to read the load, averaged as the schedulers do; see `as_scheduled`."""
    valid = {
        installed.scheduler: configuration for installed, configuration in running if not isinstance(configuration, str)
    }
    return as_scheduled(origin, valid, say)


def running_documents(running: Running, say: Callable[[str], None]) -> list[SnapshotObject]:
    """Return configurations as documents of a snapshot, without secrets.

    One of which a part is not known, and so may hold a secret, is left out as a whole: without that part, it would
    decide otherwise.
    """
    documents = []
    for installed, configuration in running:
        text = None if isinstance(configuration, str) else _without_secrets(configuration)
        if text is None:
            reason = configuration if isinstance(configuration, str) else _NOT_KNOWN
            say(f"left out the configuration of {installed.scheduler}: {reason}")
        else:
            data = stored_document(InstalledConfiguration(installed.scheduler, text))
            documents.append(SnapshotObject(API_VERSION, CONFIGURATION_KIND, data))
    return documents


def _installed(config: ClientConfig, namespace: str | None, limits: CallerLimits, command: str) -> Running:
    for everywhere in (False, True) if namespace is None else (False,):
        read = installations_of(config, namespace, limits, everywhere=everywhere, command=command)
        if installed := list(_mounted(instances_of(read), read)):
            return installed
    return []


def _mounted(
    instances: Sequence[Instance], read: Installations
) -> Iterator[tuple[InstalledConfiguration, Configuration | str]]:
    for instance in instances[:MAX_INSTANCES]:
        if instance.scheduler is not None and instance.configuration:
            component = instance.scheduler.component
            installed = InstalledConfiguration(f"{component.namespace}/{component.name}", instance.configuration)
            yield installed, configuration_of(instance, read)


def _without_secrets(configuration: Configuration) -> str | None:
    """The text of a configuration with masks in place of secrets; None where a part of it is not known."""
    data = configuration.model.to_dict()
    part = keep_configuration(data)
    if not _equal_but_masks(part, data):
        return None
    return render(redacted(part, loadable=True))


def _equal_but_masks(part: Any, data: Any) -> bool:
    if isinstance(part, dict) and isinstance(data, dict):
        return part.keys() == data.keys() and all(_equal_but_masks(part[key], data[key]) for key in data)
    if isinstance(part, list) and isinstance(data, list):
        return len(part) == len(data) and all(map(_equal_but_masks, part, data))
    return bool(part == data) or (part == MASK and isinstance(data, str))
