"""Runs `secondary-scheduler simulate` in this process, and builds what it reads."""

from __future__ import annotations

import io
import json
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from secondary_scheduler.cli import app

SCHEDULER = "secondary-scheduler"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
"""
LOAD_AWARE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins:
    score:
      enabled: [{name: TargetLoadPacking}]
      disabled: [{name: "*"}]
  pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: "http://prometheus:9090"}}
"""


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def decisions(self) -> dict[str, dict[str, Any]]:
        """Decisions by pod, in the order of the output."""
        return {decision["pod"]: decision for decision in json.loads(self.out)["decisions"]}

    @property
    def nodes(self) -> dict[str, str | None]:
        return {pod: decision["node"] for pod, decision in self.decisions.items()}


def run(*arguments: str | Path) -> Result:
    """Run the command line with these arguments."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    code = 0
    try:
        with (
            mock.patch.object(sys, "argv", ["secondary-scheduler", *map(str, arguments)]),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            app.main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    out.flush()
    return Result(code, out.buffer.getvalue().decode(), err.getvalue())


VERSION_LINE = " decides as kube-scheduler "


class Bench:
    """A directory with a configuration, and snapshots written into it."""

    def __init__(self, directory: Path, configuration: str = CONFIGURATION) -> None:
        self.directory = directory
        self.config = self.write("config.yaml", configuration)

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.directory / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def simulate(self, *objects: dict[str, Any], arguments: tuple[str | Path, ...] = ()) -> Result:
        """Simulate on objects."""
        snapshot = self.write("snapshot.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return self.files(snapshot, arguments=arguments)

    def text(self, content: str, *, name: str = "snapshot.yaml", arguments: tuple[str | Path, ...] = ()) -> Result:
        """Simulate on a file of this content."""
        return self.files(self.write(name, content), arguments=arguments)

    def files(self, *files: Path, arguments: tuple[str | Path, ...] = ()) -> Result:
        done = run("simulate", "--config", self.config, "--snapshot", *files, "-o", "json", *arguments)
        # Which version decides is said each time; what is left is what the input made it say.
        lines = done.err.splitlines(keepends=True)
        return done._replace(err="".join(line for line in lines if VERSION_LINE not in line))


def node(name: str, *, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **spec: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def pod(
    name: str, *, cpu: str | None = "100m", namespace: str = "default", meta: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": "registry.example/app:v1"}
    if cpu is not None:
        container["resources"] = {"requests": {"cpu": cpu}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **(meta or {})},
        "spec": {"schedulerName": SCHEDULER, "containers": [container], **spec},
    }


def load(cpu: dict[str, Any], *, end: int = 0, timestamp: int = 0) -> str:
    """The JSON of a load-watcher."""
    nodes = {
        name: {"metrics": [{"type": "CPU", "operator": "AVG", "rollup": "15m", "value": value}]}
        for name, value in cpu.items()
    }
    window = {"duration": "15m", "start": max(0, end - 900), "end": end}
    return json.dumps(
        {"timestamp": timestamp, "window": window, "source": "Prometheus", "data": {"NodeMetricsMap": nodes}}
    )
