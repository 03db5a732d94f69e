"""Prometheus, the gateway in front of it and the load generator behind it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from devcluster import inventory
from devcluster.inventory import SimulatedNode
from devcluster.layout import Layout
from devcluster.ports import LOOPBACK
from devcluster.probes import http_ok, https_ok
from devcluster.processes import ServiceProcess

# A scrape of many nodes takes Prometheus longer than a second on a small machine.
_MANY_NODES = 200
_REAL_NODE_CPUS = 4
_REAL_NODE_MEMORY_GIB = 8
CPU_RATIO = "instance:node_cpu:ratio"
MEMORY_RATIO = "instance:node_memory_utilisation:ratio"


def write_configuration(
    layout: Layout, ports: Mapping[str, int], simulated: Sequence[SimulatedNode], real_nodes: int
) -> None:
    """Write the nodes for the load generator, and Prometheus' configuration with its rules."""
    nodes: dict[str, Any] = {
        node.name: {
            "cpus": node.size.cpus,
            "memoryBytes": node.size.memory_gib * inventory.GIB,
            "cpu": node.profile.cpu,
            "memory": node.profile.memory,
        }
        for node in simulated
    }
    for name in inventory.real_node_names(real_nodes):
        nodes[name] = {
            "cpus": _REAL_NODE_CPUS,
            "memoryBytes": _REAL_NODE_MEMORY_GIB * inventory.GIB,
            "cpu": inventory.COLD.cpu,
            "memory": inventory.COLD.memory,
        }
    layout.config("load.json").write_text(json.dumps(nodes))
    seconds = 1 if len(nodes) <= _MANY_NODES else 5
    layout.config("prometheus.yaml").write_text(
        yaml.safe_dump(
            prometheus_configuration(ports["load-generator"], layout.config("rules.yaml"), seconds), sort_keys=False
        )
    )
    layout.config("rules.yaml").write_text(yaml.safe_dump(recording_rules(seconds), sort_keys=False))


def prometheus_configuration(load_generator: int, rules: Path, seconds: int) -> dict[str, Any]:
    """Scrape the load generator, whose series carry the node's name as `instance`, as kube-prometheus has it."""
    return {
        "global": {
            "scrape_interval": f"{seconds}s",
            "scrape_timeout": f"{seconds}s",
            "evaluation_interval": f"{seconds}s",
        },
        "rule_files": [str(rules)],
        "scrape_configs": [
            {
                "job_name": "node-exporter",
                "honor_labels": True,
                "static_configs": [{"targets": [f"{LOOPBACK}:{load_generator}"]}],
            }
        ],
    }


def recording_rules(seconds: int) -> dict[str, Any]:
    """The rules of kube-prometheus that load-watcher's queries name, looking back seconds instead of 5 minutes.

    They take `irate` for `rate`: until its window has filled, `rate` shows a fraction of the load, and a hot node would
    look cold for as long as its average remembers that.
    """
    window = f"{5 * seconds}s"
    idle = 'mode!="idle",mode!="iowait",mode!="steal"'
    busy = f"sum(irate(node_cpu_seconds_total{{{idle}}}[{window}])) without (cpu, mode)"
    cores = "count(sum(node_cpu_seconds_total) by (instance, cpu)) by (instance)"
    return {
        "groups": [
            {
                "name": "node.rules",
                "rules": [
                    {"record": CPU_RATIO, "expr": f"{busy} / on (instance) group_left () {cores}"},
                    {
                        "record": MEMORY_RATIO,
                        "expr": "1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes",
                    },
                ],
            }
        ]
    }


def load_generator(layout: Layout, ports: Mapping[str, int]) -> ServiceProcess:
    """Exports what node-exporter would, for every node of the cluster; with a port for it, the pods' use as well."""
    port = ports["load-generator"]
    following = []
    if "metrics-server" in ports:
        following = [
            f"--follow-pods={layout.kubeconfig}",
            f"--metrics-server-port={ports['metrics-server']}",
            f"--certificate={layout.pki('prometheus.crt')}",
            f"--key={layout.pki('prometheus.key')}",
        ]
    return ServiceProcess(
        "load-generator",
        [
            sys.executable,
            "-m",
            "devcluster.load_generator",
            f"--nodes={layout.config('load.json')}",
            f"--port={port}",
            *following,
        ],
        ports=[port, *(ports[name] for name in ("metrics-server",) if name in ports)],
        ready=http_ok(port, "/healthz"),
        ready_seconds=30,
        stop_seconds=2,
    )


def prometheus(binary: Path, layout: Layout, ports: Mapping[str, int]) -> ServiceProcess:
    """Prometheus on loopback in clear text: only its gateway is meant to be asked."""
    port = ports["prometheus"]
    return ServiceProcess(
        "prometheus",
        [
            str(binary),
            f"--config.file={layout.config('prometheus.yaml')}",
            f"--storage.tsdb.path={layout.data('prometheus')}",
            "--storage.tsdb.retention.time=2h",
            f"--web.listen-address={LOOPBACK}:{port}",
            "--log.level=warn",
        ],
        ports=[port],
        ready=http_ok(port, "/-/ready"),
        ready_seconds=30,
        stop_seconds=2,
    )


def gateway(layout: Layout, ports: Mapping[str, int]) -> ServiceProcess:
    """TLS and a bearer token in front of Prometheus, as a monitoring stack has them."""
    port = ports["prometheus-gateway"]
    return ServiceProcess(
        "prometheus-gateway",
        [
            sys.executable,
            "-m",
            "devcluster.prometheus_gateway",
            f"--port={port}",
            f"--upstream=http://{LOOPBACK}:{ports['prometheus']}",
            f"--certificate={layout.pki('prometheus.crt')}",
            f"--key={layout.pki('prometheus.key')}",
            f"--token-file={layout.prometheus_token}",
        ],
        ports=[port],
        ready=https_ok(port, "/-/healthy", layout.pki("ca.crt")),
        ready_seconds=30,
        stop_seconds=2,
    )


def nodes_with_load(ports: Mapping[str, int]) -> int:
    """For how many nodes both recording rules have a value now."""
    text = f"count({CPU_RATIO} * on (instance) {MEMORY_RATIO})"
    return int(next((value for _, value in query(ports["prometheus"], text)), 0))


def query(port: int, text: str) -> list[tuple[str, float]]:
    """The label `instance` and the value of each series that Prometheus answers with now; none if it does not."""
    connection = HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", f"/api/v1/query?query={quote(text)}")
        result = json.load(connection.getresponse()).get("data", {}).get("result", [])
        return [(series["metric"].get("instance", ""), float(series["value"][1])) for series in result]
    except (OSError, HTTPException, ValueError):
        return []
    finally:
        connection.close()
