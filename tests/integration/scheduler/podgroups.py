"""The stage for PodGroups of scheduling.k8s.io: one API server, the real kube-scheduler and ours, and what each makes
of a scenario."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import requests

from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.integration.scheduler.preemption import daemon_running
from tests.support.kubescheduler import kube_scheduler_running
from tests.support.minors import built_or_skip
from tests.support.waiting import eventually

REAL, OURS = "groups-real", "groups-ours"
NAMESPACE = "groups"
API_VERSION = {"1.36": "scheduling.k8s.io/v1alpha2", "1.37": "scheduling.k8s.io/v1beta1"}
GATES = {
    "1.36": "GenericWorkload=true,GangScheduling=true",
    "1.37": "GenericWorkload=true",
}
TOPOLOGY_GATE = ",TopologyAwareWorkloadScheduling=true"
Json = Any
SERVED = "1.37"
PRIORITIES = {"low": 10, "mid": 50, "high": 100, "never": 100}
_BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"


@dataclass
class Outcome:
    """What became of a scenario: who has a node, in which racks, the others' messages, and the group's condition."""

    placed: list[str] = field(default_factory=list)
    racks: set[str] = field(default_factory=set)
    messages: dict[str, str] = field(default_factory=dict)
    condition: dict[str, str] = field(default_factory=dict)


class Administrator:
    """The API server as the administrator."""

    def __init__(self, plane: ControlPlane, minor: str) -> None:
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = str(plane.layout.pki("ca.crt"))
        self._session.cert = str(plane.layout.pki("admin.crt")), str(plane.layout.pki("admin.key"))
        self._server = plane.api_server
        self.minor = minor
        self.groups = f"/apis/{API_VERSION[minor]}/namespaces/{NAMESPACE}/podgroups"
        self.pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        self.scheduler = REAL
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self._made: set[str] = set()

    def call(self, method: str, path: str, body: Json = None) -> Json:
        """Ask the API server; None for what is not there or is there already."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        response = self._session.request(
            method, f"{self._server}{path}", json=body, headers={"Content-Type": kind}, timeout=30
        )
        if response.status_code in (404, 409):
            return None
        assert response.ok, f"{method} {path}: {response.status_code} {response.text[:500]}"
        return response.json()

    def clear(self) -> None:
        """Take everything off the stage."""
        for path in (self.pods, self.groups):
            self.call("DELETE", path, {"gracePeriodSeconds": 0})
        eventually(lambda: not self.call("GET", self.pods)["items"], "no pod is left")
        # No controller runs here that would remove the finalizer by which a group with pods is protected.
        for group in self.call("GET", self.groups)["items"]:
            self.call("PATCH", f"{self.groups}/{group['metadata']['name']}", {"metadata": {"finalizers": None}})
        eventually(lambda: not self.call("GET", self.groups)["items"], "no group is left")
        self.call("DELETE", "/api/v1/nodes")
        eventually(lambda: not self.call("GET", "/api/v1/nodes")["items"], "no node is left")

    def add_nodes(self, *names: str, cpu: str = "2", **more: str) -> None:
        resources = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        for name in names:
            labels = {"kubernetes.io/hostname": name, **more}
            status = {"allocatable": resources, "capacity": resources}
            self.call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})

    def add_group(self, name: str = "g", minimum: int | None = None, key: str = "", **spec: Any) -> None:
        policy = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
        head = {"apiVersion": API_VERSION[self.minor], "kind": "PodGroup", "metadata": {"name": name}}
        fields = {"schedulingConstraints": {"topology": [{"key": key}]}, **spec} if key else spec
        group = self.call("POST", self.groups, {**head, "spec": {"schedulingPolicy": policy, **fields}})
        assert fields.items() <= group["spec"].items()

    def add_pods(self, *names: str, cpu: str = "1500m", group: str = "g", **spec: Any) -> None:
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
        for name in names:
            pod = self.call(
                "POST",
                self.pods,
                {
                    "metadata": {"name": name},
                    "spec": {
                        "schedulerName": self.scheduler,
                        "containers": containers,
                        "terminationGracePeriodSeconds": 0,
                        **({"schedulingGroup": {"podGroupName": group}} if group else {}),
                        **spec,
                    },
                },
            )
            assert pod["spec"].get("schedulingGroup", {"podGroupName": ""}) == {"podGroupName": group}

    def placed(self) -> list[str]:
        items = self.call("GET", self.pods)["items"]
        return sorted(pod["metadata"]["name"] for pod in items if pod["spec"].get("nodeName"))

    def wait_placed(self, *names: str) -> None:
        """Wait until exactly these pods have nodes."""
        eventually(lambda: self.placed() == sorted(names), f"{self.scheduler}: {names} are placed")

    def wait_messages(self, *names: str) -> None:
        """Wait until these pods have been told why they have no node."""
        eventually(lambda: set(names) <= self.outcome().messages.keys(), f"{self.scheduler}: messages of {names}")

    def wait_condition(self, status: str) -> None:
        """Wait for the group's condition."""
        eventually(lambda: self.outcome().condition.get("status") == status, f"{self.scheduler}: condition {status}")

    def settle(self, group: str, names: Collection[str]) -> None:
        """Wait until the group has its condition, and each of its pods a node or a message."""

        def settled() -> bool:
            outcome = self.outcome()
            known = {*outcome.placed, *outcome.messages}
            return bool(outcome.condition) and known.issuperset(names)

        eventually(settled, f"{self.scheduler}: {group} is tried")

    def outcome(self) -> Outcome:
        result = Outcome()
        for pod in self.call("GET", self.pods)["items"]:
            name = pod["metadata"]["name"]
            if node := pod["spec"].get("nodeName"):
                result.placed.append(name)
                if pod["spec"].get("schedulingGroup"):
                    result.racks.add(node.partition("-")[0])
                continue
            for condition in pod["status"].get("conditions", []):
                if condition["type"] == "PodScheduled" and condition.get("message"):
                    result.messages[name] = condition["message"]
        group = self.call("GET", f"{self.groups}/g")
        for condition in (group or {}).get("status", {}).get("conditions", []):
            kept = ("type", "status", "reason", "message")
            result.condition = {key: condition.get(key, "") for key in kept}
        result.placed.sort()
        return result


class Stage(Administrator):
    """The API server as the administrator, with pods that run already, priorities and budgets."""

    def prepare(self) -> None:
        """Make what every scenario needs."""
        for name, value in PRIORITIES.items():
            policy = "Never" if name == "never" else "PreemptLowerPriority"
            self.call("POST", _CLASSES, {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy})

    def clear(self) -> None:
        """Take everything off the stage."""
        self.call("DELETE", _BUDGETS)
        super().clear()
        self.call("DELETE", _EVENTS)
        self._made.clear()

    def group(self, name: str, mode: str = "", priority: str = "low", minimum: int = 1, key: str = "") -> None:
        """Make a PodGroup that is disrupted in a mode, or as the API server has it by default."""
        spec: Json = {"schedulingPolicy": {"gang": {"minCount": minimum}}, "priorityClassName": priority}
        if mode:
            spec["disruptionMode"] = {mode: {}}
        if key:
            spec["schedulingConstraints"] = {"topology": [{"key": key}]}
        head = {"apiVersion": API_VERSION[SERVED], "kind": "PodGroup", "metadata": {"name": name}}
        answer = self.call("POST", self.groups, {**head, "spec": spec})
        assert answer["spec"]["disruptionMode"] == {mode or "single": {}}

    def run(
        self,
        name: str,
        node: str,
        group: str = "",
        *,
        cpu: str = "1500m",
        priority: str = "low",
        age: int = 100,
        labels: dict[str, str] | None = None,
        grace: int = 0,
        **spec: Json,
    ) -> None:
        """Have a pod run on a node, since so many seconds; nothing ends one that has a grace period."""
        self.make(name, cpu, priority, labels, group, nodeName=node, terminationGracePeriodSeconds=grace, **spec)
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_760_000_000 - age))
        status = {"phase": "Running", "startTime": started}
        self.call("PATCH", f"{self.pods}/{name}/status", {"status": status})

    def come(self, name: str = "preemptor", cpu: str = "1500m", **spec: Json) -> None:
        """Make a pod of high priority."""
        self.make(name, cpu, "high", **spec)

    def make(
        self, name: str, cpu: str, priority: str, labels: dict[str, str] | None = None, group: str = "", **spec: Json
    ) -> None:
        """Make a pod."""
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
        body = {
            "schedulerName": self.scheduler,
            "containers": containers,
            "terminationGracePeriodSeconds": 0,
            "priorityClassName": priority,
            **({"schedulingGroup": {"podGroupName": group}} if group else {}),
            **spec,
        }
        self.call("POST", self.pods, {"metadata": {"name": name, "labels": labels or {}}, "spec": body})
        self._made.add(name)

    def let_go(self, *names: str) -> None:
        """Let pods end at once."""
        for name in names:
            self._made.discard(name)
            self.call("DELETE", f"{self.pods}/{name}", {"gracePeriodSeconds": 0})

    def wait_terminating(self, *names: str) -> None:
        """Wait until exactly these pods are to end."""
        eventually(lambda: self.terminating() == sorted(names), f"{self.scheduler}: {names} are to end")

    def terminating(self) -> list[str]:
        """Return which pods are to end."""
        items = self.call("GET", self.pods)["items"]
        return sorted(pod["metadata"]["name"] for pod in items if pod["metadata"].get("deletionTimestamp"))

    def first_words(self) -> dict[str, str]:
        """Return by pod the first Event that says why it has no node."""
        notes: dict[str, tuple[str, str]] = {}
        for event in self.call("GET", _EVENTS)["items"]:
            if event["reason"] == "FailedScheduling":
                note = event["eventTime"], event["note"]
                name = event["regarding"]["name"]
                notes[name] = min(notes.get(name, note), note)
        return {name: note for name, (_, note) in notes.items()}

    def protect(self, app: str, allowed: int) -> None:
        """Make a PodDisruptionBudget for the pods of an app, as its controller would have filled it in."""
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
        self.call("POST", _BUDGETS, {"metadata": {"name": app}, "spec": spec})
        counts = {"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
        status = {"disruptionsAllowed": allowed, "observedGeneration": 1, **counts}
        self.call("PATCH", f"{_BUDGETS}/{app}/status", {"status": status})

    def wait_preempted(self, name: str = "preemptor") -> None:
        """Wait until a pod has the room that it made."""
        eventually(lambda: name in self.placed(), f"{self.scheduler}: {name} is placed")

    def wait_refused(self, name: str = "preemptor") -> None:
        """Wait until a pod has been told that preemption does not help."""
        eventually(lambda: name in self.outcome().messages, f"{self.scheduler}: {name} has a message")

    def preempted(self) -> set[str]:
        """Return the pods of which an Event says that they were preempted."""
        events = self.call("GET", _EVENTS)["items"]
        return {event["regarding"]["name"] for event in events if event["reason"] == "Preempted"}

    def story(self) -> Json:
        """Return what there is to compare: who is left, where the preemptor is or why not, and the Events."""
        pods = self.call("GET", self.pods)["items"]
        names = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in pods}
        groups = self.call("GET", self.groups)["items"]
        names |= {group["metadata"]["uid"]: group["metadata"]["name"] for group in groups}
        gone = self._made - set(names.values())
        eventually(lambda: gone <= self.preempted(), f"{self.scheduler}: Events of {gone}")
        events = []
        for event in self.call("GET", _EVENTS)["items"]:
            if event["reason"] == "Preempted":
                note = event["note"]
                for uid, name in names.items():
                    note = note.replace(uid, name)
                events.append((event["regarding"]["name"], note))
        return {
            "left": sorted((pod["metadata"]["name"], pod["spec"].get("nodeName", "")) for pod in pods),
            "messages": self.outcome().messages,
            "events": sorted(events),
        }


S = TypeVar("S", bound="Stage")


def configuration(scheduler: str, kubeconfig: Path, minor: str = "") -> str:
    options = {"name": "SecondarySchedulerOptions", "args": {"kubernetesVersion": minor}}
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"schedulerName": scheduler, **({"pluginConfig": [options]} if minor else {})}],
    }
    return json.dumps(content)


@contextmanager
def both_running(
    minor: str,
    feature_gates: str,
    directory: Path,
    make: Callable[[ControlPlane, str], S],
    *,
    has_real: bool = True,
) -> Iterator[S]:
    """Run the newest API server that may be had for a minor, the minor's kube-scheduler, and ours behaving as that."""
    served = min(minor, SERVED)
    built_or_skip(served, "kube-apiserver")
    binary = built_or_skip(minor, "kube-scheduler")["kube-scheduler"]
    gates = f"--feature-gates={feature_gates}"
    with ExitStack() as stack:
        flags = (gates, f"--runtime-config={API_VERSION[served]}=true")
        plane = stack.enter_context(control_plane_running(served, flags))
        stage = make(plane, served)
        stage.prepare()
        kubeconfig = plane.layout.kubeconfig
        real, ours = configuration(REAL, kubeconfig), configuration(OURS, kubeconfig, minor)
        if has_real:
            stack.enter_context(kube_scheduler_running(binary, kubeconfig, directory, real, (gates,)))
        stack.enter_context(daemon_running(directory, ours, ("--secure-port=0", gates)))
        yield stage
