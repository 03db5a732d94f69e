"""The command `rebalance plan` once its options are read.

Apart from the command itself, because importing this takes longer than reading the command line.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from msgspec import Struct

from scheduler.config import Configuration, RebalanceSettings, RebalanceSettingsError, read_rebalance_settings
from scheduler.framework import LoadReading, configured_extenders
from scheduler.kube.client import ClientConfig
from scheduler.kube.model import DecodeError
from scheduler.kube.primitives import QuantityError, TimestampError, epoch_seconds
from scheduler.load import window_seconds
from secondary_scheduler.cli.configurations import chosen_configuration, conditions_of, selection_of
from secondary_scheduler.cli.errors import InputError
from secondary_scheduler.cli.loadoptions import add_load
from secondary_scheduler.cli.output import say
from secondary_scheduler.cli.rebalance import output as forms
from secondary_scheduler.cli.rebalance.options import LiveSource, RebalanceOptions
from secondary_scheduler.cli.snapshotfile import cluster_to_read
from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
from secondary_scheduler.clustersnapshot.reading import read_snapshot
from secondary_scheduler.clusterstatus.installations import (
    CallerLimits,
    Installations,
    Instance,
    configuration_of,
    installations_of,
    instances_of,
)
from secondary_scheduler.files import read_text
from secondary_scheduler.rebalancing import (
    MOVABLE_PODS,
    POD_METRICS,
    WORKLOADS,
    ClusterFacts,
    History,
    MovedPodFacts,
    ObservedScheduler,
    Oracle,
    PlanInput,
    SchedulerHealth,
    Workload,
    facts_of_pod,
    make_plan,
    scheduler_health,
    usage_of,
)
from secondary_scheduler.simulation.objects import NamedObject, RecordedObjects, read_recorded
from secondary_scheduler.simulation.report import InputReport, with_field
from secondary_scheduler.simulation.settingup import ReadyCluster, load_sources, set_up


def run(request: SnapshotRequest, options: RebalanceOptions) -> RebalanceOutcome:
    """Make the plan and write it; what is wrong with the objects is reported on stderr."""
    report = InputReport(say)
    settings, live = _settings(options.settings), options.live
    conditions = conditions_of(request, report)
    objects = read_recorded(request.files, report) if live is None else _live_objects(live, report)
    configuration = chosen_configuration("--config", request.config, request.place, objects, report)
    if live is not None:
        _add_live_load(live, objects, configuration, report)
        conditions = replace(conditions, now=time.time() if request.now is None else request.now)
    ready = set_up(
        configuration, selection_of(request, configuration), objects, conditions, report, about_pending=False
    )
    facts = read_facts(objects, report)
    health = _health(live, ready, report)
    plan = make_plan(_situation(ready, settings, facts, health), _oracle(ready), options.rounds)
    forms.write(plan, sys.stdout.buffer, options.output, several_rounds=options.rounds > 1)
    report.close()
    return RebalanceOutcome(bool(plan.moves), not report.invalid)


def _settings(file: Path | None) -> RebalanceSettings:
    if file is None:
        return RebalanceSettings()
    # Here, since most calls have no settings of their own.
    from secondary_scheduler.yamltext import documents

    data = read_text(file, option="--settings").encode()
    contents = [document.content for document in documents(data, str(file))]
    if len(contents) > 1:
        raise InputError(f"--settings {file}: holds {len(contents)} documents; give one")
    try:
        return read_rebalance_settings(contents[0] if contents else None)
    except RebalanceSettingsError as error:
        problems = str(error).splitlines()
        for problem in problems[1:]:
            say(f"--settings {file}: {problem}")
        raise InputError(f"--settings {file}: {problems[0]}") from error


def _live_objects(live: LiveSource, report: InputReport) -> RecordedObjects:
    with cluster_to_read(live.kubeconfig, live.context) as connection:
        documents = read_snapshot(connection, report.warn)
    objects = RecordedObjects(report)
    objects.add_documents(connection.server, documents)
    return objects


def _add_live_load(
    live: LiveSource, objects: RecordedObjects, configuration: Configuration, report: InputReport
) -> None:
    """Add the load, which is read last: how depends on the configuration, and which that is on the objects."""
    with cluster_to_read(live.kubeconfig, live.context) as connection:
        add_load(objects, live.origin, configuration, connection.server, report)


def _health(live: LiveSource | None, ready: ReadyCluster, report: InputReport) -> SchedulerHealth | None:
    """Return the health of the scheduler that runs; None on a snapshot, and where it is not to be asked."""
    if live is None or not live.ask_scheduler:
        return None
    with cluster_to_read(live.kubeconfig, live.context) as connection:
        return read_health(connection, ready.configuration, ready.now, report.warn)


def _situation(
    ready: ReadyCluster, settings: RebalanceSettings, facts: ClusterFacts, health: SchedulerHealth | None
) -> PlanInput:
    configuration = ready.configuration
    options = [profile.options.load for profile in configuration.profiles]
    return PlanInput(
        settings,
        facts,
        ready.cluster.pending,
        tuple(configuration.scheduler_names),
        max_age=float(min(load.max_age_seconds for load in options)),
        window=max(window_seconds(load.window) for load in options),
        history=History.unknown(),
        health=health,
        own_namespaces=_own_namespaces(configuration),
    )


def _own_namespaces(configuration: Configuration) -> frozenset[str]:
    """Return where the scheduler runs, as far as its configuration says it: in the namespace of its Lease."""
    namespace = configuration.model.leader_election.resource_namespace
    return frozenset({namespace} if namespace else ())


def _oracle(ready: ReadyCluster) -> Oracle:
    configuration = ready.configuration
    extenders = configured_extenders(configuration.model.extenders)
    # Of sources without a window the end is not known: it is the time of the plan.
    reading = ready.load if ready.load is not None else LoadReading({}, ready.now)
    return Oracle(
        ready.assembly.attempts.state,
        ready.assembly.attempts.runners,
        load_sources(configuration),
        replace(reading, source=""),
        ready.now,
        ready.chance,
        lambda pod: any(extender.is_interested(pod) for extender in extenders),
    )


def read_health(
    config: ClientConfig, configuration: Configuration, now: float, say: Callable[[str], None]
) -> SchedulerHealth | None:
    """Return the health of the scheduler of a configuration; None where the caller may not read enough to tell.

    Args:
        config: the cluster.
        configuration: what the plan is made with.
        now: seconds since the epoch.
        say: gets what the caller may not read.

    Raises:
        KubeError: the API server does not answer.
    """
    limits = CallerLimits()
    read = installations_of(config, None, limits, everywhere=True, command="rebalance")
    return health_in(read, limits, configuration, now, say)


def health_in(
    read: Installations,
    limits: CallerLimits,
    configuration: Configuration,
    now: float,
    say: Callable[[str], None],
) -> SchedulerHealth | None:
    """Return the same from what was read."""
    names = frozenset(configuration.scheduler_names)
    instance = next((candidate for candidate in instances_of(read) if names & _served(candidate, read)), None)
    if instance is None and limits.lines:
        for line in limits.lines:
            say(f"scheduler not asked: {line}")
        return None
    if instance is None:
        observed = ObservedScheduler(f"a scheduler of {', '.join(sorted(names)[:3])}")
    else:
        title = "/".join(instance.place)
        # One that was found was readable, in whatever namespace.
        if not instance.lease_readable or (instance.scheduler is None and not instance.deployment_readable):
            say(f"scheduler {title} not asked: this user needs to list leases and deployments in its namespace")
            return None
        deployment = instance.scheduler.deployment if instance.scheduler is not None else None
        observed = ObservedScheduler(title, deployment, instance.lease, instance.resource, instance.elects)
    return scheduler_health(observed, planned=configuration.hash, now=now)


def _served(instance: Instance, read: Installations) -> frozenset[str]:
    configuration = configuration_of(instance, read)
    return frozenset(configuration.scheduler_names) if isinstance(configuration, Configuration) else frozenset()


class _Created(Struct, rename="camel"):
    creation_timestamp: str | None = None


class _UIDMetadata(Struct):
    metadata: _Created | None = None


_metadata = msgspec.json.Decoder(_UIDMetadata)


class _PodsWhenAsked(Mapping[str, MovedPodFacts]):
    """Facts about pods, decoded when they are asked for: of 50,000 pods few are on overloaded nodes."""

    def __init__(self, objects: RecordedObjects) -> None:
        self._objects = {f"{obj.namespace}/{obj.name}": obj for obj in objects.of("Pod")}
        self._decoded: dict[str, MovedPodFacts] = {}

    def __getitem__(self, key: str) -> MovedPodFacts:
        if key not in self._decoded:
            try:
                self._decoded[key] = facts_of_pod(MOVABLE_PODS.decode(self._objects[key].entry.data))
            except (DecodeError, OverflowError):
                # The scheduler's own reading of it has been reported.
                raise KeyError(key) from None
        return self._decoded[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)


def read_facts(objects: RecordedObjects, report: InputReport) -> ClusterFacts:
    """Return the facts; what cannot be used is reported, and missing then."""
    workloads: dict[tuple[str, str, str], Workload] = {}
    for kind, codec in WORKLOADS.items():
        for obj in objects.of(kind):
            try:
                workloads[kind, obj.namespace, obj.name] = codec.decode(obj.entry.data)
            except (DecodeError, OverflowError) as error:
                report.leave_out(obj.entry.place, obj.title, with_field(error))
    usage = {}
    for obj in objects.of("PodMetrics"):
        try:
            usage[f"{obj.namespace}/{obj.name}"] = usage_of(POD_METRICS.decode(obj.entry.data))
        except (DecodeError, OverflowError, QuantityError, TimestampError) as error:
            report.leave_out(obj.entry.place, obj.title, with_field(error))
    created = {obj.name: at for obj in objects.of("Node") if not math.isnan(at := _created(obj))}
    return ClusterFacts(_PodsWhenAsked(objects), workloads, usage, created)


def _created(obj: NamedObject) -> float:
    try:
        metadata = _metadata.decode(obj.entry.data).metadata
        return epoch_seconds(metadata.creation_timestamp or "") if metadata is not None else math.nan
    except (msgspec.MsgspecError, UnicodeDecodeError, TimestampError):
        return math.nan


@dataclass(frozen=True, slots=True)
class RebalanceOutcome:
    """What the exit code says.

    Attributes:
        moves: there are some.
        valid: every object could be used.
    """

    moves: bool
    valid: bool
