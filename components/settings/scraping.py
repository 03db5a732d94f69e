"""Whose pods may reach the ports of scheduler, operator and rebalancer: the rules about the setting."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.catalog import is_label
from scheduler.config import Problem

KEY = "scrapeNamespaces"
_LIMIT = 32


def scrape_problems(namespaces: Sequence[str], mode: str, *, upstream: bool, network_policy: bool) -> list[Problem]:
    """Return what is wrong with the names of the namespaces, or why they would limit nothing.

    Args:
        namespaces: of the setting; none: no limit is asked for.
        mode: how the operator is installed, if there is one.
        upstream: the operator is upstream's.
        network_policy: NetworkPolicies are among the optional objects.
    """
    wrong = "is not the name of a namespace; write lower case letters, digits and '-', at most 63 of them"
    problems = [Problem((KEY, index), wrong) for index, name in enumerate(namespaces) if not is_label(name)]
    if len(namespaces) > _LIMIT:
        problems.append(Problem((KEY,), f"must have at most {_LIMIT} items, not {len(namespaces)}"))
    if namespaces and upstream and mode != "direct":
        message = "needs this project's operator, or mode direct: upstream's makes no NetworkPolicy; remove it"
        problems.append(Problem((KEY,), message))
    elif namespaces and not network_policy:
        message = "has no effect: networkPolicy is false among the optional objects; set that to true, or remove this"
        problems.append(Problem((KEY,), message))
    return problems
