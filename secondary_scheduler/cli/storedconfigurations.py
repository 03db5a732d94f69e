"""How a snapshot holds the configurations of installed schedulers: each in a document of its own.

Whoever reads one takes it for what it is: text from somewhere else, which is bounded and checked as any other file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from scheduler.answers import API_VERSION
from scheduler.config import check_size
from secondary_scheduler.nodeload import CONFIGURATION_KIND
from secondary_scheduler.simulation.objects import RecordedObjects
from secondary_scheduler.simulation.report import with_field


@dataclass(frozen=True, slots=True)
class InstalledConfiguration:
    """What a scheduler mounts.

    Attributes:
        scheduler: its Deployment, `namespace/name`.
        text: the KubeSchedulerConfiguration.
    """

    scheduler: str
    text: str


class _Stored(Struct):
    configuration: str


_stored = msgspec.json.Decoder(_Stored)


def stored_document(installed: InstalledConfiguration) -> bytes:
    """Return the document as JSON."""
    namespace, _, name = installed.scheduler.partition("/")
    content = {
        "apiVersion": API_VERSION,
        "kind": CONFIGURATION_KIND,
        "metadata": {"namespace": namespace, "name": name},
        "configuration": installed.text,
    }
    return msgspec.json.encode(content)


def stored_configurations(objects: RecordedObjects) -> Iterator[InstalledConfiguration]:
    """Yield what a snapshot holds.

    Raises:
        ConfigurationError: one is larger than a ConfigMap can be.
        ValueError: one has another form.
    """
    for obj in objects.of(CONFIGURATION_KIND):
        scheduler = f"{obj.namespace}/{obj.name}"
        try:
            text = _stored.decode(obj.entry.data).configuration
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{obj.entry.place}, {obj.title}: {with_field(error)}") from error
        check_size(text, scheduler)
        yield InstalledConfiguration(scheduler, text)
