"""`/metrics` of a daemon while its loop is at work: what a scrape shows is read on the loop, never beside it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import requests

from scheduler import serving
from scheduler.config import load_configuration
from scheduler.daemon import Daemon
from scheduler.kube.client import ClientConfig, KubeClient, PageReader
from scheduler.observe import refresh
from scheduler.options import parse_options

pytestmark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles: [{schedulerName: scraped}]
"""
_PATIENCE_SECONDS = 20.0


def free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    numbers = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return numbers


class Scraped:
    """A daemon whose API server is away, and a thread that scrapes it."""

    def __init__(self, daemon: Daemon, port: int) -> None:
        self.daemon, self.port = daemon, port

    def get(self, path: str = "/metrics") -> requests.Response:
        return requests.get(f"https://127.0.0.1:{self.port}{path}", verify=False, timeout=_PATIENCE_SECONDS)

    async def scrape(self, path: str = "/metrics") -> requests.Response:
        return await asyncio.to_thread(self.get, path)


@pytest.fixture
async def scraped(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scraped]:
    monkeypatch.setattr(serving, "_SERVE_WITHIN_SECONDS", 0.0)
    port, absent = free_ports(2)
    flags = [f"--secure-port={port}", "--bind-address=127.0.0.1"]
    options = parse_options([*flags, "--authorization-always-allow-paths=/metrics,/configz,/livez"], "test")
    client = KubeClient(ClientConfig(server=f"http://127.0.0.1:{absent}"))
    readers = {name: PageReader(client, f"/api/v1/{name}") for name in ("nodes", "pods")}
    daemon = Daemon(options, load_configuration(CONFIGURATION, source="test"), client, **readers)
    running = asyncio.create_task(daemon.run())
    scraped = Scraped(daemon, port)
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            try:
                await scraped.scrape("/livez")
                break
            except requests.ConnectionError:
                await asyncio.sleep(0.02)
    yield scraped
    daemon._stop.set()
    assert await running == 0
    await client.close()


class Entry:
    """As much of a queued pod as counting needs."""

    gated = False


class ChangedWhileRead(dict[str, Any]):
    """The queue's unschedulable pods, which the loop changes while they are counted, if it can."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__({"a": Entry(), "b": Entry()})
        self._loop = loop

    def values(self) -> Iterator[Any]:  # type: ignore[override]  # only iterated
        for number, entry in enumerate(super().values()):
            if not number and not self.keys() >= {"c"}:
                changed = threading.Event()
                self._loop.call_soon_threadsafe(self._change, changed)
                # On the loop's own thread nothing can come in between: this ends without the change.
                changed.wait(0.2)
            yield entry

    def _change(self, changed: threading.Event) -> None:
        self["c"] = Entry()
        changed.set()


async def test_a_scrape_reads_a_queue_that_does_not_change_meanwhile(
    scraped: Scraped, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = scraped.daemon.engine.queue
    # The flush goes through these pods, too: they are counted here, and nothing else.
    monkeypatch.setattr(queue, "flush", lambda: 0)
    monkeypatch.setattr(queue, "_unschedulable", ChangedWhileRead(asyncio.get_running_loop()))
    first = await scraped.scrape()
    assert first.status_code == 200, first.text[:300]
    assert 'scheduler_pending_pods{queue="unschedulable"} 2.0' in first.text
    assert 'scheduler_pending_pods{queue="unschedulable"} 3.0' in (await scraped.scrape()).text


async def test_a_loop_that_hangs_delays_a_scrape_for_a_moment_only(
    scraped: Scraped, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values are those of the last scrape then; /livez says that the loop hangs."""
    monkeypatch.setattr(refresh, "PATIENCE_SECONDS", 0.1)
    await scraped.scrape()
    results: list[int] = []
    scraping = threading.Thread(target=lambda: results.append(scraped.get().status_code))
    scraping.start()
    # This test's loop is the daemon's: until the join returns, it hangs.
    scraping.join(_PATIENCE_SECONDS)
    assert results == [200]


async def test_gauges_that_cannot_be_computed_do_not_fail_the_scrape(
    scraped: Scraped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scraped.daemon.engine.queue, "counts", lambda: 1 / 0)
    answer = await scraped.scrape()
    assert answer.status_code == 200
    assert "secondary_scheduler_configuration_info" in answer.text
