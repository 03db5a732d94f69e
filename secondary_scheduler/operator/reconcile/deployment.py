"""The scheduler's Deployment: which revision it runs, in the form that `scheduler.operand` gives it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduler import operand
from scheduler.config import DEFAULT_SCHEDULER_NAME, SecondarySchedulerSpec, flavour_of
from secondary_scheduler.operator.reconcile import names
from secondary_scheduler.operator.reconcile.configuration import EffectiveConfiguration
from secondary_scheduler.operator.reconcile.model import Json, Observed
from secondary_scheduler.operator.reconcile.objects import new_object
from secondary_scheduler.operator.reconcile.platform import tls_arguments
from secondary_scheduler.operator.reconcile.revision import Revision, Run, annotation_value


@dataclass(frozen=True)
class _Variant:
    """What the scheduler and its canary differ in."""

    name: str
    """Of the Deployment and the Lease, and the pods' label `app`."""
    labels: dict[str, str]
    config_map: str
    strategy: Json
    replicas: int
    configuration_hash: str
    revision_mark: str


def desired_revision(
    observed: Observed, spec: SecondarySchedulerSpec, configuration: EffectiveConfiguration
) -> Revision:
    """What the spec asks for, with a configuration."""
    timings = spec.leader_election
    return Revision(
        configuration=configuration.hash,
        image=spec.scheduler_image,
        command=tuple(spec.command),
        lease_timings=(timings.lease_duration, timings.renew_deadline, timings.retry_period),
        args=(
            *(["--allow-default-scheduler-name"] if _must_allow_default_name(spec, configuration) else []),
            *(spec.credential_rules.arguments() if spec.image_flavour.is_ours else []),
            *tls_arguments(observed, spec.extra_args),
            *spec.extra_args,
        ),
        env=json.dumps([*_environment(observed, spec), *spec.env], sort_keys=True),
        # A spec.flavour that repeats what the image's name says is no new revision.
        flavour_name="" if spec.image_flavour == flavour_of(spec.scheduler_image) else spec.flavour,
    )


def _environment(observed: Observed, spec: SecondarySchedulerSpec) -> list[Json]:
    names_in_spec = {variable.get("name") for variable in spec.env}
    usual = operand.environment_for(spec.image_flavour, openshift=observed.openshift)
    return [variable for variable in usual if variable["name"] not in names_in_spec]


def lease_flags(observed: Observed, spec: SecondarySchedulerSpec) -> dict[str, object]:
    """What the flags say, under the names that `leaderElection` of a configuration has for it."""
    timings = spec.leader_election
    return {
        "leaderElect": True,
        "leaseDuration": timings.lease_duration,
        "renewDeadline": timings.renew_deadline,
        "retryPeriod": timings.retry_period,
        "resourceLock": "leases",
        "resourceName": observed.names.operand,
        "resourceNamespace": observed.namespace,
    }


def deployment(observed: Observed, spec: SecondarySchedulerSpec, run: Run, replicas: int) -> Json:
    """The Deployment that runs a revision; what can not be proven by a canary comes from the spec."""
    part = _Variant(
        name=observed.names.operand,
        labels=observed.names.labels,
        config_map=observed.names.active_config_map(run.revision.configuration),
        # The Lease keeps two at a time from scheduling; the old one leaves only when the new one is ready.
        strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        replicas=replicas,
        configuration_hash=run.revision.configuration,
        revision_mark=run.revision.key,
    )
    return _deployment(observed, spec, run, part)


def canary_deployment(
    observed: Observed, spec: SecondarySchedulerSpec, run: Run, reported_hash: str, attempt: str
) -> Json:
    """The same for the canary, whose own configuration has another hash; a former attempt's pod goes first."""
    part = _Variant(
        name=observed.names.canary,
        labels=observed.names.canary_labels,
        config_map=observed.names.canary_config_map(run.revision.configuration),
        strategy={"type": "Recreate"},
        replicas=1,
        configuration_hash=reported_hash,
        revision_mark=attempt,
    )
    return _deployment(observed, spec, run, part)


def _deployment(observed: Observed, spec: SecondarySchedulerSpec, run: Run, part: _Variant) -> Json:
    topology = spec.topology.highly_available_topology if spec.highly_available else None
    revision, credentials = run.revision, spec.metric_credentials
    account = credentials.service_account if credentials else None
    content = operand.Operand(
        name=part.name,
        namespace=observed.namespace,
        image=revision.image,
        config_map=part.config_map,
        service_account=observed.names.operand,
        openshift=observed.openshift,
        labels=part.labels,
        annotations={
            names.ANNOTATION_CONFIGURATION_HASH: part.configuration_hash,
            names.ANNOTATION_REVISION: part.revision_mark,
        },
        strategy=part.strategy,
        replicas=part.replicas,
        command=revision.command or revision.flavour.command,
        arguments=revision.args,
        timings=operand.Timings(*revision.lease_timings),
        verbosity=spec.verbosity,
        env=json.loads(revision.env),
        resources=spec.resources,
        serving_cert_secret=observed.names.serving_cert_secret if has_serving_cert(observed) else None,
        metric_secret=(credentials.secret_name or None) if credentials else None,
        metric_audience=account.audience if account else "",
        priority_class_name=spec.priority_class_name,
        image_pull_secrets=spec.image_pull_secrets,
        node_selector={**(topology.node_selector if topology else {}), **spec.node_selector},
        tolerations=[*(topology.tolerations if topology else []), *spec.tolerations],
        affinity=spec.affinity,
    )
    # Owned by the operator, because a Deployment that a user paused would never get another revision.
    spec_of_deployment = {**operand.deployment_spec(content), "paused": False}
    body = new_object(observed, "Deployment", part.name, part.labels, spec=spec_of_deployment)
    body["metadata"]["annotations"] = {names.ANNOTATION_REVISION: annotation_value(run)}
    return body


def has_serving_cert(observed: Observed) -> bool:
    """Whether to serve the certificate of the serving-cert Secret; keeps what runs where that Secret cannot be read."""
    exists = observed.has_secret(observed.names.serving_cert_secret)
    if exists is not None:
        return exists
    live = observed.get("Deployment", observed.names.operand)
    volumes = live["spec"]["template"]["spec"].get("volumes") or [] if live else []
    return any(volume["name"] == names.CERTS_VOLUME for volume in volumes)


def _must_allow_default_name(spec: SecondarySchedulerSpec, configuration: EffectiveConfiguration) -> bool:
    # The configuration was accepted with that name. Upstream's binary does not know the flag, and needs none.
    return DEFAULT_SCHEDULER_NAME in configuration.scheduler_names and spec.image_flavour.is_ours


class Replicas(NamedTuple):
    """The number to run.

    Attributes:
        shortage: where it is fewer than was asked for, both numbers and why.
        remedy: which nodes count, and what to do about it.
    """

    number: int
    shortage: str = ""
    remedy: str = ""


def desired_replicas(observed: Observed, spec: SecondarySchedulerSpec) -> Replicas:
    """One, or in high availability as many as there are nodes for them, at most `maxReplicas`.

    A node counts if it has the labels of the node selector, is not cordoned and has no taint that the scheduler does
    not tolerate. That it is not ready keeps a replica from being added, but takes none away: it may be back before
    another node has started one.
    """
    if not spec.highly_available:
        return Replicas(1)
    most = spec.replicas
    if "Node" in observed.unreadable:
        return Replicas(most)
    topology = spec.topology.highly_available_topology
    selector = {**topology.node_selector, **spec.node_selector}
    tolerations = [*topology.tolerations, *spec.tolerations]
    eligible = [node for node in observed.of_kind("Node") if _can_run(node, selector, tolerations)]
    ready = sum(map(_is_ready, eligible))
    live = observed.get("Deployment", observed.names.operand)
    running = int(live["spec"].get("replicas", 1)) if live is not None else 0
    count = max(1, min(most, ready), min(most, running, len(eligible)))
    if count >= most:
        return Replicas(count)
    described = ", ".join(f"{key}={value}" for key, value in sorted(selector.items())) or "no selector"
    return Replicas(
        count,
        f"{count} of {most} wanted: {_suitable(len(eligible), ready)}",
        f"a node counts that could run one ({described}) and is ready; add nodes, or lower maxReplicas",
    )


def _suitable(eligible: int, ready: int) -> str:
    if ready < eligible:
        return f"{ready} of {eligible} suitable nodes {'is' if ready == 1 else 'are'} ready"
    return {0: "no suitable node", 1: "one suitable node"}.get(eligible, f"{eligible} suitable nodes")


def _can_run(node: Json, selector: Mapping[str, str], tolerations: Sequence[Json]) -> bool:
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        return False
    hard = (taint for taint in spec.get("taints") or [] if taint.get("effect") in ("NoSchedule", "NoExecute"))
    # What the cluster itself sets on a node in trouble is what `_is_ready` is about.
    lasting = (taint for taint in hard if not str(taint.get("key", "")).startswith("node.kubernetes.io/"))
    return all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in lasting)


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    key = toleration.get("key") or ""
    if toleration.get("operator") == "Exists":
        return not key or key == taint.get("key")
    return bool(key) and key == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")


def _is_ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
