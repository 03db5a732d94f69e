"""Bindings that the API server still works on when the scheduler has stopped waiting, on a real API server.

The scheduler is a process behind a proxy that keeps Bindings. The client's timeouts are shortened, so that a test needs
seconds; what is kept for longer than them is what matters.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.apiclient import Api
from tests.conformance.controlplane import ControlPlane
from tests.faults.proxy import Hold, Proxy, Rule, login_page
from tests.integration.scheduler.queueing import node, pod
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.integration
NAMESPACE, SCHEDULER, LEASE = "default", "bindings", "bindings"
Json = dict[str, Any]

_START = """
import functools, sys
import scheduler.daemon, scheduler.start
scheduler.daemon._FINISH_SECONDS, scheduler.daemon._RESOLVE_SECONDS = {finish}, {resolve}
scheduler.start.KubeClient = functools.partial(scheduler.start.KubeClient, timeout={timeout})
from scheduler.__main__ import main
sys.exit(main())
"""


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[Api]:
    api = Api(plane)
    yield api
    for kind, namespace in (("Pod", NAMESPACE), ("Node", "")):
        await api.delete_all(kind, namespace)
    await api.call("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")
    await api.close()


class ProxiedScheduler:
    """A proxy and a scheduler behind it."""

    def __init__(self, api: Api, proxy: Proxy, directory: Path) -> None:
        self.api = api
        self.proxy = proxy
        self.log = directory / "log"
        self._directory = directory
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self, *, timeout: float, elect: bool = False, finish: float = 5.0, resolve: float = 12.0) -> None:
        """Start the scheduler and wait until it schedules; times are in seconds.

        Args:
            timeout: of its requests.
            elect: it competes for a Lease.
            finish: for which bindings may end by themselves after SIGTERM.
            resolve: for which their outcome is then looked up.
        """
        kubeconfig = self.proxy.write_kubeconfig(self._directory / "kubeconfig")
        election = {"leaderElect": elect, "resourceName": LEASE, "resourceNamespace": NAMESPACE}
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": election,
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "profiles": [{"schedulerName": SCHEDULER}],
        }
        file = self._directory / "config.json"
        file.write_text(json.dumps(configuration))
        command = [sys.executable, "-c", _START.format(timeout=timeout, finish=finish, resolve=resolve)]
        command += [f"--config={file}", "--secure-port=0", "--logging-format=json"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(  # noqa: ASYNC220 -- returns at once
                command, stdout=output, stderr=output, env=environment
            )
        await self.until(lambda: self._logged("caches are filled"), "the scheduler works", 60)
        if elect:
            await self.until(lambda: self._logged("became leader"), "it leads", 30)

    async def create(self, *items: Json) -> None:
        for item in items:
            if item["kind"] == "Pod":
                item = item | {"spec": {**item["spec"], "schedulerName": SCHEDULER}}
                item["metadata"] = item["metadata"] | {"namespace": NAMESPACE}
            await self.api.create(item)

    async def nodes_of_pods(self) -> dict[str, str]:
        pods = await self.api.list_all("Pod", NAMESPACE)
        return {item["metadata"]["name"]: item["spec"].get("nodeName", "") for item in pods}

    async def until(
        self,
        check: Callable[[], Any] | Callable[[], Coroutine[Any, Any, Any]],
        expectation: str,
        seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Wait until a check, which may be a coroutine, passes."""
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while True:
            answer = check()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return
            if clock() > end:
                pytest.fail(f"not within {seconds:g} s: {expectation}\n{self.log.read_text()[-3000:]}")
            await asyncio.sleep(0.05)

    def _logged(self, text: str) -> bool:
        assert self.process is not None
        content = self.log.read_text()
        assert self.process.poll() is None, content[-3000:]
        return text in content

    async def terminate(self) -> int:
        """Send SIGTERM; returns the exit code."""
        assert self.process is not None
        self.process.terminate()
        return await asyncio.to_thread(self.process.wait, 60)

    async def lease_holder(self) -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"
        return str((await self.api.call("GET", path))["spec"].get("holderIdentity", ""))

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_SECONDS)


@pytest.fixture
async def stage(plane: ControlPlane, api: Api, tmp_path: Path) -> AsyncIterator[ProxiedScheduler]:
    async with Proxy.of(plane) as proxy:
        stage = ProxiedScheduler(api, proxy, tmp_path)
        with contextlib.ExitStack() as stack:
            stack.callback(stage.end)
            yield stage


async def test_room_is_not_given_twice_while_a_binding_may_still_land(stage: ProxiedScheduler) -> None:
    held = Hold()
    stage.proxy.add(Rule(held, verb="create", resource="pods/binding", name="slow"))
    await stage.create(node("small", "1"))
    await stage.start(timeout=1.0)
    await stage.create(pod("slow", "700m"))
    await held.first()
    await stage.until(lambda: stage.proxy.count("get", "pods"), "the client has stopped waiting, and reads the pod")
    await stage.create(pod("rival", "700m"), node("other", "500m"), pod("small-one", "400m"))
    await stage.until(lambda: _placed(stage, "small-one"), "other pods flow meanwhile")
    await stage.until(lambda: _decided(stage, "rival"), "the other pod is tried")
    held.release()
    await stage.until(lambda: _placed(stage, "slow"), "the Binding lands in the end")
    assert await stage.nodes_of_pods() == {"slow": "small", "rival": "", "small-one": "other"}


async def test_a_binding_that_is_kept_is_written_again_and_cannot_land_twice(stage: ProxiedScheduler) -> None:
    held = Hold()
    stage.proxy.add(Rule(held, verb="create", resource="pods/binding", times=1))
    await stage.create(node("small", "1"))
    await stage.start(timeout=1.0)
    await stage.create(pod("slow", "700m"))
    first = await held.first()
    await stage.until(lambda: _placed(stage, "slow"), "bound while the first request is kept")
    await stage.create(pod("rival", "700m"))
    await stage.until(lambda: _rejected(stage, "rival"), "no room for another")
    held.release()
    await stage.until(lambda: first.upstream_status, "the first request reaches the API server")
    assert first.upstream_status == 409
    assert await stage.nodes_of_pods() == {"slow": "small", "rival": ""}


async def test_a_login_page_instead_of_answers_loses_neither_pod_nor_room(stage: ProxiedScheduler) -> None:
    stage.proxy.add(Rule(login_page(), verb="create", resource="pods/binding", times=2))
    stage.proxy.add(Rule(login_page(), verb="get", resource="pods", times=2))
    await stage.create(node("small", "1"))
    await stage.start(timeout=5.0)
    await stage.create(pod("first", "700m"))
    await stage.until(lambda: _placed(stage, "first"), "bound once the API server answers again")
    await stage.create(pod("second", "200m"))
    await stage.until(lambda: _placed(stage, "second"), "the scheduler goes on")


async def test_at_sigterm_the_lease_is_released_once_a_kept_binding_cannot_land_any_more(
    stage: ProxiedScheduler,
) -> None:
    held = Hold()
    stage.proxy.add(Rule(held, verb="create", resource="pods/binding", times=1))
    await stage.create(node("small", "1"))
    await stage.start(timeout=60.0, elect=True, finish=0.5)
    await stage.create(pod("slow", "700m"))
    first = await held.first()
    assert await stage.lease_holder()
    assert await stage.terminate() == 0
    assert await stage.lease_holder() == ""
    assert await stage.nodes_of_pods() == {"slow": "small"}
    held.release()
    await stage.until(lambda: first.upstream_status, "the kept request reaches the API server")
    assert first.upstream_status == 409


async def test_at_sigterm_the_lease_is_kept_while_a_binding_may_still_land(stage: ProxiedScheduler) -> None:
    held = Hold()
    stage.proxy.add(Rule(held, verb="create", resource="pods/binding"))
    await stage.create(node("small", "1"))
    await stage.start(timeout=60.0, elect=True, finish=0.5, resolve=1.0)
    await stage.create(pod("slow", "700m"))
    await held.first()
    holder = await stage.lease_holder()
    assert await stage.terminate() == 0
    assert await stage.lease_holder() == holder
    assert "the Lease is not released" in stage.log.read_text()
    held.release()
    await stage.until(lambda: _placed(stage, "slow"), "and it lands")


async def _placed(stage: ProxiedScheduler, name: str) -> bool:
    return bool((await stage.nodes_of_pods())[name])


async def _decided(stage: ProxiedScheduler, name: str) -> bool:
    return await _placed(stage, name) or await _rejected(stage, name)


async def _rejected(stage: ProxiedScheduler, name: str) -> bool:
    answer = await stage.api.get({"kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}})
    return any(condition.get("reason") == "Unschedulable" for condition in answer["status"].get("conditions", ()))
