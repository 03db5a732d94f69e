"""Replicas, and the objects without which a scheduler runs all the same."""

import json

import pytest

from scheduler.operand import shortage_of
from secondary_scheduler.operator.reconcile import ApiFailure
from tests.unit.operator.builders import Instance, config_map, key_of, node, scheduler

ZONE = {"zone": "a"}
TAINT = {"key": "dedicated", "value": "infra", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def available(most=3, **topology):
    mode = {"mode": "HighlyAvailable", "highlyAvailableTopology": {"maxReplicas": most, **topology}}
    return Instance(scheduler(topology=mode), config_map())


def replicas(world):
    return world.get("Deployment", "secondary-scheduler")["spec"]["replicas"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node("a"), node("b"), node("c"), node("d")], 3),
        ([node("a"), node("b")], 2),
        ([], 1),
        ([node("a"), node("b", unschedulable=True), node("c")], 2),
        ([node("a"), node("b", taints=[TAINT]), node("c")], 2),
        ([node("a"), node("b", taints=[{**TAINT, "effect": "PreferNoSchedule"}]), node("c")], 3),
        ([node("a"), node("b", ready=False, taints=[NOT_READY]), node("c")], 2),
    ],
    ids=["more than enough", "too few", "none", "cordoned", "tainted", "softly tainted", "not ready"],
)
def test_as_many_replicas_are_run_as_there_are_nodes_for_them(nodes, expected):
    world = available()
    world.put(*nodes)
    world.settle()
    assert replicas(world) == expected
    message = world.condition("Degraded")[2]
    assert (f"{expected} of 3 wanted: " in message) is (expected < 3)
    assert world.condition("Degraded")[0] == "False"


@pytest.mark.parametrize(
    ("nodes", "shortage"),
    [
        ([], "1 of 3 wanted: no suitable node"),
        ([node("a")], "1 of 3 wanted: one suitable node"),
        ([node("a"), node("b")], "2 of 3 wanted: 2 suitable nodes"),
        ([node("a"), node("b", ready=False)], "1 of 3 wanted: 1 of 2 suitable nodes is ready"),
    ],
)
def test_fewer_replicas_than_wanted_are_said_with_the_reason(nodes, shortage):
    world = available()
    world.put(*nodes)
    world.start()
    assert shortage_of(world.resource["status"]["conditions"]) == shortage
    assert world.condition("Available")[:2] == ("True", "FewerReplicas")
    world.put(*(node(name) for name in ("a", "b", "c")))
    world.settle()
    assert shortage_of(world.resource["status"]["conditions"]) == ""


def test_nodes_are_counted_by_selector_and_tolerations():
    world = available(nodeSelector=ZONE, tolerations=[{"key": "dedicated", "operator": "Exists"}])
    world.put(node("a", labels=ZONE, taints=[TAINT]), node("b", labels=ZONE), node("c"), node("d"))
    world.settle()
    assert replicas(world) == 2
    assert "zone=a" in world.condition("Degraded")[2]


def test_a_node_that_is_not_ready_takes_no_replica_away_but_one_that_is_gone_does():
    world = available()
    world.put(node("a"), node("b"), node("c"))
    world.settle()
    world.put(node("c", ready=False, taints=[NOT_READY]))
    world.settle()
    assert replicas(world) == 3
    world.drop("Node", "c")
    world.settle()
    assert replicas(world) == 2


def test_without_the_right_to_read_nodes_all_replicas_are_run_and_it_is_said():
    world = available()
    world.observed_fields["unreadable"] = {"Node": ApiFailure(403, "nodes is forbidden")}
    world.settle()
    assert replicas(world) == 3
    status, _, message = world.condition("Degraded")
    assert (status, "nodes is forbidden" in message) == ("False", True)


def test_only_several_replicas_have_a_disruption_budget():
    world = available()
    world.put(node("a"), node("b"), node("c"))
    world.settle()
    budget = world.get("PodDisruptionBudget", "secondary-scheduler")
    assert budget["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "secondary-scheduler"}}}
    world.edit(topology={"mode": "SingleReplica"})
    world.settle()
    assert replicas(world) == 1
    assert not world.names("PodDisruptionBudget")


def test_the_pods_can_be_reached_on_the_port_that_asks_who_you_are_and_on_no_other():
    world = Instance(scheduler(), config_map())
    world.settle()
    spec = world.get("NetworkPolicy", "secondary-scheduler")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == [{"ports": [{"protocol": "TCP", "port": 10259}]}]


def egress(world):
    """The ports that may be reached on any host."""
    policy = world.get("NetworkPolicy", "secondary-scheduler")["spec"]
    rules = (rule for rule in policy.get("egress", []) if "to" not in rule)
    return {port["port"] for rule in rules for port in rule["ports"]}


def with_source(port):
    profile = {
        "schedulerName": "secondary-scheduler",
        "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking"}]}},
        "pluginConfig": [
            {"name": "TargetLoadPacking", "args": {"watcherAddress": f"http://load-watcher:{port}"}},
        ],
    }
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
    )


def test_the_pods_may_reach_dns_the_api_server_their_metric_source_and_the_ports_of_the_spec():
    world = Instance(scheduler(egressPorts=[8089]), config_map(with_source(2020)))
    world.settle()
    assert egress(world) == {53, 5353, 443, 6443, 8443, 16443, 2020, 8089}


def test_egress_is_open_where_nobody_judged_the_configuration():
    world = Instance(scheduler(configPolicy="PassThrough"), config_map("profiles: [{schedulerName: s, unknown: true}]"))
    world.settle()
    assert world.get("NetworkPolicy", "secondary-scheduler")["spec"]["policyTypes"] == ["Ingress"]


def admitted(world, name="secondary-scheduler"):
    """The namespaces that the rule names, beside the one for replicas; None where it admits all sources."""
    rule = world.get("NetworkPolicy", name)["spec"]["ingress"][0]
    if "from" not in rule:
        return None
    (peer,) = rule["from"]
    (names,) = peer["namespaceSelector"]["matchExpressions"]
    return names["values"]


def test_the_pods_are_reached_from_the_namespaces_of_the_spec_and_from_everywhere_without_any():
    world = Instance(scheduler(), config_map()).start()
    world.settle()
    assert admitted(world) is None
    world.edit(scrapeNamespaces=["monitoring", "a"])
    world.settle()
    assert admitted(world) == ["a", "monitoring"]
    world.edit(scrapeNamespaces=[])
    world.settle()
    assert admitted(world) is None


def test_lease_and_bindings_have_priority_levels_of_their_own():
    world = Instance(scheduler(), config_map())
    world.settle()
    levels = {
        name: world.get("FlowSchema", name)["spec"]["priorityLevelConfiguration"]["name"]
        for name in world.names("FlowSchema")
    }
    assert levels == {
        "secondary-scheduler-leases": "leader-election",
        "secondary-scheduler-requests": "workload-high",
    }


def test_a_service_monitor_is_made_where_that_kind_exists():
    world = Instance(scheduler(), config_map(), unserved=frozenset())
    world.settle()
    (endpoint,) = world.get("ServiceMonitor", "secondary-scheduler")["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["scheme"], endpoint["path"]) == ("https", "https", "/metrics")
    without = Instance(scheduler(), config_map())
    without.settle()
    assert not without.names("ServiceMonitor")


def test_on_openshift_the_certificate_of_its_service_is_verified():
    world = Instance(scheduler(), config_map(), unserved=frozenset(), openshift=True)
    world.settle()
    (endpoint,) = world.get("ServiceMonitor", "secondary-scheduler")["spec"]["endpoints"]
    assert endpoint["tlsConfig"]["serverName"] == "metrics.openshift-secondary-scheduler-operator.svc"
    assert "insecureSkipVerify" not in endpoint["tlsConfig"]


def test_an_optional_object_that_is_refused_is_reported_and_degrades_nothing():
    world = Instance(scheduler(), config_map()).start()
    world.observed_fields["failures"] = {key_of("FlowSchema", "secondary-scheduler-leases"): ApiFailure(403, "no")}
    world.settle()
    status, _, message = world.condition("Degraded")
    assert status == "False"
    assert "FlowSchema secondary-scheduler-leases cannot be written: no" in message
    assert world.condition("Available")[0] == "True"


def test_kinds_that_the_spec_does_without_are_taken_away_and_come_back():
    world = Instance(scheduler(), config_map()).start()
    world.edit(without=["NetworkPolicy", "FlowSchema"])
    world.settle()
    assert not world.names("NetworkPolicy") | world.names("FlowSchema")
    world.edit(without=[])
    world.settle()
    assert world.names("NetworkPolicy") == {"secondary-scheduler"}
    assert len(world.names("FlowSchema")) == 2


def test_removed_takes_the_optional_objects_along():
    world = available()
    world.put(node("a"), node("b"))
    world.settle()
    world.edit(managementState="Removed")
    world.settle()
    assert {key.kind for key in world.objects} == {"ConfigMap", "Node"}
    assert world.names("ConfigMap") == {"config"}
