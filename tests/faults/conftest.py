"""One control plane for all scenarios of this process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from tests.faults.patience import OF_TESTS, VARIABLE
from tests.faults.plane import FaultPlane, fault_plane
from tests.faults.stage import prepare

os.environ.setdefault(VARIABLE, OF_TESTS)


@pytest.fixture(scope="session")
def plane() -> Iterator[FaultPlane]:
    """etcd and an API server whose past can be read; scenarios may break it as long as they mend it."""
    with fault_plane() as running:
        asyncio.run(prepare(running))
        yield running
