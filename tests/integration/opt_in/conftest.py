from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from tests.integration.opt_in.support import GATE_ON, Server
from tests.support.cluster import BARE


@pytest.fixture(scope="session")
def gated(cluster_state_root: Path) -> Iterator[Server]:
    """An API server of 1.34 that evaluates the policies."""
    spec = ClusterSpec(name="opt-in", state_root=cluster_state_root, api_server_flags=GATE_ON, **BARE)
    with LocalCluster(spec) as cluster:
        server = Server(cluster, 34)
        yield server
        server.close()


@pytest.fixture
def server(gated: Server) -> Iterator[Server]:
    """The same, without a policy of another test."""
    yield gated
    gated.remove_policies()
    gated.settle()
