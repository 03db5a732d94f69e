"""A configuration on a recorded cluster, with its load and its time: ready to decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from scheduler.catalog import nearest_kubernetes
from scheduler.config import Configuration
from scheduler.core import Placement
from scheduler.engine import Assembly, RecordedAnswers, assemble
from scheduler.framework import STOPPED_CLOCKS, Clocks, LoadReading, WallSeconds, configured_extenders
from scheduler.state import WATCHED_KINDS, ClusterState
from secondary_scheduler.errors import CommandError, ExitCode
from secondary_scheduler.importing import importing
from secondary_scheduler.simulation.cluster import PodSelection, SimulatedCluster, build_cluster
from secondary_scheduler.simulation.deciding import SeededByPod, Simulation, none_explained
from secondary_scheduler.simulation.objects import RecordedObjects
from secondary_scheduler.simulation.remarks import remarks
from secondary_scheduler.simulation.report import InputReport

AdaptLoad = Callable[[SimulatedCluster, LoadReading], LoadReading]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a decision depends on beside configuration and objects.

    Attributes:
        seed: of the choice among equally good nodes.
        now: the time of the decisions, seconds since the epoch; None: the end of the load's window, else the newest
            time in the snapshot.
        measured: the nodes' load; None: the one in the snapshot.
        recorded: answers of extenders.
        adapt_load: returns the load by name of node as plugins are to see it.
    """

    seed: int
    now: float | None = None
    measured: LoadReading | None = None
    recorded: RecordedAnswers | None = None
    adapt_load: AdaptLoad | None = None


@dataclass(frozen=True, slots=True)
class ReadyCluster:
    """A cluster on which a configuration can decide.

    Attributes:
        load: by name of node, as plugins see it; None where there is none.
        now: the time of the decisions, seconds since the epoch.
        clock: what the decisions take as the time.
    """

    configuration: Configuration
    cluster: SimulatedCluster
    assembly: Assembly
    chance: SeededByPod
    load: LoadReading | None
    now: float
    recorded: RecordedAnswers | None
    clock: SnapshotClock

    def simulation(
        self,
        explained: Callable[[Placement], bool] = none_explained,
        *,
        preempt: bool = False,
        post_filters: bool = True,
    ) -> Simulation:
        """Return what decides pods on this cluster, and changes it."""
        return Simulation(
            self.assembly.attempts,
            explained=explained,
            preempt=preempt,
            recorded=self.recorded,
            chance=self.chance,
            post_filters=post_filters,
        )


def set_up(
    configuration: Configuration,
    selection: PodSelection,
    objects: RecordedObjects,
    conditions: Conditions,
    report: InputReport,
    *,
    decided_elsewhere: Collection[str] = (),
    about_pending: bool = True,
) -> ReadyCluster:
    """Build the cluster and give the configuration to it.

    Args:
        configuration: as it is on a cluster of this version.
        selection: pods to decide.
        objects: of the cluster.
        conditions: what else there is.
        report: gets what is wrong with the objects, and what a reader of the result has to know.
        decided_elsewhere: other schedulers about whose pods nothing needs to be said.
        about_pending: whether it matters that no pod waits for a decision.

    Raises:
        CommandError: a plugin refuses its args, or cannot be imported.
    """
    cluster = build_cluster(objects, report, selection)
    note_versions(configuration, report)
    ready = make_ready(cluster, configuration, conditions)
    if ready.load is not None and ready.load.window:
        report.note(f"load: averaged over {ready.load.window}")
    for name in decided_elsewhere:
        cluster.others.pop(name, None)
    for text in remarks(cluster, configuration, ready.load, ready.now, about_pending=about_pending):
        report.warn(text)
    return ready


def make_ready(cluster: SimulatedCluster, configuration: Configuration, conditions: Conditions) -> ReadyCluster:
    """Give a configuration to a cluster that is built; nothing is reported.

    Raises:
        CommandError: a plugin refuses its args, or cannot be imported.
    """
    clock, chance = SnapshotClock(), SeededByPod(conditions.seed)
    assembly = _assembled(configuration, clock, chance, cluster.state)
    measured = conditions.measured or cluster.load
    load = set_load(cluster, configuration, measured, conditions.adapt_load) if measured is not None else None
    clock.seconds = conditions.now if conditions.now is not None else _now(measured, cluster.newest)
    return ReadyCluster(configuration, cluster, assembly, chance, load, clock.seconds, conditions.recorded, clock)


class SnapshotClock:
    """The clock of a simulation. It stands still; its time is set once the files are read, as it may come from them,
    and by whoever replays what happened."""

    seconds = 0.0

    def wall(self) -> WallSeconds:
        """Return the time that is set."""
        return WallSeconds(self.seconds)


def _assembled(
    configuration: Configuration, clock: SnapshotClock, chance: SeededByPod, state: ClusterState
) -> Assembly:
    try:
        with importing():
            clocks = Clocks(clock.wall, STOPPED_CLOCKS.monotonic)
            extenders = configured_extenders(configuration.model.extenders)
            return assemble(configuration, clocks=clocks, rng=chance, state=state, extenders=extenders)
    except ValueError as error:
        raise CommandError(f"{configuration.source}: {error}", ExitCode.INVALID_INPUT) from error


def set_load(
    cluster: SimulatedCluster, configuration: Configuration, measured: LoadReading, adapt: AdaptLoad | None
) -> LoadReading:
    """Give this load to every plugin that reads one, whatever source its args name; returns it by name of node."""
    # Imported here: most simulations read no load.
    from scheduler.load import match_nodes, nodes_by_address

    nodes = filter(None, map(cluster.state.node, cluster.state.node_names))
    load, _ = match_nodes(measured, nodes_by_address((node.name, node.addresses) for node in nodes).get)
    if adapt is not None:
        load = adapt(cluster, load)
    for source in load_sources(configuration):
        cluster.state.set_load(replace(load, source=source))
    return load


def load_sources(configuration: Configuration) -> tuple[str, ...]:
    """Return the sources of load that plugins of a configuration read, by `ArgsModel.source_key`."""
    arguments = (profile.args(name) for profile in configuration.profiles for name in profile.enabled)
    keys = {args.source_key() for args in arguments if args is not None}
    return tuple(sorted(key for key in keys if key is not None))


def _now(measured: LoadReading | None, newest: float) -> float:
    if measured is not None and measured.window_end:
        return measured.window_end
    return 0.0 if math.isnan(newest) else newest


def copy_cluster(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster with a state of its own that holds what the files held, as `build_cluster` left it.

    Nodes, pods and objects are shared, as they never change; columns and sums are built again. It takes a fifth of the
    time that reading takes. Call it before anything was decided on the cluster's own state.
    """
    source, state = cluster.state, ClusterState()
    for watched in WATCHED_KINDS.values():
        for item in source.objects.every(watched.kind):
            state.objects.upsert(watched.kind, item)
    for name in source.node_names:
        if (node := source.node(name)) is not None:
            state.upsert_node(node)
    for pod in source.pods():
        state.upsert_pod(pod, observed_at=pod.assigned_at)
    for pod in cluster.pending:
        if pod.nominated_node:
            state.nominator.set(pod, pod.nominated_node)
    return replace(cluster, state=state, templates=cluster.templates.copy())


def taken_over(options: Sequence[str], configuration: Configuration) -> dict[str, str]:
    """Return the schedulers that `--as-scheduler` names, each with the profile that decides about its pods.

    Raises:
        CommandError: the profile is missing or unknown.
    """
    profiles = configuration.scheduler_names
    by_name = {}
    for option in options:
        name, equals, profile = option.partition("=")
        if not equals and len(profiles) > 1:
            names = ", ".join(profiles)
            raise CommandError(
                f"--as-scheduler {name}: the configuration has several profiles ({names}); name one: "
                f"--as-scheduler {name}={profiles[0]}",
                ExitCode.USAGE,
            )
        profile = profile if equals else profiles[0]
        if profile not in profiles:
            raise CommandError(
                f"--as-scheduler {option}: the configuration has no profile {profile}; it has {', '.join(profiles)}",
                ExitCode.USAGE,
            )
        by_name[name] = profile
    return by_name


def note_versions(configuration: Configuration, report: InputReport) -> None:
    """Say which version of kube-scheduler decides, and why that."""
    for profile in configuration.profiles:
        minor = configuration.cluster_minor
        if profile.options.kubernetes_version is not None:
            other = minor is not None and nearest_kubernetes(minor).name != profile.kubernetes.name
            origin = f"its kubernetesVersion{f', though the cluster is 1.{minor}' if other else ''}"
        elif minor is not None:
            origin = "the cluster's version"
        else:
            origin = "the default, as the snapshot names no version"
        report.note(f"{profile.scheduler_name} decides as kube-scheduler {profile.kubernetes.name}: {origin}")
