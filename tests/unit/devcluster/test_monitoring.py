"""Load generator, gateway and the rules between them."""

from __future__ import annotations

import itertools
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web
from pydantic import ValidationError

from devcluster import inventory, prometheus_gateway
from devcluster.errors import SpecError
from devcluster.load_generator import LoadChange, LoadGenerator, SimulatedLoad, application, fraction
from devcluster.services import monitoring

Serve = Callable[[web.Application], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    runners: list[web.AppRunner] = []

    async def start(app: web.Application) -> str:
        runner = web.AppRunner(app)
        await runner.setup()
        runners.append(runner)
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        await web.SockSite(runner, listener).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for runner in runners:
        await runner.cleanup()


def load(cpu: float = 0.5, memory: float = 0.25, cpus: int = 4) -> SimulatedLoad:
    return SimulatedLoad(cpus=cpus, memoryBytes=8 << 30, cpu=cpu, memory=memory)


def series(text: str) -> dict[str, float]:
    return {m[1]: float(m[2]) for m in re.finditer(r"^(\w+\{.*\}) (\S+)$", text, re.M)}


def busy_between(generator: LoadGenerator, start: float, end: float, node: str) -> float:
    """What the recording rule computes: busy share of all processors between two scrapes."""
    before, after = (series(generator.exposition(at)) for at in (start, end))
    mine = [key for key in after if key.startswith("node_cpu_seconds_total") and f'instance="{node}"' in key]
    busy = sum(after[k] - before[k] for k in mine if 'mode="idle"' not in k and 'mode="iowait"' not in k)
    cpus = len({re.search(r'cpu="(\d+)"', key)[1] for key in mine})  # type: ignore[index]
    return busy / cpus / (end - start)


@pytest.mark.parametrize("target", [0.0, 0.08, 0.5, 0.85, 1.0])
def test_the_counters_show_the_target_within_its_swing(target: float) -> None:
    generator = LoadGenerator({"n": load(cpu=target)}, now=100.0)
    for second in range(100, 160, 5):
        assert busy_between(generator, second, second + 5, "n") == pytest.approx(target, abs=0.016)


def test_counters_never_decrease_whatever_is_changed() -> None:
    generator = LoadGenerator({"n": load(cpu=0.9)}, now=0.0)
    texts = []
    for second, cpu in enumerate([0.9, 0.0, 1.0, 0.3]):
        generator.change("n", LoadChange(cpu=cpu), float(second))
        texts.append(series(generator.exposition(second + 0.5)))
    for before, after in itertools.pairwise(texts):
        counters = [key for key in before if key.startswith("node_cpu_seconds_total")]
        assert all(after[key] >= before[key] for key in counters)


def test_a_change_counts_from_now_on_and_leaves_the_rest() -> None:
    generator = LoadGenerator({"n": load(cpu=0.1, memory=0.2), "other": load(cpu=0.1)}, now=0.0)
    busy_between(generator, 0.0, 10.0, "n")
    changed = generator.change("n", LoadChange(cpu=0.9), 10.0)
    assert (changed.cpu, changed.memory) == (0.9, 0.2)
    assert busy_between(generator, 10.0, 20.0, "n") == pytest.approx(0.9, abs=0.016)
    assert busy_between(generator, 20.0, 30.0, "other") == pytest.approx(0.1, abs=0.016)


def test_nodes_swing_differently_and_the_same_on_every_run() -> None:
    def run() -> list[float]:
        generator = LoadGenerator({"a": load(), "b": load()}, now=0.0)
        return [busy_between(generator, at, at + 1, node) for at in (0.0, 1.0) for node in ("a", "b")]

    first = run()
    assert first == run()
    assert first[0] != first[1]


def test_memory_in_use_is_the_target() -> None:
    values = series(LoadGenerator({"n": load(memory=0.7)}, now=0.0).exposition(1.0))
    total, available = (values[f'node_memory_Mem{part}_bytes{{instance="n"}}'] for part in ("Total", "Available"))
    assert 1 - available / total == pytest.approx(0.7)


def test_a_node_can_be_added_with_its_size_and_removed() -> None:
    generator = LoadGenerator({}, now=0.0)
    with pytest.raises(ValidationError):
        generator.change("n", LoadChange(cpu=0.5), 0.0)
    generator.change("n", LoadChange(cpu=0.5, cpus=2, memoryBytes=1 << 30), 0.0)
    assert 'instance="n"' in generator.exposition(1.0)
    assert generator.remove("n")
    assert not generator.remove("n")
    assert 'instance="n"' not in generator.exposition(2.0)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"cpu": 85}', "cpu: Input should be less than or equal to 1"),
        ('{"cpu": -0.1}', "cpu: Input should be greater than or equal to 0"),
        ('{"cpuu": 0.5}', "cpuu: Extra inputs are not permitted"),
        ('{"cpu": "x"}', "cpu: Input should be a valid number"),
        ("nonsense", "Invalid JSON"),
    ],
)
async def test_a_bad_change_is_refused_with_its_field_and_changes_nothing(serve: Serve, body: str, reason: str) -> None:
    generator = LoadGenerator({"n": load()}, now=0.0)
    url = await serve(application(generator))
    async with aiohttp.ClientSession() as session, session.put(f"{url}/nodes/n", data=body) as answer:
        assert answer.status == 400
        assert reason in (await answer.json())["error"]
    assert generator.loads() == {"n": load()}


async def test_loads_are_set_and_shown_over_http(serve: Serve) -> None:
    url = await serve(application(LoadGenerator({"n": load()}, now=0.0)))
    async with aiohttp.ClientSession() as session:
        async with session.put(f"{url}/nodes/n", json={"cpu": 0.85}) as answer:
            assert (await answer.json())["cpu"] == 0.85
        async with session.get(f"{url}/nodes") as answer:
            assert await answer.json() == {"n": {"cpus": 4, "memoryBytes": 8 << 30, "cpu": 0.85, "memory": 0.25}}
        async with session.get(f"{url}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert "node_cpu_seconds_total{" in await answer.text()


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer wrong", "bearer secret", "Basic secret", "secret"]
)
async def test_the_gateway_passes_nothing_on_without_the_token(serve: Serve, authorization: str | None) -> None:
    requests: list[str] = []

    async def record(request: web.Request) -> web.Response:
        requests.append(request.path_qs)
        return web.Response()

    prometheus = web.Application()
    prometheus.router.add_route("*", "/{rest:.*}", record)
    gateway = await serve(prometheus_gateway.application(await serve(prometheus), "secret"))
    headers = {} if authorization is None else {"Authorization": authorization}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{gateway}/api/v1/query?query=up", headers=headers) as answer,
    ):
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert "secret" not in await answer.text()
    assert requests == []


async def test_the_gateway_passes_queries_on_unchanged_and_keeps_the_token(serve: Serve) -> None:
    requests: list[tuple[str, str, str, bool]] = []

    async def record(request: web.Request) -> web.Response:
        requests.append((request.method, request.path_qs, await request.text(), "Authorization" in request.headers))
        return web.json_response({"status": "error"}, status=422)

    prometheus = web.Application()
    prometheus.router.add_route("*", "/{rest:.*}", record)
    gateway = await serve(prometheus_gateway.application(await serve(prometheus), "secret"))
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer secret"}) as session:
        async with session.get(f"{gateway}/api/v1/query?query=a%3Ab") as answer:
            assert (answer.status, await answer.json()) == (422, {"status": "error"})
        async with session.post(f"{gateway}/api/v1/query", data={"query": "a:b"}) as answer:
            assert answer.status == 422
        async with session.get(f"{gateway}/graph") as answer:
            assert answer.status == 404
        async with session.get(f"{gateway}/-/healthy") as answer:
            assert answer.status == 200
    assert requests == [("GET", "/api/v1/query?query=a:b", "", False), ("POST", "/api/v1/query", "query=a%3Ab", False)]


async def test_the_gateway_answers_502_when_prometheus_is_down(serve: Serve) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        down = f"http://127.0.0.1:{unused.getsockname()[1]}"
        gateway = await serve(prometheus_gateway.application(down, "secret"))
        async with (
            aiohttp.ClientSession(headers={"Authorization": "Bearer secret"}) as session,
            session.get(f"{gateway}/api/v1/query") as answer,
        ):
            assert answer.status == 502


def test_the_rules_have_the_names_that_load_watcher_queries() -> None:
    records = [rule["record"] for rule in monitoring.recording_rules(1)["groups"][0]["rules"]]
    assert records == ["instance:node_cpu:ratio", "instance:node_memory_utilisation:ratio"]


@pytest.mark.parametrize(
    ("text", "value"), [("85%", 0.85), ("0.85", 0.85), ("0", 0.0), ("100%", 1.0), ("1", 1.0), (" 7.5% ", 0.075)]
)
def test_a_share_is_read_as_percent_or_fraction(text: str, value: float) -> None:
    assert fraction("cpu", text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["85", "101%", "-1%", "", "x", "nan", "1e-1"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="write a share between 0% and 100%"):
        fraction("cpu", text)


def test_twenty_nodes_have_every_size_in_every_temperature_and_zone() -> None:
    nodes = inventory.simulated_nodes(20)
    assert [node.name for node in nodes][::19] == ["sim-000", "sim-019"]
    assert len({(node.size.name, node.profile.name) for node in nodes}) == 9
    assert {node.zone for node in nodes} == {"zone-a", "zone-b", "zone-c"}
    assert inventory.simulated_nodes(20) == nodes


def test_a_simulated_node_is_tainted_and_labelled_as_agreed() -> None:
    manifest = inventory.manifest(inventory.simulated_nodes(3)[2])
    assert manifest["spec"]["taints"] == [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]
    assert manifest["metadata"]["annotations"]["kwok.x-k8s.io/node"] == "fake"
    labels = manifest["metadata"]["labels"]
    assert (labels["type"], labels["secondary-scheduler.io/size"], labels["kubernetes.io/hostname"]) == (
        "kwok",
        "large",
        "sim-002",
    )
    assert manifest["status"]["allocatable"]["cpu"] == "16"
    assert manifest["status"]["allocatable"]["memory"] == "64Gi"
    assert manifest["status"]["allocatable"]["pods"] == "110"
