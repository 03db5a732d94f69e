"""The example plugin works like an installed package: found by its entry point, checked, and run."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.catalog import cluster_role_name, out_of_tree_descriptors, static_cluster_roles
from scheduler.config import ConfigurationError, load_configuration
from scheduler.core import decide
from scheduler.framework import SUCCESS, PodInfo, Status, conclude
from scheduler.plugins import build_profile
from scheduler.state import ClusterState
from tests.unit.scheduler.engine.pods import node_info, pod_info

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "scheduler-timestamp"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: secondary-scheduler
    plugins:
      multiPoint: {enabled: [{name: SchedulerTimestamp}]}
    pluginConfig:
      - name: SchedulerTimestamp
        args: {annotation: %s}
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path) -> Iterator[None]:
    """Put the package and its metadata on the path, as pip would install them."""
    metadata = tmp_path / "scheduler_timestamp-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: scheduler-timestamp\nVersion: 0.1.0\n")
    entry = "[secondary_scheduler.plugins]\nSchedulerTimestamp = scheduler_timestamp:DESCRIPTOR\n"
    (metadata / "entry_points.txt").write_text(entry)
    sys.path[:0] = [str(tmp_path), str(EXAMPLE)]
    out_of_tree_descriptors.cache_clear()
    yield
    del sys.path[:2]
    out_of_tree_descriptors.cache_clear()


class RecordingHandle:
    """A fake handle that records patches."""

    def __init__(self) -> None:
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.tasks: list[asyncio.Task[None]] = []

    def now(self) -> float:
        return 2000.5

    async def patch_pod(self, pod: PodInfo, patch: dict[str, Any], subresource: str = "") -> Status:
        self.patches.append((pod.name, patch))
        return SUCCESS

    def spawn(self, coroutine: Any, name: str) -> None:
        self.tasks.append(asyncio.ensure_future(coroutine))

    def watch_pods(self, *_: object) -> None:
        """No pod changes here."""

    def event(self, *_: object) -> None:
        pytest.fail("no patch was refused, so there is no Event")


@pytest.mark.parametrize(("nodes", "nanoseconds"), [(2, "1000250000000"), (1, "2000500000000")])
async def test_the_time_of_scoring_is_written_even_if_nothing_is_scored(nodes: int, nanoseconds: str) -> None:
    configuration = load_configuration(CONFIGURATION % "Scheduler-Timestamp", source="test")
    handle = RecordingHandle()
    runner = build_profile(configuration.profiles[0], handle)  # type: ignore[arg-type]
    state = ClusterState()
    for number in range(nodes):
        state.upsert_node(node_info(f"n{number}"))
    pod = pod_info("p")
    placement = conclude(decide(state.snapshot(1000.25), pod, runner, random.Random(1)))
    assert placement.node is not None
    assert runner.run_reserve(placement.state, pod, placement.node).is_success
    await asyncio.gather(*handle.tasks)
    assert handle.patches == [("p", {"metadata": {"annotations": {"Scheduler-Timestamp": nanoseconds}}})]


def test_its_args_are_validated_with_the_configuration() -> None:
    with pytest.raises(ConfigurationError, match=r"args\.annotation: must be an annotation key of 1 to 63 characters"):
        load_configuration(CONFIGURATION % "''", source="test")


def test_the_install_creates_a_cluster_role_with_its_rights() -> None:
    rules = static_cluster_roles()[cluster_role_name("SchedulerTimestamp")]
    assert [(rule.resources, rule.verbs) for rule in rules] == [(("pods",), ("patch",))]
