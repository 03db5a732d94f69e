"""What JobSet, LeaderWorkerSet, KubeRay and the Spark operator write, as docs/guides/gangs-of-job-controllers.md has
them: gangs that form are placed whole, and those of ordered starts wait and say so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client as kubernetes, config as kubernetes_config, dynamic

from devcluster.cluster import LocalCluster
from devcluster.inventory import RACK_LABEL
from devcluster.spec import ClusterSpec
from tests.support.cluster import BARE
from tests.support.daemon import configuration, daemon
from tests.support.jobcontrollers import RECORDED, JobControllers
from tests.support.pages import CHECKOUT, GUIDES, File, blocks
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PAGE = f"{GUIDES}/gangs-of-job-controllers.md"
NAMESPACE = "shop"
LABEL = "scheduling.x-k8s.io/pod-group"
PLUGINS = {"multiPoint": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "PrioritySort"}]}}
Json = dict[str, Any]


class Stage:
    """A cluster with the stand-ins of the controllers and our scheduler."""

    def __init__(self, cluster: LocalCluster, config: Path) -> None:
        api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
        self.core = kubernetes.CoreV1Api(api)
        self._dynamic = dynamic.DynamicClient(api)
        self._cluster, self._config = cluster, config

    def create(self, *objects: Json) -> None:
        """Create objects of any kind."""
        for item in objects:
            resource = self._dynamic.resources.get(api_version=item["apiVersion"], kind=item["kind"])
            resource.create(body=item, namespace=NAMESPACE)

    def members(self, group: str) -> dict[str, str | None]:
        """The node of each pod of a group, by the pod's name."""
        pods = self.core.list_namespaced_pod(NAMESPACE, label_selector=f"{LABEL}={group}").items
        return {pod.metadata.name: pod.spec.node_name for pod in pods}

    def messages(self, group: str) -> list[str]:
        """Why its pods have no node."""
        pods = self.core.list_namespaced_pod(NAMESPACE, label_selector=f"{LABEL}={group}").items
        conditions = (condition for pod in pods for condition in pod.status.conditions or ())
        return [condition.message for condition in conditions if condition.type == "PodScheduled" and condition.message]

    def explained(self, group: str) -> str:
        """What `explain podgroup` says, of a snapshot of the cluster."""
        snapshot = self._config.with_name(f"{group}.json")
        command = [str(Path(sys.executable).with_name("secondary-scheduler"))]
        environment = {**os.environ, "KUBECONFIG": str(self._cluster.kubeconfig)}
        snapshot_command = [*command, "snapshot", "--no-configuration", "--file", str(snapshot)]
        subprocess.run(snapshot_command, check=True, env=environment, capture_output=True, timeout=120)
        explain = [*command, "explain", "pod", f"podgroup/{group}", "-n", NAMESPACE]
        explain += ["--snapshot", str(snapshot), "--config", str(self._config)]
        done = subprocess.run(explain, check=False, env=environment, capture_output=True, text=True, timeout=120)
        return " ".join(f"{done.stdout}{done.stderr}".split())


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("controllers")
    options = {**BARE, "nodes": 6, "kwok": True, "state_root": directory / "state"}
    with LocalCluster(ClusterSpec(name="controllers", **options)) as cluster:
        api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
        crd = CHECKOUT / "components/crds/scheduling.x-k8s.io_podgroups.yaml"
        kubernetes.ApiextensionsV1Api(api).create_custom_resource_definition(yaml.safe_load(crd.read_text()))
        core = kubernetes.CoreV1Api(api)
        core.create_namespace({"metadata": {"name": NAMESPACE}})
        for node in core.list_node().items:
            # Simulated nodes are for pods that tolerate them, and these name no toleration.
            core.patch_node(node.metadata.name, {"spec": {"taints": None}})
        content = configuration(cluster.kubeconfig, "secondary-scheduler")
        names = ("secondary-scheduler", "scheduler-plugins-scheduler")
        content["profiles"] = [{"schedulerName": name, "plugins": PLUGINS} for name in names]
        controllers = JobControllers(api)
        try:
            with daemon(directory, content):
                yield Stage(cluster, directory / "config.yaml")
        finally:
            controllers.close()


def written_on_the_page(name: str) -> list[Json]:
    """The objects of a file of the guide."""
    parts = [part for block in blocks(PAGE) for part in block.content]
    (text,) = [part.content for part in parts if isinstance(part, File) and part.path == f"{name}.yaml"]
    return list(yaml.safe_load_all(text))


def renamed(objects: list[Json], former: str, name: str) -> list[Json]:
    """The same objects under another name."""
    copies: list[Json] = json.loads(json.dumps(objects).replace(f'"{former}"', f'"{name}"'))
    return copies


@pytest.mark.parametrize(("name", "group", "pods"), [("train", "train", 4), ("serve", "serve", 3), ("ray", "ray", 4)])
def test_a_gang_that_a_controller_writes_is_placed_whole(stage: Stage, name: str, group: str, pods: int) -> None:
    stage.create(*written_on_the_page(name))

    def placed() -> bool:
        members = stage.members(group)
        return len(members) == pods and all(members.values())

    eventually(placed, f"{group} is placed", diagnosis=lambda: (stage.members(group), stage.messages(group)))


def test_a_ray_cluster_that_does_not_fit_holds_no_node(stage: Stage) -> None:
    stage.create(*renamed(written_on_the_page("ray"), "ray", "large"))
    eventually(
        lambda: len(stage.messages("large")) == 4,
        "each of its pods is told why",
        diagnosis=lambda: stage.members("large"),
    )
    assert not any(stage.members("large").values())
    assert all("pod group shop/large: resource gap: map[cpu:" in message for message in stage.messages("large"))


@pytest.mark.parametrize(("former", "name", "minimum"), [("train", "ordered", 4), ("serve", "ready", 3)])
def test_the_first_pod_of_an_ordered_start_waits_for_the_others_and_explain_says_so(
    stage: Stage, former: str, name: str, minimum: int
) -> None:
    stage.create(*renamed(written_on_the_page(former), former, name))
    expected = f"pod group shop/{name}: 1 of at least {minimum} members exist"
    eventually(lambda: any(expected in text for text in stage.messages(name)), expected)
    assert list(stage.members(name).values()) == [None]
    explained = stage.explained(name)
    assert f"PodGroup {name}: 1 pod" in explained
    assert expected in explained


def test_a_spark_driver_starts_and_then_its_executors(stage: Stage) -> None:
    stage.create(*written_on_the_page("pi"))

    def placed() -> bool:
        members = stage.members("pi-pg")
        return len(members) == 3 and all(members.values())

    eventually(placed, "driver and executors are placed", diagnosis=lambda: stage.members("pi-pg"))


def test_a_spark_driver_whose_group_counts_the_executors_waits_for_them(stage: Stage) -> None:
    text = (RECORDED / "spark-operator-2.5.2" / "pi.yaml").read_text(encoding="utf-8")
    group, driver = yaml.safe_load_all(text.replace("pi-", "whole-"))
    group["spec"]["minMember"] = 3
    for item in (group, driver):
        del item["metadata"]["ownerReferences"]
    stage.create(group, driver)
    expected = "pod group shop/whole-pg: 1 of at least 3 members exist"
    eventually(lambda: any(expected in message for message in stage.messages("whole-pg")), expected)
    assert stage.members("whole-pg") == {"whole-driver": None}


@pytest.mark.parametrize("is_managed", [False, True])
def test_a_gang_with_kueues_topology_goes_to_one_rack_unless_kueue_manages_its_pods(
    stage: Stage, is_managed: bool
) -> None:
    """Each rack has one node that is large enough."""
    name = "managed" if is_managed else "required"
    metadata = {
        "annotations": {"kueue.x-k8s.io/podset-required-topology": RACK_LABEL},
        "labels": {LABEL: name, **({"kueue.x-k8s.io/podset": "main"} if is_managed else {})},
    }
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "9"}}}
    spec = {"schedulerName": "secondary-scheduler", "containers": [container], "terminationGracePeriodSeconds": 0}
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}}
    names = [f"{name}-{number}" for number in range(2)]
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, **metadata}, "spec": spec} for pod in names]
    stage.create({**group, "spec": {"minMember": 2}}, *pods)
    if is_managed:
        eventually(lambda: all(stage.members(name).values()), "Kueue's own node selectors say where")
    else:
        expected = f"1 of 2 members fit in {RACK_LABEL}="
        eventually(lambda: len(stage.messages(name)) == 2, "each is told why")
        assert all(expected in message for message in stage.messages(name)), stage.messages(name)
        assert not any(stage.members(name).values())
    for pod in names:
        stage.core.delete_namespaced_pod(pod, NAMESPACE)
