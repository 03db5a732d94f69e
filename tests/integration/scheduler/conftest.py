"""What several of these modules need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.controlplane import ControlPlane, control_plane_running


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane for one module."""
    with control_plane_running() as running:
        yield running
