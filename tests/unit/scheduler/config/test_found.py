# ruff: noqa: E501 -- tables whose rows are whole messages, one to a line
"""Configurations in files of all kinds, and what is said of files that hold none."""

import time
from pathlib import Path

import pytest

from scheduler.config import ConfigurationError, Manifests, find_configuration

ROOT = Path(__file__).parents[4]
CASES = ROOT / "tests/data/cases"
PLAIN = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: -3\nprofiles:\n- schedulerName: one\n"


def indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


def config_map(key: str = "config.yaml", name: str = "a") -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: b}}\ndata:\n  {key}: |\n{indented(PLAIN, 4)}"


def item(text: str) -> str:
    first, *others = text.splitlines()
    return f"- {first}\n{indented(chr(10).join(others), 2)}"


LIST = "apiVersion: v1\nkind: List\nitems:\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (PLAIN, ""),
        (f"---\n# mine\n{PLAIN}", ""),
        (f"{PLAIN}---\n", "the KubeSchedulerConfiguration in line 1"),
        (f"{SECRET}---\n{PLAIN}---\n{SECRET}", "the KubeSchedulerConfiguration in line 5"),
        (config_map(), "ConfigMap b/a, key config.yaml"),
        (config_map("other.yml"), "ConfigMap b/a, key other.yml"),
        (f"{SECRET}---\n{config_map()}", "ConfigMap b/a, key config.yaml"),
        (LIST + item(SECRET) + item(config_map()), "ConfigMap b/a, key config.yaml"),
        (LIST + item(PLAIN), "the KubeSchedulerConfiguration in line 4"),
        (config_map().replace("kind: ConfigMap", "kind: ConfigMap\nimmutable: true"), "ConfigMap b/a, key config.yaml"),
    ],
)  # fmt: skip
def test_a_configuration_is_found_wherever_it_stands_and_its_problems_have_their_place(text: str, title: str) -> None:
    embedded = find_configuration(text, "f")
    assert embedded.title == title
    with pytest.raises(ConfigurationError) as refused:
        embedded.load()
    (problem,) = refused.value.problems
    line = text.splitlines()[problem.line - 1]
    assert line[problem.column - 1 :].startswith("-3")


def test_what_is_found_can_be_loaded_without_its_surroundings() -> None:
    for text in (LIST + item(PLAIN), config_map(), f"{SECRET}---\n{PLAIN}"):
        assert find_configuration(text.replace("-3", "3"), "f").load().scheduler_names == ("one",)


def test_a_config_map_in_quotes_is_found_too() -> None:
    text = (
        config_map().partition("\ndata:")[0]
        + "\n"
        + "data: {config.yaml: "
        + repr(PLAIN.replace("-3", "3")).replace("'", '"')
        + "}\n"
    )
    assert find_configuration(text, "f").load().scheduler_names == ("one",)


def test_of_several_none_is_chosen_in_silence() -> None:
    with pytest.raises(
        ConfigurationError, match=r"holds 2 configurations; give one \(ConfigMap b/a, key config.yaml; ConfigMap b/c"
    ):
        find_configuration(f"{config_map()}---\n{config_map(name='c')}", "f")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Deployment\napiVersion: apps/v1\nspec: {}\n", "this is a Deployment of apps/v1, no configuration"),
        ("kind: Ingress\napiVersion: networking.k8s.io/v1\n", "this is an Ingress of networking.k8s.io/v1, no configuration"),
        ("apiVersion: v1\nkind: Config\nclusters: []\n", "this is a kubeconfig, no configuration"),
        ("apiVersion: v2\nname: a\nversion: 1.0.0\n", "this is a Helm chart's Chart.yaml, no configuration"),
        ("image: {repository: a}\nreplicaCount: 2\n", "these are Helm values, no configuration"),
        ("global: {}\nscheduler: {enabled: true}\nplugins: {enabled: [A]}\n", "these are Helm values, no configuration"),
        ("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: []\n", "this is a Kustomization, no configuration"),
        ("kind: Policy\napiVersion: v1\npredicates: []\n", "this is a Policy of kube-scheduler, which was removed in Kubernetes 1.23, no configuration"),
        (SECRET + "---\n" + SECRET.replace("Secret", "Service"), "these are a Secret of v1, a Service of v1, no configuration"),
        (LIST + item(SECRET), "this is a Secret of v1, no configuration"),
        ("apiVersion: v1\nkind: List\nitems: []\n", "this is an empty List, no configuration"),
        ("- a\n- b\n", "this is a list, no configuration"),
        ("colour: blue\nsize: 3\n", "this is a map without apiVersion and kind (its keys: colour, size), no configuration"),
        ((ROOT / "Pulumi.yaml").read_text(), "this is a Pulumi project (the settings are in Pulumi.STACK.yaml), no configuration"),
        (config_map().replace("KubeSchedulerConfiguration", "Other").replace("config.yaml", "x"), "the ConfigMap has no key config.yaml (its keys: x)"),
    ],
)  # fmt: skip
def test_any_other_file_is_called_what_it_is(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Manifests(text, "f").configurations()
    assert [problem.message for problem in refused.value.problems] == [message]
    assert "convert" not in str(refused.value)


@pytest.mark.parametrize("text", ["[" * 4_000, "[" + ("[" * 150 + "]" * 150 + ",\n ") * 3_000 + "]"])
def test_a_file_that_would_take_the_parser_minutes_is_refused_at_once(text: str) -> None:
    started = time.process_time()
    configuration = find_configuration(text, "f")
    assert time.process_time() - started < 1
    with pytest.raises(ConfigurationError, match="nested too deeply"):
        configuration.load()


def test_r18_helm_values_are_called_so() -> None:
    with pytest.raises(ConfigurationError, match="these are Helm values, no configuration"):
        find_configuration((CASES / "r18/config.yaml").read_text(), "f")


@pytest.mark.parametrize("text", ["", "a: [1\n", "profiles: []\n", "kind: KubeSchedulerConfiguration\n"])
def test_what_may_be_meant_as_a_configuration_is_judged_as_one(text: str) -> None:
    assert find_configuration(text, "f").text == text


def test_without_kind_and_version_the_rest_is_checked_as_v1() -> None:
    with pytest.raises(ConfigurationError) as refused:
        find_configuration("parallelism: 0\nprofiles:\n- schedulerName: one\n  colour: x\n", "f").load()
    assert [problem.path for problem in refused.value.problems] == ["", "", "parallelism", "profiles[0].colour"]
