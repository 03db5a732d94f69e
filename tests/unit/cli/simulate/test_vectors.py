"""`simulate --load` scores and places as upstream's own tests of the load-aware plugins have it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.simulating import run
from tests.unit.scheduler.plugins.vectors import cases

WATCHER = "http://watcher.test:2020"
FILES = ("trimaran_tlp.json", "trimaran_lvrb.json", "trimaran_lroc.json", "trimaran_peaks.json")


def of_kind(kind: str) -> list[Any]:
    return [case for file in FILES for case in cases(file, kind)]


def arguments(case: dict[str, Any], directory: Path, *, filters: bool) -> list[str]:
    """The case as files; without filters a pod that fits nowhere is scored too, as in upstream's unit tests."""
    args = json.loads(json.dumps(case["args"]).replace("<watcher-server>", WATCHER))
    plugins: dict[str, Any] = {"score": {"enabled": [{"name": case["plugin"]}], "disabled": [{"name": "*"}]}}
    if not filters:
        plugins["filter"] = {"disabled": [{"name": "*"}]}
    options = {"name": "SecondarySchedulerOptions", "args": {"compatibility": "upstream"}}
    profile = {
        "schedulerName": "test",
        "plugins": plugins,
        "pluginConfig": [{"name": case["plugin"], "args": args}, options],
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    items = list(case["nodes"])
    for pod in case["existing_pods"]:
        items.append({**pod, "metadata": {"namespace": "default", **pod["metadata"]}})
    for pod in case.get("pods") or [case["pod"]]:
        # Some of upstream's unit tests score a pod without a name.
        name = pod["metadata"]["name"] or "pod"
        spec = {**pod["spec"], "schedulerName": "test"}
        items.append({**pod, "metadata": {"namespace": "default", **pod["metadata"], "name": name}, "spec": spec})
    files = {
        "--config": config,
        "--snapshot": {"apiVersion": "v1", "kind": "List", "items": items},
    }
    if case.get("watcher_http_status", 200) == 200:
        files["--load"] = case["watcher_response"]
    arguments = ["simulate", "-o", "json"]
    for option, content in files.items():
        path = directory / f"{option.strip('-')}.json"
        path.write_text(json.dumps(content))
        arguments += [option, str(path)]
    return arguments


@pytest.fixture(autouse=True)
def model_file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = getattr(request.node, "callspec", None)
    models = parameters.params["case"].get("power_model_file") if parameters else None
    if models is not None:
        path = tmp_path / "models.json"
        path.write_text(json.dumps(models))
        monkeypatch.setenv("NODE_POWER_MODEL", str(path))


@pytest.mark.parametrize("case", of_kind("plugin_score"))
def test_scores_are_upstreams(case: dict[str, Any], tmp_path: Path) -> None:
    result = run(*arguments(case, tmp_path, filters=False))
    (decision,) = result.decisions.values()
    for node, expected in case["expected"]["scores"].items():
        raw = decision["nodes"][node]["scores"][case["plugin"]]["raw"]
        assert raw == pytest.approx(expected, abs=case.get("tolerance", 0), rel=0)


@pytest.mark.parametrize("case", of_kind("placement_sequence"))
def test_pods_go_where_upstreams_integration_tests_have_them(case: dict[str, Any], tmp_path: Path) -> None:
    result = run(*arguments(case, tmp_path, filters=True))
    placed = {name.partition("/")[2]: node for name, node in result.nodes.items()}
    assert {name: placed[name] for name in case["expected"]["placements"]} == case["expected"]["placements"]


def test_every_case_with_a_score_or_a_placement_is_replayed() -> None:
    assert (len(of_kind("plugin_score")), len(of_kind("placement_sequence"))) == (17, 4)
