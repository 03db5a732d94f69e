"""Which objects of a namespace belong to an operator or a scheduler. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scheduler.operand import CONFIG_KEY, CONFIG_VOLUME
from secondary_scheduler.cli.bundle.keeping import OWN_ANNOTATIONS, OWN_DOMAIN, PROGRAMS
from secondary_scheduler.clusterstatus.customresource import KIND
from secondary_scheduler.clusterstatus.listing import part, parts

Json = dict[str, Any]


def own_deployments(deployments: Iterable[Json]) -> list[Json]:
    """Those that run an operator or a scheduler, or that an operator made for one."""
    return [
        deployment
        for deployment in deployments
        if _runs_ours(part(deployment, "spec", "template"))
        or _is_owned(deployment, {KIND}, set())
        or _has_own_label(deployment)
    ]


def owned_by(objects: Iterable[Json], owners: Iterable[Json]) -> list[Json]:
    """Objects that one of the owners controls, or that run ours where the owners could not be read."""
    uids = {uid_of(owner) for owner in owners}
    return [
        candidate
        for candidate in objects
        if _is_owned(candidate, set(), uids) or _runs_ours(candidate) or _runs_ours(part(candidate, "spec", "template"))
    ]


def own_leases(leases: Iterable[Json], deployments: Iterable[Json]) -> list[Json]:
    """Leases that a scheduler of ours has written to, or that are called as a Deployment or as an operator's are."""
    names = {name_of(deployment) for deployment in deployments}
    return [
        lease
        for lease in leases
        if OWN_ANNOTATIONS & part(lease, "metadata", "annotations").keys()
        or name_of(lease) in names
        or name_of(lease).removesuffix("-lock") in names
        or name_of(lease).endswith("secondary-scheduler-operator-lock")
    ]


def events_about(events: Iterable[Json], objects: Iterable[Json]) -> list[Json]:
    """Events about objects that the bundle has, by uid or, where the object was replaced, by kind and name."""
    known = list(objects)
    uids = {uid_of(each) for each in known} - {""}
    names = {(str(each.get("kind")), name_of(each)) for each in known}

    def is_about(event: Json) -> bool:
        about = part(event, "involvedObject")
        return str(about.get("uid")) in uids or (str(about.get("kind")), str(about.get("name"))) in names

    return sorted((event for event in events if is_about(event)), key=_time_of)


def configuration_names(schedulers: Iterable[Json], workloads: Iterable[Json]) -> list[str]:
    """The ConfigMaps with a scheduler's configuration: those that are named, and those that are mounted."""
    named = (part(scheduler, "spec").get("schedulerConfig") for scheduler in schedulers)
    mounted = (name for workload in workloads for name in _mounted(workload))
    return sorted({name for name in (*named, *mounted) if isinstance(name, str) and name})


def containers_of(pod: Json) -> list[str]:
    """The names of a pod's containers, init containers first."""
    listed = (*parts(pod, "spec", "initContainers"), *parts(pod, "spec", "containers"))
    return [str(container.get("name")) for container in listed]


def restarted(pod: Json) -> set[str]:
    """The containers of a pod that have run before."""
    statuses = (*parts(pod, "status", "initContainerStatuses"), *parts(pod, "status", "containerStatuses"))
    return {str(status.get("name")) for status in statuses if status.get("restartCount") or part(status, "lastState")}


def name_of(manifest: Mapping[str, Any]) -> str:
    """An object's name; empty where it has none."""
    return str(part(manifest, "metadata").get("name") or "")


def uid_of(manifest: Mapping[str, Any]) -> str:
    """An object's uid; empty where it has none."""
    return str(part(manifest, "metadata").get("uid") or "")


def _mounted(workload: Json) -> Iterator[Any]:
    for spec in (part(workload, "spec", "template", "spec"), part(workload, "spec")):
        for volume in parts(spec, "volumes"):
            keys = {str(item.get("key")) for item in parts(volume, "configMap", "items")}
            if volume.get("name") == CONFIG_VOLUME or CONFIG_KEY in keys:
                yield part(volume, "configMap").get("name")


def _runs_ours(template: Json) -> bool:
    for container in parts(template, "spec", "containers"):
        # Upstream's operator has its name in the first argument of its command, too.
        words = [*_list(container.get("command")), *_list(container.get("args"))][:1]
        if any(str(word).rpartition("/")[2] in PROGRAMS for word in words):
            return True
    return False


def _is_owned(manifest: Json, kinds: set[str], uids: set[str]) -> bool:
    owners = parts(manifest, "metadata", "ownerReferences")
    return any(str(owner.get("kind")) in kinds or str(owner.get("uid") or "-") in uids for owner in owners)


def _has_own_label(manifest: Json) -> bool:
    return any(key.startswith(f"{OWN_DOMAIN}instance") for key in part(manifest, "metadata", "labels"))


def _time_of(event: Json) -> str:
    times = (event.get("lastTimestamp"), event.get("eventTime"), part(event, "metadata").get("creationTimestamp"))
    return next((str(time) for time in times if time), "")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
