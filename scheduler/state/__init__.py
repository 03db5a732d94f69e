"""The cluster in columns, the pods in it, the queue, and what one decision sees. Knows no plugin.

What stands in for upstream's cache, snapshot and scheduling queue. One thread changes it, between decisions: that is
why nothing here has a lock, and why the ordinary snapshot is the live state and not a copy.

May import `scheduler.framework`, `scheduler.catalog` and `scheduler.kube.model` and `.primitives`; does no
I/O; changed only from one thread.
"""

from scheduler.state.cluster import ClusterState as ClusterState
from scheduler.state.objects import (
    CODEC_OF_KIND as CODEC_OF_KIND,
    WATCHED_KINDS as WATCHED_KINDS,
    ObjectStore as ObjectStore,
    WatchedKind as WatchedKind,
    watched_kind as watched_kind,
)
from scheduler.state.queue import SchedulingQueue as SchedulingQueue
from scheduler.state.queued import QueuedPod as QueuedPod, Requeue as Requeue
from scheduler.state.snapshot import Overlay as Overlay, Snapshot as Snapshot
from scheduler.state.table import NodeTable as NodeTable
