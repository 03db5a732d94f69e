"""A namespace per test on the shared control plane."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler.kube.client import ClientConfig, KubeClient, api_path


@pytest.fixture
def config(control_plane: Any) -> ClientConfig:
    return ClientConfig.load(control_plane.kubeconfig)


@pytest.fixture
async def client(config: ClientConfig) -> AsyncIterator[KubeClient]:
    async with KubeClient(config, qps=0, user_agent="tests") as opened:
        yield opened


@pytest.fixture
async def namespace(client: KubeClient) -> AsyncIterator[str]:
    name = f"kube-{uuid.uuid4().hex[:8]}"
    await client.post(api_path("v1", "namespaces"), {"metadata": {"name": name}})
    yield name
    await client.delete(api_path("v1", "namespaces", name=name))
