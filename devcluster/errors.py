"""Errors of the local cluster that a user can act on.

DevClusterError
├── BinaryError        a pinned binary is absent and cannot be built
├── PortTakenError     a service's port is used by another process
├── ServiceError       a service exited or did not become ready in time
├── ClusterStateError  the state directory does not allow the command (absent, in use, unreadable)
└── SpecError          a name, number or port that no cluster can have
"""


class DevClusterError(Exception):
    """One line for the user: what failed, where, why and what to do about it."""


class BinaryError(DevClusterError):
    """A pinned binary is absent and cannot be built."""


class PortTakenError(DevClusterError):
    """A service's port is used by another process."""


class ServiceError(DevClusterError):
    """A service exited or did not become ready in time."""


class ClusterStateError(DevClusterError):
    """The state directory does not allow the command: no such cluster, in use, or unreadable."""


class SpecError(DevClusterError):
    """A name, number or port that no cluster can have."""
