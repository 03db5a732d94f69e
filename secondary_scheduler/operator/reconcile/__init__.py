"""What to do about one SecondaryScheduler: `reconcile(observed) -> Plan`.

Membership rule: pure functions over data. No I/O, no clock (`Observed.now` is data), no state between calls; Kubernetes
objects are plain JSON-like dictionaries, exactly as the API server sends them.
"""

from secondary_scheduler.operator.reconcile.model import (
    Action as Action,
    ApiFailure as ApiFailure,
    AppliedRecord as AppliedRecord,
    Apply as Apply,
    Delete as Delete,
    EventDraft as EventDraft,
    Json as Json,
    ObjectKey as ObjectKey,
    Observed as Observed,
    ReconcilePlan as ReconcilePlan,
    SetFinalizers as SetFinalizers,
    digest as digest,
    fingerprint as fingerprint,
    is_terminating as is_terminating,
)
from secondary_scheduler.operator.reconcile.names import (
    API_VERSION as API_VERSION,
    FIELD_MANAGER as FIELD_MANAGER,
    FINALIZER as FINALIZER,
    KIND as KIND,
    LABEL_MANAGED_BY as LABEL_MANAGED_BY,
    RESOURCES as RESOURCES,
)
from secondary_scheduler.operator.reconcile.plan import reconcile as reconcile
