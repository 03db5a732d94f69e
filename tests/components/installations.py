"""An installation as the program registers it, with what tests of its parts ask of it."""

from __future__ import annotations

from typing import Any

import pulumi

import components
from tests.components.graph import STATUS, Graph, Registered, register


def installation_graph(token: str = "", **args: Any) -> Graph:
    """Return the graph of an installation with these args; a token is the metric source's."""

    def program() -> None:
        access = components.MetricAccess(pulumi.Output.secret(token) if token else None)
        components.SchedulerInstallation(
            "mine", components.SchedulerInstallationArgs(**{"metric_access": access, **args})
        )

    return register(program, config={}, preview=True, statuses=STATUS)


def object_named(graph: Graph, kind: str, name: str) -> Registered:
    """Return the only object of a kind and a name."""
    (resource,) = [each for each in graph.of(kind) if each.object_name == name]
    return resource


def pod_spec_of(graph: Graph, name: str) -> dict[str, Any]:
    """Return the pod spec of a Deployment."""
    spec: dict[str, Any] = object_named(graph, "Deployment", name).manifest["spec"]["template"]["spec"]
    return spec
