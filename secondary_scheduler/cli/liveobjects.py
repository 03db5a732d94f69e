"""The objects of a cluster as a snapshot of this moment."""

from __future__ import annotations

from scheduler.kube.client import ClientConfig
from secondary_scheduler.clustersnapshot.reading import read_snapshot
from secondary_scheduler.simulation.documents import Entry
from secondary_scheduler.simulation.objects import RecordedObjects
from secondary_scheduler.simulation.report import InputReport, ObjectPlace


def live_objects(connection: ClientConfig, report: InputReport) -> RecordedObjects:
    """Read a cluster's objects, without its load.

    Raises:
        KubeError: the cluster does not answer, or does not let us list nodes or pods.
    """
    documents = read_snapshot(connection, report.warn)
    objects = RecordedObjects(report)
    objects.add(
        Entry(ObjectPlace(connection.server, number), document.api_version, document.kind, document.data)
        for number, document in enumerate(documents, 1)
    )
    return objects
