"""Which of the wanted objects have to be written."""

from collections.abc import Iterable, Iterator

from secondary_scheduler.operator.reconcile.model import (
    Action,
    Apply,
    Delete,
    Json,
    ObjectKey,
    Observed,
    digest,
    fingerprint,
)


def writes(observed: Observed, wanted: Iterable[tuple[Json, tuple[ObjectKey, ...]]]) -> Iterator[Action]:
    """What to do for each wanted object, given those that it requires; nothing where it is as it should be."""
    for body, requires in wanted:
        key = ObjectKey.of(body)
        live = observed.objects.get(key)
        if live is not None and _must_be_replaced(body, live):
            yield Delete(key, str(live["metadata"]["uid"]), "its immutable content differs from the desired content")
            yield Apply(body, requires)
        elif _needs_apply(observed, key, body, live):
            yield Apply(body, requires)


def _needs_apply(observed: Observed, key: ObjectKey, body: Json, live: Json | None) -> bool:
    record = observed.applied.get(key)
    if record is None or record.desired != digest(body):
        return True
    if live is None:
        return key.kind not in observed.unreadable
    return record.live != fingerprint(live)


def _must_be_replaced(body: Json, live: Json) -> bool:
    if body.get("immutable") and live.get("immutable"):
        return bool(body["data"] != live.get("data"))
    return "roleRef" in body and bool(body["roleRef"] != live.get("roleRef"))
