"""The real kube-scheduler as a process of its own, beside that of a control plane."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from devcluster import ports
from tests.support.waiting import PATIENCE_SECONDS


@contextmanager
def kube_scheduler_running(
    binary: Path, kubeconfig: Path, directory: Path, content: str, flags: Sequence[str] = ()
) -> Iterator[None]:
    """Run it inside the block, with a configuration; its file and its log are put into a directory."""
    config, log = directory / "real.json", directory / "real.log"
    config.write_text(content)
    port = ports.allocate(["kube-scheduler"], {})["kube-scheduler"]
    command = [
        str(binary),
        f"--config={config}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        *flags,
    ]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield
            assert process.poll() is None, log.read_text()[-2000:]
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
