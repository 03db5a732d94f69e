"""The main job on a cluster of its own: `pulumi up` installs the secondary scheduler, it places pods by real load.

Covers install, outputs, placement, events, the metric source going away and coming back, no-op preview and destroy.
The tests of this module run in order and share one cluster: each looks at the outcome of the same installation.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster import environment, releases
from devcluster.cluster import LocalCluster
from devcluster.demo.gang import DemoGang
from devcluster.demo.moving import LoadMove
from devcluster.demo.pulumi import DemoStack
from devcluster.demo.workload import DEPLOYMENTS, POD_COUNT, TAINT, DemoWorkload
from devcluster.inventory import COLD, HOT, simulated_nodes
from devcluster.load_generator import LoadClient
from devcluster.spec import ClusterSpec
from scheduler.kube.primitives.quantity import quantity_milli_value, quantity_value
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e]

CHECKOUT = Path(__file__).resolve().parents[2]
NAMESPACE = "openshift-secondary-scheduler-operator"
SERVICE_ACCOUNT = f"system:serviceaccount:{NAMESPACE}:secondary-scheduler"
NODES = 20
DEFAULT_MINOR = releases.chosen() == releases.DEFAULT


class Installed:
    """A cluster with the stack up."""

    def __init__(self, cluster: LocalCluster, stack: DemoStack, before: set[str]) -> None:
        self.cluster = cluster
        self.before = before
        self.stack = stack
        self.outputs = stack.outputs()
        self.api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
        self.core = kubernetes.CoreV1Api(self.api)
        self.apps = kubernetes.AppsV1Api(self.api)
        self.custom = kubernetes.CustomObjectsApi(self.api)

    def condition(self, kind: str) -> dict[str, Any]:
        """A condition of the SecondaryScheduler `cluster`."""
        resource = self.custom.get_namespaced_custom_object(
            "operator.openshift.io", "v1", NAMESPACE, "secondaryschedulers", "cluster"
        )
        conditions = resource.get("status", {}).get("conditions", [])
        condition: dict[str, Any] = next((each for each in conditions if each["type"] == kind), {})
        return condition

    def scheduler_pod(self) -> Any:
        """The running pod of the scheduler."""
        return self.core.list_namespaced_pod(NAMESPACE, label_selector="app=secondary-scheduler").items[0]

    def service_pid(self, name: str) -> int:
        """The process of a service of the local cluster."""
        return next(service.pid for service in self.cluster.status().services if service.name == name)


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path) -> Iterator[LocalCluster]:
    with LocalCluster(ClusterSpec(name="main-job", nodes=NODES, state_root=cluster_state_root)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def installed(cluster: LocalCluster) -> Installed:
    variables = {**os.environ, **environment.variables(cluster.layout, cluster.prometheus_url, os.environ)}
    stack = DemoStack(CHECKOUT, "local", variables)
    stack_file = CHECKOUT / "stacks" / "Pulumi.local.yaml"
    committed = stack_file.read_bytes()
    before = cluster_scoped(kubernetes_config.new_client_from_config(str(cluster.kubeconfig)))
    stack.select()
    stack.preview()
    stack.up()
    assert stack_file.read_bytes() == committed
    return Installed(cluster, stack, before)


def cluster_scoped(api: kubernetes.ApiClient) -> set[str]:
    """What an installation makes outside its namespace, and the namespaces."""
    rbac, core = kubernetes.RbacAuthorizationV1Api(api), kubernetes.CoreV1Api(api)
    crds = kubernetes.ApiextensionsV1Api(api).list_custom_resource_definition()
    lists = (rbac.list_cluster_role(), rbac.list_cluster_role_binding(), core.list_namespace(), crds)
    return {f"{type(item).__name__}/{item.metadata.name}" for objects in lists for item in objects.items}


@pytest.fixture(scope="module")
def placed(installed: Installed) -> Counter[str]:
    workload = DemoWorkload(installed.api, "demo", "secondary-scheduler")
    workload.create()
    workload.wait_bound(60)
    return workload.pods_per_node()


def test_a_gang_that_requires_a_rack_lands_in_one(installed: Installed, placed: Counter[str]) -> None:
    gang = DemoGang(installed.api, "demo-gang", "secondary-scheduler")
    gang.create()
    gang.wait_bound(60)
    racks = {node.name: node.rack for node in simulated_nodes(NODES)}
    assert len({racks[name] for name in gang.pods_per_node()}) == 1
    installed.core.delete_namespace("demo-gang")


def single_pod(installed: Installed, name: str) -> float:
    """Create one pod for our scheduler; returns the seconds until it has a node."""
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
    spec = {
        "schedulerName": "secondary-scheduler",
        "nodeSelector": {"type": "kwok"},
        "tolerations": [TAINT],
        "containers": [container],
    }
    started = time.monotonic()
    installed.core.create_namespaced_pod("default", {"metadata": {"name": name}, "spec": spec})
    eventually(lambda: installed.core.read_namespaced_pod(name, "default").spec.node_name is not None, f"{name} bound")
    return time.monotonic() - started


def test_outputs_report_the_deployment_and_its_profile(installed: Installed) -> None:
    scheduler, profile = installed.outputs["scheduler"], installed.outputs["profile"]
    assert scheduler["name"] == "secondary-scheduler"
    assert scheduler["namespace"] == NAMESPACE
    assert scheduler["readyReplicas"] == 1
    assert scheduler["image"].startswith("localhost/secondary-scheduler/kube-scheduler")
    assert profile["schedulerName"] == "secondary-scheduler"
    assert profile["scorePlugins"]["TargetLoadPacking"] >= 1
    assert profile["configurationHash"]
    assert scheduler["schedulerNames"] == ["secondary-scheduler"]
    health = installed.outputs["health"]
    assert health["conditions"]["Available"] == "True"
    assert health["lastRollout"]["outcome"] == "Succeeded"
    assert health["lastRollout"]["configurationHash"] == profile["configurationHash"]
    assert health["LoadDataFresh"] in ("True", "False", "Unknown")


def test_the_running_scheduler_has_the_configuration_that_was_previewed(installed: Installed) -> None:
    lease = kubernetes.CoordinationV1Api(installed.api).read_namespaced_lease("secondary-scheduler", NAMESPACE)
    reported = lease.metadata.annotations["secondary-scheduler.io/configuration-hash"]
    assert reported == installed.outputs["profile"]["configurationHash"]
    assert installed.condition("Available")["status"] == "True"


def test_the_deployment_runs_restricted_on_a_real_node(installed: Installed) -> None:
    pod = installed.scheduler_pod()
    assert pod.spec.node_name == "real-0"
    container = pod.spec.containers[0]
    assert container.command == ["/bin/kube-scheduler"]
    assert container.security_context.read_only_root_filesystem
    assert pod.spec.security_context.run_as_non_root


def test_every_pod_is_bound_once_by_us(installed: Installed, placed: Counter[str]) -> None:
    assert sum(placed.values()) == POD_COUNT
    bindings: Counter[str] = Counter()
    users: set[str] = set()
    for line in installed.cluster.audit_log.read_text().splitlines():
        entry = json.loads(line)
        reference = entry.get("objectRef", {})
        if reference.get("subresource") == "binding" and reference.get("namespace") == "demo":
            assert entry["responseStatus"]["code"] == 201
            bindings[reference["name"]] += 1
            users.add(entry["user"]["username"])
    assert len(bindings) == POD_COUNT
    assert set(bindings.values()) == {1}
    assert users == {SERVICE_ACCOUNT}


def test_no_node_has_more_than_fits(installed: Installed, placed: Counter[str]) -> None:
    used_cpu: Counter[str] = Counter()
    used_memory: Counter[str] = Counter()
    for pod in installed.core.list_namespaced_pod("demo").items:
        requests_ = pod.spec.containers[0].resources.requests
        used_cpu[pod.spec.node_name] += quantity_milli_value(requests_["cpu"])
        used_memory[pod.spec.node_name] += quantity_value(requests_["memory"])
    nodes = {node.metadata.name: node for node in installed.core.list_node().items}
    for name in placed:
        assert nodes[name].metadata.labels["type"] == "kwok"
        assert used_cpu[name] <= quantity_milli_value(nodes[name].status.allocatable["cpu"])
        assert used_memory[name] <= quantity_value(nodes[name].status.allocatable["memory"])


def test_no_hot_node_got_a_pod_while_others_had_room(installed: Installed, placed: Counter[str]) -> None:
    hot = {node.name for node in simulated_nodes(NODES) if node.profile == HOT}
    room = sum(node.size.cpus * 1000 for node in simulated_nodes(NODES) if node.name not in hot)
    requested = sum(part.replicas * quantity_milli_value(part.cpu) for part in DEPLOYMENTS)
    assert requested < room, "the workload must fit outside the hot nodes, or the test says nothing"
    assert sum(placed[name] for name in hot) == 0


def test_describe_pod_says_who_placed_it(installed: Installed, placed: Counter[str]) -> None:
    eventually(lambda: len(scheduled_events(installed)) == POD_COUNT, "one Scheduled event per pod")
    for event in scheduled_events(installed):
        pod = installed.core.read_namespaced_pod(event.involved_object.name, "demo")
        assert event.message == f"Successfully assigned demo/{pod.metadata.name} to {pod.spec.node_name}"
        assert event.reporting_component == "secondary-scheduler"


def scheduled_events(installed: Installed) -> list[Any]:
    events: list[Any] = installed.core.list_namespaced_event("demo", field_selector="reason=Scheduled").items
    return events


def test_a_pod_that_fits_nowhere_says_why(installed: Installed) -> None:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "900"}}}
    spec = {"schedulerName": "secondary-scheduler", "containers": [container]}
    installed.core.create_namespaced_pod("default", {"metadata": {"name": "giant"}, "spec": spec})

    def message() -> str:
        conditions = installed.core.read_namespaced_pod("giant", "default").status.conditions or []
        return next((each.message or "" for each in conditions if each.type == "PodScheduled"), "")

    eventually(lambda: message() != "", "a reason in the pod's status")
    assert message().startswith(f"0/{NODES + 1} nodes are available: ")
    assert "Insufficient cpu" in message()
    installed.core.delete_namespaced_pod("giant", "default")


def kubeconfig_of(installed: Installed, directory: Path, account: str, **user: Any) -> Path:
    """A kubeconfig with this user, or with a token of a new ServiceAccount in namespace default."""
    installed.core.create_namespaced_service_account("default", {"metadata": {"name": account}})
    request = {"spec": {"expirationSeconds": 3600}}
    token = installed.core.create_namespaced_service_account_token(account, "default", request).status.token
    document = yaml.safe_load(installed.cluster.kubeconfig.read_text())
    if "exec" in user:
        answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}}
        (directory / "answer.json").write_text(json.dumps(answer))
    document["users"][0]["user"] = user or {"token": token}
    file = directory / account
    file.write_text(yaml.safe_dump(document))
    file.chmod(0o600)
    return file


def allow(installed: Installed, account: str, namespace: str, *rules: dict[str, Any]) -> None:
    """Give a ServiceAccount rights in a namespace."""
    rbac = kubernetes.RbacAuthorizationV1Api(installed.api)
    rbac.create_namespaced_role(namespace, {"metadata": {"name": account}, "rules": list(rules)})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
    rbac.create_namespaced_role_binding(
        namespace, {"metadata": {"name": account}, "roleRef": role, "subjects": [subject]}
    )


ASKING = (
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get", "create"]},
)
READING_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


def explain(kubeconfig: Path, pod: str, *more: str) -> subprocess.CompletedProcess[str]:
    return run_explain(kubeconfig, "pod", pod, "-n", "default", *more)


def run_explain(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "secondary_scheduler.cli", "explain", *arguments]
    return subprocess.run(
        [*command, "--kubeconfig", str(kubeconfig)], capture_output=True, text=True, check=False, timeout=120
    )


def answer_about(kubeconfig: Path, pod: str) -> Any:
    """What `explain` answers as JSON; None where it fails."""
    done = explain(kubeconfig, pod, "-o", "json")
    return json.loads(done.stdout) if done.returncode == 0 else None


def explained_pod(installed: Installed, kubeconfig: Path) -> str:
    """Create pods until the decision about one has its details: while the share of the processor's time that they may
    take is used up, decisions have none."""
    numbers = itertools.count()

    def detailed() -> str | None:
        name = f"explained-{next(numbers)}"
        single_pod(installed, name)
        answered = eventually(lambda: answer_about(kubeconfig, name), name)
        return name if answered["items"][0]["details"] else None

    return eventually(detailed, "a decision has its details", interval=1.0)


def test_explain_says_why_a_pod_is_there_to_whoever_may_read_it_with_every_kind_of_login(
    installed: Installed, tmp_path: Path
) -> None:
    program = {"command": "/bin/cat", "args": [str(tmp_path / "answer.json")], "interactiveMode": "Never"}
    execution = {"apiVersion": "client.authentication.k8s.io/v1", **program}
    logins = {
        "a token": kubeconfig_of(installed, tmp_path, "viewer"),
        "a program": kubeconfig_of(installed, tmp_path, "viewer-by-program", exec=execution),
    }
    for account in ("viewer", "viewer-by-program"):
        allow(installed, account, NAMESPACE, *ASKING)
        allow(installed, account, "default", READING_PODS)
    pod = explained_pod(installed, logins["a token"])
    node = installed.core.read_namespaced_pod(pod, "default").spec.node_name
    for login, kubeconfig in logins.items():
        # Rights reach the API server's authorizer a moment after they were created.
        answered = eventually(lambda file=kubeconfig: answer_about(file, pod), login)
        decision = answered["items"][0]
        assert (decision["node"], decision["result"]) == (node, "scheduled")
        (chosen,) = [scored for scored in decision["details"]["nodes"] if scored["chosen"]]
        assert chosen["scores"]["TargetLoadPacking"]["weighted"] >= 0
        assert next(iter(chosen["load"].values()))["cpu"] is not None
    shown = explain(logins["a token"], pod)
    assert shown.stdout.startswith(f"default/{pod}: scheduled on {node} (attempt 1")
    assert "TargetLoadPacking" in shown.stdout
    why_not = explain(logins["a token"], pod, "--why-not", "real-0")
    assert f"Why not real-0 (judged as it is now, and without the pod's own use on {node}):" in why_not.stdout
    assert "NodeAffinity rejects it" in why_not.stdout
    queue = run_explain(logins["a token"], "queue", "-n", "default")
    assert (queue.returncode, queue.stdout.splitlines()[0].partition(":")[0]) == (0, "active")
    assert "list pods in namespace demo" in run_explain(logins["a token"], "queue", "-n", "demo").stderr
    assert f"get the node {node}" in run_explain(logins["a token"], "node", node).stderr
    by_certificate = explain(installed.cluster.kubeconfig, pod)
    assert (by_certificate.returncode, len(by_certificate.stderr.splitlines())) == (1, 1)
    assert "use a user with a token" in by_certificate.stderr


def test_explain_tells_nobody_else_and_says_which_right_is_missing(installed: Installed, tmp_path: Path) -> None:
    single_pod(installed, "explained")
    stranger = kubeconfig_of(installed, tmp_path, "stranger")
    assert "leases" in explain(stranger, "explained").stderr
    allow(installed, "stranger", NAMESPACE, ASKING[0])
    refused = eventually(lambda: (run := explain(stranger, "explained")) and "portforward" in run.stderr and run)
    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (1, "", 1)
    tenant = kubeconfig_of(installed, tmp_path, "tenant")
    allow(installed, "tenant", NAMESPACE, *ASKING)
    foreign = eventually(lambda: (run := explain(tenant, "explained")) and "get pods" in run.stderr and run)
    assert (foreign.returncode, foreign.stdout, len(foreign.stderr.splitlines())) == (1, "", 1)
    allow(installed, "tenant", "default", READING_PODS)
    unknown = eventually(lambda: (run := explain(tenant, "never-seen")) and "no such pod" in run.stderr and run)
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "default/never-seen: there is no such pod" in unknown.stderr


def allow_everywhere(installed: Installed, account: str, *rules: dict[str, Any]) -> None:
    """Give a ServiceAccount rights in the whole cluster."""
    rbac = kubernetes.RbacAuthorizationV1Api(installed.api)
    rbac.create_cluster_role({"metadata": {"name": account}, "rules": list(rules)})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account}
    rbac.create_cluster_role_binding({"metadata": {"name": account}, "roleRef": role, "subjects": [subject]})


@contextlib.contextmanager
def looking_account(installed: Installed, directory: Path, account: str, *everywhere: dict[str, Any]) -> Iterator[Path]:
    """The kubeconfig of an account that may see the scheduler's namespace, and has these rights in the cluster."""
    kubeconfig = kubeconfig_of(installed, directory, account)
    allow(installed, account, NAMESPACE, *ASKING, *SEEING)
    allow_everywhere(installed, account, *everywhere)
    try:
        yield kubeconfig
    finally:
        # The installation's own objects are compared when it is removed.
        rbac = kubernetes.RbacAuthorizationV1Api(installed.api)
        rbac.delete_cluster_role_binding(account)
        rbac.delete_cluster_role(account)


SEEING = (
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
)
LISTING = (
    {"apiGroups": ["operator.openshift.io"], "resources": ["secondaryschedulers"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]},
)
GETTING_NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
OBSERVING = {"nonResourceURLs": ["/metrics", "/debug/decisions"], "verbs": ["get"]}


def ask(kubeconfig: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command that only reads."""
    command = [sys.executable, "-m", "secondary_scheduler.cli", *words, "--kubeconfig", str(kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def complete(kubeconfig: Path, *words: str) -> Any:
    """The document that a command answers with; None while something is not shown, as rights come a moment late."""
    done = ask(kubeconfig, *words, "-o", "json")
    content = json.loads(done.stdout) if done.stdout.startswith("{") else {"notShown": ["it failed"]}
    return None if content["notShown"] else content


def test_status_shows_a_healthy_installation_with_what_only_its_scheduler_knows(
    installed: Installed, tmp_path: Path
) -> None:
    single_pod(installed, "attempted")
    with looking_account(installed, tmp_path, "on-call", *LISTING, OBSERVING) as kubeconfig:
        # On other versions than the tested one it says so, and before 1.34 that kinds are not served.
        usual = set() if DEFAULT_MINOR else {"versions", "resources"}

        def well() -> Any:
            seen = complete(kubeconfig, "status")
            problems = (
                {problem["subject"] for each in seen["instances"] for problem in each["problems"]} if seen else ()
            )
            return seen if seen and seen["instances"] and usual.issuperset(problems) else None

        (instance,) = eventually(well, "all is shown and well")["instances"]
        assert (instance["namespace"], instance["name"]) == (NAMESPACE, "cluster")
        expected = installed.outputs["profile"]["configurationHash"]
        assert instance["configuration"] == {"wanted": expected, "running": expected}
        assert instance["leader"]["pod"] == installed.scheduler_pod().metadata.name
        assert instance["profiles"][0]["score"][0] == {"name": "TargetLoadPacking", "weight": 10}
        assert instance["queue"].keys() == {"active", "backoff", "unschedulable", "gated"}
        assert instance["attempts"]["sinceStart"]["scheduled"] >= 1
        assert instance["attempts"]["last"]["results"]["scheduled"] >= 1
        (source,) = instance["loadSources"]
        assert (source["fresh"], source["nodes"]["fresh"]) == (True, NODES + 1)
        if DEFAULT_MINOR:
            shown = ask(kubeconfig, "status")
            assert (shown.returncode, shown.stderr) == (0, "")
            assert instance["versions"]["incompatibilities"] == []
            assert f"{NAMESPACE}/cluster: ok\n" in shown.stdout


def test_status_without_rights_shows_the_rest_and_names_them(installed: Installed, tmp_path: Path) -> None:
    with looking_account(installed, tmp_path, "on-call-without-metrics", *LISTING) as kubeconfig:

        def lines() -> list[str]:
            done = ask(kubeconfig, "status")
            return [line for line in done.stdout.splitlines() if line.startswith("Not shown: ")]

        missing = eventually(lambda: len(shown := lines()) == 2 and shown, "the rights of the roles have come")
        assert "get on the path /metrics" in missing[0]
        assert "get on the path /debug/decisions" in missing[1]
    by_certificate = ask(installed.cluster.kubeconfig, "status")
    assert by_certificate.returncode == 0
    assert f"{installed.outputs['profile']['configurationHash']} runs, as wanted" in by_certificate.stdout
    assert "use a user with a token" in by_certificate.stdout
    stranger = kubeconfig_of(installed, tmp_path, "status-stranger")
    refused = ask(stranger, "status")
    assert refused.returncode == 1
    assert "this user lacks the rights" in refused.stderr


def test_top_nodes_shows_load_requests_and_pods_as_scheduler_and_cluster_have_them(
    installed: Installed, placed: Counter[str], tmp_path: Path
) -> None:
    with looking_account(installed, tmp_path, "top", *LISTING, GETTING_NODES) as kubeconfig:
        content = eventually(lambda: complete(kubeconfig, "top", "nodes"), "all is shown")
        items = {item["name"]: item for item in content["items"]}
        assert len(items) == NODES + 1
        assert all(item["load"][0]["fresh"] for item in items.values())
        order = [item["load"][0]["estimated"]["cpu"] for item in content["items"]]
        assert order == sorted(order, reverse=True)
        hot = {node.name for node in simulated_nodes(NODES) if node.profile == HOT}
        assert {item["name"] for item in content["items"][: len(hot)]} == hot
        requested: Counter[str] = Counter()
        for pod in installed.core.list_pod_for_all_namespaces(field_selector="status.phase!=Succeeded").items:
            if pod.spec.node_name:
                requests_ = (each.resources.requests or {} for each in pod.spec.containers)
                requested[pod.spec.node_name] += sum(quantity_milli_value(each.get("cpu", "0")) for each in requests_)
        assert {name: item["requested"]["cpuMilli"] for name, item in items.items()} == {
            name: requested[name] for name in items
        }
        node = max(placed, key=lambda name: placed[name])
        assert items[node]["pods"]["byScheduler"]["secondary-scheduler"] >= placed[node]
        selected = ask(kubeconfig, "top", "nodes", "-l", "type=kwok", "--sort-by", "name")
        assert [line.split()[0] for line in selected.stdout.splitlines()[1:]] == sorted(items.keys() - {"real-0"})
    with looking_account(installed, tmp_path, "top-without-load", *LISTING) as kubeconfig:
        shown = eventually(
            lambda: (done := ask(kubeconfig, "top", "nodes")).returncode == 0 and "get nodes" in done.stdout and done
        )
        assert len([line for line in shown.stdout.splitlines() if line.startswith("Not shown: ")]) == 1


def bundle(kubeconfig: Path, file: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "secondary_scheduler.cli", "bundle", "--file", str(file), *more]
    return subprocess.run(
        [*command, "--kubeconfig", str(kubeconfig)], capture_output=True, text=True, check=False, timeout=280
    )


def members_of(file: Path) -> dict[str, str]:
    """The files of an archive, without the folder that all of them are in."""
    with tarfile.open(file) as archive:
        contents = {entry.name.partition("/")[2]: archive.extractfile(entry) for entry in archive.getmembers()}
        return {name: content.read().decode() for name, content in contents.items() if content is not None}


def test_an_administrator_s_bundle_has_every_part_and_no_secret(installed: Installed, tmp_path: Path) -> None:
    single_pod(installed, "bundled")
    admin = kubeconfig_of(installed, tmp_path, "bundling-admin")
    subject = {"kind": "ServiceAccount", "name": "bundling-admin", "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    rbac = kubernetes.RbacAuthorizationV1Api(installed.api)
    rbac.create_cluster_role_binding({"metadata": {"name": "bundling"}, "roleRef": role, "subjects": [subject]})
    file = tmp_path / "bundle.tar.gz"
    try:
        # Rights reach the API server's authorizer a moment after they were created; the scheduler remembers a refusal.
        eventually(
            lambda: (
                bundle(admin, file).returncode == 0 and members_of(file)["problems.txt"] == "Everything was read.\n"
            ),
            "a complete bundle",
        )
    finally:
        rbac.delete_cluster_role_binding("bundling")
    assert file.stat().st_mode & 0o777 == 0o600
    members, pod = members_of(file), installed.scheduler_pod().metadata.name
    (instance,) = yaml.safe_load(members["status.yaml"])["instances"]
    assert instance["conditions"]
    assert instance["attempts"]["last"]["count"]
    assert "TargetLoadPacking" in members["configurations/running/secondary-scheduler.yaml"]
    decided = json.loads(members[f"explain/{pod}/decisions.json"])["items"]
    assert "default/bundled" in [item["pod"] for item in decided]
    assert json.loads(members[f"explain/{pod}/queue.json"])["kind"] == "QueueReport"
    assert members[f"logs/{pod}/secondary-scheduler.log"]
    everything = "\n".join(members.values())
    for secret in (installed.cluster.prometheus_token_file, admin):
        text = secret.read_text().strip()
        token = text if secret != admin else yaml.safe_load(text)["users"][0]["user"]["token"]
        for form in (token, base64.b64encode(token.encode()).decode()):
            assert form not in everything
    assert "kind: Secret" not in everything
    assert "managedFields" not in everything


def test_whoever_may_only_view_gets_a_bundle_that_says_what_is_missing(installed: Installed, tmp_path: Path) -> None:
    viewer = kubeconfig_of(installed, tmp_path, "bundling-viewer")
    subject = {"kind": "ServiceAccount", "name": "bundling-viewer", "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    kubernetes.RbacAuthorizationV1Api(installed.api).create_namespaced_role_binding(
        NAMESPACE, {"metadata": {"name": "bundling"}, "roleRef": role, "subjects": [subject]}
    )
    file, pod = tmp_path / "bundle.tar.gz", installed.scheduler_pod().metadata.name
    eventually(
        lambda: bundle(viewer, file).returncode == 0 and f"logs/{pod}/secondary-scheduler.log" in members_of(file),
        "a bundle with what view grants",
    )
    members = members_of(file)
    place = f"in namespace {NAMESPACE}"
    assert members["problems.txt"].splitlines() == [
        f"status: SecondarySchedulers: this user needs to list secondaryschedulers {place}",
        f"status: leaders and what they report: this user needs to list leases {place}",
        "explain: none of our schedulers is seen to lead here, so that none was asked",
    ]
    assert {"status.yaml", "versions.yaml", "events.yaml"} <= set(members)
    assert [name for name in members if name.startswith("configurations/running/")]
    assert not [name for name in members if name.startswith(("explain/", "configurations/wanted/"))]


def test_a_pod_is_bound_within_two_seconds(installed: Installed) -> None:
    assert single_pod(installed, "quick") < 2


def test_right_after_up_there_is_nothing_to_change(installed: Installed) -> None:
    installed.stack.preview(expect_no_changes=True)


@pytest.mark.slow
def test_a_preview_tells_in_words_what_a_change_would_do_and_is_no_change_itself(
    installed: Installed, tmp_path: Path
) -> None:
    changed = tmp_path / "Pulumi.changed.yaml"
    committed = (CHECKOUT / "stacks" / "Pulumi.local.yaml").read_text()
    changed.write_text(committed.replace("weight: 10\n", "weight: 11\n"))
    variables = {
        **os.environ,
        **environment.variables(installed.cluster.layout, installed.cluster.prometheus_url, os.environ),
    }
    heading, change = "the scheduler's behaviour changes:", "TargetLoadPacking weight 10 -> 11"
    for options, expected in ((["--config-file", str(changed)], True), ([], False)):
        command = ["pulumi", "preview", "--stack", "local", *options, "--non-interactive", "--color=never"]
        done = subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, check=True)
        assert (heading in done.stdout, change in done.stdout) == (expected, expected)
    installed.stack.preview(expect_no_changes=True)


def test_when_the_load_moves_placements_follow(installed: Installed) -> None:
    hot = next(node for node in simulated_nodes(NODES) if node.profile == HOT)
    cold = next(node for node in simulated_nodes(NODES) if node.profile == COLD and node.size == hot.size)
    loads = LoadClient(installed.cluster.load_generator_url)
    before = {name: load["cpu"] for name, load in loads.nodes().items()}
    followed = LoadMove(installed.core, loads, "secondary-scheduler", "default").watch(hot.name, cold.name, 300)
    assert (followed.before, followed.after) == (cold.name, hot.name)
    assert {name: load["cpu"] for name, load in loads.nodes().items()} == before, "put back for the tests that follow"


def test_without_the_metric_source_pods_are_still_placed_and_the_outage_is_reported(installed: Installed) -> None:
    gateway = installed.service_pid("prometheus-gateway")
    os.kill(gateway, signal.SIGSTOP)
    try:
        eventually(
            lambda: installed.condition("LoadDataFresh").get("status") == "False", "LoadDataFresh=False on the CR"
        )
        assert installed.condition("LoadDataFresh")["message"]
        stale = ask(installed.cluster.kubeconfig, "status")
        assert stale.returncode == 1
        assert f"{NAMESPACE}/cluster: FAILED\n  failed         LoadDataFresh for " in stale.stdout
        assert installed.condition("Available")["status"] == "True"
        assert single_pod(installed, "without-load") < 5
        address = installed.scheduler_pod().status.pod_ip
        with pytest.warns(match="Unverified HTTPS request"):
            assert requests.get(f"https://{address}:10259/readyz", verify=False, timeout=5).text == "ok"
    finally:
        os.kill(gateway, signal.SIGCONT)
    eventually(lambda: installed.condition("LoadDataFresh").get("status") == "True", "LoadDataFresh=True again")


def test_no_credential_is_stored_in_clear(installed: Installed) -> None:
    token = installed.cluster.prometheus_token_file.read_text().strip()
    state = "".join(
        path.read_text(errors="replace")
        for path in (installed.cluster.state_dir / "pulumi" / "backend").rglob("*.json*")
    )
    assert "secondary-scheduler" in state
    assert token not in state
    for config_map in installed.core.list_namespaced_config_map(NAMESPACE).items:
        assert token not in json.dumps(config_map.data or {})
    assert token not in json.dumps(installed.outputs)


def test_destroy_leaves_neither_objects_nor_processes(installed: Installed) -> None:
    address = installed.scheduler_pod().status.pod_ip
    installed.stack.destroy()
    left = cluster_scoped(installed.api) - installed.before
    assert left <= {"V1Namespace/demo"}, "only what the tests themselves made is left"
    with pytest.raises(requests.ConnectionError):
        requests.get(f"https://{address}:10259/livez", verify=False, timeout=5)
