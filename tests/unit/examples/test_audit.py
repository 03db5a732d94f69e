"""The audit of the CI examples, as it stands there, against a loopback server that answers as OSV does.

The advisory is recorded in tests/data/advisories. Whether a real one concerns a locked version, only the users'
pipelines can ask: nothing here reaches a source of advisories.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[3]
CI = CHECKOUT / "examples" / "ci"
ADVISORY = json.loads((CHECKOUT / "tests" / "data" / "advisories" / "osv.json").read_text())
LOCKS = ("requirements.txt", "image/requirements.txt", "image/requirements-cli.txt")
HASH = "0" * 64


class Advisories(ThreadingHTTPServer):
    """Answers with the recorded advisory for the packages that it is told to.

    Attributes:
        affected: names of packages with the advisory.
        asked: name and version of each package that was asked for.
    """

    daemon_threads = True

    def __init__(self) -> None:
        self.affected: set[str] = set()
        self.asked: dict[str, str] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    def answer(self, query: dict[str, Any]) -> dict[str, Any]:
        name = query["package"]["name"]
        assert query["package"]["ecosystem"] == "PyPI"
        self.asked[name] = query["version"]
        return {"vulns": [ADVISORY]} if name in self.affected else {}


class _Handler(BaseHTTPRequestHandler):
    server: Advisories

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(self.server.answer(query)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the class names it
        """Nothing of it is for a test's output."""


@pytest.fixture
def advisories() -> Iterator[Advisories]:
    with Advisories() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


@pytest.fixture
def audit(tmp_path: Path, advisories: Advisories) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a script in a clone with the lock files."""
    for lock in LOCKS:
        (tmp_path / lock).parent.mkdir(exist_ok=True)
        shutil.copy(CHECKOUT / lock, tmp_path / lock)
    variables = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PIP_AUDIT_VULNERABILITY_SERVICE": "osv",
        "PIP_AUDIT_OSV_URL": f"http://127.0.0.1:{advisories.server_port}/v1/query",
        "PIP_AUDIT_PROGRESS_SPINNER": "off",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "NO_PROXY": "127.0.0.1",
    }

    def run(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


def github() -> dict[str, str]:
    """The scripts of the job, by their names."""
    steps = yaml.safe_load((CI / "github-actions.yaml").read_text())["jobs"]["audit"]["steps"]
    return {step["name"]: step["run"] for step in steps if "run" in step}


SCRIPT = github()["Audit the locked packages"]
Audit = Callable[[str], subprocess.CompletedProcess[str]]


def locked() -> dict[str, str]:
    """The packages of the lock files that this Python takes."""
    pins: dict[str, str] = {}
    for lock in LOCKS:
        for name, version in re.findall(r"^([\w.-]+)==([\w.]+) \\$", (CHECKOUT / lock).read_text(), re.MULTILINE):
            assert pins.setdefault(name, version) == version, f"{name} is locked to two versions"
    return pins


def test_both_examples_run_the_same_audit_with_the_version_that_is_tested_here() -> None:
    gitlab = yaml.safe_load((CI / "gitlab-ci.yaml").read_text())["audit"]
    assert gitlab["script"] == [SCRIPT]
    assert [github()["Install"]] == gitlab["before_script"]
    assert github()["Install"] == f"pip install pip-audit=={importlib.metadata.version('pip-audit')}"


def test_every_locked_package_is_asked_for_and_nothing_found_passes(audit: Audit, advisories: Advisories) -> None:
    done = audit(SCRIPT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No known vulnerabilities found" in done.stderr
    assert locked().items() <= advisories.asked.items()


def test_an_advisory_for_a_locked_version_fails_with_its_name(audit: Audit, advisories: Advisories) -> None:
    advisories.affected.add("aiohttp")
    done = audit(SCRIPT)
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("aiohttp")]
    assert line.split()[:4] == ["aiohttp", locked()["aiohttp"], ADVISORY["aliases"][0], "99.0.0"]
    assert "Found 1 known vulnerability in 1 package" in done.stderr


def test_an_advisory_that_is_ignored_by_name_passes(audit: Audit, advisories: Advisories) -> None:
    advisories.affected.add("aiohttp")
    assert audit(f"{SCRIPT} --ignore-vuln {ADVISORY['id']}").returncode == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(
            f"plugin @ https://example.com/plugin-1.0-py3-none-any.whl --hash=sha256:{HASH}",
            "plugin: URL requirements cannot be pinned to a specific package version",
            id="a package by its URL is skipped",
        ),
        pytest.param(f"plugin>=1.0 --hash=sha256:{HASH}", "is not pinned to an exact version", id="no exact version"),
        pytest.param("plugin==1.0", "does not contain a hash", id="no hash"),
    ],
)
def test_a_package_that_cannot_be_looked_up_fails(audit: Audit, tmp_path: Path, line: str, message: str) -> None:
    with (tmp_path / "requirements.txt").open("a") as lock:
        lock.write(f"{line}\n")
    done = audit(SCRIPT)
    assert done.returncode == 1
    assert message in done.stderr


def test_a_source_of_advisories_that_cannot_be_reached_fails(audit: Audit) -> None:
    done = audit(f"export PIP_AUDIT_OSV_URL=http://127.0.0.1:1/v1/query; {SCRIPT}")
    assert done.returncode != 0
    assert "No known vulnerabilities found" not in done.stderr
