"""A Pulumi engine per test on the session's control plane; each test has a namespace of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import LocalCluster
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from tests.integration.pulumi_stand_ins.engine import Api, Engine


@pytest.fixture(scope="session")
def pulumi_binary() -> Path:
    return binaries.ensure(["pulumi"], SilentReporter())["pulumi"]


@pytest.fixture
def api(control_plane: LocalCluster) -> Api:
    return Api(control_plane)


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    name = f"pulumi-{uuid.uuid4().hex[:8]}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def engine(tmp_path: Path, control_plane: LocalCluster, pulumi_binary: Path, namespace: str) -> Engine:
    return Engine(tmp_path, control_plane, pulumi_binary, namespace)


@pytest.fixture
def offline(tmp_path: Path, pulumi_binary: Path) -> Engine:
    """An engine without any cluster."""
    return Engine(tmp_path, None, pulumi_binary, "default")
