"""The update from 0.1.0 and the way back on a live stack, by the commands of docs/guides/upgrade-from-0.1.md.

0.1.0 was never tagged. It is taken from the history, at the commit that the guide names, and it is all of it: the
program that makes the stack, and the operator and scheduler that run under its images. The tests run in order on one
cluster.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster import environment
from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from scheduler import __version__
from tests.support.live_stack import CHECKOUT, places_a_pod
from tests.support.pages import JOURNEYS
from tests.support.reader import ORIGIN, Reader
from tests.support.surroundings import IMAGES

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

FORMER = "e845042"
REGISTRY = "registry.example.com/secondary-scheduler"
JOURNEY = "from-0.1"
UPDATE, BACK = JOURNEYS[JOURNEY]
KINDS = (
    "namespaces",
    "customresourcedefinitions",
    "clusterroles",
    "clusterrolebindings",
    "roles",
    "rolebindings",
    "serviceaccounts",
    "configmaps",
    "secrets",
    "services",
    "deployments",
    "networkpolicies",
    "priorityclasses",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "secondaryschedulers",
)
ADDED = {
    "ClusterRole/secondary-scheduler:metrics-reader",
    "ClusterRole/secondary-scheduler:plugin:dynamicresources",
    "NetworkPolicy/secondary-scheduler-operator",
    "ValidatingAdmissionPolicy/secondary-scheduler-images",
    "ValidatingAdmissionPolicy/secondary-scheduler-operator-bindings",
    "ValidatingAdmissionPolicyBinding/secondary-scheduler-images",
    "ValidatingAdmissionPolicyBinding/secondary-scheduler-operator-bindings",
}
"""What the guide says the update adds, on a cluster without Prometheus Operator."""
NOT_ENABLED = {
    f"ClusterRole/secondary-scheduler:plugin:{name}"
    for name in (
        "capacityscheduling",
        "coscheduling",
        "loadvariationriskbalancing",
        "lowriskovercommitment",
        "networkoverhead",
        "noderesourcetopologymatch",
        "preemptiontoleration",
        "sysched",
        "topologicalsort",
    )
}
"""Roles of plugins that the stack does not enable, which the update deletes."""


@dataclass
class Upgraded:
    """A reader who installed 0.1.0, and what the cluster and the stack had then."""

    reader: Reader
    core: kubernetes.CoreV1Api
    before: dict[str, Any]
    state_before: set[str]

    def typed(self, command: str) -> str:
        """What a command prints that must work."""
        code, output = self.reader.shell.run(command)
        assert code == 0, f"{command}\n{output}"
        return output

    def objects(self) -> dict[str, Any]:
        """The objects of the stack and of its operator, by kind and name."""
        command = f"kubectl get {','.join(KINDS)} --all-namespaces --output=json"
        items = json.loads(self.typed(command))["items"]
        return {
            f"{item['kind']}/{item['metadata']['name']}": item
            for item in items
            if "app.kubernetes.io/part-of" in item["metadata"].get("labels", {})
        }

    def state(self) -> set[str]:
        """Every object in the engine's state, by its type and id."""
        resources = json.loads(self.typed("pulumi stack export"))["deployment"]["resources"]
        return {f"{each['type']} {each['id']}" for each in resources if each["type"].startswith("kubernetes:")}

    def configurations(self) -> dict[str, str]:
        maps = {name: item for name, item in self.objects().items() if "-config-" in name and "ConfigMap" in name}
        return {name: json.dumps(item["data"]) for name, item in maps.items()}


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of 0.1.0."""
    archive = subprocess.run(["git", "archive", FORMER], cwd=CHECKOUT, capture_output=True, check=False)
    if archive.returncode != 0:
        pytest.skip(f"the history has no commit {FORMER}, which is 0.1.0: this is a shallow clone, or none")
    directory = tmp_path_factory.mktemp("former")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(directory, filter="data")
    return directory


def images_of(former: Path) -> dict[str, dict[str, Any]]:
    """What real nodes run as the images of 0.1.0, beside those of the guides, which are those of this version."""
    ours = {"env": {"PYTHONPATH": str(former)}, "hostPaths": [str(former)]}
    scheduler, operator = (IMAGES[f"{REGISTRY}/{name}"] for name in ("kube-scheduler", "operator"))
    controller = [sys.executable, "-m", "secondary_scheduler.controller"]
    return {
        **IMAGES,
        f"{REGISTRY}/kube-scheduler:0.1.0": {**scheduler, **ours},
        f"{REGISTRY}/operator:0.1.0": {
            **operator,
            **ours,
            "executables": {"/bin/secondary-scheduler-operator": controller},
        },
    }


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path, former: Path) -> Iterator[LocalCluster]:
    spec = ClusterSpec(name="upgrade", nodes=3, real_nodes=2, state_root=cluster_state_root, images=images_of(former))
    with LocalCluster(spec) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def upgraded(cluster: LocalCluster, former: Path, tmp_path_factory: pytest.TempPathFactory) -> Upgraded:
    variables = environment.variables(cluster.layout, cluster.prometheus_url, os.environ)
    addresses = {name: value for name, value in variables.items() if name.startswith(("SECONDARY_SCHEDULER_P", "KUBE"))}
    reader = Reader(tmp_path_factory.mktemp("upgrade"), {}, addresses, former)
    # An update waits for a canary and a rollout, of two operators and two schedulers.
    reader.shell.seconds = 1200
    core = kubernetes.CoreV1Api(kubernetes_config.new_client_from_config(str(cluster.kubeconfig)))
    upgraded = Upgraded(reader, core, {}, set())
    upgraded.typed(f"git clone {ORIGIN} && cd secondary-scheduler")
    reader.shell.before["pulumi install"](reader.shell.directory)
    text = (
        (former / "stacks" / "Pulumi.local.yaml").read_text().replace("localhost/secondary-scheduler/", f"{REGISTRY}/")
    )
    stack = yaml.safe_load(text)
    stack["config"]["secondary-scheduler:cluster"] = {"clusterIdentifier": "prod"}
    stack["config"]["secondary-scheduler:readySeconds"] = 600
    del stack["encryptionsalt"]
    (reader.shell.directory / "stacks" / "Pulumi.prod.yaml").write_text(yaml.safe_dump(stack))
    upgraded.typed("pulumi stack init prod && git add stacks && git commit -m prod && pulumi up --yes --skip-preview")
    places_a_pod(core, "secondary-scheduler", name="before")
    upgraded.before = upgraded.objects()
    upgraded.state_before = upgraded.state()
    return upgraded


def test_the_update_replaces_nothing_and_adds_what_the_guide_says(upgraded: Upgraded) -> None:
    configurations = upgraded.configurations()
    assert upgraded.before["SecondaryScheduler/cluster"]["spec"]["metricCredentials"]
    upgraded.reader.follow(JOURNEY, UPDATE)
    after = upgraded.objects()
    assert set(after) - set(upgraded.before) == ADDED
    assert set(upgraded.before) - set(after) == NOT_ENABLED
    kept = set(after) & set(upgraded.before)
    assert {name: uid(after[name]) for name in kept} == {name: uid(upgraded.before[name]) for name in kept}
    assert upgraded.configurations() == configurations
    image = after["SecondaryScheduler/cluster"]["status"]["lastRollout"]["image"]
    assert image == f"{REGISTRY}/kube-scheduler:{__version__}"
    assert upgraded.typed("pulumi preview --expect-no-changes --diff")


def test_pods_stay_where_they_are_and_new_ones_are_placed(upgraded: Upgraded) -> None:
    assert upgraded.core.read_namespaced_pod("before", "default").spec.node_name
    places_a_pod(upgraded.core, "secondary-scheduler", name="after")


def test_the_way_back_leaves_what_0_1_0_had(upgraded: Upgraded) -> None:
    upgraded.reader.follow(JOURNEY, BACK)
    places_a_pod(upgraded.core, "secondary-scheduler", name="back")
    back = upgraded.objects()
    assert set(back) == set(upgraded.before)
    kept = set(upgraded.before) - NOT_ENABLED - {"Deployment/secondary-scheduler-operator"}
    assert {name: uid(upgraded.before[name]) for name in kept} == {name: uid(back[name]) for name in kept}
    different = {name for name, item in upgraded.before.items() if content(item) != content(back[name])}
    assert different == set()
    assert upgraded.state() == upgraded.state_before
    for name in ("before", "after"):
        assert upgraded.core.read_namespaced_pod(name, "default").spec.node_name


def uid(item: dict[str, Any]) -> str:
    return str(item["metadata"]["uid"])


def content(item: dict[str, Any]) -> dict[str, Any]:
    """What a manifest says of an object."""
    return {key: value for key, value in item.items() if key not in ("metadata", "status")}
