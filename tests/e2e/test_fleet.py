"""Fleets with the real engine: a small program for what needs no cluster, and this project's own on local clusters, one
of which is not there.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from secondary_scheduler.cli.fleet.engine import PulumiEngine
from secondary_scheduler.cli.fleet.process import StopTimeouts, find_pulumi
from secondary_scheduler.cli.fleet.project import find_project
from secondary_scheduler.cli.fleet.results import Operation
from tests.support.cluster import BARE, MakeCluster
from tests.support.fleet import CHECKOUT, TOKEN, Fleet, dead_kubeconfig
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.e2e]

NAMESPACE = "openshift-secondary-scheduler-operator"
NO_CLUSTER = ("--cluster-timeout", "0")

# As many components as `size` says; `sleep` keeps an update busy; `fail` and `leak` end it with an error.
TINY = """
import time
import pulumi

config = pulumi.Config()

class Part(pulumi.ComponentResource):
    def __init__(self, name):
        super().__init__("tiny:index:Part", name)
        self.register_outputs({})

for index in range(int(config.get("size") or 1)):
    Part(f"part-{index}")
pulumi.log.info("weight of TargetLoadPacking: 1 -> 2")
if not pulumi.runtime.is_dry_run():
    time.sleep(float(config.get("sleep") or 0))
if config.get("fail"):
    raise pulumi.RunError(config.get("fail"))
pulumi.export("open", "shown")
pulumi.export("closed", pulumi.Output.secret("canary-token-27182818"))
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    fleet = Fleet.of_program(tmp_path_factory.mktemp("tiny"), TINY)
    fleet.add("prod-a", {"fleet:wave": "canary", "tiny:cluster": {"clusterIdentifier": "east"}})
    fleet.add("prod-b")
    fleet.add("prod-c")
    return fleet


def test_a_preview_with_changes_ends_with_3_and_one_where_a_stack_fails_with_1(tiny: Fleet, tmp_path: Path) -> None:
    tiny.set("prod-b", "size", "3")
    stacks = tiny.result("preview", "--offline", "--stacks", "prod-*", code=3)
    assert {name: (stack["result"], stack["changes"]) for name, stack in stacks.items()} == {
        "prod-a": ("changes", {"create": 2}),
        "prod-b": ("changes", {"create": 4}),
        "prod-c": ("changes", {"create": 2}),
    }
    assert list(stacks) == ["prod-a", "prod-b", "prod-c"], "in the order of the waves"
    assert (stacks["prod-a"]["wave"], stacks["prod-a"]["cluster"]) == ("canary", "east")
    tiny.set("prod-c", "fail", "stacks/Pulumi.prod-c.yaml:3: it is bad")
    comment = tmp_path / "comment.md"
    done = tiny.run("preview", "--offline", "--stacks", "prod-*", "--markdown", str(comment))
    assert done.returncode == 1
    assert "stacks/Pulumi.prod-c.yaml:3: it is bad" in done.stdout
    assert "Fleet preview: 3 stacks: 1 failed, 2 with changes" in done.stdout
    text = comment.read_text()
    assert "| prod-c | rest | - | ❌ failed |" in text
    assert "weight of TargetLoadPacking: 1 -> 2" in text
    assert "create  tiny:index:Part part-2" in text


@pytest.mark.slow
def test_after_a_failure_later_waves_are_skipped_and_the_next_run_goes_on(tiny: Fleet) -> None:
    tiny.set("prod-a", "fail", "canary is broken")
    stacks = tiny.result("up", "--stacks", "prod-*", "--no-gate", *NO_CLUSTER, code=1)
    assert {name: stack["result"] for name, stack in stacks.items()} == {
        "prod-a": "failed",
        "prod-b": "skipped",
        "prod-c": "skipped",
    }
    assert stacks["prod-a"]["reason"] == "canary is broken"
    assert stacks["prod-b"]["reason"] == "not started, since prod-a failed"
    for stack in ("prod-a", "prod-c"):
        tiny.pulumi("config", "rm", "--stack", stack, "fail")
    stacks = tiny.result("up", "--stacks", "prod-*", "--no-gate", *NO_CLUSTER)
    assert {stack["result"] for stack in stacks.values()} <= {"done", "unchanged"}
    assert stacks["prod-b"]["outputs"] == {"open": "shown", "closed": "[secret]"}
    assert tiny.run("preview", "--offline", "--stacks", "prod-*").returncode == 0


def test_the_users_selected_stack_stays_selected(tiny: Fleet) -> None:
    tiny.pulumi("stack", "select", "prod-c")
    # With changes, unless a test before has made them.
    assert tiny.run("preview", "--offline", "--stacks", "prod-a").returncode in (0, 3)
    assert tiny.pulumi("stack", "--show-name").strip() == "prod-c"


def test_no_secret_is_shown_wherever_it_turns_up(tiny: Fleet, tmp_path: Path) -> None:
    provider = {"token": {"fromFileInEnv": "TOKEN_FILE"}}
    tiny.add("leaky", {"tiny:fail": f"refused: Bearer {TOKEN}", "tiny:metricProvider": provider})
    comment = tmp_path / "comment.md"
    tiny.environment["TOKEN_FILE"] = str(tiny.token)
    for form in ("json", "table"):
        done = tiny.run("preview", "--offline", "--stacks", "leaky", "-o", form, "--markdown", str(comment))
        assert done.returncode == 1
        assert "refused: Bearer [secret]" in done.stdout
        assert TOKEN not in done.stdout + done.stderr + comment.read_text()


def test_ctrl_c_cancels_what_runs_and_leaves_no_lock(tiny: Fleet) -> None:
    for stack in ("prod-a", "prod-b"):
        tiny.set(stack, "sleep", "100")
    process = tiny.start("up", "--stacks", "prod-*", "--no-gate", *NO_CLUSTER, "-o", "json")
    tiny.wait_locked()
    time.sleep(0.5)
    output, errors = tiny.interrupt(process)
    assert process.returncode == 130
    stacks = {stack["stack"]: stack for stack in json.loads(output)["stacks"]}
    assert (stacks["prod-a"]["result"], stacks["prod-a"]["reason"]) == ("cancelled", "cancelled")
    assert stacks["prod-b"]["reason"] == "cancelled before it was started"
    assert "interrupted" in errors
    assert not tiny.locks()


def test_a_stack_that_takes_too_long_is_cancelled_and_one_that_is_locked_says_by_whom(tiny: Fleet) -> None:
    process = tiny.start("up", "--stacks", "prod-b", "--no-gate", *NO_CLUSTER, "--timeout", "12", "-o", "json")
    try:
        tiny.wait_locked()
        locked = tiny.result("up", "--stacks", "prod-b", "--no-gate", *NO_CLUSTER, code=1)["prod-b"]
        assert locked["reason"].startswith("locked by another update of ")
        assert locked["reason"].endswith("pulumi cancel --stack prod-b")
        assert "\n" not in locked["reason"]
    finally:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    slow = json.loads(output)["stacks"][0]
    assert process.returncode == 1
    assert slow["reason"] == "not done after 12 s; it was cancelled (see --timeout)"
    assert not tiny.locks()


@pytest.mark.slow
def test_an_engine_that_has_to_be_killed_leaves_no_lock_either(tiny: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in tiny.environment.items():
        monkeypatch.setenv(name, value)
    project = find_project(tiny.root)
    stopping = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        engine = PulumiEngine(
            find_pulumi(), project, project.read("prod-b"), stopping, time.monotonic() + 100, StopTimeouts(0, 0)
        )
        running = pool.submit(engine.run, Operation.UP)
        tiny.wait_locked()
        time.sleep(0.5)
        stopping.set()
        done = running.result(60)
    assert done.cancelled
    assert not tiny.locks()


class Clusters:
    """Two clusters and this project's stacks: one on each, and one on a cluster that is not there."""

    def __init__(self, fleet: Fleet, canary: LocalCluster, east: LocalCluster) -> None:
        self.fleet = fleet
        self.canary = kubernetes_config.new_client_from_config(str(canary.kubeconfig))
        self.east = kubernetes_config.new_client_from_config(str(east.kubeconfig))


def stack_settings(identifier: str, *, load: bool) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((CHECKOUT / "stacks" / "Pulumi.local.yaml").read_text())["config"]
    config["secondary-scheduler:cluster"] = {"clusterIdentifier": identifier}
    if not load:
        del config["secondary-scheduler:metricProvider"], config["secondary-scheduler:plugins"]
    return config


@pytest.fixture(scope="module")
def clusters(cluster_state_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    small: dict[str, Any] = {"real_nodes": 1, "tools": False, "state_root": cluster_state_root}
    canary = LocalCluster(ClusterSpec(name="fleet-canary", nodes=2, **small))
    east = LocalCluster(ClusterSpec(name="fleet-east", nodes=0, prometheus=False, kwok=False, **small))
    directory = tmp_path_factory.mktemp("fleet")
    with canary, east:
        environment = {
            "SECONDARY_SCHEDULER_PROMETHEUS_URL": str(canary.prometheus_url),
            "SECONDARY_SCHEDULER_PROMETHEUS_TOKEN_FILE": str(canary.prometheus_token_file),
            "SECONDARY_SCHEDULER_PROMETHEUS_CA_FILE": str(canary.layout.prometheus_ca),
        }
        fleet = Fleet.of_this_project(directory, environment)
        config = {**stack_settings("one", load=True), "fleet:wave": "canary"}
        fleet.add("fleet-canary", config, canary.kubeconfig)
        fleet.add("fleet-east", stack_settings("two", load=False), east.kubeconfig)
        fleet.add("fleet-down", stack_settings("three", load=False), dead_kubeconfig(directory / "dead"))
        yield Clusters(fleet, canary, east)


def test_an_unreachable_cluster_fails_its_own_stack_and_nothing_else(clusters: Clusters, tmp_path: Path) -> None:
    comment = tmp_path / "comment.md"
    stacks = clusters.fleet.result("preview", "--stacks", "fleet-*", "--markdown", str(comment), code=1)
    assert {name: stack["result"] for name, stack in stacks.items()} == {
        "fleet-canary": "changes",
        "fleet-down": "failed",
        "fleet-east": "changes",
    }
    assert stacks["fleet-down"]["reason"] == "https://127.0.0.1:1 does not answer: Connection refused"
    assert stacks["fleet-down"]["cluster"] == "three"
    assert len(comment.read_text()) < 65_536
    assert "| fleet-down | rest | three | ❌ failed |" in comment.read_text()


def test_waves_are_updated_behind_a_gate_that_sees_a_pod_placed(clusters: Clusters) -> None:
    stacks = clusters.fleet.result("up", "--stacks", "fleet-*", "--gate-timeout", "120", code=1)
    assert {name: stack["result"] for name, stack in stacks.items()} == {
        "fleet-canary": "done",
        "fleet-down": "failed",
        "fleet-east": "done",
    }
    canary = stacks["fleet-canary"]
    passed = {check["check"]: check["found"] for check in canary["gate"] if check["passed"]}
    assert passed["Deployment secondary-scheduler"] == "1 of 1 updated, 1 available"
    assert passed["configuration"] == canary["outputs"]["profile"]["configurationHash"]
    assert passed["pod of secondary-scheduler"].startswith("placed after ")
    assert "LoadDataFresh" in passed
    assert "LoadDataFresh" not in {check["check"] for check in stacks["fleet-east"]["gate"]}, "it has no metric source"
    for api in (clusters.canary, clusters.east):
        left = kubernetes.CoreV1Api(api).list_namespaced_pod(
            NAMESPACE, label_selector="app=secondary-scheduler-fleet-gate"
        )
        assert not left.items
    assert clusters.fleet.token.read_text().strip() not in json.dumps(stacks)


@pytest.mark.slow
def test_afterwards_there_is_nothing_to_change_and_nothing_has_drifted(clusters: Clusters) -> None:
    names = ("--stacks", "fleet-canary", "--stacks", "fleet-east")
    assert {stack["result"] for stack in clusters.fleet.result("preview", *names).values()} == {"unchanged"}


@pytest.mark.slow
def test_a_scheduler_that_is_not_healthy_stops_the_fleet(clusters: Clusters) -> None:
    apps = kubernetes.AppsV1Api(clusters.canary)
    for name in ("secondary-scheduler-operator", "secondary-scheduler"):
        apps.patch_namespaced_deployment_scale(name, NAMESPACE, {"spec": {"replicas": 0}})
    names = ("--stacks", "fleet-canary", "--stacks", "fleet-east")
    stacks = clusters.fleet.result("up", *names, "--gate-timeout", "3", code=1)
    assert stacks["fleet-canary"]["result"] == "failed"
    assert "not healthy after 3 s: Deployment secondary-scheduler: " in stacks["fleet-canary"]["reason"]
    assert (stacks["fleet-east"]["result"], stacks["fleet-east"]["seconds"]) == ("skipped", 0)


NAMESPACED = """
import pulumi
import pulumi_kubernetes as k8s

name = pulumi.get_stack()
config = pulumi.Config()
cluster = k8s.Provider("cluster", kubeconfig=config.require_secret("kubeconfig"), cluster_identifier=name)
here = pulumi.ResourceOptions(provider=cluster)
k8s.core.v1.ConfigMap("map", metadata={"name": name, "namespace": "default"}, data={"a": "1"}, opts=here)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twelve_stacks_on_three_control_planes_of_which_one_is_down(make_cluster: MakeCluster, tmp_path: Path) -> None:
    planes = [make_cluster(**BARE) for _ in range(3)]
    fleet = Fleet.of_program(tmp_path, NAMESPACED)
    for index in range(12):
        config = {"tiny:cluster": {"clusterIdentifier": f"plane-{index % 3}"}}
        fleet.add(
            f"prod-{index:02}", config | ({"fleet:wave": "canary"} if index < 2 else {}), planes[index % 3].kubeconfig
        )
    planes[2].stop()
    down = {f"prod-{index:02}" for index in range(2, 12, 3)}
    comment = tmp_path / "comment.md"
    done = fleet.run("preview", "--stacks", "prod-*", "--parallel", "3", "--markdown", str(comment))
    assert done.returncode == 1
    assert "Fleet preview: 12 stacks: 4 failed, 8 with changes" in done.stdout
    assert comment.read_text().count("❌ failed") == 4
    assert len(comment.read_text()) < 65_536
    stacks = fleet.result("up", "--stacks", "prod-*", "--parallel", "3", "--no-gate", code=1)
    assert {name for name, stack in stacks.items() if stack["result"] == "failed"} == down
    assert {stack["result"] for name, stack in stacks.items() if name not in down} == {"done"}
    assert all("does not answer" in stacks[name]["reason"] for name in down)
    up = [argument for name in sorted(set(stacks) - down) for argument in ("--stacks", name)]
    assert fleet.run("preview", *up, "--parallel", "3").returncode == 0
    core = kubernetes.CoreV1Api(kubernetes_config.new_client_from_config(str(planes[0].kubeconfig)))
    core.patch_namespaced_config_map("prod-00", "default", {"data": {"a": "changed by hand"}})
    drift = fleet.result("refresh", "--preview-only", "--stacks", "prod-00", "--stacks", "prod-01", code=3)
    assert (drift["prod-00"]["result"], drift["prod-00"]["changes"]) == ("changes", {"update": 1})
    assert drift["prod-01"]["result"] == "unchanged"
    assert fleet.result("refresh", "--stacks", "prod-00")["prod-00"]["result"] == "done"
    # Other data make another ConfigMap, unless the provider is told otherwise.
    assert fleet.result("preview", "--stacks", "prod-00", code=3)["prod-00"]["changes"] == {"replace": 1}
    assert not fleet.locks()
