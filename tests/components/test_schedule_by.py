"""The transform that has a program's own workloads scheduled by this scheduler."""

from __future__ import annotations

import asyncio
from typing import Any

import pulumi
import pytest

import components

NAME = "secondary-scheduler"
POD = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATED = ["apps/v1:Deployment", "apps/v1:StatefulSet", "apps/v1:ReplicaSet", "batch/v1:Job"]


def transformed(kind: str, props: dict[str, Any], **options: Any) -> dict[str, Any] | None:
    """The properties that a resource gets; None where they stay."""
    transform = components.schedule_by(NAME, **options)
    args = pulumi.ResourceTransformArgs(True, f"kubernetes:{kind}", "x", props, pulumi.ResourceOptions())
    result = transform(args)
    assert not asyncio.iscoroutine(result)
    return None if result is None else dict(result.props)


def workload(spec: dict[str, Any] | None = None, namespace: Any = "shop") -> dict[str, Any]:
    return {"metadata": {"namespace": namespace}, "spec": {"replicas": 2, "template": {"spec": spec or POD}}}


@pytest.mark.parametrize("kind", TEMPLATED)
def test_templates_get_the_name_and_nothing_else_changes(kind: str) -> None:
    props = workload()
    changed = transformed(kind, props)
    assert changed is not None
    assert changed["spec"]["template"]["spec"] == {**POD, "schedulerName": NAME}
    assert changed["metadata"] is props["metadata"]
    assert changed["spec"]["replicas"] == 2
    assert "schedulerName" not in str(props)


def test_a_cron_job_and_a_pod_get_it_where_they_have_their_pods() -> None:
    cron = {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": POD}}}}}
    changed = transformed("batch/v1:CronJob", cron)
    assert changed is not None
    assert changed["spec"]["jobTemplate"]["spec"]["template"]["spec"]["schedulerName"] == NAME
    changed = transformed("core/v1:Pod", {"spec": POD})
    assert changed is not None
    assert changed["spec"]["schedulerName"] == NAME


@pytest.mark.parametrize(
    "kind", ["apps/v1:DaemonSet", "apps/v1:DeploymentList", "apps/v1:DeploymentPatch", "core/v1:ConfigMap"]
)
def test_other_kinds_stay(kind: str) -> None:
    assert transformed(kind, workload()) is None


@pytest.mark.parametrize(
    "spec",
    [
        {**POD, "schedulerName": "volcano"},
        {**POD, "schedulerName": "default-scheduler"},
        {**POD, "nodeName": "n"},
        {**POD, "priorityClassName": "system-node-critical"},
    ],
    ids=["another scheduler", "the default one by name", "a node", "a priority of the system"],
)
def test_a_template_that_must_not_be_moved_stays(spec: dict[str, Any]) -> None:
    assert transformed("apps/v1:Deployment", workload(spec)) is None


def test_namespaces_and_kinds_limit_it() -> None:
    assert transformed("apps/v1:Deployment", workload(), namespaces=["shop"]) is not None
    assert transformed("apps/v1:Deployment", workload(), namespaces=["other"]) is None
    assert transformed("apps/v1:Deployment", {"spec": workload()["spec"]}, namespaces=["default"]) is not None
    assert transformed("apps/v1:Deployment", workload(), kinds=["Job"]) is None
    assert transformed("apps/v1:Deployment", workload(), namespaces=[]) is None
    with pytest.raises(ValueError, match="DaemonSet: not among Deployment"):
        components.schedule_by(NAME, kinds=["DaemonSet"])


@pytest.fixture
def resolved() -> Any:
    """Returns what an Output becomes."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield lambda output: loop.run_until_complete(output.future())
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.parametrize(("wanted", "names"), [(["shop"], NAME), (["other"], None)])
def test_what_is_known_later_is_decided_later(resolved: Any, wanted: list[str], names: str | None) -> None:
    props = workload(namespace=pulumi.Output.from_input("shop"))
    changed = transformed("apps/v1:Deployment", props, namespaces=wanted)
    assert changed is not None
    assert resolved(changed["spec"])["template"]["spec"].get("schedulerName") == names
    props = {"metadata": {}, "spec": {"template": pulumi.Output.from_input({"spec": POD})}}
    changed = transformed("apps/v1:Deployment", props)
    assert changed is not None
    assert resolved(changed["spec"]["template"])["spec"]["schedulerName"] == NAME
