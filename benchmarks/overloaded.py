"""A large cluster with some overloaded nodes, as a snapshot: what `rebalance plan` is measured on.

Each pod runs, is ready and old enough, and belongs to a ReplicaSet of 20: no rule but those about load keeps it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from benchmarks.harness.manifests import LONG_AGO, node, node_load, node_name, pod

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins:
    score:
      enabled: [{name: TargetLoadPacking, weight: 5}]
"""
REPLICAS = 20
_CALM, _BUSY = (15.0, 70.0), (85.0, 97.0)
"""Measured CPU of nodes that are not overloaded, and of those that are, in per cent: the default limit is 80."""


def objects(nodes: int, pods: int, overloaded: int) -> Iterator[dict[str, Any]]:
    """The snapshot's objects.

    Args:
        nodes: of 16, 32 and 64 cores in three zones.
        pods: on them, of 200 sizes.
        overloaded: so many of the nodes.
    """
    chance = random.Random(nodes)
    names = [node_name(number) for number in range(nodes)]
    yield from map(node, range(nodes))
    yield from (_replica_set(number) for number in range(-(-pods // REPLICAS)))
    yield from (_pod(number, names[chance.randrange(nodes)]) for number in range(pods))
    busy = set(chance.sample(names, overloaded))
    yield node_load({name: chance.uniform(*(_BUSY if name in busy else _CALM)) for name in names})


def _replica_set(number: int) -> dict[str, Any]:
    name = f"web-{number:05d}"
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": f"team-{number % 20}", "uid": name, "generation": 1},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {"app": name}}},
        "status": {"replicas": REPLICAS, "readyReplicas": REPLICAS, "observedGeneration": 1},
    }


def _pod(number: int, node: str) -> dict[str, Any]:
    group, name = number // REPLICAS, f"web-{number:06d}"
    owner = f"web-{group:05d}"
    requests = {"cpu": f"{50 + 10 * (group % 200)}m", "memory": f"{256 + group % 200}Mi"}
    item = pod(name, requests, namespace=f"team-{group % 20}", labels={"app": owner}, nodeName=node)
    references = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}]
    item["metadata"] |= {"creationTimestamp": LONG_AGO, "ownerReferences": references}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": LONG_AGO} for kind in ("PodScheduled", "Ready")
    ]
    item["status"] = {"phase": "Running", "startTime": LONG_AGO, "conditions": conditions}
    return item
