"""Local clusters for tests.

`control_plane`: etcd, kube-apiserver and kube-controller-manager, shared by the whole session (one per xdist worker);
a test keeps to namespaces of its own. `make_cluster`: a cluster of the test's own, ended with it.

State is kept outside the user's, below a directory per test process; what a killed test run left behind is ended by
the next one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import processes, state
from devcluster.cluster import LocalCluster
from devcluster.errors import ClusterStateError
from devcluster.spec import ClusterSpec

MakeCluster = Callable[..., LocalCluster]
BARE: dict[str, Any] = {
    "nodes": 0,
    "real_nodes": 0,
    "prometheus": False,
    "default_scheduler": False,
    "kwok": False,
    "tools": False,
}
"""A control plane and nothing else."""

_TESTS_ROOT = Path(tempfile.gettempdir()) / f"secondary-scheduler-tests-{os.getuid()}"


AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"], "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "Request", "resources": [{"group": "", "resources": ["pods/binding", "bindings"]}]},
        {"level": "Metadata"},
    ],
}
"""Of ServiceAccounts the reads, too: what they are refused, and which rights they have in vain."""


def audit_flags(directory: Path) -> tuple[str, ...]:
    """The API server's flags for that policy, which is written to this directory."""
    policy = directory / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(AUDIT_POLICY))
    return (f"--audit-policy-file={policy}",)


def _own_root() -> Path:
    return _TESTS_ROOT / f"{os.getpid()}-{processes.identity(os.getpid())}".replace(":", "-")


def remove_abandoned_clusters() -> None:
    """End the clusters of test processes that are gone."""
    for root in _TESTS_ROOT.glob("*-*-*"):
        pid, _, started = root.name.partition("-")
        if processes.identity(int(pid)) == started.replace("-", ":"):
            continue
        try:
            for name in state.cluster_names(root):
                LocalCluster(ClusterSpec(name=name, state_root=root)).stop()
        except ClusterStateError:  # another worker of this run is about it
            continue
        for leftover in sorted(root.rglob("*"), reverse=True):
            with contextlib.suppress(OSError):
                leftover.rmdir() if leftover.is_dir() and not leftover.is_symlink() else leftover.unlink()
        with contextlib.suppress(OSError):
            root.rmdir()


@pytest.fixture(scope="session")
def cluster_state_root() -> Iterator[Path]:
    """Where this process' clusters keep their state; gone at the end."""
    remove_abandoned_clusters()
    root = _own_root()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    yield root
    for name in state.cluster_names(root):
        LocalCluster(ClusterSpec(name=name, state_root=root)).stop()
    for lock in (root / "clusters").glob(".*.lock"):
        lock.unlink()
    for directory in (root / "clusters", root):
        with contextlib.suppress(FileNotFoundError):
            directory.rmdir()


@pytest.fixture(scope="session")
def control_plane(cluster_state_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """etcd, kube-apiserver and kube-controller-manager without any node.

    Most tests need its attributes `kubeconfig`, `api_server` and `state_dir`.
    """
    flags = audit_flags(tmp_path_factory.mktemp("audit"))
    spec = ClusterSpec(name="control-plane", state_root=cluster_state_root, api_server_flags=flags, **BARE)
    with LocalCluster(spec) as cluster:
        yield cluster


@pytest.fixture
def make_cluster(cluster_state_root: Path) -> Iterator[MakeCluster]:
    """Start a cluster with any fields of ClusterSpec, as `make_cluster(nodes=5)`; it is ended after the test."""
    started: list[LocalCluster] = []
    numbers = itertools.count(1)

    def make(**options: Any) -> LocalCluster:
        options = {"name": f"test-{next(numbers)}", "state_root": cluster_state_root, "tools": False, **options}
        cluster = LocalCluster(ClusterSpec(**options))
        started.append(cluster)
        cluster.start()
        return cluster

    yield make
    for cluster in reversed(started):
        cluster.stop()
