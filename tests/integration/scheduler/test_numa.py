"""NodeResourceTopologyMatch as it runs: our daemon, and the real scheduler-plugins, on the same API server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from tests.conformance.apiclient import Api
from tests.conformance.controlplane import ControlPlane
from tests.conformance.numa_running import CRD, install, scheduler_plugins_running
from tests.integration.scheduler.numa_stage import EXPECTED, NODE, PERIOD, NumaNode, our_configuration
from tests.integration.scheduler.preemption import daemon_running

pytestmark = [pytest.mark.integration]


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[Api]:
    connection = Api(plane)
    yield connection
    await connection.close()


def _with_kubeconfig(plane: ControlPlane, text: str) -> str:
    return json.dumps(json.loads(text) | {"clientConnection": {"kubeconfig": str(plane.layout.kubeconfig)}})


async def test_zones_count_as_soon_as_the_crd_is_there(plane: ControlPlane, api: Api, tmp_path: Path) -> None:
    name = yaml.safe_load(CRD.read_text())["metadata"]["name"]
    await api.call("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
    stage = NumaNode(api, pokes=False)
    await stage.set()
    try:
        with daemon_running(tmp_path, _with_kubeconfig(plane, our_configuration("safe"))):
            await stage.pod("before", 3)
            assert await stage.verdict("before") == "bound"
            await install(api)
            await stage.publish((2, 1), [])
            deadline = time.monotonic() + 30
            number = 0
            verdict = "bound"
            # The kind is looked for every few seconds.
            while verdict == "bound" and time.monotonic() < deadline:
                number += 1
                await asyncio.sleep(1)
                await stage.pod(f"after-{number}", 3)
                verdict = await stage.verdict(f"after-{number}")
            assert verdict == "0/1 nodes are available: 1 cannot align container"
    finally:
        await stage.clear()


async def _play(api: Api, *, pokes: bool) -> NumaNode:
    """Everything that must be there before the scheduler is."""
    await install(api)
    stage = NumaNode(api, pokes=pokes)
    await stage.set()
    await stage.pod("there", 1, node=NODE, scheduler="somebody-else")
    await stage.started("there")
    await stage.publish((4, 4), ["there"])
    return stage


async def test_reservations_fingerprints_and_foreign_pods(plane: ControlPlane, api: Api, tmp_path: Path) -> None:
    stage = await _play(api, pokes=False)
    configuration = our_configuration("safe", cacheResyncPeriodSeconds=PERIOD)
    try:
        with daemon_running(tmp_path, _with_kubeconfig(plane, configuration)) as log:
            assert await stage.play() == EXPECTED
            assert "nodes wait for resource topologies that include their pods" in log.read_text()
    finally:
        await stage.clear()


async def test_pods_are_preempted_in_the_zone_where_they_are(plane: ControlPlane, api: Api, tmp_path: Path) -> None:
    await install(api)
    stage = NumaNode(api, pokes=False)
    await stage.set()
    await stage.publish((4, 0), [], zones={})
    configuration = our_configuration("safe", cacheResyncPeriodSeconds=PERIOD, preemptionMode="Enabled")
    try:
        with daemon_running(tmp_path, _with_kubeconfig(plane, configuration)):
            await stage.pod("low", 3)
            assert await stage.verdict("low") == "bound"
            await stage.started("low")
            # The agent has not said anything since: what is held back for the victim is given back.
            await stage.pod("high", 4, priority_class="system-cluster-critical")
            assert await stage.gone("low")
            await stage.bound("high")
            await stage.started("high")
            # Somebody else's pod is in the numbers before its zone can be known, and is preempted once it is.
            await stage.pod("there", 2, node=NODE, scheduler="somebody-else")
            await stage.started("there")
            await stage.publish((0, 1), ["high", "there"])
            await stage.resynced()
            await stage.pod("next", 3, priority_class="system-cluster-critical")
            assert (await stage.verdict("next")).endswith("cannot align container")
            await stage.publish((0, 1), ["high", "there"], zones={"high": 0, "there": 1})
            assert await stage.gone("there")
            await stage.publish((0, 3), ["high"], zones={"high": 0})
            await stage.bound("next")
            assert stage.transcript[-1] == "next: in the end bound"
    finally:
        await stage.clear()


async def _started(running: ControlPlane) -> None:
    """Wait until the real scheduler works."""
    while "Add event for scheduled pod" not in running.log.read_text():
        assert running.alive(), running.log.read_text()[-2000:]
        await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_the_real_plugin_and_ours_reserve_alike(plane: ControlPlane, api: Api, tmp_path: Path) -> None:
    stage = await _play(api, pokes=True)
    try:
        with scheduler_plugins_running(plane, {"cacheResyncPeriodSeconds": PERIOD}) as running:
            await _started(running)
            real = await stage.play()
    finally:
        await stage.clear()
    stage = await _play(api, pokes=True)
    configuration = our_configuration("upstream", cacheResyncPeriodSeconds=PERIOD)
    try:
        with daemon_running(tmp_path, _with_kubeconfig(plane, configuration)):
            ours = await stage.play()
    finally:
        await stage.clear()
    assert real == ours == EXPECTED


@pytest.mark.slow
async def test_a_zone_is_not_promised_twice_while_an_image_is_pulled(
    plane: ControlPlane, api: Api, tmp_path: Path
) -> None:
    last = {}
    for compatibility in ("real", "upstream", "safe"):
        stage = await _play(api, pokes=True)
        text = our_configuration("safe" if compatibility == "real" else compatibility, cacheResyncPeriodSeconds=PERIOD)
        directory = tmp_path / compatibility
        directory.mkdir()
        try:
            with (
                scheduler_plugins_running(plane, {"cacheResyncPeriodSeconds": PERIOD})
                if compatibility == "real"
                else daemon_running(directory, _with_kubeconfig(plane, text))
            ) as running:
                if isinstance(running, ControlPlane):
                    await _started(running)
                last[compatibility] = (await stage.play_slow_start())[-1]
        finally:
            await stage.clear()
    assert last["real"] == last["upstream"] == "b: in the end bound"
    assert last["safe"] == "b: in the end 0/1 nodes are available: 1 cannot align container"
