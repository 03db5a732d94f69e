"""Servers of ours while clients hold idle connections: `python -m benchmarks flood`.

Each runs under the memory limit that it is shipped with, as a cgroup (this needs root; without, there is no limit). Two
processes with a source address each hold connections without sending a byte, and open new ones for those that are
closed, each a thousand a second. Meanwhile a third address asks what a kubelet, a Prometheus and somebody who explains
a pod would ask, each time over a new connection. Memory is read before, and a minute after they were given up.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import yaml

from benchmarks.harness import control_plane, manifests
from benchmarks.harness.contestants import ROOT, sizes
from devcluster import ports
from devcluster.probes import unchecked_tls
from scheduler.kube.client import AlreadyExists, ClientConfig, SyncConnection

SERVERS = ("scheduler", "operator", "page", "load-watcher")
SOURCES = ("127.0.0.2", "127.0.0.3")
_NAMESPACE, _ACCOUNT = "flood", "reader"
_PAUSE_SECONDS, _TIMEOUT_SECONDS, _WELL_SECONDS = 0.2, 5.0, 1.0
_START_SECONDS, _AFTER_SECONDS = 60.0, 60.0
_CGROUPS = Path("/sys/fs/cgroup/memory")
_OPERATOR_CRD = ROOT / "components/crds/operator.openshift.io_secondaryschedulers.yaml"
_CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: KUBECONFIG}
profiles:
- schedulerName: flood
  plugins: {score: {enabled: [{name: TargetLoadPacking}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: "SOURCE"}}
"""


@dataclass(frozen=True, slots=True)
class FloodQuestion:
    """What is asked again and again, of which port."""

    port: int
    path: str
    tls: bool = True
    token: bool = False


@dataclass(frozen=True, slots=True)
class Flooded:
    """A server: its command, its shipped limit in MiB, the ports that are flooded, and what is asked."""

    command: Sequence[str]
    limit: int
    flooded: Sequence[int]
    questions: Mapping[str, FloodQuestion]


@dataclass(slots=True)
class Asked:
    """What became of a question: seconds of the answers, and how many were none."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Return the figures as text."""
        number = len(self.seconds) + len(self.failures)
        well = sum(seconds <= _WELL_SECONDS for seconds in self.seconds)
        if not self.seconds:
            return f"{number} asked, none answered: {self.failures[-1] if self.failures else ''}"
        tail = statistics.quantiles(self.seconds, n=100)[98] if len(self.seconds) > 1 else self.seconds[0]
        text = f"{well / number:.1%} of {number} within 1 s, p50 {statistics.median(self.seconds) * 1000:.0f} ms"
        failed = f"{len(self.failures)} failed {sorted(set(self.failures))}"
        return f"{text}, p99 {tail * 1000:.0f} ms, max {max(self.seconds) * 1000:.0f} ms, {failed}"


class FloodedInstallation:
    """What the servers need: an API server with an account that may read everything, files, and a metric source."""

    def __init__(self, kubeconfig: Path, directory: Path, source: str) -> None:
        self._kubeconfig = kubeconfig
        api = SyncConnection(ClientConfig.load(kubeconfig), timeout=10)
        rbac = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        subject = {"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": _NAMESPACE}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        accounts = f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts"
        for path, body in (
            ("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}}),
            ("/api/v1/nodes", manifests.node(0) | {"metadata": {"name": "flood"}}),
            (accounts, {"metadata": {"name": _ACCOUNT}}),
            (rbac, {"metadata": {"name": "flood"}, "roleRef": role, "subjects": [subject]}),
            (
                f"/api/v1/namespaces/{_NAMESPACE}/pods",
                manifests.pod("p", {"cpu": "10m"}, namespace=_NAMESPACE, schedulerName="flood"),
            ),
            ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(_OPERATOR_CRD.read_text())),
        ):
            with contextlib.suppress(AlreadyExists):
                api.request("POST", path, body=body)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = json.loads(api.request("POST", f"{accounts}/{_ACCOUNT}/token", body=request))
        self.token: str = answer["status"]["token"]
        api.close()
        self._config = directory / "config.yaml"
        self._config.write_text(_CONFIGURATION.replace("KUBECONFIG", str(kubeconfig)).replace("SOURCE", source))

    def server(self, name: str, *flags: str) -> Flooded:
        """Return one of `SERVERS`, with further flags."""
        numbers = ports.allocate(["first", "second"], {})
        first, second = numbers["first"], numbers["second"]
        kubeconfig = f"--kubeconfig={self._kubeconfig}"
        python = sys.executable
        if name == "scheduler":
            command = [python, "-m", "scheduler", f"--config={self._config}", f"--secure-port={first}", *flags]
            explain = f"/debug/decisions/namespaces/{_NAMESPACE}?pod=p"
            questions = {
                "probe": FloodQuestion(first, "/livez"),
                "scrape": FloodQuestion(first, "/metrics", token=True),
                "explain": FloodQuestion(first, explain, token=True),
            }
            return Flooded(command, 2048, [first], questions)
        if name == "operator":
            command = [python, "-m", "secondary_scheduler.operator", f"--namespace={_NAMESPACE}", kubeconfig]
            command += [f"--port={first}", f"--metrics-port={second}", "--bind-address=0.0.0.0", *flags]
            questions = {
                "probe": FloodQuestion(first, "/healthz", tls=False),
                "scrape": FloodQuestion(second, "/metrics", token=True),
            }
            return Flooded(command, 512, [first, second], questions)
        if name == "page":
            command = [python, "-m", "secondary_scheduler.page", f"--config={self._config}", kubeconfig]
            command += [
                "--config-map=flood/config",
                "--host=127.0.0.1",
                f"--listen=:{first}",
                f"--probes=:{second}",
                *flags,
            ]
            questions = {"probe": FloodQuestion(second, "/livez"), "visit": FloodQuestion(first, "/nodes", token=True)}
            return Flooded(command, 512, [first, second], questions)
        command = [python, "-m", "secondary_scheduler.loadwatcher", f"--config={self._config}"]
        command += [f"--listen=0.0.0.0:{first}", "--serve-unauthenticated", *flags]
        questions = {
            "probe": FloodQuestion(first, "/livez", tls=False),
            "scrape": FloodQuestion(first, "/watcher", tls=False),
        }
        return Flooded(command, 512, [first], questions)


def metric_source() -> AbstractContextManager[str]:
    """Serve the load of a node, as Prometheus would; yields the address."""

    def answer() -> bytes:
        result = [{"metric": {"instance": "flood"}, "value": [time.time(), "40"]}]
        return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()

    return ports.serving(answer)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 1 where a server has ended."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks flood", description=__doc__)
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=SERVERS)
    parser.add_argument("--connections", type=int, default=15_000, help="in all; half from each address")
    parser.add_argument("--rate", type=float, default=1000, help="that a client opens a second")
    parser.add_argument("--seconds", type=float, default=60, help="for which they are held")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="where the servers' program is")
    options = parser.parse_args(arguments)
    well = True
    with (
        control_plane.running(control_plane.executables()) as cluster,
        tempfile.TemporaryDirectory(prefix="flood-") as directory,
        metric_source() as source,
    ):
        installation = FloodedInstallation(cluster.layout.kubeconfig, Path(directory), source)
        for name in options.servers:
            well &= _flood(name, installation, options, Path(directory))
    return 0 if well else 1


def _flood(name: str, installation: FloodedInstallation, options: argparse.Namespace, directory: Path) -> bool:
    server = installation.server(name)
    log = directory / f"{name}.log"
    with _limited(server.limit) as wrapper, log.open("wb") as output:
        command = [*wrapper, *server.command]
        process = subprocess.Popen(command, cwd=options.checkout, stdout=output, stderr=output)
        try:
            until_answered(asking(server, installation.token), process, log)
            time.sleep(5)
            before = _resident(process)
            print(f"{name}: limit {server.limit} MiB {'as a cgroup' if wrapper else '(not enforced)'}", flush=True)
            answers, peak, figures = _under_flood(process, server, installation.token, options)
            for kind, result in answers.items():
                print(f"  {kind}: {result.line()}", flush=True)
            if process.poll() is None:
                time.sleep(_AFTER_SECONDS)
            after = _resident(process)
            code = process.poll()
            print(
                f"  {'alive' if code is None else f'ended by signal {-code}'}; memory {before:.0f} MiB before, "
                f"{peak:.0f} at most, {after:.0f} a minute after ({after / before - 1:+.0%}); log {log.stat().st_size} "
                f"bytes; clients: {figures}",
                flush=True,
            )
            return code is None
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def _limited(mebibytes: int) -> Iterator[list[str]]:
    """A cgroup with a memory limit: yields what starts a command in it; nothing where none can be made."""
    group = _CGROUPS / f"flood-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(mebibytes << 20))
    except OSError:
        yield []
        return
    try:
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


def asking(server: Flooded, token: str) -> Mapping[str, Callable[[], object]]:
    """Return what asks each question once, and raises where the answer is not 200."""
    return {kind: functools.partial(answer_to, question, token) for kind, question in server.questions.items()}


def answer_to(question: FloodQuestion, token: str) -> str:
    """Ask over a new connection; returns the answer's body.

    Raises:
        OSError, http.client.HTTPException: there is none, or its status is not 200.
    """
    connection = http.client.HTTPConnection("127.0.0.1", question.port, timeout=_TIMEOUT_SECONDS)
    if question.tls:
        context = unchecked_tls()
        connection = http.client.HTTPSConnection("127.0.0.1", question.port, timeout=_TIMEOUT_SECONDS, context=context)
    headers = {"Authorization": f"Bearer {token}"} if question.token else {}
    with contextlib.closing(connection):
        connection.request("GET", question.path, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        if answer.status != 200:
            raise OSError(f"status {answer.status}")
        return body


def until_answered(questions: Mapping[str, Callable[[], object]], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until each question is answered.

    Raises:
        RuntimeError: one is not.
    """
    deadline = time.monotonic() + _START_SECONDS
    for kind, ask in questions.items():
        while True:
            try:
                ask()
                break
            except (OSError, http.client.HTTPException) as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{kind}: {error}; {log.read_text()[-2000:]}") from error
                time.sleep(0.2)


@contextlib.contextmanager
def holding(server: Flooded, connections: int, rate: float) -> Iterator[list[dict[str, int]]]:
    """Two clients hold so many connections, and open `rate` a second each; yields the figures of each, as they are."""
    places = ",".join(f"127.0.0.1:{port}" for port in server.flooded)
    figures: list[dict[str, int]] = [{"open": 0, "opened": 0, "closed": 0} for _ in SOURCES]
    with contextlib.ExitStack() as stack:
        for number, source in enumerate(SOURCES):
            arguments = [source, places, str(connections // len(SOURCES)), str(rate)]
            client = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.floodclient", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            follower = threading.Thread(target=_follow, args=(client, figures[number]))
            follower.start()
            stack.callback(follower.join)
            stack.callback(_end, client)
        yield figures


def _follow(client: subprocess.Popen[str], figures: dict[str, int]) -> None:
    assert client.stdout is not None
    with client.stdout as lines:
        for line in lines:
            figures.update(json.loads(line))


def _end(client: subprocess.Popen[str]) -> None:
    assert client.stdin is not None
    client.stdin.close()
    try:
        client.wait(10)
    except subprocess.TimeoutExpired:
        client.kill()
        client.wait()


def _under_flood(
    process: subprocess.Popen[bytes], server: Flooded, token: str, options: argparse.Namespace
) -> tuple[dict[str, Asked], float, list[dict[str, int]]]:
    """Returns what was answered, the most memory that was seen, and the clients' last figures."""
    over = threading.Event()
    answers = {kind: Asked() for kind in server.questions}

    def go_on_asking(kind: str, ask: Callable[[], object]) -> None:
        while not over.wait(_PAUSE_SECONDS):
            began = time.monotonic()
            try:
                ask()
                answers[kind].seconds.append(time.monotonic() - began)
            except (OSError, http.client.HTTPException) as error:
                answers[kind].failures.append(str(error) or type(error).__name__)

    threads = [threading.Thread(target=go_on_asking, args=item) for item in asking(server, token).items()]
    peak = 0.0
    with holding(server, options.connections, options.rate) as figures:
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + options.seconds
        while time.monotonic() < deadline and process.poll() is None:
            peak = max(peak, _resident(process))
            time.sleep(0.1)
        over.set()
        for thread in threads:
            thread.join()
    return answers, peak, figures


def _resident(process: subprocess.Popen[bytes]) -> float:
    """Resident memory in MiB; 0 where the process has ended."""
    try:
        return sizes(process.pid)["rss"]
    except psutil.NoSuchProcess:
        return 0.0
