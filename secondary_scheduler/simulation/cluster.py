"""From the objects of snapshot files to the state that decisions are made on, and the pods that wait for one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from msgspec import Raw, Struct

from scheduler.catalog import nearest_kubernetes
from scheduler.framework import LoadReading, PodInfo
from scheduler.helpers import PodReducer, reduce_node
from scheduler.kube.model import (
    NODES,
    PODS,
    RESOURCECLAIMTEMPLATES,
    ClaimMeta,
    Codec,
    DecodeError,
    Namespace,
    ObjectMeta,
    OwnerReference,
    PodResourceClaim,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceVersion,
)
from scheduler.kube.primitives import QuantityError, TimestampError, epoch_seconds, quantity_value
from scheduler.state import WATCHED_KINDS, ClusterState, ObjectStore
from secondary_scheduler.errors import InputError
from secondary_scheduler.nodeload import LOAD_KIND
from secondary_scheduler.simulation.defaults import (
    DEFAULT_CLASS_ANNOTATION,
    NAME_LABEL,
    DefaultingError,
    Defaults,
    RecordedPriorityClass,
    object_uid,
)
from secondary_scheduler.simulation.documents import of_objects
from secondary_scheduler.simulation.objects import NamedObject, RecordedObjects
from secondary_scheduler.simulation.report import InputReport, with_field

_CLAIM = "ResourceClaim"
_OF_POD = "resource.kubernetes.io/pod-claim-name"
_SUFFIX = 5
_MAX_BASE = 63 - _SUFFIX


class ClaimTemplates:
    """The templates of a cluster."""

    def __init__(self) -> None:
        self._templates: dict[tuple[str, str], ResourceClaimTemplate] = {}

    def add(self, template: ResourceClaimTemplate) -> None:
        """Take in a template."""
        self._templates[template.metadata.namespace, template.metadata.name] = template

    def copy(self) -> ClaimTemplates:
        """Return the same templates, to which others can be added apart from these."""
        copied = ClaimTemplates()
        copied._templates = dict(self._templates)
        return copied

    def with_claims(self, pod: PodInfo, objects: ObjectStore) -> PodInfo:
        """Return a pod whose status names a claim for each of its templates; missing claims go into the store.

        Where there is no such template the pod has no claim, as on a cluster.
        """
        named = {entry.partition("=")[0] for entry in pod.claim_names}
        names = list(pod.claim_names)
        for source in pod.spec.claims:
            template = self._templates.get((pod.namespace, source.resource_claim_template_name or ""))
            if source.name in named or template is None:
                continue
            claim = _existing(pod, source, objects)
            if claim is None:
                claim = _claim(pod, source, template)
                objects.upsert(_CLAIM, claim)
            names.append(f"{source.name}={claim.metadata.name}")
        return pod if len(names) == len(named) else msgspec.structs.replace(pod, claim_names=tuple(sorted(names)))


def _existing(pod: PodInfo, source: PodResourceClaim, objects: ObjectStore) -> ResourceClaim | None:
    """Return a claim that the controller has made, and not yet written into the pod's status."""
    for claim in objects.in_namespace(_CLAIM, pod.namespace):
        owner = claim.metadata.controller
        if owner is not None and owner.uid == pod.uid and claim.metadata.annotations.get(_OF_POD) == source.name:
            existing: ResourceClaim = claim
            return existing
    return None


def _claim(pod: PodInfo, source: PodResourceClaim, template: ResourceClaimTemplate) -> ResourceClaim:
    base = f"{pod.name}-{source.name}-"
    # The API server draws the suffix at random.
    name = base[:_MAX_BASE] + object_uid(_CLAIM, pod.namespace, base)[:_SUFFIX]
    owner = OwnerReference(kind="Pod", name=pod.name, uid=pod.uid, api_version="v1", controller=True)
    meta = ClaimMeta(
        name=name,
        namespace=pod.namespace,
        uid=object_uid(_CLAIM, pod.namespace, name),
        resource_version=ResourceVersion("1"),
        labels=template.spec.metadata.labels,
        annotations={**template.spec.metadata.annotations, _OF_POD: source.name},
        owner_references=(owner,),
    )
    return ResourceClaim(meta, template.spec.spec)


_TOO_LARGE = "holds a number that no Kubernetes object can hold"
_CODECS: Mapping[str, Codec[Any]] = {watched.kind: watched.codec for watched in WATCHED_KINDS.values()}


class _PriorityClass(Struct, rename="camel"):
    value: int = 0
    global_default: bool | None = None
    preemption_policy: str | None = None


class _NodeTime(Struct, rename="camel"):
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class _NodeTimes(Struct):
    class Status(Struct):
        conditions: list[_NodeTime] | None = None

    status: Status | None = None


class _Scheduling(Struct):
    class Spec(Struct, rename="camel"):
        node_name: Any = None
        scheduler_name: Any = None

    spec: Spec | None = None


_scheduling = msgspec.json.Decoder(_Scheduling)
_priority_class = msgspec.json.Decoder(_PriorityClass)
_node_times = msgspec.json.Decoder(_NodeTimes)


@dataclass(frozen=True, slots=True)
class UndecidablePod:
    """A pod of one of the profiles that cannot be decoded, so that nothing can be decided about it."""

    key: str
    scheduler_name: str
    reason: str


@dataclass(slots=True)
class SimulatedCluster:
    """What the files hold.

    Attributes:
        pending: pods without a node whose scheduler is one of ours, in the order of the files; added ones last.
        newest: the newest time in the snapshot, seconds since the epoch; NaN when there is none.
        load: the load that came with the snapshot.
        pods: how many the files hold.
        minor: minor version of the cluster's Kubernetes 1.x; None where the files do not say.
        others: pending pods of other schedulers, by the scheduler's name; nothing is decided about them.
        taken_off: pods as they were on their nodes, where they are to be decided anew; they are pending, too.
        templates: of pods' claims.
    """

    state: ClusterState
    pending: list[PodInfo] = field(default_factory=list)
    undecidable: list[UndecidablePod] = field(default_factory=list)
    newest: float = math.nan
    load: LoadReading | None = None
    pods: int = 0
    minor: int | None = None
    others: Counter[str] = field(default_factory=Counter)
    taken_off: list[PodInfo] = field(default_factory=list)
    templates: ClaimTemplates = field(default_factory=ClaimTemplates)


@dataclass(frozen=True, slots=True)
class PodSelection:
    """Whose pods are decided.

    Attributes:
        scheduler_names: the profiles; their pods without a node are pending.
        taken_over: other schedulers whose pods are decided too, each with the one of `scheduler_names` that does so.
        anew: schedulers whose pods are taken off their nodes first. A pod that is being deleted stays where it is, and
            so does one that its kubelet made from a file.
    """

    scheduler_names: Collection[str]
    taken_over: Mapping[str, str] = field(default_factory=dict)
    anew: Collection[str] = ()


def build_cluster(
    objects: RecordedObjects, report: InputReport, selection: PodSelection, state: ClusterState | None = None
) -> SimulatedCluster:
    """Build a cluster from objects; what is wrong with them is reported each time.

    Raises:
        InputError: the pod that is named apart from the snapshot has a node, or no profile.
    """
    return _ClusterBuilder(objects, report, selection, ClusterState() if state is None else state).build()


class _ClusterBuilder:
    def __init__(
        self, objects: RecordedObjects, report: InputReport, selection: PodSelection, state: ClusterState
    ) -> None:
        self._objects = objects
        self._report = report
        self._selection = selection
        self._newest = math.nan
        self._defaults = Defaults()
        self._cluster = SimulatedCluster(state)

    def build(self) -> SimulatedCluster:
        """Put everything into the state: what others depend on first."""
        self._read_classes()
        self._read_load()
        self._cluster.minor = self._objects.minor
        for kind, codec in _CODECS.items():
            for obj in self._objects.of(kind):
                item = self._decode(obj, codec)
                if item is not None:
                    self._cluster.state.objects.upsert(kind, item)
                    self._note_times(item.metadata.creation_timestamp)
        for obj in self._objects.of("Node"):
            self._node(obj)
        self._pods()
        self._cluster.newest = self._newest
        if self._objects.ignored_kinds:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self._objects.ignored_kinds.items()))
            self._report.warn(f"not read, as no decision depends on them: {kinds}")
        for text in of_objects(self._objects.old_group, self._objects.workloads):
            self._report.warn(text)
        return self._cluster

    def _read_classes(self) -> None:
        for obj in self._objects.of("PriorityClass"):
            try:
                decoded = _priority_class.decode(obj.entry.data)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                self._report.leave_out(obj.entry.place, obj.title, with_field(error))
                continue
            policy = decoded.preemption_policy or "PreemptLowerPriority"
            self._defaults.priority_classes[obj.name] = RecordedPriorityClass(
                obj.name, decoded.value, bool(decoded.global_default), policy
            )
        # Read once more below, as objects: here only the mark counts. The newest of several wins.
        marked = []
        for obj in self._objects.of("StorageClass"):
            try:
                meta = _CODECS["StorageClass"].decode(obj.entry.data).metadata
            except DecodeError:
                continue
            if meta.annotations.get(DEFAULT_CLASS_ANNOTATION) == "true":
                marked.append((meta.creation_timestamp, obj.name))
        if marked:
            newest = max(created for created, _ in marked)
            self._defaults.default_storage_class = min(name for created, name in marked if created == newest)

    def _read_load(self) -> None:
        for obj in self._objects.of(LOAD_KIND):
            self._cluster.load = read_load(bytes(obj.entry.data), str(obj.entry.place), self._report)

    def _node(self, obj: NamedObject) -> None:
        node = self._decode(obj, NODES)
        if node is None:
            return
        try:
            info = reduce_node(node)
        except ValueError as error:
            self._report.warn(f"{obj.entry.place}, {obj.title}: {_with_field_path(obj.entry.data, error)}; left out")
            return
        self._cluster.state.upsert_node(info)
        self._note_times(node.metadata.creation_timestamp)
        times = _node_times.decode(obj.entry.data) if b"lastHeartbeatTime" in bytes(obj.entry.data) else None
        for condition in (times.status.conditions or ()) if times is not None and times.status is not None else ():
            self._note_times(condition.last_heartbeat_time, condition.last_transition_time)

    def _pods(self) -> None:
        reducer = pod_reducer(self._cluster.minor)
        state, pending = self._cluster.state, self._cluster.pending
        for obj in self._objects.of("ResourceClaimTemplate"):
            template = self._decode(obj, RESOURCECLAIMTEMPLATES)
            if template is not None:
                self._cluster.templates.add(template)
        namespaces: set[str] = set()
        for obj in self._objects.of("Pod"):
            namespaces.add(obj.namespace)
            self._cluster.pods += 1
            requested = obj is self._objects.requested
            info = self._pod(obj, reducer, requested=requested)
            if info is None or info.terminal:
                continue
            if info.node_name:
                if requested:
                    raise InputError(f"--pod {obj.entry.place.file}: the pod has a node already; clear spec.nodeName")
                if not self._is_decided_anew(info):
                    # It was seen by everybody when it was bound, not just now.
                    state.upsert_pod(info, observed_at=info.assigned_at)
                    continue
                self._cluster.taken_off.append(info)
                info = without_node(info)
            if info.scheduler_name in self._selection.scheduler_names:
                if info.nominated_node:
                    state.nominator.set(info, info.nominated_node)
                pending.append(self._cluster.templates.with_claims(info, state.objects))
            else:
                self._cluster.others[info.scheduler_name] += 1
        self._add_implied_namespaces(namespaces)

    def _is_decided_anew(self, pod: PodInfo) -> bool:
        return pod.scheduler_name in self._selection.anew and not pod.deleting and not is_static(pod)

    def _pod(self, obj: NamedObject, reducer: PodReducer, *, requested: bool) -> PodInfo | None:
        try:
            pod = self._decode(obj, PODS, requested=requested)
            if pod is None:
                return None
            info = reducer.reduce(pod)
        except ValueError as error:
            reason = _with_field_path(obj.entry.data, error)
            self._report.warn(f"{obj.entry.place}, {obj.title}: {reason}; left out")
            self._record_undecidable(obj, reason, requested=requested)
            return None
        self._note_times(pod.metadata.creation_timestamp, pod.status.start_time)
        self._note_times(*(condition.last_transition_time for condition in pod.status.conditions))
        taken_over = self._selection.taken_over
        if info.scheduler_name in taken_over and (not info.node_name or self._selection.anew):
            info = msgspec.structs.replace(info, scheduler_name=taken_over[info.scheduler_name])
        if requested and info.scheduler_name not in self._selection.scheduler_names:
            info = msgspec.structs.replace(info, scheduler_name=self._only_profile(obj, info.scheduler_name))
        return info

    def _only_profile(self, obj: NamedObject, scheduler_name: str) -> str:
        names = list(self._selection.scheduler_names)
        if len(names) == 1:
            return names[0]
        raise InputError(
            f"--pod {obj.entry.place.file}: spec.schedulerName: {scheduler_name} is no profile of the configuration: "
            f"it has {', '.join(names)}"
        )

    def _decode(self, obj: NamedObject, codec: Codec[Any], *, requested: bool = False) -> Any | None:
        """Return the typed object with its defaults; None when it is reported as invalid.

        Raises:
            ValueError: the form is right, but the API server would refuse a value.
        """
        entry = obj.entry
        if entry.problem:
            self._leave_out(obj, entry.problem, requested=requested)
            return None
        try:
            item = codec.decode(entry.data)
            if not obj.uid:
                item = codec.decode(self._with_defaults(obj))
        except (DecodeError, OverflowError) as error:
            reason = with_field(error) if isinstance(error, DecodeError) else _TOO_LARGE
            self._leave_out(obj, reason, requested=requested)
            return None
        return item

    def _leave_out(self, obj: NamedObject, reason: str, *, requested: bool) -> None:
        self._report.leave_out(obj.entry.place, obj.title, reason)
        if obj.entry.kind == "Pod":
            self._record_undecidable(obj, reason, requested=requested)

    def _with_defaults(self, obj: NamedObject) -> bytes:
        data = msgspec.json.decode(obj.entry.data)
        meta = data["metadata"]
        meta["name"] = obj.name
        if obj.namespace:
            meta["namespace"] = obj.namespace
        return msgspec.json.encode(self._defaults.apply(obj.entry.kind, data))

    def _record_undecidable(self, obj: NamedObject, reason: str, *, requested: bool) -> None:
        """Record a pod that one of our profiles would have decided, as far as its invalid content shows that."""
        # Only this much: a number that no object can hold may stand elsewhere.
        try:
            spec = _scheduling.decode(obj.entry.data).spec
        except msgspec.MsgspecError:
            return
        if spec is None or spec.node_name:
            return
        name = spec.scheduler_name or "default-scheduler"
        names = self._selection.scheduler_names
        if requested and len(names) == 1:
            name = next(iter(names))
        name = self._selection.taken_over.get(name, name) if isinstance(name, str) else name
        if isinstance(name, str) and name in names:
            self._cluster.undecidable.append(UndecidablePod(f"{obj.namespace}/{obj.name}", name, reason))

    def _add_implied_namespaces(self, names: Iterable[str]) -> None:
        """Add the namespaces of pods that no document declares."""
        objects = self._cluster.state.objects
        for name in sorted(names):
            if objects.get("Namespace", "", name) is None:
                meta = ObjectMeta(name=name, uid=object_uid("Namespace", "", name), labels={NAME_LABEL: name})
                objects.upsert("Namespace", Namespace(meta))

    def _note_times(self, *times: str | None) -> None:
        for text in times:
            if text:
                try:
                    seconds = epoch_seconds(text)
                except TimestampError:
                    continue
                if not seconds <= self._newest:
                    self._newest = seconds


def pod_reducer(minor: int | None) -> PodReducer:
    """Return what reduces the pods of a cluster of that minor version."""
    return PodReducer() if minor is None else PodReducer(nearest_kubernetes(minor))


def is_static(pod: PodInfo) -> bool:
    """Tell whether a kubelet made a pod from a file; no scheduler decides about it."""
    return pod.controller is not None and pod.controller.kind == "Node"


def without_node(pod: PodInfo) -> PodInfo:
    """Return a pod as if it had never been bound. What it claims (volumes, devices) stays bound to it."""
    return msgspec.structs.replace(
        pod,
        node_name="",
        nominated_node="",
        assigned_at=math.nan,
        started_at=math.nan,
        conditions=(),
        phase="Pending",
    )


def _with_field_path(data: bytes | Raw, error: ValueError) -> str:
    """Put the field in front of a complaint about a quantity, which does not know where it stood."""
    text = str(error)
    if isinstance(error, DefaultingError) or not isinstance(error, QuantityError):
        return text
    for path, amount in _quantities(msgspec.json.decode(data)):
        try:
            quantity_value(amount)
        except QuantityError as invalid:
            return f"{path}: {invalid}"
    return text


def _quantities(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    spec, status = data.get("spec") or {}, data.get("status") or {}
    for field_name in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field_name) or ()):
            yield from _amounts(f"spec.{field_name}[{index}].resources", container.get("resources"))
    yield from _amounts("spec.resources", spec.get("resources"))
    yield from _amounts("spec", spec, fields=("overhead",))
    yield from _amounts("status", status, fields=("allocatable", "capacity"))
    for field_name in ("initContainerStatuses", "containerStatuses"):
        for index, container in enumerate(status.get(field_name) or ()):
            at = f"status.{field_name}[{index}]"
            yield from _amounts(f"{at}.resources", container.get("resources"))
            yield from _amounts(at, container, fields=("allocatedResources",))


def _amounts(
    path: str, parent: Mapping[str, Any] | None, fields: tuple[str, ...] = ("requests", "limits")
) -> Iterator[tuple[str, Any]]:
    for name in fields:
        for resource, amount in ((parent or {}).get(name) or {}).items():
            yield f"{path}.{name}[{resource}]", amount


def read_load(data: bytes, place: str, report: InputReport) -> LoadReading:
    """Read an answer. One without a timestamp has no age, and counts as fresh at any time that is simulated.

    Raises:
        InputError: it is not JSON, or a field has the wrong type; begins with `place`.
    """
    # Imported here: most simulations read no load.
    from scheduler.load import LoadError, parse_watcher

    try:
        reading = parse_watcher(data, place)
    except LoadError as error:
        raise InputError(str(error)) from error
    if reading.rejected:
        report.warn(f"{place}: values that cannot be a load left out: {reading.left_out}")
    times = [load.measured_at for load in reading.loads.values() if not math.isnan(load.measured_at)]
    return replace(reading, answered_at=max(times, default=0.0))
