"""Objects as the API server would send them, and a world in which a plan takes effect."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from scheduler.config import configuration_hash, flavour_of
from secondary_scheduler.operator.reconcile import (
    AppliedRecord,
    Apply,
    Delete,
    ObjectKey,
    Observed,
    ReconcilePlan,
    SetFinalizers,
    digest,
    fingerprint,
    reconcile,
)
from secondary_scheduler.operator.reconcile.names import RESOURCES

NS = "openshift-secondary-scheduler-operator"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
IMAGE = "localhost/secondary-scheduler/kube-scheduler:0.1.0"
FOREIGN_IMAGE = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7"

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins:
    score:
      enabled:
      - name: TargetLoadPacking
        weight: 3
  pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: "https://prometheus:9090"}}
"""
OTHER_CONFIG = CONFIG.replace("weight: 3", "weight: 5")
BAD_CONFIG = CONFIG.replace("schedulerName: secondary-scheduler", "schedulerName: secondary-scheduler\n  colour: blue")
HASH = configuration_hash(CONFIG)
OTHER_HASH = configuration_hash(OTHER_CONFIG)


def scheduler(**spec: Any) -> dict[str, Any]:
    """A SecondaryScheduler with the usual spec; None removes a key."""
    full = {"managementState": "Managed", "schedulerConfig": "config", "schedulerImage": IMAGE, **spec}
    return {
        "apiVersion": "operator.openshift.io/v1",
        "kind": "SecondaryScheduler",
        "metadata": {
            "name": "cluster",
            "namespace": NS,
            "uid": "cr-uid",
            "resourceVersion": "10",
            "generation": 1,
            "finalizers": ["secondary-scheduler.io/cleanup"],
        },
        "spec": {key: value for key, value in full.items() if value is not None},
    }


def config_map(text: str | None = CONFIG, name: str = "config") -> dict[str, Any]:
    data = {"config.yaml": text} if text is not None else {"other": ""}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NS, "uid": f"uid-{name}"},
        "data": data,
    }


def secret(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NS, "uid": f"uid-{name}"}}


def lease(**annotations: str) -> dict[str, Any]:
    full = {f"secondary-scheduler.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": "secondary-scheduler", "namespace": NS, "uid": "lease-uid", "annotations": full}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}


def pod(status: dict[str, Any], name: str = "secondary-scheduler-abc", mounts: str = "") -> dict[str, Any]:
    volumes = [{"name": "etckubernetes", "configMap": {"name": mounts}}] if mounts else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NS, "uid": name, "labels": {"app": "secondary-scheduler"}},
        "spec": {"volumes": volumes},
        "status": status,
    }


def container_status(**fields: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "secondary-scheduler", "image": IMAGE, "ready": False, **fields}]}


def node(name: str, *, ready: bool = True, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": spec,
        "status": {"conditions": conditions},
    }


def key_of(kind: str, name: str) -> ObjectKey:
    return ObjectKey(kind, NS if RESOURCES[kind].namespaced else "", name)


class Instance:
    """What the API server holds; `settle` reconciles and carries out until nothing is left to do."""

    def __init__(self, resource: dict[str, Any], *objects: dict[str, Any], **observed: Any) -> None:
        self.resource = resource
        self.objects = {ObjectKey.of(obj): obj for obj in objects}
        self.applied: dict[ObjectKey, AppliedRecord] = {}
        self.observed_fields = {"unserved": frozenset({"ServiceMonitor", "APIServer"}), **observed}
        self.now = NOW
        self.events: list[tuple[str, str]] = []
        self.writes: list[tuple[str, str]] = []
        self._uid = 0

    def observe(self) -> Observed:
        return Observed(
            resource=self.resource,
            now=self.now,
            version="0.1.0",
            objects=dict(self.objects),
            applied=dict(self.applied),
            **self.observed_fields,
        )

    def put(self, *objects: dict[str, Any]) -> None:
        for obj in objects:
            self.objects[ObjectKey.of(obj)] = obj

    def drop(self, kind: str, name: str) -> None:
        del self.objects[key_of(kind, name)]

    def get(self, kind: str, name: str) -> dict[str, Any]:
        return self.objects[key_of(kind, name)]

    def names(self, kind: str) -> set[str]:
        return {key.name for key in self.objects if key.kind == kind}

    def plan(self) -> ReconcilePlan:
        return reconcile(self.observe())

    def settle(self) -> ReconcilePlan:
        """Returns the last plan, which writes nothing."""
        for _ in range(10):
            plan = self.plan()
            self.execute(plan)
            if not plan.actions and plan.status is None:
                return plan
        raise AssertionError(f"still writing after ten rounds: {plan}")

    def execute(self, plan: ReconcilePlan, killed_after: int | None = None) -> None:
        """`killed_after`: the operator ends after so many writes, the status not written."""
        for done, action in enumerate(plan.actions):
            if done == killed_after:
                break
            match action:
                case Apply(body=body):
                    self.writes.append(("apply", str(action.key.kind)))
                    self._apply(body)
                case Delete(key=key, uid=uid):
                    assert self.objects[key]["metadata"]["uid"] == uid
                    self.writes.append(("delete", str(key.kind)))
                    del self.objects[key]
                case SetFinalizers(finalizers=finalizers):
                    self.writes.append(("finalizers", "SecondaryScheduler"))
                    metadata = {**self.resource["metadata"], "finalizers": list(finalizers)}
                    self.resource = {**self.resource, "metadata": metadata}
        if plan.status is not None and killed_after is None:
            self.resource = {**self.resource, "status": plan.status}
            self._says_one_thing()
            self.events += [(event.reason, event.message) for event in plan.events]

    def _apply(self, body: dict[str, Any]) -> None:
        key = ObjectKey.of(body)
        live = copy.deepcopy(body)
        before = self.objects.get(key)
        self._uid += 1
        live["metadata"]["uid"] = before["metadata"]["uid"] if before else f"uid-{self._uid}"
        if key.kind == "Deployment":
            changed = before is None or before["spec"] != body["spec"]
            live["metadata"]["generation"] = (before["metadata"]["generation"] if before else 0) + changed
            live["status"] = before["status"] if before else {}
        self.objects[key] = live
        self.applied[key] = AppliedRecord(digest(body), fingerprint(live))

    def roll_out(self, *, report: bool = True, operand: str = "secondary-scheduler", leads: bool = True) -> None:
        """The Deployment's pods become ready, and the scheduler reports its configuration, or a foreign one leads."""
        deployment = copy.deepcopy(self.get("Deployment", operand))
        replicas = deployment["spec"]["replicas"]
        counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), replicas)
        deployment["status"] = {"observedGeneration": deployment["metadata"]["generation"], **counts}
        self.put(deployment)
        template = deployment["spec"]["template"]
        if not flavour_of(template["spec"]["containers"][0]["image"]).is_ours:
            running = pod({"phase": "Running"}, f"{operand}-abc")
            running["metadata"] |= {"labels": {"app": operand}, "annotations": template["metadata"]["annotations"]}
            held = lease()
            held["metadata"]["name"] = operand
            held["spec"]["holderIdentity"] = f"{operand}-{'abc' if leads else 'gone'}_0f3c"
            self.put(running, held)
        elif report:
            annotations = deployment["spec"]["template"]["metadata"]["annotations"]
            reported = lease(configuration_hash=annotations["secondary-scheduler.io/configuration-hash"])
            reported["metadata"]["name"] = operand
            self.put(reported)

    def prove(self, *, bind: bool = True) -> None:
        """The canary runs, and binds the pod that it is given."""
        self.roll_out(operand="secondary-scheduler-canary")
        self.settle()
        (name,) = (name for name in self.names("Pod") if name.startswith("secondary-scheduler-canary-probe-"))
        probe = self.get("Pod", name)
        self.put({**probe, "spec": {**probe["spec"], **({"nodeName": "n1"} if bind else {})}})

    def start(self) -> "Instance":
        """From nothing to a running scheduler."""
        return self.start_named("secondary-scheduler")

    def start_named(self, operand: str) -> "Instance":
        """The same, for an instance whose scheduler has another name."""
        self.settle()
        self.roll_out(operand=operand)
        self.settle()
        self.writes.clear()
        self.events.clear()
        return self

    def _says_one_thing(self) -> None:
        """A rollout in progress is one for the condition, too: who waits for it judges the outcome when it ends."""
        outcome = self.resource["status"].get("lastRollout", {}).get("outcome")
        if outcome == "InProgress" and self.resource["spec"].get("managementState", "Managed") == "Managed":
            assert self.condition("Progressing")[0] == "True", self.resource["status"]

    def condition(self, condition_type: str) -> tuple[str, str, str]:
        """Status, reason and message, from the status as written."""
        for condition in self.resource["status"]["conditions"]:
            if condition["type"] == condition_type:
                return condition["status"], condition["reason"], condition["message"]
        raise AssertionError(f"no condition {condition_type}")

    def edit(self, **spec: Any) -> None:
        metadata = {**self.resource["metadata"], "generation": self.resource["metadata"]["generation"] + 1}
        self.resource = {**self.resource, "metadata": metadata, "spec": {**self.resource["spec"], **spec}}

    def delete(self) -> None:
        metadata = {**self.resource["metadata"], "deletionTimestamp": self.now.strftime("%Y-%m-%dT%H:%M:%SZ")}
        self.resource = {**self.resource, "metadata": metadata}

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
