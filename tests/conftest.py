"""Fixtures of all tests."""

from hypothesis import HealthCheck, settings

from tests.support.cluster import cluster_state_root, control_plane, make_cluster

__all__ = ["cluster_state_root", "control_plane", "make_cluster"]

# How long an example takes says more about the machine's other work than about the code.
settings.register_profile("project", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")
