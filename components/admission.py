"""Admission policies that bound what a SecondaryScheduler and the operator's ServiceAccount can give away.

RBAC alone cannot say which image a SecondaryScheduler may name, nor which subjects the operator may bind: the API
server itself refuses these writes. Both are ValidatingAdmissionPolicies (Kubernetes 1.30 and newer).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from scheduler.catalog import REBALANCER_CLUSTER_ROLE, operand_name, rebalancer_name
from scheduler.operand import cel, constraints

from ._inputs import joined
from ._operator_rules import Instance
from .kube_object import child, in_kubernetes_spelling, name_of
from .labels import COMPONENT

IMAGES_POLICY = "secondary-scheduler-images"
BINDINGS_POLICY = "secondary-scheduler-operator-bindings"
_COMMAND = "/bin/kube-scheduler"
_FLAGS = (
    "-v",
    "--v",
    "--vmodule",
    "--logging-format",
    "--feature-gates",
    "--tls-min-version",
    "--tls-cipher-suites",
    "--kube-api-qps",
    "--kube-api-burst",
    "--kube-api-content-type",
)
"""Flags that neither lead the scheduler to another API server nor open an endpoint."""


@dataclass(frozen=True)
class AdmissionPoliciesArgs:
    """Attributes:
    images: repositories, without tag or digest, that a SecondaryScheduler may name.
    namespace: of the operator.
    instances: namespaces and names of the SecondarySchedulers that it serves, given its own namespace.
    operator_account: name of the ServiceAccount of our operator; "" for an operator that is not ours.
    needs: what must exist before.
    name_prefix: of the policies' names, which have no namespace.
    """

    images: Collection[pulumi.Input[str]]
    namespace: pulumi.Input[str]
    instances: Sequence[tuple[str | None, str]]
    operator_account: pulumi.Input[str] = ""
    needs: Sequence[pulumi.Resource] = ()
    name_prefix: pulumi.Input[str] = ""


class AdmissionPolicies(pulumi.ComponentResource):
    """The policies with their bindings."""

    names: list[pulumi.Output[str]]

    def __init__(self, name: str, args: AdmissionPoliciesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:AdmissionPolicies", name, None, opts)
        self._prefix, self._needs, self._name_prefix = name, args.needs, args.name_prefix
        own = pulumi.Output.from_input(args.namespace)

        def instances(namespace: str) -> list[Instance]:
            return [(other or namespace, instance) for other, instance in args.instances]

        policy = joined(args.name_prefix, IMAGES_POLICY)
        images = pulumi.Output.all(policy, *args.images).apply(lambda known: images_policy(known[1:], known[0]))
        served_namespaces = own.apply(lambda namespace: sorted({other for other, _ in instances(namespace)}))
        self.names = [self._policy(IMAGES_POLICY, images, served_namespaces)]
        if args.operator_account != "":
            known = pulumi.Output.all(own, args.operator_account)
            bindings = known.apply(lambda values: bindings_policy(values[0], values[1], instances(values[0])))
            self.names.append(self._policy(BINDINGS_POLICY, bindings, None))
        self.register_outputs({"names": self.names})

    def _policy(
        self, policy: str, spec: pulumi.Input[dict[str, Any]], namespaces: pulumi.Input[list[str]] | None
    ) -> pulumi.Output[str]:
        metadata: k8s.meta.v1.ObjectMetaArgsDict = {
            "name": joined(self._name_prefix, policy),
            "labels": {COMPONENT: "admission"},
        }
        policy_object = k8s.admissionregistration.v1.ValidatingAdmissionPolicy(
            f"{self._prefix}-{policy}",
            metadata=metadata,
            spec=in_kubernetes_spelling(spec),
            opts=child(self, depends_on=self._needs),
        )
        policy_name = name_of(policy_object)
        enforced: dict[str, Any] = {"policyName": policy_name, "validationActions": ["Deny"]}
        if namespaces is not None:
            served = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}
            # With the API server's defaults, as in constraints.
            matched = {"matchPolicy": "Equivalent", "objectSelector": {}}
            enforced["matchResources"] = {"namespaceSelector": {"matchExpressions": [served]}, **matched}
        k8s.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
            f"{self._prefix}-{policy}-binding",
            metadata=metadata,
            spec=in_kubernetes_spelling(enforced),
            opts=child(self),
        )
        return policy_name


def repository_of(image: str) -> str:
    """Return an image's repository: its reference without tag and digest."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def images_policy(images: Collection[str], policy: str = IMAGES_POLICY) -> dict[str, Any]:
    """Return the spec of the policy for SecondarySchedulers.

    Its image runs with the scheduler's rights, and so does whatever its command, environment and arguments make of it.
    Whoever may change the policy itself is not bound by it: that is how a stack moves to another repository in one
    update, as API servers take up a changed policy only after a while. A field that stays as it was is not judged, so
    that an instance of before can still be deleted.
    """
    allowed = sorted({repository_of(image) for image in images})
    resource = "group('admissionregistration.k8s.io').resource('validatingadmissionpolicies')"
    may_change = f"authorizer.{resource}.name({cel(policy)}).check('update').allowed()"
    fields = {"image": ("schedulerImage", "''"), "command": ("command", "[]")}
    fields |= {"rebalance": ("rebalance", "{}")}
    fields |= {"env": ("env", "[]"), "arguments": ("extraArgs", "[]"), "credentials": ("metricCredentials", "{}")}
    variables = [
        {"name": name, "expression": f"has(object.spec) ? object.spec.?{field}.orValue({empty}) : {empty}"}
        for name, (field, empty) in fields.items()
    ]
    variables += [
        {
            "name": f"{name}_before",
            "expression": "oldObject != null && has(oldObject.spec) ? "
            f"oldObject.spec.?{field}.orValue({empty}) : {empty}",
        }
        for name, (field, empty) in fields.items()
    ]
    matches = _of_repositories("variables.image", allowed)
    evicting = "variables.rebalance.?mode.orValue('Off') != 'Off'"
    may_evict = "authorizer.group('').resource('pods').subresource('eviction').check('create').allowed()"
    flags = f"variables.arguments.all(a, {cel(list(_FLAGS))}.exists(f, a == f || a.startsWith(f + '=')))"
    by_others = "may be set only by who may change this policy"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": constraints("operator.openshift.io", ["secondaryschedulers"]),
        "matchConditions": [{"name": "not-by-who-may-change-this-policy", "expression": f"!{may_change}"}],
        "variables": variables,
        "validations": [
            {
                "expression": f"variables.image == variables.image_before || {matches}",
                "message": f"spec.schedulerImage: is of no allowed repository ({', '.join(allowed)}); "
                "add its repository to the stack's allowedImages",
                "reason": "Forbidden",
            },
            _unless_kept(
                "command",
                f"size(variables.command) == 0 || variables.command == {cel([_COMMAND])}",
                f"spec.command: {by_others}, as it runs with the scheduler's rights",
            ),
            _unless_kept(
                "env", "size(variables.env) == 0", f"spec.env: {by_others}, as it can make the image run other code"
            ),
            _unless_kept(
                "credentials",
                "!has(variables.credentials.serviceAccount) || has(variables.credentials.serviceAccount.audience)",
                f"spec.metricCredentials.serviceAccount: without an audience {by_others}, "
                "as it sends the scheduler's own token",
            ),
            _unless_kept(
                "rebalance",
                _of_repositories("variables.rebalance.?image.orValue('')", allowed),
                f"spec.rebalance.image: is of no allowed repository ({', '.join(allowed)}); "
                "add its repository to the stack's allowedImages",
            ),
            # As RBAC has it for roles: nobody gets evictions carried out that they may not ask for themselves.
            _unless_kept(
                "rebalance",
                f"!({evicting}) || {may_evict}",
                "spec.rebalance: may be set only by who may create pods/eviction in all namespaces",
            ),
            _unless_kept("arguments", flags, f"spec.extraArgs: flags other than {', '.join(_FLAGS)} {by_others}"),
        ],
    }


def _of_repositories(image: str, allowed: list[str]) -> str:
    """Whether an image, given as an expression, is "" or of one of these repositories."""
    return (
        f"{image} == '' || {cel(allowed)}.exists(r, {image} == r || "
        f"{image}.startsWith(r + '@') || ({image}.startsWith(r + ':') && "
        f"!{image}.substring(size(r)).contains('/')))"
    )


def _unless_kept(field: str, expression: str, message: str) -> dict[str, Any]:
    kept = f"variables.{field} == variables.{field}_before"
    return {"expression": f"{kept} || {expression}", "message": message, "reason": "Forbidden"}


def bindings_policy(namespace: str, account: str, instances: Sequence[Instance]) -> dict[str, Any]:
    """Return the spec of the policy for what our operator binds: ServiceAccounts of its schedulers and, to the roles of
    a rebalancer, those of their rebalancers only.

    Args:
        namespace, account: the operator's ServiceAccount.
        instances: namespaces and names of the SecondarySchedulers that it serves.
    """
    operands = [(of, operand_name(instance)) for of, instance in instances]
    schedulers = sorted({f"{of}/{operand}" for of, operand in operands})
    rebalancers = sorted({f"{of}/{rebalancer_name(operand)}" for of, operand in operands})
    roles = sorted({REBALANCER_CLUSTER_ROLE, *(rebalancer_name(operand) for _, operand in operands)})
    user = f"system:serviceaccount:{namespace}:{account}"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": constraints("rbac.authorization.k8s.io", ["clusterrolebindings", "rolebindings"]),
        "matchConditions": [
            {"name": "by-the-operator", "expression": f"request.userInfo.username == {cel(user)}"},
        ],
        "validations": [
            {
                "expression": "!has(object.subjects) || object.subjects.all(s, s.kind == 'ServiceAccount' && "
                f"(s.?namespace.orValue('') + '/' + s.name) in (object.roleRef.name in {cel(roles)} ? "
                f"{cel(rebalancers)} : {cel(schedulers)}))",
                "message": f"the operator binds only the ServiceAccounts {', '.join(schedulers)}, and to the "
                f"rebalancer's roles only {', '.join(rebalancers)}",
                "reason": "Forbidden",
            },
            {
                "expression": "object.kind == 'ClusterRoleBinding' || object.roleRef.kind == 'Role'",
                "message": "the operator binds no ClusterRole in a namespace",
                "reason": "Forbidden",
            },
        ],
    }
