"""A preview under the real engine describes in words how the scheduler changes, without a cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.toolchain.binaries import BINARIES, find
from tests.components.conftest import CANARY_TOKEN
from tests.components.test_offline_preview import Project
from tests.support.simulating import node, pod

pytestmark = pytest.mark.integration

HEADING = "the scheduler's behaviour changes:"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    pulumi = find(BINARIES["pulumi"])
    assert pulumi is not None, "the pulumi binary is not built; run `secondary-scheduler cluster up` once"
    return Project(tmp_path, pulumi)


@pytest.fixture
def applied(project: Project, tmp_path: Path) -> Project:
    """A stack whose state has the configuration of stack `local`, as an update would have left it."""
    project.ok("stack", "init", "local")
    step = planned(project)
    state = json.loads(project.ok("stack", "export", "--stack", "local"))
    state["deployment"]["resources"] = resources(step["urn"], step["newState"])
    (tmp_path / "state.json").write_text(json.dumps(state))
    project.ok("stack", "import", "--stack", "local", "--file", str(tmp_path / "state.json"))
    return project


def resources(urn: str, config_map: dict[str, Any]) -> list[dict[str, Any]]:
    stack = "urn:pulumi:local::secondary-scheduler::pulumi:pulumi:Stack::secondary-scheduler-local"
    provider = "urn:pulumi:local::secondary-scheduler::pulumi:providers:kubernetes::cluster"
    parent = config_map["parent"]
    component = parent.split("::")[2].rpartition("$")[2]
    return [
        {"urn": stack, "custom": False, "type": "pulumi:pulumi:Stack"},
        {"urn": parent, "custom": False, "type": component, "parent": stack},
        {"urn": provider, "custom": True, "id": "p", "type": "pulumi:providers:kubernetes", "parent": stack},
        {
            "urn": urn,
            "custom": True,
            "id": "namespace/name",
            "type": "kubernetes:core/v1:ConfigMap",
            "parent": parent,
            "provider": f"{provider}::p",
            "inputs": config_map["inputs"],
            "outputs": config_map["inputs"],
        },
    ]


@pytest.mark.slow
def test_only_a_change_is_logged_and_logging_leaves_no_trace_in_the_state(applied: Project) -> None:
    state = applied.ok("stack", "export", "--stack", "local")
    assert logged_changes(applied) == []
    file = applied.stack_file("local")
    changed = (
        file.read_text().replace("weight: 10", "weight: 20").replace("targetUtilization: 50", "targetUtilization: 60")
    )
    file.write_text(changed.replace("        - NodeResourcesFit\n", ""))
    assert logged_changes(applied) == [
        "profile secondary-scheduler: NodeResourcesFit enabled at score (weight 1)",
        "profile secondary-scheduler: TargetLoadPacking weight 10 -> 20",
        "profile secondary-scheduler: TargetLoadPacking targetUtilization 50 -> 60",
    ]
    assert applied.ok("stack", "export", "--stack", "local") == state


def test_a_preview_says_what_the_change_would_do_to_a_recorded_cluster(applied: Project, tmp_path: Path) -> None:
    objects = [node("n1"), node("n2"), *(pod(f"p{number}", cpu="1") for number in range(6)), pod("big", cpu="40")]
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    command = Path(sys.executable).with_name("secondary-scheduler")
    file = applied.stack_file("local")
    plan = {"snapshot": str(tmp_path / "cluster.json"), "command": str(command), "timeoutSeconds": 600}
    unchanged = yaml.safe_load(file.read_text())
    unchanged["config"]["secondary-scheduler:plan"] = plan
    file.write_text(yaml.safe_dump(unchanged))
    assert planned_lines(applied) == []
    changed = file.read_text().replace("targetUtilization: 50", "targetUtilization: 60")
    file.write_text(changed)
    assert planned_lines(applied)[0].startswith("7 pending pods: no placement differs (1 unschedulable with both)")
    file.write_text(changed.replace(str(command), "/absent/secondary-scheduler"))
    (line,) = planned_lines(applied)
    assert line.startswith("/absent/secondary-scheduler is not there to compare placements")


def planned_lines(project: Project) -> list[str]:
    """What a preview logs about placements."""
    diagnostics = project.preview("local").get("diagnostics", [])
    messages = [each["message"] for each in diagnostics if each["message"].startswith("plan:")]
    return [line.strip() for message in messages for line in message.splitlines()[1:]]


def logged_changes(project: Project) -> list[str]:
    """The changes that a preview logs; checks that it never logs the token."""
    plan = project.preview("local")
    assert CANARY_TOKEN not in json.dumps(plan)
    messages = [
        diagnostic["message"] for diagnostic in plan.get("diagnostics", []) if diagnostic["message"].startswith(HEADING)
    ]
    return [line.strip() for message in messages for line in message.splitlines()[1:]]


FILE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: from-a-file
  plugins:
    score:
      disabled:
      - name: NodeResourcesFit
"""


def test_a_configuration_file_and_several_profiles_pass_through_the_engine(project: Project) -> None:
    file = project.stack_file("local")
    project.ok("stack", "init", "local")
    document = yaml.safe_load(file.read_text())
    for key in ("schedulerName", "plugins", "metricProvider"):
        del document["config"][f"secondary-scheduler:{key}"]
    document["config"]["secondary-scheduler:configurationFile"] = "kube-scheduler.yaml"
    file.write_text(yaml.safe_dump(document))
    configuration_file = file.with_name("kube-scheduler.yaml")
    configuration_file.write_text(FILE.replace("disabled", "disable"))
    refused = project.run("preview", "--stack", "local")
    assert refused.returncode != 0
    assert (
        'stacks/kube-scheduler.yaml:7:7: profiles[0].plugins.score.disable: unknown field "disable"; '
        'did you mean "disabled"?'
    ) in refused.stdout
    configuration_file.write_text(FILE)
    of_file = config_map(project)
    del document["config"]["secondary-scheduler:configurationFile"]
    profile = {"schedulerName": "from-a-file", "plugins": {"score": {"disabled": ["NodeResourcesFit"]}}}
    document["config"]["secondary-scheduler:profiles"] = [profile]
    file.write_text(yaml.safe_dump(document))
    of_profiles = config_map(project)
    assert of_file == of_profiles
    assert "from-a-file" in of_file["data"]["config.yaml"]


def config_map(project: Project) -> dict[str, Any]:
    inputs: dict[str, Any] = planned(project)["newState"]["inputs"]
    return inputs


def planned(project: Project) -> dict[str, Any]:
    """The step that makes the ConfigMap with the scheduler's configuration."""
    maps = [step for step in project.preview("local")["steps"] if step["urn"].split("::")[2].endswith(":ConfigMap")]
    (config_map_step,) = [step for step in maps if "config.yaml" in step["newState"]["inputs"]["data"]]
    step: dict[str, Any] = config_map_step
    return step
