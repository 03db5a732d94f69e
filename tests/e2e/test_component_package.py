"""The component package from a program that knows nothing but its schema: preview, up, change, destroy."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster import environment
from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from tests.support.live_stack import CHECKOUT, NAMESPACE, places_a_pod

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PACKAGE = CHECKOUT / "components" / "package"
TOKEN = "t0ken-of-the-metric-source"
PROGRAM = """
import pulumi
import pulumi_kubernetes as k8s


class SchedulerInstallation(pulumi.ComponentResource):
    readyReplicas: pulumi.Output[int]

    def __init__(self, name, props, opts):
        super().__init__(
            "secondary-scheduler:index:SchedulerInstallation", name, {"readyReplicas": None, **props}, opts, remote=True
        )


config = pulumi.Config()
cluster = k8s.Provider("cluster", cluster_identifier="local", enable_secret_mutable=True)
scheduler = SchedulerInstallation(
    "batch",
    {
        "image": "localhost/secondary-scheduler/kube-scheduler:0.1.0",
        "operatorImage": "localhost/secondary-scheduler/operator:0.1.0",
        "settings": {
            "schedulerName": "batch",
            "plugins": {"score": {"enabled": [{"name": config.get("plugin") or "NodeResourcesFit", "weight": 2}]}},
            "metricProvider": {"type": "Prometheus", "address": "https://prometheus.example:9090"},
        },
        "token": config.require_secret("token"),
    },
    pulumi.ResourceOptions(providers={"kubernetes": cluster}),
)
pulumi.export("ready", scheduler.readyReplicas)
if config.get_bool("twice"):
    second = {"image": "localhost/secondary-scheduler/kube-scheduler:0.1.0", "mode": "direct", "namespace": "second"}
    second["settings"] = {"schedulerName": "batch"}
    SchedulerInstallation("second", second, pulumi.ResourceOptions(providers={"kubernetes": cluster}))
"""
Pulumi = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path) -> Iterator[LocalCluster]:
    spec = ClusterSpec(name="component-package", nodes=2, prometheus=False, state_root=cluster_state_root)
    with LocalCluster(spec) as started:
        yield started


@pytest.fixture(scope="module")
def pulumi(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Pulumi:
    """The engine on a project that names the package by its folder."""
    directory = tmp_path_factory.mktemp("program")
    variables = {**os.environ, **environment.variables(cluster.layout, None, os.environ)}
    variables["PULUMI_DISABLE_REGISTRY_RESOLVE"] = "1"
    project = {"name": "platform", "runtime": "python", "packages": {"secondary-scheduler": str(PACKAGE)}}
    (directory / "Pulumi.yaml").write_text(json.dumps(project))
    (directory / "__main__.py").write_text(PROGRAM)

    def run(*arguments: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"] if arguments[0] != "package" else ["pulumi", *arguments],
            cwd=directory, env=variables, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done

    run("stack", "init", "remote")
    run("config", "set", "--secret", "token", TOKEN)
    return run


def test_the_engine_reads_the_schema_that_is_checked_in(pulumi: Pulumi) -> None:
    shown = pulumi("package", "get-schema", str(PACKAGE)).stdout
    assert json.loads(shown) == json.loads((PACKAGE / "schema.json").read_text())


def test_a_wrong_plugin_fails_the_preview_and_is_named(pulumi: Pulumi) -> None:
    pulumi("config", "set", "plugin", "TargetPacking")
    shown = pulumi("preview", fails=True)
    pulumi("config", "rm", "plugin")
    output = shown.stdout + shown.stderr
    assert "batch: settings: plugins.score.enabled[0].name" in output
    assert "TargetPacking" in output


def test_a_scheduler_name_of_two_installations_fails_the_preview(pulumi: Pulumi) -> None:
    pulumi("config", "set", "twice", "true")
    shown = pulumi("preview", fails=True)
    pulumi("config", "rm", "twice")
    # Either may be first.
    assert re.search(r"schedulerName batch is that of (batch|second) on the same cluster", shown.stdout + shown.stderr)


def test_it_goes_up_stays_unchanged_and_is_destroyed(pulumi: Pulumi, cluster: LocalCluster) -> None:
    api = kubernetes.CoreV1Api(kubernetes_config.new_client_from_config(str(cluster.kubeconfig)))
    assert "create" in pulumi("preview").stdout
    pulumi("up", "--yes", "--skip-preview")
    assert pulumi("stack", "output", "ready").stdout.strip() in ("1", "1.0")
    assert TOKEN not in pulumi("stack", "export").stdout
    places_a_pod(api, "batch", generateName="pod-")
    pulumi("preview", "--expect-no-changes")
    pulumi("destroy", "--yes", "--skip-preview")
    assert NAMESPACE not in {item.metadata.name for item in api.list_namespace().items}
