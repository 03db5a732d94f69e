"""Pods from creation to deletion: roll-out, probes, restarts, signals, hooks, refusals."""

from __future__ import annotations

import base64
import re
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from devcluster.cluster import LocalCluster
from devcluster.progress import SilentReporter
from devcluster.toolchain.binaries import ensure
from tests.integration.node_agent.helpers import NODE, PYTHON_IMAGE, Api, RunningAgent, script, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.slow]
SLEEP = "import time; time.sleep(600)"
SERVER = """
import http.server, os, pathlib
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        sick = pathlib.Path('/data/sick').exists()
        if self.path == '/break': pathlib.Path('/data/sick').touch()
        self.send_response(500 if sick else 200); self.end_headers(); self.wfile.write(b'sick' if sick else b'fine')
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer((os.environ['POD_IP'], 8080), Handler).serve_forever()
"""
POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def get(address: str, path: str = "/") -> str:
    with urllib.request.urlopen(f"http://{address}:8080{path}", timeout=5) as answer:
        return str(answer.read().decode())


def test_a_pod_without_room_is_rejected_as_by_a_kubelet_and_the_one_that_runs_is_left_alone(
    agent: RunningAgent, api: Api
) -> None:
    api.pod("before", main={"command": script(SLEEP)})
    api.wait_running("before")
    main = {"command": script(SLEEP), "resources": {"requests": {"cpu": "1000"}}}
    api.pod("large", main=main)
    wait_for(lambda: api.status("large")["phase"] == "Failed", "the pod to be rejected")
    status = api.status("large")
    assert status["reason"] == "OutOfcpu"
    assert status["message"].startswith(
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000000, used: "
    )
    api.wait_for_event("OutOfcpu", "Node didn't have enough resource: cpu")
    assert api.status("before")["phase"] == "Running"
    api.delete("large")


def test_a_resize_is_granted_or_said_to_be_infeasible_and_taken_back(agent: RunningAgent, api: Api) -> None:
    def resize(cpu: str) -> None:
        containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
        api.core.patch_namespaced_pod_resize("p", api.namespace, {"spec": {"containers": containers}})

    def pending() -> list[str]:
        conditions = api.status()["conditions"]
        return [condition["reason"] for condition in conditions if condition["type"] == "PodResizePending"]

    api.pod(main={"command": script(SLEEP), "resources": {"requests": {"cpu": "10m"}, "limits": {"cpu": "2000"}}})
    assert api.wait_running()["resources"]["requests"] == {"cpu": "10m"}
    resize("20m")
    wait_for(lambda: api.container()["allocatedResources"] == {"cpu": "20m"}, "the resize to be granted")
    resize("1000")
    wait_for(lambda: pending() == ["Infeasible"], "the resize to be refused")
    assert api.container()["allocatedResources"] == {"cpu": "20m"}
    resize("20m")
    wait_for(lambda: pending() == [], "the condition to be taken back")


def test_deployment_becomes_available_with_an_address_per_replica(agent: RunningAgent, api: Api) -> None:
    container = {
        "name": "main", "image": PYTHON_IMAGE, "command": script(SERVER), "env": [POD_IP],
        "readinessProbe": {"httpGet": {"port": 8080, "path": "healthz"}, "periodSeconds": 1},
        "startupProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }  # fmt: skip
    pod = {"nodeName": NODE, "containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {**pod, "terminationGracePeriodSeconds": 1}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    api.apps.create_namespaced_deployment(api.namespace, {"metadata": {"name": "web"}, "spec": spec})
    wait_for(
        lambda: api.apps.read_namespaced_deployment("web", api.namespace).status.available_replicas == 2,
        "the Deployment to be available",
    )
    pods = api.core.list_namespaced_pod(api.namespace).items
    addresses = {pod.status.pod_ip for pod in pods}
    assert len(addresses) == 2
    assert {get(address) for address in addresses} == {"fine"}
    assert {pod.status.host_ip for pod in pods} == {"127.0.0.1"}
    conditions = {condition.type: condition.status for condition in pods[0].status.conditions}
    wanted = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    assert conditions == dict.fromkeys(wanted, "True")


def test_failing_liveness_probe_restarts_the_container_and_says_why(agent: RunningAgent, api: Api) -> None:
    probe = {"httpGet": {"port": 8080, "path": "/live"}, "periodSeconds": 1, "failureThreshold": 2}
    api.pod(
        restartPolicy="Always",
        main={
            # The file that makes it sick is the pod's: gone only when the container removes it at its start.
            "command": script("import pathlib; pathlib.Path('/data/sick').unlink(missing_ok=True)\n" + SERVER),
            "env": [POD_IP],
            "livenessProbe": probe,
            "readinessProbe": {**probe, "failureThreshold": 1},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        },
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    api.wait_running()
    first = api.container()["containerID"]
    get(api.status()["podIP"], "/break")
    wait_for(lambda: api.container().get("restartCount") == 1, "the restart")
    again = api.wait_running()
    assert again["containerID"] != first
    assert again["lastState"]["terminated"]["exitCode"] == 143
    api.wait_for_event("Unhealthy", "statuscode: 500")
    api.wait_for_event("Killing", "Container main failed liveness probe, will be restarted")


def test_a_failing_container_backs_off_exponentially_and_shows_its_termination_message(
    agent: RunningAgent, api: Api
) -> None:
    api.pod(
        restartPolicy="Always",
        main={
            "command": script("raise SystemExit('no configuration')"),
            "terminationMessagePolicy": "FallbackToLogsOnError",
        },
    )
    state = wait_for(lambda: api.container().get("restartCount", 0) >= 2 and api.container(), "the second restart")
    assert state["lastState"]["terminated"]["exitCode"] == 1
    assert state["lastState"]["terminated"]["message"].strip() == "no configuration"
    waits = wait_for(lambda: api.container()["state"].get("waiting"), "the back-off")
    assert waits["reason"] == "CrashLoopBackOff"
    assert api.status()["phase"] == "Running"
    api.wait_for_event("BackOff", "Back-off restarting failed container")


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        pytest.param("Never", 0, "Succeeded", id="done"),
        pytest.param("Never", 3, "Failed", id="failed and never restarted"),
        pytest.param("OnFailure", 0, "Succeeded", id="no failure to restart on"),
    ],
)
def test_the_phase_depends_on_exit_code_and_restart_policy(
    agent: RunningAgent, api: Api, policy: str, code: int, phase: str
) -> None:
    api.pod(restartPolicy=policy, main={"command": script(f"raise SystemExit({code})")})
    assert api.terminated()["exitCode"] == code
    assert (
        wait_for(lambda: api.status()["phase"] not in ("Pending", "Running") and api.status()["phase"], "end") == phase
    )


def test_a_pod_gets_its_grace_period(agent: RunningAgent, api: Api) -> None:
    polite = """
import signal, sys, time
def bye(*_): print('ending', flush=True); time.sleep(1.5); print('ended', flush=True); sys.exit(0)
signal.signal(signal.SIGTERM, bye); print('ready', flush=True)
time.sleep(600)
"""
    api.pod(terminationGracePeriodSeconds=20, main={"command": script(polite)})
    api.wait_running()
    wait_for(lambda: "ready" in agent.container_log(api.namespace, "p"), "the handler")
    assert 1.4 < api.delete() < 8
    assert agent.container_log(api.namespace, "p").split() == ["ready", "ending", "ended"]


def test_a_pod_that_ignores_sigterm_is_killed_with_its_children(agent: RunningAgent, api: Api) -> None:
    stubborn = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)
print('ready', flush=True)
time.sleep(600)
"""
    api.pod(terminationGracePeriodSeconds=2, main={"command": script(stubborn)})
    wait_for(lambda: "ready" in agent.container_log(api.namespace, "p"), "the start")
    assert len(api.processes()) == 2
    assert 1.9 < api.delete() < 8
    assert api.processes() == []
    # They go after the object: whoever waits for the deletion waits for the processes only.
    wait_for(lambda: not list((agent.state_dir / "pods").glob("*/volumes/*/*")), "its volumes are gone")


def test_forced_deletion_kills_at_once(agent: RunningAgent, api: Api) -> None:
    api.pod(terminationGracePeriodSeconds=300, main={"command": script(SLEEP)})
    api.wait_running()
    api.delete(grace_period_seconds=0)
    wait_for(lambda: not api.processes(), "the processes to end")


def test_pre_stop_hook_runs_before_sigterm(agent: RunningAgent, api: Api) -> None:
    api.pod(
        terminationGracePeriodSeconds=10,
        main={
            "command": script("import time; print('up', flush=True); time.sleep(600)"),
            "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "echo hooked >> /proc/2/fd/1"]}}},
        },
    )
    api.wait_running()
    wait_for(lambda: "up" in agent.container_log(api.namespace, "p"), "the start")
    api.delete()
    assert agent.container_log(api.namespace, "p").split() == ["up", "hooked"]


def test_init_containers_run_in_order_before_the_main_one(agent: RunningAgent, api: Api) -> None:
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}], "image": PYTHON_IMAGE}
    write = "open('/data/log', 'a').write('{} ')"
    sidecar = "open('/data/log', 'a').write('sidecar '); open('/data/up', 'w'); import time; time.sleep(600)"
    api.pod(
        initContainers=[
            {"name": "one", "command": script(write.format("one")), **mount},
            {
                "name": "sidecar", "command": script(sidecar), "restartPolicy": "Always", **mount,
                "startupProbe": {"exec": {"command": ["/bin/sh", "-c", "test -f /data/up"]}, "periodSeconds": 1},
            },
            {"name": "two", "command": script(write.format("two")), **mount},
        ],
        main={"command": script("print(open('/data/log').read())"), **mount},
        volumes=[{"name": "data", "emptyDir": {}}],
    )  # fmt: skip
    assert api.terminated()["exitCode"] == 0
    assert agent.container_log(api.namespace, "p").split() == ["one", "sidecar", "two"]
    # The sidecar ends with the pod's work, or the pod would never be done.
    wait_for(lambda: api.status()["phase"] == "Succeeded", "the pod to succeed")
    assert api.container("p", "sidecar")["state"]["terminated"]["reason"] in ("Error", "Completed")


def test_failing_exec_readiness_probe_keeps_the_pod_unready(agent: RunningAgent, api: Api) -> None:
    command = ["/bin/sh", "-c", "test -f /data/ready || { echo not yet; exit 1; }"]
    api.pod(
        main={
            "command": script(
                "import time, pathlib; time.sleep(3); pathlib.Path('/data/ready').touch(); time.sleep(600)"
            ),
            "readinessProbe": {"exec": {"command": command}, "periodSeconds": 1},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        },
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    wait_for(lambda: api.container().get("state", {}).get("running"), "the start")
    assert api.container()["ready"] is False
    api.wait_running()
    api.wait_for_event("Unhealthy", "Readiness probe failed: not yet")


def test_unknown_image_is_reported_as_a_node_would(agent: RunningAgent, api: Api) -> None:
    api.pod(main={"image": "registry.example.com/nowhere:1"})
    reasons = set()
    wait_for(
        lambda: (
            reasons.add(api.container().get("state", {}).get("waiting", {}).get("reason", ""))
            or "ImagePullBackOff" in reasons
        ),
        "the image's failure",
    )
    assert reasons <= {"", "ContainerCreating", "ErrImagePull", "ImagePullBackOff"}
    api.wait_for_event("Failed", "Error: ErrImagePull")
    api.wait_for_event("Failed", 'Failed to pull image "registry.example.com/nowhere:1"')
    assert api.delete() < 8


def test_an_unsupported_field_is_refused_by_name(agent: RunningAgent, api: Api) -> None:
    api.pod(volumes=[{"name": "host", "hostPath": {"path": "/etc"}}], main={"command": script(SLEEP), "stdin": True})
    messages = wait_for(lambda: api.events("FailedCreatePodSandBox"), "the refusal")
    assert "spec.volumes[1].hostPath" in messages[0] or "spec.volumes[0].hostPath" in messages[0]
    assert "spec.containers[0].stdin" in messages[0]
    wait_for(lambda: api.container().get("state", {}).get("waiting", {}).get("message"), "the reason in the status")
    assert api.status()["phase"] == "Pending"
    assert api.processes() == []


def test_missing_executable_is_a_container_error(agent: RunningAgent, api: Api) -> None:
    api.pod(main={"command": ["/bin/nothing"]})
    waits = wait_for(lambda: api.container().get("state", {}).get("waiting", {}).get("message"), "the error")
    assert re.search(r'exec: "/bin/nothing": stat /bin/nothing: no such file', waits)


def test_a_container_runs_to_its_end(agent: RunningAgent, api: Api) -> None:
    api.pod(main={"command": ["/bin/sh", "-c", "true"]})
    api.terminated()
    assert api.terminated()["exitCode"] == 0


def test_logs_can_be_read_through_the_api_server(agent: RunningAgent, api: Api) -> None:
    count = (
        "import sys, time\nfor n in range(3): print('line', n, flush=True)\ntime.sleep(1); print('last', flush=True)"
    )
    api.pod(main={"command": script(count)})
    wait_for(lambda: "line 2" in agent.container_log(api.namespace, "p"), "the output")
    assert api.core.read_namespaced_pod_log("p", api.namespace, tail_lines=2).startswith("line 1\nline 2\n")
    followed = api.core.read_namespaced_pod_log("p", api.namespace, follow=True)
    assert followed == "line 0\nline 1\nline 2\nlast\n"
    assert api.core.read_namespaced_pod_log("p", api.namespace, limit_bytes=6) == "line 0"


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["exec", "main", "--", "ls"], "exec"),
        (["attach", "main"], "attach"),
        (["port-forward", "pod/main", ":8080"], "port-forward"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_kubectl_says_why_it_cannot(
    agent: RunningAgent, api: Api, node_cluster: LocalCluster, arguments: list[str], command: str
) -> None:
    api.pod("main", main={"command": script(SLEEP)})
    api.wait_running("main")
    kubectl = [str(ensure(["kubectl"], SilentReporter())["kubectl"]), f"--kubeconfig={node_cluster.kubeconfig}"]
    done = subprocess.run(
        [*kubectl, f"--namespace={api.namespace}", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert f"this local cluster does not support kubectl {command}: " in done.stderr


def test_logs_are_for_the_api_server_only(
    agent: RunningAgent, api: Api, node_cluster: LocalCluster, tmp_path: Path
) -> None:
    port = api.core.read_node(NODE).status.daemon_endpoints.kubelet_endpoint.port
    url = f"https://127.0.0.1:{port}/containerLogs/{api.namespace}/p/main"
    context = ssl._create_unverified_context()
    with pytest.raises(OSError, match=r"closed connection|certificate required"):
        urllib.request.urlopen(url, context=context)
    user = yaml.safe_load(node_cluster.layout.node_kubeconfig(NODE).read_text())["users"][0]["user"]
    pair = tmp_path / "node.pem"
    pair.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
    context.load_cert_chain(pair)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(url, context=context)
