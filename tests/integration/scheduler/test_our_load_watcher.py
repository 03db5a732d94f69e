"""The real scheduler-plugins reads our load-watcher, and scores as ours does on the same document."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from tests.conformance import trimaran
from tests.conformance.controlplane import control_plane_running
from tests.conformance.oracle import oracle_of
from tests.conformance.runner import Runner
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.scheduler.load.fakes import FakeService, send, service

pytestmark = [pytest.mark.integration]
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: load-watcher
  plugins: {score: {enabled: [{name: TargetLoadPacking, weight: 1}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: "ADDRESS"}}
"""
SEED = 90_000
CASES = 40


def prometheus(fake: FakeService, seed: int) -> None:
    """Random loads of most node names, and a NaN here and there; the same at every read."""
    rng = random.Random(seed)
    figures = {
        name: [rng.uniform(0, 1.05), rng.uniform(0, 0.3), rng.uniform(0, 1), rng.uniform(0, 0.2)]
        for name in trimaran.NODE_NAMES
        if rng.random() < 0.95
    }
    broken = set(rng.sample(sorted(figures), 10))

    def answer(handler: BaseHTTPRequestHandler) -> None:
        query = parse_qs(urlsplit(handler.path).query)["query"][0]
        column = (2 if "memory" in query else 0) + ("stddev" in query)
        result = [
            {
                "metric": {"instance": name},
                "value": [0, "NaN" if name in broken and column == 1 else str(values[column])],
            }
            for name, values in figures.items()
        ]
        send(handler, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode())

    fake.answer = answer


@contextmanager
def load_watcher(log: Path, *arguments: str) -> Iterator[str]:
    """The command as a process; yields its base URL."""
    command = [sys.executable, "-m", "secondary_scheduler.loadwatcher", *arguments]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while "serving" not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            line = next(line for line in log.read_text().splitlines() if line.startswith("serving"))
            yield line.rsplit(" ", 1)[1].removesuffix("/watcher")
        finally:
            process.terminate()
            assert process.wait(PATIENCE_SECONDS) == 0, "told to stop, it ends well"


class Served:
    """Our load-watcher where the conformance harness expects its own stand-in."""

    def __init__(self, url: str) -> None:
        self.url = url
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (answer := requests.get(f"{url}/watcher", timeout=5)).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        self.body = answer.content
        # The harness waits until its plugins have asked; the first fetch is in their constructor.
        self.asked = 1_000


@pytest.mark.slow
async def test_the_real_plugins_read_it_and_score_as_ours(tmp_path: Path) -> None:
    models = trimaran.power_models(SEED)
    with control_plane_running() as running, service() as source:
        prometheus(source, SEED)
        config = tmp_path / "config.yaml"
        config.write_text(CONFIGURATION.replace("ADDRESS", source.url))
        with load_watcher(tmp_path / "log", f"--config={config}", "--listen=127.0.0.1:0") as url:
            watcher: Any = Served(url)
            with trimaran.scheduler_plugins_running(running, watcher, models) as real:
                async with oracle_of(real) as oracle:
                    runner = Runner(oracle, trimaran.OursWithLoad(watcher, models))
                    cases = (trimaran.generate(SEED + number) for number in range(CASES))
                    summary = await runner.run(cases, seconds=60, least=20)
    report = "\n\n".join([*summary.mismatches[:3], *summary.refused[:3], summary.text()])
    assert not summary.mismatches, report
    assert not summary.refused, report
    assert summary.cases >= 20, report
    assert set(summary.scored) == {"TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment", "Peaks"}
