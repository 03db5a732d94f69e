"""Server-side apply: field ownership, and whose fields are taken over."""

from __future__ import annotations

from typing import Any

from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object
from devcluster.pulumi_stand_ins.kubernetes_provider.writes import (
    is_fresh,
    is_owned,
    take_over_fields,
)

OURS = "pulumi-kubernetes-1234"


def entry(manager: str, operation: str = "Update", fields: Any = None, **more: Any) -> Object:
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields or {}, **more}


def live(*entries: Object) -> Object:
    return {"metadata": {"managedFields": list(entries)}}


def test_fields_created_by_post_become_ours_under_apply() -> None:
    created = entry(OURS, fields={"f:data": {".": {}, "f:a": {}}})
    assert take_over_fields(live(created), OURS) == [{**created, "operation": "Apply"}]


def test_kubectls_changes_are_merged_into_ours_and_others_stay() -> None:
    theirs = entry("controller", fields={"f:status": {}}, subresource="status")
    entries = take_over_fields(
        live(
            entry(OURS, "Apply", {"f:data": {"f:a": {}}}),
            entry("kubectl-edit", fields={"f:data": {"f:b": {}}}),
            theirs,
        ),
        OURS,
    )
    assert entries is not None
    assert [e["manager"] for e in entries] == [OURS, "controller"]
    assert entries[0]["fieldsV1"] == {"f:data": {"f:a": {}, "f:b": {}}}
    assert entries[1] == theirs


def test_fields_of_other_managers_and_subresources_are_left_alone() -> None:
    status = entry("kubectl-edit", fields={"f:status": {}}, subresource="status")
    assert take_over_fields(live(entry(OURS, "Apply"), entry("autoscaler"), status), OURS) is None


def test_fields_created_under_a_chosen_manager_name_become_ours_too() -> None:
    entries = take_over_fields(live(entry("chosen", fields={"f:data": {}})), "chosen")
    assert entries is not None
    assert entries[0]["operation"] == "Apply"


def test_an_object_is_fresh_until_its_first_update() -> None:
    assert is_fresh(live(entry("pulumi-kubernetes"), entry("kubectl-edit")))
    assert not is_fresh(live(entry(OURS, "Apply"), entry("kubectl-edit")))
    assert not is_fresh(live(entry("pulumi-kubernetes", subresource="status")))


def test_owners_of_a_field() -> None:
    obj = live(entry(OURS, "Apply", {"f:data": {"f:a": {}}}), entry("autoscaler", fields={"f:data": {"f:b": {}}}))
    assert is_owned(obj, ("data", "a"), by=OURS)
    assert not is_owned(obj, ("data", "b"), by=OURS)
    assert is_owned(obj, ("data", "b"), except_by=OURS)
    assert not is_owned(obj, ("data", "a"), except_by=OURS)
