"""Opting pods in: admission policies that give the pods of labelled namespaces the scheduler's name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from scheduler.catalog import MUTATING_POLICY_GROUP, OPERAND, OPT_IN_COMPONENT, OPT_IN_POLICY, OPT_IN_SCHEDULER

from ._inputs import joined
from .kube_object import KubeObject, child, in_kubernetes_spelling, name_of
from .labels import COMPONENT
from .namespace import cluster_scoped_name
from .opt_in_policies import guard_policy, matched_by, names_policy, opt_in_policy
from .settings import OptInPlan, OptInTarget

_VERSIONS = ("v1", "v1beta1")


@dataclass(frozen=True)
class OptInRecordArgs:
    """Attributes:
    namespace: where the scheduler runs, for objects that are deleted when the install mode changes.
    plan: what is to be created.
    operand: name of the scheduler.
    needs: what must exist before.
    """

    namespace: pulumi.Input[str]
    plan: OptInPlan
    operand: str = OPERAND
    needs: Sequence[pulumi.Resource] = ()


class OptInRecord(pulumi.ComponentResource):
    """A ConfigMap with the schedulerNames that are written into pods; the policies take their names from it.

    The scheduler depends on it and the policies depend on the scheduler. So where a profile is renamed, the map, which
    is immutable and has a fixed name, is replaced before the scheduler is changed, and by deleting it first: with it
    the policies, as their names are not known yet. No pod gets a name that the scheduler has given up.
    """

    policy_prefix: pulumi.Output[str]

    def __init__(self, name: str, args: OptInRecordArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:OptInRecord", name, None, opts)
        names = [target.scheduler_name for target in args.plan.targets]
        record = k8s.core.v1.ConfigMap(
            f"{name}-configmap",
            metadata={
                "name": f"{args.operand}-opt-in",
                "namespace": args.namespace,
                "labels": {COMPONENT: OPT_IN_COMPONENT},
            },
            immutable=True,
            data={"schedulerNames": json.dumps(sorted(names))},
            opts=child(self, depends_on=args.needs),
        )
        self.policy_prefix = name_of(record).apply(lambda _: OPT_IN_POLICY)
        self.register_outputs({"policyPrefix": self.policy_prefix})


@dataclass(frozen=True)
class OptInArgs:
    """Attributes:
    plan: what is to be created.
    namespace: of operator and scheduler, whose pods are never moved.
    policy_prefix: what the names of the policies begin with; of an `OptInRecord`, where a change of the schedulerNames
        has to delete the policies first.
    needs: what must exist before and outlive the policies: the running scheduler.
    """

    plan: OptInPlan
    namespace: pulumi.Input[str]
    policy_prefix: pulumi.Input[str] = OPT_IN_POLICY
    needs: Sequence[pulumi.Resource] = ()


class OptIn(pulumi.ComponentResource):
    """A MutatingAdmissionPolicy with its binding per schedulerName, and ValidatingAdmissionPolicies as guards.

    They are cluster-scoped. A schedulerName belongs to one installation per cluster, and so does the policy named
    after it.
    """

    names: list[pulumi.Output[str]]

    def __init__(self, name: str, args: OptInArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:OptIn", name, None, opts)
        self._name, self._args = name, args
        self.names = [self._mutating(target) for target in args.plan.targets]
        if args.plan.guard != "Off":
            self.names += self._guards()
        self.register_outputs({"names": self.names})

    def _mutating(self, target: OptInTarget) -> pulumi.Output[str]:
        """The policy and its binding, of kinds that the SDK has no class for in every version."""
        args, api_version = self._args, self._args.plan.api.api_version
        resource = f"{self._name}-{target.scheduler_name}"
        metadata = {
            "name": joined(args.policy_prefix, f".{target.scheduler_name}"),
            "labels": {COMPONENT: OPT_IN_COMPONENT},
            "annotations": {OPT_IN_SCHEDULER: target.scheduler_name},
        }

        def spec(namespace: str) -> dict[str, Any]:
            return opt_in_policy(target.scheduler_name, [namespace, *args.plan.exclude_namespaces])

        policy = KubeObject(
            f"{resource}-policy",
            {
                "apiVersion": api_version,
                "kind": "MutatingAdmissionPolicy",
                "metadata": metadata,
                "spec": pulumi.Output.from_input(args.namespace).apply(spec),
            },
            _served_as(child(self, depends_on=args.needs), "MutatingAdmissionPolicy", api_version),
        )
        name = name_of(policy)
        binding = {"policyName": name, "matchResources": matched_by(target)}
        KubeObject(
            f"{resource}-binding",
            {
                "apiVersion": api_version,
                "kind": "MutatingAdmissionPolicyBinding",
                "metadata": metadata,
                "spec": binding,
            },
            _served_as(child(self), "MutatingAdmissionPolicyBinding", api_version),
        )
        return name

    def _guards(self) -> list[pulumi.Output[str]]:
        plan = self._args.plan
        guard = guard_policy(plan.targets, denies=plan.guard == "Deny")
        selected = {target.scheduler_name: {**matched_by(target), "objectSelector": {}} for target in plan.targets}
        return [
            self._validating("guard", guard, plan.guard, {}),
            self._validating("names", names_policy(plan.known), "Warn", selected),
        ]

    def _validating(
        self, part: str, spec: dict[str, Any], action: str, scopes: Mapping[str, Mapping[str, Any]]
    ) -> pulumi.Output[str]:
        """A policy with a binding for each scope, by what the binding's name ends with; one for all without scopes."""
        args = self._args
        name = cluster_scoped_name(f"{OPT_IN_POLICY}-{part}", args.namespace)
        labels = {COMPONENT: OPT_IN_COMPONENT}
        policy = k8s.admissionregistration.v1.ValidatingAdmissionPolicy(
            f"{self._name}-{part}-policy",
            metadata={"name": name, "labels": labels},
            spec=in_kubernetes_spelling(spec),
            opts=child(self, depends_on=args.needs),
        )
        for suffix, scope in {f".{end}": scope for end, scope in scopes.items()}.items() or [("", {})]:
            enforced: dict[str, Any] = {"policyName": name_of(policy), "validationActions": [action]}
            if scope:
                enforced["matchResources"] = dict(scope)
            k8s.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
                f"{self._name}-{part}-binding{suffix}",
                metadata={"name": joined(name, suffix), "labels": labels},
                spec=in_kubernetes_spelling(enforced),
                opts=child(self),
            )
        return name_of(policy)


def _served_as(options: pulumi.ResourceOptions, kind: str, api_version: str) -> pulumi.ResourceOptions:
    """The options, so that the object stays the same one when the cluster serves it in another version."""
    versions = [f"{MUTATING_POLICY_GROUP}/{version}" for version in _VERSIONS]
    others = [pulumi.Alias(type_=f"kubernetes:{version}:{kind}") for version in versions if version != api_version]
    return pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(aliases=others))
