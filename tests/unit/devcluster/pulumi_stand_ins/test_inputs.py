"""Naming, default namespace, the server's form, and what is refused."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from devcluster.pulumi_stand_ins.kubernetes_provider.inputs import (
    CheckResult,
    Naming,
    NamingMode,
    check,
    refreshed,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.objects import namespaced_built_in
from devcluster.pulumi_stand_ins.kubernetes_provider.values import UNKNOWN, Object, secret

SEED = b"seed"


def checked(inputs: Object, old: Object | None = None, naming: Naming | None = None) -> CheckResult:
    return check(
        inputs,
        old or {},
        naming=naming or Naming("app", SEED),
        default_namespace="home",
        is_namespaced=lambda version, kind: namespaced_built_in(version, kind) is not False,
    )


def config_map(metadata: Any = None, **more: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", **({} if metadata is None else {"metadata": metadata}), **more}


def test_a_nameless_object_gets_the_resources_name_and_eight_hex_digits() -> None:
    metadata = checked(config_map()).inputs["metadata"]
    prefix, _, suffix = metadata["name"].rpartition("-")
    assert prefix == "app"
    assert len(bytes.fromhex(suffix)) == 4
    assert metadata["annotations"] == {"pulumi.com/autonamed": "true"}


def test_the_same_seed_gives_the_same_name_and_another_seed_another() -> None:
    assert Naming("a", SEED).name() == Naming("a", SEED).name()
    assert Naming("a", SEED).name() != Naming("a", b"other").name()
    assert Naming("a").name() != Naming("a").name()


def test_an_autonamed_object_keeps_its_name_and_a_replacement_gets_a_new_one() -> None:
    old = checked(config_map()).inputs
    assert checked(config_map(), old, Naming("app", b"later")).inputs["metadata"]["name"] == old["metadata"]["name"]
    assert checked(config_map(), None, Naming("app", b"later")).inputs["metadata"]["name"] != old["metadata"]["name"]


def test_the_engines_proposal_is_taken() -> None:
    naming = Naming("app", SEED, "stack-app", NamingMode.ENFORCE)
    assert checked(config_map(), naming=naming).inputs["metadata"]["name"] == "stack-app"


def test_disabled_naming_asks_for_a_name() -> None:
    failures = checked(config_map(), naming=Naming("app", SEED, "", NamingMode.DISABLE)).failures
    assert [failure.property for failure in failures] == ["metadata.name"]
    assert "give metadata.name" in failures[0].reason


@pytest.mark.parametrize("metadata", [{"name": "given"}, {"generateName": "given-"}, {"name": UNKNOWN}])
def test_a_given_name_is_left_alone(metadata: Object) -> None:
    assert "annotations" not in checked(config_map(metadata)).inputs["metadata"]


def test_the_default_namespace_is_for_namespaced_kinds_without_one() -> None:
    assert checked(config_map({"name": "a"})).inputs["metadata"]["namespace"] == "home"
    assert checked(config_map({"name": "a", "namespace": "given"})).inputs["metadata"]["namespace"] == "given"
    cluster_role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"}}
    assert "namespace" not in checked(cluster_role).inputs["metadata"]


def test_metadata_that_is_not_known_yet_is_left_alone() -> None:
    assert checked(config_map(UNKNOWN)).inputs["metadata"] == UNKNOWN


def test_null_fields_are_dropped() -> None:
    assert "immutable" not in checked(config_map({"name": "a"}, immutable=None)).inputs


def a_secret(**fields: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **fields}


def test_string_data_becomes_data_and_its_secrecy_covers_all_of_it() -> None:
    inputs = checked(a_secret(stringData={"token": secret("t")}, data={"a": "YQ=="})).inputs
    assert "stringData" not in inputs
    assert inputs["data"] == secret({"a": "YQ==", "token": base64.b64encode(b"t").decode()})


def test_string_data_that_is_not_known_yet_waits() -> None:
    inputs = checked(a_secret(stringData={"token": secret(UNKNOWN)})).inputs
    assert inputs["stringData"] == {"token": secret(UNKNOWN)}


def test_secrets_stay_marked_where_they_were() -> None:
    inputs = checked(config_map({"name": "a"}, data={"token": secret("t"), "plain": "p"})).inputs
    assert inputs["data"] == {"token": secret("t"), "plain": "p"}


@pytest.mark.parametrize(
    ("inputs", "path", "reason"),
    [
        ({"kind": "ConfigMap"}, "apiVersion", "needs apiVersion"),
        ({"apiVersion": "v1"}, "kind", "needs kind"),
        (config_map("text"), "metadata", "must be an object"),
        (config_map({"name": "a"}, data={"n": 3}), "data.n", "must be a string, not int"),
        (config_map({"name": "a", "labels": {"n": True}}), "metadata.labels.n", "must be a string, not bool"),
        (a_secret(data={"token": "not base64!"}), "data.token", "use stringData"),
        (
            config_map({"name": "a", "annotations": {"pulumi.com/waitFor": "Ready"}}),
            'metadata.annotations["pulumi.com/waitFor"]',
            "condition=",
        ),
        (
            config_map({"name": "a", "annotations": {"pulumi.com/timeoutSeconds": "5m"}}),
            'metadata.annotations["pulumi.com/timeoutSeconds"]',
            "whole number",
        ),
    ],
)
def test_what_cannot_be_right_is_refused_with_its_property(inputs: Object, path: str, reason: str) -> None:
    failures = checked(inputs).failures
    assert [failure.property for failure in failures] == [path]
    assert reason in failures[0].reason


def test_a_refusal_does_not_show_the_value() -> None:
    failure = checked(a_secret(stringData={"token": secret(12345)})).failures[0]
    assert "12345" not in failure.reason


def test_a_refresh_takes_over_what_changed_and_keeps_what_the_server_never_shows() -> None:
    inputs = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {}},
        "spec": {"replicas": 1, "hostNetwork": False, "gone": "x"},
    }
    live = {**inputs, "metadata": {"name": "d", "uid": "u"}, "spec": {"replicas": 3, "defaulted": 1}, "status": {}}
    assert refreshed(inputs, live) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {}},
        "spec": {"replicas": 3, "hostNetwork": False},
    }


def test_a_refresh_never_sees_what_was_appended_to_a_list() -> None:
    inputs = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [{"verbs": ["get"]}]}
    live = {**inputs, "rules": [{"verbs": ["list"]}, {"verbs": ["delete"]}]}
    assert refreshed(inputs, live)["rules"] == [{"verbs": ["list"]}]
