"""A made-up cluster of two tenants, each of whose names says whose it is, and what the page makes of it."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.config import Configuration, load_configuration
from secondary_scheduler.clustersnapshot.reading import RESOURCES, SnapshotObject
from secondary_scheduler.page.sharing import page_model_of
from secondary_scheduler.simulation.cluster import read_load
from secondary_scheduler.simulation.report import InputReport
from secondary_scheduler.views.pagemodels import PageModel
from tests.support.pagemodels import CONFIGURATION as BY_LOAD, snapshot_items

OURS, THEIRS = "ours", "theirs"
MARK = "canary"
"""In every name, label and text of the other tenant's, but its namespace's."""
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins:
    multiPoint:
      enabled:
      - {name: Coscheduling}
    queueSort:
      disabled:
      - {name: PrioritySort}
  pluginConfig:
  - {name: Coscheduling, args: {permitWaitingTimeSeconds: 4321}}
"""
SECRET_ARG = "4321"
"""What only the configuration's readers see."""


def shared_items(nodes: int = 3) -> list[dict[str, Any]]:
    """Objects: nodes and pods of `ours` as in other page models, and one of each kind of trouble of `theirs`."""
    items = [_moved(item, OURS) for item in snapshot_items(nodes, 10)]
    running = _pod("running", nodeName="node-0000")
    running["status"] = {"phase": "Running", "startTime": "2026-09-20T10:00:00Z"}
    elsewhere = _pod("elsewhere")
    elsewhere["spec"]["schedulerName"] = f"{MARK}-scheduler"
    gated = _pod("gated", schedulingGates=[{"name": f"example.com/{MARK}"}])
    huge = _pod("huge", cpu="4000")
    claiming = _pod("claiming")
    claiming["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"{MARK}-claim"}}]
    device = _pod("device")
    device["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"{MARK}-device"}]
    grouped = _pod("grouped", nodeSelector={f"example.com/{MARK}": MARK})
    grouped["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = f"{MARK}-group"
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": f"{MARK}-group", "namespace": THEIRS, "uid": "group"},
        "spec": {"minMember": 2},
    }
    broken = _pod("broken")
    broken["spec"]["priority"] = f"{MARK}"
    return [*items, group, running, elsewhere, gated, huge, claiming, device, grouped, broken, _pod("fits")]


def shared_page_model(nodes: int = 3) -> PageModel:
    """The page model that the page makes of these objects."""
    kinds = {resource.kind for resource in RESOURCES}
    return page_model_of(
        [document for document in documents_of(shared_items(nodes)) if document.kind in kinds],
        lambda minor: configured(CONFIGURATION, minor),
        measured=None,
        now=1_790_000_000.0,
    )


def crowded_page_model(nodes: int, pending: int) -> PageModel:
    """The page model that the page makes of a made-up cluster of several namespaces, with its load."""
    items = snapshot_items(nodes, pending)
    load = read_load(msgspec.json.encode(items.pop()), "load", InputReport(lambda line: None))
    return page_model_of(
        documents_of(items),
        lambda minor: configured(BY_LOAD, minor),
        measured=load,
        now=load.window_end,
    )


def configured(text: str, minor: int | None = None) -> Configuration:
    """A configuration as the page reads it."""
    return load_configuration(text, source="config.yaml", external_load=True, cluster_minor=minor)


def documents_of(items: list[dict[str, Any]]) -> list[SnapshotObject]:
    """Objects as a snapshot of a cluster has them."""
    return [SnapshotObject(item["apiVersion"], item["kind"], msgspec.json.encode(item)) for item in items]


def _moved(item: dict[str, Any], namespace: str) -> dict[str, Any]:
    if "namespace" in item["metadata"]:
        item["metadata"]["namespace"] = namespace
    return item


def _pod(name: str, cpu: str = "10m", **spec: Any) -> dict[str, Any]:
    container = {"name": f"{MARK}-container", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    metadata = {
        "name": f"{MARK}-{name}",
        "namespace": THEIRS,
        "uid": f"theirs-{name}",
        "labels": {f"example.com/{MARK}": MARK},
        "annotations": {f"scheduler.alpha.kubernetes.io/{MARK}": MARK},
        "creationTimestamp": "2026-09-20T10:00:00Z",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "secondary-scheduler", "containers": [container], **spec},
        "status": {"phase": "Pending"},
    }
