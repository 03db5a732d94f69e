"""The configurations that the schedulers of a cluster run: as they are, and without secrets for a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from scheduler.config import Configuration, redacted, render
from scheduler.kube.client import ClientConfig
from secondary_scheduler.cli.keptconfiguration import keep_configuration
from secondary_scheduler.cli.redaction import MASK
from secondary_scheduler.cli.storedconfigurations import InstalledConfiguration, stored_document
from secondary_scheduler.clustersnapshot.measuring import as_scheduled
from secondary_scheduler.clustersnapshot.reading import LoadOrigin
from secondary_scheduler.clustersnapshot.taking import Document
from secondary_scheduler.clusterstatus.installations import (
    MOST_INSTANCES,
    CallerLimits,
    Installations,
    installations_of,
)
from secondary_scheduler.clusterstatus.instances import Instance, configuration_of, instances_of
from secondary_scheduler.nodeload import CONFIGURATION_KIND, LOAD_API_VERSION

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


def running_documents(running: Running, say: Callable[[str], None]) -> list[Document]:
    """Return configurations as documents of a snapshot, without secrets.

    One of which a part is not known, and so may hold a secret, is left out as a whole: without that part, it would
    decide otherwise.
    """
    documents = []
    for installed, configuration in running:
        kept = None if isinstance(configuration, str) else _without_secrets(configuration)
        if kept is None:
            reason = configuration if isinstance(configuration, str) else _NOT_KNOWN
            say(f"left out the configuration of {installed.scheduler}: {reason}")
        else:
            data = stored_document(InstalledConfiguration(installed.scheduler, kept))
            documents.append(Document(LOAD_API_VERSION, CONFIGURATION_KIND, data))
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
    for instance in instances[:MOST_INSTANCES]:
        if instance.scheduler is not None and instance.configuration:
            component = instance.scheduler.component
            installed = InstalledConfiguration(f"{component.namespace}/{component.name}", instance.configuration)
            yield installed, configuration_of(instance, read)


def _without_secrets(configuration: Configuration) -> str | None:
    """The text of a configuration with masks in place of secrets; None where a part of it is not known."""
    data = configuration.model.to_dict()
    kept = keep_configuration(data)
    if not _equal_but_masks(kept, data):
        return None
    return render(redacted(kept, loadable=True))


def _equal_but_masks(kept: Any, data: Any) -> bool:
    if isinstance(kept, dict) and isinstance(data, dict):
        return kept.keys() == data.keys() and all(_equal_but_masks(kept[key], data[key]) for key in data)
    if isinstance(kept, list) and isinstance(data, list):
        return len(kept) == len(data) and all(map(_equal_but_masks, kept, data))
    return bool(kept == data) or (kept == MASK and isinstance(data, str))
