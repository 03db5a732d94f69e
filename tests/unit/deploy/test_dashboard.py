"""The Grafana dashboard in deploy/grafana, and the queries of dashboard and alerts against the metrics there are."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from components._alert_rules import RUNBOOKS
from components._dashboard import COLUMNS, SCHEMA_VERSION, dashboard
from components.alerts import alert_rules
from scheduler.operand import service_monitor_spec
from tests.support.queries import QUERIES, alert_queries, mistakes, panels, registered
from tools import dashboard as tool

CHECKOUT = Path(__file__).resolve().parents[3]
METRICS = registered()


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_uses_metrics_and_labels_that_exist(name: str) -> None:
    assert not mistakes(QUERIES[name], METRICS), QUERIES[name]


@pytest.mark.parametrize(
    ("query", "mistake"),
    [
        ('rate(scheduler_schedule_attempts_count{job="j"}[5m])', "scheduler_schedule_attempts_count does not exist"),
        ('secondary_scheduler_gangs_total{result="placed"}', "secondary_scheduler_gangs_total has no label result"),
        ('sum by (node) (up{job="j"})', "no metric of it has the label node"),
        ('scheduler_preemption_victims{job="j"}', "scheduler_preemption_victims does not exist"),
    ],
)
def test_a_query_about_what_does_not_exist_is_noticed(query: str, mistake: str) -> None:
    assert mistakes(query, METRICS) == [mistake]


def test_the_file_is_what_the_table_of_panels_makes(capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--check"]) == 0, capsys.readouterr().out


def test_a_file_that_is_not_current_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "OUTPUT", tmp_path / "grafana" / "dashboard.json")
    assert tool.main(["--check"]) == 1
    assert "make dashboard" in capsys.readouterr().out
    assert tool.main([]) == 0
    assert tool.main(["--check"]) == 0


def every_panel(board: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows and panels, also those in collapsed rows."""
    return [each for panel in board["panels"] for each in (panel, *panel.get("panels", ()))]


def test_ids_are_unique_and_the_schema_is_one_that_grafana_knows() -> None:
    board = dashboard()
    numbers = [panel["id"] for panel in every_panel(board)]
    assert len(numbers) == len(set(numbers)) > 40
    assert board["schemaVersion"] == SCHEMA_VERSION == 39
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", board["uid"])
    assert "id" not in board, "an id is Grafana's own; an import of one would replace another dashboard"


def test_panels_lie_in_the_grid_and_on_no_other() -> None:
    board = dashboard()
    expanded = [panel for panel in board["panels"] if not (panel["type"] == "row" and panel["collapsed"])]
    collapsed = [panel["panels"] for panel in board["panels"] if panel.get("collapsed")]
    assert collapsed
    for together in (board["panels"], expanded, *collapsed):
        cells = [cell for panel in together for cell in _cells(panel["gridPos"])]
        assert len(cells) == len(set(cells))


def _cells(place: dict[str, int]) -> list[tuple[int, int]]:
    assert 0 <= place["x"] < place["x"] + place["w"] <= COLUMNS
    assert place["h"] > 0
    return list(
        itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"]))
    )


def test_every_panel_has_what_grafana_needs_to_show_it() -> None:
    board = dashboard()
    source = {"type": "prometheus", "uid": "${datasource}"}
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert variables == {"datasource", "cluster", "namespace", "job"}
    for panel in panels(board):
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["type"] in {"timeseries", "stat"}
        assert panel["datasource"] == source
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references)) > 0
        for target in panel["targets"]:
            assert target["datasource"] == source
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables | {"__rate_interval"}
            selectors = re.findall(r"{[^{}]*}", target["expr"])
            assert selectors
            assert all('cluster=~"$cluster"' in each and 'namespace="$namespace"' in each for each in selectors)


def test_titles_of_panels_are_unique() -> None:
    titles = [panel["title"] for panel in panels(dashboard())]
    assert len(titles) == len(set(titles))


def test_each_alert_has_a_section_with_a_runbook_and_each_section_an_alert() -> None:
    text = (CHECKOUT / RUNBOOKS).read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (SecondaryScheduler\w+)\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL))
    assert sorted(sections) == sorted(alert_queries())
    for name, section in sections.items():
        for part in ("**Means**", "**Look**", "**Do**"):
            assert part in section, f"{name}: {part}"


@pytest.mark.parametrize("rule", alert_rules("ns", operator=True, rebalancer=True), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_it_means_with_its_value_or_place_and_where_its_runbook_is(rule: dict[str, Any]) -> None:
    annotations = rule["annotations"]
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert annotations["summary"].endswith(".")
    assert "\n" not in annotations["summary"]
    assert "{{ $labels." in annotations["description"]
    assert annotations["description"].endswith(f"Runbook: {RUNBOOKS}#{rule['alert'].lower()}.")
    assert "runbook_url" not in annotations


def test_alerts_link_to_the_page_where_it_is_published() -> None:
    page = "https://git.example.com/scheduler/docs/runbooks.md"
    for rule in alert_rules("ns", operator=True, rebalancer=True, runbooks=page):
        assert rule["annotations"]["runbook_url"] == f"{page}#{rule['alert'].lower()}"
        assert RUNBOOKS not in rule["annotations"]["description"]


def test_alerts_about_the_operator_come_with_it_only() -> None:
    without = {rule["alert"] for rule in alert_rules("ns")}
    about = {rule["alert"] for rule in alert_rules("ns", operator=True)} - without
    assert about == {
        "SecondarySchedulerConfigurationRefused",
        "SecondarySchedulerDegraded",
        "SecondarySchedulerOperatorDown",
        "SecondarySchedulerRolloutStuck",
    }
    assert not [rule for rule in alert_rules("ns") if "operator" in rule["expr"]]


def test_alerts_about_a_rebalancer_come_with_it_only() -> None:
    without = alert_rules("ns")
    about = [rule for rule in alert_rules("ns", rebalancer=True) if rule not in without]
    assert len(about) == len(alert_rules("ns", rebalancer=True)) - len(without) > 7
    for rule in about:
        assert rule["alert"].startswith("SecondarySchedulerRebalancer")
        assert 'job="secondary-scheduler-rebalancer",namespace="ns"' in rule["expr"]
        assert 'job="metrics"' not in rule["expr"]


def test_alerts_of_another_instance_are_about_its_metrics() -> None:
    for rule in alert_rules("ns", "secondary-scheduler-batch", rebalancer=True):
        about = "-rebalancer" if "Rebalancer" in rule["alert"] else ""
        assert f'job="secondary-scheduler-batch{about}",namespace="ns"' in rule["expr"]


@pytest.mark.parametrize("name", ["secondary-scheduler", "secondary-scheduler-batch"])
def test_alerts_select_the_job_that_our_servicemonitor_sets(name: str) -> None:
    (endpoint,) = service_monitor_spec(name, "ns", openshift=False)["endpoints"]
    (relabeling,) = endpoint["relabelings"]
    assert (relabeling["targetLabel"], relabeling["replacement"]) == ("job", name)
    assert all(f'job="{name}",namespace="ns"' in rule["expr"] for rule in alert_rules("ns", name))


def test_alerts_beside_upstreams_operator_select_its_services_name() -> None:
    assert all('job="metrics",namespace="ns"' in rule["expr"] for rule in alert_rules("ns", relabelled=False))
