"""The setting optIn: what follows from it, and which values are refused, at which key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.settings import OptInPlan, OptInSettings, plan_opt_in
from scheduler.config import ConfigurationError
from stacks.checking import check

GOOD = {
    "cluster": {"clusterIdentifier": "test", "kubernetesVersion": "1.36"},
    "schedulerImage": "localhost/secondary-scheduler/kube-scheduler:0.1.0",
    "operatorImage": "localhost/secondary-scheduler/operator:0.1.0",
}
TWO = {"profiles": [{"schedulerName": "online"}, {"schedulerName": "batch"}]}
POLICY = {"mechanism": "policy"}
LABEL = "secondary-scheduler.io/pods"


@pytest.fixture
def problems(tmp_path: Path, kubeconfig: Path) -> Any:
    """Returns problems and warnings of a stack with this setting, by path."""

    def judge(opt_in: dict[str, Any], **settings: Any) -> dict[str, str]:
        values = {**GOOD, **settings, "optIn": opt_in}
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
        try:
            _, profile, _ = check(texts, set(), {"KUBECONFIG": str(kubeconfig)}, tmp_path)
        except ConfigurationError as error:
            return {problem.path: problem.message for problem in error.problems}
        return {f"warning {each.path}": each.message for each in profile.warnings if each.path.startswith("optIn")}

    return judge


def plan(opt_in: dict[str, Any], *names: str, minor: int | None = 36) -> OptInPlan | None:
    planned, _ = plan_opt_in(OptInSettings.model_validate_json(json.dumps(opt_in)), names or ("mine",), minor)
    return planned


def entries(*profiles: dict[str, Any]) -> dict[str, Any]:
    return {**POLICY, "profiles": list(profiles)}


def test_by_default_nothing_follows_and_nothing_is_said(problems: Any) -> None:
    assert plan({}) is None
    assert problems({}) == {}
    assert problems({"mechanism": "none"}) == {}


def test_other_keys_without_the_mechanism_are_a_warning(problems: Any) -> None:
    (message,) = problems({"guard": "Deny"}).values()
    assert "no effect" in message


def test_the_usual_label_chooses_the_namespaces() -> None:
    planned = plan(POLICY)
    assert planned is not None
    (target,) = planned.targets
    assert (target.scheduler_name, target.pods) == ("mine", None)
    assert target.namespaces.manifest() == {"matchLabels": {LABEL: "true"}}
    assert (planned.guard, planned.known) == ("Warn", ("default-scheduler", "mine"))


def test_names_that_others_serve_are_known() -> None:
    planned = plan({**POLICY, "otherSchedulers": ["volcano", "mine"]})
    assert planned is not None
    assert planned.known == ("default-scheduler", "mine", "volcano")


@pytest.mark.parametrize(("version", "words"), [("1.33", "1.33 has"), ("1.30", "mutating webhook")])
def test_a_cluster_without_the_policies_is_refused(problems: Any, version: str, words: str) -> None:
    refused = problems(POLICY, cluster={"clusterIdentifier": "test", "kubernetesVersion": version})
    assert words in refused["optIn.mechanism"]


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ({"kubernetesVersion": "1.34"}, "stores the policy and does not evaluate it unless"),
        ({"kubernetesVersion": "1.35.1"}, "--feature-gates=MutatingAdmissionPolicy=true"),
        ({}, "1.36 or newer is assumed"),
        ({"openshiftVersion": "4.21"}, "Kubernetes 1.34 stores"),
    ],
)
def test_what_the_cluster_must_have_is_a_warning(problems: Any, cluster: dict[str, str], words: str) -> None:
    warnings = problems(POLICY, cluster={"clusterIdentifier": "test", **cluster})
    assert words in warnings["warning optIn.mechanism"]


def test_several_profiles_need_an_entry_each(problems: Any) -> None:
    assert "several profiles (online, batch)" in problems(POLICY, **TWO)["optIn.profiles"]
    opt_in = entries(*({"schedulerName": name, "labelValue": name} for name in ("online", "batch")))
    assert problems(opt_in, **TWO) == {}
    assert problems(entries({"schedulerName": "batch", "labelValue": "true"}), **TWO) == {}


ONLINE, BATCH = {"schedulerName": "online"}, {"schedulerName": "batch"}
OVERLAPS = {
    "one value twice": ({"labelValue": "a"}, {"labelValue": "a"}),
    "two labels": (
        {"namespaceSelector": {"matchLabels": {"team": "a"}}},
        {"namespaceSelector": {"matchLabels": {"tier": "b"}}},
    ),
    "a value among several": (
        {"labelValue": "a"},
        {"namespaceSelector": {"matchExpressions": [{"key": LABEL, "operator": "In", "values": ["a", "b"]}]}},
    ),
    "present": (
        {"labelValue": "a"},
        {"namespaceSelector": {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}},
    ),
    "not another value": (
        {"labelValue": "a"},
        {"namespaceSelector": {"matchExpressions": [{"key": LABEL, "operator": "NotIn", "values": ["b"]}]}},
    ),
}
APART = {
    "two values": ({"labelValue": "a"}, {"labelValue": "b"}),
    "present and absent": (
        {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}},
        {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}},
    ),
    "a value and not that one": (
        {"labelValue": "a"},
        {"namespaceSelector": {"matchExpressions": [{"key": LABEL, "operator": "NotIn", "values": ["a", "b"]}]}},
    ),
}


@pytest.mark.parametrize("case", OVERLAPS)
def test_two_profiles_for_the_same_namespaces_are_refused(problems: Any, case: str) -> None:
    first, second = OVERLAPS[case]
    for pair in ((first, second), (second, first)):
        opt_in = entries({**ONLINE, **pair[0]}, {**BATCH, **pair[1]})
        assert "can select the same namespaces as the entry of online" in problems(opt_in, **TWO)["optIn.profiles[1]"]


@pytest.mark.parametrize("case", APART)
def test_two_profiles_for_different_namespaces_are_accepted(problems: Any, case: str) -> None:
    first, second = APART[case]
    assert problems(entries({**ONLINE, **first}, {**BATCH, **second}), **TWO) == {}


REFUSALS: dict[str, tuple[dict[str, Any], str, str]] = {
    "a name that nobody serves": (
        entries({"schedulerName": "onlin", "labelValue": "a"}),
        "optIn.profiles[0].schedulerName",
        "no profile serves onlin, so its pods would wait forever; served: online, batch",
    ),
    "a name twice": (
        entries({**ONLINE, "labelValue": "a"}, {**ONLINE, "labelValue": "b"}),
        "optIn.profiles[1].schedulerName",
        "has an entry already",
    ),
    "neither label nor selector": (entries(ONLINE), "optIn.profiles[0]", "either labelValue or namespaceSelector"),
    "a selector beside profiles": (
        {**entries({**ONLINE, "labelValue": "a"}), "podSelector": {"matchLabels": {"a": "b"}}},
        "optIn.podSelector",
        "no effect beside profiles",
    ),
    "a selector of everything": ({**POLICY, "namespaceSelector": {}}, "optIn.namespaceSelector", "selects everything"),
    "a label value that is none": (
        entries({**ONLINE, "labelValue": "a b"}),
        "optIn.profiles[0].labelValue",
        "is not a label value",
    ),
    "a label that is none": (
        {**POLICY, "podSelector": {"matchLabels": {"a b": "c"}}},
        "optIn.podSelector",
        "is not a label key",
    ),
    "an operator without values": (
        {**POLICY, "podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "optIn.podSelector",
        "needs at least one value",
    ),
    "a mechanism that is none": ({"mechanism": "webhook"}, "optIn.mechanism", "allowed: policy, none"),
    "a guard that is none": ({**POLICY, "guard": "deny"}, "optIn.guard", 'did you mean "Deny"?'),
    "an unknown key": ({**POLICY, "namespaces": []}, "optIn.namespaces", "unknown key"),
    "a namespace that is none": ({**POLICY, "excludeNamespaces": ["A"]}, "optIn.excludeNamespaces[0]", "lower case"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_wrong_value_is_refused_at_its_key(problems: Any, case: str) -> None:
    opt_in, path, words = REFUSALS[case]
    assert words in problems(opt_in, **TWO)[path]


def test_the_default_schedulers_pods_have_its_name_already(problems: Any) -> None:
    settings = {"schedulerName": "default-scheduler", "allowDefaultSchedulerName": "true"}
    assert "nothing has to opt in" in problems(POLICY, **settings)["optIn.mechanism"]


def test_a_name_that_does_not_fit_into_the_policys_is_refused(problems: Any) -> None:
    assert "at most 180" in problems(POLICY, schedulerName="x" * 200)["optIn.mechanism"]
