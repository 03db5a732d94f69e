"""Random loads, nodes and pods for the load-aware plugins; the real scheduler-plugins binary and ours on the same
`/watcher`.

The answer of the watcher is made once for all node names that cases draw from, as upstream's plugins look at it only
every 30 s.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from devcluster.ports import LOOPBACK
from scheduler.config import load_configuration
from scheduler.core import explain
from scheduler.engine import assemble
from scheduler.helpers import PodReducer, reduce_node
from scheduler.kube.model import decode_node, decode_pod
from scheduler.load import parse_watcher
from scheduler.state import ClusterState
from tests.conformance import schedulerplugins
from tests.conformance.case import Answer, Case, Json
from tests.conformance.controlplane import ControlPlane
from tests.conformance.ours import answer_of
from tests.conformance.profiles import document_of, scheduler_name
from tests.conformance.surroundings import OVERHEADS

NODE_NAMES = tuple(f"t-{number:03d}" for number in range(300))
_PACKING = {"targetUtilization": 45, "defaultRequests": {"cpu": "300m"}, "defaultRequestsMultiplier": "1.7"}
"""One set of args only: upstream keeps them in globals that the last profile overwrites."""
_ALL = {"TargetLoadPacking": 3, "LoadVariationRiskBalancing": 2, "LowRiskOverCommitment": 1, "Peaks": 5}
PROFILES: dict[str, dict[str, Json]] = {
    "packing": {"TargetLoadPacking": _PACKING},
    "variation": {"LoadVariationRiskBalancing": {}},
    "variation-root": {"LoadVariationRiskBalancing": {"safeVarianceMargin": 1.7, "safeVarianceSensitivity": 2}},
    "variation-cube": {"LoadVariationRiskBalancing": {"safeVarianceMargin": 0.5, "safeVarianceSensitivity": 3}},
    "variation-flat": {"LoadVariationRiskBalancing": {"safeVarianceSensitivity": 0}},
    "variation-square": {"LoadVariationRiskBalancing": {"safeVarianceSensitivity": 0.5, "safeVarianceMargin": 2}},
    "risk": {"LowRiskOverCommitment": {}},
    "risk-load": {"LowRiskOverCommitment": {"smoothingWindowSize": 1, "riskLimitWeights": {"cpu": 0, "memory": 0.1}}},
    "risk-wide": {"LowRiskOverCommitment": {"smoothingWindowSize": 9, "riskLimitWeights": {"cpu": 0.7, "memory": 0}}},
    "power": {"Peaks": {}},
    "all": {"TargetLoadPacking": _PACKING, "LoadVariationRiskBalancing": {}, "LowRiskOverCommitment": {}, "Peaks": {}},
}


class Watcher:
    """A stand-in for a load-watcher: serves one document, and counts how often it was asked."""

    def __init__(self, document: Json) -> None:
        self.body = json.dumps(document).encode()
        self.asked = 0
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.asked += 1
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(fake.body)))
                self.end_headers()
                self.wfile.write(fake.body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()


def document(seed: int, window_end: int) -> Json:
    """Loads of every shape a load-watcher's answer may have, for all node names."""
    rng = random.Random(seed)
    nodes = {name: {"metrics": _metrics(rng)} for name in NODE_NAMES if rng.random() < 0.93}
    window = {"duration": "15m", "start": window_end - 900, "end": window_end}
    return {"timestamp": window_end, "window": window, "source": "test", "data": {"NodeMetricsMap": nodes}}


def _metrics(rng: random.Random) -> list[Json]:
    answers: list[Json] = []

    def add(kind: str, operator: str, value: float) -> None:
        answers.append({"name": "m", "type": kind, "operator": operator, "rollup": "15m", "value": value})

    for kind in ("CPU", "Memory"):
        shape = rng.random()
        mean = rng.choice((rng.uniform(0, 100), rng.uniform(0, 30), float(rng.randint(0, 110)), 0.0, 100.0))
        spread = rng.choice((rng.uniform(0, 50), rng.uniform(0, 5), float(rng.randint(0, 40)), 0.0, 1e-4))
        if shape < 0.7:
            add(kind, "AVG", mean)
            add(kind, "STD", spread)
        elif shape < 0.8:
            add(kind, "Latest", mean)
        elif shape < 0.85:
            add(kind, "STD", spread)
        elif shape < 0.9:
            add(kind, rng.choice(("", "P99")), mean)
        elif shape < 0.95:
            add(kind, "AVG", mean)
            add(kind, "Latest", rng.uniform(0, 100))
            add(kind, rng.choice(("AVG", "Latest", "")), rng.uniform(0, 100))
    if rng.random() < 0.3:
        add("Storage", "AVG", rng.uniform(0, 100))
    rng.shuffle(answers)
    return answers


def power_models(seed: int) -> Json:
    """Power models of most nodes."""
    rng = random.Random(seed)
    return {
        name: {"k0": rng.uniform(100, 500), "k1": -rng.uniform(50, 300), "k2": -rng.uniform(0.01, 0.1)}
        for name in NODE_NAMES
        if rng.random() < 0.9
    }


def configuration(watcher: str, models: Json, kubeconfig: str, *, ours: bool) -> str:
    """The configuration of both; our own options stand in the file of ours only."""
    profiles = []
    for name, plugins in PROFILES.items():
        config = [
            {
                "name": plugin,
                "args": {"WatcherAddress": watcher, "NodePowerModel": models}
                if plugin == "Peaks"
                else {"watcherAddress": watcher, **args},
            }
            for plugin, args in plugins.items()
        ]
        if ours:
            config.append(schedulerplugins.options())
        enabled = [{"name": plugin, "weight": _ALL[plugin]} for plugin in plugins]
        # What preemption says is no matter of these plugins.
        points: Json = {
            "postFilter": {"disabled": [{"name": "*"}]},
            "score": {"enabled": enabled, "disabled": [{"name": "*"}]},
        }
        if "LowRiskOverCommitment" in plugins:
            points["preScore"] = {"enabled": [{"name": "LowRiskOverCommitment"}]}
        profiles.append(
            {"schedulerName": scheduler_name(f"trimaran-{name}"), "plugins": points, "pluginConfig": config}
        )
    return document_of(profiles, kubeconfig)


@contextlib.contextmanager
def scheduler_plugins_running(running: ControlPlane, watcher: Watcher, models: Json) -> Iterator[ControlPlane]:
    """Run the real scheduler-plugins beside the control plane, once all its plugins have read their loads."""
    text = configuration(watcher.url, models, str(running.layout.kubeconfig), ours=False)
    with schedulerplugins.scheduler_plugins_running(running, text) as real:
        instances = sum(len(plugins) for plugins in PROFILES.values())
        deadline = time.monotonic() + 30
        while watcher.asked < instances and time.monotonic() < deadline:
            time.sleep(0.05)
        assert watcher.asked >= instances, real.log.read_text()[-2000:]
        yield real


def generate(seed: int) -> Case:
    """A cluster of a few of the nodes, pods on them, and pods to place."""
    rng = random.Random(seed)
    profile = rng.choice(list(PROFILES))
    names = rng.sample(NODE_NAMES, rng.randint(2, 7))
    objects: list[Json] = [_node(rng, name) for name in names]
    objects += [_pod(rng, f"there-{number}", nodeName=rng.choice(names)) for number in range(rng.choice((0, 2, 5, 12)))]
    pods = tuple(_pod(rng, f"new-{number}") for number in range(2))
    return Case(seed, ("trimaran",), f"trimaran-{profile}", tuple(objects), pods)


def _node(rng: random.Random, name: str) -> Json:
    cpu, memory = rng.choice((2000, 4000, 7910, 16000)), rng.choice((4 << 30, 8 << 30, 33_123_456_789))
    kept = rng.choice((1.0, 0.95, 0.8))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {
            "capacity": {"cpu": f"{cpu}m", "memory": str(memory), "pods": "110"},
            "allocatable": {"cpu": f"{int(cpu * kept)}m", "memory": str(int(memory * kept)), "pods": "110"},
        },
    }


def _pod(rng: random.Random, name: str, **spec: object) -> Json:
    body: Json = {"containers": [_container(rng, f"c{number}") for number in range(rng.choice((1, 1, 2)))], **spec}
    if rng.random() < 0.3:
        body["initContainers"] = [_container(rng, "init", small=False)]
        if rng.random() < 0.5:
            body["initContainers"][0]["restartPolicy"] = "Always"
    if rng.random() < 0.15:
        body["runtimeClassName"] = rng.choice([name for name in OVERHEADS if "gpu" not in str(OVERHEADS[name])])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": body}


def _container(rng: random.Random, name: str, *, small: bool = True) -> Json:
    resources: Json = {}
    amounts = {
        "cpu": (("1m", "50m", "100m", "333m") if small else ("500m", "750m"), ("1", "2", "3500m", "9")),
        "memory": (("1", "20Mi", "100M", "256Mi") if small else ("300Mi",), ("512Mi", "1Gi", "5G", "20Gi")),
    }
    for resource, (requests, limits) in amounts.items():
        limited = rng.random() < 0.4
        # A limit alone would become the request.
        if limited or rng.random() < 0.6:
            resources.setdefault("requests", {})[resource] = rng.choice(requests)
        if limited:
            resources.setdefault("limits", {})[resource] = rng.choice(limits)
    return {"name": name, "image": "registry.k8s.io/pause", "resources": resources}


class OursWithLoad:
    """Our scheduler with the same configuration and the same answer of the watcher."""

    def __init__(self, watcher: Watcher, models: Json) -> None:
        text = configuration(watcher.url, models, "", ours=True)
        self._runners = assemble(load_configuration(text, source="conformance")).runners
        reading = parse_watcher(watcher.body, watcher.url)
        self._load = replace(reading, source=f"watcher:{watcher.url}")

    def ask(self, pod: Json, world: tuple[Json, ...]) -> Answer:
        """Answer for a pod in a cluster given by its objects, which the process has just seen."""
        runner, reducer, state, now = (
            self._runners[pod["spec"]["schedulerName"]],
            PodReducer(),
            ClusterState(),
            time.time(),
        )
        for item in world:
            if item["kind"] == "Node":
                state.upsert_node(reduce_node(decode_node(json.dumps(item).encode())))
        for item in world:
            if item["kind"] == "Pod":
                state.upsert_pod(reducer.reduce(decode_pod(json.dumps(item).encode())), observed_at=now)
        state.set_load(self._load)
        incoming = reducer.reduce(decode_pod(json.dumps(pod).encode()))
        explanation = explain(state.snapshot(now), incoming, runner)
        return answer_of(explanation)
