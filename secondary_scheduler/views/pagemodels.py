"""A page model: what was read, and what is decided on it. Made in a thread, then only read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from scheduler.config import Configuration
from scheduler.framework import PodInfo
from secondary_scheduler.simulation.cluster import SimulatedCluster
from secondary_scheduler.simulation.remarks import remarks
from secondary_scheduler.simulation.settingup import Conditions
from secondary_scheduler.views.runs import Limits, SimulationRun, run_simulation

DEFAULT_LIMITS = Limits(explained=20.0, total=60.0)


@dataclass(frozen=True, slots=True)
class Withheld:
    """What a page model lacks because its reader may not see it, in numbers.

    Attributes:
        decisions: about pods, by result.
        placed: of these, those that place a pod, by the node's name.
        pods_on: how many pods the cluster has on a node.
        configuration: whether it is another one, of which only the profiles' names are true.
    """

    decisions: Counter[str] = field(default_factory=Counter)
    placed: Counter[str] = field(default_factory=Counter)
    pods_on: Callable[[str], int] = lambda node: 0
    configuration: bool = False


@dataclass(frozen=True, slots=True)
class PageModel:
    """What the pages show.

    Attributes:
        title: where the objects came from.
        time: of all decisions, seconds since the epoch; 0 where neither load nor objects have one.
        run: the decisions.
        old: a configuration to compare with.
        remarks: what was left out or is missing, a line each.
        others: pods that wait for other schedulers, by the scheduler's name.
        pods_on: those that the cluster has on a node.
        decide: the same with another configuration, until the callable says that it is to end.
        recorded_nodes: None on a snapshot; on a recording, where it has a pod on a node, by the pod's name.
        withheld: what its reader may not see.
        place_again: as `decide`, about all pods of the profiles, as if none had a node yet; None where there is
            no snapshot to do it on.
    """

    title: str
    time: float
    run: SimulationRun
    old: Configuration | None
    remarks: tuple[str, ...]
    others: Counter[str]
    pods_on: Callable[[str], Collection[PodInfo]]
    decide: Callable[[Configuration, Limits, Callable[[], bool]], SimulationRun]
    recorded_nodes: Mapping[str, str] | None = None
    withheld: Withheld = field(default_factory=Withheld)
    place_again: Callable[[Configuration, Limits, Callable[[], bool]], SimulationRun] | None = None

    @property
    def configuration(self) -> Configuration:
        """The configuration that decides."""
        return self.run.configuration

    @property
    def is_replayed(self) -> bool:
        """Whether it is a moment of a recording."""
        return self.recorded_nodes is not None


def decided_page_model(
    title: str,
    cluster: SimulatedCluster,
    configuration: Configuration,
    conditions: Conditions,
    *,
    old: Configuration | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[PageModel, list[str]]:
    """Decide on a cluster; returns the page model, without remarks, and these apart.

    Args:
        title: where the objects came from.
        cluster: as read; it stays as it is.
        configuration: whose profiles decide.
        conditions: what the decisions depend on beside these.
        old: a configuration to compare with.
        limits: how long deciding may take.

    Raises:
        CommandError: a plugin refuses its args.
    """
    run = run_simulation(cluster, configuration, conditions, limits=limits)

    def decide(changed: Configuration, within: Limits, stopped: Callable[[], bool]) -> SimulationRun:
        return run_simulation(cluster, changed, conditions, limits=within, stopped=stopped)

    page_model = PageModel(title, run.now, run, old, (), cluster.others, cluster.state.pods_on, decide)
    return page_model, list(remarks(cluster, configuration, run.load, run.now))
