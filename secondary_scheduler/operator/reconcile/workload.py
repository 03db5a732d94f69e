"""What the live Deployment, its pods and its Lease say about the scheduler."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scheduler.config import image_flavour
from secondary_scheduler.operator.reconcile import names
from secondary_scheduler.operator.reconcile.configuration import InstanceProblem
from secondary_scheduler.operator.reconcile.model import Json, Observed, is_terminating
from secondary_scheduler.operator.reconcile.revision import read_run

MESSAGE_LIMIT = 600
"""Characters of a foreign message (a registry's, a dying process's) that a condition repeats."""

_IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_PERMANENT_IMAGE_REASONS = _IMAGE_REASONS - {"ErrImagePull"}
_STARTING_REASONS = frozenset({"", "ContainerCreating", "PodInitializing"})


@dataclass(frozen=True)
class Rollout:
    """State of the live Deployment."""

    exists: bool = False
    desired: int = 0
    updated: int = 0
    ready: int = 0
    available: int = 0
    total: int = 0
    observed_current: bool = False
    """Whether these numbers are about the current generation."""
    generation: int = 0
    template_hash: str = ""
    reports: bool = False
    """Whether the image is this project's scheduler, which reports its configuration's hash."""
    reported_hash: str = ""
    """What the scheduler that holds the Lease says it runs; empty if it does not say."""
    leads: bool = False
    """Whether one of its pods holds the Lease."""

    @property
    def complete(self) -> bool:
        """Whether every replica runs the current template and no other is left."""
        counts = {self.updated, self.available, self.total}
        return self.exists and self.observed_current and counts == {self.desired}

    @property
    def missing(self) -> str:
        """In words, what a complete one still lacks to be settled."""
        if not self.reports:
            return "none of its pods holds the Lease"
        report = f"reports configuration {self.reported_hash}" if self.reported_hash else "reports none"
        return f"the leading scheduler {report}, not {self.template_hash}"

    @property
    def settled(self) -> bool:
        """Complete, and a scheduler leads that runs what the template says: ours confirms it, other images cannot."""
        return self.complete and (self.reported_hash == self.template_hash if self.reports else self.leads)


def assess_rollout(observed: Observed, name: str = "") -> Rollout:
    """Read the status of the scheduler's Deployment and Lease, or of those of that name."""
    name = name or observed.names.operand
    live = observed.get("Deployment", name)
    if live is None:
        return Rollout()
    spec, status = live["spec"], live.get("status") or {}
    generation = int(live["metadata"].get("generation", 0))
    annotations = spec["template"]["metadata"].get("annotations") or {}
    return Rollout(
        exists=True,
        desired=int(spec.get("replicas", 1)),
        updated=int(status.get("updatedReplicas", 0)),
        ready=int(status.get("readyReplicas", 0)),
        available=int(status.get("availableReplicas", 0)),
        total=int(status.get("replicas", 0)),
        observed_current=int(status.get("observedGeneration", 0)) >= generation,
        generation=generation,
        template_hash=str(annotations.get(names.ANNOTATION_CONFIGURATION_HASH, "")),
        reports=_reports(live),
        reported_hash=lease_annotations(observed, name).get(names.ANNOTATION_CONFIGURATION_HASH, ""),
        leads=_holds_lease(observed, name),
    )


def _reports(live: Json) -> bool:
    image = str(live["spec"]["template"]["spec"]["containers"][0].get("image", ""))
    run = read_run(live, names.ANNOTATION_REVISION)
    # An image that a user wrote into the Deployment belongs to no revision.
    return image_flavour(image, run.revision.flavour_name if run and run.revision.image == image else "").is_ours


def _holds_lease(observed: Observed, name: str) -> bool:
    """Whether a pod with this label `app` holds the Lease of that name; client-go's identity begins with the pod's."""
    lease = observed.get("Lease", name)
    holder = str(((lease or {}).get("spec") or {}).get("holderIdentity") or "").partition("_")[0]
    return any(pod["metadata"]["name"] == holder and not is_terminating(pod) for pod in pods_of(observed, name))


def lease_annotations(observed: Observed, name: str = "") -> dict[str, str]:
    """What the scheduler reports about itself on its Lease, or on that of this name."""
    lease = observed.get("Lease", name or observed.names.operand)
    return dict(lease["metadata"].get("annotations") or {}) if lease else {}


def scheduler_pods(observed: Observed) -> list[Json]:
    """The scheduler's pods, also those that this operator did not create."""
    return pods_of(observed, observed.names.operand)


def pods_of(observed: Observed, app: str) -> list[Json]:
    """The pods with this label `app`."""
    return [pod for pod in observed.of_kind("Pod") if (pod["metadata"].get("labels") or {}).get(names.LABEL_APP) == app]


def permanent_failure(pods: Iterable[Json]) -> str:
    """A message if one of the pods will never run, however long the operator waits; empty if all of them may.

    That is an image that was refused repeatedly, or a process that failed again after a restart.
    """
    for pod in pods:
        if pod["metadata"].get("deletionTimestamp"):
            continue
        for container in (pod.get("status") or {}).get("containerStatuses") or []:
            waiting = ((container.get("state") or {}).get("waiting") or {}).get("reason", "")
            problem = _container_problem(pod["metadata"]["name"], container)
            crashed = problem is not None and problem.reason == "SchedulerCrashing"
            if problem and (
                waiting in _PERMANENT_IMAGE_REASONS or (crashed and int(container.get("restartCount", 0)) > 0)
            ):
                return problem.message
    return ""


def pod_problem_text(pod: Json) -> str:
    """A message about what is wrong with a pod at the moment; empty if nothing is known."""
    problem = _pod_problem(pod)
    return problem.message if problem is not None else ""


def workload_problems(observed: Observed) -> Iterator[InstanceProblem]:
    """Why the scheduler does not run: what its pods say, or what its Deployment says where there are no pods."""
    problems = list(_pod_problems(observed))
    yield from problems
    live = observed.get("Deployment", observed.names.operand)
    for condition in ((live or {}).get("status") or {}).get("conditions") or []:
        message = _shorten(condition.get("message", ""))
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            yield InstanceProblem(
                "PodsRefused", f"Pods of Deployment {observed.names.operand} cannot be created: {message}"
            )
        elif condition.get("reason") == "ProgressDeadlineExceeded" and not problems:
            yield InstanceProblem("RolloutStuck", f"Deployment {observed.names.operand}: {message}")


def _pod_problems(observed: Observed) -> Iterator[InstanceProblem]:
    """One problem per kind of trouble; the newest pod speaks."""
    seen: set[str] = set()
    pods = sorted(scheduler_pods(observed), key=lambda p: str(p["metadata"].get("creationTimestamp", "")), reverse=True)
    for pod in pods:
        # What has ended for good (an evicted pod, say) has been replaced and waits for nothing but its removal.
        ended = (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")
        problem = None if ended or pod["metadata"].get("deletionTimestamp") else _pod_problem(pod)
        if problem is not None and problem.reason not in seen:
            seen.add(problem.reason)
            yield problem


def _pod_problem(pod: Json) -> InstanceProblem | None:
    name = pod["metadata"]["name"]
    status = pod.get("status") or {}
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return InstanceProblem(
                "SchedulerNotPlaced", f"Pod {name} cannot be scheduled: {_shorten(condition.get('message', ''))}"
            )
    for container in status.get("containerStatuses") or []:
        problem = _container_problem(name, container)
        if problem is not None:
            return problem
    return None


def _container_problem(pod: str, container: Json) -> InstanceProblem | None:
    if container.get("ready"):
        return None
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    reason, detail = str(waiting.get("reason", "")), _shorten(waiting.get("message", ""))
    image = container.get("image", "")
    if reason in _IMAGE_REASONS:
        return InstanceProblem(
            "ImageNotPulled",
            f"Pod {pod}: image {image} cannot be pulled: {detail or reason}; check spec.schedulerImage",
        )
    # While it waits for its next start, the reason for its last end is what helps; it is the same between the two.
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
    if ended and int(ended.get("exitCode", 0)) != 0:
        last_words = _shorten(ended.get("message", "")) or ended.get("reason", "no message")
        return InstanceProblem(
            "SchedulerCrashing", f"Pod {pod}: the scheduler exited with code {ended['exitCode']}: {last_words}"
        )
    if reason in _STARTING_REASONS:
        return None
    return InstanceProblem("ContainerNotStarting", f"Pod {pod}: {reason}: {detail}")


def _shorten(text: str) -> str:
    flat = " ".join(str(text).split())
    return flat if len(flat) <= MESSAGE_LIMIT else "… " + flat[-MESSAGE_LIMIT:]
