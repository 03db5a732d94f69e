"""Host ports."""

from __future__ import annotations

import random

from tests.conformance.features.draft import Feature, Json, containers, needs

_PORTS = (8080, 8080, 8081, 53)
_ADDRESSES = ("", "", "0.0.0.0", "127.0.0.1", "10.0.0.7")


def _ports(rng: random.Random, pod: Json) -> None:
    bound: set[tuple[str, str, int]] = set()
    for container in containers(pod):
        if rng.random() < 0.4:
            continue
        port = rng.choice(_PORTS)
        entry: Json = {"containerPort": rng.choice([80, port]), "hostPort": port}
        protocol, address = rng.choice(["TCP", "TCP", "UDP"]), rng.choice(_ADDRESSES)
        if (protocol, address, port) in bound:
            continue
        bound.add((protocol, address, port))
        if protocol != "TCP" or rng.random() < 0.5:
            entry["protocol"] = protocol
        if address:
            entry["hostIP"] = address
        container["ports"] = [entry, {"containerPort": 9999}]


FEATURES = (Feature("ports", needs("NodePorts"), existing=_ports, incoming=_ports),)
