"""`/flagz`, `/statusz`, `/metrics/slis` and `kubernetes_feature_enabled` beside those of the real kube-scheduler.

No API server answers: neither of the two needs any to serve these.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from devcluster import ports
from scheduler.catalog import KUBERNETES_VERSIONS
from tests.support.minors import built_or_skip
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning"),
]
GATES = "--feature-gates=ComponentFlagz=true,ComponentStatusz=true"
COMMON = ["--bind-address=127.0.0.1", "--authorization-always-allow-paths=/*", "--leader-elect=false", GATES]
FLUSHED = "scheduler_pod_scheduled_after_flush_total"
SINCE = {"min-compatibility-version", "tls-curve-preferences"}
"""Flags that came after 1.34."""


class Side:
    """A scheduler on a port of its own."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self._port, self._process = port, process

    def get(self, path: str, accept: str = "*/*") -> requests.Response:
        url = f"https://127.0.0.1:{self._port}{path}"
        return requests.get(url, verify=False, timeout=20, headers={"Accept": accept})

    def serves(self) -> bool:
        """Whether it answers; fails the test if it has ended."""
        assert self._process.poll() is None
        with contextlib.suppress(requests.ConnectionError):
            return self.get("/livez").text == "ok"
        return False

    def document(self, kind: str) -> dict[str, Any]:
        """`/statusz` or `/flagz` in its newest version."""
        answer = self.get(f"/{kind.lower()}", f"application/json;v=v1beta1;g=config.k8s.io;as={kind}")
        document: dict[str, Any] = answer.json()
        return document

    def features(self) -> dict[str, str]:
        """Stage and value of each gate by name."""
        pattern = r'^kubernetes_feature_enabled\{name="(\w+)",stage="(\w*)"\} (\d)'
        lines = re.findall(pattern, self.get("/metrics").text, re.MULTILINE)
        return {name: f"{stage} {value}" for name, stage, value in lines}

    def metrics(self) -> set[str]:
        """Names of the scheduler's metrics; of upstream's those that need no label."""
        return set(re.findall(r"^# TYPE (scheduler_\w+)", self.get("/metrics").text, re.MULTILINE))

    def health_series(self) -> set[str]:
        """Names and labels of the results of /livez."""
        self.get("/livez")
        lines = self.get("/metrics/slis").text.splitlines()
        return {line.rpartition(" ")[0] for line in lines if 'type="livez"' in line and 'name="ping"' in line}


@contextlib.contextmanager
def running(name: str, directory: Path, *command: str) -> Iterator[Side]:
    port = ports.allocate([name], {})[name]
    log = directory / f"{name}.log"
    arguments = [*command, *COMMON, "--master=http://127.0.0.1:1", f"--secure-port={port}"]
    with log.open("wb") as output, subprocess.Popen(arguments, stdout=output, stderr=output) as process:
        try:
            side = Side(port, process)
            eventually(side.serves, f"{name} serves")
            yield side
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


@pytest.fixture(params=[version.name for version in KUBERNETES_VERSIONS.values()])
def minor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_flags_status_health_and_features_are_shown_as_by_the_real_scheduler(minor: str, tmp_path: Path) -> None:
    binary = built_or_skip(minor, "kube-scheduler")["kube-scheduler"]
    options = {
        "name": "SecondarySchedulerOptions",
        "args": {"kubernetesVersion": minor},
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "pages", "pluginConfig": [options]}],
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    ours = running("ours", tmp_path, sys.executable, "-m", "scheduler", f"--config={tmp_path / 'config.json'}")
    with running("real", tmp_path, str(binary)) as real, ours as own:
        assert own.health_series() == real.health_series()
        shown, expected = own.features(), real.features()
        assert {name: expected.get(name) for name in shown} == shown
        assert real.metrics() <= own.metrics()
        assert (FLUSHED in own.metrics()) == (FLUSHED in real.metrics())
        if minor == "1.34":
            title = real.get("/flagz").text.splitlines()[:4]
            assert own.get("/flagz").text.splitlines()[:4] == title
        status = own.document("Statusz")
        assert status["emulationVersion"] == minor
        if minor == "1.34":
            flags = dict(line.split("=", 1) for line in own.get("/flagz").text.splitlines()[4:])
        else:
            flags = own.document("Flagz")["flags"]
        if minor in ("1.34", "1.35"):
            lines = real.get("/flagz").text.splitlines()[4:]
            names = {re.split(r"[^a-z0-9-]", line)[0] for line in lines if line}
            assert names - flags.keys() == set()
            return
        assert status.keys() == real.document("Statusz").keys()
        assert status["paths"] == real.document("Statusz")["paths"]
        theirs = real.document("Flagz")["flags"]
        differing = {name for name in theirs if theirs[name] != flags.get(name)}
        # Ours starts with a file here, listens on every address it is given, and TLS 1.2 is its default by name.
        assert differing - SINCE == {"config", "secure-port", "tls-min-version", "permit-address-sharing"}
