"""From what was read of a cluster to the scene that all visitors share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from scheduler.config import Configuration
from scheduler.framework import LoadReading
from secondary_scheduler.clustersnapshot.taking import Document
from secondary_scheduler.simulation.cluster import PodSelection, build_cluster
from secondary_scheduler.simulation.documents import Entry
from secondary_scheduler.simulation.objects import RecordedObjects
from secondary_scheduler.simulation.report import Place, Report
from secondary_scheduler.simulation.settingup import Conditions
from secondary_scheduler.views.runs import Limits
from secondary_scheduler.views.scenes import Scene, decided_scene

LIMITS = Limits(explained=20.0, total=40.0)
"""Shorter than the command's: visitors wait for it."""
_SOURCE = "the cluster"


def scene_of(
    documents: Iterable[Document],
    configured: Callable[[int | None], Configuration],
    *,
    measured: LoadReading | None,
    now: float,
    remarks: Iterable[str] = (),
    limits: Limits = LIMITS,
) -> Scene:
    """Decide on what a cluster holds.

    Args:
        documents: the cluster's objects.
        configured: returns the scheduler's configuration on a cluster of a minor version.
        measured: the nodes' load; None where there is none.
        now: time of the decisions, seconds since the epoch.
        remarks: what is missing, for readers.
        limits: how long deciding may take.

    Raises:
        CommandError: a plugin refuses its args.
    """
    # Each line names an object; how many there are is enough, as readers differ in what they may read.
    lines: list[str] = []
    report = Report(lines.append)
    objects = RecordedObjects(report)
    objects.add(
        Entry(Place(_SOURCE, number), document.api_version, document.kind, document.data)
        for number, document in enumerate(documents, 1)
    )
    cluster = build_cluster(objects, report, PodSelection(configured(None).scheduler_names))
    configuration = configured(cluster.minor)
    conditions = Conditions(seed=0, now=now, measured=measured)
    scene, about = decided_scene(_SOURCE, cluster, configuration, conditions, limits=limits)
    shown = [*remarks, *about]
    if report.invalid:
        shown.append(f"objects that cannot be used, and are left out: {report.invalid}")
    return replace(scene, remarks=tuple(shown))
