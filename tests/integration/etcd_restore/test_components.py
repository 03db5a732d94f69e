"""A real etcd is put back to a copy under the operator, the rebalancer and the page: each knows what it has then.

The scheduler, with and without a Lease, is fault 49 (`tests/faults/scenarios/etcd_restore.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from scheduler.kube.client import ClientConfig, KubeError
from scheduler.kube.lease import LeaseElector, LeaseSettings
from secondary_scheduler.rebalancer import app as rebalancer
from secondary_scheduler.rebalancer.cluster import WatchedCluster
from secondary_scheduler.rebalancer.options import parse_options
from tests.faults import etcd
from tests.faults.plane import FaultPlane, fault_plane
from tests.integration.operator.support import Api, Operator, install_crd
from tests.support.waiting import PATIENCE_SECONDS, eventually, eventually_async
from tests.unit.operator.builders import CONFIG, IMAGE

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning"),
]
NAMESPACE, SCHEDULER = "restored", "secondary-scheduler"
HOST = "page.example.com"
WENT_BACK = "the cluster went back to an older state"
LOST_WRITES, LOST_SECONDS = 300, 10.0
"""Versions are not passed before it has to be noticed, and a look at the Lease falls into what is undone."""
WITH_LOAD = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins: {score: {enabled: [{name: TargetLoadPacking}]}}
  pluginConfig: [{name: TargetLoadPacking, args: {watcherAddress: "http://127.0.0.1:1"}}]
"""


@pytest.fixture
def plane() -> Iterator[FaultPlane]:
    with fault_plane() as running:
        yield running


@pytest.fixture
def api(plane: FaultPlane) -> Iterator[Api]:
    api = Api(plane.layout.kubeconfig, NAMESPACE)
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    install_crd(api)
    yield api
    api.close()


def create_pod(api: Api, name: str) -> None:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]
    api.create("pods", name, spec={"schedulerName": SCHEDULER, "containers": containers})


def delete_pod(api: Api, name: str) -> None:
    api.call("DELETE", api.path("pods", name), {"gracePeriodSeconds": 0})


def create_token(api: Api) -> str:
    """Of an account that may do everything."""
    api.create("serviceaccounts", "reader")
    account = {"kind": "ServiceAccount", "name": "reader", "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    body = {"metadata": {"name": f"{NAMESPACE}-reader"}, "roleRef": role, "subjects": [account]}
    api.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body)
    answer = api.call("POST", f"{api.path('serviceaccounts', 'reader')}/token", {"spec": {"expirationSeconds": 3600}})
    return str(answer["status"]["token"])


@contextlib.contextmanager
def held_lease(plane: FaultPlane) -> Iterator[None]:
    """The scheduler's Lease, renewed as a scheduler renews it."""
    lost: list[str] = []
    elector = LeaseElector(
        ClientConfig.load(plane.layout.kubeconfig),
        LeaseSettings(namespace=NAMESPACE, name=SCHEDULER, duration=60, renew_deadline=40),
        on_lost=lost.append,
    )
    elector.start()
    try:
        eventually(elector.is_leader, "the Lease is held")
        yield
    finally:
        elector.stop()
    assert lost == []


class Page:
    """The page, as a process; its visitor may see everything."""

    def __init__(self, plane: FaultPlane, directory: Path, token: str) -> None:
        (directory / "page.yaml").write_text(CONFIG)
        self.log = directory / "page.log"
        self._headers = {"Host": HOST, "Authorization": f"Bearer {token}"}
        command = [
            *(sys.executable, "-m", "secondary_scheduler.page", "--host", HOST, "--listen", "127.0.0.1:0"),
            *("--probes", "127.0.0.1:0", "--config-map", f"{NAMESPACE}/config", "--lease", f"{NAMESPACE}/{SCHEDULER}"),
            *("--config", str(directory / "page.yaml"), "--kubeconfig", str(plane.layout.kubeconfig)),
        ]
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)

    def shows(self) -> set[str]:
        """The pods that it shows."""
        port = eventually(lambda: re.search(r"on port (\d+)", self.log.read_text()), "the page serves")
        answer = requests.get(
            f"https://127.0.0.1:{port[1]}/decisions", headers=self._headers, verify=False, timeout=PATIENCE_SECONDS
        )
        return (
            set(re.findall(rf"{NAMESPACE}/(kept|goes|undone)\b", answer.text)) if answer.status_code == 200 else set()
        )

    def end(self) -> None:
        self._process.terminate()
        assert self._process.wait(PATIENCE_SECONDS) == 0, self.log.read_text()


@contextlib.asynccontextmanager
async def running_rebalancer(plane: FaultPlane, directory: Path, copies: list[WatchedCluster]) -> AsyncIterator[None]:
    """The rebalancer on the test's loop. A container is started again when it has ended, as when it lost its Lease."""
    (directory / "rebalancer.yaml").write_text(WITH_LOAD)
    options = parse_options(
        [
            *("--config", str(directory / "rebalancer.yaml"), "--mode", "Predictive", "--namespace", NAMESPACE),
            *("--scheduler", f"{NAMESPACE}/{SCHEDULER}", "--kubeconfig", str(plane.layout.kubeconfig)),
            *("--bind-address", "127.0.0.1", "--port", "0", "--metrics-port", "0"),
        ]
    )

    async def run() -> None:
        while True:
            with contextlib.suppress(KubeError):
                await rebalancer.run(options, ClientConfig.load(plane.layout.kubeconfig))

    task = asyncio.create_task(run())
    try:
        await eventually_async(lambda: _soon(bool(copies) and copies[-1].synced()), "the rebalancer has listed all")
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _soon(value: bool) -> bool:
    return value


def put_back_copy(plane: FaultPlane, directory: Path) -> Callable[[], None]:
    plane.copy_etcd(directory / "etcd")
    return lambda: plane.put_back(directory / "etcd")


def put_back_bumped(plane: FaultPlane, directory: Path) -> Callable[[], None]:
    etcd.save_snapshot(plane.etcd, directory / "snapshot.db")
    return lambda: plane.put_back_bumped(directory / "snapshot.db")


@pytest.mark.parametrize("take", [put_back_copy, put_back_bumped])
async def test_operator_rebalancer_and_page_know_what_a_restored_etcd_has(
    take: Callable[[FaultPlane, Path], Callable[[], None]],
    plane: FaultPlane,
    api: Api,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    copies: list[WatchedCluster] = []

    class KeptCluster(WatchedCluster):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            copies.append(self)

    monkeypatch.setattr(rebalancer, "WatchedCluster", KeptCluster)
    token = create_token(api)
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    identity = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
    api.create(
        "secondaryschedulers", "cluster", **identity, spec={"schedulerConfig": "config", "schedulerImage": IMAGE}
    )
    for name in ("kept", "goes"):
        create_pod(api, name)
    operator = Operator(plane.layout.kubeconfig, NAMESPACE, tmp_path / "operator.log")
    operator.start()
    page = Page(plane, tmp_path, token)

    def known_to_rebalancer() -> set[str]:
        return {pod.meta.name for pod in copies[-1].picture().pods if pod.meta.namespace == NAMESPACE}

    async def until(check: Callable[[], bool], expectation: str) -> float:
        began = time.monotonic()
        await eventually_async(lambda: asyncio.to_thread(check), expectation)
        return time.monotonic() - began

    def operator_restores_deployment() -> bool:
        if operator.process is not None and operator.process.poll() is not None:
            operator.start()  # as a kubelet would, when it has lost its Lease
        return SCHEDULER in api.names("deployments")

    try:
        with held_lease(plane):
            async with running_rebalancer(plane, tmp_path, copies):
                await until(lambda: SCHEDULER in api.names("deployments"), "the operator made the Deployment")
                put_back = await asyncio.to_thread(take, plane, tmp_path)
                delete_pod(api, "goes")
                create_pod(api, "undone")
                for number in range(LOST_WRITES):
                    await asyncio.to_thread(api.patch, "configmaps", "config", {"data": {"number": str(number)}})
                await asyncio.sleep(LOST_SECONDS)
                await until(lambda: known_to_rebalancer() == {"kept", "undone"}, "the rebalancer's copy")
                await until(lambda: page.shows() == {"kept", "undone"}, "the page")
                await asyncio.to_thread(put_back)
                # By a watch from before, nobody would see that for as long as versions are lower than they were.
                await asyncio.to_thread(api.delete, "deployments", SCHEDULER)
                seconds = {
                    "rebalancer": await until(lambda: known_to_rebalancer() == {"kept", "goes"}, "the rebalancer"),
                    "operator": await until(operator_restores_deployment, "the operator"),
                    "page": await until(lambda: WENT_BACK in page.log.read_text(), "the page notices it")
                    + await until(lambda: page.shows() == {"kept", "goes"}, "the page"),
                }
                print({name: round(figure, 1) for name, figure in seconds.items()})
                # One that lost its Lease while the API server was away lists everything in any case.
                if len(copies) == 1:
                    assert WENT_BACK in caplog.text
                if sum(line["event"] == "started" for line in operator.log_lines()) == 1:
                    assert any(WENT_BACK in line["event"] for line in operator.log_lines())
    finally:
        operator.end()
        page.end()
