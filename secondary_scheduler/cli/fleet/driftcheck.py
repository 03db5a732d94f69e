"""The drift check of one stack: its state from the engine, its objects from the cluster, which is only read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduler.kube.client import KubeError, NotFound, SyncConnection, api_path
from secondary_scheduler.cli.fleet.drift import StackObject, drift_of
from secondary_scheduler.cli.fleet.events import one_line
from secondary_scheduler.cli.fleet.results import Drift

_TYPE = "kubernetes:"
_OBJECT = {"apiVersion", "kind", "metadata"}
_MANAGER = "__fieldManager"


class DriftCheck:
    """Compares the objects of a stack with its state."""

    def __init__(self, stack: str, cluster: SyncConnection) -> None:
        self._stack = stack
        self._cluster = cluster
        self._kinds: dict[str, dict[str, tuple[str, bool]]] = {}

    def run(self, state: Sequence[Mapping[str, Any]]) -> tuple[list[Drift], list[str]]:
        """What drifted, and a line for each object that could not be compared.

        `state` are the resources of `pulumi stack export`.
        """
        drifts: list[Drift] = []
        problems: list[str] = []
        for inputs, manager in objects_of(state):
            try:
                drifts += self._drift(inputs, manager)
            except KubeError as error:
                name = inputs["metadata"].get("name")
                problems.append(f"{inputs['kind']} {name} could not be compared: {one_line(str(error))}")
        return drifts, problems

    def _drift(self, inputs: Mapping[str, Any], manager: str) -> list[Drift]:
        api_version = str(inputs["apiVersion"])
        kind = self._served(api_version).get(str(inputs["kind"]))
        group = api_version.rpartition("/")[0]
        plural, namespaced = kind or (str(inputs["kind"]).lower(), False)
        known = StackObject(inputs, manager, f"{plural}.{group}" if group else plural)
        if kind is None:
            return drift_of(self._stack, known, None)
        path = api_path(api_version, plural, namespace=known.namespace if namespaced else None, name=known.name)
        try:
            live = json.loads(self._cluster.get(path))
        except NotFound:
            live = None
        return drift_of(self._stack, known, live)

    def _served(self, api_version: str) -> dict[str, tuple[str, bool]]:
        """Plural and whether it is namespaced, by kind; empty for an API that is not served."""
        if api_version not in self._kinds:
            prefix = "/apis" if "/" in api_version else "/api"
            try:
                listed = json.loads(self._cluster.get(f"{prefix}/{api_version}"))["resources"]
            except NotFound:
                listed = []
            self._kinds[api_version] = {
                each["kind"]: (each["name"], bool(each["namespaced"])) for each in listed if "/" not in each["name"]
            }
        return self._kinds[api_version]


def objects_of(state: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Inputs and field manager of each object that the stack owns now."""
    for resource in state:
        inputs = resource.get("inputs") or {}
        is_object = str(resource.get("type", "")).startswith(_TYPE) and set(inputs) >= _OBJECT
        if is_object and not resource.get("delete") and not resource.get("external"):
            yield inputs, str((resource.get("outputs") or {}).get(_MANAGER) or "")
