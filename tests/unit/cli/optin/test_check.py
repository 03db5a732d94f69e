"""`opt-in check`: which of version, gate, policy, binding, exclusion and label is the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.kube.primitives import Selector, selector_from_set
from secondary_scheduler.cli import optinpolicies as policies
from secondary_scheduler.cli.optin.probing import ORDINARY, Case, ProbeAnswer, cases
from secondary_scheduler.cli.optin.rendering import as_expected, check_lines
from secondary_scheduler.cli.optin.status import OptInSituation
from secondary_scheduler.cli.optinpolicies import Binding, OptInPolicy, OptInReason

LABEL = {"secondary-scheduler.io/pods": "true"}
BINDING = Binding(
    selector_from_set({"secondary-scheduler.io/pods": "true"}),
    Selector(),
    "secondary-scheduler.io/pods=true",
)
NOT_KEPT = Selector({}, {"kubernetes.io/metadata.name": frozenset({"kept"})})
POLICY = OptInPolicy("p", "mine", NOT_KEPT, bindings=(BINDING,))


def situation(
    *of: OptInPolicy,
    kubernetes: str = "v1.34.4",
    served: str = "v1beta1",
    gate: bool | None = None,
    namespace: str = "shop",
    labels: Mapping[str, str] = LABEL,
) -> OptInSituation:
    return OptInSituation(kubernetes, served, gate, of, namespace, labels)


@pytest.mark.parametrize(
    ("of", "reason", "words"),
    [
        (situation(kubernetes="v1.33.2", served=""), OptInReason.VERSION, "Kubernetes 1.33 has"),
        (situation(kubernetes="v1.34.4", served=""), OptInReason.GATE_OFF, "does not serve MutatingAdmissionPolicies"),
        (situation(kubernetes="v1.37.0", served=""), OptInReason.GATE_OFF, "v1.37.0 does not serve"),
        (situation(), OptInReason.POLICY_MISSING, "optIn.mechanism"),
        (situation(OptInPolicy("p", "mine")), OptInReason.BINDING_MISSING, "p has no MutatingAdmissionPolicyBinding"),
        (situation(POLICY, namespace="kept"), OptInReason.EXCLUSION, "p excludes the namespace kept"),
        (situation(POLICY, namespace="openshift-x"), OptInReason.EXCLUSION, "whatever its labels"),
        (situation(POLICY, labels={}), OptInReason.LABEL_MISSING, "secondary-scheduler.io/pods=true"),
        # Of two policies, the one that is closer to moving the pod.
        (situation(OptInPolicy("a", "x"), POLICY, labels={}), OptInReason.LABEL_MISSING, "labels of p"),
    ],
)
def test_what_is_in_the_way_is_named(of: OptInSituation, reason: OptInReason, words: str) -> None:
    obstacle = of.obstacle()
    assert obstacle is not None
    assert obstacle[0] is reason
    assert words in obstacle[1]


def test_nothing_is_in_the_way_where_one_policy_matches() -> None:
    assert situation(OptInPolicy("a", "x"), POLICY).obstacle() is None


@pytest.mark.parametrize(
    ("gate", "words"),
    [(False, "as its metrics say"), (None, "which its metrics do not say"), (True, "another one may have it off")],
)
def test_a_policy_that_is_not_applied_is_a_gate_that_is_off(gate: bool | None, words: str) -> None:
    reason, message = situation(POLICY, gate=gate).not_evaluated()
    assert reason is OptInReason.GATE_OFF
    assert words in message
    assert "--feature-gates=MutatingAdmissionPolicy=true" in message


def test_there_is_a_pod_for_each_exclusion_and_the_policies_rules_agree() -> None:
    by_name = {case.name: case for case in cases("shop", {"tier": "batch"})}
    assert [name for name, case in by_name.items() if not case.excluded] == [ORDINARY, "duplicate env names"]
    for case in by_name.values():
        manifest = case.manifest()
        assert manifest["metadata"]["labels"]["tier"] == "batch"
        policy = OptInPolicy("p", "mine", pods=policies._selector(OPT_OUT) or Selector(), bindings=(BINDING,))
        with_node = bool(manifest["spec"].get("nodeName"))  # of which a placed pod shows nothing
        assert policy.moves(case.namespace, LABEL, manifest) == (not case.excluded or with_node), case.name


OPT_OUT = {"matchExpressions": [{"key": "secondary-scheduler.io/pods", "operator": "NotIn", "values": ["false"]}]}


@pytest.mark.parametrize(
    ("excluded", "name", "refusal", "reason", "expected"),
    [
        ("", "mine", "", OptInReason.MOVED, True),
        ("", "default-scheduler", "", OptInReason.MOVED, False),
        ("", "default-scheduler", "", OptInReason.LABEL_MISSING, True),
        ("a node", "default-scheduler", "", OptInReason.MOVED, True),
        ("a node", "mine", "", OptInReason.MOVED, False),
        ("a node", "", "403", OptInReason.MOVED, True),
        ("", "", "403", OptInReason.REFUSED, False),
    ],
)
def test_a_pod_fares_as_its_exclusion_and_the_verdict_say(
    excluded: str, name: str, refusal: str, reason: OptInReason, expected: bool
) -> None:
    answer = ProbeAnswer(Case("c", "shop", excluded=excluded), name, refusal)
    assert as_expected(answer, reason) is expected


def test_a_name_from_the_cluster_is_shown_as_text_only() -> None:
    answer = ProbeAnswer(Case(ORDINARY, "shop"), "x\x1b]0;y\x07\n")
    text = "\n".join(check_lines(situation(POLICY), OptInReason.MOVED, "by \x1b[1m", [answer]))
    assert "\x1b" not in text
    assert "\x07" not in text


def manifest(namespaces: dict[str, Any], pods: dict[str, Any]) -> dict[str, Any]:
    return {"namespaceSelector": namespaces, "objectSelector": pods}


def test_a_selector_that_cannot_be_read_leaves_its_object_out() -> None:
    bad = {"matchExpressions": [{"key": "a", "operator": "Like"}]}
    assert policies._binding(manifest(bad, {})) is None
    assert policies._binding(manifest({"matchLabels": 5}, {})) is None
    binding = policies._binding(manifest({}, {"matchLabels": {"a": "b"}}))
    assert binding is not None
    assert binding.pod_labels == {"a": "b"}
