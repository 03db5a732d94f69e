"""`preflight` of a stack with `optIn`: which of version, gate and policy is the reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

import pytest

from scheduler.kube.client import SyncConnection
from secondary_scheduler.cli.preflight.admission import check_admission
from tests.unit.cli.fakeapi import FakeConnection

GROUP = "/apis/admissionregistration.k8s.io"
NAME = "secondary-scheduler-opt-in.mine"
SERVED = {"resources": [{"name": "mutatingadmissionpolicies"}]}
LABELS = {"app.kubernetes.io/component": "opt-in"}


def policy(name: str = NAME, labels: Mapping[str, str] = LABELS, mutation: str = "/spec/schedulerName") -> Any:
    mutations = [{"patchType": "JSONPatch", "jsonPatch": {"expression": f'[JSONPatch{{path: "{mutation}"}}]'}}]
    return {"metadata": {"name": name, "labels": dict(labels)}, "spec": {"mutations": mutations}}


def checked(
    *policies: Any,
    bound: Collection[str] = (),
    kubernetes: str = "v1.34.4",
    served: str = "v1beta1",
    version: str = "v1beta1",
    gate: str = "1",
    refused: Collection[str] = (),
) -> list[tuple[str, str, str]]:
    answers: dict[str, Any] = {"/version": {"gitVersion": kubernetes}}
    if served:
        answers[f"{GROUP}/{served}"] = SERVED
        answers[f"{GROUP}/{served}/mutatingadmissionpolicies"] = list(policies)
        answers[f"{GROUP}/{served}/mutatingadmissionpolicybindings"] = [
            {"spec": {"policyName": name}} for name in bound
        ]

    class Answering(FakeConnection):
        def get(self, path: str, params: Mapping[str, Any] | None = None) -> bytes:
            if path == "/metrics" and gate:
                return f'kubernetes_feature_enabled{{name="MutatingAdmissionPolicy",stage="BETA"}} {gate}\n'.encode()
            return super().get(path, params)

    connection = cast(SyncConnection, Answering(answers, refused))
    return [(check.name, str(check.status), check.finding) for check in check_admission(connection, version, ["mine"])]


def test_a_cluster_with_the_gate_and_the_stacks_policy_passes() -> None:
    assert checked(policy(), bound=[NAME]) == [
        ("admission", "ok", "v1.34.4 serves MutatingAdmissionPolicies as v1beta1, feature gate on"),
        ("policy mine", "ok", f"{NAME} and its binding exist"),
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kubernetes": "v1.33.2", "served": ""}, "version: Kubernetes 1.33 has"),
        ({"served": ""}, "gate-off: v1.34.4 does not serve MutatingAdmissionPolicies; start each API server with"),
        ({"version": "v1"}, "version: the stack writes v1, and v1.34.4 serves v1beta1 only"),
        ({"gate": "0"}, "gate-off: v1.34.4 serves MutatingAdmissionPolicies as v1beta1, stores them"),
        (
            {"gate": "0", "kubernetes": "v1.36.0", "served": "v1", "version": "v1"},
            "gate-off: v1.36.0 serves MutatingAdmissionPolicies as v1, stores them",
        ),
    ],
)
def test_what_keeps_the_api_server_from_moving_pods_is_named_and_nothing_else_is_checked(
    options: dict[str, Any], words: str
) -> None:
    ((name, status, finding),) = checked(**options)
    assert (name, status) == ("admission", "failed")
    assert finding.startswith(words)


def test_a_gate_that_cannot_be_read_is_a_warning_where_it_is_off_by_default_and_fine_where_it_is_on() -> None:
    assert checked(gate="")[0][1:] == (
        "warning",
        "v1.34.4 serves MutatingAdmissionPolicies as v1beta1; whether its gate is on is not known",
    )
    assert checked(gate="", kubernetes="v1.36.0", served="v1", version="v1")[0][1] == "ok"


def test_a_policy_that_is_missing_a_warning_and_one_without_binding_or_of_another_program_a_failure() -> None:
    assert checked()[1] == ("policy mine", "warning", f"policy-missing: {NAME} does not exist yet")
    name, status, finding = checked(policy())[1]
    assert (name, status, finding.partition(":")[0]) == ("policy mine", "failed", "binding-missing")
    name, status, finding = checked(policy(labels={}), bound=[NAME])[1]
    assert (name, status, finding.partition(":")[0]) == ("policy mine", "failed", "policy-foreign")


def test_other_policies_that_write_scheduler_names_are_named_as_text_only_and_the_rest_is_not() -> None:
    others = [policy(f"by-hand-{number}\x1b[1m", {}) for number in range(5)]
    rows = checked(policy(), policy("sidecars", {}, "/spec/containers"), *others, bound=[NAME])
    name, status, finding = rows[-1]
    assert (name, status, len(rows)) == ("other policies", "warning", 3)
    assert "by-hand-2" in finding
    assert "and 2 more also writes schedulerNames" in finding
    assert "\x1b" not in finding
    assert "sidecars" not in finding


def test_a_user_who_may_not_list_policies_gets_a_warning() -> None:
    rows = checked(refused=[f"{GROUP}/v1beta1/mutatingadmissionpolicies"])
    assert [(name, status) for name, status, _ in rows] == [("admission", "ok"), ("admission", "warning")]
