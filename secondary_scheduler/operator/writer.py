"""Carries out what a plan asks for."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from scheduler.kube.client import APPLY_PATCH, ApiError, KubeClient, KubeError, NotFound, WriteWithheld, api_path
from scheduler.kube.model import Unstructured, UnstructuredCodec
from secondary_scheduler.operator.metrics import OperatorMetrics
from secondary_scheduler.operator.reconcile import (
    API_VERSION,
    FIELD_MANAGER,
    KIND,
    RESOURCES,
    Action,
    Apply,
    Delete,
    EventDraft,
    Json,
    ObjectKey,
    SetFinalizers,
)

Allowed = Callable[[], bool]
_CODEC = UnstructuredCodec()
_APPLY = {"fieldManager": FIELD_MANAGER, "force": "true"}


class Writer:
    """Writes of the operator. Every method raises KubeError; what is already gone needs no deletion.

    `allowed` is asked right before a write is sent; where it says no, WriteWithheld is raised.
    """

    def __init__(
        self, client: KubeClient, metrics: OperatorMetrics, record_answer: Callable[[ObjectKey, Unstructured], Json]
    ) -> None:
        """`record_answer` takes the API server's answers, so that the next look sees our own writes."""
        self._client = client
        self._metrics = metrics
        self._learn = record_answer

    async def execute(self, action: Action, allowed: Allowed | None = None) -> Json | None:
        """Do one action; return the object as the API server has it now, None after a deletion."""
        match action:
            case Apply(body=body):
                return await self._patch("apply", action.key, body, allowed=allowed)
            case Delete(key=key, uid=uid):
                await self._delete(key, uid, allowed)
                return None
            case _:
                return await self._set_finalizers(action, allowed)

    async def write_status(self, resource: Json, status: Json, allowed: Allowed | None = None) -> Json:
        """Apply the status of an instance, unless it was deleted and created again in between."""
        metadata = resource["metadata"]
        identity = {name: metadata[name] for name in ("name", "namespace", "uid")}
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": identity, "status": status}
        return await self._patch("apply_status", ObjectKey.of(resource), body, "status", allowed)

    async def send_event(
        self, resource: Json, draft: EventDraft, now: datetime, allowed: Allowed | None = None
    ) -> None:
        """Post an Event about an instance."""
        metadata = resource["metadata"]
        time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        involved = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion")}
        event = {
            "metadata": {"generateName": f"{metadata['name']}-", "namespace": metadata["namespace"]},
            "involvedObject": {"apiVersion": API_VERSION, "kind": KIND, **involved},
            "type": "Warning" if draft.warning else "Normal",
            "reason": draft.reason,
            "message": draft.message[:1024],
            "source": {"component": FIELD_MANAGER},
            "reportingComponent": FIELD_MANAGER,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }
        path = api_path("v1", "events", namespace=metadata["namespace"])
        await self._count_write("create", "Event", self._client.post(path, event, allowed=allowed))

    async def _patch(
        self, verb: str, key: ObjectKey, body: Json, subresource: str | None = None, allowed: Allowed | None = None
    ) -> Json:
        call = self._client.patch(_path(key, subresource), body, _APPLY, content_type=APPLY_PATCH, allowed=allowed)
        return self._learn(key, _CODEC.decode(await self._count_write(verb, key.kind, call)))

    async def _set_finalizers(self, action: SetFinalizers, allowed: Allowed | None) -> Json:
        key = action.key
        metadata = {"finalizers": list(action.finalizers), "resourceVersion": action.resource_version}
        call = self._client.patch(_path(key), {"metadata": metadata}, allowed=allowed)
        return self._learn(key, _CODEC.decode(await self._count_write("patch", key.kind, call)))

    async def _delete(self, key: ObjectKey, uid: str, allowed: Allowed | None) -> None:
        options = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            await self._count_write("delete", key.kind, self._client.delete(_path(key), options, allowed=allowed))
        except NotFound:
            return

    async def _count_write(self, verb: str, kind: str, call: Awaitable[bytes]) -> bytes:
        outcome = "ok"
        try:
            return await call
        except WriteWithheld:
            outcome = "not_sent"
            raise
        except KubeError as error:
            outcome = str(error.status) if isinstance(error, ApiError) else "no_answer"
            raise
        finally:
            self._metrics.writes.labels(kind, verb, outcome).inc()


def _path(key: ObjectKey, subresource: str | None = None) -> str:
    resource = RESOURCES[key.kind]
    return api_path(
        resource.api_version,
        resource.plural,
        namespace=key.namespace if resource.namespaced else None,
        name=key.name,
        subresource=subresource,
    )
