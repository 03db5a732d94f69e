"""Two schedulers on the same nodes: who gives room away twice, and what is known of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.settings import NodePartitionSettings
from tests.integration.scheduler.contention import NODE_NAMES, NODES, OURS, REAL, SLOTS, contention_running

pytestmark = pytest.mark.slow
PODS = {OURS: NODES * SLOTS, REAL: NODES * SLOTS}
"""Each has enough of them to fill all nodes alone."""


def test_every_over_commit_is_counted_with_its_scheduler(tmp_path: Path) -> None:
    with contention_running(tmp_path) as (stage, runner):
        bindings = runner.run(stage.fill(PODS))
        counted = runner.run(stage.samples("secondary_scheduler_overcommits_total"))
        nodes = runner.run(stage.samples("secondary_scheduler_overcommitted_nodes"))
    expected = {
        f'{{resource="cpu",scheduler="{label}"}}': bindings.overcommits[name]
        for label, name in (("own", OURS), ("other", REAL))
        if bindings.overcommits[name]
    }
    assert bindings.too_full, "the schedulers did not meet"
    assert counted == expected
    assert nodes['{resource="cpu"}'] == len(bindings.too_full)


def _recheck(percent: int) -> dict[str, object]:
    options = {"recheckNodesAbovePercent": percent}
    return {"pluginConfig": [{"name": "SecondarySchedulerOptions", "args": options}]}


def test_a_node_that_filled_up_meanwhile_is_left_alone_where_it_is_read_again(tmp_path: Path) -> None:
    """Some Bindings may still come too late: there is a moment between the read and the Binding."""
    with contention_running(tmp_path, _recheck(0)) as (stage, runner):
        bindings = runner.run(stage.fill(PODS))
        counted = runner.run(stage.samples("secondary_scheduler_overcommits_total"))
        checks = runner.run(stage.samples("secondary_scheduler_node_checks_total"))
    assert counted.get('{resource="cpu",scheduler="own"}', 0) == bindings.overcommits[OURS]
    assert checks['{outcome="full"}'] > bindings.overcommits[OURS]


def test_with_nodes_of_its_own_no_node_gets_too_much(tmp_path: Path) -> None:
    partition = NodePartitionSettings.model_validate(
        {"label": "example.com/scheduler=secondary", "taint": "example.com/scheduler=secondary:NoSchedule"}
    )
    added = {"name": "NodeAffinity", "args": {"addedAffinity": partition.added_affinity()}}
    taint = {"key": "example.com/scheduler", "value": "secondary", "effect": "NoSchedule"}
    own = {"labels": {"example.com/scheduler": "secondary"}, "taints": [taint]}
    nodes = {name: own if number % 2 else {} for number, name in enumerate(NODE_NAMES)}
    with contention_running(tmp_path, {"pluginConfig": [added]}, nodes) as (stage, runner):
        bindings = runner.run(stage.fill(PODS, {OURS: partition.instructions()["pods"]}))
        counted = runner.run(stage.samples("secondary_scheduler_overcommits_total"))
    assert (bindings.too_full, counted) == ([], {})
    assert bindings.by == {OURS: 30 * SLOTS, REAL: 30 * SLOTS}
