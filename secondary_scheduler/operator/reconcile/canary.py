"""The canary: a scheduler of its own that proves a revision by binding one pod before the real one takes it over.

It has its own labels, Lease and profile names, so that it places only its own test pod.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from scheduler import operand
from scheduler.catalog import CANARY_SUFFIX
from scheduler.config import (
    DEFAULT_SCHEDULER_NAME,
    ConfigurationError,
    SecondarySchedulerSpec,
    configuration_hash,
    read_document,
    render,
)
from secondary_scheduler.operator.reconcile import names
from secondary_scheduler.operator.reconcile.configuration import mounted_config_map
from secondary_scheduler.operator.reconcile.deployment import canary_deployment
from secondary_scheduler.operator.reconcile.model import Delete, Json, ObjectKey, Observed
from secondary_scheduler.operator.reconcile.objects import new_object
from secondary_scheduler.operator.reconcile.revision import Revision, Run, read_run
from secondary_scheduler.operator.reconcile.workload import assess_rollout, permanent_failure, pod_problem_text, pods_of


class CanaryConfiguration(NamedTuple):
    """A configuration whose profiles have names of their own."""

    text: str
    hash: str
    scheduler_name: str
    """Of the first profile."""


@dataclass(frozen=True)
class Assessment:
    """How far a canary is."""

    ready: bool = False
    proven: bool = False
    failure: str = ""
    """Why it will never be proven; empty if it still may."""
    stage: str = ""


@lru_cache(maxsize=16)
def canary_configuration(text: str) -> CanaryConfiguration | None:
    """The configuration with every profile's name changed; None if it is not one that has profiles."""
    try:
        data = read_document(text, "configuration").data
    except ConfigurationError:
        return None
    if not isinstance(data, dict):
        return None
    profiles = data.get("profiles") or [{}]
    if not isinstance(profiles, list) or not all(isinstance(profile, dict) for profile in profiles):
        return None
    own = [
        {**profile, "schedulerName": f"{profile.get('schedulerName') or DEFAULT_SCHEDULER_NAME}{CANARY_SUFFIX}"}
        for profile in profiles
    ]
    written = render({**data, "profiles": own})
    return CanaryConfiguration(written, configuration_hash(written), own[0]["schedulerName"])


def current_run(observed: Observed, revision: Revision) -> Run | None:
    """Since when there is a canary of the revision; None if there is none."""
    live = observed.get("Deployment", observed.names.canary)
    run = read_run(live, names.ANNOTATION_REVISION)
    return run if run is not None and run.revision == revision else None


def assess(observed: Observed, run: Run) -> Assessment:
    """Look at the canary, its pods, its Lease and the pod that it has to bind."""
    canary_name = observed.names.canary
    probe = observed.get("Pod", observed.names.probe(run.revision.key))
    if probe is not None and (probe.get("spec") or {}).get("nodeName"):
        return Assessment(ready=True, proven=True)
    pods = [
        pod
        for pod in pods_of(observed, canary_name)
        if (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_REVISION) == attempt_mark(run)
    ]
    failure = permanent_failure(pods)
    if failure:
        return Assessment(failure=failure)
    if current_run(observed, run.revision) != run:
        return Assessment(stage="it is being created")
    rollout = assess_rollout(observed, canary_name)
    if not rollout.complete:
        return Assessment(stage=next(filter(None, map(pod_problem_text, pods)), "it is not ready"))
    if not rollout.settled:
        return Assessment(stage=f"it is ready, and {rollout.missing}")
    if probe is None:
        return Assessment(ready=True, stage="it is ready; its test pod is being created")
    problem = pod_problem_text(probe)
    return Assessment(ready=True, stage=f"it has not bound its test pod{': ' if problem else ''}{problem}")


def attempt_mark(run: Run) -> str:
    """Marks the canary's pods, so that those of an earlier attempt at the same revision do not count."""
    return f"{run.revision.key}@{run.at.isoformat()}"


def objects(observed: Observed, spec: SecondarySchedulerSpec, run: Run, text: str, *, probe: bool) -> Iterator[Json]:
    """What makes up the canary; `text` is the configuration to prove."""
    own = canary_configuration(text)
    assert own is not None, "decided only for what can be renamed"
    labels = observed.names.canary_labels
    copy = observed.names.canary_config_map(run.revision.configuration)
    yield new_object(observed, "ConfigMap", copy, labels, data={names.CONFIG_KEY: own.text}, immutable=True)
    yield canary_deployment(observed, spec, run, own.hash, attempt_mark(run))
    name = observed.names.probe(run.revision.key)
    # Never applied twice: what admission adds to a pod cannot be taken away again.
    if probe and observed.get("Pod", name) is None:
        yield _probe(observed, spec, run.revision, name, own.scheduler_name)


def _probe(
    observed: Observed, spec: SecondarySchedulerSpec, revision: Revision, name: str, scheduler_name: str
) -> Json:
    """A pod without requests that any node takes. Being bound is all that it is for."""
    labels = {**observed.names.labels, names.LABEL_APP: f"{observed.names.canary}-probe"}
    command = [*(revision.command or revision.flavour.command), "--version"]
    content = {
        "schedulerName": scheduler_name,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
        "securityContext": operand.pod_security(openshift=observed.openshift),
        "containers": [
            {
                "name": "probe",
                "image": revision.image,
                "command": command,
                "securityContext": operand.CONTAINER_SECURITY,
            }
        ],
        **({"imagePullSecrets": spec.image_pull_secrets} if spec.image_pull_secrets else {}),
    }
    return new_object(observed, "Pod", name, labels, spec=content)


def exists(observed: Observed) -> bool:
    """Whether anything of a canary is there that uses its Lease or its rights."""
    canary_name = observed.names.canary
    objects_in_use = (observed.get(kind, canary_name) for kind in ("Deployment", "Lease"))
    return any(objects_in_use) or bool(pods_of(observed, canary_name))


def leftovers(observed: Observed, keep: Run | None) -> Iterator[Delete]:
    """Delete what canaries other than `keep` left behind; the Lease goes last, when no pod can hold it any more."""
    canary_name = observed.names.canary
    pods = pods_of(observed, canary_name)
    live = observed.get("Deployment", canary_name)
    unneeded = [] if keep is not None or live is None else [live]
    wanted_probe = observed.names.probe(keep.revision.key) if keep is not None else ""
    probes = (pod for pod in pods_of(observed, f"{canary_name}-probe") if pod["metadata"]["name"] != wanted_probe)
    mounted = {mounted_config_map(workload) for workload in (*pods, *([live] if live is not None else []))}
    mounted.add(observed.names.canary_config_map(keep.revision.configuration) if keep is not None else None)
    maps = (copy for copy in config_maps(observed) if copy["metadata"]["name"] not in mounted)
    lease = observed.get("Lease", canary_name)
    free = lease is not None and keep is None and live is None and not pods
    for obj in (*unneeded, *probes, *maps, *([lease] if free and lease is not None else [])):
        if not obj["metadata"].get("deletionTimestamp"):
            yield Delete(ObjectKey.of(obj), str(obj["metadata"]["uid"]), "no canary needs it any more")


def config_maps(observed: Observed) -> Iterable[Json]:
    """The ConfigMaps of canaries."""
    return [
        config_map
        for config_map in observed.of_kind("ConfigMap")
        if observed.names.owns(config_map)
        and config_map["metadata"]["labels"].get(names.LABEL_APP) == observed.names.canary
    ]
