"""The guide's way to try a plugin package on a local cluster: a scheduler in the reader's shell, without an image."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from tests.support.pages import CHECKOUT, JOURNEYS, File, Shell, followed

pytestmark = pytest.mark.integration
(STEP,) = JOURNEYS["plugin"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(ClusterSpec(name="plugin", nodes=2, real_nodes=0, state_root=tmp_path / "state")) as running:
        yield running


def installed(plugins: Path) -> None:
    """Put the example where `pip install --target` would."""
    metadata = plugins / "scheduler_timestamp-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: scheduler-timestamp\nVersion: 0.1.0\n")
    entry = "[secondary_scheduler.plugins]\nSchedulerTimestamp = scheduler_timestamp:DESCRIPTOR\n"
    (metadata / "entry_points.txt").write_text(entry)
    package = CHECKOUT / "examples" / "scheduler-timestamp" / "scheduler_timestamp"
    (plugins / package.name).symlink_to(package)


def test_a_plugin_runs_on_the_local_cluster_as_the_guide_says(cluster: LocalCluster, tmp_path: Path) -> None:
    installed(tmp_path / "plugins")
    written = [part for block in followed("files", STEP.partition("#")[0]) for part in block.content]
    (configuration,) = [part for part in written if isinstance(part, File) and part.path == "config.yaml"]
    (tmp_path / configuration.path).write_text(configuration.content)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{cluster.layout.bin}:{os.defpath}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(cluster.kubeconfig),
        "PYTHONPATH": str(tmp_path / "plugins"),
    }
    shell = Shell(tmp_path, environment, {}, tmp_path / "shell")
    try:
        for block in followed("plugin", STEP):
            shell.follow(block)
    finally:
        # Where the guide's own command did not get to it.
        shell.run("kill $(cat scheduler.pid) 2> scheduler.end")
    log = (tmp_path / "scheduler.log").read_text()
    assert "Successfully bound pod to node" in log, log
