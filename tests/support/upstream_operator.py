"""A fake of OpenShift's secondary scheduler operator: exactly the events that it reacts to, and what it then writes.

It is a stand-in for tests only, made from what is known of upstream's releases 1.5 and 1.6:

- any event of any SecondaryScheduler makes it reconcile the one named `cluster`, read live;
- of ConfigMaps in its namespace it sees updates and deletions, *not* creations, and only acts on the one that the
  resource names; a missing one is an error, tried again after 5 ms, doubled up to 1000 s;
- it watches nothing of what it makes: a Deployment that somebody deletes or changes is repaired at the next event only
  (its resync after ten minutes is left out);
- the pod template carries the resource's generation and the map's resourceVersion, so that every change rolls out;
- of the Deployment's own metadata it only sets what it wants, and replaces the spec as a whole;
- it reports `status.generations` and no condition;
- it works while it holds the Lease of its namespace, and gives it back when it is ended.

Of what 1.6 makes, the serving certificate, the metrics Service with its monitoring, and the probes are left out: the
Deployment is 1.5's, with the flags for the Lease of 1.6.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import json
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

NAMESPACE = "openshift-secondary-scheduler-operator"
NAME = "secondary-scheduler"
GROUP, VERSION, PLURAL = "operator.openshift.io", "v1", "secondaryschedulers"
SPEC_HASH = "operator.openshift.io/spec-hash"
_VERBOSITY = {"Normal": 2, "Debug": 4, "Trace": 6, "TraceAll": 8}
_FIRST_BACK_OFF, _MAX_BACK_OFF = 0.005, 1000.0
_WATCH_SECONDS = 2
LOCK = "openshift-secondary-scheduler-operator-lock"
_LEASE_SECONDS, _RETRY_SECONDS = 137, 26.0
_IDENTITY = "fake-upstream-operator"
_LOOK_SECONDS = 0.5
"""Sooner than the real one, which looks every 26 s whether the Lease is free."""
Key = tuple[str, str]


class FakeUpstreamOperator:
    """Runs in threads of the test from entering to leaving; `errors` has what its reconciles failed with."""

    def __init__(self, kubeconfig: Path) -> None:
        self._api = config.new_client_from_config(str(kubeconfig))
        self._core, self._apps = client.CoreV1Api(self._api), client.AppsV1Api(self._api)
        self._coordination = client.CoordinationV1Api(self._api)
        self._rbac, self._custom = client.RbacAuthorizationV1Api(self._api), client.CustomObjectsApi(self._api)
        self._ended = threading.Event()
        self._paused, self._leads = threading.Event(), threading.Event()
        self._queue: list[tuple[float, Key]] = []
        self._wakeup = threading.Condition()
        self._failures: dict[Key, int] = {}
        self._threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._lead, self._watch_resources, self._watch_config_maps, self._work)
        ]
        self.errors: list[str] = []

    def __enter__(self) -> FakeUpstreamOperator:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._ended.set()
        with self._wakeup:
            self._wakeup.notify_all()
        for thread in self._threads:
            thread.join(20)

    def pause(self) -> None:
        """Let events wait: an operator that is slow, or not there."""
        self._paused.set()

    def resume(self) -> None:
        """Go on with what has been waiting."""
        self._paused.clear()
        with self._wakeup:
            self._wakeup.notify_all()

    def _lead(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            with contextlib.suppress(ApiException, OSError):
                if self._hold(_IDENTITY):
                    break
        else:
            return
        self._leads.set()
        while not self._ended.wait(_RETRY_SECONDS):
            self._hold(_IDENTITY)
        self._hold("")

    def _hold(self, identity: str) -> bool:
        """Write a holder into the Lease, unless somebody else holds it; says whether it was written."""
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        spec = {"holderIdentity": identity, "leaseDurationSeconds": _LEASE_SECONDS if identity else 1, "renewTime": now}
        body = {"metadata": {"name": LOCK}, "spec": spec}
        try:
            lease = self._coordination.read_namespaced_lease(LOCK, NAMESPACE)
        except ApiException as error:
            if error.status != 404:
                raise
            self._coordination.create_namespaced_lease(NAMESPACE, body)
            return True
        if (lease.spec.holder_identity or "") not in ("", _IDENTITY):
            return False
        body["metadata"] = {"name": LOCK, "resourceVersion": lease.metadata.resource_version}
        self._coordination.replace_namespaced_lease(LOCK, NAMESPACE, body)
        return True

    def _watch_resources(self) -> None:
        self._watch(
            lambda kind, _: self._enqueue(("resource", "cluster")),
            self._custom.list_cluster_custom_object, group=GROUP, version=VERSION, plural=PLURAL,
        )  # fmt: skip

    def _watch_config_maps(self) -> None:
        def seen(kind: str, name: str) -> None:
            if kind in ("MODIFIED", "DELETED"):
                self._enqueue(("configmap", name))

        self._watch(seen, self._core.list_namespaced_config_map, namespace=NAMESPACE)

    def _watch(self, seen: Any, listing: Any, **arguments: Any) -> None:
        while not self._leads.is_set() and not self._ended.is_set():
            self._leads.wait(_LOOK_SECONDS)
        known = ""
        while not self._ended.is_set():
            with contextlib.suppress(ApiException, OSError):
                stream = watch.Watch().stream(
                    listing, **arguments, timeout_seconds=_WATCH_SECONDS,
                    **({"resource_version": known} if known else {}),
                )  # fmt: skip
                for event in stream:
                    configuration = event["object"]
                    metadata = (
                        configuration["metadata"]
                        if isinstance(configuration, dict)
                        else configuration.metadata.to_dict()
                    )
                    known = metadata.get("resourceVersion") or metadata.get("resource_version") or known
                    seen(event["type"], metadata["name"])
                continue
            known = ""
            self._ended.wait(0.5)

    def _enqueue(self, key: Key, after: float = 0.0) -> None:
        with self._wakeup:
            heapq.heappush(self._queue, (time.monotonic() + after, key))
            self._wakeup.notify_all()

    def _next(self) -> Key | None:
        with self._wakeup:
            while not self._ended.is_set():
                due = self._queue[0][0] - time.monotonic() if self._queue else 60.0
                if due <= 0 and not self._paused.is_set():
                    _, key = heapq.heappop(self._queue)
                    self._queue = [(at, other) for at, other in self._queue if other != key]
                    heapq.heapify(self._queue)
                    return key
                self._wakeup.wait(max(due, 0.0) or None)
        return None

    def _work(self) -> None:
        while (key := self._next()) is not None:
            try:
                self._reconcile(key)
                self._failures.pop(key, None)
            except (ApiException, ValueError, OSError) as error:
                self.errors.append(str(error))
                failed = self._failures.get(key, 0)
                self._failures[key] = failed + 1
                self._enqueue(key, min(_FIRST_BACK_OFF * 2**failed, _MAX_BACK_OFF))

    def _reconcile(self, key: Key) -> None:
        resource = self._custom.get_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, "cluster")
        spec = resource.get("spec", {})
        wanted = spec.get("schedulerConfig", "")
        if key[0] == "configmap" and key[1] != wanted:
            return
        try:
            config_map = self._core.read_namespaced_config_map(wanted, NAMESPACE) if wanted else None
        except ApiException as error:
            raise ValueError(f"could not get configuration configmap {wanted}: {error.reason}") from error
        if config_map is None:
            raise ValueError("could not get configuration configmap")
        versions = self._around(resource)
        annotations = {
            f"{PLURAL}.{GROUP}/cluster": str(resource["metadata"]["generation"]),
            f"configmaps/{wanted}": config_map.metadata.resource_version,
            **versions,
        }
        self._deployment(resource, _deployment_spec(spec, wanted, annotations))

    def _around(self, resource: dict[str, Any]) -> dict[str, str]:
        """Account and rights; gives their resourceVersions."""
        metadata = {"namespace": NAMESPACE, "ownerReferences": [_owner(resource)]}
        account = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
        group = "rbac.authorization.k8s.io"
        versions = {}
        result = _made(
            lambda: self._core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": NAME, **metadata}}),
            lambda: self._core.read_namespaced_service_account(NAME, NAMESPACE),
        )
        versions[f"serviceaccounts/{NAME}"] = result.metadata.resource_version
        for role in ("kube-scheduler", "volume-scheduler"):
            name = f"{NAME}-system-{role}"
            body = {
                "metadata": {"name": name, "ownerReferences": [_owner(resource)]},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": f"system:{role}"},
                "subjects": [account],
            }
            result = _made(
                lambda body=body: self._rbac.create_cluster_role_binding(body),
                lambda name=name: self._rbac.read_cluster_role_binding(name),
            )
            versions[f"clusterrolebindings/{name}"] = result.metadata.resource_version
        operand = f"{NAME}-operand"
        rule = {
            "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [NAME],
            "verbs": ["get", "list", "watch", "create", "update", "patch"],
        }  # fmt: skip
        role_body: dict[str, Any] = {"metadata": {"name": operand, **metadata}, "rules": [rule]}
        binding: dict[str, Any] = {
            "metadata": {"name": operand, **metadata},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": operand},
            "subjects": [account],
        }
        for kind, body in (("role", role_body), ("role_binding", binding)):
            result = _made(
                lambda kind=kind, body=body: getattr(self._rbac, f"create_namespaced_{kind}")(NAMESPACE, body),
                lambda kind=kind: getattr(self._rbac, f"read_namespaced_{kind}")(operand, NAMESPACE),
            )
            versions[f"{kind.replace('_', '')}s/{operand}"] = result.metadata.resource_version
        return versions

    def _deployment(self, resource: dict[str, Any], spec: dict[str, Any]) -> None:
        digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()
        labels, annotations = {"app": NAME}, {SPEC_HASH: digest}
        metadata = {
            "name": NAME, "namespace": NAMESPACE, "labels": labels, "annotations": annotations,
            "ownerReferences": [_owner(resource)],
        }  # fmt: skip
        generations = resource.get("status", {}).get("generations") or [{}]
        try:
            live = self._apps.read_namespaced_deployment(NAME, NAMESPACE)
        except ApiException as error:
            if error.status != 404:
                raise
            live = self._apps.create_namespaced_deployment(NAMESPACE, {"metadata": metadata, "spec": spec})
        else:
            as_wanted = (live.metadata.annotations or {}).get(SPEC_HASH) == digest
            if not as_wanted or live.metadata.generation != generations[0].get("lastGeneration"):
                body = self._api.sanitize_for_serialization(live)
                kept = body["metadata"]
                kept["labels"] = {**kept.get("labels", {}), **labels}
                kept["annotations"] = {**kept.get("annotations", {}), **annotations}
                live = self._apps.replace_namespaced_deployment(NAME, NAMESPACE, {**body, "spec": spec})
        reported = {
            "group": "apps", "resource": "deployments", "namespace": NAMESPACE, "name": NAME,
            "lastGeneration": live.metadata.generation,
        }  # fmt: skip
        if generations[0] != reported:
            # Written again whenever it differs, as upstream does.
            self._custom.patch_namespaced_custom_object_status(
                GROUP, VERSION, NAMESPACE, PLURAL, "cluster", {"status": {"generations": [reported]}}
            )


def _made(create: Any, read: Any) -> Any:
    try:
        return read()
    except ApiException as error:
        if error.status != 404:
            raise
    return create()


def _owner(resource: dict[str, Any]) -> dict[str, str]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}", "kind": "SecondaryScheduler", "name": resource["metadata"]["name"],
        "uid": resource["metadata"]["uid"],
    }  # fmt: skip


def _deployment_spec(spec: dict[str, Any], config_map: str, annotations: dict[str, str]) -> dict[str, Any]:
    container = {
        "name": NAME,
        "image": spec.get("schedulerImage", ""),
        "command": ["/bin/kube-scheduler"],
        "args": [
            "--config=/etc/kubernetes/config.yaml",
            "--leader-elect=true",
            "--leader-elect-lease-duration=137s",
            "--leader-elect-renew-deadline=107s",
            "--leader-elect-resource-lock=leases",
            f"--leader-elect-resource-name={NAME}",
            f"--leader-elect-resource-namespace={NAMESPACE}",
            "--leader-elect-retry-period=26s",
            f"-v={_VERBOSITY.get(spec.get('logLevel', 'Normal'), 2)}",
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"requests": {"cpu": "15m", "memory": "50Mi"}},
        "volumeMounts": [
            {"name": "etckubernetes", "mountPath": "/etc/kubernetes"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }  # fmt: skip
    return {
        "replicas": 1,
        "selector": {"matchLabels": {"app": NAME}},
        "template": {
            "metadata": {"labels": {"app": NAME}, "annotations": annotations},
            "spec": {
                "serviceAccountName": NAME,
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [container],
                "volumes": [
                    {"name": "etckubernetes", "configMap": {"name": config_map}},
                    {"name": "tmp", "emptyDir": {}},
                ],
            },
        },
    }
