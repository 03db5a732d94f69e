"""`snapshot` and `simulate` know NodeResourceTopologies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.state import WATCHED_KINDS
from secondary_scheduler.clustersnapshot.reading import RESOURCES
from tests.support.simulating import Bench, node, pod

KIND = "NodeResourceTopology"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins:
    multiPoint:
      enabled: [{name: NodeResourceTopologyMatch}]
  pluginConfig:
  - name: NodeResourceTopologyMatch
    args: {cacheResyncPeriodSeconds: 5}
"""


def topology(name: str, *cpus: str) -> dict[str, Any]:
    resources = [
        [{"name": "cpu", "capacity": "8", "allocatable": "8", "available": cpu}, {"name": "memory", "available": "8Gi"}]
        for cpu in cpus
    ]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": KIND,
        "metadata": {"name": name, "annotations": {"topology.node.k8s.io/fingerprint": "pfp0v0010000000000000000"}},
        "topologyPolicies": ["SingleNUMANodePodLevel"],
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "zones": [
            {
                "name": f"node-{number}",
                "type": "Node",
                "parent": "socket-0",
                "costs": [{"name": "node-0", "value": 10}],
                "resources": listed,
            }
            for number, listed in enumerate(resources)
        ],
    }


def whole(name: str, cpu: str) -> dict[str, Any]:
    """A Guaranteed pod."""
    amounts = {"cpu": cpu, "memory": "1Gi"}
    return pod(name, containers=[{"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, CONFIGURATION)


def test_simulate_places_pods_where_a_zone_has_room(bench: Bench) -> None:
    result = bench.simulate(
        node("wide"), node("split"), topology("wide", "3", "1"), topology("split", "2", "2"), whole("a", "3")
    )
    assert result.nodes == {"default/a": "wide"}
    assert "not read" not in result.err


def test_simulate_holds_back_what_earlier_pods_took(bench: Bench) -> None:
    result = bench.simulate(node("one"), topology("one", "3", "3"), whole("a", "2"), whole("b", "2"))
    assert [bool(node_name) for node_name in result.nodes.values()].count(True) == 1
    (message,) = [decision["message"] for decision in result.decisions.values() if not decision.get("node")]
    assert message.startswith("0/1 nodes are available: 1 cannot align pod")


def test_simulate_leaves_out_what_cannot_be_read(bench: Bench) -> None:
    broken = topology("one", "1") | {"zones": {"name": "node-0"}}
    result = bench.simulate(node("one"), broken, whole("a", "2"))
    assert result.nodes == {"default/a": "one"}
    assert f"{KIND} one" in result.err


def test_a_snapshot_holds_them_with_everything_that_is_read() -> None:
    (resource,) = [resource for resource in RESOURCES if resource.kind == KIND]
    (codec,) = [watched.codec for watched in WATCHED_KINDS.values() if watched.kind == KIND]
    item = topology("one", "1", "2")
    kept = resource.trim(item)
    assert codec.decode(msgspec.json.encode(kept)) == codec.decode(msgspec.json.encode(item))
    assert resource.api_version == item["apiVersion"]
    assert "capacity" not in str(kept)
