"""The rebalancer that `spec.rebalance` asks for: what it consists of, how it goes, and what is said of it.

Nothing here concerns the scheduler: whatever is wrong with a rebalancer is in conditions of its own.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from scheduler import operand
from scheduler.catalog import REBALANCER_CLUSTER_ROLE
from scheduler.config import (
    RebalancerSpec,
    RebalanceSettingsError,
    SecondarySchedulerSpec,
    read_rebalancer_spec,
)
from secondary_scheduler.operator.reconcile.configuration import EffectiveConfiguration, read_copy
from secondary_scheduler.operator.reconcile.model import (
    Action,
    Condition,
    Delete,
    Json,
    ObjectKey,
    Observed,
    is_terminating,
)
from secondary_scheduler.operator.reconcile.objects import new_object, writes
from secondary_scheduler.operator.reconcile.rollout import RolloutDecision
from secondary_scheduler.operator.reconcile.workload import assess_rollout, pod_problem_text, pods_of
from secondary_scheduler.rebalancestatus import REBALANCING, STATUS_KEY, ReportedStatus, read_status

READY = "RebalancerReady"
POLICY_KINDS = ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy")
_MAX_TEXT = 1024
PASSING_REASONS = frozenset({"Starting", "WaitingForScheduler", "HandingOver", "Removing"})
"""Of the condition when it is not ready and nothing is wrong."""
_DISPENSABLE = ("NetworkPolicy", "ServiceMonitor")
"""What it runs without; that they could not be written is a warning of the instance's."""
_KINDS = ("RoleBinding", "Role", *_DISPENSABLE, "Service", "ConfigMap", "ServiceAccount")
_WITH_ITS_NAME = ("Deployment", "Service", "ServiceAccount", "Role", "RoleBinding", *_DISPENSABLE)
_HINT = (
    "the operator's install must let it run rebalancers (the stack's rebalance, or operator.rebalancers; "
    "an OLM bundle of this version does)"
)


@dataclass(frozen=True)
class RebalancerReport:
    """What the instance's status says: conditions, and `status.rebalancer` if there is one to speak of."""

    conditions: tuple[Condition, ...]
    status: Json | None = None


@dataclass(frozen=True)
class RebalancerActions:
    """What to do about the rebalancer, and what there is to say of it; no report where there is none and none is
    wanted."""

    actions: tuple[Action, ...] = ()
    report: RebalancerReport | None = None


@dataclass(frozen=True)
class _DesiredRebalancer:
    spec: RebalancerSpec
    configuration: EffectiveConfiguration
    image: str


def rebalancer_keys(observed: Observed) -> frozenset[ObjectKey]:
    """The identities of all objects that a rebalancer of the instance may have."""
    own, namespace = observed.names, observed.namespace
    return frozenset(
        {
            *(ObjectKey(kind, namespace, own.rebalancer) for kind in _WITH_ITS_NAME),
            ObjectKey("ConfigMap", namespace, own.rebalancer_settings),
            ObjectKey("ClusterRoleBinding", "", own.cluster_role_binding(REBALANCER_CLUSTER_ROLE)),
            *(ObjectKey(kind, "", own.eviction_policy) for kind in POLICY_KINDS),
        }
    )


def decide_rebalancer(
    observed: Observed,
    spec: SecondarySchedulerSpec,
    decision: RolloutDecision | None,
    effective: EffectiveConfiguration | None,
    egress: Collection[int] | None,
) -> RebalancerActions:
    """Decide about the rebalancer of an instance that is managed.

    Args:
        observed: everything that may be looked at.
        spec: of the instance.
        decision: about the scheduler's revision; None if there is none.
        effective: the desired configuration.
        egress: TCP ports that the scheduler may reach beside the API server's, and so the rebalancer; None if they are
            not known, and egress is not limited.
    """
    if spec.rebalance is None:
        return _removal(observed)
    try:
        rebalance = read_rebalancer_spec(spec.rebalance)
    except RebalanceSettingsError as error:
        text = "; ".join(f"spec.rebalance.{line}" for line in str(error).splitlines())
        return _unchanged(observed, "SettingsInvalid", f"{text} (what runs is left as it is)")
    if rebalance.mode == "Off":
        return _removal(observed)
    foreign = _foreign(observed)
    if foreign:
        message = f"{foreign[0]} belongs to somebody else, such as a stack that installed the rebalancer itself: "
        # It is what the update that takes the old one away waits for, so it counts as in effect.
        status = _status(observed, rebalance, rebalance.hash)
        return _reported("HandingOver", f"{message}the operator makes its own once that is gone", status)
    if "ValidatingAdmissionPolicy" in observed.unserved and POLICY_KINDS[1] not in spec.without:
        message = (
            "the API server has no ValidatingAdmissionPolicy (Kubernetes 1.30), which keeps the rebalancer from "
            "evicting other schedulers' pods: name it in spec.without to run without"
        )
        return _unchanged(observed, "PolicyNotServed", message)
    wanted = _wanted(observed, spec, rebalance, decision, effective)
    if isinstance(wanted, str):
        return _unchanged(observed, "WaitingForScheduler", wanted)
    if wanted.configuration.rebalancer_obstacles:
        removal = _removal(observed)
        message = f"spec.rebalance: {'; '.join(wanted.configuration.rebalancer_obstacles)}"
        return replace(_reported("NotPossible", message, None), actions=removal.actions)
    actions = tuple(writes(observed, _objects(observed, spec, wanted, egress)))
    disabled = _left(observed, [kind for kind in POLICY_KINDS if POLICY_KINDS[1] in spec.without])
    return RebalancerActions((*actions, *disabled), _report(observed, rebalance, wanted, pending=bool(actions)))


def _wanted(
    observed: Observed,
    spec: SecondarySchedulerSpec,
    rebalance: RebalancerSpec,
    decision: RolloutDecision | None,
    effective: EffectiveConfiguration | None,
) -> _DesiredRebalancer | str:
    """What is to run, by the revision that the scheduler runs; or why that is not known yet."""
    if decision is None or effective is None:
        return "no scheduler can be rolled out; see the condition Degraded"
    if decision.finished is None and observed.get("Deployment", observed.names.rebalancer) is None:
        return "it starts once the scheduler runs"
    revision = decision.target.revision
    same = revision.configuration == effective.hash
    configuration = effective if same else read_copy(observed, revision)
    if configuration is None:
        return f"the configuration {revision.configuration} that the scheduler runs is not known"
    return _DesiredRebalancer(rebalance, configuration, rebalance.image or revision.image)


def _objects(
    observed: Observed, spec: SecondarySchedulerSpec, wanted: _DesiredRebalancer, egress: Collection[int] | None
) -> Iterator[tuple[Json, tuple[ObjectKey, ...]]]:
    """Its objects in order, each with those without which it is not to be there: rights only once they are bounded."""
    own = observed.names
    instance = ObjectKey.of(observed.resource)
    account = [operand.account(own.rebalancer, observed.namespace)]
    policies: list[Json] = []
    if POLICY_KINDS[1] not in spec.without:
        bounded = operand.evictions_policy(observed.namespace, own.rebalancer, wanted.configuration.scheduler_names)
        binding = {"policyName": own.eviction_policy, **operand.EVICTION_POLICY_BINDING}
        policies.append(_object(observed, "ValidatingAdmissionPolicy", own.eviction_policy, spec=bounded))
        policies.append(_object(observed, "ValidatingAdmissionPolicyBinding", own.eviction_policy, spec=binding))
    bounds = (instance, *map(ObjectKey.of, policies))
    text = operand.settings_text(wanted.spec.settings)
    parts = [
        _object(observed, "ServiceAccount", own.rebalancer),
        _object(observed, "ConfigMap", own.rebalancer_settings, data={operand.REBALANCER_SETTINGS_KEY: text}),
        _object(observed, "Role", own.rebalancer, rules=operand.rebalancer_namespace_rules(own.operand)),
    ]
    role = operand.role_ref(own.rebalancer)
    parts.append(_object(observed, "RoleBinding", own.rebalancer, roleRef=role, subjects=account))
    everywhere = _object(
        observed,
        "ClusterRoleBinding",
        own.cluster_role_binding(REBALANCER_CLUSTER_ROLE),
        roleRef=operand.cluster_role_ref(REBALANCER_CLUSTER_ROLE),
        subjects=account,
    )
    copy = ObjectKey("ConfigMap", observed.namespace, own.active_config_map(wanted.configuration.hash))
    yield from ((policy, (instance,)) for policy in policies)
    yield from ((part, ()) for part in parts)
    yield everywhere, bounds
    if "NetworkPolicy" not in spec.without:
        ports = [operand.HEALTH_PORT, operand.METRICS_PORT]
        selector = operand.rebalancer_selector(own.operand)
        network = operand.network_policy_spec(selector, ports, egress, spec.scrape_namespaces)
        yield _object(observed, "NetworkPolicy", own.rebalancer, spec=network), ()
    yield _object(observed, "Service", own.rebalancer, spec=operand.rebalancer_service_spec(own.operand)), ()
    if "ServiceMonitor" not in spec.without and "ServiceMonitor" not in observed.unserved:
        monitor = operand.rebalancer_monitor_spec(own.operand, observed.namespace)
        yield _object(observed, "ServiceMonitor", own.rebalancer, spec=monitor), ()
    needed = (*bounds, *map(ObjectKey.of, parts), ObjectKey.of(everywhere), copy)
    yield _object(observed, "Deployment", own.rebalancer, spec=_deployment(observed, spec, wanted)), needed


def _deployment(observed: Observed, spec: SecondarySchedulerSpec, wanted: _DesiredRebalancer) -> Json:
    own, credentials = observed.names, spec.metric_credentials
    token = credentials.service_account if credentials else None
    content = operand.rebalancer_deployment_spec(
        operand.RebalancerOperand(
            operand=own.operand,
            mode=wanted.spec.mode,
            settings=wanted.spec.settings,
            image=wanted.image,
            config_map=own.active_config_map(wanted.configuration.hash),
            settings_map=own.rebalancer_settings,
            service_account=own.rebalancer,
            openshift=observed.openshift,
            labels=own.rebalancer_labels,
            rules=spec.credential_rules,
            metric_secret=(credentials.secret_name or None) if credentials else None,
            metric_audience=token.audience if token else "",
            image_pull_secrets=spec.image_pull_secrets,
            node_selector=spec.node_selector,
            tolerations=spec.tolerations,
        )
    )
    # As for the scheduler: one that a user paused would never get other settings.
    return {**content, "paused": False}


def _object(observed: Observed, kind: str, name: str, **content: Any) -> Json:
    return new_object(observed, kind, name, observed.names.rebalancer_labels, **content)


def _foreign(observed: Observed) -> list[ObjectKey]:
    """Objects with a name of the rebalancer's that this operator did not make, such as those of a stack that installed
    it itself. They are let be: whoever made them deletes them by name, and two must not run at once."""
    namespaced = sorted(key for key in rebalancer_keys(observed) if key.namespace)
    return [key for key in namespaced if (live := observed.objects.get(key)) and not observed.names.owns(live)]


def _removal(observed: Observed) -> RebalancerActions:
    """Its rights in the cluster and the Deployment at once; the rest, the policy last, when no pod is left.

    Its status and its Lease stay: the limits hold if it comes back.
    """
    own = observed.names
    left = _left(observed, ["Deployment", "ClusterRoleBinding"])
    live = observed.get("Deployment", own.rebalancer)
    runs = live is not None and own.owns(live)
    runs = runs or any(own.owns(pod) for pod in pods_of(observed, own.rebalancer))
    if not runs:
        left += _left(observed, [*_KINDS, *POLICY_KINDS])
        if not left:
            return RebalancerActions()
    return replace(_reported("Removing", "The rebalancer is being removed", None), actions=tuple(left))


def _left(observed: Observed, kinds: Iterable[str]) -> list[Delete]:
    """Deletions of its objects of these kinds."""
    keys = rebalancer_keys(observed)
    deletions = []
    for kind in kinds:
        for obj in observed.of_kind(kind):
            key = ObjectKey.of(obj)
            if key in keys and observed.names.owns(obj) and not is_terminating(obj):
                deletions.append(Delete(key, str(obj["metadata"]["uid"]), "no rebalancer is wanted"))
    return deletions


def _unchanged(observed: Observed, reason: str, message: str) -> RebalancerActions:
    """Whatever runs keeps running."""
    return _reported(reason, message, (observed.resource.get("status") or {}).get("rebalancer"))


def _reported(reason: str, message: str, status: Json | None) -> RebalancerActions:
    return RebalancerActions((), RebalancerReport((Condition(READY, False, reason, message[:_MAX_TEXT]),), status))


def _report(
    observed: Observed, rebalance: RebalancerSpec, wanted: _DesiredRebalancer, *, pending: bool
) -> RebalancerReport:
    own = _own_status(observed)
    condition = _ready(observed, rebalance, pending=pending)
    status = _status(observed, rebalance, rebalance.hash if condition.status else "", own.mode_in_effect)
    return RebalancerReport((condition, _rebalancing(own)), status)


def _status(observed: Observed, rebalance: RebalancerSpec, in_effect: str, effective: str = "") -> Json:
    before = ((observed.resource.get("status") or {}).get("rebalancer") or {}).get("settingsHash", "")
    known = {"effectiveMode": effective if effective in ("Off", "Predictive", "Automatic") else ""}
    known["settingsHash"] = in_effect or str(before)
    return {"mode": rebalance.mode, **{key: value for key, value in known.items() if value}}


def _ready(observed: Observed, rebalance: RebalancerSpec, *, pending: bool) -> Condition:
    keys = rebalancer_keys(observed)
    failed = {
        key: failure for key, failure in observed.failures.items() if key in keys and key.kind not in _DISPENSABLE
    }
    for key in sorted(failed):
        forbidden = failed[key].forbidden
        message = f"{key} cannot be written: {failed[key].message}{f' ({_HINT})' if forbidden else ''}"
        return Condition(READY, False, "Forbidden" if forbidden else "ApplyFailed", message[:_MAX_TEXT])
    name = observed.names.rebalancer
    rollout = assess_rollout(observed, name)
    live = observed.get("Deployment", name)
    if live is not None and rollout.complete and not pending:
        return Condition(READY, True, "AsExpected", f"The rebalancer runs in mode {rebalance.mode}")
    problems = filter(None, map(pod_problem_text, pods_of(observed, name)))
    problem = next(problems, "")
    if problem:
        return Condition(READY, False, "NotRunning", problem[:_MAX_TEXT])
    return Condition(READY, False, "Starting", f"Deployment {name} is not complete yet")


def _own_status(observed: Observed) -> ReportedStatus:
    """What the rebalancer says of itself."""
    live = observed.get("ConfigMap", observed.names.rebalancer)
    return read_status(str(((live or {}).get("data") or {}).get(STATUS_KEY) or ""))


def _rebalancing(own: ReportedStatus) -> Condition:
    reported = own.condition
    if reported is None:
        return Condition(REBALANCING, None, "NotReported", "The rebalancer has not reported yet")
    status = {"True": True, "False": False}.get(reported.status)
    return Condition(REBALANCING, status, reported.reason[:_MAX_TEXT] or "NotReported", reported.message[:_MAX_TEXT])
