"""What pods may send and receive, and how much they may use."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from scheduler import operand
from scheduler.config import load_configuration

LOAD_WATCHER_ADDRESSES = {
    "http://prometheus-k8s.monitoring:9090": (9090,),
    "https://thanos-querier.openshift-monitoring.svc:9091": (9091,),
    "https://prometheus.example.com": (443,),
    "http://prometheus.example.com": (80,),
}


def configuration(args: dict[str, Any], plugin: str = "TargetLoadPacking") -> Any:
    profile = {
        "schedulerName": "s",
        "plugins": {"score": {"enabled": [{"name": plugin}]}},
        "pluginConfig": [{"name": plugin, "args": args}],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return load_configuration(yaml.safe_dump(document), source="test")


def allowed(policy: dict[str, Any]) -> set[tuple[str, int]]:
    """What may be reached on any host."""
    rules = (rule for rule in policy["egress"] if "to" not in rule)
    return {(port["protocol"], port["port"]) for rule in rules for port in rule["ports"]}


@pytest.mark.parametrize(("address", "ports"), LOAD_WATCHER_ADDRESSES.items())
def test_the_port_of_the_metric_source_may_be_reached(address: str, ports: tuple[int, ...]) -> None:
    needed = operand.source_ports(configuration({"metricProvider": {"type": "Prometheus", "address": address}}))
    assert needed == ports
    policy = operand.scheduler_network_policy_spec("secondary-scheduler", needed)
    assert {("TCP", port) for port in ports} <= allowed(policy)


@pytest.mark.parametrize("scrape_namespaces", [(), ("monitoring",)])
def test_replicas_reach_each_other_and_nothing_else_on_that_port(scrape_namespaces: tuple[str, ...]) -> None:
    policy = operand.scheduler_network_policy_spec("s", (), scrape_namespaces)
    replicas = [{"podSelector": {"matchLabels": {"app": "s"}}}]
    ports = [{"protocol": "TCP", "port": 10259}]
    assert [rule["to"] for rule in policy["egress"] if rule["ports"] == ports] == [replicas]
    # Without namespaces that scrape, everybody reaches the port already.
    assert [rule.get("from") for rule in policy["ingress"]][bool(scrape_namespaces) :] == (
        [replicas] if scrape_namespaces else [None]
    )
    assert "egress" not in operand.scheduler_network_policy_spec("s", None)


def test_a_source_without_an_address_is_reached_at_its_default() -> None:
    assert operand.source_ports(configuration({"metricProvider": {"type": "Prometheus"}})) == (9090,)


def test_the_load_watcher_of_peaks_may_be_reached() -> None:
    args = {"WatcherAddress": "http://load-watcher:2020", "NodePowerModel": {}}
    assert operand.source_ports(configuration(args, plugin="Peaks")) == (2020,)


def test_a_load_watchers_port_counts_and_the_metrics_server_needs_none() -> None:
    assert operand.source_ports(configuration({"watcherAddress": "http://load-watcher:2020"})) == (2020,)
    assert operand.source_ports(configuration({"metricProvider": {"type": "KubernetesMetricsServer"}})) == ()


def test_egress_is_limited_to_dns_the_api_server_and_the_ports_that_are_named() -> None:
    policy = operand.scheduler_network_policy_spec("secondary-scheduler", [9090])
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    dns = {(protocol, port) for protocol in ("UDP", "TCP") for port in (53, 5353)}
    assert allowed(policy) == dns | {("TCP", port) for port in (443, 6443, 8443, 16443, 9090)}
    assert all(rule["ports"] for rule in policy["egress"]), "a rule without ports allows everything"


def test_egress_is_left_alone_where_it_is_not_known_what_is_needed() -> None:
    assert operand.scheduler_network_policy_spec("secondary-scheduler", None)["policyTypes"] == ["Ingress"]


def test_whoever_can_may_reach_the_port_where_no_namespace_is_named() -> None:
    (rule,) = operand.scheduler_network_policy_spec("secondary-scheduler", [])["ingress"]
    assert rule == {"ports": [{"protocol": "TCP", "port": 10259}]}


def test_only_pods_of_the_namespaces_that_are_named_may_reach_the_port() -> None:
    policy = operand.scheduler_network_policy_spec("secondary-scheduler", [], ["ops", "monitoring", "ops"])
    assert policy["ingress"][:1] == [
        {
            "ports": [{"protocol": "TCP", "port": 10259}],
            "from": [
                {
                    "namespaceSelector": {
                        "matchExpressions": [
                            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["monitoring", "ops"]}
                        ]
                    }
                }
            ],
        }
    ]


def test_the_order_in_which_namespaces_are_named_changes_nothing() -> None:
    policy, reordered = (
        operand.network_policy_spec({"app": "a"}, [8443, 8080], None, names) for names in (["b", "a"], ["a", "b"])
    )
    assert policy == reordered
    assert policy["policyTypes"] == ["Ingress"]


def test_a_scheduler_has_a_memory_limit_and_a_bounded_volume() -> None:
    spec = operand.deployment_spec(operand.Operand(name="s", namespace="n", image="i", config_map="c"))
    pod = spec["template"]["spec"]
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"memory": "2Gi"},
    }
    assert [volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume] == [{"sizeLimit": "64Mi"}]
