"""The provider's arguments, and which changes of them mean another cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.pulumi_stand_ins.kubernetes_provider.settings import (
    ProviderSettings,
    changed_settings,
    check_settings,
    client_config,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.values import UNKNOWN, secret
from scheduler.kube.client import ConfigError


def kubeconfig(server: str = "https://one", token: str = "t", **cluster: Any) -> str:
    def named(section: str, name: str, value: dict[str, Any]) -> dict[str, Any]:
        return {"name": name, section: value}

    return yaml.safe_dump(
        {
            "current-context": "one",
            "clusters": [
                named("cluster", "one", {"server": server, **cluster}),
                named("cluster", "two", {"server": "https://two"}),
            ],
            "users": [named("user", "me", {"token": token})],
            "contexts": [
                named("context", "one", {"cluster": "one", "user": "me", "namespace": "home"}),
                named("context", "two", {"cluster": "two", "user": "me"}),
            ],
        }
    )


def test_settings_come_from_json_encoded_variables() -> None:
    variables = {
        "kubernetes:config:kubeconfig": "k",
        "kubernetes:config:enableConfigMapMutable": "true",
        "kubernetes:config:enableSecretMutable": "false",
        "kubernetes:config:namespace": "n",
        "other:config:namespace": "x",
    }
    settings = ProviderSettings.from_variables(variables)
    assert (settings.kubeconfig, settings.namespace) == ("k", "n")
    assert settings.mutable_kinds == {"ConfigMap"}


@pytest.mark.parametrize(
    ("old", "new", "changed", "replaces"),
    [
        ({}, {}, [], []),
        ({"kubeconfig": kubeconfig()}, {"kubeconfig": kubeconfig()}, [], []),
        ({"kubeconfig": kubeconfig()}, {"kubeconfig": kubeconfig(token="rotated")}, ["kubeconfig"], []),
        ({"kubeconfig": kubeconfig()}, {"kubeconfig": kubeconfig("https://other")}, ["kubeconfig"], ["kubeconfig"]),
        (
            {"kubeconfig": kubeconfig()},
            {"kubeconfig": kubeconfig(**{"tls-server-name": "x"})},
            ["kubeconfig"],
            ["kubeconfig"],
        ),
        ({"kubeconfig": kubeconfig()}, {"kubeconfig": UNKNOWN}, ["kubeconfig"], ["kubeconfig"]),
        ({}, {"kubeconfig": kubeconfig()}, ["kubeconfig"], []),
        ({"kubeconfig": kubeconfig()}, {"kubeconfig": kubeconfig(), "context": "two"}, ["context"], ["context"]),
        ({"kubeconfig": kubeconfig()}, {"kubeconfig": kubeconfig(), "context": "absent"}, ["context"], []),
        ({"kubeconfig": kubeconfig()}, {"kubeconfig": kubeconfig(), "cluster": "two"}, ["cluster"], ["cluster"]),
        ({"namespace": "a"}, {"namespace": "b"}, ["namespace"], []),
        ({"clusterIdentifier": "a"}, {"clusterIdentifier": "b"}, ["clusterIdentifier"], ["clusterIdentifier"]),
        ({}, {"clusterIdentifier": "a"}, ["clusterIdentifier"], []),
        ({"clusterIdentifier": "a"}, {}, ["clusterIdentifier"], []),
        (
            {"clusterIdentifier": "a", "kubeconfig": kubeconfig()},
            {"clusterIdentifier": "a", "kubeconfig": kubeconfig("https://other")},
            ["kubeconfig"],
            [],
        ),
        (
            {"clusterIdentifier": "a", "kubeconfig": kubeconfig()},
            {"clusterIdentifier": "b", "kubeconfig": kubeconfig("https://other")},
            ["clusterIdentifier", "kubeconfig"],
            ["clusterIdentifier", "kubeconfig"],
        ),
        (
            {"clusterIdentifier": "a", "kubeconfig": kubeconfig()},
            {"kubeconfig": kubeconfig("https://other")},
            ["clusterIdentifier", "kubeconfig"],
            ["kubeconfig"],
        ),
        ({"version": "4.29.0"}, {"version": "4.30.0"}, [], []),
    ],
)
def test_only_another_cluster_replaces(old: Any, new: Any, changed: list[str], replaces: list[str]) -> None:
    assert changed_settings(old, new) == (changed, replaces)


def test_a_secret_kubeconfig_is_compared_by_content() -> None:
    assert changed_settings({"kubeconfig": secret(kubeconfig())}, {"kubeconfig": kubeconfig()}) == ([], [])


def test_strict_mode_forbids_the_default_provider_and_asks_for_kubeconfig_and_context() -> None:
    failures = check_settings({"strictMode": "true"}, provider_name="default_4_30_0")
    assert [failure.property for failure in failures] == ["strictMode", "kubeconfig", "context"]
    complete = {"strictMode": "true", "kubeconfig": "k", "context": "c"}
    assert check_settings(complete, provider_name="cluster") == []


@pytest.mark.parametrize("arguments", [{"renderYamlToDirectory": "out"}, {"enableServerSideApply": "false"}])
def test_what_the_stand_in_cannot_do_is_refused(arguments: dict[str, str]) -> None:
    (failure,) = check_settings(arguments, provider_name="cluster")
    assert "stand-in provider" in failure.reason


def test_a_kubeconfig_is_content_or_a_path(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig())
    one_line = json.dumps(yaml.safe_load(kubeconfig()))
    for text in (kubeconfig(), one_line, str(file)):
        config = client_config(text, context=None, cluster=None)
        assert (config.server, config.namespace, config.token) == ("https://one", "home", "t")
    assert client_config(str(file), context="two", cluster=None).server == "https://two"
    assert client_config(str(file), context="two", cluster=None).namespace == "default"
    assert client_config(str(file), context=None, cluster="two").server == "https://two"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/does/not/exist", "No such file"),
        ("a: [\n", "not valid YAML"),
        ("a: b\n", "no current-context"),
        (kubeconfig().replace("current-context: one", "current-context: absent"), "no context 'absent'"),
        (kubeconfig().replace("cluster: one", "cluster: absent"), "no cluster 'absent'"),
        (kubeconfig().replace("token: t", "exec: {command: x}"), "exec is not supported"),
    ],
)
def test_an_unusable_kubeconfig_is_explained(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        client_config(text, context=None, cluster=None)
