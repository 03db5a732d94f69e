"""Opting pods in: which objects there are, in which order, and what a program is refused."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest

import components
from scheduler import __version__
from tests.components.graph import STATUS, Graph, Registered, register, run_program, stack_values

IMAGE = f"localhost/secondary-scheduler/kube-scheduler:{__version__}"
OPERATOR_IMAGE = f"localhost/secondary-scheduler/operator:{__version__}"
POLICY = "MutatingAdmissionPolicy"
BINDING = "MutatingAdmissionPolicyBinding"
PROFILES = [{"schedulerName": "online"}, {"schedulerName": "batch"}]
TWO = [{"schedulerName": name, "labelValue": name} for name in ("online", "batch")]
OPTED_IN = {"mechanism": "policy"}


def installed(opt_in: dict[str, Any], version: str = "1.36", *, late: bool = False, **options: Any) -> Graph:
    """An installation; `late`: its mechanism is an Output."""

    def program() -> None:
        if late:
            opt_in["mechanism"] = pulumi.Output.from_input("policy")
        args = components.SchedulerInstallationArgs(
            **{
                "image": IMAGE,
                "operator_image": OPERATOR_IMAGE,
                "opt_in": opt_in,
                "kubernetes_version": version,
                "objects": components.OptionalObjects(admission_policies=False),
                **options,
            }
        )
        components.SchedulerInstallation("mine", args)

    return register(program, config={}, preview=options.get("mode") is None, statuses=STATUS)


def refusal(opt_in: dict[str, Any], version: str = "1.36", **options: Any) -> str:
    with pytest.raises(pulumi.RunError) as refused:
        installed(opt_in, version, **options)
    return str(refused.value)


def versions(graph: Graph) -> set[str]:
    return {each.type.split(":")[1] for each in graph.objects if POLICY in each.type}


def named(graph: Graph, kind: str, end: str) -> Registered:
    (registered,) = [each for each in graph.of(kind) if each.object_name.endswith(end)]
    return registered


@pytest.mark.parametrize(
    ("version", "served"), [("1.34", "v1beta1"), ("1.35.2", "v1beta1"), ("1.36", "v1"), ("1.37", "v1"), ("", "v1")]
)
def test_the_policy_has_the_version_that_the_cluster_serves(version: str, served: str) -> None:
    assert versions(installed(OPTED_IN, version)) == {f"admissionregistration.k8s.io/{served}"}


def test_a_cluster_that_evaluates_no_policy_is_refused_with_the_reason() -> None:
    message = refusal(OPTED_IN, "1.33")
    assert "mine: optIn.mechanism: policy is not possible: Kubernetes 1.33 has MutatingAdmissionPolicies as" in message


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.34", "--feature-gates=MutatingAdmissionPolicy=true"),
        ("1.35", "--runtime-config=admissionregistration.k8s.io/v1beta1=true"),
        ("", "1.36 or newer is assumed"),
    ],
)
def test_what_the_cluster_needs_or_is_assumed_to_be_is_a_warning(
    version: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: warnings.append(text))
    installed(OPTED_IN, version)
    assert [text for text in warnings if words in text]
    warnings.clear()
    installed(OPTED_IN, "1.36")
    assert not [text for text in warnings if "optIn" in text]


def test_nothing_is_made_by_default() -> None:
    graph = installed({})
    assert not [each for each in graph.resources if "OptIn" in each.type or "Admission" in each.type]


@pytest.mark.parametrize("mode", ["manifests", "direct", "none"])
def test_policies_come_after_the_scheduler_and_what_they_are_named_by_before(mode: str) -> None:
    graph = installed(OPTED_IN, mode=mode)
    (scheduler,) = graph.of("SecondaryScheduler") or [
        each for each in graph.of("Deployment") if each.object_name == "secondary-scheduler"
    ]
    record = named(graph, "ConfigMap", "-opt-in")
    assert record.urn in graph.before(scheduler)
    policies = [each for each in graph.objects if "AdmissionPolicy" in each.type]
    assert {each.type.rpartition(":")[2] for each in policies} == {
        POLICY,
        BINDING,
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    for policy in policies:
        assert scheduler.urn in graph.before(policy), policy.name
        assert policy.urn not in graph.before(scheduler)


def test_the_names_of_what_is_written_replace_the_record_and_so_the_policies_first() -> None:
    """The engine replaces what takes a property from what is replaced, and deletes it first where the latter is."""
    before, after = (installed(OPTED_IN, settings={"schedulerName": name}) for name in ("one", "two"))
    records = [named(graph, "ConfigMap", "-opt-in") for graph in (before, after)]
    assert records[0].object_name == records[1].object_name
    assert records[0].manifest["data"] != records[1].manifest["data"]
    assert records[0].manifest["immutable"] is True
    for graph, record in zip((before, after), records, strict=True):
        for kind in (POLICY, BINDING):
            assert record.urn in graph.only(kind).property_dependencies["metadata"]
        (mode,) = [each for each in graph.of("ConfigMap") if each.object_name.endswith("-installation")]
        assert mode.urn in record.property_dependencies["metadata"], "a change of the install mode"
        (scheduler,) = graph.of("SecondaryScheduler")
        assert not [key for key, urns in scheduler.property_dependencies.items() if record.urn in urns]


def test_the_policy_writes_the_name_by_a_json_patch_and_excludes_what_must_not_be_moved() -> None:
    opt_in = {**OPTED_IN, "excludeNamespaces": ["monitoring"], "podSelector": {"matchLabels": {"tier": "batch"}}}
    graph = installed(opt_in, namespace="scheduling", settings={"schedulerName": "mine"})
    policy, binding = graph.only(POLICY).manifest, graph.only(BINDING).manifest
    assert policy["metadata"]["annotations"] == {"secondary-scheduler.io/opt-in-scheduler": "mine"}
    spec = policy["spec"]
    assert (spec["failurePolicy"], spec["reinvocationPolicy"]) == ("Ignore", "Never")
    assert "variables" not in spec
    (mutation,) = spec["mutations"]
    assert mutation["patchType"] == "JSONPatch"
    expected = "[JSONPatch{op: 'replace', path: '/spec/schedulerName', value: \"mine\"}]"
    assert mutation["jsonPatch"]["expression"] == expected
    (names,) = spec["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert names["operator"] == "NotIn"
    assert names["values"] == ["kube-node-lease", "kube-public", "kube-system", "monitoring", "scheduling"]
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    matched = binding["spec"]["matchResources"]
    assert matched["namespaceSelector"] == {"matchLabels": {"secondary-scheduler.io/pods": "true"}}
    assert matched["objectSelector"] == {"matchLabels": {"tier": "batch"}}


@pytest.mark.parametrize(
    ("guard", "actions"),
    [
        ("Off", {}),
        ("Warn", {"guard": "Warn", "names": "Warn"}),
        ("Deny", {"guard": "Deny", "names": "Warn"}),
    ],
)
def test_the_guard_warns_or_denies(guard: str, actions: dict[str, str]) -> None:
    graph = installed({**OPTED_IN, "guard": guard})
    bindings = {
        each.manifest["spec"]["policyName"].rpartition("-")[2]: each.manifest["spec"]["validationActions"]
        for each in graph.of("ValidatingAdmissionPolicyBinding")
    }
    assert bindings == {part: [action] for part, action in actions.items()}
    policies = {
        each.object_name.rpartition("-")[2]: each.manifest["spec"] for each in graph.of("ValidatingAdmissionPolicy")
    }
    if guard != "Off":
        assert policies["guard"]["failurePolicy"] == ("Fail" if guard == "Deny" else "Ignore")
        assert policies["names"]["failurePolicy"] == "Ignore"


def test_each_profile_has_a_policy_and_a_binding_of_its_own() -> None:
    graph = installed({**OPTED_IN, "profiles": TWO}, settings={"profiles": PROFILES})
    for name in ("online", "batch"):
        binding = named(graph, BINDING, f".{name}").manifest
        selector = binding["spec"]["matchResources"]["namespaceSelector"]
        assert selector == {"matchLabels": {"secondary-scheduler.io/pods": name}}
        assert binding["spec"]["policyName"] == named(graph, POLICY, f".{name}").object_name
    urns = [each.urn for each in graph.resources]
    assert len(urns) == len(set(urns))


def test_a_program_is_refused_as_a_stack_file_is() -> None:
    message = refusal({**OPTED_IN, "profiles": [{"schedulerName": "typo", "labelValue": "a"}]})
    assert "mine: optIn.profiles[0].schedulerName: no profile serves typo" in message
    assert "did you mean" in refusal({"mechanisn": "policy"})
    assert "is not a version" in refusal(OPTED_IN, "newest")


def test_what_is_known_during_the_update_only_is_refused() -> None:
    with pytest.raises(pulumi.RunError, match=r"optIn\.mechanism: must be known before the update"):
        installed({}, late=True)


def test_a_stack_makes_the_same_objects(local_environment: None) -> None:
    values = stack_values("local")
    values["cluster"] = json.dumps({**json.loads(values["cluster"]), "kubernetesVersion": "1.34"})
    graph = run_program({**values, "optIn": json.dumps(OPTED_IN)}, preview=False, statuses=STATUS)
    assert versions(graph) == {"admissionregistration.k8s.io/v1beta1"}
    policy = graph.only(POLICY).manifest
    assert policy["metadata"]["name"] == "secondary-scheduler-opt-in.secondary-scheduler"
    assert policy["metadata"]["labels"]["app.kubernetes.io/component"] == "opt-in"
    assert policy["metadata"]["labels"]["app.kubernetes.io/part-of"] == "secondary-scheduler"
