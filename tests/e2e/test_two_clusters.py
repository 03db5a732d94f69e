"""One program for two clusters: its schedulers have the same names there, and go up, stay unchanged and go together."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster import environment
from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from scheduler import __version__
from tests.support.live_stack import CHECKOUT, NAMESPACE, places_a_pod

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CLUSTERS = ("east", "west")
PROGRAM = f"""
import sys

sys.path.insert(0, {str(CHECKOUT)!r})

import pathlib

import pulumi

import components

config = pulumi.Config()
for name in {CLUSTERS!r}:
    kubeconfig = pathlib.Path(config.require(name)).read_text()
    cluster = components.ClusterProvider(name, cluster_identifier=name, kubeconfig=pulumi.Output.secret(kubeconfig))
    args = components.SchedulerInstallationArgs(
        image="localhost/secondary-scheduler/kube-scheduler:{__version__}",
        operator_image="localhost/secondary-scheduler/operator:{__version__}",
        settings={{"schedulerName": "batch"}},
        mode="manifests" if name == "east" else "direct",
    )
    scheduler = components.SchedulerInstallation(f"{{name}}-batch", args, pulumi.ResourceOptions(providers=[cluster]))
    pulumi.export(name, scheduler.ready_replicas)
"""


@pytest.fixture(scope="module")
def clusters(cluster_state_root: Path) -> Iterator[dict[str, LocalCluster]]:
    with ExitStack() as started:
        yield {
            name: started.enter_context(
                LocalCluster(ClusterSpec(name=name, nodes=2, prometheus=False, state_root=cluster_state_root))
            )
            for name in CLUSTERS
        }


def test_two_clusters_go_up_stay_unchanged_and_are_destroyed(clusters: dict[str, LocalCluster], tmp_path: Path) -> None:
    variables = {**os.environ, **environment.variables(clusters["east"].layout, None, os.environ)}
    del variables["KUBECONFIG"]  # each provider has its own
    (tmp_path / "Pulumi.yaml").write_text("name: platform\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(PROGRAM)

    def run(*arguments: str) -> str:
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=tmp_path, env=variables, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("stack", "init", "both")
    for name, cluster in clusters.items():
        run("config", "set", name, str(cluster.kubeconfig))
    run("up", "--yes", "--skip-preview")
    apis = {
        name: kubernetes.CoreV1Api(kubernetes_config.new_client_from_config(str(cluster.kubeconfig)))
        for name, cluster in clusters.items()
    }
    for api in apis.values():
        places_a_pod(api, "batch", generateName="pod-")
    run("preview", "--expect-no-changes")
    run("destroy", "--yes", "--skip-preview")
    for name, api in apis.items():
        assert NAMESPACE not in {item.metadata.name for item in api.list_namespace().items}, name
