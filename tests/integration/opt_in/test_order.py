"""The engine's order on a real API server: policies come last, and go first."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from tests.integration.opt_in.support import GROUP, Server
from tests.integration.pulumi_stand_ins.engine import Engine

pytestmark = [pytest.mark.integration, pytest.mark.slow]
CHECKOUT = Path(__file__).parents[3]
# In the scheduler's place stands an account, which is changed where it is, as a SecondaryScheduler is.
PROGRAM = """
import json
import pulumi
import pulumi_kubernetes as k8s
import components
from components.settings import OptInSettings, plan_opt_in

name, namespace = json.load(open("spec.json"))
settings = OptInSettings.model_validate_json('{"mechanism": "policy", "guard": "Deny"}')
plan, _ = plan_opt_in(settings, [name], 34)
opts = pulumi.ResourceOptions(providers=[components.ClusterProvider("cluster", cluster_identifier="tests")])
record = components.OptInRecord("record", components.OptInRecordArgs(namespace, plan), opts)
scheduler = k8s.core.v1.ServiceAccount(
    "scheduler",
    metadata={"name": "scheduler", "namespace": namespace, "annotations": {"serves": name}},
    opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[record])),
)
components.OptIn("opt-in", components.OptInArgs(plan, namespace, record.policy_prefix, [record, scheduler]), opts)
"""
_STEP = re.compile(r"^ *[-+~]+ +kubernetes:\S+:(\w+) .*?(created|updated|deleted|replaced)", re.MULTILINE)


def steps(output: str) -> list[tuple[str, str]]:
    """Kinds and what was done to them, in the order in which it was done."""
    return _STEP.findall(output)


@pytest.fixture
def engine(tmp_path: Path, gated: Server) -> Engine:
    pulumi = binaries.ensure(["pulumi"], SilentReporter())["pulumi"]
    engine = Engine(tmp_path, gated.cluster, pulumi, gated.namespace())
    engine.env["PYTHONPATH"] = os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")])
    (engine.program / "__main__.py").write_text(PROGRAM)
    return engine


def serve(engine: Engine, name: str) -> None:
    (engine.program / "spec.json").write_text(f'["{name}", "{engine.namespace}"]')


def first(found_steps: list[tuple[str, str]], kind: str, done: str) -> int:
    return found_steps.index((kind, done))


def last(found_steps: list[tuple[str, str]], kinds: Callable[[str], bool], done: str) -> int:
    return max(index for index, step in enumerate(found_steps) if kinds(step[0]) and step[1] == done)


def is_policy(kind: str) -> bool:
    return kind.startswith("MutatingAdmissionPolicy")


def test_policies_follow_the_scheduler_and_go_before_it_is_renamed_or_removed(engine: Engine, gated: Server) -> None:
    serve(engine, "one")
    created = steps(engine.up().output)
    assert first(created, "ConfigMap", "created") < first(created, "ServiceAccount", "created")
    assert first(created, "ServiceAccount", "created") < first(created, "MutatingAdmissionPolicy", "created")
    engine.expect_no_changes()
    serve(engine, "two")
    renamed = steps(engine.up().output)
    assert last(renamed, is_policy, "deleted") < first(renamed, "ServiceAccount", "updated"), renamed
    assert first(renamed, "ServiceAccount", "updated") < first(renamed, "MutatingAdmissionPolicy", "created"), renamed
    policies = gated.call("GET", f"{GROUP}/v1beta1/mutatingadmissionpolicies")["items"]
    assert [each["metadata"]["name"] for each in policies] == ["secondary-scheduler-opt-in.two"]
    engine.expect_no_changes()
    removed = steps(engine.destroy().output)
    assert last(removed, is_policy, "deleted") < first(removed, "ServiceAccount", "deleted"), removed
    assert gated.call("GET", f"{GROUP}/v1beta1/mutatingadmissionpolicies")["items"] == []
