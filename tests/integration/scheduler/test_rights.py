"""What a scheduler may do under the shipped roles against what it does, by the API server's audit log: nothing is
refused, no verb is held in vain, and a real Prometheus with a ServiceAccount of its own reads /metrics.

The daemon runs as a process, with every plugin that has rights, on a cluster with every kind that they read. The test
plays kubelet, volume controller and metrics server.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import ports, releases
from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from scheduler import operand
from scheduler.catalog import METRICS_READER_CLUSTER_ROLE, minor_of, shipped_cluster_roles, static_cluster_roles
from scheduler.kube.client import Forbidden, KubeError
from tests.integration.operator.rights import Request, requests_of
from tests.integration.operator.support import Api
from tests.integration.operator.test_least_privilege import crd
from tests.support.cluster import BARE, audit_flags
from tests.support.queries import NAMESPACE as SCRAPED_NAMESPACE, dashboard_queries
from tests.support.scraping import scraping
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.integration]

ROOT = Path(__file__).parents[3]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAMESPACE, NAME, SCRAPER = "rights", "scheduler", "prometheus"
HELD_FOR_DOUBT = {("", "pods", "get"), ("resource.k8s.io", "resourceclaims", "get")}
"""Read only when the response to a Binding is lost, or a claim was written by somebody else:
tests/unit/scheduler/engine/test_cycle.py, tests/unit/scheduler/plugins/test_dynamicresources.py."""
HELD_FOR_LATER_SERVERS = {
    ("resource.k8s.io", "resourceclaims/binding", "patch"),
    ("resource.k8s.io", "resourceclaims", "create"),
    ("resource.k8s.io", "resourceclaims", "delete"),
    ("resource.k8s.io", "devicetaintrules", "list"),
    ("resource.k8s.io", "devicetaintrules", "watch"),
    ("scheduling.k8s.io", "podgroups", "list"),
    ("scheduling.k8s.io", "podgroups", "watch"),
    ("scheduling.k8s.io", "podgroups/status", "patch"),
}
"""Used from 1.36 on (allocations are written, extended resources are devices, PodGroups) and from 1.37 on (taint
rules)."""
_CUSTOM = (
    ("scheduling.x-k8s.io", "podgroups"),
    ("scheduling.x-k8s.io", "elasticquotas"),
    ("topology.node.k8s.io", "noderesourcetopologies"),
    ("security-profiles-operator.x-k8s.io", "seccompprofiles"),
    ("appgroup.diktyo.x-k8s.io", "appgroups"),
    ("networktopology.diktyo.x-k8s.io", "networktopologies"),
)
HELD_FOR_GO_IMAGES = {(group, plural, "get") for group, plural in _CUSTOM}
"""Images of scheduler-plugins read some of these objects one by one."""
_NEWER = "of Kubernetes 1.36 and newer, which this profile does not behave as"
WITHOUT_SERIES_HERE = {
    "Conditions/A": "of the operator: tests/integration/operator/test_least_privilege.py",
    "Degraded/A": "of the operator, and only of an instance that is degraded",
    "Failed reads/A": "the metrics server answers",
    "PodGroups of Kubernetes/A": _NEWER,
    "ResourceClaims for extended resources/A": _NEWER,
    "ResourceClaims for extended resources/B": _NEWER,
    "Serving certificate/A": "the certificate is self-signed",
    "Values that can be no load/A": "every value can be a load",
    "Wait for binding conditions/A": _NEWER,
    "Watches that are refused/A": "nothing is refused",
}
"""Queries of the dashboard about what does not happen in this test, and why not."""
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def control_plane(cluster_state_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One of its own, for the CRDs."""
    flags = audit_flags(tmp_path_factory.mktemp("audit"))
    spec = ClusterSpec(name="rights", state_root=cluster_state_root, api_server_flags=flags, **BARE)
    with LocalCluster(spec) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def api(control_plane: LocalCluster) -> Iterator[Api]:
    with contextlib.closing(Api(control_plane.kubeconfig, NAMESPACE)) as api:
        install_kinds(api)
        yield api


def install_kinds(api: Api) -> None:
    """The namespace, and every kind that a plugin reads."""
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    shipped = (file for file in (ROOT / "components/crds").iterdir() if "secondaryschedulers" not in file.name)
    files = [*shipped, ROOT / "tests/data/crds/seccompprofiles.yaml"]
    manifests = [yaml.safe_load(file.read_text()) for file in files]
    metrics = crd("metrics.k8s.io", "nodes", "NodeMetrics", "Cluster")
    metrics["spec"]["versions"][0]["name"] = "v1beta1"
    for manifest in (*manifests, metrics):
        api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", manifest)
        spec = manifest["spec"]
        for version in spec["versions"]:
            path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
            eventually(lambda path=path: not version["served"] or _answers(api, path), f"{path} served")  # noqa: B023


def _answers(api: Api, path: str) -> bool:
    with contextlib.suppress(KubeError):
        api.call("GET", path)
        return True
    return False


def token(api: Api, account: str) -> str:
    """A token of a ServiceAccount, which is made for it."""
    api.create("serviceaccounts", account)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    return str(api.call("POST", api.path("serviceaccounts", account) + "/token", request)["status"]["token"])


def bind(api: Api, role: str, account: str) -> None:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    body = {"metadata": {"name": f"{account}:{role}"}, "roleRef": reference, "subjects": [subject]}
    api.call("POST", f"{RBAC}/clusterrolebindings", body)


def configuration(kubeconfig: Path) -> dict[str, Any]:
    """Profiles that together run every plugin with a ClusterRole; Coscheduling orders the queue of all."""
    sort = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    load = {"name": "TargetLoadPacking", "args": {"metricProvider": {"type": "KubernetesMetricsServer"}}}

    def profile(name: str, *plugins: str, extra: Any = (), **points: Any) -> dict[str, Any]:
        multi = {"multiPoint": {"enabled": [{"name": plugin} for plugin in plugins]}}
        return {
            "schedulerName": name,
            "plugins": {"queueSort": sort, **(multi if plugins else {}), **points},
            "pluginConfig": list(extra),
        }

    overhead = {"name": "NetworkOverhead", "args": {"networkTopologyName": "costs"}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": True, "resourceName": NAME, "resourceNamespace": NAMESPACE},
        "profiles": [
            profile("default", "Coscheduling", "TargetLoadPacking", extra=[load]),
            profile("quotas", "CapacityScheduling", postFilter={"disabled": [{"name": "DefaultPreemption"}]}),
            profile("tolerant", "PreemptionToleration", postFilter={"disabled": [{"name": "DefaultPreemption"}]}),
            profile("numa", "NodeResourceTopologyMatch"),
            profile("calls", "SySched"),
            profile("network", "NetworkOverhead", extra=[overhead]),
        ],
    }


@dataclass
class Running:
    """The daemon under its rights."""

    port: int
    log: Path


@pytest.fixture(scope="module")
def running(api: Api, control_plane: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("rights")
    for name, rules in shipped_cluster_roles().items():
        body = {"metadata": {"name": name}, "rules": [rule.to_dict() for rule in rules]}
        api.call("POST", f"{RBAC}/clusterroles", body)
    config = yaml.safe_load(Path(control_plane.kubeconfig).read_text())
    credential = token(api, NAME)
    for user in config["users"]:
        user["user"] = {"token": credential}
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    for role in static_cluster_roles():
        bind(api, role, NAME)
    place = f"{RBAC}/namespaces/{NAMESPACE}"
    api.call("POST", f"{place}/roles", {"metadata": {"name": NAME}, "rules": operand.lease_rules(NAME)})
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    body = {"metadata": {"name": NAME}, "roleRef": operand.role_ref(NAME), "subjects": [subject]}
    api.call("POST", f"{place}/rolebindings", body)
    for node in ("n1", "n2"):
        create_node(api, node)
    file, log = directory / "config.json", directory / "log"
    file.write_text(json.dumps(configuration(kubeconfig)))
    port = ports.allocate(["daemon"], {})["daemon"]
    command = [sys.executable, "-m", "scheduler", f"--config={file}", f"--secure-port={port}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*command, "--bind-address=127.0.0.1"], stdout=output, stderr=output, env=environment
        ) as daemon,
    ):
        try:
            eventually(lambda: "caches are filled" in log.read_text() or daemon.poll() is not None, "caches filled")
            assert daemon.poll() is None, log.read_text()[-3000:]
            yield Running(port, log)
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(PATIENCE_SECONDS)
    assert "Traceback" not in log.read_text()


def create_node(api: Api, name: str) -> None:
    api.call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True", "reason": "Test"}]
    status = {"status": {"allocatable": amounts, "capacity": amounts, "conditions": ready}}
    api.call("PATCH", f"/api/v1/nodes/{name}/status", status, "application/merge-patch+json")
    api.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")


def create_pod(api: Api, profile: str, cpu: str, *claims: str, **spec: Any) -> str:
    name = f"{profile}-{next(_numbers)}"
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    tolerations = [{"operator": "Exists"}]
    content = {"schedulerName": profile, "containers": [container], "volumes": volumes, "tolerations": tolerations}
    api.create("pods", name, spec={**content, **spec})
    return name


def is_bound(api: Api, pod: str) -> bool:
    return bool(((api.get("pods", pod) or {}).get("spec") or {}).get("nodeName"))


def is_going(api: Api, pod: str) -> bool:
    return "deletionTimestamp" in (api.get("pods", pod) or {"metadata": {"deletionTimestamp": ""}})["metadata"]


def bound(api: Api, pod: str, log: Path) -> None:
    eventually(lambda: is_bound(api, pod), f"{pod} bound: {log.read_text()[-1500:]}")


def volumes(api: Api, log: Path) -> None:
    """One claim that takes a volume that exists, one that has to be provisioned."""
    base = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "example.com/provisioner")):
        body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        api.call("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        api.call("POST", base, {"metadata": {"name": name}, "spec": spec})
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}]
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": "/mnt"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    api.call("POST", "/api/v1/persistentvolumes", {"metadata": {"name": "disk"}, "spec": volume})
    bound(api, create_pod(api, "default", "100m", "local"), log)
    create_pod(api, "default", "100m", "made")
    selected = "volume.kubernetes.io/selected-node"
    eventually(
        lambda: selected in (api.call("GET", f"{base}/made")["metadata"].get("annotations") or {}),
        "a node for the claim",
    )


def _of_class(api: Api, priority_class: str) -> str | None:
    """A pod of this class that finds no room on n2; None while admission does not know the class yet."""
    try:
        return create_pod(
            api, "default", "3", nodeSelector={"kubernetes.io/hostname": "n2"}, priorityClassName=priority_class
        )
    except Forbidden:
        return None


def devices(api: Api, log: Path) -> None:
    """A claim that is allocated for a pod."""
    group = "/apis/resource.k8s.io/v1"
    api.call("POST", f"{group}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": "n1", "devices": [{"name": "g0"}]}
    api.call("POST", f"{group}/resourceslices", {"metadata": {"name": "n1"}, "spec": spec})
    wanted = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
    claim = {"metadata": {"name": "gpu"}, "spec": {"devices": wanted}}
    api.call("POST", f"{group}/namespaces/{NAMESPACE}/resourceclaims", claim)
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    bound(api, create_pod(api, "default", "100m", resourceClaims=claims), log)


def repeated_event(api: Api, pod: str) -> bool:
    path = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
    return any(item["regarding"].get("name") == pod and item.get("series") for item in api.call("GET", path)["items"])


def live_through_everything(api: Api, running: Running) -> None:
    """Everything that makes a scheduler use its rights."""
    log = running.log
    bound(api, create_pod(api, "default", "100m"), log)
    for profile in ("quotas", "tolerant", "numa", "calls", "network"):
        bound(api, create_pod(api, profile, "100m"), log)
    volumes(api, log)
    devices(api, log)
    low = create_pod(api, "default", "3", nodeName="n2", priority=None)
    eventually(lambda: is_bound(api, low), "a pod to preempt")
    body = {"metadata": {"name": "high"}, "value": 1000}
    api.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
    high = eventually(lambda: _of_class(api, "high"), "the API server's admission knows the class")
    eventually(lambda: is_going(api, low), "preempted")
    if api.get("pods", low):
        api.call("DELETE", api.path("pods", low) + "?gracePeriodSeconds=0")
    bound(api, high, log)
    huge = create_pod(api, "default", "100")
    rejected = "PodScheduled"
    eventually(
        lambda: any(c["type"] == rejected for c in (api.get("pods", huge)["status"].get("conditions") or [])),
        "rejected",
    )

    def again() -> bool:
        # A pod that goes lets the other be tried again, in vain: the Event becomes a series.
        api.delete("pods", create_pod(api, "default", "100m", nodeName="n1", terminationGracePeriodSeconds=0))
        return repeated_event(api, huge)

    eventually(again, "the Event of a pod that is rejected again")


def held() -> set[tuple[str, str, str]]:
    rules = [rule.to_dict() for rules in static_cluster_roles().values() for rule in rules]
    return {
        (group, resource, verb)
        for rule in (*rules, *operand.lease_rules(NAME))
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def requests(control_plane: LocalCluster) -> list[Request]:
    return list(requests_of(control_plane, f"system:serviceaccount:{NAMESPACE}:{NAME}"))


def test_prometheus_with_an_account_of_its_own_scrapes_under_the_shipped_roles(
    api: Api, running: Running, tmp_path: Path
) -> None:
    credential = token(api, SCRAPER)
    bind(api, METRICS_READER_CLUSTER_ROLE, SCRAPER)
    with scraping(tmp_path, f"127.0.0.1:{running.port}", credential) as prometheus:
        assert prometheus.wait_for("up == 1") == 1
        assert prometheus.wait_for('leader_election_master_status{name="scheduler"}') == 1


@pytest.fixture(scope="module")
def experienced(api: Api, running: Running) -> Running:
    """The daemon once it has used its rights."""
    live_through_everything(api, running)
    return running


@pytest.mark.skipif((minor_of(releases.chosen()) or 0) < 34, reason="resource.k8s.io/v1 is served from 1.34 on")
def test_nothing_is_refused_and_nothing_is_held_in_vain(
    api: Api, experienced: Running, control_plane: LocalCluster
) -> None:
    metrics = ("metrics.k8s.io", "nodes", "list")
    eventually(lambda: metrics in {request[:3] for request in requests(control_plane)}, "the metrics server read")
    seen = requests(control_plane)
    assert {request for request in seen if request.code == 403} == set()
    rules = "devicetaintrules"
    later = {right for right in HELD_FOR_LATER_SERVERS if right[1] != rules or (minor_of(releases.chosen()) or 0) < 37}
    assert held() - {request[:3] for request in seen} == HELD_FOR_DOUBT | later | HELD_FOR_GO_IMAGES


def gangs(api: Api, log: Path) -> None:
    """One that fits, and one that waits for a member."""
    group = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/podgroups"
    for name in ("whole", "short"):
        body = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}}
        api.call("POST", group, {**body, "spec": {"minMember": 2}})
    label = "scheduling.x-k8s.io/pod-group"
    for name in ("whole", "whole", "short"):
        pod = f"{name}-{next(_numbers)}"
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}
        spec = {"schedulerName": "default", "containers": [container], "tolerations": [{"operator": "Exists"}]}
        api.call("POST", api.path("pods"), {"metadata": {"name": pod, "labels": {label: name}}, "spec": spec})
    eventually(lambda: "gang is bound" in log.read_text(), "the gang is bound")


def troubles(api: Api) -> None:
    """A pod that waits for a device, a node with too much on it, and a pod that its kubelet rejects."""
    wanted = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 7}}]}
    path = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
    api.call("POST", path, {"metadata": {"name": "gpus"}, "spec": {"devices": wanted}})
    create_pod(api, "default", "100m", resourceClaims=[{"name": "gpus", "resourceClaimName": "gpus"}])
    rejected = [create_pod(api, "default", "3", nodeName="n1") for _ in range(2)][1]
    status = {"status": {"phase": "Failed", "reason": "OutOfcpu"}}
    api.call("PATCH", api.path("pods", rejected) + "/status", status, "application/merge-patch+json")


@pytest.mark.slow
def test_every_query_of_the_dashboard_has_series_in_a_live_scrape(
    api: Api, experienced: Running, tmp_path: Path
) -> None:
    credential = token(api, "grafana")
    bind(api, METRICS_READER_CLUSTER_ROLE, "grafana")
    labels = {"namespace": SCRAPED_NAMESPACE}
    with scraping(tmp_path, f"127.0.0.1:{experienced.port}", credential, labels=labels) as prometheus:
        prometheus.wait_for("up == 1")
        gangs(api, experienced.log)
        troubles(api)
        queries = dashboard_queries()
        missing: set[str] = set()

        def answered() -> bool:
            missing.clear()
            missing.update(name for name, query in queries.items() if prometheus.value(query) is None)
            return missing <= WITHOUT_SERIES_HERE.keys()

        with contextlib.suppress(AssertionError):
            eventually(answered, "series for every query")
    assert missing == WITHOUT_SERIES_HERE.keys(), sorted(missing)
