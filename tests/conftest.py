"""Fixtures of all tests."""

from tests.support.cluster import cluster_state_root, control_plane, make_cluster

__all__ = ["cluster_state_root", "control_plane", "make_cluster"]
