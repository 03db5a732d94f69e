"""The status of a pod, from the states of its containers. Pure."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from devcluster.node_agent.admission import AdmissionRejection
from devcluster.node_agent.objects import Obj, is_sidecar, timestamp

State = dict[str, Any]
LOST_EXIT_CODE = 137
_RESIZE_PENDING = "PodResizePending"


def waiting(reason: str, message: str = "") -> State:
    """A ContainerState that waits."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def running(started: float) -> State:
    """A ContainerState that runs."""
    return {"running": {"startedAt": timestamp(started)}}


def terminated(code: int, reason: str, message: str, started: float, finished: float, container_id: str) -> State:
    """A ContainerStateTerminated: exit code, reason, message, and start and end as seconds since 1970."""
    state = {
        "exitCode": code,
        "reason": reason,
        "startedAt": timestamp(started),
        "finishedAt": timestamp(finished),
        "containerID": container_id,
    }
    return {"terminated": {**state, **({"message": message} if message else {})}}


@dataclass(slots=True)
class ContainerReport:
    """What the status says of one container."""

    spec: Obj
    state: State = field(default_factory=lambda: waiting("ContainerCreating"))
    last_state: State = field(default_factory=dict)
    restarts: int = 0
    started: bool = False
    ready: bool = False
    container_id: str = ""
    image_id: str = ""
    granted: Obj = field(default_factory=dict)
    """Its resources as they were admitted or last resized; nothing enforces them."""

    @property
    def finished(self) -> dict[str, Any] | None:
        """The terminated state, if the container has ended for now."""
        return self.state.get("terminated")

    def document(self) -> Obj:
        """A v1.ContainerStatus."""
        image = self.spec["image"]
        return {
            "name": self.spec["name"],
            "image": image,
            "imageID": (self.image_id or image) if self.container_id else "",
            "state": self.state,
            "lastState": self.last_state,
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
            "resources": self.granted,
            "allocatedResources": self.granted.get("requests") or {},
            **({"containerID": self.container_id} if self.container_id else {}),
        }


@dataclass(frozen=True, slots=True)
class PodReport:
    """What the status says of the pod as a whole."""

    pod: Obj
    init: Sequence[ContainerReport]
    main: Sequence[ContainerReport]
    host_ip: str
    pod_ip: str
    started: float
    sandbox_ready: bool
    reason: str = ""
    message: str = ""
    resize_pending: AdmissionRejection | None = None


def initialized(facts: PodReport) -> bool:
    """Whether every init container has done its work (a sidecar: has started)."""
    return all(
        _has_started(report) if is_sidecar(report.spec) else (report.finished or {}).get("exitCode") == 0
        for report in facts.init
    )


def _has_started(report: ContainerReport) -> bool:
    return report.started or bool(report.finished or report.last_state)


def phase(facts: PodReport) -> str:
    """The pod's phase, by kubelet's rules (getPhase in kubelet_pods.go)."""
    policy = facts.pod["spec"].get("restartPolicy", "Always")
    if any(
        (r.finished or {}).get("exitCode", 0) != 0 and policy == "Never" for r in facts.init if not is_sidecar(r.spec)
    ):
        return "Failed"
    if not initialized(facts):
        return "Pending"
    ended = [report.finished for report in facts.main]
    if policy != "Always" and all(ended):
        failed = any(state["exitCode"] != 0 for state in ended if state)
        if not failed:
            return "Succeeded"
        if policy == "Never":
            return "Failed"
    if all("waiting" in report.state and not report.last_state for report in facts.main):
        return "Pending"
    return "Running"


def pod_status(facts: PodReport, previous: Mapping[str, Any], now: float) -> Obj:
    """A v1.PodStatus; conditions keep their transition time while their status stays the same."""
    current = phase(facts)
    done = current in ("Succeeded", "Failed")
    unready = [r.spec["name"] for r in facts.main if not r.ready]
    unready += [r.spec["name"] for r in facts.init if is_sidecar(r.spec) and not r.ready]
    containers_ready = not unready and not done
    finished_reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(current, "")
    unready_message = f"containers with unready status: [{' '.join(unready)}]"
    not_ready = (finished_reason or "ContainersNotReady", "" if done else unready_message)
    gate = _missing_gate(facts.pod, previous)
    ready = containers_ready and not gate
    gate_text = ("ReadinessGatesNotReady", f'corresponding condition of pod readiness gate "{gate}" does not exist.')
    setup = initialized(facts)
    incomplete = [r.spec["name"] for r in facts.init if not r.started and not r.finished]
    conditions = [
        _condition("PodReadyToStartContainers", facts.sandbox_ready and not done),
        _condition(
            "Initialized", setup, "ContainersNotInitialized", f"containers with incomplete status: {incomplete}"
        ),
        _condition("Ready", ready, *(gate_text if gate and containers_ready else not_ready)),
        _condition("ContainersReady", containers_ready, *not_ready),
        # The scheduler says so too, but a pod created with nodeName was never scheduled.
        _condition("PodScheduled", True),
    ]
    if facts.resize_pending is not None:
        reason, message = facts.resize_pending.reason, facts.resize_pending.message
        conditions.append({"type": _RESIZE_PENDING, "status": "True", "reason": reason, "message": message})
    # One that was removed by the report before has no status.
    known = {item["type"]: item for item in previous.get("conditions") or [] if "status" in item}
    for condition in conditions:
        old = known.get(condition["type"])
        same = old is not None and old["status"] == condition["status"] and old.get("lastTransitionTime")
        condition["lastTransitionTime"] = old["lastTransitionTime"] if old and same else timestamp(now)
    if facts.resize_pending is None and _RESIZE_PENDING in known:
        conditions.append({"type": _RESIZE_PENDING, "$patch": "delete"})
    status: Obj = {
        "phase": current,
        "conditions": conditions,
        "hostIP": facts.host_ip,
        "hostIPs": [{"ip": facts.host_ip}],
        "startTime": timestamp(facts.started),
        "containerStatuses": [report.document() for report in facts.main],
        # Explicit null clears what an earlier report said.
        "reason": facts.reason or None,
        "message": facts.message or None,
    }
    if facts.init:
        status["initContainerStatuses"] = [report.document() for report in facts.init]
    if facts.pod_ip:
        status |= {"podIP": facts.pod_ip, "podIPs": [{"ip": facts.pod_ip}]}
    return status


def _missing_gate(pod: Obj, previous: Mapping[str, Any]) -> str:
    true = {item["type"] for item in previous.get("conditions") or [] if item.get("status") == "True"}
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or []]
    return next((gate for gate in gates if gate not in true), "")


def _condition(kind: str, holds: bool, reason: str = "", message: str = "") -> Obj:
    condition: Obj = {"type": kind, "status": "True" if holds else "False", "reason": None, "message": None}
    if not holds and reason:
        condition |= {"reason": reason, "message": message or None}
    return condition


def restored_report(container: Obj, statuses: list[Obj] | None, now: float) -> ContainerReport:
    """The report that a restarted agent continues from, made of the statuses that its predecessor left in the API.

    A container that ran when the predecessor ended counts as killed, as with kubelet.
    """
    report = ContainerReport(container)
    old = next((status for status in statuses or [] if status["name"] == container["name"]), None)
    if old is None:
        return report
    report.restarts = old.get("restartCount", 0)
    report.container_id = old.get("containerID", "")
    state = old.get("state") or {}
    if "terminated" in state:
        report.state = copy.deepcopy(state)
    elif "running" in state:
        report.state = {
            "terminated": {
                "exitCode": LOST_EXIT_CODE,
                "reason": "ContainerStatusUnknown",
                "message": "The container could not be located when the node agent started",
                "startedAt": state["running"].get("startedAt"),
                "finishedAt": timestamp(now),
                "containerID": report.container_id,
            }
        }
    else:
        report.last_state = copy.deepcopy(old.get("lastState") or {})
    return report
