"""What a user would otherwise not see: pods, load and nodes that a simulation could not use. One line each."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from scheduler.config import Configuration
from scheduler.framework import LoadReading, NodeInfo
from secondary_scheduler.simulation.cluster import SimulatedCluster
from secondary_scheduler.simulation.documents import of_labels

_CAPACITIES = {
    "cpu": (1, "in cores, such as 4 or 4000m"),
    # Bytes: `memory: 8` is 8 bytes, and no node has less than a MiB.
    "memory": (1 << 20, "with its unit, such as 8Gi"),
    "pods": (1, "as a number, such as 110"),
}
"""The least that a usable node has of a resource, and how to write it."""
_FIGURES = {
    "cpu_average": " of cpu",
    # Only a load-watcher's answer lacks these: elsewhere they are the average.
    "cpu_first": " of cpu (type CPU, operator AVG or Latest)",
    "cpu_last": " of cpu (type CPU, operator AVG or Latest)",
    "memory_average": " of memory",
}


def remarks(
    cluster: SimulatedCluster,
    configuration: Configuration,
    measured: LoadReading | None,
    now: float,
    *,
    about_pending: bool = True,
) -> Iterator[str]:
    """Yield what a reader of the result has to know.

    Args:
        cluster: what the files held.
        configuration: whose profiles decide.
        measured: the load by name of node; None where there is none.
        now: seconds since the epoch that are simulated.
        about_pending: whether it matters that no pod waits for a decision.
    """
    if about_pending:
        yield from _of_pods(cluster, configuration.scheduler_names)
        yield from of_labels(cluster.pending)
    yield from _of_nodes(cluster)
    yield from _of_load(cluster, configuration, measured, now)


def _of_pods(cluster: SimulatedCluster, names: Collection[str]) -> Iterator[str]:
    ours, others = len(cluster.pending) + len(cluster.undecidable), cluster.others
    if not cluster.pods:
        yield "the snapshot holds no pods: nothing to decide"
    elif not ours and not others:
        yield f"every pod of the snapshot ({cluster.pods}) has a node or has ended: nothing to decide"
    if others:
        counts = ", ".join(f"{count} of {name}" for name, count in others.most_common(5))
        more = f", and {len(others) - 5} other schedulers" if len(others) > 5 else ""
        name = others.most_common(1)[0][0]
        yield (
            f"not decided, as {'it belongs' if others.total() == 1 else 'they belong'} to other schedulers than "
            f"{', '.join(names)}: {_count(others.total(), 'pending pod')} ({counts}{more}); to decide them too: "
            f"--as-scheduler {name}"
        )


def _of_nodes(cluster: SimulatedCluster) -> Iterator[str]:
    nodes = [node for name in cluster.state.node_names if (node := cluster.state.node(name)) is not None]
    if not nodes:
        yield "the snapshot holds no nodes: every pod stays pending"
        return
    for resource, (least, advice) in _CAPACITIES.items():
        names = [node.name for node in nodes if _amount(node, resource) < least]
        if names:
            yield (
                f"{_count(len(names), 'node')} without {resource}, such as {min(names)}, where no pod fits: write "
                f"status.capacity.{resource} {advice}"
            )


def _amount(node: NodeInfo, resource: str) -> int:
    return node.allowed_pods if resource == "pods" else node.allocatable.get(resource, 0)


def _of_load(
    cluster: SimulatedCluster, configuration: Configuration, measured: LoadReading | None, now: float
) -> Iterator[str]:
    readers: dict[tuple[str, ...], set[str]] = {}
    max_age = math.inf
    for profile in configuration.profiles:
        for name in profile.enabled:
            args = profile.args(name)
            if args is not None and args.source_key() is not None:
                readers.setdefault(args.load_figures(), set()).add(name)
                max_age = min(max_age, profile.options.load.max_age_seconds)
    if not readers:
        return
    if measured is None:
        plugins = ", ".join(sorted(set().union(*readers.values())))
        yield (
            f"{plugins}: decided without the load of nodes, as there is none; give --load, or a snapshot with it "
            "(snapshot --prometheus or --watcher)"
        )
        return
    yield from _of_window(configuration, measured.window)
    fresh = measured.fresh_loads(now, max_age)
    names = sorted(cluster.state.node_names)
    lacking: dict[tuple[tuple[str, ...], str], set[str]] = {}
    for figures, plugins_of_figures in readers.items():
        for figure in figures:
            without = tuple(name for name in names if name not in fresh or math.isnan(fresh[name].figure(figure)))
            # Where every figure is missing, a line per figure would say the same twice.
            of_all = all(name not in fresh for name in without)
            if without:
                lacking.setdefault((without, "" if of_all else _FIGURES[figure]), set()).update(plugins_of_figures)
    for (without, figure), plugins_of_line in lacking.items():
        yield (
            f"{', '.join(sorted(plugins_of_line))}: {_count(len(without), 'node')} of {len(names)} without fresh "
            f"load{figure}, such as {without[0]}"
        )


def _of_window(configuration: Configuration, measured: str) -> Iterator[str]:
    """Where the load is averaged otherwise than the scheduler does; `measured` is "" where its window is not known."""
    # Imported here: most simulations read no load.
    from scheduler.load import configured_sources, is_averaged, window_seconds

    sources, _ = configured_sources(configuration.profiles)
    for window in sorted({settings.window for key, settings in sources.items() if is_averaged(key)}):
        if measured and window_seconds(window) != window_seconds(measured):
            yield (
                f"decided with load averaged over {measured}, where {configuration.source} has {window}: the scheduler "
                f"may decide otherwise (snapshot --window {window})"
            )


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
