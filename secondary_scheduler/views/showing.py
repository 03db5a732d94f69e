"""Which template shows which part of a page model, by the parameters of a page's address.

A view gets the page model that its reader may see: no view asks who that is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from secondary_scheduler.simulation.deciding import RESULTS
from secondary_scheduler.views import decisions, nodes, pods
from secondary_scheduler.views.asking import choice, page_number, text
from secondary_scheduler.views.configuration import configuration_page
from secondary_scheduler.views.nodepage import node_page
from secondary_scheduler.views.pagemodels import PageModel
from secondary_scheduler.views.pods import PodAnswer
from secondary_scheduler.views.runs import PodDecision


@dataclass(frozen=True, slots=True)
class FilledTemplate:
    """A template with what it is filled with.

    Attributes:
        view: the one of the navigation to which the page belongs.
    """

    template: str
    view: str
    values: Mapping[str, Any]


View = Callable[[web.Request, PageModel], FilledTemplate]


def show_nodes(request: web.Request, page_model: PageModel) -> FilledTemplate:
    """All nodes as a heat map."""
    run = page_model.run
    moment = choice(request, "when", ("before", "after"), "after" if page_model.is_replayed else "before")
    columns = run.before if moment == "before" else run.after
    keys = nodes.group_keys(columns)
    choices = {
        "when": moment,
        "by": choice(request, "by", nodes.MEASURES, nodes.MEASURED if run.load else nodes.REQUESTED),
        "resource": choice(request, "resource", nodes.RESOURCES, "cpu"),
        "group": choice(
            request, "group", (nodes.NO_GROUPS, *keys), nodes.ZONE if nodes.ZONE in keys else nodes.NO_GROUPS
        ),
        "order": choice(request, "order", nodes.ORDERS, "highest"),
    }
    heat = nodes.heat_map(columns, choices["by"], choices["resource"], choices["group"], choices["order"])
    return FilledTemplate(
        "nodes.html", "nodes", {"shown": choices, "heat": heat, "keys": keys, "remarks": page_model.remarks}
    )


def show_node(request: web.Request, page_model: PageModel) -> FilledTemplate:
    """One node."""
    name = text(request, "name")
    page = node_page(page_model, name)
    if page is None:
        missing = "at this moment there is no node" if page_model.is_replayed else "the snapshot has no node"
        raise web.HTTPNotFound(text=f"{missing} {name}")
    return FilledTemplate("node.html", "nodes", {"node": page})


def show_queue(request: web.Request, page_model: PageModel) -> FilledTemplate:
    """The pods that wait."""
    queues = pods.queues(page_model, page_number(request))
    return FilledTemplate("queue.html", "queue", {"queues": queues, "others": pods.other_schedulers(page_model)})


def show_configuration(request: web.Request, page_model: PageModel) -> FilledTemplate:
    """The configuration as it takes effect."""
    if page_model.withheld.configuration:
        raise web.HTTPForbidden(text="the configuration is for who may read the scheduler's ConfigMap")
    return FilledTemplate(
        "configuration.html", "configuration", {"shown": configuration_page(page_model.configuration, page_model.old)}
    )


def show_decisions(request: web.Request, page_model: PageModel) -> FilledTemplate:
    """The decisions that pass a filter."""
    choices = decisions.choices_of(page_model.run)
    wanted = decisions.Filter(
        text=text(request, "q"),
        result=choice(request, "result", ("", *RESULTS), ""),
        namespace=choice(request, "namespace", ("", *choices.namespaces), ""),
        plugin=choice(request, "plugin", ("", *choices.plugins), ""),
    )
    decision_list = decisions.listed(page_model.run, wanted, page_number(request))
    return FilledTemplate("decisions.html", "decisions", {"wanted": wanted, "choices": choices, "shown": decision_list})


def show_decision(
    request: web.Request, page_model: PageModel, attempts_of: Callable[[str], Sequence[PodDecision]] = lambda key: ()
) -> FilledTemplate:
    """One decision; `attempts_of` returns all attempts of a pod, by its key."""
    number = request.match_info["number"]
    every = page_model.run.decisions
    if not (number.isascii() and number.isdigit() and len(number) < 8 and 1 <= int(number) <= len(every)):
        when = " at this moment" if page_model.is_replayed else ""
        raise web.HTTPNotFound(text=f"there is no decision {number}{when}; the last one is {len(every)}")
    decision = every[int(number) - 1]
    page = decisions.decision_page(decision, len(every), attempts_of(decision.pod))
    return FilledTemplate("decision.html", "decisions", {"shown": page})


def asked_pod(request: web.Request) -> tuple[str, str] | None:
    """Return namespace and name of the pod that the running scheduler is to be asked about; None: none is named."""
    namespace, name = text(request, "namespace"), text(request, "name")
    return (namespace, name) if namespace and name else None


def show_why(
    request: web.Request, page_model: PageModel, pod: PodAnswer | None = None, problem: str = ""
) -> FilledTemplate:
    """What the running scheduler says about a pod, or why it says nothing; a list to choose from if none is named."""
    question = asked_pod(request)
    wanted = pods.PodFilter(text(request, "q"), text(request, "in"), choice(request, "state", ("", *pods.STATES), ""))
    listed = pods.listed_pods(page_model, wanted, page_number(request)) if question is None else None
    namespace, name = question or ("", "")
    values = {"namespace": namespace, "name": name, "wanted": wanted, "states": pods.STATES, "pods": listed}
    return FilledTemplate("why.html", "why", {**values, "pod": pod, "problem": problem, "read_at": time.time()})


VIEWS: Final[Mapping[str, View]] = {
    "/nodes": show_nodes,
    "/node": show_node,
    "/queue": show_queue,
    "/decisions": show_decisions,
    "/decisions/{number}": show_decision,
    "/configuration": show_configuration,
}
"""The views that every server of the pages has, by route."""
