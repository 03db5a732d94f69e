"""Makes cases from seeds. The same seed, features and profile always give the same case."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.conformance.case import Case
from tests.conformance.features import FEATURES, Draft
from tests.conformance.features.draft import Json, labels_of, offer, request
from tests.conformance.surroundings import NAMESPACES

_ZONES = ("zone-a", "zone-b", "zone-c")
_APPS = ("web", "db", "cache")


def choose(seed: int, features: Sequence[str], profiles: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The features (one alone in a third of the cases, else two to five) and the profile that a seed stands for."""
    rng = random.Random(f"choice:{seed}")
    count = 1 if rng.random() < 0.34 else rng.randint(2, 5)
    chosen = rng.sample(list(features), min(count, len(features)))
    profile = "default" if rng.random() < 0.5 else rng.choice(list(profiles))
    return tuple(name for name in FEATURES if name in chosen), profile


def generate(seed: int, features: Sequence[str], profile: str = "default") -> Case:
    """The case of a seed with these features. Raises KeyError for an unknown feature."""
    rng = random.Random(f"case:{seed}")
    draft = Draft(seed)
    # What the scheduler still believes of an earlier case shall not meet this one: names are the seed's own.
    draft.nodes = [_node(rng, f"n{seed}-{number}") for number in range(rng.randint(3, 12))]
    names = [node["metadata"]["name"] for node in draft.nodes]
    draft.existing = [_existing(rng, number, names) for number in range(rng.randint(0, 2 * len(names)))]
    draft.incoming = [_pod(rng, f"incoming-{number}") for number in range(rng.randint(2, 5))]
    for name in features:
        FEATURES[name].apply(random.Random(f"{name}:{seed}"), draft)
    _drop_port_clashes(draft.existing)
    objects = (*draft.nodes, *draft.others, *draft.existing)
    return Case(seed, tuple(features), profile, objects, tuple(draft.incoming))


def _drop_port_clashes(pods: list[Json]) -> None:
    """Take away host ports that another pod of the node has: no scheduler puts such pods on a node, and kube-scheduler,
    which keeps used ports as a set, takes the port for free once one of them is gone.
    """
    bound: set[tuple[str, str, str, int]] = set()
    for pod in pods:
        for container in pod["spec"]["containers"] + pod["spec"].get("initContainers", []):
            kept = []
            for port in container.get("ports", []):
                address = port.get("hostIP") or "0.0.0.0"
                key = (pod["spec"]["nodeName"], port.get("protocol", "TCP"), address, port.get("hostPort", 0))
                if not key[3] or key not in bound:
                    kept.append(port)
                bound.add(key)
            if "ports" in container:
                container["ports"] = kept


def _node(rng: random.Random, name: str) -> Json:
    node: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": rng.choice(_ZONES),
                "tier": rng.choice(["gold", "silver", "bronze"]),
                "disk": rng.choice(["ssd", "hdd"]),
            },
        },
        "spec": {},
        "status": {
            "capacity": {},
            "allocatable": {},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    if rng.random() < 0.15:
        labels_of(node).pop(rng.choice(["tier", "disk"]))
    offer(node, "cpu", rng.choice(["2", "4", "8", "16"]))
    offer(node, "memory", rng.choice(["4Gi", "8Gi", "16G", "32Gi"]))
    offer(node, "pods", "110")
    return node


def _pod(rng: random.Random, name: str) -> Json:
    labels = {"app": rng.choice(_APPS)}
    if rng.random() < 0.5:
        labels["version"] = rng.choice("12")
    pod: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACES[0] if rng.random() < 0.6 else rng.choice(NAMESPACES),
            "labels": labels,
        },
        "spec": {"containers": []},
    }
    for number in range(rng.choice([1, 1, 1, 2])):
        container: Json = {"name": f"main-{number}", "image": "app-a"}
        if rng.random() < 0.85:
            request(container, "cpu", rng.choice(["100m", "250m", "500m", "1"]))
        if rng.random() < 0.85:
            request(container, "memory", rng.choice(["64Mi", "500Mi", "1Gi", "1G"]))
        pod["spec"]["containers"].append(container)
    return pod


def _existing(rng: random.Random, number: int, nodes: list[str]) -> Json:
    pod = _pod(rng, f"existing-{number}")
    # Some nodes are fuller than others, as on any cluster.
    pod["spec"]["nodeName"] = nodes[min(rng.randrange(len(nodes)), rng.randrange(len(nodes)))]
    return pod
