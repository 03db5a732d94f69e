"""What is known about the installations on a cluster, and a judgement of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from scheduler.catalog import (
    ANNOTATION_CONFIGURATION_HASH,
    ANNOTATION_LOAD_FRESH,
    ANNOTATION_LOAD_MESSAGE,
    ANNOTATION_UNREAD,
    ANNOTATION_VERSION,
    OPERATOR_NAMESPACE,
    ExtensionPoint,
)
from scheduler.config import (
    ClusterVersions,
    Configuration,
    EffectiveProfile,
    default_configuration,
    incompatibilities,
    kubernetes_minor,
    operator_of,
    profile_differences,
)
from scheduler.kube.client import ClientConfig
from scheduler.kube.primitives import format_time
from secondary_scheduler.clusterstatus.asking import LiveState, MetricsSummary, ask_all
from secondary_scheduler.clusterstatus.health import is_silent, problems_of, worst
from secondary_scheduler.clusterstatus.installations import (
    CallerLimits,
    DeployedComponent,
    Installations,
    Instance,
    Place,
    configuration_of,
    installations_of,
    instances_of,
    place_of,
)
from secondary_scheduler.clusterstatus.listing import first_names
from secondary_scheduler.clusterstatus.schedulerclient import SchedulerPod
from secondary_scheduler.clusterstatus.status import (
    AttemptTotals,
    ClusterIdentity,
    ConfigurationHashes,
    DeployedReplicas,
    InstanceStatus,
    LeaderStatus,
    LoadFreshness,
    ObservedCondition,
    PluginWeight,
    ProfileStatus,
    RolloutStatus,
    ShadowStatus,
    State,
    StatusReport,
    UnreadableConfiguration,
    VersionStatus,
    is_none_ready,
)
from secondary_scheduler.kubeobjects import KubeObject, part, parts


def read_status(
    config: ClientConfig,
    namespace: str | None,
    *,
    everywhere: bool,
    asker: ClientConfig | None = None,
    command: str = "status",
) -> StatusReport:
    """Read the installations of a namespace (None: of all) and ask the schedulers that lead, with the credentials of
    `asker`, if there is one; the API server hears from which `command` the question is.

    Without a namespace only those in the operator's are asked: whoever may create a Deployment or a SecondaryScheduler
    can make it lead, and its pod gets the token of who asks.

    Raises:
        KubeError: the API server does not answer.
    """
    limits = CallerLimits()
    read = installations_of(config, namespace, limits, everywhere=everywhere, command=command)
    return live_status(config, read, limits, namespace or OPERATOR_NAMESPACE, asker)


def live_status(
    config: ClientConfig, read: Installations, limits: CallerLimits, trusted: str, asker: ClientConfig | None
) -> StatusReport:
    """Ask the schedulers that lead in the namespace `trusted`, and return the document; the rest as `read_status`."""
    instances = instances_of(read)
    now = datetime.now(UTC)
    if unasked := {instance.place[0] for instance in instances if instance.leader} - {trusted}:
        limits.note(
            f"queue, attempts and load by source in {first_names(unasked)}: a scheduler's pod sees the token of who "
            "asks, so name a namespace that you trust with --namespace"
        )
    schedulers = schedulers_to_ask(config, instances, trusted, asker)
    answers = ask_all(schedulers.values(), now) if schedulers else []
    for answer in answers:
        for line in answer.missing:
            limits.note(line)
    return status_document(read, instances, dict(zip(schedulers, answers, strict=True)), limits, now)


def schedulers_to_ask(
    config: ClientConfig, instances: Iterable[Instance], trusted: str, asker: ClientConfig | None
) -> dict[Place, SchedulerPod]:
    """Return who is to be asked, by the instance's place: the leaders in the one namespace that the caller trusts."""
    return {
        # The pod is where the Deployment is, which is where the SecondaryScheduler is, too.
        instance.place: SchedulerPod(
            config,
            trusted,
            instance.leader,
            instance.port,
            asker,
            is_ours=instance.kind == "Lease" or instance.flavour.is_ours,
        )
        for instance in instances
        if instance.leader and instance.place[0] == trusted
    }


def status_document(
    read: Installations,
    instances: Sequence[Instance],
    live: Mapping[tuple[str, str], LiveState],
    limits: CallerLimits,
    now: datetime,
) -> StatusReport:
    """Return the document.

    Args:
        read: what the API server says.
        instances: those of it.
        live: what the schedulers answered, by the instance's place.
        limits: what could not be read.
        now: the time of the answers.
    """
    statuses = [_instance(instance, read, live.get(instance.place), now) for instance in instances]
    return StatusReport(
        time=format_time(now),
        state=worst(instance.state for instance in statuses) if statuses else State.FAILED,
        cluster=ClusterIdentity(read.server, read.kubernetes, read.openshift or None),
        instances=statuses,
        not_shown=limits.lines,
    )


def _instance(instance: Instance, read: Installations, live: LiveState | None, now: datetime) -> InstanceStatus:
    """What is known of an instance, and the judgement of all of it."""
    resource, configuration = instance.resource, configuration_of(instance, read)
    alive = _is_alive(instance, live, now)
    # What a scheduler wrote on its Lease, or the operator about it, holds no longer than the scheduler lives.
    reported = instance.reported if alive else {}
    spec, status = part(resource, "spec"), part(resource, "status")
    deployment = instance.scheduler.deployment if instance.scheduler else None
    replicas = _replicas(deployment)
    observed = {} if alive is False or (replicas and not replicas.ready) else status
    metrics, decisions = (live.metrics, live.decisions) if live else (None, None)
    facts = InstanceStatus(
        namespace=instance.place[0],
        name=instance.place[1],
        kind=instance.kind,
        management_state=str(spec.get("managementState") or "Managed") if resource is not None else None,
        conditions=_conditions(resource, deployment),
        deployment=replicas,
        leader_election=instance.elects,
        leader=_leader(instance),
        alive=alive,
        rollout=_rollout(status),
        configuration=_hashes(instance, configuration, reported, observed),
        profiles=_profiles(configuration, kubernetes_minor(ClusterVersions(read.kubernetes)), metrics),
        load_data=_load_data(reported),
        unread_resources=reported.get(ANNOTATION_UNREAD) or None,
        versions=_versions(instance, read, reported, observed),
        load_sources=metrics.load if metrics else None,
        queue=metrics.queue if metrics else None,
        rejected_by=metrics.rejected_by if metrics else None,
        attempts=AttemptTotals(
            since_start=metrics.attempts if metrics else None, last=decisions.attempts if decisions else None
        ),
        placements=decisions.placements if decisions else None,
        errors=decisions.errors if decisions else None,
    )
    readable = instance.scheduler is not None or instance.deployment_readable
    problems = problems_of(facts, lease_readable=instance.lease_readable, deployment_readable=readable, now=now)
    return replace(facts, state=worst(problem.severity for problem in problems), problems=problems)


def _is_alive(instance: Instance, live: LiveState | None, now: datetime) -> bool | None:
    """Whether a replica leads and works: it says so, or nothing speaks against it; None where that is not known.

    Another replica that is ready says nothing about the leader.
    """
    ready = None if instance.scheduler is None else not is_none_ready(instance.scheduler.component.ready)
    if not instance.elects:
        return ready  # A Lease was left from before, and says nothing.
    if live is not None and live.leads is not None:
        return live.leads
    if not instance.lease_readable:
        return None
    spec = part(instance.lease, "spec")
    leads = bool(instance.leader) and not is_silent(spec.get("renewTime"), spec.get("leaseDurationSeconds"), now)
    # One that is not ready and has just renewed its Lease starts, or has just ended.
    return None if leads and ready is False else leads


def _conditions(resource: KubeObject | None, deployment: KubeObject | None) -> list[ObservedCondition]:
    """Those of the SecondaryScheduler, or where it has none those of the Deployment."""
    conditions = parts(resource, "status", "conditions") or parts(deployment, "status", "conditions")
    return [
        ObservedCondition(
            _text(condition.get("type")) or "",
            _text(condition.get("status")) or "",
            _text(condition.get("reason")) or "",
            _text(condition.get("message")) or "",
            _text(condition.get("lastTransitionTime")),
        )
        for condition in conditions
    ]


def _replicas(deployment: KubeObject | None) -> DeployedReplicas | None:
    if deployment is None:
        return None
    status, replicas = part(deployment, "status"), part(deployment, "spec").get("replicas")
    counts = (_count(status.get(name)) for name in ("readyReplicas", "availableReplicas", "updatedReplicas"))
    return DeployedReplicas(place_of(deployment)[1], 1 if replicas is None else _count(replicas), *counts)


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _text(value: object) -> str | None:
    """What anybody may have written in place of a text."""
    return str(value) if value else None


def _leader(instance: Instance) -> LeaderStatus | None:
    if not instance.leader:
        return None
    spec = part(instance.lease, "spec")
    return LeaderStatus(
        pod=instance.leader,
        since=_text(spec.get("acquireTime")),
        renewed_at=_text(spec.get("renewTime")),
        lease_duration_seconds=_count(spec.get("leaseDurationSeconds")),
    )


def _rollout(status: KubeObject) -> RolloutStatus | None:
    last = part(status, "lastRollout")
    if not (outcome := _text(last.get("outcome"))):
        return None
    configuration, message, time = (_text(last.get(name)) for name in ("configurationHash", "message", "time"))
    return RolloutStatus(configuration_hash=configuration, outcome=outcome, message=message, time=time)


def _hashes(
    instance: Instance, configuration: Configuration | str, reported: Mapping[str, str], observed: KubeObject
) -> ConfigurationHashes:
    status = part(instance.resource, "status")
    template = instance.scheduler.deployment if instance.scheduler else None
    mounted = configuration.hash if isinstance(configuration, Configuration) else ""
    annotated = part(template, "spec", "template", "metadata", "annotations").get(ANNOTATION_CONFIGURATION_HASH)
    wanted = part(status, "lastRollout").get("configurationHash") or annotated or mounted
    return ConfigurationHashes(
        _text(wanted), _text(reported.get(ANNOTATION_CONFIGURATION_HASH) or observed.get("configurationHash"))
    )


def _profiles(
    configuration: Configuration | str, minor: int | None, metrics: MetricsSummary | None
) -> list[ProfileStatus] | UnreadableConfiguration | None:
    if not isinstance(configuration, Configuration):
        return UnreadableConfiguration(configuration) if configuration else None
    usual = default_configuration(allow_default_scheduler_name=True, cluster_minor=minor).profiles[0].enabled
    return [
        ProfileStatus(
            scheduler_name=profile.scheduler_name,
            score=[
                PluginWeight(plugin.name, plugin.weight)
                for plugin in sorted(profile.plugins(ExtensionPoint.SCORE), key=lambda plugin: -plugin.weight)
            ],
            plugins=list(profile.enabled),
            added=[name for name in profile.enabled if name not in usual],
            removed=[name for name in usual if name not in profile.enabled],
            shadow=_shadow(configuration, profile, metrics),
        )
        for profile in configuration.served
    ]


def _shadow(
    configuration: Configuration, profile: EffectiveProfile, metrics: MetricsSummary | None
) -> ShadowStatus | UnsetType:
    name, shadow = profile.scheduler_name, profile.options.shadow
    if shadow is None or shadow.profile == name:
        return UNSET
    return ShadowStatus(
        scheduler_name=shadow.profile,
        sample_ratio=shadow.sample_ratio,
        differences=profile_differences(configuration, name, shadow.profile),
        compared=metrics.shadows.get(name, {}) if metrics else None,
    )


def _load_data(reported: Mapping[str, str]) -> LoadFreshness | None:
    if (fresh := reported.get(ANNOTATION_LOAD_FRESH)) is None:
        return None
    return LoadFreshness(fresh == "true", reported.get(ANNOTATION_LOAD_MESSAGE, ""))


def _versions(
    instance: Instance, read: Installations, reported: Mapping[str, str], status: KubeObject
) -> VersionStatus:
    operator = _operator(instance, read)
    cluster = ClusterVersions(read.kubernetes or None, read.openshift or None)
    release = operator_of(operator.component.image) if operator else None
    return VersionStatus(
        image=instance.image or None,
        flavour=instance.flavour.name if instance.image else None,
        behaves_as=_text(reported.get(ANNOTATION_VERSION) or status.get("kubernetesVersion")),
        operator_image=operator.component.image if operator else None,
        operator_ready=operator.component.ready if operator else None,
        incompatibilities=[
            incompatibility.message
            for incompatibility in incompatibilities(cluster, release, instance.image, instance.flavour)
        ]
        if instance.image
        else [],
    )


def _operator(instance: Instance, read: Installations) -> DeployedComponent | None:
    """The operator of an instance's namespace, or the only one that there is; None without a SecondaryScheduler."""
    if instance.resource is None:
        return None
    operators = [component for component in read.components if component.component.role == "operator"]
    neighbours = [component for component in operators if component.component.namespace == instance.place[0]]
    return neighbours[0] if neighbours else operators[0] if len(operators) == 1 else None
