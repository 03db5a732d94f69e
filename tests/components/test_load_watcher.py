"""A load-watcher for an image that can read no Secret: what the installation registers, and who gets the token."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
import yaml

import components
from scheduler import __version__
from tests.components.graph import STATUS, Graph, Registered, register
from tests.components.installations import installation_graph, object_named, pod_spec_of

GO_IMAGE = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7"
OUR_IMAGE = f"localhost/secondary-scheduler/operator:{__version__}"
NAME = "secondary-scheduler-load-watcher"
TOKEN = "canary-token-31415926"
SOURCE: dict[str, Any] = {
    "type": "Prometheus", "address": "https://prometheus.monitoring:9090", "loadWatcher": {"image": OUR_IMAGE},
}  # fmt: skip


def installed(token: str = TOKEN, source: dict[str, Any] = SOURCE, **options: Any) -> Graph:
    return installation_graph(
        token, **{"image": GO_IMAGE, "operator_image": OUR_IMAGE, "settings": {"metricProvider": source}, **options}
    )


@pytest.fixture(scope="module")
def graph() -> Graph:
    return installed()


def named(graph: Graph, kind: str, name: str = NAME) -> Registered:
    return object_named(graph, kind, name)


def pod_of(graph: Graph) -> dict[str, Any]:
    return pod_spec_of(graph, NAME)


def test_the_token_is_in_a_secret_that_only_the_load_watcher_mounts(graph: Graph) -> None:
    (secret,) = graph.of("Secret")
    assert secret.manifest["stringData"] == {"token": TOKEN}
    holders = [each for each in graph.objects if TOKEN in str(each.manifest)]
    assert holders == [secret]
    mounting = [each for each in graph.objects if secret.object_name in str(each.manifest.get("spec"))]
    assert mounting == [named(graph, "Deployment")]
    (scheduler,) = graph.of("SecondaryScheduler")
    assert "metricCredentials" not in scheduler.manifest["spec"]
    assert "allowTokenInConfigMap" not in scheduler.manifest["spec"]


def test_the_scheduler_starts_when_the_load_watcher_has_read_a_load(graph: Graph) -> None:
    (scheduler,) = graph.of("SecondaryScheduler")
    assert named(graph, "Deployment").urn in scheduler.dependencies
    (container,) = pod_of(graph)["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_only_the_schedulers_pods_reach_it_and_it_reaches_only_dns_and_its_source() -> None:
    graph = installed(egress_ports=[8080])
    policy = named(graph, "NetworkPolicy").manifest["spec"]
    assert policy["podSelector"] == {"matchLabels": {"app": NAME}}
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    (rule,) = policy["ingress"]
    clients = ["secondary-scheduler", "secondary-scheduler-canary"]
    (peer,) = rule["from"]
    assert peer == {"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": clients}]}}
    assert rule["ports"] == [{"protocol": "TCP", "port": 2020}]
    ports = {(each["protocol"], each["port"]) for rule in policy["egress"] for each in rule["ports"]}
    dns = {(protocol, port) for protocol in ("UDP", "TCP") for port in (53, 5353)}
    assert ports == dns | {("TCP", 9090), ("TCP", 8080)}


def test_the_policy_stays_where_the_optional_ones_are_left_out() -> None:
    graph = installed(objects=components.OptionalObjects(network_policy=False))
    assert [each.object_name for each in graph.of("NetworkPolicy")] == [NAME]


def test_it_has_no_rights_and_runs_restricted(graph: Graph) -> None:
    pod = pod_of(graph)
    account = named(graph, "ServiceAccount")
    assert account.manifest["automountServiceAccountToken"] is False
    assert pod["serviceAccountName"] == NAME
    assert pod["automountServiceAccountToken"] is False
    assert not [each for each in graph.objects if "Binding" in each.type and NAME in str(each.manifest)]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert container["resources"]["limits"] == {"memory": "512Mi"}
    assert container["command"] == ["/bin/load-watcher"]
    assert "--serve-unauthenticated" in container["args"]


def test_its_configuration_names_the_source_and_the_schedulers_names_it(graph: Graph) -> None:
    texts = {
        each.object_name: yaml.safe_load(each.manifest["data"]["config.yaml"])
        for each in graph.of("ConfigMap")
        if "config.yaml" in each.manifest.get("data", {})
    }
    (own,) = [name for name in texts if name.startswith(NAME)]
    volumes = {each["name"]: each for each in pod_of(graph)["volumes"]}
    assert volumes["etckubernetes"]["configMap"]["name"] == own
    (source,) = [
        entry["args"]["metricProvider"]
        for entry in texts[own]["profiles"][0]["pluginConfig"]
        if entry["name"] == "TargetLoadPacking"
    ]
    assert source == {"type": "Prometheus", "address": "https://prometheus.monitoring:9090"}
    (scheduler,) = [text for name, text in texts.items() if name != own]
    (entry,) = scheduler["profiles"][0]["pluginConfig"]
    assert entry["args"] == {"watcherAddress": f"http://{NAME}:2020"}
    (port,) = named(graph, "Service").manifest["spec"]["ports"]
    assert port["port"] == 2020
    assert named(graph, "Service").manifest["spec"]["selector"] == {"app": NAME}


def test_its_own_token_is_mounted_only_where_it_is_the_credential() -> None:
    own = {**SOURCE, "credentials": {"serviceAccount": {"clusterRole": "cluster-monitoring-view"}}}
    graph = installed("", own)
    assert pod_of(graph)["automountServiceAccountToken"] is True
    bindings = [each.manifest for each in graph.of("ClusterRoleBinding") if NAME in str(each.manifest)]
    assert [each["roleRef"]["name"] for each in bindings] == ["cluster-monitoring-view"]
    arguments = " ".join(pod_of(graph)["containers"][0]["args"])
    assert "--metric-credentials-address=https://prometheus.monitoring:9090" in arguments
    assert "--metric-service-account-token=/var/run/secrets/kubernetes.io/serviceaccount/token" in arguments


def test_an_audience_gives_a_token_that_the_api_server_does_not_accept() -> None:
    own = {**SOURCE, "credentials": {"serviceAccount": {"audience": "prometheus"}}}
    pod = pod_of(installed("", own))
    assert pod["automountServiceAccountToken"] is False
    (projected,) = [each["projected"] for each in pod["volumes"] if "projected" in each]
    assert projected["sources"][0]["serviceAccountToken"]["audience"] == "prometheus"


@pytest.mark.parametrize("mode", ["manifests", "direct", "none"])
def test_every_install_mode_has_it(mode: str) -> None:
    graph = installed(mode=mode)
    assert pod_of(graph)["containers"][0]["image"] == OUR_IMAGE
    if mode == "direct":
        (scheduler,) = [each for each in graph.of("Deployment") if each.object_name == "secondary-scheduler"]
        assert "metric-credentials" not in str(scheduler.manifest)
        policy = named(graph, "NetworkPolicy", "secondary-scheduler").manifest["spec"]
        assert 2020 in [port["port"] for rule in policy["egress"] for port in rule["ports"]]


@pytest.mark.parametrize("mode", ["none", "olm"])
def test_it_serves_the_scheduler_of_upstreams_operator(mode: str) -> None:
    def program() -> None:
        cluster = components.ClusterProvider("cluster", cluster_identifier="mine")
        adopting = cluster.adopting("adopting")
        source = components.OlmSource("secondary-scheduler-operator", "stable", "redhat-operators", "marketplace")
        args = components.SchedulerInstallationArgs(
            image=GO_IMAGE,
            mode=mode,
            upstream_operator=True,
            olm=source if mode == "olm" else None,
            adopting=adopting,
            settings={"metricProvider": SOURCE},
            metric_access=components.MetricAccess(pulumi.Output.secret(TOKEN)),
        )
        components.SchedulerInstallation("mine", args)

    graph = register(program, config={}, preview=True, statuses=STATUS)
    assert pod_of(graph)["containers"][0]["image"] == OUR_IMAGE
    (secret,) = graph.of("Secret")
    assert [each for each in graph.objects if TOKEN in str(each.manifest)] == [secret]
    (scheduler,) = graph.of("SecondaryScheduler")
    assert named(graph, "Deployment").urn in scheduler.dependencies
    configuration = scheduler.manifest["spec"]["schedulerConfig"]
    (content,) = [
        each.manifest["data"]["config.yaml"] for each in graph.of("ConfigMap") if each.object_name == configuration
    ]
    assert f"watcherAddress: http://{NAME}:2020" in content


def test_a_second_installation_in_a_namespace_has_one_of_its_own() -> None:
    graph = installed(resource_name="batch", mode="none")
    name = "secondary-scheduler-batch-load-watcher"
    named(graph, "Deployment", name)
    configuration = next(
        each.manifest["data"]["config.yaml"]
        for each in graph.of("ConfigMap")
        if each.object_name.startswith("secondary-scheduler-batch-config-")
    )
    assert f"watcherAddress: http://{name}:2020" in configuration


def test_our_own_image_is_refused_a_load_watcher() -> None:
    with pytest.raises(pulumi.RunError, match=r"metricProvider\.loadWatcher: is not needed"):
        installed(image=f"localhost/secondary-scheduler/kube-scheduler:{__version__}")
