"""What the comparisons share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.controlplane import ControlPlane, control_plane_running


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """An API server with the real kube-scheduler; a module installs the kinds that it needs."""
    with control_plane_running() as running:
        yield running
