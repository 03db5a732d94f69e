"""A filled cluster that is kept for the next run: filling the largest one takes a quarter of an hour."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.race.cluster import RaceCluster
from benchmarks.race.scenario import Scenario, Workload
from benchmarks.race.world import World

_FILLED = ("nodes", "init")
"""The parameters that a filled cluster depends on."""


@dataclass(frozen=True)
class KeptCluster:
    """etcd's data of a cluster that a workload has filled, and nobody has used since.

    Args:
        directory: for the data; made when there is none. None to keep nothing.
        key: of what it was filled with.
    """

    directory: Path | None = None
    key: str = ""

    @classmethod
    def of(
        cls, directory: Path | None, scenario: Scenario, workload: Workload, binaries: Mapping[str, Path]
    ) -> KeptCluster:
        """What a workload fills, by these versions of the servers."""
        params = {name: workload.params.get(name, 0) for name in _FILLED}
        servers = [binaries[name].name for name in ("etcd", "kube-apiserver")]
        text = json.dumps([scenario.name, scenario.templates, scenario.definitions, params, servers])
        return cls(directory, hashlib.sha256(text.encode()).hexdigest()[:16])

    @property
    def data(self) -> Path | None:
        """The data, None while nothing is kept.

        Raises:
            RuntimeError: the directory has something else.
        """
        if self.directory is None or not self.directory.exists():
            return None
        key = self.directory / "key"
        if not key.is_file() or key.read_text() != self.key:
            raise RuntimeError(
                f"{self.directory} has no cluster of this scenario, size and version; name a new directory"
            )
        return self.directory / "etcd"

    async def fill(self, world: World, cluster: RaceCluster) -> None:
        """Build a world and keep it, or learn what a cluster that started from the data has."""
        exists = self.data is not None
        await world.build(exists=exists)
        if self.directory is not None and not exists:
            _copy(cluster, self.directory / "etcd")
            (self.directory / "key").write_text(self.key)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--cluster`."""
    parser.add_argument(
        "--cluster",
        type=Path,
        metavar="DIRECTORY",
        help="keep the filled cluster of one workload there, or start from it if it was kept",
    )


def _copy(cluster: RaceCluster, target: Path) -> None:
    """Copy etcd's data while it stands still: what a copy has then, etcd recovers as after a crash."""
    os.kill(cluster.etcd.pid, signal.SIGSTOP)
    try:
        shutil.copytree(cluster.layout.data("etcd"), target)
    finally:
        os.kill(cluster.etcd.pid, signal.SIGCONT)
