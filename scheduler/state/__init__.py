"""The cluster in columns, the pods in it, the queue, and what one decision sees. Knows no plugin.

What stands in for upstream's cache, snapshot and scheduling queue. One thread changes it, between decisions: that is
why nothing here has a lock, and why the ordinary snapshot is the live state and not a copy.

May import `scheduler.framework`, `scheduler.catalog` and `scheduler.kube.model` and `.primitives`; does no
I/O; changed only from one thread.
"""

from scheduler.state.cluster import ClusterState
from scheduler.state.nominations import Nominator
from scheduler.state.objects import CODEC_OF_KIND, WATCHED_KINDS, ObjectStore, WatchedKind
from scheduler.state.observer import QueueObserver
from scheduler.state.queue import SchedulingQueue
from scheduler.state.queued import QueuedPod, QueueName
from scheduler.state.snapshot import Overlay, Snapshot
from scheduler.state.table import NodeTable
from scheduler.state.waking import Hints

__all__ = [
    "CODEC_OF_KIND",
    "WATCHED_KINDS",
    "ClusterState",
    "Hints",
    "NodeTable",
    "Nominator",
    "ObjectStore",
    "Overlay",
    "QueueName",
    "QueueObserver",
    "QueuedPod",
    "SchedulingQueue",
    "Snapshot",
    "WatchedKind",
]
