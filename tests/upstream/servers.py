"""The servers of a run's tests: an etcd that their API servers share, or binaries that they start themselves."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from devcluster import ports, processes
from devcluster.layout import Layout
from devcluster.ports import LOOPBACK
from devcluster.progress import ProgressReporter
from devcluster.services import control_plane
from devcluster.state import StateDirectory
from devcluster.toolchain import binaries
from tests.upstream.suites import PLUGINS, Suite


@contextlib.contextmanager
def servers_of(suite: Suite, report: ProgressReporter) -> Iterator[Mapping[str, str]]:
    """Yield the variables by which the tests find their servers."""
    if suite.module == PLUGINS:
        paths = binaries.ensure(["etcd", "kube-apiserver"], report, suite.release.minor)
        yield {
            "TEST_ASSET_ETCD": str(paths["etcd"]),
            "TEST_ASSET_KUBE_APISERVER": str(paths["kube-apiserver"]),
            # Other work may keep the cores busy.
            "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT": "2m",
        }
        return
    with _etcd_running(report) as address:
        yield {"KUBE_INTEGRATION_ETCD_URL": address}


@contextlib.contextmanager
def _etcd_running(report: ProgressReporter) -> Iterator[str]:
    """Start one below a temporary directory, yield its address, and end it again."""
    binary = binaries.ensure(["etcd"], report)["etcd"]
    with tempfile.TemporaryDirectory(prefix="upstream-") as root:
        directory = StateDirectory(Path(root), "etcd")
        directory.create()
        numbers = ports.allocate(("etcd", "etcd-peer"), {})
        service = control_plane.etcd(binary, Layout(directory.path), numbers)
        record = processes.start(service, directory.path)
        try:
            processes.wait_ready(service, record)
            yield f"http://{LOOPBACK}:{numbers['etcd']}"
        finally:
            processes.stop([record])
