"""A cluster that a scenario has filled, on which contestants take turns; it can be saved for the next run."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import contestants, control_plane, watcher
from benchmarks.harness.contestants import FIRST_SECONDS, ROOT, Contestant
from benchmarks.harness.control_plane import ControlPlane
from benchmarks.harness.objects import ScenarioObjects
from benchmarks.harness.podwatch import PodWatch
from benchmarks.harness.scenario import CreatePods, Operation, Scenario, Workload, resolved
from scheduler.kube.client import KubeClient

_FILLED = ("nodes", "init")
"""The parameters that a filled cluster depends on."""


@dataclass(frozen=True)
class SavedCluster:
    """etcd's data of a cluster that a workload has filled, and nobody has used since: filling the largest one takes a
    quarter of an hour.

    Args:
        directory: for the data; made when there is none. None to save nothing.
        key: of what it was filled with.
    """

    directory: Path | None = None
    key: str = ""

    @classmethod
    def of(
        cls, directory: Path | None, scenario: Scenario, workload: Workload, binaries: Mapping[str, Path]
    ) -> SavedCluster:
        """What a workload fills, by these versions of the servers."""
        params = {name: workload.params.get(name, 0) for name in _FILLED}
        servers = [binaries[name].name for name in ("etcd", "kube-apiserver")]
        text = json.dumps([scenario.name, scenario.templates, scenario.definitions, params, servers])
        return cls(directory, hashlib.sha256(text.encode()).hexdigest()[:16])

    @property
    def data(self) -> Path | None:
        """The data, None while nothing is saved.

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

    def save(self, cluster: ControlPlane) -> None:
        """Copy etcd's data while it stands still: what a copy has then, etcd recovers as after a crash."""
        if self.directory is None or self.directory.exists():
            return
        os.kill(cluster.etcd.pid, signal.SIGSTOP)
        try:
            shutil.copytree(cluster.layout.data("etcd"), self.directory / "etcd")
        finally:
            os.kill(cluster.etcd.pid, signal.SIGCONT)
        (self.directory / "key").write_text(self.key)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--cluster`."""
    parser.add_argument(
        "--cluster",
        type=Path,
        metavar="DIRECTORY",
        help="save the filled cluster of one workload there, or start from it if it was saved",
    )


class FilledCluster:
    """Servers with the nodes and the pods of a workload, and what is seen of the pods that contestants place."""

    def __init__(self, scenario: Scenario, workload: Workload, cluster: ControlPlane, client: KubeClient) -> None:
        self.scenario, self.workload, self.cluster = scenario, workload, cluster
        self.operations: list[Operation] = resolved(scenario, workload)
        self.objects = ScenarioObjects(client, scenario, workload.params, self.operations)
        self.seen = PodWatch(client)
        self.cpu_loads: dict[str, float] = {}
        """What the fake load-watcher says of the nodes, in percent; empty where there is none."""
        self._watcher = ""

    @property
    def backlog(self) -> CreatePods:
        """The operation whose pods are measured."""
        return next(
            operation for operation in self.operations if isinstance(operation, CreatePods) and operation.measured
        )

    @property
    def makes_room(self) -> bool:
        """Whether contestants delete pods, so that each of them needs the nodes filled again."""
        return any(isinstance(operation, CreatePods) and operation.every_round for operation in self.operations)

    @contextlib.contextmanager
    def contestant(self, role: str, root: Path = ROOT) -> Iterator[Contestant]:
        """Run one while the block runs; see `contestants.running`."""
        with contestants.running(
            role, self.scenario, self.cluster, watcher=self._watcher, root=root, params=self.workload.params
        ) as contestant:
            yield contestant

    async def clear(self) -> None:
        """Delete what a contestant had to do with, and wait until the watch says that it is gone."""
        await self.objects.clear()
        await self.seen.wait_until_gone(FIRST_SECONDS)
        self.seen.reset()

    @contextlib.asynccontextmanager
    async def _served(self) -> AsyncIterator[None]:
        async with self.seen.running():
            if not self.scenario.watcher:
                yield
                return
            self.cpu_loads = watcher.cpu_loads(self.objects.nodes)
            with watcher.serving(self.cpu_loads) as self._watcher:
                yield


@contextlib.asynccontextmanager
async def filled(
    scenario: Scenario, workload: Workload, paths: dict[str, Path], saved: SavedCluster | None = None
) -> AsyncIterator[FilledCluster]:
    """Start servers, fill them as a workload says, and watch its pods while the block runs.

    Args:
        scenario, workload: what the cluster has.
        paths: executables by name.
        saved: where the cluster may be in place of being filled, or is saved once it is filled.

    Raises:
        RuntimeError: a server has ended; the message ends with its log.
    """
    saved = saved or SavedCluster()
    data = saved.data
    with control_plane.running(paths, data) as cluster:
        async with cluster.client("benchmark") as client:
            result = FilledCluster(scenario, workload, cluster, client)
            await result.objects.build(exists=data is not None)
            saved.save(cluster)
            async with result._served():
                yield result
