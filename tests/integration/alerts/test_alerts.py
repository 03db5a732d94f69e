"""The alerts as Prometheus evaluates them: promtool runs them over series of each way to fail, and of what is close."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.alerts import alert_rules, recorded
from devcluster.progress import SilentReporter
from devcluster.toolchain.binaries import ensure
from tests.integration.alerts.cases import CASES as OTHER_CASES, JOB, NAMESPACE, OPERATOR, REBALANCER, Case
from tests.integration.alerts.rebalancer_cases import CASES as REBALANCER_CASES
from tests.support.queries import QUERIES

pytestmark = pytest.mark.integration

CASES = [*OTHER_CASES, *REBALANCER_CASES]
RULES = {rule["alert"]: rule for rule in alert_rules(NAMESPACE, operator=True, rebalancer=True)}


@pytest.fixture(scope="module")
def promtool() -> Path:
    return ensure(["promtool"], SilentReporter())["promtool"]


def with_values_only(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule whose only annotation has what the description shows of labels and value, without the prose between."""
    shown = re.findall(r"{{.*?}}", rule["annotations"]["description"])
    return {**rule, "annotations": {"values": " | ".join(shown)}}


def expected(case: Case) -> list[dict[str, Any]]:
    if case.firing is None:
        return []
    rule = RULES[case.alert]
    job = next((each for each in (OPERATOR, REBALANCER) if each in rule["expr"]), JOB)
    labels = {"job": job, "namespace": NAMESPACE, **rule["labels"], **case.firing.labels}
    return [{"exp_labels": labels, "exp_annotations": {"values": " | ".join(case.firing.values)}}]


def promtool_test(case: Case) -> dict[str, Any]:
    series = [{"series": name, "values": values} for name, values in case.series.items()]
    return {"interval": "30s", "name": str(case), "input_series": series, "alert_rule_test": evaluations(case)}


def evaluations(case: Case) -> list[dict[str, Any]]:
    quiet_minutes = case.quiet_minutes if case.firing else case.minutes
    at = [{"eval_time": f"{30 * scrape}s", "alertname": case.alert} for scrape in range(2 * quiet_minutes)]
    return [*at, {"eval_time": f"{case.minutes}m", "alertname": case.alert, "exp_alerts": expected(case)}]


@pytest.mark.parametrize("alert", RULES)
def test_an_alert_fires_for_its_problem_and_for_nothing_close_to_it(alert: str, promtool: Path, tmp_path: Path) -> None:
    # The others would only take time: promtool evaluates every rule at every scrape.
    recording = [rule for rule in recorded(NAMESPACE) if rule["record"] in RULES[alert]["expr"]]
    groups = [
        {"name": "recorded", "rules": recording},
        {"name": "alerts", "rules": [with_values_only(RULES[alert])]},
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    tests = [promtool_test(case) for case in CASES if case.alert == alert]
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": tests}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(content))
    command = [str(promtool), "test", "rules", str(tmp_path / "test.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_every_alert_has_a_case_for_which_it_fires_and_one_for_which_it_does_not() -> None:
    assert {case.alert for case in CASES if case.firing} == RULES.keys()
    assert {case.alert for case in CASES if not case.firing} == RULES.keys()
    assert len({str(case) for case in CASES}) == len(CASES)


def test_promtool_parses_every_query_and_every_rule(promtool: Path, tmp_path: Path) -> None:
    queries = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(QUERIES.values())]
    assert len(queries) > 50
    rules = [*recorded(NAMESPACE), *RULES.values()]
    groups = [{"name": "queries", "rules": queries}, {"name": "rules", "rules": rules}]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    command = [str(promtool), "check", "rules", "--lint-fatal", str(tmp_path / "rules.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert f"{len(queries) + len(rules)} rules found" in done.stdout
