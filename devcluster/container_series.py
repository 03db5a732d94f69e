"""What cAdvisor would export of the pods of a local cluster: counters that follow what each uses (`pod_loads`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from devcluster.pod_loads import RunningPod, Use


@dataclass
class _Meter:
    """The processor time of one pod. It has used so much since `at`."""

    use: Use
    at: float
    seconds: float = 0.0


class ContainerSeries:
    """The counters of the pods that run. Times are seconds of any monotonic clock."""

    def __init__(self) -> None:
        self._meters: dict[str, _Meter] = {}

    def exposition(self, pods: Mapping[str, RunningPod], now: float) -> str:
        """Return the series of pods (by UID) in Prometheus' text format; those of pods that are gone end.

        The containers share what their pod uses evenly: nobody asks which it is.
        """
        cpu = ["# TYPE container_cpu_usage_seconds_total counter"]
        memory = ["# TYPE container_memory_working_set_bytes gauge"]
        for uid in self._meters.keys() - pods.keys():
            del self._meters[uid]
        for uid, pod in pods.items():
            meter = self._meters.setdefault(uid, _Meter(pod.use, now))
            meter.seconds += meter.use.cpu * max(0.0, now - meter.at)
            meter.use, meter.at = pod.use, now
            for container in pod.containers:
                labels = f'namespace="{pod.namespace}",pod="{pod.name}",container="{container}",node="{pod.node}"'
                cpu.append(f"container_cpu_usage_seconds_total{{{labels}}} {meter.seconds / len(pod.containers):.6f}")
                memory.append(
                    f"container_memory_working_set_bytes{{{labels}}} {round(pod.use.memory / len(pod.containers))}"
                )
        return "\n".join([*cpu, *memory, ""])
