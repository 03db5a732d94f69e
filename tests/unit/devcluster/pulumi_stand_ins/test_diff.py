"""What counts as a change, and which changes replace."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.pulumi_stand_ins.kubernetes_provider.diff import ChangeKind, Difference, difference
from devcluster.pulumi_stand_ins.kubernetes_provider.values import UNKNOWN, Object, parse, render

MUTABLE = frozenset({"ConfigMap", "Secret"})


def config_map(data: Object, name: str = "cm", **more: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "a"}, "data": data, **more}


def thing(spec: Object, kind: tuple[str, str] = ("example.com/v1", "Thing")) -> Object:
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "t", "namespace": "a"}, "spec": spec}


def compare(old: Object, new: Object, live: Object | None = None, **options: Any) -> Difference:
    return difference(old if live is None else live, old, new, **options)


def shown(diff: Difference) -> dict[str, ChangeKind]:
    return {render(change.path): change.kind for change in diff.changes}


def test_server_set_fields_are_no_change() -> None:
    live = thing({"a": 1, "defaulted": 2}) | {"status": {"ready": True}}
    live["metadata"] = live["metadata"] | {"uid": "u", "labels": {"added": "x"}}
    assert compare(thing({"a": 1}), thing({"a": 1}), live).changes == []


def test_additions_removals_and_updates_are_distinguished() -> None:
    diff = compare(thing({"keep": 1, "drop": 1, "list": [1]}), thing({"keep": 2, "new": 1, "list": [1, 2]}))
    assert shown(diff) == {
        "spec.drop": ChangeKind.DELETE,
        "spec.keep": ChangeKind.UPDATE,
        "spec.list[1]": ChangeKind.ADD,
        "spec.new": ChangeKind.ADD,
    }


def test_what_a_refresh_saw_is_a_change() -> None:
    assert shown(compare(thing({"a": 1}), thing({"a": 1}), thing({"a": 5}))) == {"spec.a": ChangeKind.UPDATE}


def test_true_is_not_one() -> None:
    assert shown(compare(thing({"a": 1}), thing({"a": True}))) == {"spec.a": ChangeKind.UPDATE}


def test_an_unknown_value_is_a_change() -> None:
    assert shown(compare(thing({"a": "x"}), thing({"a": UNKNOWN}))) == {"spec.a": ChangeKind.UPDATE}


POD_SPEC = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}}}]}
LIVE_SPEC = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}


def test_a_quantity_spelled_by_the_server_in_another_way_is_no_change_in_a_built_in_kind() -> None:
    pod = thing(POD_SPEC, ("v1", "Pod"))
    assert compare(pod, pod, thing(LIVE_SPEC, ("v1", "Pod"))).changes == []
    custom = thing(POD_SPEC)
    assert len(compare(custom, custom, thing(LIVE_SPEC)).changes) == 2


@pytest.mark.parametrize(
    ("a", "b", "same"), [("0.5", "500m", True), (2, "2", True), ("1G", "1Gi", False), ("1k", "1000", True)]
)
def test_quantities_compare_by_value(a: Any, b: Any, same: bool) -> None:
    old, new = (thing({"hard": {"x": value}}, ("v1", "ResourceQuota")) for value in (a, b))
    assert (compare(old, new).changes == []) is same


def test_empty_values_that_the_server_leaves_out_are_no_change_in_a_built_in_kind() -> None:
    requested = thing({"hostNetwork": False, "env": [], "name": "x"}, ("apps/v1", "Deployment"))
    live = thing({"name": "x"}, ("apps/v1", "Deployment"))
    assert compare(requested, requested, live).changes == []
    assert shown(compare(live, requested, live)) == {"spec.env": ChangeKind.ADD, "spec.hostNetwork": ChangeKind.ADD}


def test_a_custom_resource_keeps_what_it_was_given_so_an_empty_value_is_a_change() -> None:
    assert shown(compare(thing({"map": {}}), thing({"map": {}}), thing({}))) == {"spec.map": ChangeKind.ADD}


def test_ignored_paths_are_left_out() -> None:
    diff = compare(thing({"a": 1, "b": 1}), thing({"a": 2, "b": 2}), ignore=[parse("spec.a")])
    assert shown(diff) == {"spec.b": ChangeKind.UPDATE}


def test_a_namespace_means_nothing_for_a_cluster_scoped_kind() -> None:
    old, new = thing({}), thing({})
    del new["metadata"]["namespace"]
    assert compare(old, new, cluster_scoped=True).changes == []


def test_a_rename_replaces_and_the_old_object_may_go_last() -> None:
    diff = compare(config_map({}, "old"), config_map({}, "new"))
    assert diff.replaces
    assert not diff.delete_first


def test_config_map_content_replaces_in_place_of_a_fixed_name() -> None:
    diff = compare(config_map({"a": "1"}), config_map({"a": "2"}))
    assert diff.replaces
    assert diff.delete_first


def test_an_autonamed_config_map_is_made_before_the_old_one_goes() -> None:
    old, new = config_map({"a": "1"}), config_map({"a": "2"})
    for obj in (old, new):
        obj["metadata"]["annotations"] = {"pulumi.com/autonamed": "true"}
    diff = compare(old, new)
    assert diff.replaces
    assert not diff.delete_first


def test_mutable_content_is_updated_unless_the_object_is_immutable() -> None:
    assert not compare(config_map({"a": "1"}), config_map({"a": "2"}), mutable_kinds=MUTABLE).replaces
    sealed = config_map({"a": "1"}, immutable=True)
    assert compare(sealed, config_map({"a": "2"}, immutable=True), mutable_kinds=MUTABLE).replaces
    assert compare(sealed, config_map({"a": "1"}), mutable_kinds=MUTABLE).replaces
    assert not compare(config_map({"a": "1"}), sealed, mutable_kinds=MUTABLE).replaces


def test_labels_never_replace() -> None:
    new = config_map({})
    new["metadata"]["labels"] = {"a": "b"}
    assert not compare(config_map({}), new).replaces


@pytest.mark.parametrize(
    ("kind", "field", "replaces"),
    [
        (("apps/v1", "Deployment"), {"selector": {"matchLabels": {"a": "b"}}}, True),
        (("apps/v1", "Deployment"), {"template": {"a": "b"}}, False),
        (("apps/v1", "DaemonSet"), {"selector": {"matchLabels": {"a": "b"}}}, True),
        (("apps/v1", "StatefulSet"), {"serviceName": "s"}, True),
        (("batch/v1", "Job"), {"template": {"a": "b"}}, True),
        (("batch/v1", "Job"), {"suspend": True}, False),
        (("v1", "Service"), {"clusterIP": "10.0.0.1"}, True),
        (("v1", "Service"), {"ports": [1]}, False),
        (("v1", "PersistentVolumeClaim"), {"storageClassName": "s"}, True),
        (("v1", "Pod"), {"containers": [{"image": "new"}]}, True),
        (("v1", "Pod"), {"tolerations": [{}]}, False),
        (("example.com/v1", "Deployment"), {"selector": {"a": "b"}}, False),
    ],
)
def test_fields_that_need_a_new_object(kind: tuple[str, str], field: Object, replaces: bool) -> None:
    old = {"containers": [{"image": "old"}]} if "containers" in field else {}
    assert compare(thing(old, kind), thing(field, kind)).replaces is replaces


def test_a_binding_of_another_role_is_a_new_binding() -> None:
    def binding(role: str) -> Object:
        return thing({}, ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding")) | {"roleRef": {"name": role}}

    assert compare(binding("a"), binding("b")).delete_first


def test_the_type_of_a_secret_is_fixed_even_in_mutable_mode() -> None:
    def secret(kind: str) -> Object:
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": kind, "data": {}}

    assert compare(secret("Opaque"), secret("example.com/x"), mutable_kinds=MUTABLE).replaces
