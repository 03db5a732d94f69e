"""The load of a cluster that is read for one decision, beside its objects."""

from __future__ import annotations

from scheduler.config import Configuration
from secondary_scheduler.clustersnapshot.measuring import as_scheduled
from secondary_scheduler.clustersnapshot.origin import LoadOrigin
from secondary_scheduler.clustersnapshot.taking import load_document
from secondary_scheduler.simulation.documents import Entry
from secondary_scheduler.simulation.objects import RecordedObjects
from secondary_scheduler.simulation.report import Place, Report


def add_load(
    objects: RecordedObjects, origin: LoadOrigin | None, configuration: Configuration, source: str, report: Report
) -> None:
    """Put the load among a cluster's objects, averaged as the configuration that decides has it.

    Args:
        objects: of the cluster.
        origin: where the load is; None: it stays without one.
        configuration: that decides.
        source: where the objects are from, for messages.
        report: gets what is left out, and which window it is.

    Raises:
        LoadError: the source does not answer with loads.
    """
    if origin is None:
        return
    nodes = (bytes(node.entry.data) for node in objects.of("Node"))
    origin = as_scheduled(origin, {configuration.source: configuration}, report.note)
    document = load_document(origin, nodes, report.warn)
    objects.add([Entry(Place(source, 1), document.api_version, document.kind, document.data)])
