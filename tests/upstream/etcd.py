"""An etcd of a run's own, which the tests' API servers share."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from devcluster import ports, processes
from devcluster.layout import Layout
from devcluster.ports import LOOPBACK
from devcluster.progress import Reporter
from devcluster.services import control_plane
from devcluster.state import StateDirectory
from devcluster.toolchain import binaries


@contextlib.contextmanager
def etcd_running(report: Reporter) -> Iterator[str]:
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
