"""Loads from the metrics server: usage by metrics.k8s.io through the API server, as a share of the capacity."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol

from msgspec import Meta, Struct

from scheduler.framework import LoadReading, NodeLoad
from scheduler.kube.client import ApiError, Forbidden, KubeError, NotFound
from scheduler.kube.primitives import QuantityError, TimestampError, epoch_seconds, quantity_milli_value, quantity_value
from scheduler.load.answers import AnswerDecoder, AnswerError, LoadAnswer, max_bytes
from scheduler.load.figures import Rejections, is_usable
from scheduler.load.nodes import list_nodes
from scheduler.load.settings import LoadError, ObjectCount

Capacity = tuple[int, int]
"""CPU in milli-units and memory in bytes."""
METRICS_PATH = "/apis/metrics.k8s.io/v1beta1/nodes"
_BYTES_A_NODE = 4096
"""Twice what other sources need: each item has the node's labels, and those of cloud providers are 2 KiB."""


class _NodeMetricsList(Struct):
    items: list[Any] | None = None


class _NodeMetricsMeta(Struct, frozen=True, gc=False):
    name: str


_Amount = Annotated[str, Meta(max_length=64)]
"""Quantities that were read are kept, so that they must not be long."""


class _Amounts(Struct, frozen=True, gc=False):
    cpu: _Amount = ""
    memory: _Amount = ""


class _Usage(Struct, frozen=True, gc=False):
    metadata: _NodeMetricsMeta
    usage: _Amounts = _Amounts()
    timestamp: str | None = None


_USAGES: AnswerDecoder[_NodeMetricsList, _Usage] = AnswerDecoder(_NodeMetricsList, "items", sample=_Usage, seam=b"}},{")


class MetricsConnection(Protocol):
    """The part of `scheduler.kube.client.sync.SyncConnection` that the source uses."""

    def get(self, path: str, params: Mapping[str, str | int] | None = None) -> bytes:
        """Read an object."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class MetricsServerSource:
    """One list a read. The metrics server reports the latest usage only, and no deviation.

    `capacity_of` gives the capacity of a node of the cluster, and `object_count` says how many it has; without the
    first each read lists the nodes as well.
    """

    def __init__(
        self,
        connection: MetricsConnection,
        capacity_of: Callable[[str], Capacity | None] | None = None,
        clock: Callable[[], float] = time.time,
        object_count: ObjectCount | None = None,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._object_count = object_count
        self._capacity_of = capacity_of

    def describe(self) -> str:
        """`metrics server (metrics.k8s.io)`."""
        return "metrics server (metrics.k8s.io)"

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def read(self) -> LoadReading:
        """Read the usage of all nodes; see `LoadSource.read`."""
        body = self._get(METRICS_PATH)
        capacity_of, object_count = self._capacity_of, self._object_count and self._object_count()
        if capacity_of is None:
            capacities = self._list_capacities()
            capacity_of, object_count = capacities.get, len(capacities)
        try:
            answer: LoadAnswer[_NodeMetricsList, _Usage] = _USAGES.decode(body, max_bytes(object_count, _BYTES_A_NODE))
        except AnswerError as error:
            raise LoadError(f"{METRICS_PATH}: the answer cannot be used: {error}") from error
        rejections = Rejections()
        rejections.add("usage", answer.reason, answer.rejected)
        instances: dict[str, NodeLoad] = {}
        for _, item in answer.samples:
            name = item.metadata.name
            capacity = capacity_of(name)
            # As upstream: usage of a node that is gone does not count as an unusable value.
            load = _node_load(item, capacity, rejections) if capacity is not None else None
            if load is not None:
                instances[name] = load
        return LoadReading(instances, self._clock(), rejections.counts, reasons=rejections.reasons)

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
            raise LoadError(str(error)) from error


def _node_load(item: _Usage, capacity: Capacity, rejections: Rejections) -> NodeLoad | None:
    figures: list[float] = []
    for resource, text, amount, total in (
        ("cpu", item.usage.cpu, quantity_milli_value, capacity[0]),
        ("memory", item.usage.memory, quantity_value, capacity[1]),
    ):
        try:
            percent = float(100 * amount(text)) / float(total) if total > 0 else math.nan
        except QuantityError:
            percent = math.nan
        if not is_usable(percent):
            rejections.add("usage", f"{resource} {text!r} of {item.metadata.name[:80]!r} cannot be a load")
            percent = math.nan
        figures.append(percent)
    if all(map(math.isnan, figures)):
        return None
    try:
        measured_at = epoch_seconds(item.timestamp or "")
    except TimestampError:
        measured_at = math.nan
    return NodeLoad(cpu_average=figures[0], memory_average=figures[1], measured_at=measured_at)
