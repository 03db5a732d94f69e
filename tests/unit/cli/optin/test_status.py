"""`opt-in status`: what is counted, and what a hostile tenant cannot do to it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from scheduler.kube.model import LabelSelector, LabelSelectorRequirement, compiled_selector
from scheduler.kube.primitives import Selector
from secondary_scheduler.cli.optin.rendering import status_lines
from secondary_scheduler.cli.optin.status import MAX_NAMES, OTHERS, Census
from secondary_scheduler.cli.optinpolicies import Binding, OptInPolicy

NOW = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
OLD, YOUNG = "2026-11-24T11:00:00Z", "2026-11-24T11:59:30Z"
LABEL = {"secondary-scheduler.io/pods": "true"}
TEMPLATE = ("spec", "template", "spec")


def selecting(key: str, *values: str, operator: str = "In") -> Selector:
    return compiled_selector(LabelSelector(match_expressions=(LabelSelectorRequirement(key, operator, values),)))


POLICY = OptInPolicy(
    "p",
    "mine",
    selecting("kubernetes.io/metadata.name", "kube-system", "kept", operator="NotIn"),
    selecting("secondary-scheduler.io/pods", "false", operator="NotIn"),
    (Binding(selecting("secondary-scheduler.io/pods", "true"), Selector(), "…"),),
)


def census(**labels: dict[str, str]) -> Census:
    namespaces = {"shop": LABEL, "other": {}, "kept": LABEL, "kube-system": LABEL, "openshift-x": LABEL} | labels
    return Census([POLICY], namespaces, NOW)


def pod(namespace: str = "shop", *, owner: str = "ReplicaSet", created: str = OLD, **fields: Any) -> dict[str, Any]:
    owners = [{"kind": owner, "controller": True}] if owner else []
    metadata = {"name": "p", "namespace": namespace, "ownerReferences": owners, "creationTimestamp": created}
    metadata |= {"labels": fields.pop("labels", {})}
    status = {"phase": fields.pop("phase", "Running"), "conditions": fields.pop("conditions", [])}
    return {"metadata": metadata, "spec": {"nodeName": "n", **fields}, "status": status}


def moving(*pods: dict[str, Any]) -> dict[str, int]:
    counted = census()
    for each in pods:
        counted.add_pod(each)
    return {name: status.moving for name, status in counted.namespaces.items() if status.moving}


def test_pods_that_a_controller_makes_anew_move_in_namespaces_that_opted_in() -> None:
    assert moving(pod(), pod(), pod("other"), pod("kept"), pod("kube-system"), pod("openshift-x")) == {"shop": 2}


def test_pods_that_policies_leave_alone_do_not_move() -> None:
    assert not moving(
        pod(owner="DaemonSet"),
        pod(owner=""),
        pod(schedulerName="mine"),
        pod(schedulerName="volcano"),
        pod(priorityClassName="system-node-critical"),
        pod(labels={"secondary-scheduler.io/pods": "false"}),
        pod(phase="Succeeded"),
    )


def test_pods_and_templates_are_counted_by_scheduler() -> None:
    counted = census()
    for each in (pod(), pod(schedulerName="mine"), pod(schedulerName="mine", phase="Failed"), pod("gone")):
        counted.add_pod(each)
    web = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"template": {"spec": {"schedulerName": "mine"}}}}
    of_web = {**web, "metadata": {**web["metadata"], "ownerReferences": [{"controller": True}]}}
    for item in (web, of_web):
        counted.add_template(item, TEMPLATE)
    shop = counted.namespaces["shop"]
    assert dict(shop.pods) == {"default-scheduler": 1, "mine": 1}
    assert dict(shop.templates) == {"mine": 1}
    assert shop.opted_in == ("mine",)
    assert counted.namespaces["kept"].opted_in == ()


def unserved(*pods: dict[str, Any], served: tuple[str, ...] = ()) -> dict[str, int]:
    counted = census()
    counted.serve(served)
    for each in pods:
        counted.add_pod(each)
    return {entry.name: entry.waiting for entry in counted.status().unserved}


def waiting(name: str, **fields: Any) -> dict[str, Any]:
    return pod(schedulerName=name, nodeName="", phase="Pending", **fields)


def test_a_name_is_served_by_nobody_if_old_pods_wait_without_an_attempt() -> None:
    tried = [{"type": "PodScheduled", "status": "False"}]
    assert unserved(waiting("typo"), waiting("typo")) == {"typo": 2}
    assert unserved(waiting("busy", created=YOUNG)) == {}
    assert unserved(waiting("full", conditions=tried)) == {}
    assert unserved(waiting("gated", schedulingGates=[{"name": "g"}])) == {}
    # Once served, and now by nobody: what was placed then is no proof.
    assert unserved(pod(schedulerName="gone"), waiting("gone"), served=("gone",)) == {"gone": 1}


def test_a_name_that_only_templates_have_is_told_unless_somebody_serves_it() -> None:
    template = {
        "spec": {"template": {"spec": {"schedulerName": "mine"}}},
        "metadata": {"name": "w", "namespace": "shop"},
    }
    counted = census()
    counted.add_template(template, TEMPLATE)
    (unserved,) = counted.status().unserved
    assert (unserved.name, unserved.templates, unserved.examples) == ("mine", 1, ["shop/w"])
    counted.serve(["mine"])
    assert counted.status().unserved == []


def test_a_tenant_with_endless_names_fills_neither_memory_nor_screen() -> None:
    counted = census()
    for number in range(5 * MAX_NAMES):
        counted.add_pod(waiting(f"name-{number}"))
    shop = counted.namespaces["shop"]
    assert len(shop.pods) <= MAX_NAMES + 1
    assert shop.pods[OTHERS] == 4 * MAX_NAMES
    assert len(counted.status().unserved) <= MAX_NAMES + 1
    (row,) = [line for line in status_lines(counted.status()) if line.startswith("shop")]
    assert len(row) < 300


def test_names_are_shown_as_text_only() -> None:
    counted = Census([], {"shop": {}}, NOW)
    counted.add_pod(waiting("a\x1b[31mb\nc"))
    text = "\n".join(status_lines(counted.status()))
    assert "\x1b" not in text
    assert "a�[31mb�c" in text


def test_an_odd_object_does_not_end_the_count() -> None:
    counted = census()
    for odd in ({}, {"metadata": {}}, {"metadata": {"namespace": "shop"}, "spec": None, "status": None}):
        counted.add_pod(odd)
        counted.add_template(odd, TEMPLATE)
    counted.add_pod(pod(created="yesterday", nodeName="", schedulerName="x"))
    assert counted.namespaces["shop"].pods == {"default-scheduler": 1, "x": 1}
