"""The objects of snapshot files, sorted by kind and not decoded yet: what a cluster is built from, more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from scheduler.catalog import minor_of
from scheduler.state import WATCHED_KINDS, watched_kind
from secondary_scheduler.errors import InputError
from secondary_scheduler.nodeload import CONFIGURATION_KIND, LOAD_KIND, VERSION_KIND
from secondary_scheduler.simulation.documents import OLD_GROUP, WORKLOADS, Entry, no_pods_of, read_entries
from secondary_scheduler.simulation.report import InputReport, ObjectPlace, with_field

_CLUSTER_WIDE = frozenset(
    {
        "Node",
        "NodeResourceTopology",
        "Namespace",
        "PersistentVolume",
        "StorageClass",
        "CSINode",
        "CSIDriver",
        "VolumeAttachment",
        "PriorityClass",
        "ResourceSlice",
        "DeviceClass",
        "DeviceTaintRule",
        LOAD_KIND,
        VERSION_KIND,
    }
)
_GROUPS: Mapping[str, str] = {
    "Node": "",
    "Pod": "",
    "ResourceClaimTemplate": "resource.k8s.io",
    # For `rebalance`; no decision depends on them.
    "Deployment": "apps",
    "PodMetrics": "metrics.k8s.io",
    "PriorityClass": "scheduling.k8s.io",
    LOAD_KIND: "secondary-scheduler.io",
    VERSION_KIND: "secondary-scheduler.io",
    CONFIGURATION_KIND: "secondary-scheduler.io",
    **{watched.kind: watch.api_version.rpartition("/")[0] for watch, watched in WATCHED_KINDS.items()},
}
"""API group of every kind that is read."""


class _NamedMeta(Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    generate_name: str | None = None


class _NamedIdentity(Struct):
    metadata: _NamedMeta | None = None


class _ClusterVersion(Struct, rename="camel"):
    git_version: str = ""


_identity = msgspec.json.Decoder(_NamedIdentity)
_cluster_version = msgspec.json.Decoder(_ClusterVersion)


class NamedObject(NamedTuple):
    """An object that has a name; `uid` is "" where it was never created."""

    entry: Entry
    namespace: str
    name: str
    uid: str

    @property
    def title(self) -> str:
        """Kind and name, as messages show them."""
        return f"{self.entry.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.entry.kind} {self.name}"


class RecordedObjects:
    """The objects of a snapshot, by kind; what is wrong with one is reported when it is added.

    Attributes:
        ignored_kinds: objects of kinds that no decision depends on, counted.
        old_group: titles of those of the group that scheduler-plugins had up to 0.24.
        workloads: titles of what controllers make pods of, if no cluster has made it.
        requested: the pod that an option named apart from the snapshot.
        minor: minor version of the cluster's Kubernetes 1.x; None where the files do not say.
    """

    def __init__(self, report: InputReport) -> None:
        self._report = report
        self._objects: dict[str, dict[tuple[str, str], NamedObject]] = {}
        self._generated = 0
        self.ignored_kinds: Counter[str] = Counter()
        self.old_group: list[str] = []
        self.workloads: list[str] = []
        self.requested: NamedObject | None = None
        self.minor: int | None = None

    def of(self, kind: str) -> Collection[NamedObject]:
        """Return the objects of a kind in the order of the files."""
        return self._objects.get(kind, {}).values()

    def add(self, entries: Iterable[Entry]) -> None:
        """Sort objects by kind; of two with the same name the later one counts."""
        for read in entries:
            group = read.api_version.rpartition("/")[0]
            entry = read._replace(kind=watched_kind(read.api_version, read.kind))
            if _GROUPS.get(entry.kind) != group:
                self._ignore(entry, group)
                continue
            obj = self._identify(entry)
            if obj is not None and WORKLOADS.get(entry.kind) == group and not obj.uid:
                self.workloads.append(obj.title)
            if obj is not None and entry.problem and entry.kind != "Pod":
                self._report.leave_out(entry.place, obj.title, entry.problem)
            elif obj is not None:
                self._store(obj)
                if entry.kind == VERSION_KIND:
                    self._read_version(entry)

    def add_documents(self, source: str, documents: Iterable[tuple[str, str, bytes]]) -> None:
        """Add objects that were read from somewhere else than a file: apiVersion, kind and JSON of each."""
        self.add(
            Entry(ObjectPlace(source, number), api_version, kind, data)
            for number, (api_version, kind, data) in enumerate(documents, 1)
        )

    def _ignore(self, entry: Entry, group: str) -> None:
        workload = WORKLOADS.get(entry.kind) == group
        obj = self._identify(entry) if workload or group == OLD_GROUP else None
        if obj is not None and group == OLD_GROUP:
            self.old_group.append(obj.title)
        elif obj is not None and not obj.uid:
            self.workloads.append(obj.title)
        else:
            self.ignored_kinds[entry.kind] += 1

    def add_pod(self, file: str) -> None:
        """Take in the only object of a file, a pod, as the one that is `requested`; it replaces one of the same name.

        Raises:
            InputError: there is another number of objects, or it is not a pod.
        """
        entries = list(read_entries(file, self._report))
        if len(entries) != 1 or (entries[0].kind, entries[0].api_version) != ("Pod", "v1"):
            kinds = ", ".join(entry.kind for entry in entries) or "nothing usable"
            workloads = [entry.kind for entry in entries if entry.kind in WORKLOADS]
            reason = f"; {no_pods_of(workloads)}" if workloads else ""
            raise InputError(f"--pod {file}: holds {kinds}; it takes one Pod of apiVersion v1{reason}")
        obj = self._identify(entries[0])
        if obj is None:
            raise InputError(f"--pod {file}: the pod cannot be used")
        self._store(obj)
        # Last in file order, also where it replaces one.
        pods = self._objects["Pod"]
        pods[obj.namespace, obj.name] = pods.pop((obj.namespace, obj.name))
        self.requested = obj

    def _read_version(self, entry: Entry) -> None:
        try:
            self.minor = minor_of(_cluster_version.decode(entry.data).git_version)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._report.leave_out(entry.place, entry.kind, with_field(error))

    def _store(self, obj: NamedObject) -> None:
        objects = self._objects.setdefault(obj.entry.kind, {})
        key = (obj.namespace, obj.name)
        if key in objects:
            self._report.warn(f"{obj.entry.place}: {obj.title} replaces the one of {objects[key].entry.place}")
        objects[key] = obj

    def _identify(self, entry: Entry) -> NamedObject | None:
        try:
            meta = _identity.decode(entry.data).metadata or _NamedMeta()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._report.leave_out(entry.place, entry.kind, with_field(error))
            return None
        name = meta.name or ""
        if not name and meta.generate_name and not meta.uid:
            self._generated += 1
            name = f"{meta.generate_name}{self._generated:05d}"
        if not name and entry.kind != LOAD_KIND:
            self._report.leave_out(entry.place, entry.kind, "metadata.name: is missing")
            return None
        namespace = "" if entry.kind in _CLUSTER_WIDE else meta.namespace or "default"
        return NamedObject(entry, namespace, name, meta.uid or "")


def read_recorded(files: Iterable[str], report: InputReport, *, pod_file: str | None = None) -> RecordedObjects:
    """Read snapshot files.

    Args:
        files: paths; `-` is stdin.
        report: gets what is left out, and why.
        pod_file: holds one more pod.

    Raises:
        InputError: a file cannot be read at all, or `pod_file` does not hold one pod.
    """
    objects = RecordedObjects(report)
    for file in files:
        objects.add(read_entries(file, report))
    if pod_file is not None:
        objects.add_pod(pod_file)
    return objects
