"""The health gate: whether the scheduler that a stack installed is up, has its configuration and places a pod.

What is read: the Deployment's roll-out, the status of the SecondaryScheduler or, where there is none, the annotations
of the scheduler's own Lease. What is done: one pod per scheduler name, without requests and allowed on any node, is
made and deleted as soon as it is bound.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.catalog import ANNOTATION_CONFIGURATION_HASH, ANNOTATION_LOAD_FRESH, ANNOTATION_LOAD_MESSAGE, reads_load
from scheduler.config import flavour_of
from scheduler.kube.client import KubeError, NotFound, SyncConnection, api_path
from secondary_scheduler.cli.fleet.events import one_line
from secondary_scheduler.cli.fleet.results import GateCheck
from secondary_scheduler.kubeobjects import KubeObject

NAMESPACE = "openshift-secondary-scheduler-operator"
NAME = "secondary-scheduler"
POD_LABELS = {"app": "secondary-scheduler-fleet-gate", "app.kubernetes.io/managed-by": "secondary-scheduler-fleet"}
_RESOURCE = ("operator.openshift.io/v1", "secondaryschedulers", "cluster")
_POLL_SECONDS = 0.5
_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@dataclass(frozen=True)
class ExpectedScheduler:
    """What the gate expects of a healthy stack.

    Attributes:
        namespace: of the scheduler's Deployment.
        deployment: its name.
        hashes: of the configurations, one of which must be reported; empty: any will do.
        scheduler_names: each must place a pod.
        reports: whether the image can report configuration and load; the Go ones cannot.
        reads_load: whether it has to report fresh load data.
    """

    namespace: str = NAMESPACE
    deployment: str = NAME
    hashes: frozenset[str] = frozenset()
    scheduler_names: Sequence[str] = (NAME,)
    reports: bool = True
    reads_load: bool = False


@dataclass(frozen=True)
class GateResult:
    """The checks at the moment when the gate passed, timed out or was cancelled."""

    checks: Sequence[GateCheck]
    cancelled: bool = False

    @property
    def passed(self) -> bool:
        """Whether every check passed and the gate was not cancelled."""
        return not self.cancelled and all(check.passed for check in self.checks)

    @property
    def reason(self) -> str:
        """One line about the checks that failed."""
        return "; ".join(f"{check.name}: {check.detail}" for check in self.checks if not check.passed)


class HealthGate:
    """The gate of one stack."""

    def __init__(
        self,
        cluster: SyncConnection,
        expected: ExpectedScheduler,
        stopping: threading.Event,
        poll: float = _POLL_SECONDS,
    ) -> None:
        self._cluster = cluster
        self._expected = expected
        self._stopping = stopping
        self._poll = poll
        self._image = ""
        self._executable = "/bin/kube-scheduler"
        self._pull_secrets: list[KubeObject] = []

    def wait(self, seconds: float) -> GateResult:
        """Wait at most `seconds` for a healthy scheduler that places a pod."""
        deadline = time.monotonic() + seconds
        while True:
            checks = self._state()
            if all(check.passed for check in checks) or time.monotonic() >= deadline:
                break
            if self._stopping.wait(self._poll):
                return GateResult(checks, cancelled=True)
        if all(check.passed for check in checks):
            for name in self._expected.scheduler_names:
                checks.append(self._place_pod(name, deadline))
        return GateResult(checks, cancelled=self._stopping.is_set())

    def _state(self) -> list[GateCheck]:
        try:
            deployment = self._read("apps/v1", "deployments", self._expected.deployment)
            resource = self._read(*_RESOURCE)
            lease = self._read("coordination.k8s.io/v1", "leases", self._expected.deployment)
        except KubeError as error:
            return [GateCheck("cluster", False, one_line(str(error)))]
        checks = [self._deployment(deployment)]
        status = (resource or {}).get("status") or {}
        conditions = {condition.get("type"): condition for condition in status.get("conditions") or ()}
        # Upstream's operator writes none of these.
        if "Available" in conditions:
            checks += [_condition(conditions, "Available", "True"), _condition(conditions, "Degraded", "False")]
        annotations = ((lease or {}).get("metadata") or {}).get("annotations") or {}
        checks.append(
            self._configuration(
                str(status.get("configurationHash") or annotations.get(ANNOTATION_CONFIGURATION_HASH) or "")
            )
        )
        if self._expected.reports and self._expected.reads_load:
            checks.append(_load(conditions.get("LoadDataFresh"), annotations))
        return checks

    def _read(self, api_version: str, resource: str, name: str) -> KubeObject | None:
        path = api_path(api_version, resource, namespace=self._expected.namespace, name=name)
        try:
            content: KubeObject = json.loads(self._cluster.get(path))
        except NotFound:
            return None
        return content

    def _deployment(self, deployment: KubeObject | None) -> GateCheck:
        name = f"Deployment {self._expected.deployment}"
        if deployment is None:
            return GateCheck(name, False, f"not in namespace {self._expected.namespace}")
        template = deployment["spec"]["template"]["spec"]
        container = template["containers"][0]
        self._image = str(container["image"])
        self._executable = str((container.get("command") or [self._executable])[0])
        self._pull_secrets = list(template.get("imagePullSecrets") or ())
        replicas, status = int(deployment["spec"].get("replicas", 1)), deployment.get("status") or {}
        total, updated, available = (
            int(status.get(key, 0)) for key in ("replicas", "updatedReplicas", "availableReplicas")
        )
        seen = int(status.get("observedGeneration", 0)) >= int(deployment["metadata"].get("generation", 0))
        ready = seen and replicas > 0 and total == updated == available == replicas
        return GateCheck(name, ready, f"{updated} of {replicas} updated, {available} available")

    def _configuration(self, reported: str) -> GateCheck:
        name = "configuration"
        if not self._expected.reports:
            return GateCheck(name, True, "not reported by this image")
        hashes = " or ".join(sorted(self._expected.hashes))
        if not reported:
            return GateCheck(name, False, f"none is reported{f'; {hashes} is wanted' if hashes else ''}")
        if hashes and reported not in self._expected.hashes:
            return GateCheck(name, False, f"{reported} is reported, {hashes} is wanted")
        return GateCheck(name, True, reported)

    def _place_pod(self, scheduler_name: str, deadline: float) -> GateCheck:
        name = f"pod of {scheduler_name}"
        pods = api_path("v1", "pods", namespace=self._expected.namespace)
        began = time.monotonic()
        # The name is chosen here, so that the pod can be deleted even if the answer to its creation is lost.
        pod = f"fleet-gate-{secrets.token_hex(5)}"
        path = f"{pods}/{pod}"
        try:
            self._cluster.request("POST", pods, body=self._pod(pod, scheduler_name))
            while True:
                live = json.loads(self._cluster.get(path))
                if live["spec"].get("nodeName"):
                    return GateCheck(name, True, f"placed after {time.monotonic() - began:.1f} s")
                if time.monotonic() >= deadline or self._stopping.wait(self._poll / 5):
                    return GateCheck(
                        name, False, f"not placed: {_scheduling_message(live) or 'the scheduler has not looked at it'}"
                    )
        except KubeError as error:
            return GateCheck(name, False, one_line(str(error)))
        finally:
            # At worst the pod stays until its activeDeadlineSeconds; the first error is the one to report.
            with contextlib.suppress(KubeError):
                self._cluster.request("DELETE", path, body={"gracePeriodSeconds": 0})

    def _pod(self, name: str, scheduler_name: str) -> KubeObject:
        container = {
            "name": "gate",
            # The one image that this cluster is known to be able to pull.
            "image": self._image,
            "command": [self._executable, "--version"],
            "securityContext": _SECURITY,
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": POD_LABELS},
            "spec": {
                "schedulerName": scheduler_name,
                "restartPolicy": "Never",
                "activeDeadlineSeconds": 60,
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False,
                "tolerations": [{"operator": "Exists"}],
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [container],
                **({"imagePullSecrets": self._pull_secrets} if self._pull_secrets else {}),
            },
        }


def _condition(conditions: Mapping[Any, KubeObject], kind: str, expected: str) -> GateCheck:
    condition = conditions.get(kind) or {}
    status = str(condition.get("status", "Unknown"))
    message = ": ".join(
        text for text in (str(condition.get("reason") or ""), str(condition.get("message") or "")) if text
    )
    return GateCheck(kind, status == expected, one_line(message) or f"is {status}")


def _load(condition: KubeObject | None, annotations: KubeObject) -> GateCheck:
    if condition is not None:
        return _condition({"LoadDataFresh": condition}, "LoadDataFresh", "True")
    fresh = annotations.get(ANNOTATION_LOAD_FRESH) == "true"
    message = one_line(str(annotations.get(ANNOTATION_LOAD_MESSAGE) or ""))
    return GateCheck("LoadDataFresh", fresh, message or ("fresh" if fresh else "nothing is reported about it"))


def _scheduling_message(pod: KubeObject) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True":
            return one_line(str(condition.get("message") or ""))
    return ""


def expected_scheduler(outputs: Mapping[str, Any], flavour: str = "") -> ExpectedScheduler:
    """What a stack's outputs promise: `scheduler` (name, namespace, image), and `profile` or, where
    there are several, `profiles`.

    `flavour` is the image's flavour as set; empty if the image's name decides.
    """
    scheduler = outputs.get("scheduler")
    scheduler = scheduler if isinstance(scheduler, Mapping) else {}
    # A program of before had both outputs; `profile` was then the first of `profiles`.
    profiles = outputs.get("profiles") or [outputs.get("profile")]
    own_profiles = (
        [profile for profile in profiles if isinstance(profile, Mapping)] if isinstance(profiles, list | tuple) else []
    )
    names = [str(profile["schedulerName"]) for profile in own_profiles if profile.get("schedulerName")]
    image = str(scheduler.get("image") or "")
    ours = flavour == "ours" if flavour else not image or flavour_of(image).is_ours
    return ExpectedScheduler(
        str(scheduler.get("namespace") or NAMESPACE),
        str(scheduler.get("name") or NAME),
        frozenset(str(profile["configurationHash"]) for profile in own_profiles if profile.get("configurationHash")),
        tuple(dict.fromkeys(names)) or (NAME,),
        ours,
        any(_reads_load(profile) for profile in own_profiles),
    )


def _reads_load(profile: Mapping[str, Any]) -> bool:
    """Whether a profile of the outputs has a load-aware plugin. Outputs leave the metric source out."""
    plugin_args, scores = profile.get("pluginArgs"), profile.get("scorePlugins")
    args = plugin_args.values() if isinstance(plugin_args, Mapping) else ()
    if any(
        isinstance(plugin, Mapping) and ("metricProvider" in plugin or "watcherAddress" in plugin) for plugin in args
    ):
        return True
    return isinstance(scores, Mapping) and any(reads_load(str(name)) for name in scores)
