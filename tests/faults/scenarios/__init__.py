"""The faults of the matrix, each as one coroutine: what is there, what is injected, what is expected beyond the oracle.

Importing the package registers all of them.
"""

from tests.faults.scenarios import (
    apiserver,
    binding,
    cluster,
    config,
    etcd_restore,
    hostile,
    leadership,
    load,
    metrics_source,
    racks,
    refusals,
    storage,
    storms,
    topology,
    unreadable,
    upgrades,
    watches,
)
from tests.faults.scenarios.registry import SCENARIOS, Scenario, run

__all__ = [
    "SCENARIOS",
    "Scenario",
    "apiserver",
    "binding",
    "cluster",
    "config",
    "etcd_restore",
    "hostile",
    "leadership",
    "load",
    "metrics_source",
    "racks",
    "refusals",
    "run",
    "storage",
    "storms",
    "topology",
    "unreadable",
    "upgrades",
    "watches",
]
