"""Gangs that belong in one rack: 61."""

from __future__ import annotations

from collections.abc import Awaitable

from tests.faults import proxy as faults
from tests.faults.fits import GROUP_LABEL, TOPOLOGY_REQUIRED, Json
from tests.faults.proxy import Rule
from tests.faults.scenarios.registry import BINDING, scenario
from tests.faults.stage import GANGS, Stage, eventually, names, reason

_SIZE = 12


def _label(stage: Stage, node: str, rack: str | None) -> Awaitable[Json]:
    return stage.api.call("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": {"rack": rack}}})


@scenario(61, "a gang that needs one rack is bound in one: leader killed, members deleted, racks relabelled")
async def gang_in_a_rack(stage: Stage) -> None:
    leader, follower = await stage.pair(profile=GANGS)
    # Relabelling is seen some changes after it was made.
    stage.expected.staleness = 10
    small, large = names("small", 3), names("large", 3)
    await stage.nodes(*small, cpu="2", labels={"rack": "small"})
    await stage.nodes(*large, cpu="4", labels={"rack": "large"})
    leader.proxy.add(Rule(faults.delay(0.2), **BINDING))
    await stage.gang("gang", _SIZE, annotations={TOPOLOGY_REQUIRED: "rack"})
    await eventually(lambda: leader.proxy.count("create", "pods/binding") > 3)
    await stage.delete("gang-0", "gang-7")
    # The other rack is the roomier one in every respect, and one of its nodes even comes over.
    await _label(stage, "large-0", None)
    await leader.kill()
    await stage.pods("gang-x", "gang-y", labels={GROUP_LABEL: "gang"})
    await _label(stage, "large-0", "small")
    stage.figures["takeover_seconds"] = await follower.until(lambda: follower.leads, 30)
    members = [f"gang-{number}" for number in range(_SIZE) if number not in (0, 7)] + ["gang-x", "gang-y"]
    stage.figures["recover_seconds"] = await stage.bound(*members)
    nodes = await stage.where()
    assert {nodes[name] for name in members} <= {*small, "large-0"}, nodes

    # Members on nodes of two racks: no further one is bound, until they are of one rack again.
    await _label(stage, nodes["gang-1"], "elsewhere")
    await stage.pods("gang-z", labels={GROUP_LABEL: "gang"})
    await stage.answered("gang-z")
    message = reason(await stage.api.get(stage.pod_item("gang-z")))
    assert "its members run in rack=elsewhere, rack=small" in message, message
    await _label(stage, nodes["gang-1"], "small")
    stage.figures["relabelled_seconds"] = await stage.bound("gang-z")
