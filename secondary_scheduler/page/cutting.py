"""What of a page model its visitor may see.

The only place that cuts: a view gets what this returns, and so cannot show more. Pods of namespaces that the visitor
may not read are counts, and so are their messages and reasons: a plugin's words may name a pod, a group or a claim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from msgspec import structs

from scheduler.config import Configuration, load_configuration
from secondary_scheduler.views.nodes import NodeColumns
from secondary_scheduler.views.pagemodels import PageModel, Withheld
from secondary_scheduler.views.runs import Limits, PodDecision, SimulationRun

_OTHER_SCHEDULERS = "all of them"
"""In place of other schedulers' names, which are what a pod says."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks at nodes, and what else it may see.

    Attributes:
        namespaces: whose pods it may list; None: those of all.
        configuration: whether it may read the scheduler's.
        lease: whether it may get the scheduler's Lease.
        user: its name; nobody else has it, however many tokens it may have.
    """

    namespaces: frozenset[str] | None = frozenset()
    configuration: bool = False
    lease: bool = False
    user: str = ""

    def sees(self, key: str) -> bool:
        """Tell whether it may see a pod, by its `namespace/name`."""
        return self.namespaces is None or key.partition("/")[0] in self.namespaces


def cut(page_model: PageModel, visitor: Visitor) -> PageModel:
    """Return what of a page model a visitor may see; the page model is of a snapshot and stays as it is."""
    configuration = (
        page_model.configuration if visitor.configuration else _bare(page_model.configuration.scheduler_names)
    )
    seen = [decision for decision in page_model.run.decisions if visitor.sees(decision.pod)]
    unseen = Counter(decision.result for decision in page_model.run.decisions if not visitor.sees(decision.pod))
    placed = Counter(decision.node for decision in page_model.run.decisions if not visitor.sees(decision.pod))
    run = SimulationRun(
        configuration=configuration,
        decisions=tuple(_numbered(number, decision, visitor) for number, decision in enumerate(seen, 1)),
        load=page_model.run.load,
        now=page_model.run.now,
        unexplained=page_model.run.unexplained,
        before=_cut_columns(page_model.run.before, visitor),
        after=_cut_columns(page_model.run.after, visitor),
        seconds=page_model.run.seconds,
        figures=page_model.run.figures,
    )
    sees_all = visitor.namespaces is None
    return PageModel(
        title=page_model.title,
        time=page_model.time,
        run=run,
        old=None,
        remarks=page_model.remarks if sees_all else (),
        others=page_model.others if sees_all else Counter({_OTHER_SCHEDULERS: page_model.others.total()}),
        pods_on=lambda node: [pod for pod in page_model.pods_on(node) if visitor.sees(pod.key)],
        decide=_refuse,
        withheld=Withheld(
            decisions=unseen,
            placed=Counter({node: number for node, number in placed.items() if node is not None}),
            pods_on=lambda node: sum(not visitor.sees(pod.key) for pod in page_model.pods_on(node)),
            configuration=not visitor.configuration,
        ),
    )


def _cut_columns(columns: NodeColumns, visitor: Visitor) -> NodeColumns:
    """Return the nodes without what the configuration says."""
    return columns if visitor.configuration else replace(columns, target=None)


def _numbered(number: int, decision: PodDecision, visitor: Visitor) -> PodDecision:
    """Return a decision as the visitor sees it: its number is that among those that are seen."""
    every = decision.victims or ()
    victims = tuple(victim for victim in every if visitor.sees(victim))
    if hidden := len(every) - len(victims):
        victims = (*victims, f"{hidden} of other namespaces")
    return structs.replace(decision, number=number, victims=victims)


@lru_cache(maxsize=4)
def _bare(scheduler_names: tuple[str, ...]) -> Configuration:
    """Return a configuration that has the names of the profiles and says nothing else."""
    data = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": name} for name in scheduler_names],
    }
    return load_configuration(data, source="", allow_default_scheduler_name=True)


def _refuse(configuration: Configuration, limits: Limits, stopped: Callable[[], bool]) -> SimulationRun:
    raise AssertionError("the page makes no decisions of its own")
