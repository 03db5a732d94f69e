"""A page in the cluster: the objects that the installation registers for it, its rights, and what is refused."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

import components
from scheduler.catalog import page_rules
from secondary_scheduler.page.options import parse_options
from secondary_scheduler.page.rights import NamespacedName
from secondary_scheduler.page.sharing import PAGE_RESOURCES
from tests.components.graph import Graph, Registered
from tests.components.installations import installation_graph, object_named, pod_spec_of

IMAGE = "registry.example.com/secondary-scheduler/kube-scheduler:0.2.0"
OPERATOR = "registry.example.com/secondary-scheduler/operator:0.2.0"
GO_IMAGE = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7"
NAME, NAMESPACE = "secondary-scheduler-page", "openshift-secondary-scheduler-operator"
TOKEN = "canary-token-27182818"
SETTINGS: dict[str, Any] = {
    "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 5}]}},
    "metricProvider": {"type": "Prometheus", "address": "https://prometheus.monitoring:9090"},
}
PAGE: dict[str, Any] = {"image": OPERATOR, "hosts": ["scheduling.example.com"], "tlsSecret": "page-tls"}


def installed(page: Any, token: str = "", **options: Any) -> Graph:
    return installation_graph(
        token, **{"image": IMAGE, "settings": SETTINGS, "operator_image": OPERATOR, "page": page, **options}
    )


@pytest.fixture(scope="module")
def graph() -> Graph:
    return installed(PAGE)


def named(graph: Graph, kind: str, name: str = NAME) -> Registered:
    return object_named(graph, kind, name)


def pod_of(graph: Graph) -> dict[str, Any]:
    return pod_spec_of(graph, NAME)


def test_nothing_is_made_by_default() -> None:
    graph = installed({})
    assert not [each for each in graph.resources if "page" in f"{each.type} {each.name}".lower()]


def test_its_flags_are_those_that_the_program_takes(graph: Graph) -> None:
    (container,) = pod_of(graph)["containers"]
    assert (container["image"], container["command"]) == (OPERATOR, ["/bin/secondary-scheduler-page"])
    options = parse_options(container["args"])
    service = {f"{NAME}{end}" for end in ("", *(f".{NAMESPACE}{end}" for end in ("", ".svc", ".svc.cluster.local")))}
    assert options.hosts == {"scheduling.example.com", *service}
    (config_map,) = [volume["configMap"]["name"] for volume in pod_of(graph)["volumes"] if "configMap" in volume]
    assert options.config_map == NamespacedName(NAMESPACE, config_map)
    assert options.lease == NamespacedName(NAMESPACE, "secondary-scheduler")
    assert str(options.certificate) == "/etc/page-tls/tls.crt"
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["tls"] == "/etc/page-tls"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert (options.listen.port, options.probes.port) == (ports["https"], ports["probes"])
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"


def test_it_mounts_the_schedulers_own_configuration(graph: Graph) -> None:
    (volume,) = [volume for volume in pod_of(graph)["volumes"] if "configMap" in volume]
    (scheduler,) = graph.of("SecondaryScheduler")
    assert volume["configMap"]["name"] == scheduler.manifest["spec"]["schedulerConfig"]


def test_without_a_secret_it_makes_a_certificate() -> None:
    graph = installed({"image": OPERATOR})
    (container,) = pod_of(graph)["containers"]
    assert parse_options(container["args"]).certificate is None
    assert "secret" not in str(pod_of(graph)["volumes"]).lower()


def test_it_may_list_and_review_and_nothing_else(graph: Graph) -> None:
    rules = named(graph, "ClusterRole").manifest["rules"]
    granted = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    assert {entry for entry in granted if entry[1] != "list"} == {
        ("tokenreviews", "create"),
        ("subjectaccessreviews", "create"),
    }
    assert not {resource for resource, _ in granted} & {"secrets", "configmaps", "pods/portforward", "pods/proxy"}
    assert not [rule for rule in rules if "*" in str(rule) or "impersonate" in rule["verbs"]]
    bindings = [each for each in graph.of("ClusterRoleBinding") if NAME in str(each.manifest)]
    assert [each.object_name for each in bindings] == [NAME]
    (role,) = [each for each in graph.of("Role") if each.object_name == NAME]
    (rule,) = role.manifest["rules"]
    assert (rule["resources"], rule["verbs"], rule["resourceNames"]) == (["leases"], ["get"], ["secondary-scheduler"])
    (binding,) = [each for each in graph.of("RoleBinding") if NAME in str(each.manifest)]
    assert (binding.manifest["roleRef"]["kind"], binding.manifest["roleRef"]["name"]) == ("Role", NAME)
    assert {each.manifest["metadata"]["namespace"] for each in (role, binding)} == {NAMESPACE}


def test_it_may_list_what_it_reads() -> None:
    rules = page_rules()
    read = {(resource.api_version.rpartition("/")[0], resource.plural) for resource in PAGE_RESOURCES}
    listed = {(rule.api_groups[0], plural) for rule in rules if rule.verbs == ("list",) for plural in rule.resources}
    # Beside these the load of the metrics server, which may be the configuration's source.
    assert listed - read == {("metrics.k8s.io", "nodes")}
    assert read <= listed


def test_the_network_policy_and_the_rights_come_first_whatever_is_left_out() -> None:
    graph = installed(PAGE, objects=components.OptionalObjects(network_policy=False), egress_ports=[8080])
    policy, deployment = named(graph, "NetworkPolicy"), named(graph, "Deployment")
    for kind in ("NetworkPolicy", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"):
        assert named(graph, kind).urn in graph.before(deployment)
    spec = policy.manifest["spec"]
    assert (
        spec["podSelector"]["matchLabels"].items()
        <= deployment.manifest["spec"]["template"]["metadata"]["labels"].items()
    )
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    assert {port["port"] for rule in spec["ingress"] for port in rule["ports"]} == {8443, 8081}
    assert {9090, 8080, 443} <= {port["port"] for rule in spec["egress"] for port in rule["ports"]}


def test_its_visitors_are_let_in_whoever_may_scrape() -> None:
    graph = installed(PAGE, scrape_namespaces=["monitoring"])
    (rule,) = named(graph, "NetworkPolicy").manifest["spec"]["ingress"]
    assert "from" not in rule


def test_its_pod_is_restricted_and_bounded(graph: Graph) -> None:
    spec = pod_of(graph)
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["resources"]["limits"] == {"cpu": "1", "memory": "512Mi"}
    deployment = named(graph, "Deployment").manifest["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})


def test_the_service_leads_to_the_page_and_not_to_the_probes(graph: Graph) -> None:
    (port,) = named(graph, "Service").manifest["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (443, 8443)


def test_it_reads_the_load_with_the_schedulers_credentials() -> None:
    graph = installed(PAGE, TOKEN)
    (secret,) = graph.of("Secret")
    assert f"'secretName': '{secret.object_name}'" in str(pod_of(graph)["volumes"])
    assert TOKEN not in str(named(graph, "Deployment").manifest)


@pytest.mark.parametrize(
    ("page", "options", "message"),
    [
        ({"hosts": ["a.example.com"]}, {}, r"page\.image: missing"),
        ({"image": GO_IMAGE}, {}, r"page\.image: must be"),
        ({"image": OPERATOR, "colour": "red"}, {}, r"page\.colour"),
        ({"image": OPERATOR, "hosts": ["https://a"]}, {}, r"page\.hosts"),
        ({"image": OPERATOR}, {"image": GO_IMAGE, "settings": {}}, r"page: decides as this project's"),
    ],
    ids=["no image", "another's image", "unknown key", "a URL", "another scheduler"],
)
def test_what_cannot_work_fails_the_preview(page: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(pulumi.RunError, match=message):
        installed(page, **options)
