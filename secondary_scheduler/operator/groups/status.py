"""One loop for both kinds: objects and pods come in by watches, what a pure function makes of them goes out.

What the status of an ElasticQuota should be (elasticquota_controller.go of scheduler-plugins 0.34.7).

It is what the running pods of the namespace request together, counted as the scheduler counts it: with sidecars,
resources of the pod as a whole, resizes in place, and the overhead that upstream adds up and drops.

What the status of a PodGroup should be (pkg/controllers/podgroup_controller.go of scheduler-plugins 0.34.7).

One step at a time, as upstream: the change that a step makes brings the next one. Upstream counts the pods of all
namespaces that name a group like this one; here a group counts those of its own.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import structlog

from scheduler.kube.client import (
    ApiError,
    Conflict,
    Forbidden,
    KubeClient,
    KubeError,
    NotFound,
    Reflector,
    WriteWithheld,
    api_path,
    unchanged,
)
from scheduler.kube.model import (
    ELASTICQUOTAS,
    POD_GROUP_LABEL,
    PODGROUPS,
    PODS,
    Codec,
    ElasticQuota,
    Object,
    Pod,
    PodGroup,
    PodGroupStatus,
    ResourceList,
    add_amounts,
    amount_text,
    effective_quota,
    pod_requests,
)
from scheduler.kube.primitives import QuantityError, TimestampError, epoch_seconds, quantity_milli_value, quantity_value
from secondary_scheduler.operator.groups.objects import ObjectSink, PodSink, ReducedPod, identity
from secondary_scheduler.operator.metrics import OperatorMetrics
from secondary_scheduler.operator.queue import WorkQueue

PENDING, SCHEDULING, RUNNING = "Pending", "Scheduling", "Running"
FINISHED, FAILED = "Finished", "Failed"
TERMINAL = frozenset({FINISHED, FAILED})
GIVE_UP_AFTER = 48 * 3600.0
"""Seconds between a group's creation and the time it says its scheduling began. Nothing writes that time any more; a
group that has it from an older controller is left alone as before."""


class Member(NamedTuple):
    """What counts of a pod that names a group; `owners` are the names of its owners."""

    name: str
    namespace: str
    created: str
    phase: str
    owners: tuple[str, ...]

    @classmethod
    def of(cls, pod: Pod) -> "Member":
        """Return what counts of a pod."""
        meta = pod.metadata
        owners = tuple(owner.name for owner in meta.owner_references)
        return cls(meta.name, meta.namespace, meta.creation_timestamp, pod.status.phase, owners)


def is_overdue(group: PodGroup) -> bool:
    """Tell whether a group was waiting for so long that its pods may have been collected as garbage."""
    status = group.status
    if status.phase not in (SCHEDULING, PENDING) or status.running or not status.schedule_start_time:
        return False
    try:
        waited = epoch_seconds(status.schedule_start_time) - epoch_seconds(group.metadata.creation_timestamp)
    except TimestampError:
        return False
    return waited > GIVE_UP_AFTER


def next_status(group: PodGroup, members: Sequence[Member]) -> PodGroupStatus:
    """Return the status after one step; the same one where there is nothing to change."""
    status, min_member = group.status, group.spec.min_member
    if status.phase in TERMINAL or is_overdue(group):
        return status
    if not status.phase:
        return _with(status, phase=PENDING)
    if status.phase == PENDING:
        if len(members) < min_member:
            return status
        return _with(status, phase=SCHEDULING, occupied_by=_occupied_by(members) or status.occupied_by)
    counts = {phase: sum(member.phase == phase for member in members) for phase in ("Running", "Succeeded", "Failed")}
    running, succeeded, failed = counts.values()
    return _with(
        status,
        phase=_phase(len(members), running, succeeded, failed, min_member),
        running=running,
        succeeded=succeeded,
        failed=failed,
    )


def _phase(members: int, running: int, succeeded: int, failed: int, min_member: int) -> str:
    if members < min_member:
        return PENDING
    if succeeded >= min_member:
        return FINISHED
    if failed and failed + running + succeeded >= min_member:
        return FAILED
    return RUNNING if succeeded + running >= min_member else SCHEDULING


def _occupied_by(members: Sequence[Member]) -> str:
    """Name the owners of the oldest pod; upstream takes the first one of a list in no order."""
    if not members:
        return ""
    oldest = min(members, key=lambda member: (member.created, member.name))
    return ",".join(sorted(f"{oldest.namespace}/{owner}" for owner in oldest.owners))


def patch_of(before: PodGroupStatus, after: PodGroupStatus) -> dict[str, Any]:
    """Return the fields that differ, as they stand in the object."""
    names = {"occupied_by": "occupiedBy"}
    return {
        names.get(field, field): getattr(after, field)
        for field in ("phase", "occupied_by", "running", "succeeded", "failed")
        if getattr(after, field) != getattr(before, field)
    }


def _with(status: PodGroupStatus, **changes: object) -> PodGroupStatus:
    return msgspec.structs.replace(status, **changes)


Amounts = Mapping[str, int]
"""CPU in milli-units, everything else in whole units."""


def requests_of(pod: Pod) -> dict[str, int]:
    """Return what a pod occupies.

    Raises:
        QuantityError: an amount cannot be read.
    """
    return pod_requests(pod, use_status=True).requests


def used_of(quota: ElasticQuota, pods: Iterable[Amounts]) -> dict[str, int]:
    """Return what the running pods of a quota's namespace use; resources the quota names are there even when nobody
    uses them."""
    used = dict.fromkeys([*(quota.spec.min or {}), *(quota.spec.max or {})], 0)
    for amounts in pods:
        add_amounts(used, amounts)
    return used


def is_reported(quota: ElasticQuota, used: Amounts) -> bool:
    """Tell whether a quota's status says this, in whatever notation."""
    try:
        return dict(_read(quota.status.used)) == used
    except QuantityError:
        return False


def resource_list(used: Amounts) -> dict[str, str]:
    """Return amounts as they stand in an object."""
    return {name: amount_text(name, amount) for name, amount in sorted(used.items())}


def _read(amounts: ResourceList) -> Iterator[tuple[str, int]]:
    for name, amount in amounts.items():
        yield name, quantity_milli_value(amount) if name == "cpu" else quantity_value(amount)


O = TypeVar("O", bound=Object)  # noqa: E741 -- an object
P = TypeVar("P")

API_VERSION = "scheduling.x-k8s.io/v1alpha1"
_CHECK_SECONDS = 0.5
"""Seconds between looks at whether pods are of interest, and at what the watches say."""

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class StatusKind(Generic[O, P]):
    """How the controllers of PodGroups and ElasticQuotas differ.

    Attributes:
        kind, plural, codec: of the objects.
        label_selector, field_selector: which pods matter.
        reduce: what is kept of such a pod; it raises ValueError for one that cannot be read.
        group_of: the name of the group that a pod belongs to within its namespace.
        chosen: which of a namespace's objects of a group is kept up to date, if any.
        group: the group of an object.
        status: the fields of the status to change, given the object and its pods; none when all is well.
        spacing: least seconds between two writes to one object.
    """

    kind: str
    plural: str
    codec: Codec[O]
    label_selector: str = ""
    field_selector: str = ""
    reduce: Callable[[Pod], P]
    group_of: Callable[[Pod], str]
    group: Callable[[O], str]
    select: Callable[[Iterable[O]], O | None]
    status: Callable[[O, Collection[P]], dict[str, Any]]
    spacing: float


def _first(objects: Iterable[O]) -> O | None:
    return next(iter(objects), None)


def _group_status(group: PodGroup, members: Collection[Member]) -> dict[str, Any]:
    if is_overdue(group):
        log.warning("waiting for more than 48 hours: the status stays as it is", podgroup=group.metadata.key)
    return patch_of(group.status, next_status(group, list(members)))


def _quota_status(quota: ElasticQuota, pods: Collection[Amounts]) -> dict[str, Any]:
    used = used_of(quota, pods)
    if is_reported(quota, used):
        return {}
    removed = dict.fromkeys(quota.status.used.keys() - used.keys())
    return {"used": {**removed, **resource_list(used)}}


POD_GROUPS = StatusKind(
    kind="PodGroup",
    plural="podgroups",
    codec=PODGROUPS,
    label_selector=POD_GROUP_LABEL,
    reduce=Member.of,
    group_of=lambda pod: pod.metadata.labels.get(POD_GROUP_LABEL, ""),
    group=lambda group: group.metadata.name,
    select=_first,
    status=_group_status,
    spacing=0.05,
)
ELASTIC_QUOTAS = StatusKind(
    kind="ElasticQuota",
    plural="elasticquotas",
    codec=ELASTICQUOTAS,
    field_selector="status.phase=Running",
    reduce=requests_of,
    group_of=lambda pod: "",
    group=lambda quota: "",
    select=effective_quota,
    status=_quota_status,
    # Each write counts all pods of a namespace.
    spacing=0.5,
)
KINDS: dict[str, StatusKind[Any, Any]] = {kind.plural: kind for kind in (POD_GROUPS, ELASTIC_QUOTAS)}
"""By the plural that switches them on."""


class StatusController(Generic[O, P]):
    """Keeps the status of the objects of one kind, in all namespaces; waits for its CRD where there is none."""

    def __init__(
        self,
        client: KubeClient,
        kind: StatusKind[O, P],
        metrics: OperatorMetrics,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        """`leads` says whether this operator holds its Lease at this moment; it is asked right before each write."""
        self._client = client
        self._leads = leads
        self._kind = kind
        self._metrics = metrics
        self._queue: WorkQueue[tuple[str, str]] = WorkQueue(spacing=kind.spacing)
        self._objects: ObjectSink[O] = ObjectSink(kind.group, self._queue.add)
        self._pods: PodSink[P] = PodSink(self._queue.add)
        path = api_path(API_VERSION, kind.plural)
        self._watch: Reflector[O, O] = Reflector(client, path, kind.codec, self._objects, unchanged, optional=True)
        self._watch_pods: Reflector[Pod, ReducedPod[P]] | None = None
        self._last_warning = ""

    @property
    def name(self) -> str:
        """What this keeps up to date."""
        return self._kind.plural

    def reflectors(self) -> dict[str, Reflector[Any, Any]]:
        """What lists and watches for this, by what it lists."""
        watches: dict[str, Reflector[Any, Any]] = {self.name: self._watch}
        if self._watch_pods is not None:
            watches[f"pods for {self.name}"] = self._watch_pods
        return watches

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch.run(), name=f"watch {self.name}")
            group.create_task(self._follow_pods(), name=f"watch pods for {self.name}")
            group.create_task(self._work(), name=f"status of {self.name}")

    async def _follow_pods(self) -> None:
        """Watch pods as long as there is an object that they matter to."""
        while True:
            await self._until(lambda: len(self._objects) > 0)
            watch = self._watch_pods = self._pod_watch()
            async with asyncio.TaskGroup() as group:
                task = group.create_task(watch.run(), name=f"pods for {self.name}")
                await self._until(watch.synced.is_set)
                # Until then nothing was known of the pods, and nothing was written.
                self._objects.each(self._queue.add)
                log.info("following pods", for_status_of=self.name)
                await self._until(lambda: not len(self._objects))
                task.cancel()
            self._watch_pods = None
            self._pods.clear()

    def _pod_watch(self) -> Reflector[Pod, ReducedPod[P]]:
        kind = self._kind
        return Reflector(
            self._client,
            api_path("v1", "pods"),
            PODS,
            self._pods,
            lambda pod: ReducedPod(identity(pod.metadata), kind.group_of(pod), kind.reduce(pod)),
            label_selector=kind.label_selector,
            field_selector=kind.field_selector,
        )

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._log_watch_errors()
            await asyncio.sleep(_CHECK_SECONDS)

    def _log_watch_errors(self) -> None:
        """Log once why the objects cannot be read; a CRD that is not installed is no error."""
        states = [self._watch.state]
        if self._watch_pods is not None:
            states.append(self._watch_pods.state)
        errors = [state.error for state in states if state.error is not None and not state.absent]
        text = "; ".join(str(error) for error in errors if isinstance(error, ApiError))
        if text and text != self._last_warning:
            log.warning("cannot keep a status up to date", of=self.name, error=text)
        self._last_warning = text

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            if self._watch_pods is None or not self._watch_pods.state.synced:
                continue
            try:
                await self.reconcile(key)
            except KubeError as error:
                delay = self._queue.retry(key)
                level = 30 if isinstance(error, Forbidden) else 20
                log.log(level, "status not written", of=self.name, group=key, error=str(error), retry_in_seconds=delay)
            except Exception:
                # A defect with one object must not keep the others from being served.
                delay = self._queue.retry(key)
                log.exception("status failed", of=self.name, group=key, retry_in_seconds=delay)

    async def reconcile(self, key: tuple[str, str]) -> None:
        """Bring the status of one object up to date, if need be.

        Raises:
            KubeError: it cannot be written.
        """
        obj = self._kind.select(self._objects.of(*key))
        if obj is None:
            self._queue.forget(key)
            return
        fields = self._kind.status(obj, self._pods.of(*key))
        if not fields:
            self._queue.forget(key)
            return
        meta = obj.metadata
        body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": fields,
        }
        path = api_path(API_VERSION, self.name, namespace=meta.namespace, name=meta.name, subresource="status")
        outcome = "ok"
        try:
            answer = await self._client.patch(path, body, allowed=self._leads)
        except (NotFound, Conflict):
            # The watch brings what it is now.
            outcome = "conflict"
            return
        except WriteWithheld:
            outcome = "not_sent"
            raise
        except KubeError as error:
            outcome = str(error.status) if isinstance(error, ApiError) else "no_answer"
            raise
        finally:
            self._metrics.writes.labels(self._kind.kind, "patch_status", outcome).inc()
        self._queue.forget(key)
        # Our own change, which brings the next step.
        self._objects.record_answer(self._kind.codec.decode(answer))
        log.info("status", of=self.name, object=meta.key, **{name: str(value) for name, value in fields.items()})


def status_controllers(
    client: KubeClient, min_member: Collection[str], metrics: OperatorMetrics, leads: Callable[[], bool] = lambda: True
) -> list[StatusController[Any, Any]]:
    """Return the controllers of the kinds that are wanted, by plural."""
    return [StatusController(client, kind, metrics, leads) for plural, kind in KINDS.items() if plural in min_member]
