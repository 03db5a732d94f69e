"""Nodes are read again before Bindings where a profile asks for it: on the engine with a fake API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from scheduler.config import ConfigurationError, load_configuration
from scheduler.engine.nodecheck import check_rules
from scheduler.kube.client.errors import ConnectionFailed
from tests.unit.scheduler.engine.fakes import CONFIGURATION, Engine, FakeApi, eventually
from tests.unit.scheduler.engine.pods import pod

OTHER = "default-scheduler"


def _configuration(percent: object, fit: str = "") -> str:
    options = f"- name: SecondarySchedulerOptions\n        args: {{recheckNodesAbovePercent: {percent}}}"
    return f"{CONFIGURATION.rstrip()}\n    pluginConfig:\n      {options}\n{fit}"


class CheckedApi(FakeApi):
    """Also answers lists of the pods on a node; `on_read` is called before."""

    def __init__(self) -> None:
        super().__init__()
        self.on_nodes: dict[str, list[Any]] = {}
        self.reads: list[dict[str, Any]] = []
        self.on_read: Callable[[], None] = lambda: None

    async def wait_for_rate(self) -> None:
        """Nothing is limited."""

    async def get(self, path: str, params: dict[str, Any] | None = None, timeout: float = 0) -> bytes:
        if path != "/api/v1/pods" or params is None:
            return await super().get(path)
        self.reads.append(params)
        self.on_read()
        node = params["fieldSelector"].partition("spec.nodeName=")[2].partition(",")[0]
        items = [json.loads(msgspec.json.encode(item)) for item in self.on_nodes.get(node, [])]
        return json.dumps({"kind": "PodList", "metadata": {}, "items": items}).encode()


def _outcomes(engine: Engine) -> dict[str, float]:
    return {
        sample.labels["outcome"]: sample.value
        for metric in engine.metrics.node_checks.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }


@pytest.fixture
async def run() -> AsyncIterator[Callable[..., tuple[Engine, CheckedApi]]]:
    started: list[tuple[Engine, asyncio.Task[None]]] = []

    def start(percent: object = 80, fit: str = "") -> tuple[Engine, CheckedApi]:
        api = CheckedApi()
        engine = Engine(api, _configuration(percent, fit))
        engine.recorder.start()
        started.append((engine, asyncio.create_task(engine.cycle.run())))
        engine.add_node("n1", cpu="1")
        return engine, api

    yield start
    for engine, task in started:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await engine.recorder.drain(1)


Run = Callable[..., tuple[Engine, CheckedApi]]


async def test_a_pod_is_not_bound_where_another_scheduler_took_the_room(run: Run) -> None:
    engine, api = run()
    api.on_nodes["n1"] = [pod("theirs", node="n1", cpu="300m", scheduler=OTHER)]
    engine.add_pod("ours", cpu="800m")
    await eventually(lambda: bool(api.patches), "it says why")
    assert api.bindings == []
    assert _outcomes(engine) == {"full": 1}
    message = api.patches[0][1]["status"]["conditions"][0]["message"]
    assert message.endswith("node n1 has filled up since it was chosen: Insufficient cpu")
    assert not engine.state.is_assumed("ours-uid")
    api.on_nodes.clear()
    await eventually(lambda: len(api.bindings) == 1, "bound after its backoff, without any event")


async def test_it_is_bound_where_there_is_room_for_both(run: Run) -> None:
    engine, api = run()
    api.on_nodes["n1"] = [pod("theirs", node="n1", cpu="200m", scheduler=OTHER)]
    engine.add_pod("ours", cpu="800m")
    await eventually(lambda: len(api.bindings) == 1, "bound")
    assert _outcomes(engine) == {"fits": 1}
    expected = "spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed"
    assert api.reads == [{"fieldSelector": expected, "limit": 110}]


@pytest.mark.parametrize(("cpu", "reads"), [("790m", 0), ("800m", 1)])
async def test_only_nodes_above_the_threshold_are_read(run: Run, cpu: str, reads: int) -> None:
    engine, api = run(80)
    engine.add_pod("ours", cpu=cpu)
    await eventually(lambda: len(api.bindings) == 1, "bound")
    assert len(api.reads) == reads


async def test_what_the_watch_has_shown_meanwhile_needs_no_read(run: Run) -> None:
    engine, api = run(0)
    engine.leading = False
    engine.add_pod("ours", cpu="800m")
    assumed = engine.state.assume(engine.pending["ours-uid"], "n1", 0.0)
    engine.add_pod("theirs", node="n1", cpu="300m", scheduler=OTHER)
    status = await engine.handle.bind(assumed, "n1")
    assert (status.is_success, api.reads, _outcomes(engine)) == (False, [], {"full": 1})


async def test_of_two_that_have_no_room_together_the_first_is_bound(run: Run) -> None:
    engine, api = run(0)
    released = asyncio.Event()
    get = api.get

    async def slow(path: str, params: dict[str, Any] | None = None, timeout: float = 0) -> bytes:
        await released.wait()
        return await get(path, params, timeout)

    api.get = slow  # type: ignore[method-assign]
    api.on_nodes["n1"] = [pod("theirs", node="n1", cpu="300m", scheduler=OTHER)]
    engine.add_pod("a", cpu="500m")
    engine.add_pod("b", cpu="500m")
    await eventually(lambda: engine.state.assumed_count == 2, "both are assumed")
    released.set()
    await eventually(lambda: bool(api.patches), "one is turned down")
    assert [name for name, _, _ in api.bindings] == ["a"]


async def test_a_node_that_cannot_be_read_gets_no_pod_until_it_can(run: Run) -> None:
    engine, api = run(0)

    def fail() -> None:
        api.on_read = lambda: None
        raise ConnectionFailed("GET /api/v1/pods: refused")

    api.on_read = fail
    engine.add_pod("ours")
    await eventually(lambda: bool(api.patches), "it says why")
    assert "node n1 could not be checked before binding" in api.patches[0][1]["status"]["conditions"][0]["message"]
    await eventually(lambda: len(api.bindings) == 1, "bound once it can be read")
    assert _outcomes(engine) == {"failed": 1, "fits": 1}


async def test_a_node_with_all_its_pods_has_no_room_for_another(run: Run) -> None:
    engine, api = run(0)
    api.on_nodes["n1"] = [pod(f"p{number}", node="n1", cpu="0", scheduler=OTHER) for number in range(110)]
    engine.add_pod("ours", cpu="0")
    await eventually(lambda: bool(api.patches), "it says why")
    assert "Too many pods" in api.patches[0][1]["status"]["conditions"][0]["message"]


def test_without_the_option_no_profile_is_checked() -> None:
    assert check_rules(load_configuration(CONFIGURATION, source="test")) == {}


def test_a_profile_that_does_not_compare_resources_is_not_checked() -> None:
    disabled = "    plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}\n"
    assert check_rules(load_configuration(_configuration(0, disabled), source="test")) == {}


@pytest.mark.parametrize("percent", [-1, 101])
def test_a_percentage_beyond_its_range_is_refused(percent: int) -> None:
    with pytest.raises(ConfigurationError, match=rf"recheckNodesAbovePercent: {percent} is not between 0 and 100"):
        load_configuration(_configuration(percent), source="test")
