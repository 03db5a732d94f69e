"""Many pods on their rows, laid out by column: a what-if view takes them in at once."""

from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.framework.objects import PodInfo
from scheduler.framework.status import FloatArray, IntArray, RowArray


class PodBatch:
    """Pods that may be put on rows or taken from them together.

    Attributes:
        pods: (row, pod), and `rows` the former alone.
        requests: by resource, what each pod occupies.
        nonzero: the same for cpu and memory, with defaults for containers that request nothing.
    """

    __slots__ = ("nonzero", "pods", "requests", "rows")

    def __init__(self, pods: Sequence[tuple[int, PodInfo]]) -> None:
        self.pods = pods
        self.rows: RowArray = np.array([row for row, _ in pods], dtype=np.intp)
        names = {name for _, pod in pods for name, amount in pod.requests.items() if amount}
        self.requests: dict[str, FloatArray] = {
            name: np.array([pod.requests.get(name, 0) for _, pod in pods], dtype=np.float64) for name in names
        }
        self.nonzero: dict[str, FloatArray] = {
            "cpu": np.array([pod.nonzero_cpu for _, pod in pods], dtype=np.float64),
            "memory": np.array([pod.nonzero_memory for _, pod in pods], dtype=np.float64),
        }

    def all_indices(self) -> IntArray:
        """Return the indices of all pods."""
        return np.arange(len(self.pods))

    def at(self, indices: IntArray) -> Iterator[tuple[int, PodInfo]]:
        """Yield the pods of some indices, with their rows."""
        return (self.pods[index] for index in indices.tolist())
