"""The program under the real Pulumi engine, without a cluster: previews, refusals, stack files that stay as they are.

The language host and the Kubernetes provider are the official ones where they are on PATH, else the stand-ins.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.pulumi_stand_ins import BIN
from devcluster.toolchain.binaries import BINARIES, find
from tests.components.conftest import CANARY_TOKEN
from tests.components.graph import ROOT

pytestmark = pytest.mark.integration

OURS = "registry.example.com/secondary-scheduler/kube-scheduler"
SOURCES = ("__main__.py", "Pulumi.yaml", "components", "stacks", "scheduler", "secondary_scheduler", "requirements.txt")
DEAD_KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "dead",
    "clusters": [{"name": "dead", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "dead", "user": {}}],
    "contexts": [{"name": "dead", "context": {"cluster": "dead", "user": "dead"}}],
}


class Project:
    """A fresh clone of the project with an engine and a state of its own."""

    def __init__(self, directory: Path, pulumi: Path) -> None:
        self.root = directory / "clone"
        self.root.mkdir()
        for name in SOURCES:
            if (ROOT / name).is_dir():  # with its byte code: compiling a clone takes longer than a preview
                shutil.copytree(ROOT / name, self.root / name, ignore=shutil.ignore_patterns("modules"))
            else:
                shutil.copy(ROOT / name, self.root / name)
        (self.root / ".venv").symlink_to(Path(os.environ.get("VIRTUAL_ENV", ROOT / ".venv")))
        for name in ("state", "home"):
            (directory / name).mkdir()
        files = {"kubeconfig": json.dumps(DEAD_KUBECONFIG), "token": CANARY_TOKEN, "ca": "certificate"}
        for name, content in files.items():
            (directory / name).write_text(content)
        self._pulumi = pulumi
        self.environment = os.environ | {
            "PATH": f"{os.environ['PATH']}{os.pathsep}{BIN}",
            "KUBECONFIG": str(directory / "kubeconfig"),
            "PULUMI_BACKEND_URL": f"file://{directory / 'state'}",
            "PULUMI_HOME": str(directory / "home"),
            "PULUMI_CONFIG_PASSPHRASE": "local",
            "PULUMI_SKIP_UPDATE_CHECK": "1",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "1",
            "PULUMI_DIY_BACKEND_NO_LEGACY_WARNING": "1",
            "SECONDARY_SCHEDULER_PROMETHEUS_URL": "https://127.0.0.1:9",
            "SECONDARY_SCHEDULER_PROMETHEUS_TOKEN_FILE": str(directory / "token"),
            "SECONDARY_SCHEDULER_PROMETHEUS_CA_FILE": str(directory / "ca"),
        }

    def stack_file(self, stack: str) -> Path:
        return self.root / "stacks" / f"Pulumi.{stack}.yaml"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self._pulumi), *arguments, "--non-interactive"]
        return subprocess.run(
            command, cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=100, check=False
        )

    def ok(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def preview(self, stack: str) -> dict[str, Any]:
        plan: dict[str, Any] = json.loads(self.ok("preview", "--stack", stack, "--json"))
        return plan


@pytest.fixture
def project(tmp_path: Path) -> Project:
    pulumi = find(BINARIES["pulumi"])
    assert pulumi is not None, "the pulumi binary is not built; run `secondary-scheduler cluster up` once"
    return Project(tmp_path, pulumi)


@pytest.mark.parametrize("stack", ["local", "openshift-prod"])
def test_preview_needs_no_cluster_shows_no_token_and_leaves_a_stack_file_that_needs_no_salt(
    project: Project, stack: str
) -> None:
    before = project.stack_file(stack).read_bytes()
    project.ok("stack", "init", stack)
    project.ok("stack", "select", stack)
    plan = project.preview(stack)
    types = {step["urn"].split("::")[2].rpartition("$")[2] for step in plan["steps"]}
    assert "kubernetes:operator.openshift.io/v1:SecondaryScheduler" in types
    assert set(plan["changeSummary"]) == {"create"}
    assert CANARY_TOKEN not in json.dumps(plan)
    if stack == "local":
        assert project.stack_file(stack).read_bytes() == before


def test_a_first_preview_is_readable_in_a_pull_request(project: Project) -> None:
    """Every resource and every output, one with load and one without, fit on a screen."""
    project.ok("stack", "init", "fresh")
    project.ok("config", "set", "--stack", "fresh", "schedulerImage", f"{OURS}:0.1.0")
    for _ in range(2):
        text = project.ok("preview", "--stack", "fresh", "--color", "never")
        assert 'clusterIdentifier is not set: it is the stack\'s name, "fresh"' in text
        outputs, _, summary = text.partition("Outputs:")[2].partition("Resources:")
        created = int(summary.split()[1])
        lines = [line for line in outputs.splitlines() if line.strip()]
        assert created > 30
        assert created + len(lines) < 60, outputs
        project.ok("config", "set", "--stack", "fresh", "--path", "metricProvider.type", "Prometheus")
        address = ("--path", "metricProvider.address", "https://prometheus.example.com")
        project.ok("config", "set", "--stack", "fresh", *address)
    assert "TargetLoadPacking" in text


def test_secret_of_stack_local_can_be_set_and_read_back_with_its_public_passphrase(project: Project) -> None:
    project.ok("stack", "init", "local")
    project.ok("config", "set", "--stack", "local", "--secret", "prometheusToken", CANARY_TOKEN)
    assert CANARY_TOKEN not in project.stack_file("local").read_text()
    assert project.ok("config", "get", "--stack", "local", "prometheusToken").strip() == CANARY_TOKEN


def test_a_mistake_ends_the_preview_with_file_line_and_key_and_nothing_planned(project: Project) -> None:
    file = project.stack_file("local")
    text = file.read_text()
    before, _, after = text.partition("weight: 10\n")
    assert after, "the stack weighs a plugin"
    file.write_text(f"{before}weight: 500\n{after}".replace("name: TargetLoadPacking", "name: TargetPacking"))
    line = 1 + before.count("\n")
    project.ok("stack", "init", "local")
    done = project.run("preview", "--stack", "local")
    assert done.returncode != 0
    assert (
        f"stacks/Pulumi.local.yaml:{line}: plugins.score.enabled[0].weight: must be at most 100, not 500" in done.stdout
    )
    assert "kubernetes:" not in done.stdout


def test_wrong_types_and_values_are_reported_in_one_pass(project: Project) -> None:
    project.ok("stack", "init", "fresh")
    project.ok("config", "set", "--stack", "fresh", "cluster.clusterIdentifier", "mine")
    wrong = {"schedulerImage": "A B", "logLevel": ["a"], "replicas": "many", "protect": "maybe", "plugins": ["x"]}
    wrong |= {"installMode": "by-magic", "schedulerImagee": "x"}
    file = project.stack_file("fresh")
    keys = {f"secondary-scheduler:{key}": value for key, value in wrong.items()}
    document = yaml.safe_load(file.read_text())
    document["config"] |= keys
    file.write_text(yaml.safe_dump(document))
    done = project.run("preview", "--stack", "fresh", "--color", "never")
    assert done.returncode != 0
    for key in wrong:
        assert f": {key}: " in done.stdout
    assert "pulumi config set --path cluster.clusterIdentifier mine" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "kubernetes:" not in done.stdout


@pytest.mark.slow
def test_preview_takes_less_than_five_seconds(project: Project) -> None:
    project.ok("stack", "init", "local")
    project.preview("local")  # compiles the clone's modules
    began = time.monotonic()
    project.preview("local")
    assert time.monotonic() - began < 5 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
