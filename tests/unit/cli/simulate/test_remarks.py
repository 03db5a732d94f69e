"""What `simulate` says of pods, load and nodes that it could not use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from scheduler.config import Problem
from secondary_scheduler.cli import app
from secondary_scheduler.simulation.report import InputReport

PLUGIN = "TargetLoadPacking"
PROVIDER = {"metricProvider": {"type": "Prometheus", "address": "https://p:9090"}}


def profile(name: str, **more: Any) -> dict[str, Any]:
    return {"schedulerName": name, **more}


LOAD_AWARE = {
    "plugins": {"score": {"enabled": [{"name": PLUGIN}]}},
    "pluginConfig": [{"name": PLUGIN, "args": PROVIDER}],
}


def node(name: str, **capacity: str) -> dict[str, Any]:
    capacity = capacity or {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": capacity}}


def pod(name: str, scheduler: str | None, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    named = {"schedulerName": scheduler} if scheduler else {}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**named, "containers": [], **spec}}


def simulate(directory: Path, objects: list[dict[str, Any]], *arguments: str, profiles: Any = None) -> Result:
    (directory / "snapshot.yaml").write_text(yaml.safe_dump_all(objects))
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    document["profiles"] = profiles or [profile("ours")]
    (directory / "config.yaml").write_text(yaml.safe_dump(document))
    words = ["simulate", "--config", str(directory / "config.yaml"), "--snapshot", str(directory / "snapshot.yaml")]
    return CliRunner().invoke(app.build(words), [*words, *arguments])


def test_pods_of_other_schedulers_are_counted_and_can_be_decided(tmp_path: Path) -> None:
    placed = pod("e", None, nodeName="n1")
    objects = [node("n1"), pod("a", "ours"), pod("b", None), pod("c", None), pod("d", "volcano"), placed]
    done = simulate(tmp_path, objects)
    assert done.stderr == (
        "ours decides as kube-scheduler 1.34: the default, as the snapshot names no version\n"
        "not decided, as they belong to other schedulers than ours: 3 pending pods (2 of default-scheduler, 1 of "
        "volcano); to decide them too: --as-scheduler default-scheduler\n"
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["POD", "default/a"]
    done = simulate(tmp_path, objects, "--as-scheduler", "default-scheduler")
    assert "1 pending pod (1 of volcano)" in done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["POD", "default/a", "default/b", "default/c"]


def test_with_several_profiles_it_is_said_which_decides(tmp_path: Path) -> None:
    profiles = [profile("one"), profile("two")]
    objects = [node("n1"), pod("a", None)]
    done = simulate(tmp_path, objects, "--as-scheduler", "default-scheduler", profiles=profiles)
    assert "name one: --as-scheduler default-scheduler=one" in str(done.exception)
    done = simulate(tmp_path, objects, "--as-scheduler", "default-scheduler=two", "-o", "yaml", profiles=profiles)
    (decision,) = yaml.safe_load(done.stdout)["decisions"]
    assert (decision["schedulerName"], decision["node"]) == ("two", "n1")


@pytest.mark.parametrize(
    ("objects", "lines"),
    [
        ([], ["the snapshot holds no pods: nothing to decide", "the snapshot holds no nodes: every pod stays pending"]),
        (
            [node("n1"), pod("a", "ours", nodeName="n1")],
            ["every pod of the snapshot (1) has a node or has ended: nothing to decide"],
        ),
        (
            [node("n1", cpu="4", memory="8"), pod("a", "ours")],
            [
                "1 node without memory, such as n1, where no pod fits: write status.capacity.memory with its unit, "
                "such as 8Gi",
                "1 node without pods, such as n1, where no pod fits: write status.capacity.pods as a number, "
                "such as 110",
            ],
        ),
        ([node("n1"), pod("a", "ours")], []),
    ],
)
def test_an_empty_snapshot_and_a_node_without_capacity_are_messages(
    tmp_path: Path, objects: list[dict[str, Any]], lines: list[str]
) -> None:
    done = simulate(tmp_path, objects)
    assert done.exit_code == 0
    assert done.stderr.splitlines()[1:] == lines


def test_a_load_plugin_without_load_is_said(tmp_path: Path) -> None:
    objects = [node("n1"), node("n2"), pod("a", "ours")]
    profiles = [profile("ours", **LOAD_AWARE)]
    done = simulate(tmp_path, objects, profiles=profiles)
    assert done.stderr.splitlines()[1].startswith(
        "TargetLoadPacking: decided without the load of nodes, as there is none; give --load"
    )
    metric = {"metrics": [{"type": "CPU", "operator": "AVG", "rollup": "15m", "value": 10}]}
    measured = {"timestamp": 1000, "window": {"start": 100, "end": 1000}, "data": {"NodeMetricsMap": {"n1": metric}}}
    (tmp_path / "load.json").write_text(json.dumps(measured))
    done = simulate(tmp_path, objects, "--load", str(tmp_path / "load.json"), profiles=profiles)
    assert done.stderr.splitlines()[1:] == ["TargetLoadPacking: 1 node of 2 without fresh load, such as n2"]
    done = simulate(tmp_path, objects, "--load", str(tmp_path / "load.json"), "--now", "9000", profiles=profiles)
    assert "2 nodes of 2 without fresh load, such as n1" in done.stderr


def test_a_namespace_is_shown_alone_but_all_are_decided(tmp_path: Path) -> None:
    objects = [node("n1", cpu="1", memory="1Gi", pods="1"), pod("a", "ours", "first"), pod("b", "ours", "second")]
    done = simulate(tmp_path, objects, "-n", "second")
    (row,) = done.stdout.splitlines()[1:]
    assert row.startswith("second/b")
    assert "Too many pods" in row, "the pod of the other namespace has the only place"
    assert "no pod of this namespace is decided" in simulate(tmp_path, objects, "-n", "third").stderr
    assert len(simulate(tmp_path, objects, "-A").stdout.splitlines()) == 3


VERSION = {
    "apiVersion": "secondary-scheduler.io/v1",
    "kind": "ClusterVersion",
    "metadata": {"name": "cluster"},
    "gitVersion": "v1.36.3",
}


def test_the_version_that_decides_is_that_of_the_snapshot_unless_the_profile_names_one(tmp_path: Path) -> None:
    objects = [VERSION, node("n1"), pod("a", "ours")]
    done = simulate(tmp_path, objects, "-o", "wide")
    assert done.stderr == "ours decides as kube-scheduler 1.36: the cluster's version\n"
    entry = {"name": "SecondarySchedulerOptions", "args": {"kubernetesVersion": "1.35"}}
    pinned = simulate(tmp_path, objects, profiles=[{"schedulerName": "ours", "pluginConfig": [entry]}])
    assert pinned.stderr == "ours decides as kube-scheduler 1.35: its kubernetesVersion, though the cluster is 1.36\n"


@pytest.mark.parametrize(("git_version", "version"), [("v1.29.4", "1.34"), ("v1.41.0", "1.38"), ("nonsense", "1.34")])
def test_a_version_beyond_the_table_is_the_nearest_of_it(tmp_path: Path, git_version: str, version: str) -> None:
    done = simulate(tmp_path, [{**VERSION, "gitVersion": git_version}, node("n1"), pod("a", "ours")])
    assert f"ours decides as kube-scheduler {version}: " in done.stderr


def test_a_long_warning_about_a_configuration_keeps_its_remedy() -> None:
    lines: list[str] = []
    InputReport(lines.append).warn_of(Problem((), "x" * 1000, severity="warning", hint="enable it"))
    assert lines[0].startswith("warning: configuration: xxx")
    assert lines[0].endswith("x; enable it")
