"""The oracle of extenders: a recording extender each for the real kube-scheduler 1.34 and for ours, on one API server
and with one configuration. Both must make the same calls, bodies decoded, and come to the same placement or message.

Configurations are in tests/data/extenders. First a pod is the real scheduler's; then it is created again as ours.
"""

from __future__ import annotations

import copy
import difflib
import json
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from tests.conformance.controlplane import ControlPlane
from tests.integration.scheduler.preemption import daemon_running
from tests.support.extender import Raw, RecordingExtender, extender_running
from tests.support.kubescheduler import kube_scheduler_running
from tests.support.simulating import run
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration]

CONFIGURATIONS = Path(__file__).parents[2] / "data" / "extenders"
NAMESPACE = "extended"
REAL, OURS = "extended-real", "extended-ours"
NODES = ("n1", "n2", "n3")
COSCHEDULING = {
    "plugins": {
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
    },
    "pluginConfig": [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 20}}],
}
GROUP = "extended-gang"
_OF_ONE_OBJECT = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
Json = Any


class Schedulers:
    """The API server as the administrator, and both schedulers with an extender each."""

    def __init__(self, plane: ControlPlane) -> None:
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = str(plane.layout.pki("ca.crt"))
        self._session.cert = str(plane.layout.pki("admin.crt")), str(plane.layout.pki("admin.key"))
        self._server = plane.api_server
        self.plane = plane

    def call(self, method: str, path: str, body: Json = None) -> Json:
        """Ask the API server; None for what is not there or is there already."""
        response = self._session.request(method, f"{self._server}{path}", json=body, timeout=30)
        if response.status_code in (404, 409):
            return None
        response.raise_for_status()
        return response.json()

    def pod(self, name: str) -> Json:
        return self.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")

    def create_pod(
        self, name: str, scheduler: str, resources: Json, labels: dict[str, str] | None = None, **spec: Any
    ) -> Json:
        containers = [{"name": "c", "image": "i", "resources": resources}]
        body = {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"schedulerName": scheduler, "containers": containers, **spec},
        }
        return self.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)

    def delete_pods(self) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        self.call("DELETE", path, {"gracePeriodSeconds": 0})
        eventually(lambda: not self.call("GET", path)["items"], "no pod is left")

    def outcome(self, name: str, *, bound: bool = False) -> str:
        """Wait for a pod's node, or for why it has none; with `bound` for the node alone."""

        def seen() -> str:
            pod = self.pod(name)
            conditions = pod["status"].get("conditions", [])
            reasons = [f"{each['reason']}: {each['message']}" for each in conditions if each.get("reason")]
            node: str = pod["spec"].get("nodeName", "")
            return node or ("" if bound else "".join(reasons))

        return eventually(seen, f"what becomes of {name}")

    def set_group(self, name: str, minimum: int) -> None:
        """Make a PodGroup, or change it: while it is gone, both schedulers would place its pods one by one."""
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/podgroups"
        group = self.call("GET", f"{path}/{name}")
        if group is None:
            head = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}}
            self.call("POST", path, {**head, "spec": {"minMember": minimum}})
        elif group["spec"]["minMember"] != minimum:
            group["spec"]["minMember"] = minimum
            self.call("PUT", f"{path}/{name}", group)

    def outcomes(self, names: Iterable[str]) -> tuple[dict[str, str], str]:
        """Return who is on which node, and all messages of the others."""
        pods = [self.pod(name) for name in names]
        nodes = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
        messages = [each.get("message", "") for pod in pods for each in pod["status"].get("conditions", [])]
        return nodes, "\n".join(messages)

    def bind(self, body: Json) -> Json:
        """Bind a pod as an extender's own account would."""
        target = {"apiVersion": "v1", "kind": "Node", "name": body["Node"]}
        binding = {"metadata": {"name": body["PodName"], "uid": body["PodUID"]}, "target": target}
        path = f"/api/v1/namespaces/{body['PodNamespace']}/pods/{body['PodName']}/binding"
        self._session.post(f"{self._server}{path}", json=binding, timeout=30).raise_for_status()
        return {"Error": ""}


@pytest.fixture(scope="module")
def stage(plane: ControlPlane) -> Schedulers:
    stage = Schedulers(plane)
    stage.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    for name in NODES:
        labels = {"kubernetes.io/hostname": name}
        status = {"allocatable": resources, "capacity": resources}
        stage.call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
    return stage


def configuration(fixture: str, url: str, scheduler: str, kubeconfig: Path, *, gangs: bool = False) -> str:
    extenders = yaml.safe_load((CONFIGURATIONS / fixture).read_text())
    for extender in extenders:
        extender["urlPrefix"] = url
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"schedulerName": scheduler, **(COSCHEDULING if gangs else {})}],
        "extenders": extenders,
    }
    return json.dumps(content)


def real_binary(*, gangs: bool) -> Path:
    """The real scheduler's; scheduler-plugins' for gangs."""
    if gangs:
        return binaries.ensure(["scheduler-plugins"], SilentReporter())["scheduler-plugins"]
    return next(Path.home().glob(".cache/secondary-scheduler/bin/kube-scheduler-1.34*"))


class Contest:
    """One pod after the other, each for both schedulers, and the calls that came of it."""

    def __init__(self, stage: Schedulers, real: RecordingExtender, ours: RecordingExtender) -> None:
        self._stage = stage
        self._extenders = {REAL: real, OURS: ours}

    def play(
        self, resources: Json, before: Callable[[], None] = lambda: None, *, bound: bool = False, **spec: Any
    ) -> tuple[str, list[Any]]:
        """Return outcome and calls, which are the same for both."""
        results = {}
        for scheduler, extender in self._extenders.items():
            self._stage.delete_pods()
            before()
            extender.calls.clear()
            self._stage.create_pod("contestant", scheduler, resources, **spec)
            outcome = self._stage.outcome("contestant", bound=bound)
            results[scheduler] = outcome, comparable(extender.calls)
        real, ours = results[REAL], results[OURS]
        assert ours[0] == real[0]
        # An attempt that fails is repeated: how often by now is chance.
        shared = min(len(real[1]), len(ours[1]))
        assert shared > 0 or real[1] == ours[1]
        expected, got = (text_of(calls[:shared]) for calls in (real[1], ours[1]))
        assert not list(difflib.unified_diff(expected, got, "kube-scheduler", "ours", n=2))
        return real[0], real[1]

    def play_gang(
        self, members: dict[str, Json], minimum: int, *, bound: int, reason: str = ""
    ) -> tuple[dict[str, str], list[str]]:
        """Place a gang; returns its nodes and the paths of all calls, each once, which are the same for both.

        Args:
            members: resources by name.
            minimum: of the PodGroup.
            bound: how many members get a node.
            reason: what a message must say.
        """
        results = {}
        for scheduler, extender in self._extenders.items():
            self._stage.delete_pods()
            self._stage.set_group(GROUP, minimum)
            extender.calls.clear()
            for name, resources in members.items():
                self._stage.create_pod(name, scheduler, resources, {"scheduling.x-k8s.io/pod-group": GROUP})

            def is_settled() -> bool:
                nodes, messages = self._stage.outcomes(members)
                return len(nodes) == bound and reason in messages

            eventually(is_settled, f"{scheduler}: {bound} members are bound")
            # When upstream tries a member again, and in which order, is chance.
            calls = {json.dumps(call, sort_keys=True) for call in comparable(extender.calls)}
            results[scheduler] = self._stage.outcomes(members)[0], calls
        real, ours = results[REAL], results[OURS]
        assert ours[0] == real[0]
        # Upstream gives a gang up at the first member that fits nowhere, and which one that is, is chance, too.
        assert ours[1] == real[1] if bound == len(members) else ours[1] >= real[1]
        return real[0], sorted(json.loads(call)[0] for call in real[1])


def simulated(stage: Schedulers, directory: Path) -> Json:
    """Decide about our pod once more, with the answers that our daemon recorded."""
    pod = stage.pod("contestant")
    pod["spec"].pop("nodeName", None)
    nodes = stage.call("GET", "/api/v1/nodes")["items"]
    items = [{"apiVersion": "v1", "kind": kind, **each} for kind, each in [("Pod", pod), *(("Node", n) for n in nodes)]]
    snapshot = directory / "snapshot.json"
    snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    files = "--config", directory / "config.yaml", "--snapshot", snapshot
    result = run("simulate", *files, "--extender-recording", directory / "recording", "-o", "json")
    return result.decisions[f"{NAMESPACE}/contestant"]


def comparable(calls: list[tuple[str, Json]]) -> list[Any]:
    """Return calls without what differs between two pods of one name."""
    result = []
    for path, body in copy.deepcopy(calls):
        for pod in pods_in(body):
            for field in _OF_ONE_OBJECT:
                pod["metadata"].pop(field, None)
            pod["spec"].pop("schedulerName")
            # What a former attempt wrote may have been seen or not.
            pod["status"].pop("conditions", None)
        if body.get("Nodes"):
            body["Nodes"]["items"].sort(key=lambda node: node["metadata"]["name"])
            for node in body["Nodes"]["items"]:
                node["metadata"].pop("resourceVersion")
                # A listed difference: ours leaves them out.
                node["metadata"].pop("managedFields", None)
        if body.get("NodeNames"):
            body["NodeNames"].sort()
        body.pop("PodUID", None)
        result.append((path, body))
    return result


def text_of(calls: list[Any]) -> list[str]:
    return json.dumps(calls, indent=1, sort_keys=True).splitlines()


def pods_in(body: Json) -> Iterator[Json]:
    if "Pod" in body:
        yield body["Pod"]
    for victims in (body.get("NodeNameToVictims") or {}).values():
        yield from victims["Pods"]


@contextmanager
def contest(
    stage: Schedulers,
    directory: Path,
    fixture: str,
    behavior: Callable[[str, Json], Json],
    *,
    tls: bool = False,
    gangs: bool = False,
) -> Iterator[Contest]:
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(stage.plane.layout.pki("apiserver.crt"), stage.plane.layout.pki("apiserver.key"))
    kubeconfig = stage.plane.layout.kubeconfig
    if gangs:  # before the schedulers start, so that both know it before its pods
        stage.set_group(GROUP, 3)
    with ExitStack() as stack:
        real = stack.enter_context(extender_running(behavior, context))
        ours = stack.enter_context(extender_running(behavior, context))
        stack.enter_context(
            kube_scheduler_running(
                real_binary(gangs=gangs),
                kubeconfig,
                directory,
                configuration(fixture, real.url, REAL, kubeconfig, gangs=gangs),
            )
        )
        stack.enter_context(
            daemon_running(
                directory,
                configuration(fixture, ours.url, OURS, kubeconfig, gangs=gangs),
                ("--secure-port=0", f"--extender-recording={directory / 'recording'}"),
            )
        )
        yield Contest(stage, real, ours)
        stage.delete_pods()


def test_a_device_plugins_extender_is_called_and_binds_as_under_kube_scheduler(
    stage: Schedulers, tmp_path: Path
) -> None:
    def behavior(verb: str, body: Json) -> Json:
        if verb == "bind":
            return stage.bind(body)
        limits = body["Pod"]["spec"]["containers"][0]["resources"]["limits"]
        if limits["gpu.example.com/cores"] == "7":
            return {"NodeNames": [], "FailedNodes": {"n1": "no GPU"}, "FailedAndUnresolvableNodes": {"n2": "no driver"}}
        if limits["gpu.example.com/cores"] == "8":
            return {"Error": "the device registry is empty"}
        return {"NodeNames": ["n2"], "FailedNodes": {"n1": "no GPU", "n3": "no GPU"}, "Error": ""}

    def gpus(count: str) -> Json:
        return {"limits": {"gpu.example.com/cores": count, "gpu.example.com/memory": "10"}}

    with contest(stage, tmp_path, "device-plugin.yaml", behavior, tls=True) as running:
        outcome, calls = running.play(gpus("1"))
        assert (outcome, [path for path, _ in calls]) == ("n2", ["/filter", "/bind"])
        outcome, _ = running.play(gpus("7"))
        assert outcome.startswith("Unschedulable: 0/3 nodes are available: 1 no GPU, 1 no driver.")
        outcome, _ = running.play(gpus("8"))
        assert outcome == "SchedulerError: the device registry is empty"
        # Of no interest: both schedulers bind it themselves, wherever they like.
        outcome, calls = running.play({"requests": {"cpu": "100m"}}, nodeSelector={"kubernetes.io/hostname": "n1"})
        assert (outcome, calls) == ("n1", [])


def test_a_storage_extender_gets_whole_nodes_and_its_scores_decide(stage: Schedulers, tmp_path: Path) -> None:
    def behavior(verb: str, body: Json) -> Json:
        nodes = body["Nodes"]["items"]
        if verb == "prioritize":
            return [
                {"Host": node["metadata"]["name"], "Score": int(node["metadata"]["name"][1:]) * 3} for node in nodes
            ]
        wanted = body["Pod"]["spec"].get("terminationGracePeriodSeconds")
        kept = [node for node in nodes if wanted != 5 and node["metadata"]["name"] != "n1"]
        return {"Nodes": {"items": kept}, "FailedNodes": {"n1": "no replica"}}

    with contest(stage, tmp_path, "storage.yaml", behavior) as running:
        outcome, calls = running.play({"requests": {"cpu": "100m"}})
        assert (outcome, [path for path, _ in calls]) == ("n3", ["/filter", "/prioritize"])
        # A node that only the plugins reject is not shown to the extender.
        outcome, calls = running.play({"requests": {"cpu": "100m"}}, nodeSelector={"kubernetes.io/hostname": "n2"})
        assert (outcome, [path for path, _ in calls]) == ("n2", ["/filter"])
        outcome, _ = running.play({"requests": {"cpu": "100m"}}, terminationGracePeriodSeconds=5)
        assert outcome.startswith("Unschedulable: 0/3 nodes are available: 1 no replica.")
        # The latest answers are those about the last pod.
        decision = simulated(stage, tmp_path)
        assert decision["node"] is None
        assert decision["message"].startswith("0/3 nodes are available: 1 no replica.")
        outcome, _ = running.play({"requests": {"cpu": "100m"}})
        assert simulated(stage, tmp_path)["node"] == outcome == "n3"


@pytest.mark.slow
def test_an_extender_has_its_say_in_preemption(stage: Schedulers, tmp_path: Path) -> None:
    for name, value in (("extended-low", 1), ("extended-high", 1000)):
        stage.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})

    def behavior(verb: str, body: Json) -> Json:
        victims = body["NodeNameToVictims"]["n2"]
        return {
            "NodeNameToMetaVictims": {
                "n2": {"Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]], "NumPDBViolations": 0}
            }
        }

    def occupy() -> None:
        for name in NODES:
            stage.create_pod(
                f"victim-{name}",
                "nobody",
                {"requests": {"cpu": "4"}},
                priorityClassName="extended-low",
                nodeName=name,
                terminationGracePeriodSeconds=0,
            )

    with contest(stage, tmp_path, "preempting.yaml", behavior) as running:
        outcome, calls = running.play({"requests": {"cpu": "4"}}, occupy, bound=True, priorityClassName="extended-high")
        assert outcome == "n2"
        assert [path for path, _ in calls][:1] == ["/preempt"]
        assert set(calls[0][1]["NodeNameToVictims"]) == set(NODES)
        assert stage.pod("victim-n2") is None
        assert stage.pod("victim-n1") is not None


@pytest.fixture(scope="module")
def with_groups(stage: Schedulers) -> Schedulers:
    manifest = Path(__file__).parents[3] / "components/crds/scheduling.x-k8s.io_podgroups.yaml"
    stage.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(manifest.read_text()))
    groups = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/podgroups"

    def is_served() -> bool:
        # 429 until the API server has made a place for them.
        with suppress(requests.HTTPError):
            return bool(stage.call("GET", groups))
        return False

    eventually(is_served, "the PodGroup kind is served")
    return stage


@pytest.mark.slow
def test_members_of_a_gang_are_placed_and_bound_as_under_scheduler_plugins(
    with_groups: Schedulers, tmp_path: Path
) -> None:
    def behavior(verb: str, body: Json) -> Json:
        if verb == "bind":
            return with_groups.bind(body)
        wanted = {"a": "n2", "b": "n3", "c": "n2"}.get(body["Pod"]["metadata"]["name"])
        failed = {name: "no GPU" for name in NODES if name != wanted}
        return {"NodeNames": [wanted] if wanted else [], "FailedNodes": failed}

    gpu = {"limits": {"gpu.example.com/cores": "1"}}
    with contest(with_groups, tmp_path, "device-plugin.yaml", behavior, tls=True, gangs=True) as running:
        nodes, calls = running.play_gang(dict.fromkeys("abc", gpu), 3, bound=3)
        assert nodes == {"a": "n2", "b": "n3", "c": "n2"}
        assert calls == ["/bind"] * 3 + ["/filter"] * 3
        nodes, calls = running.play_gang(dict.fromkeys("abd", gpu), 3, bound=0, reason="3 no GPU")
        assert (nodes, set(calls)) == ({}, {"/filter"})
        nodes, _ = running.play_gang(dict.fromkeys("abd", gpu), 2, bound=2, reason="3 no GPU")
        assert nodes == {"a": "n2", "b": "n3"}


@pytest.mark.slow
def test_scores_place_the_members_of_a_gang_as_under_scheduler_plugins(with_groups: Schedulers, tmp_path: Path) -> None:
    favourites = {"a": "n3", "b": "n1", "c": "n2"}

    def behavior(verb: str, body: Json) -> Json:
        nodes = body["Nodes"]["items"]
        if verb == "prioritize":
            favourite = favourites[body["Pod"]["metadata"]["name"]]
            names = [node["metadata"]["name"] for node in nodes]
            return [{"Host": name, "Score": 10 * (name == favourite)} for name in names]
        return {"Nodes": {"items": nodes}}

    with contest(with_groups, tmp_path, "storage.yaml", behavior, gangs=True) as running:
        nodes, calls = running.play_gang({name: {"requests": {"cpu": "100m"}} for name in "abc"}, 3, bound=3)
        assert nodes == favourites
        assert calls == ["/filter"] * 3 + ["/prioritize"] * 3


@pytest.mark.slow
def test_dead_late_and_odd_extenders_are_named_and_other_pods_go_on(stage: Schedulers, tmp_path: Path) -> None:
    def behavior(verb: str, body: Json) -> Json:
        limits = body["Pod"]["spec"]["containers"][0]["resources"]["limits"]
        return Raw(delay=30) if "late.example.com/device" in limits else Raw(body=b"<html>")

    causes = {
        "dead": "http://127.0.0.1:1/filter: Cannot connect to host",
        "late": "/filter: no answer within 0.5 s",
        "odd": "/filter: the answer cannot be read: JSON is malformed",
    }
    with extender_running(behavior) as server:
        content = json.loads(configuration("storage.yaml", server.url, OURS, stage.plane.layout.kubeconfig))
        content["extenders"] = [
            {
                "urlPrefix": "http://127.0.0.1:1" if kind == "dead" else server.url,
                "filterVerb": "filter",
                "httpTimeout": "500ms",
                "managedResources": [{"name": f"{kind}.example.com/device", "ignoredByScheduler": True}],
            }
            for kind in causes
        ]
        with daemon_running(tmp_path, json.dumps(content)):
            for kind in causes:
                stage.create_pod(kind, OURS, {"limits": {f"{kind}.example.com/device": "1"}})
            stage.create_pod("plain", OURS, {"requests": {"cpu": "100m"}})
            assert stage.outcome("plain", bound=True) in NODES
            for kind, cause in causes.items():
                outcome = stage.outcome(kind)
                assert outcome.startswith("SchedulerError: failed filter with extender at URL http://127.0.0.1:")
                assert cause in outcome
            stage.delete_pods()
