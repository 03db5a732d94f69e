"""What every case finds on the API server: namespaces, priority classes and runtime classes."""

from __future__ import annotations

import asyncio
import contextlib
import time

from tests.conformance.apiclient import Api, ApiError
from tests.conformance.case import Json

_ADMITTED_SECONDS = 30.0

_NAMESPACE_LABELS: dict[str, dict[str, str]] = {
    "default": {},
    "team-a": {"team": "a", "stage": "prod"},
    "team-b": {"team": "b"},
}
NAMESPACES = tuple(_NAMESPACE_LABELS)

PRIORITIES: dict[str, int] = {"lowest": -100, "low": 1, "middle": 50, "high": 1000}
"""Names and values of the priority classes; a pod without one has priority 0."""

OVERHEADS: dict[str, dict[str, str]] = {
    "small-overhead": {"cpu": "130m", "memory": "70Mi"},
    "wide-overhead": {"cpu": "1500m", "memory": "1G", "example.com/gpu": "1"},
}
"""Runtime classes by what they add to a pod."""


_CONTAINER = {"name": "main", "image": "registry.example/app"}


def _named(api_version: str, kind: str, name: str, **fields: object) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


PERMANENT: tuple[Json, ...] = (
    *(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name, labels in _NAMESPACE_LABELS.items()
    ),
    *(
        _named("scheduling.k8s.io/v1", "PriorityClass", name, value=value, preemptionPolicy="PreemptLowerPriority")
        for name, value in PRIORITIES.items()
    ),
    _named("scheduling.k8s.io/v1", "PriorityClass", "polite", value=1000, preemptionPolicy="Never"),
    *(
        _named("node.k8s.io/v1", "RuntimeClass", name, handler="runc", overhead={"podFixed": amounts})
        for name, amounts in OVERHEADS.items()
    ),
)


async def create_surroundings(api: Api) -> list[Json]:
    """Create what is not there yet, wait until pods may name it, and return it as the API server has it."""
    items: list[Json] = []
    for item in PERMANENT:
        with contextlib.suppress(ApiError):
            # There already: `default`, and what an earlier test on this control plane has made.
            await api.create(item)
        items.append(await api.get(item) | {"kind": item["kind"]})
    for name in PRIORITIES:
        await _admitted(api, name)
    return items


async def _admitted(api: Api, priority_class: str) -> None:
    """Admission knows priority classes by a watch of its own, which may be behind."""
    pod = _named("v1", "Pod", "probe", spec={"priorityClassName": priority_class, "containers": [_CONTAINER]})
    deadline = time.monotonic() + _ADMITTED_SECONDS
    while True:
        try:
            await api.call("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
            return
        except ApiError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.02)
