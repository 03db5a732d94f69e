"""Two instances of the scheduler under test, of which one holds the Lease: processes on this machine, or pods."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from scheduler import operand
from scheduler.kube.client import ClientConfig, api_path
from secondary_scheduler.cli.errors import CommandError, printable
from secondary_scheduler.cli.selftest.objects import ACCOUNT, LEASE, OwnCluster
from secondary_scheduler.clusterstatus.asking import MetricsSummary, summarize_metrics
from secondary_scheduler.kubeobjects import part

TOKEN_SECONDS = 3600
"""Longer than a run."""
_END_SECONDS = 30.0
_MAX_METRICS = 8 << 20
_MAX_LOG = 1 << 20
_MAX_SHOWN = 2000
_SERVING = ("--authorization-always-allow-paths=/metrics,/readyz,/livez,/healthz", "--authentication-skip-lookup=true")
"""Whoever reads the metrics is not asked for a token, and nothing is read in kube-system, where a scheduler may not."""
_PROBLEMS = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CrashLoopBackOff")
_CANNOT = re.compile(
    r'cannot (?P<verb>[a-z]+) resource \\?"(?P<resource>[a-z/]+)\\?" in API group \\?"(?P<group>[a-z0-9.]*)\\?"'
)
"""As the API server words a refusal; the quotes are escaped where a log quotes it."""
_MAX_RIGHTS = 20
_DYING_WITH_THIS = (
    # PR_SET_PDEATHSIG outlives execve: a run that is killed leaves no scheduler behind.
    (
        sys.executable,
        "-c",
        "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execv(sys.argv[1], sys.argv[1:])",
    )
    if sys.platform == "linux"
    else ()
)
_DEPLOYMENT = "scheduler"
_CONFIG_MAP = "scheduler-config"


class Instances(Protocol):
    """The instances under test.

    Attributes:
        description: what they are, for the report.
        is_here: whether they run on this machine, so that they reach a metric source on it.
    """

    description: str
    is_here: bool

    def start(self) -> None:
        """Start two."""

    def kill(self, holder: str) -> None:
        """Kill the one that holds the Lease, without a chance to give it back."""

    def problem(self) -> str:
        """Why none of them can work; "" where nothing is known to be wrong."""

    def refused(self) -> int | None:
        """How many requests the API server refused with 403, of those that still run; None where they do not say.

        Raises:
            KubeError: they cannot be asked.
        """

    def missing_rights(self) -> list[str]:
        """What was refused, as far as their logs can be read."""

    def stop(self) -> None:
        """End them all."""


class ProcessInstances:
    """Processes on this machine, with a token of the ServiceAccount.

    Args:
        cluster: the cluster.
        configuration: without `clientConnection`.
        program: the Go binary; None for our own scheduler.
    """

    is_here = True

    def __init__(self, cluster: OwnCluster, configuration: Mapping[str, Any], program: Path | None) -> None:
        self.description = "processes on this machine: " + (str(program) if program else "python -m scheduler")
        self._cluster, self._configuration, self._program = cluster, configuration, program
        self._directory = tempfile.TemporaryDirectory(prefix="selftest-")
        self._running: list[_Process] = []

    def start(self) -> None:
        """See `Instances`; both have one configuration and one kubeconfig."""
        directory = Path(self._directory.name)
        kubeconfig = directory / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(json.dumps(_kubeconfig(self._cluster.config, self._cluster.token(TOKEN_SECONDS))))
        content = {**self._configuration, "clientConnection": {"kubeconfig": str(kubeconfig)}}
        configuration = directory / "config.yaml"
        configuration.write_text(json.dumps(content))
        for number in (1, 2):
            self._running.append(_Process(self._command(configuration, kubeconfig), directory / f"log-{number}"))

    def _command(self, configuration: Path, kubeconfig: Path) -> tuple[list[str], int]:
        port = _free_port()
        common = [f"--config={configuration}", "--bind-address=127.0.0.1", f"--secure-port={port}", *_SERVING]
        if self._program is None:
            return [sys.executable, "-m", "scheduler", *common], port
        delegated = [f"--{flag}-kubeconfig={kubeconfig}" for flag in ("authentication", "authorization")]
        return [str(self._program), *common, *delegated], port

    def kill(self, holder: str) -> None:
        """See `Instances`."""
        for process in self._running:
            if process.leads:
                process.kill()
                return
        raise CommandError(printable(f"no process of the self-test says that it is {holder}"))

    def problem(self) -> str:
        """See `Instances`."""
        ended = [process for process in self._running if process.has_ended and not process.was_killed]
        return f"a process ended: {ended[0].last_lines()}" if ended else ""

    def refused(self) -> int | None:
        """See `Instances`."""
        summaries = [process.summary() for process in self._running if not process.has_ended]
        return _total([None if summary is None else summary.forbidden for summary in summaries])

    def missing_rights(self) -> list[str]:
        """See `Instances`."""
        return sorted({right for process in self._running for right in process.missing_rights()})[:_MAX_RIGHTS]

    def stop(self) -> None:
        """See `Instances`."""
        for process in self._running:
            process.end()
        self._directory.cleanup()


class _Process:
    def __init__(self, command: tuple[list[str], int], log: Path) -> None:
        arguments, self.port = command
        self._log = log
        self.was_killed = False
        with log.open("wb") as output:
            # Apart from this process's group: Ctrl-C is for the self-test, which then ends what it started.
            self._process = subprocess.Popen(
                [*_DYING_WITH_THIS, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def leads(self) -> bool:
        """Whether it holds the Lease, by its metrics."""
        summary = None if self.has_ended else self.summary()
        return summary is not None and summary.leads

    def kill(self) -> None:
        self.was_killed = True
        self._process.kill()
        self._process.wait(_END_SECONDS)

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_SECONDS)

    def summary(self) -> MetricsSummary | None:
        """What its metrics say; None where it does not answer."""
        # Its own certificate is one that it made itself at its start, and the address is this machine's.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=5, context=context)
        try:
            connection.request("GET", "/metrics")
            return summarize_metrics(connection.getresponse().read(_MAX_METRICS).decode("utf-8", "replace"))
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()

    def missing_rights(self) -> Iterator[str]:
        for match in _CANNOT.finditer(self._text()):
            group = f".{match['group']}" if match["group"] else ""
            yield f"{match['verb']} {match['resource']}{group}"

    def last_lines(self) -> str:
        return printable(" ".join(self._text()[-_MAX_SHOWN:].split()))

    def _text(self) -> str:
        """The end of its log, which has names that others wrote, and any number of lines."""
        with self._log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _MAX_LOG))
            return log.read(_MAX_LOG).decode("utf-8", "replace")


class DeploymentInstances:
    """Pods of a Deployment in the namespace of the run.

    Args:
        cluster: the cluster.
        configuration: as for a scheduler in a pod.
        image: ours, that of scheduler-plugins, or any other.
        pull_policy: of the container.
    """

    is_here = False

    def __init__(self, cluster: OwnCluster, configuration: Mapping[str, Any], image: str, pull_policy: str) -> None:
        self.description = f"pods of a Deployment: {image}"
        self._cluster, self._configuration = cluster, configuration
        self._image, self._pull_policy = image, pull_policy

    def start(self) -> None:
        """See `Instances`."""
        names = self._cluster.names
        self._cluster.create_here(
            "ConfigMap", _CONFIG_MAP, {"data": {operand.CONFIG_KEY: json.dumps(self._configuration)}}, {}
        )
        spec = operand.deployment_spec(
            operand.Operand(
                name=LEASE,
                namespace=names.namespace,
                image=self._image,
                config_map=_CONFIG_MAP,
                service_account=ACCOUNT,
                labels={"app": LEASE},
                replicas=2,
                arguments=_SERVING,
            )
        )
        spec["template"]["spec"]["containers"][0]["imagePullPolicy"] = self._pull_policy
        self._cluster.create_here("Deployment", _DEPLOYMENT, {"spec": spec}, {})

    def kill(self, holder: str) -> None:
        """See `Instances`."""
        # The identity of client-go and of ours begins with the host's name, which is the pod's.
        self._cluster.end_pod(holder.rpartition("_")[0])

    def problem(self) -> str:
        """See `Instances`."""
        for name, pod in self._own_pods().items():
            for status in part(pod, "status").get("containerStatuses") or ():
                waiting = part(part(status, "state"), "waiting")
                if waiting.get("reason") in _PROBLEMS:
                    return printable(f"pod {name}: {waiting.get('reason')}: {waiting.get('message') or ''}")
        return ""

    def refused(self) -> int | None:
        """See `Instances`."""
        counts = []
        for name in self._own_pods():
            path = api_path(
                "v1", "pods", namespace=self._cluster.names.namespace, name=f"https:{name}:{operand.SECURE_PORT}"
            )
            answer = self._cluster.connection.get(f"{path}/proxy/metrics")
            counts.append(summarize_metrics(answer.decode("utf-8", "replace")).forbidden)
        return _total(counts)

    def _own_pods(self) -> dict[str, dict[str, Any]]:
        pods = self._cluster.pods()
        return {name: pod for name, pod in pods.items() if part(part(pod, "metadata"), "labels").get("app") == LEASE}

    def missing_rights(self) -> list[str]:
        """Nothing: the logs of pods are not read."""
        return []

    def stop(self) -> None:
        """Nothing: they go with the namespace."""


def _total(counts: Collection[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def instances_of(
    cluster: OwnCluster, configuration: Mapping[str, Any], image: str, pull_policy: str, program: Path | None
) -> Instances:
    """Return the instances that the options name."""
    if image:
        return DeploymentInstances(cluster, configuration, image, pull_policy)
    return ProcessInstances(cluster, configuration, program)


def _kubeconfig(config: ClientConfig, token: str) -> dict[str, Any]:
    cluster: dict[str, Any] = {"server": config.server}
    if config.insecure_skip_tls_verify:
        cluster["insecure-skip-tls-verify"] = True
    authority = config.ca_data or (config.ca_file.read_bytes() if config.ca_file else None)
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    if config.tls_server_name:
        cluster["tls-server-name"] = config.tls_server_name
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "selftest", "cluster": cluster}],
        "users": [{"name": "selftest", "user": {"token": token}}],
        "contexts": [{"name": "selftest", "context": {"cluster": "selftest", "user": "selftest"}}],
        "current-context": "selftest",
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
