"""Loads from the metrics server: usage by metrics.k8s.io through the API server, as a share of the capacity."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from scheduler.framework import LoadReading, NodeLoad
from scheduler.kube.client import ApiError, Forbidden, KubeError, NotFound
from scheduler.kube.primitives import QuantityError, TimestampError, epoch_seconds, quantity_milli_value, quantity_value
from scheduler.load.figures import is_usable
from scheduler.load.nodes import NODES_PATH, list_nodes
from scheduler.load.source import LoadError

Capacity = tuple[int, int]
"""CPU in milli-units and memory in bytes."""
METRICS_PATH = "/apis/metrics.k8s.io/v1beta1/nodes"


class Connection(Protocol):
    """The part of `scheduler.kube.client.sync.SyncConnection` that the source uses."""

    def get(self, path: str, params: Mapping[str, str | int] | None = None) -> bytes:
        """Read an object."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class MetricsServerSource:
    """One list a read. The metrics server reports the latest usage only, and no deviation.

    `capacity_of` gives the capacity of a node of the cluster; without it each read lists the nodes as well.
    """

    def __init__(
        self,
        connection: Connection,
        capacity_of: Callable[[str], Capacity | None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._capacity_of = capacity_of

    def describe(self) -> str:
        """`metrics server (metrics.k8s.io)`."""
        return "metrics server (metrics.k8s.io)"

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def read(self) -> LoadReading:
        """Read the usage of all nodes; see `LoadSource.read`."""
        items = _items(self._get(METRICS_PATH), METRICS_PATH)
        capacity_of = self._capacity_of or self._list_capacities().get
        instances: dict[str, NodeLoad] = {}
        rejected = 0
        for item in items:
            name = str(_part(item, "metadata").get("name") or "")
            capacity = capacity_of(name)
            if capacity is None:
                # As upstream: usage of a node that is gone. It does not count as an unusable value.
                continue
            load, unusable = _node_load(item, capacity)
            rejected += unusable
            if load is not None:
                instances[name] = load
        return LoadReading(instances, self._clock(), {"usage": rejected} if rejected else {})

    def _get(self, path: str, params: Mapping[str, str | int] | None = None) -> bytes:
        try:
            return self._connection.get(path, params)
        except NotFound as error:
            raise LoadError(f"{path}: the API server does not serve it; is the metrics server installed?") from error
        except Forbidden as error:
            raise LoadError(
                f"{path}: not allowed; the scheduler needs get and list of nodes in metrics.k8s.io, which the"
                " ClusterRole of its load-aware plugin grants"
            ) from error
        except ApiError as error:
            raise LoadError(f"metrics server: {error}") from error
        except KubeError as error:
            raise LoadError(f"API server: {error}") from error

    def _list_capacities(self) -> dict[str, Capacity]:
        try:
            return {node.name: node.capacity for node in list_nodes(self._get)}
        except ValueError as error:
            raise LoadError(f"{NODES_PATH}: the answer is not JSON, or not a list of objects") from error


def _node_load(item: Mapping[str, Any], capacity: Capacity) -> tuple[NodeLoad | None, int]:
    usage = _part(item, "usage")
    figures: list[float] = []
    for name, amount, total in (("cpu", quantity_milli_value, capacity[0]), ("memory", quantity_value, capacity[1])):
        try:
            used = amount(usage[name])
            percent = float(100 * used) / float(total) if total > 0 else math.nan
        except (KeyError, QuantityError, TypeError):
            percent = math.nan
        figures.append(percent if is_usable(percent) else math.nan)
    unusable = sum(math.isnan(figure) for figure in figures)
    if unusable == len(figures):
        return None, unusable
    try:
        measured_at = epoch_seconds(str(item.get("timestamp", "")))
    except TimestampError:
        measured_at = math.nan
    return NodeLoad(cpu_average=figures[0], memory_average=figures[1], measured_at=measured_at), unusable


def _decoded(body: bytes, path: str) -> Mapping[str, Any]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{path}: the answer is not JSON") from error
    if not isinstance(data, dict):
        raise LoadError(f"{path}: the answer is not a list of objects")
    return data


def _items(body: bytes, path: str) -> Iterator[Mapping[str, Any]]:
    items = _decoded(body, path).get("items")
    if items is not None and not isinstance(items, list):
        raise LoadError(f"{path}: the answer is not a list of objects")
    return (item for item in items or () if isinstance(item, dict))


def _part(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = data.get(name)
    return part if isinstance(part, dict) else {}
