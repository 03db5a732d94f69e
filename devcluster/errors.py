"""Errors of the local cluster that a user can act on.

DevClusterError
├── BinaryError        a pinned binary is absent and cannot be built
├── PortTakenError     a port of a service belongs to somebody else
├── ServiceError       a service ended or did not become ready in time
├── ClusterStateError  the state directory contradicts the command (absent, busy, unreadable)
└── SpecError          a name, number or port that no cluster can have
"""


class DevClusterError(Exception):
    """One line for the user: what failed, where, why and what to do about it."""


class BinaryError(DevClusterError):
    """A pinned binary is absent and cannot be built."""


class PortTakenError(DevClusterError):
    """A port of a service belongs to another process."""


class ServiceError(DevClusterError):
    """A service ended, or was not ready in time."""


class ClusterStateError(DevClusterError):
    """The state directory contradicts what was asked: no such cluster, busy, or unreadable."""


class SpecError(DevClusterError):
    """What was asked for is a name, number or port that no cluster can have."""
