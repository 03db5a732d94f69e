"""Alerts, scraping of the operator, and the dashboard: which stacks create them, and what they are about."""

from __future__ import annotations

import json
from typing import Any

import pytest

import components
from scheduler import __version__
from tests.components.graph import ROOT, STATUS, Graph, register, run_program, stack_values

NAMESPACE = "openshift-secondary-scheduler-operator"
IMAGE = f"localhost/secondary-scheduler/kube-scheduler:{__version__}"
OPERATOR_IMAGE = f"localhost/secondary-scheduler/operator:{__version__}"
OPERATOR_JOB = "secondary-scheduler-operator-metrics"
ALERTS = {"optionalObjects": {"prometheusRule": True}}
OURS_BY_OLM = {"installMode": "olm", "operator": {"flavour": "ours", "source": "mine"}}


def run(**settings: Any) -> Graph:
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
    return run_program(stack_values("local") | values, preview=True, statuses=STATUS)


def rules(graph: Graph) -> dict[str, dict[str, Any]]:
    recording, alerting = graph.only("PrometheusRule").manifest["spec"]["groups"]
    assert all("record" in rule for rule in recording["rules"])
    return {rule["alert"]: rule for rule in alerting["rules"]}


@pytest.mark.parametrize("settings", [{"installMode": "manifests"}, OURS_BY_OLM], ids=["manifests", "olm"])
def test_an_installation_of_our_operator_scrapes_it_and_alerts_about_it(
    settings: dict[str, Any], local_environment: None
) -> None:
    graph = run(**settings, **ALERTS)
    assert f'job="{OPERATOR_JOB}"' in rules(graph)["SecondarySchedulerOperatorDown"]["expr"]
    (service,) = [each for each in graph.of("Service") if each.object_name == OPERATOR_JOB]
    monitor = graph.only("ServiceMonitor")
    spec = monitor.manifest["spec"]
    assert spec["namespaceSelector"] == {"matchNames": [NAMESPACE]}
    assert spec["selector"]["matchLabels"].items() <= service.manifest["metadata"]["labels"].items()
    (port,) = service.manifest["spec"]["ports"]
    (endpoint,) = spec["endpoints"]
    assert endpoint["port"] == port["name"]
    assert (port["targetPort"], endpoint["scheme"]) == (8443, "https")
    for operator in graph.of("Deployment"):
        template = operator.manifest["spec"]["template"]
        assert service.manifest["spec"]["selector"].items() <= template["metadata"]["labels"].items()


@pytest.mark.parametrize(
    "settings",
    [
        {"installMode": "direct"},
        {"installMode": "none"},
        {"installMode": "olm"},
        {"installMode": "manifests", "operator": {"flavour": "upstream"}, "operatorImage": OPERATOR_IMAGE},
    ],
    ids=["direct", "none", "olm", "upstream"],
)
def test_where_no_operator_of_ours_is_installed_no_alert_is_about_one(
    settings: dict[str, Any], local_environment: None
) -> None:
    graph = run(**settings, **ALERTS)
    assert "SecondarySchedulerDown" in rules(graph)
    assert not [name for name, rule in rules(graph).items() if "operator" in rule["expr"].partition("namespace=")[0]]
    assert not [each for each in graph.of("Service") if each.object_name == OPERATOR_JOB]


def test_an_operator_that_the_stack_does_not_scrape_raises_no_alert(local_environment: None) -> None:
    graph = run(optionalObjects={"prometheusRule": True, "serviceMonitor": False})
    assert "SecondarySchedulerDown" in rules(graph)
    assert "SecondarySchedulerOperatorDown" not in rules(graph)
    assert not graph.of("ServiceMonitor")


def test_without_alerts_the_operator_is_not_scraped_either(local_environment: None) -> None:
    graph = run()
    assert not graph.of("PrometheusRule")
    assert not graph.of("ServiceMonitor")
    assert not [each for each in graph.of("Service") if each.object_name == OPERATOR_JOB]


def test_alerts_link_to_the_runbooks_that_the_stack_publishes(local_environment: None) -> None:
    page = "https://git.example.com/team/scheduler/-/blob/main/docs/runbooks.md"
    down = rules(run(alerts={"runbookUrl": page}, **ALERTS))["SecondarySchedulerDown"]["annotations"]
    assert down["runbook_url"] == f"{page}#secondaryschedulerdown"
    down = rules(run(**ALERTS))["SecondarySchedulerDown"]["annotations"]
    assert "runbook_url" not in down
    assert "docs/runbooks.md#secondaryschedulerdown" in down["description"]


def test_the_dashboard_is_the_file_with_the_label_that_the_sidecar_looks_for(local_environment: None) -> None:
    (config_map,) = [
        each
        for each in run(optionalObjects={"grafanaDashboard": True}).of("ConfigMap")
        if each.object_name == "secondary-scheduler-dashboard"
    ]
    assert config_map.manifest["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert config_map.manifest["metadata"]["namespace"] == NAMESPACE
    (text,) = config_map.manifest["data"].values()
    assert text == (ROOT / "deploy/grafana/secondary-scheduler.json").read_text(encoding="utf-8")
    assert not [each for each in run().of("ConfigMap") if each.object_name.endswith("-dashboard")]


def test_alerts_of_an_instance_with_a_name_of_its_own_are_about_its_metrics() -> None:
    def program() -> None:
        args = components.SchedulerInstallationArgs(
            image=IMAGE,
            mode="none",
            resource_name="batch",
            objects=components.OptionalObjects(prometheus_rule=True),
            runbook_url="https://git.example.com/runbooks.md",
        )
        components.SchedulerInstallation("mine", args)

    graph = register(program, config={}, preview=True, statuses=STATUS)
    assert graph.only("PrometheusRule").object_name == "secondary-scheduler-batch"
    for rule in rules(graph).values():
        assert 'job="secondary-scheduler-batch"' in rule["expr"]
        assert rule["annotations"]["runbook_url"].startswith("https://git.example.com/runbooks.md#")
