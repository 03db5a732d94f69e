"""The examples in TypeScript, Go and YAML run: preview, up, a pod that is placed, nothing to change, destroy.

The engine, the SDKs and the language plugin for YAML are Pulumi's. The language plugins for TypeScript and Go are on no
registry that tests may use: a stand-in starts the programs as they do (tests/support/languages/host.py).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster import environment
from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from tests.support.languages.building import (
    EXAMPLES,
    PACKAGE,
    generated_sdks,
    go_program,
    run,
    stand_in_hosts,
    typescript_program,
    with_hosts,
    yaml_host,
)
from tests.support.languages.host import GO_BINARY
from tests.support.live_stack import NAMESPACE, places_a_pod

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("npm") is None or shutil.which("go") is None, reason="needs npm and Go"),
]

TOKEN = "t0ken-of-the-metric-source"


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path) -> Iterator[LocalCluster]:
    spec = ClusterSpec(name="languages", nodes=2, prometheus=False, state_root=cluster_state_root)
    with LocalCluster(spec) as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("languages")


@pytest.fixture(scope="module")
def sdks(folder: Path) -> Path:
    (folder / "sdks").mkdir()
    return generated_sdks(folder / "sdks")


class Program:
    """A project of its own with a stack on the cluster."""

    def __init__(self, directory: Path, cluster: LocalCluster, hosts: Path) -> None:
        self.directory = directory
        project = yaml.safe_load((directory / "Pulumi.yaml").read_text())
        assert (EXAMPLES / "any" / project["packages"]["secondary-scheduler"]).resolve() == PACKAGE
        project["packages"]["secondary-scheduler"] = str(PACKAGE)
        (directory / "Pulumi.yaml").write_text(json.dumps(project))
        variables = {**os.environ, **environment.variables(cluster.layout, None, os.environ)}
        self._variables = with_hosts(variables, hosts)
        self._core = kubernetes.CoreV1Api(kubernetes_config.new_client_from_config(str(cluster.kubeconfig)))
        self.pulumi("stack", "init", directory.name)
        self.pulumi("config", "set", "--secret", "prometheusToken", TOKEN)

    def pulumi(self, *arguments: str, fails: bool = False) -> str:
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.directory, env=self._variables, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def goes_up_stays_unchanged_and_is_destroyed(self) -> None:
        assert "SchedulerInstallation" in self.pulumi("preview")
        self.pulumi("up", "--yes", "--skip-preview")
        assert self.pulumi("stack", "output", "readyReplicas").strip() in ("1", "1.0")
        exported = self.pulumi("stack", "export")
        assert TOKEN not in exported
        assert "pulumi:providers:kubernetes::default" not in exported, "every object has the program's own provider"
        places_a_pod(self._core, "batch", generateName="pod-")
        self.pulumi("preview", "--expect-no-changes")
        self.pulumi("destroy", "--yes", "--skip-preview")
        assert NAMESPACE not in {item.metadata.name for item in self._core.list_namespace().items}


def test_the_typescript_example_runs(cluster: LocalCluster, sdks: Path, folder: Path) -> None:
    directory = typescript_program(sdks, folder / "typescript")
    (folder / "node-host").mkdir()
    program = Program(directory, cluster, stand_in_hosts(folder / "node-host"))
    program.goes_up_stays_unchanged_and_is_destroyed()
    index = directory / "index.ts"
    index.write_text(index.read_text().replace('type: "Prometheus"', 'type: "Prometeus"'))
    assert "batch: settings: metricProvider.type" in program.pulumi("preview", fails=True)


def test_the_go_example_runs(cluster: LocalCluster, sdks: Path, folder: Path) -> None:
    directory = go_program(sdks, folder / "golang")
    run(directory, "go", "build", "-o", GO_BINARY, ".")
    (folder / "go-host").mkdir()
    program = Program(directory, cluster, stand_in_hosts(folder / "go-host"))
    program.goes_up_stays_unchanged_and_is_destroyed()


def test_the_yaml_example_runs(cluster: LocalCluster, folder: Path) -> None:
    (folder / "yaml-host").mkdir()
    directory = shutil.copytree(EXAMPLES / "yaml", folder / "yaml")
    program = Program(directory, cluster, yaml_host(folder / "yaml-host"))
    program.goes_up_stays_unchanged_and_is_destroyed()
