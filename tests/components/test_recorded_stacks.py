"""A stack that an older version of the program made previews under this one without replacing or deleting an object.

`tests/data/stacks-e845042` holds, for each install mode, the stack file and the state (`pulumi stack export
--show-secrets`) that commit e845042 left on a live cluster. Left out of the states: where in the source a resource was
registered, managed fields and the outputs of the stack; times, ids and the two secrets are made up.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from components.drift import FORCED_TYPES
from devcluster.toolchain.binaries import BINARIES, find
from tests.components.graph import ROOT
from tests.components.test_offline_preview import Project

pytestmark = pytest.mark.integration

RECORDED = ROOT / "tests/data/stacks-e845042"
ADDRESS = "https://127.0.0.1:20634"
"""Of the metric source at that time; it is part of the configuration, and so of the ConfigMap's name."""
KEPT = {"same", "update", "create"}
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""What stands for an unknown value between the SDK and the engine."""
EMPTY_COMPONENT = "::secondary-scheduler:components:MetricCredentials::metric-credentials"
SLOW = pytest.mark.slow
MODES = ["manifests", *(pytest.param(mode, marks=SLOW) for mode in ("direct", "catalog", "olm", "none-upstream"))]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    pulumi = find(BINARIES["pulumi"])
    assert pulumi is not None, "the pulumi binary is not built; run `secondary-scheduler cluster up` once"
    project = Project(tmp_path, pulumi)
    (tmp_path / "token").write_text("recorded-token")
    (tmp_path / "ca").write_text("recorded-authority")
    project.environment["SECONDARY_SCHEDULER_PROMETHEUS_URL"] = ADDRESS
    return project


def recorded(project: Project, stack: str) -> None:
    """Give the engine a stack as it was recorded."""
    shutil.copy(RECORDED / f"Pulumi.{stack}.yaml", project.stack_file(stack))
    project.ok("stack", "init", stack)
    project.ok("stack", "import", "--stack", stack, "--file", str(RECORDED / f"{stack}.json"))


@pytest.mark.parametrize("stack", MODES)
def test_a_recorded_stack_previews_without_replacement_or_deletion(project: Project, stack: str) -> None:
    recorded(project, stack)
    plan = project.preview(stack)
    changes = {step["urn"]: step["op"] for step in plan["steps"] if step["op"] not in KEPT}
    # The component for credentials used to be registered without any, too; no object was in it.
    assert {urn: op for urn, op in changes.items() if not (op == "delete" and urn.endswith(EMPTY_COMPONENT))} == {}
    # What is neither replaced nor deleted is kept; the configuration's map keeps its name, too. What nobody tunes gets
    # the annotation by which it is put back.
    updates = [step for step in plan["steps"] if step["op"] == "update"]
    updated = [step for step in updates if step["newState"]["type"] not in FORCED_TYPES]
    assert plan["changeSummary"]["same"] > len(updated)
    assert not [step for step in plan["steps"] if ":ConfigMap::" in step["urn"]]


@pytest.mark.slow
def test_the_preview_asks_for_no_judgement_by_the_crd_that_the_update_replaces(project: Project) -> None:
    """The engine calls the hook in the preview; with a cluster, its old CRD would refuse the new fields."""
    recorded(project, "manifests")
    plan = project.preview("manifests")
    (step,) = [step for step in plan["steps"] if ":SecondaryScheduler::" in step["urn"]]
    assert step["newState"]["inputs"]["metadata"]["annotations"]["pulumi.com/waitFor"] == UNKNOWN
    text = project.ok("preview", "--stack", "manifests", "--color", "never")
    assert "the API server checks it in the update, not in this preview: its CRD changes first" in text


PROTECTED = (
    "kubernetes:core/v1:Namespace",
    "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition",
    "kubernetes:operator.openshift.io/v1:SecondaryScheduler",
    "kubernetes:operators.coreos.com/v1alpha1:Subscription",
    "components:OperatorInstall$kubernetes:apps/v1:Deployment",
    "components:DirectScheduler$kubernetes:apps/v1:Deployment",
)
"""Ends of the types of operator, CRDs, namespace and running scheduler, with the component where it matters."""
CATALOG = '{"catalog": {"address": "127.0.0.1:50051"}}'


@pytest.mark.parametrize(
    ("stack", "mode"),
    [
        ("manifests", "direct"),
        *(
            pytest.param(stack, mode, marks=SLOW)
            for stack in ("manifests", "direct", "catalog", "olm", "none-upstream")
            for mode in ("manifests", "direct", "catalog", "olm", "none")
            if (stack, mode) != ("manifests", "direct")
        ),
    ],
)
def test_a_preview_refuses_exactly_the_removals_that_the_engine_plans(project: Project, stack: str, mode: str) -> None:
    """With `allowRemoval` the engine says what it would delete; without it the preview fails and names the same."""
    recorded(project, stack)
    values = {"installMode": mode}
    if stack != mode:  # each recorded stack has what its own mode needs
        values["operator"] = CATALOG if mode == "catalog" else "{}"
    if mode == "manifests":
        values["operatorImage"] = "localhost/secondary-scheduler/operator:0.2.0"
    for key, value in values.items():
        project.ok("config", "set", "--stack", stack, key, value)
    project.ok("config", "set", "--stack", stack, "allowRemoval", "true")
    # What goes before the record of the mode is replaced is shown with this option only.
    plan = json.loads(project.ok("preview", "--stack", stack, "--json", "--show-replacement-steps"))
    steps = plan["steps"]
    gone = [step["oldState"] for step in steps if step["op"] in {"delete", "delete-replaced", "replace"}]
    planned = {old["outputs"]["metadata"]["name"] for old in gone if old["urn"].split("::")[2].endswith(PROTECTED)}
    project.ok("config", "rm", "--stack", stack, "allowRemoval")
    refused = project.run("preview", "--stack", stack, "--color", "never")
    text = refused.stdout + refused.stderr
    assert (refused.returncode != 0) == bool(planned), text
    named = re.findall(
        r"^ *(?:Namespace|CustomResourceDefinition|SecondaryScheduler|Subscription|Deployment) (\S+), ", text, re.M
    )
    assert {name.rpartition("/")[2] for name in named} == planned, text
