"""The live cases of upstream's Coscheduling tests: who is bound when several gangs want one node, in both modes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.engine.inputs import NodeUpdate
from scheduler.helpers import reduce_node, reduce_pod
from scheduler.kube.model import EventType, Node, ObjectMeta, Pod, PodGroup, PodGroupSpec
from tests.unit.scheduler.engine.gangs import GangEngine

_FILE = Path(__file__).parents[3] / "conformance/vectors/coscheduling.json"
CASES = [case for case in json.loads(_FILE.read_text()) if case["kind"] == "placement_live"]
_QUIET_SECONDS = 0.5


def _show(engine: GangEngine, case: dict[str, Any]) -> None:
    for number, raw in enumerate(case["pod_groups"]):
        meta = {"creationTimestamp": f"2026-01-01T00:00:0{number}Z", **raw["metadata"]}
        group = PodGroup(msgspec.convert(meta, ObjectMeta), msgspec.convert(raw["spec"], PodGroupSpec))
        engine.podgroups.apply([(EventType.ADDED, group)])
    # In one case upstream never creates its node: nothing could ever be scheduled.
    nodes = case["nodes"] if case["expected"].get("none_scheduled_after_10s") is None else []
    for raw in nodes:
        engine.nodes.apply([(EventType.ADDED, NodeUpdate(reduce_node(msgspec.convert(raw, Node)), ()))])
    for raw in [*case["existing_pods"], *case["pods"]]:
        meta = {**raw["metadata"], "uid": raw["metadata"]["name"], "resourceVersion": "1"}
        spec = {"schedulerName": "secondary-scheduler", **raw["spec"]}
        pod = reduce_pod(msgspec.convert({**raw, "metadata": meta, "spec": spec}, Pod))
        engine.pods.apply([(EventType.ADDED, pod)])


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"].rpartition("/")[2]) for case in CASES])
async def test_who_is_bound(case: dict[str, Any], compatibility: str) -> None:
    engine = GangEngine(compatibility, **case["args"])
    engine.recorder.start()
    _show(engine, case)
    task = asyncio.create_task(engine.cycle.run())
    wanted = set(case["expected"].get("all_scheduled_within_120s", ()))
    try:
        async with asyncio.timeout(30):
            while not engine.bound >= wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await asyncio.sleep(_QUIET_SECONDS)
        assert engine.bound == wanted
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await engine.recorder.drain(1)
