"""What a pod's containers declare, added up by the simple rule of the load-aware plugins."""

from msgspec import Struct


class Declared(Struct, frozen=True):
    """Requests and limits of a pod as Trimaran counts them (scheduler-plugins v0.34.7, pkg/trimaran/resourcestats.go).

    The main containers' sum, or a single init container where that is larger (sidecars count as such), plus the
    overhead; resources of the pod as a whole do not count. CPU in milli-units, memory in bytes.

    Attributes:
        cpu, memory: requests.
        cpu_limit, memory_limit: limits, at least the requests.
        peak_cpu: the request Peaks looks at: sidecars run beside the rest, and overhead counts only beside a request.
    """

    cpu: int = 0
    memory: int = 0
    cpu_limit: int = 0
    memory_limit: int = 0
    peak_cpu: int = 0


NOTHING_DECLARED = Declared()
