"""Runs the real scheduler-plugins with a configuration, and installs the CRDs that some of its plugins read."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from devcluster import ports, processes, releases
from devcluster.ports import LOOPBACK
from devcluster.processes import ServiceProcess
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from scheduler.catalog import KubernetesVersion, minor_of, nearest_kubernetes
from tests.conformance import profiles
from tests.conformance.apiclient import Api, ApiError
from tests.conformance.case import Json
from tests.conformance.controlplane import ControlPlane
from tests.conformance.schedulerlog import VMODULE

_ROOT = Path(__file__).parents[2]
CRDS = (
    _ROOT / "components/crds/appgroup.diktyo.x-k8s.io_appgroups.yaml",
    _ROOT / "components/crds/networktopology.diktyo.x-k8s.io_networktopologies.yaml",
    _ROOT / "tests/data/crds/seccompprofiles.yaml",
)
_BY_NAME = ("--feature-gates=WatchListClient=false",)
"""Since 1.35 what exists at the start arrives in any order, else by name: the order in a queue depends on it."""
_NUMBERS = itertools.count()
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def binary_of_peer() -> Path:
    """The scheduler-plugins that fits the control plane's Kubernetes best."""
    peer = releases.release_of(releases.chosen()).peer
    return binaries.ensure([peer], SilentReporter())[peer]


def peer_version() -> KubernetesVersion:
    """What that scheduler-plugins is made of, which may be older than the control plane."""
    peer = releases.release_of(releases.chosen()).peer
    return nearest_kubernetes(minor_of(releases.PEERS[peer]) or 0)


def options(compatibility: str = "upstream") -> Json:
    """The entry of pluginConfig that is in our file only."""
    args = profiles.options(peer_version()) | {"compatibility": compatibility}
    return {"name": "SecondarySchedulerOptions", "args": args}


async def install_crds(control_plane: ControlPlane, files: Iterable[Path] = CRDS) -> None:
    """Install CRDs and wait until they are served."""
    api = Api(control_plane)
    try:
        for file in files:
            manifest = yaml.safe_load(file.read_text())
            with contextlib.suppress(ApiError):
                await api.call("POST", _DEFINITIONS, manifest)
            await _established(api, manifest["metadata"]["name"])
    finally:
        await api.close()


async def _established(api: Api, name: str) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        answer = await api.call("GET", f"{_DEFINITIONS}/{name}")
        conditions = answer.get("status", {}).get("conditions") or []
        if any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions):
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"the API server does not serve {name}")


@contextlib.contextmanager
def scheduler_plugins_running(running: ControlPlane, text: str, vmodule: str = VMODULE) -> Iterator[ControlPlane]:
    """Run the real scheduler-plugins with a configuration beside the control plane; its log takes the place of
    kube-scheduler's, as detailed as `vmodule` says."""
    binary = binary_of_peer()
    layout = running.layout
    file: Path = layout.config("scheduler-plugins.json")
    file.write_text(text)
    port = ports.allocate(["scheduler-plugins"], {})["scheduler-plugins"]
    # Each run has a log of its own: readers begin at its beginning.
    service = ServiceProcess(
        f"scheduler-plugins-{next(_NUMBERS)}",
        [
            str(binary),
            f"--config={file}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--authentication-kubeconfig={layout.kubeconfig}",
            f"--authorization-kubeconfig={layout.kubeconfig}",
            "-v=2",
            f"--vmodule={vmodule}",
            *(_BY_NAME if peer_version().minor >= 35 else ()),
        ],
        ports=[port],
    )
    record = processes.start(service, layout.root)
    try:
        yield ControlPlane(
            layout,
            running.api_server,
            record.log,
            lambda: processes.is_alive(record),
            peer_version(),
            served=running.served,
        )
    finally:
        processes.stop([record])
