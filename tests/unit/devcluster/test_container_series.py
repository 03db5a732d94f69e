"""What the load generator exports of pods."""

from __future__ import annotations

from devcluster.container_series import ContainerSeries
from devcluster.pod_loads import RunningPod, Use


def series(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_the_counters_follow_what_a_pod_uses_and_end_with_it() -> None:
    pod = RunningPod("default", "web", "n1", ("a", "b"), Use(2.0, 1000.0))
    busier = RunningPod("default", "web", "n1", ("a", "b"), Use(4.0, 3000.0))
    exported = ContainerSeries()
    labels = 'namespace="default",pod="web",container="a",node="n1"'
    cpu, memory = (f"container_{name}{{{labels}}}" for name in ("cpu_usage_seconds_total", "memory_working_set_bytes"))
    assert series(exported.exposition({"u": pod}, 10.0))[cpu] == 0.0
    shown = series(exported.exposition({"u": busier}, 15.0))
    assert (shown[cpu], shown[memory], len(shown)) == (5.0, 1500.0, 4)
    assert series(exported.exposition({"u": busier}, 20.0))[cpu] == 15.0
    assert series(exported.exposition({}, 21.0)) == {}
