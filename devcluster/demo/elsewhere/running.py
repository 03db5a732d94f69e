"""Runs the scheduler for somebody's cluster: as a process of this machine, or as a pod from an image."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException

from devcluster.demo.elsewhere.configuration import cluster_objects, configuration, deployment
from devcluster.demo.elsewhere.target import TargetCluster
from devcluster.demo.elsewhere.workload import DemoLoads
from devcluster.errors import ServiceError
from devcluster.probes import wait_until
from scheduler.kube.client import ClientConfig, ConfigError

_READY_SECONDS = 180
_STOP_SECONDS = 10
_NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")

Check = Callable[[], None]
"""Raises ServiceError if the scheduler does not run any more."""


@contextlib.contextmanager
def local_process(target: TargetCluster, loads: DemoLoads) -> Iterator[Check]:
    """Run this checkout's scheduler against the cluster while the block runs, with the context's credentials.

    Raises ServiceError: the context's login is one that the scheduler does not have.
    """
    try:
        connection = ClientConfig.load(target.kubeconfig, target.context)
    except ConfigError as error:
        raise ServiceError(
            f"the scheduler cannot run here with context {target.context}: {error}; with IMAGE=… it runs in the cluster"
        ) from None
    with tempfile.TemporaryDirectory(prefix="secondary-scheduler-demo-") as path:
        directory = Path(path)
        kubeconfig, log = directory / "kubeconfig", directory / "log"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(kubeconfig_text(connection), encoding="utf-8")
        config = directory / "config.yaml"
        config.write_text(configuration(loads.settings(), str(kubeconfig)), encoding="utf-8")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "scheduler", f"--config={config}", "--secure-port=0"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # A Ctrl-C is for the demo, which ends the scheduler when it is no longer needed.
                start_new_session=True,
            )

        def check() -> None:
            if process.poll() is not None:
                lines = log.read_text(errors="replace").strip().splitlines()[-2:]
                raise ServiceError(
                    f"the scheduler ended with exit code {process.returncode}: {' | '.join(lines)[:400]}"
                )

        try:
            yield check
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def kubeconfig_text(connection: ClientConfig) -> str:
    """Write a kubeconfig with this connection only, so that nobody's change of context moves a scheduler."""
    cluster: dict[str, Any] = {"server": connection.server}
    user: dict[str, Any] = {}
    for key, file, data, place in (
        ("certificate-authority", connection.ca_file, connection.ca_data, cluster),
        ("client-certificate", connection.cert_file, connection.cert_data, user),
        ("client-key", connection.key_file, connection.key_data, user),
    ):
        if data is not None:
            place[f"{key}-data"] = base64.b64encode(data).decode()
        elif file is not None:
            place[key] = str(file.resolve())
    if connection.insecure_skip_tls_verify:
        cluster["insecure-skip-tls-verify"] = True
    if connection.tls_server_name:
        cluster["tls-server-name"] = connection.tls_server_name
    if connection.token_file:
        user["tokenFile"] = str(connection.token_file.resolve())
    elif connection.token:
        user["token"] = connection.token
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "demo", "cluster": cluster}],
        "users": [{"name": "demo", "user": user}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "demo"}}],
        "current-context": "demo",
    }
    return yaml.safe_dump(document, sort_keys=False)


class InCluster:
    """The scheduler as a Deployment in the demo's namespace."""

    def __init__(self, api: kubernetes.ApiClient, name: str, image: str) -> None:
        self._core = kubernetes.CoreV1Api(api)
        self._apps = kubernetes.AppsV1Api(api)
        self._rbac = kubernetes.RbacAuthorizationV1Api(api)
        self._name, self._image = name, image

    def start(self, loads: DemoLoads) -> None:
        """Create its objects and wait until it runs. Raises ServiceError, ApiException; call `remove` then, too."""
        roles, bindings = cluster_objects(self._name)
        for role in roles:
            self._rbac.create_cluster_role(role)
        for binding in bindings:
            self._rbac.create_cluster_role_binding(binding)
        self._core.create_namespaced_service_account(self._name, {"metadata": {"name": self._name}})
        config = {"config.yaml": configuration(loads.settings(), None)}
        self._core.create_namespaced_config_map(self._name, {"metadata": {"name": self._name}, "data": config})
        self._apps.create_namespaced_deployment(self._name, deployment(self._name, self._image))
        self._wait_ready()

    def remove(self) -> None:
        """Delete what it has outside its namespace. Raises ApiException."""
        roles, bindings = cluster_objects(self._name)
        for binding in bindings:
            _gone(self._rbac.delete_cluster_role_binding, binding["metadata"]["name"])
        for role in roles:
            _gone(self._rbac.delete_cluster_role, role["metadata"]["name"])

    def check(self) -> None:
        """Raise ServiceError if its container cannot be started."""
        for pod in self._core.list_namespaced_pod(self._name, label_selector=f"app={self._name}").items:
            for status in pod.status.container_statuses or ():
                waiting = status.state.waiting
                if waiting and waiting.reason in _NO_IMAGE:
                    raise ServiceError(
                        f"the cluster's nodes cannot pull {self._image} ({waiting.reason}): load it into the cluster "
                        "(kind load docker-image, k3d image import, minikube image load), or leave IMAGE out"
                    )
                if waiting and waiting.reason == "CrashLoopBackOff":
                    raise ServiceError(
                        f"the scheduler from {self._image} ends again and again: {self._last_words(pod)}"
                    )

    def _wait_ready(self) -> None:
        def ready() -> bool:
            if self._apps.read_namespaced_deployment(self._name, self._name).status.ready_replicas:
                return True
            self.check()
            return False

        wait_until(
            ready, _READY_SECONDS, lambda: f"the scheduler from {self._image} is not running after {_READY_SECONDS} s"
        )

    def _last_words(self, pod: Any) -> str:
        try:
            log: str = self._core.read_namespaced_pod_log(pod.metadata.name, self._name, tail_lines=2, limit_bytes=400)
        except ApiException:
            return "it has no log"
        return " | ".join(log.split("\n")).strip()


def _gone(delete: Callable[[str], object], name: str) -> None:
    try:
        delete(name)
    except ApiException as error:
        if error.status != 404:
            raise
