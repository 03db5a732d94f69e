"""What to do about one SecondaryScheduler: `reconcile(observed) -> Plan`.

Membership rule: pure functions over data. No I/O, no clock (`Observed.now` is data), no state between calls; Kubernetes
objects are plain JSON-like dictionaries, exactly as the API server sends them.
"""

from secondary_scheduler.operator.reconcile.model import (
    Action,
    ApiFailure,
    AppliedRecord,
    Apply,
    Delete,
    EventDraft,
    Json,
    ObjectKey,
    Observed,
    Plan,
    SetFinalizers,
    digest,
    fingerprint,
    is_terminating,
)
from secondary_scheduler.operator.reconcile.names import (
    API_VERSION,
    FIELD_MANAGER,
    FINALIZER,
    KIND,
    LABEL_MANAGED_BY,
    RESOURCES,
)
from secondary_scheduler.operator.reconcile.plan import reconcile

__all__ = [
    "API_VERSION",
    "FIELD_MANAGER",
    "FINALIZER",
    "KIND",
    "LABEL_MANAGED_BY",
    "RESOURCES",
    "Action",
    "ApiFailure",
    "AppliedRecord",
    "Apply",
    "Delete",
    "EventDraft",
    "Json",
    "ObjectKey",
    "Observed",
    "Plan",
    "SetFinalizers",
    "digest",
    "fingerprint",
    "is_terminating",
    "reconcile",
]
