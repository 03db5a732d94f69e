"""`reconcile`: from what is observed to what is to be done.

Objects that make a scheduler safer or better observed, and without which it runs all the same.

A failure to write one is reported as a warning and blocks nothing else.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from scheduler import operand
from scheduler.catalog import FLOW_SCHEMAS, lookup
from scheduler.config import InvalidSpecError, SecondarySchedulerSpec, UnknownFlavourError, flavour_named, parse_spec
from scheduler.operand import is_fixed_flag
from secondary_scheduler.operator.reconcile import canary, names, objects
from secondary_scheduler.operator.reconcile.configuration import (
    EffectiveConfiguration,
    InstanceProblem,
    Selection,
    active_copies,
    lease_flag_warning,
    mounted_config_map,
    read_copy,
    select_configuration,
)
from secondary_scheduler.operator.reconcile.deployment import (
    Replicas,
    deployment,
    desired_replicas,
    desired_revision,
    lease_flags,
)
from secondary_scheduler.operator.reconcile.model import (
    Action,
    Delete,
    Json,
    ObjectKey,
    Observed,
    ReconcilePlan,
    SetFinalizers,
    is_terminating,
)
from secondary_scheduler.operator.reconcile.objects import new_object, writes
from secondary_scheduler.operator.reconcile.platform import kubernetes_mismatch
from secondary_scheduler.operator.reconcile.rebalancer import (
    POLICY_KINDS,
    decide_rebalancer,
    rebalancer_keys,
)
from secondary_scheduler.operator.reconcile.revision import Revision, newest, read_run
from secondary_scheduler.operator.reconcile.rollout import RolloutDecision, decide
from secondary_scheduler.operator.reconcile.status import Findings, build_status, events_for
from secondary_scheduler.operator.reconcile.workload import (
    assess_rollout,
    lease_annotations,
    pods_of,
    scheduler_pods,
    workload_problems,
)


def refusals(spec: SecondarySchedulerSpec) -> Iterator[InstanceProblem]:
    """Everything of that kind, by field."""
    if not spec.scheduler_image:
        yield InstanceProblem("ImageMissing", "spec.schedulerImage is empty: name the scheduler's image")
    try:
        known = not spec.flavour or bool(flavour_named(spec.flavour))
    except UnknownFlavourError as error:
        known = False
        yield InstanceProblem("SpecInvalid", f"spec.flavour: {error}")
    if known:
        yield from _of_extra_plugins(spec)
    for index, argument in enumerate(spec.extra_args):
        if is_fixed_flag(argument):
            yield InstanceProblem(
                "SpecInvalid",
                f"spec.extraArgs[{index}]: {argument.partition('=')[0]} is set by the operator and must not be given: "
                "spec.schedulerConfig names the configuration, spec.leaderElection sets the timings",
            )


def _of_extra_plugins(spec: SecondarySchedulerSpec) -> Iterator[InstanceProblem]:
    flavour = spec.image_flavour
    if spec.extra_plugins and flavour.family != "custom":
        yield InstanceProblem(
            "SpecInvalid",
            f"spec.extraPlugins is only for custom images, and this one is {flavour.name}: "
            "set spec.flavour to custom if you built it",
        )
    for index, plugin in enumerate(spec.extra_plugins):
        descriptor = lookup(plugin.name)
        if descriptor is not None and descriptor.points:
            yield InstanceProblem(
                "SpecInvalid",
                f'spec.extraPlugins[{index}].name: "{plugin.name}" is a plugin of the catalogue and needs no '
                "entry here: remove it",
            )


KINDS = frozenset({"PodDisruptionBudget", "NetworkPolicy", "FlowSchema", "ServiceMonitor"})


def optional_objects(
    observed: Observed, spec: SecondarySchedulerSpec, replicas: int, egress: Collection[int] | None
) -> Iterator[Json]:
    """What is wanted of these kinds, as far as the API server serves them and none is among `spec.without`.

    `egress` are the TCP ports that the scheduler needs beside the API server's; None if they are not known.
    """
    everything = _all_optional_objects(observed, replicas, egress, spec.scrape_namespaces)
    return (body for body in everything if body["kind"] not in spec.without)


def _all_optional_objects(
    observed: Observed, replicas: int, egress: Collection[int] | None, scrape_namespaces: Collection[str]
) -> Iterator[Json]:
    scheduler = observed.names.operand
    if replicas > 1:
        # A single one has no budget: it would make its node undrainable.
        yield _object(observed, "PodDisruptionBudget", scheduler, operand.disruption_budget_spec(scheduler))
    network = operand.scheduler_network_policy_spec(scheduler, egress, scrape_namespaces)
    yield _object(observed, "NetworkPolicy", scheduler, network)
    for purpose in FLOW_SCHEMAS:
        spec = operand.flow_schema_spec(purpose, scheduler, observed.namespace)
        yield _object(observed, "FlowSchema", observed.names.flow_schema(purpose), spec)
    if "ServiceMonitor" not in observed.unserved:
        monitor = operand.service_monitor_spec(scheduler, observed.namespace, openshift=observed.openshift)
        yield _object(observed, "ServiceMonitor", scheduler, monitor)


def _object(observed: Observed, kind: str, name: str, spec: Json) -> Json:
    return new_object(observed, kind, name, observed.names.labels, spec=spec)


TEARDOWN_TIMEOUT = timedelta(seconds=60)
"""How long a deleted instance waits for its pods; a pod on a dead node must not keep it forever."""

NAMESPACE_TERMINATING = InstanceProblem(
    "NamespaceTerminating", "The namespace is being deleted: the scheduler is removed, and nothing can be created here"
)

_OWNED_KINDS = (
    *sorted(KINDS),
    "ClusterRoleBinding",
    "RoleBinding",
    "Role",
    "Service",
    "ConfigMap",
    "ServiceAccount",
    *POLICY_KINDS,
)


_DISPENSABLE_KINDS = KINDS | {"Node", "APIServer", "Namespace", *POLICY_KINDS}
"""Kinds that a scheduler can do without."""

_NOT_COLLECTED = frozenset({"ClusterRoleBinding", "Deployment", "Lease"})
"""What Kubernetes' garbage collector would leave behind, or would take too late for the order to hold."""


def reconcile(observed: Observed) -> ReconcilePlan:
    """Decide about one instance. Raises nothing: every problem goes into the plan's status."""
    if is_terminating(observed.resource) or observed.terminating_namespace is not None:
        return _plan_finalization(observed)
    try:
        spec = parse_spec(observed.resource)
    except InvalidSpecError as error:
        return _make_plan(observed, Findings(assess_rollout(observed), [InstanceProblem("SpecInvalid", str(error))]))
    if spec.management_state == "Removed":
        return _plan_removal(observed)
    return _plan_managed(observed, spec)


def _plan_managed(observed: Observed, spec: SecondarySchedulerSpec) -> ReconcilePlan:
    rollout = assess_rollout(observed)
    selection = select_configuration(observed, spec.scheduler_config)
    refused = list(refusals(spec))
    revision_to_keep = _revision_to_keep(observed) if refused else None
    if revision_to_keep is not None:
        selection = replace(selection, effective=read_copy(observed, revision_to_keep))
    effective = selection.effective
    replicas = desired_replicas(observed, spec)
    decision = None
    if effective is not None and (revision_to_keep is not None or not refused):
        revision = revision_to_keep or desired_revision(observed, spec, effective)
        prove = spec.rollout.canary and canary.canary_configuration(effective.text) is not None
        decision = decide(observed, revision, rollout, prove=prove)
    egress = _egress(observed, spec, effective) if effective is not None else None
    rebalancer = decide_rebalancer(observed, spec, decision, effective, egress)
    findings = Findings(
        rollout=rollout,
        problems=list(_problems(observed, spec, selection, decision, refused)),
        warnings=list(_warnings(observed, spec, selection, replicas)),
        selection=selection,
        decision=decision,
        shortage=replicas.shortage,
        hold="Unmanaged" if spec.management_state == "Unmanaged" else "",
        rebalancer=rebalancer.report,
    )
    if findings.hold:
        return _make_plan(observed, findings)
    actions: list[Action] = list(_ensure_finalizer(observed))
    if effective is not None:
        bindings = _bindings(observed, effective, decision)
        actions += _apply_actions(observed, spec, effective, decision, bindings, replicas.number)
        actions += _unneeded_budgets(observed, replicas.number)
        actions += _disabled_objects(observed, spec)
        actions += canary.leftovers(observed, decision.canary if decision else None)
        if decision is not None and decision.finished and rollout.settled:
            actions += _leftovers(observed, decision, bindings)
    # After the scheduler's, whose configuration it mounts; its own failures hold up nothing else.
    actions += rebalancer.actions
    plan = _make_plan(observed, findings, actions)
    recheck = decision.recheck if decision is not None else None
    return plan if recheck is None else replace(plan, requeue_after=max(recheck.total_seconds(), 0.1))


def _revision_to_keep(observed: Observed) -> Revision | None:
    """What runs, or what ran last, where the spec is refused."""
    live = read_run(observed.get("Deployment", observed.names.operand), names.ANNOTATION_REVISION)
    run = live or newest(read_run(copy, names.ANNOTATION_RAN) for copy in active_copies(observed))
    return run.revision if run is not None and read_copy(observed, run.revision) is not None else None


def _bindings(observed: Observed, effective: EffectiveConfiguration, decision: RolloutDecision | None) -> list[Json]:
    """Bindings for the revision that runs, the desired one and the canary's."""
    if decision is None:
        return objects.cluster_role_bindings(observed, [(effective.plugins, None)])
    live = read_run(observed.get("Deployment", observed.names.operand), names.ANNOTATION_REVISION)
    runs = []
    for run in (decision.target, decision.canary, live):
        if run is not None:
            known = effective if run.revision.configuration == effective.hash else read_copy(observed, run.revision)
            runs.append((known.plugins if known is not None else (), run.revision.flavour))
    return objects.cluster_role_bindings(observed, runs)


def _egress(observed: Observed, spec: SecondarySchedulerSpec, effective: EffectiveConfiguration) -> set[int] | None:
    """Ports of the desired configuration and of the one that still runs; None if either is not known."""
    live = read_run(observed.get("Deployment", observed.names.operand), names.ANNOTATION_REVISION)
    configurations = [effective]
    if live is not None and (running := read_copy(observed, live.revision)) is not None:
        configurations.append(running)
    ports = set(spec.egress_ports)
    for configuration in configurations:
        if configuration.ports is None:
            return None
        ports.update(configuration.ports)
    return ports


def _apply_actions(
    observed: Observed,
    spec: SecondarySchedulerSpec,
    effective: EffectiveConfiguration,
    decision: RolloutDecision | None,
    bindings: Sequence[Json],
    replicas: int,
) -> Iterator[Action]:
    instance = ObjectKey.of(observed.resource)
    account = objects.service_account(observed)
    canary_run = decision.canary if decision is not None else None
    wanted: list[tuple[Json, tuple[ObjectKey, ...]]] = [
        (account, ()),
        (objects.lease_role(observed, canary_runs=canary_run is not None or canary.exists(observed)), ()),
        (objects.lease_role_binding(observed), ()),
        # Without the finalizer, objects that Kubernetes' garbage collector does not delete would stay forever.
        *((binding, (instance,)) for binding in bindings),
    ]
    notes = decision.notes if decision is not None else {}
    copies = []
    for configuration in dict.fromkeys((effective.hash, *notes)):
        text = effective.text if configuration == effective.hash else None
        copy = objects.active_config_map(observed, configuration, text, notes.get(configuration, {}))
        if copy is not None:
            copies.append(ObjectKey.of(copy))
            wanted.append((copy, ()))
    wanted.append((objects.metrics_service(observed), ()))
    if decision is not None:
        # The notes on the copies are what a later look at the Deployment is judged by: they come first.
        needed = (ObjectKey.of(account), *copies)
        wanted.append((deployment(observed, spec, decision.target, replicas), needed))
        if canary_run is not None:
            parts = canary.objects(observed, spec, canary_run, effective.text, probe=decision.probe)
            wanted += [(part, needed) for part in parts]
        for body in optional_objects(observed, spec, replicas, _egress(observed, spec, effective)):
            wanted.append((body, () if names.RESOURCES[body["kind"]].namespaced else (instance,)))
    yield from writes(observed, wanted)


def _leftovers(observed: Observed, decision: RolloutDecision, wanted: Sequence[Json]) -> Iterator[Delete]:
    """What only former revisions needed; asked for once the present one runs."""
    bindings = {binding["metadata"]["name"] for binding in wanted}
    of_rebalancer = rebalancer_keys(observed)
    for binding in _owned(observed, "ClusterRoleBinding"):
        unused = binding["metadata"]["name"] not in bindings and not canary.exists(observed)
        unused = unused and ObjectKey.of(binding) not in of_rebalancer
        if unused and not is_terminating(binding):
            yield _delete(binding, "no enabled plugin needs it")
    in_use = {observed.names.active_config_map(configuration) for configuration in decision.notes}
    in_use |= {mounted_config_map(pod) or "" for pod in scheduler_pods(observed)}
    in_use |= {mounted_config_map(pod) or "" for pod in pods_of(observed, observed.names.rebalancer)}
    for copy in active_copies(observed):
        if copy["metadata"]["name"] not in in_use and not is_terminating(copy):
            yield _delete(copy, "no scheduler runs this configuration any more")


def _unneeded_budgets(observed: Observed, replicas: int) -> Iterator[Delete]:
    """A budget that is left over from several replicas would keep the node of a single one from being drained."""
    for budget in _owned(observed, "PodDisruptionBudget"):
        if replicas == 1 and not is_terminating(budget):
            yield _delete(budget, "a single replica needs no PodDisruptionBudget")


def _disabled_objects(observed: Observed, spec: SecondarySchedulerSpec) -> Iterator[Delete]:
    for kind in sorted(KINDS & spec.without):
        for obj in _owned(observed, kind):
            if not is_terminating(obj):
                yield _delete(obj, f"spec.without names {kind}")


def _plan_removal(observed: Observed) -> ReconcilePlan:
    actions, waiting = _teardown(observed, wait_for_pods=True)
    rollout = assess_rollout(observed)
    problems = list(_write_problems(observed))
    findings = Findings(rollout, problems, running=False, removing=bool(actions) or waiting)
    return _make_plan(observed, findings, actions)


def _plan_finalization(observed: Observed) -> ReconcilePlan:
    metadata = observed.resource["metadata"]
    if names.FINALIZER not in (metadata.get("finalizers") or []):
        return ReconcilePlan()
    namespace = observed.terminating_namespace
    deleted_at = datetime.fromisoformat(str((namespace or metadata)["deletionTimestamp"]).replace("Z", "+00:00"))
    left = deleted_at + TEARDOWN_TIMEOUT - observed.now
    actions, waiting = _teardown(observed, wait_for_pods=left > timedelta())
    if actions or waiting:
        problems = [NAMESPACE_TERMINATING] if namespace else list(_write_problems(observed))
        findings = Findings(assess_rollout(observed), problems, running=False, removing=True)
        plan = _make_plan(observed, findings, actions)
        # An Event would be refused there, like anything new.
        events = () if namespace else plan.events
        return ReconcilePlan(plan.actions, plan.status, events, max(left.total_seconds(), 1.0) if waiting else None)
    others = tuple(name for name in metadata["finalizers"] if name != names.FINALIZER)
    return ReconcilePlan((SetFinalizers(ObjectKey.of(observed.resource), others, str(metadata["resourceVersion"])),))


def _teardown(observed: Observed, *, wait_for_pods: bool) -> tuple[list[Action], bool]:
    """Deletions to make now, and whether something that is already going has to be waited for.

    The Deployment goes first and its rights stay until its pods are gone: a scheduler that is being stopped still
    finishes its bindings and releases its Lease, and one that still runs would make a new Lease.
    """
    canary_name, rebalancer = observed.names.canary, observed.names.rebalancer
    live = [observed.get("Deployment", name) for name in (observed.names.operand, canary_name)]
    # A stack may have installed a rebalancer of that name itself.
    live += [obj for obj in _owned(observed, "Deployment") if obj["metadata"]["name"] == rebalancer]
    first = [*filter(None, live), *pods_of(observed, f"{canary_name}-probe")]
    unknown = set(observed.unreadable) & _NOT_COLLECTED
    if observed.terminating_namespace:
        # What is in the namespace goes with it, the operator's rights there, too.
        first = [obj for obj in first if wait_for_pods and not _is_out_of_reach(observed, obj)]
        unknown = {kind for kind in unknown if not names.RESOURCES[kind].namespaced}
    if first:
        return [_delete(obj, "the scheduler is being removed") for obj in first if not is_terminating(obj)], True
    pods = [*scheduler_pods(observed), *pods_of(observed, canary_name)]
    pods += (pod for pod in pods_of(observed, rebalancer) if observed.names.owns(pod))
    if wait_for_pods and pods and not (observed.terminating_namespace and "Pod" in observed.unreadable):
        return [], True
    rest = [obj for kind in _OWNED_KINDS for obj in _owned(observed, kind)]
    lease_names = [observed.names.operand, canary_name]
    if observed.get("Deployment", rebalancer) is None:
        lease_names.append(rebalancer)
        # Its status, which it wrote itself.
        rest += filter(None, [observed.get("ConfigMap", rebalancer)])
    leases = filter(None, (observed.get("Lease", name) for name in lease_names))
    # A leftover Lease grants no rights: an instance must not stay forever because its Lease cannot be deleted.
    rest += (lease for lease in leases if not _forbidden(observed, lease))
    if observed.terminating_namespace:
        rest = [obj for obj in rest if not obj["metadata"].get("namespace")]
    deletions: list[Action] = [
        _delete(obj, "the scheduler is being removed") for obj in rest if not is_terminating(obj)
    ]
    return deletions, bool(rest or unknown)


def _ensure_finalizer(observed: Observed) -> Iterator[SetFinalizers]:
    metadata = observed.resource["metadata"]
    present = tuple(metadata.get("finalizers") or ())
    if names.FINALIZER not in present:
        key = ObjectKey.of(observed.resource)
        yield SetFinalizers(key, (*present, names.FINALIZER), str(metadata["resourceVersion"]))


def _problems(
    observed: Observed,
    spec: SecondarySchedulerSpec,
    selection: Selection,
    decision: RolloutDecision | None,
    refused: Sequence[InstanceProblem],
) -> Iterator[InstanceProblem]:
    """Everything that is wrong, what a user can put right first."""
    if selection.problem is not None:
        yield selection.problem
    if decision is not None and decision.problem is not None:
        yield decision.problem
    yield from refused
    credentials = spec.metric_credentials
    secret_name = credentials.secret_name if credentials else ""
    if secret_name and observed.has_secret(secret_name) is False:
        secret = f"Secret {observed.namespace}/{secret_name}"
        yield InstanceProblem(
            "MetricCredentialsMissing",
            f"{secret}, named by spec.metricCredentials, does not exist: new scheduler pods cannot start until it does",
        )
    yield from _write_problems(observed, rebalancer_keys(observed))
    yield from workload_problems(observed)


def _write_problems(observed: Observed, beside: Collection[ObjectKey] = ()) -> Iterator[InstanceProblem]:
    """What cannot be read or written, without the objects `beside` the scheduler's."""
    for kind in sorted(set(observed.unreadable) - _DISPENSABLE_KINDS):
        failure = observed.unreadable[kind]
        yield InstanceProblem(
            "Forbidden" if failure.forbidden else "ApiError",
            f"{kind} objects cannot be read, so changes to them go unnoticed: {failure.message}",
        )
    alike: dict[tuple[str, bool], list[ObjectKey]] = {}
    for key in sorted(observed.failures):
        if key.kind in _DISPENSABLE_KINDS or key in beside:
            continue
        alike.setdefault((key.kind, observed.failures[key].forbidden), []).append(key)
    for (kind, forbidden), keys in alike.items():
        rest = len(keys) - 1
        others = f" (and {rest} more of kind {kind})" if rest else ""
        message = f"{keys[0]} cannot be written{others}: {observed.failures[keys[0]].message}"
        yield InstanceProblem("Forbidden" if forbidden else "ApplyFailed", message)


def _warnings(
    observed: Observed, spec: SecondarySchedulerSpec, selection: Selection, replicas: Replicas
) -> Iterator[str]:
    """What a person should know, and what does not keep the scheduler from doing its work."""
    yield from filter(None, [kubernetes_mismatch(spec.scheduler_image, spec.image_flavour, observed.kubernetes_minor)])
    if selection.effective is not None:
        yield from filter(None, [lease_flag_warning(selection.effective.text, lease_flags(observed, spec))])
        yield from _without_rights(observed, spec, selection.effective)
    if replicas.shortage:
        yield f"{replicas.shortage}; {replicas.remedy}"
    if unread := lease_annotations(observed).get(names.ANNOTATION_UNREAD):
        yield f"the scheduler places pods without resources that it cannot read: {unread}"
    # Whoever wants no rebalancer needs no policies, and may run with an install of before they were watched.
    unneeded = set(POLICY_KINDS) if spec.rebalance is None else set()
    for kind in sorted(set(observed.unreadable) & _DISPENSABLE_KINDS - unneeded):
        yield f"{kind} objects cannot be read: {observed.unreadable[kind].message}"
    for key in sorted(observed.failures):
        if key.kind in _DISPENSABLE_KINDS - set(POLICY_KINDS) and key.kind not in observed.unreadable:
            yield f"{key} cannot be written: {observed.failures[key].message}"


def _without_rights(
    observed: Observed, spec: SecondarySchedulerSpec, effective: EffectiveConfiguration
) -> Iterator[str]:
    """The install has a ClusterRole for each plugin of the catalogue, and the operator may bind no other."""
    enabled = [plugin.name for plugin in spec.extra_plugins if plugin.name in effective.plugins]
    if enabled:
        account = f"ServiceAccount {observed.namespace}/{observed.names.operand}"
        yield (
            f"{', '.join(enabled)} of spec.extraPlugins {'get' if len(enabled) > 1 else 'gets'} no rights from the "
            f"operator: whoever installs the image must bind what it needs to {account}"
        )


def _make_plan(observed: Observed, findings: Findings, actions: Sequence[Action] = ()) -> ReconcilePlan:
    status = build_status(observed, findings)
    return ReconcilePlan(tuple(actions), status, events_for(observed, status) if status is not None else ())


def _forbidden(observed: Observed, obj: Json) -> bool:
    failure = observed.failures.get(ObjectKey.of(obj))
    return failure is not None and failure.forbidden


def _is_out_of_reach(observed: Observed, obj: Json) -> bool:
    """Whether an object cannot be deleted by this operator, or is not even known to be there any more."""
    return obj["kind"] in observed.unreadable or _forbidden(observed, obj)


def _owned(observed: Observed, kind: str) -> list[Json]:
    return [obj for obj in observed.of_kind(kind) if observed.names.owns(obj)]


def _delete(obj: Json, why: str) -> Delete:
    return Delete(ObjectKey.of(obj), str(obj["metadata"]["uid"]), why)
