"""coordination.k8s.io/v1 Lease."""

from __future__ import annotations

from msgspec import Struct

from scheduler.kube.model.meta import Int32, Object


class LeaseSpec(Struct, frozen=True, gc=False, rename="camel"):
    """Times are text and only ever compared for change: clocks of other machines prove nothing."""

    holder_identity: str = ""
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 = 0


class Lease(Object, frozen=True, gc=False, rename="camel"):
    """A lock that one process at a time renews."""

    spec: LeaseSpec = LeaseSpec()
