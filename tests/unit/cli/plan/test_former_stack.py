"""`plan --old` with a former stack file, which lies anywhere: what `git show HEAD~1:stacks/… > before.yaml` writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.simulating import Bench, Result, node, pod, run

CHECKOUT = Path(__file__).resolve().parents[4]
NOW = CHECKOUT / "stacks" / "Pulumi.openshift-prod.yaml"
FORMER = NOW.read_text()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def plan(bench: Bench, old: str, new: Path = NOW) -> Result:
    items = [node("n1"), node("n2"), pod("a")]
    snapshot = bench.write("cluster.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    before = bench.write("before.yaml", old)
    return run("plan", "--old", before, "--new", new, "--snapshot", snapshot, "--summary")


@pytest.mark.parametrize("working_directory", [CHECKOUT, CHECKOUT / "stacks", None])
def test_a_former_stack_file_may_lie_anywhere(
    bench: Bench, working_directory: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(working_directory or bench.directory)
    same = plan(bench, FORMER)
    assert same.code == 0, same.err
    assert "no placement differs" in same.out


def test_without_a_project_the_message_says_where_to_go(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bench.directory)
    done = plan(bench, FORMER, bench.config)
    assert (done.code, done.out) == (4, "")
    assert "before.yaml: a stack file is checked with its project, but neither above it nor above the" in done.err


def test_a_former_configuration_file_is_not_taken_for_the_one_of_today_in_silence(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    settings = {
        "schedulerImage": "registry.example.com/secondary-scheduler/kube-scheduler:0.2.0",
        "installMode": "direct",
        "configurationFile": "../examples/configurations/load-aware.yaml",
    }
    config = {f"secondary-scheduler:{key}": value for key, value in settings.items()}
    done = plan(bench, "config: " + json.dumps(config))
    assert f"load-aware.yaml is read as it is in {CHECKOUT / 'stacks'} now, not as it was then" in done.err
    assert done.code in (0, 3), done.err
