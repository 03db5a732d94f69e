"""Devices on a real API server, with the real resourceclaim controller, beside the real kube-scheduler.

Each case is played twice on one server: for our daemon, under the rights that the installation gives, and for
kube-scheduler of the same version, with nodes, slices and classes of the same names but for a prefix. What both write
into the claims must be equal. Nodes are bare objects; the test plays the drivers.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import releases
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from scheduler.kube.client import NotFound
from tests.integration.operator.support import Api
from tests.integration.scheduler.shipped_rights import kubeconfig_with_shipped_rights
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.unit.scheduler.plugins.devices import device, exactly, first_available

pytestmark = [pytest.mark.integration]

DRA = "/apis/resource.k8s.io/v1"
ME = f"devices-{os.getpid()}"
OURS, THEIRS = f"{ME}-ours", f"{ME}-theirs"
_numbers = itertools.count(1)


def configuration(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": name}],
    }


class DeviceNodes:
    """Nodes, classes and slices of one scheduler: their names begin with its name."""

    def __init__(self, api: Api, scheduler: str) -> None:
        self.api = api
        self.scheduler = scheduler
        self.driver = f"{scheduler}.example.com"
        self._made: list[str] = []

    def named(self, name: str) -> str:
        return f"{self.scheduler}-{name}"

    def _post(self, path: str, name: str, **content: Any) -> None:
        self.api.call("POST", path, {"metadata": {"name": name}, **content})
        self._made.append(f"{path}/{name}")

    def nodes(self, *names: str) -> None:
        for name in map(self.named, names):
            labels = {"kubernetes.io/hostname": name, "test": self.scheduler}
            self.api.call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
            self._made.append(f"/api/v1/nodes/{name}")
            amounts = {"cpu": "64", "memory": "64Gi", "pods": "110"}
            condition = {"type": "Ready", "status": "True", "reason": "Test"}
            status = {"status": {"allocatable": amounts, "capacity": amounts, "conditions": [condition]}}
            self.api.call("PATCH", f"/api/v1/nodes/{name}/status", status, "application/merge-patch+json")

    def device_class(self, name: str, *expressions: str, **spec: Any) -> None:
        mine = f'device.driver == "{self.driver}"'
        selectors = [{"cel": {"expression": expression}} for expression in (mine, *expressions)]
        self._post(f"{DRA}/deviceclasses", self.named(name), spec={"selectors": selectors, **spec})

    def slice(self, node: str, *devices: dict[str, Any]) -> None:
        name = self.named(node)
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": self.driver, "pool": pool, "nodeName": name, "devices": list(devices)}
        self._post(f"{DRA}/resourceslices", name, spec=spec)

    def _devices(self, requests: tuple[dict[str, Any], ...], more: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps({"requests": list(requests), **more})
        # Requests are written with the class "gpu" and the domain "gpu.example.com".
        text = text.replace('"deviceClassName": "', f'"deviceClassName": "{self.scheduler}-')
        return json.loads(text.replace("gpu.example.com", self.driver))  # type: ignore[no-any-return]

    def claims(self) -> str:
        return f"{DRA}/namespaces/{ME}/resourceclaims"

    def claim(self, *requests: dict[str, Any], **more: Any) -> str:
        name = self.named(f"claim-{next(_numbers)}")
        self._post(self.claims(), name, spec={"devices": self._devices(requests, more)})
        return name

    def template(self, *requests: dict[str, Any], **more: Any) -> str:
        name = self.named(f"template-{next(_numbers)}")
        path = f"{DRA}/namespaces/{ME}/resourceclaimtemplates"
        self._post(path, name, spec={"spec": {"devices": self._devices(requests, more)}})
        return name

    def taint_rule(self, name: str, effect: str, **selector: str) -> None:
        spec = {"deviceSelector": {"driver": self.driver, **selector}, "taint": {"key": "broken", "effect": effect}}
        self._post(f"{DRA}/devicetaintrules", self.named(name), spec=spec)

    def forget(self, path: str) -> None:
        """Delete something that was made."""
        self.api.call("DELETE", path)
        self._made.remove(path)

    def pod(self, *sources: dict[str, str], init: tuple[int, ...] = (), main: tuple[int, ...] = (0,)) -> str:
        """A pod with claims; `init` and `main` say how many of `<driver>/gpu` each container asks for."""
        name = self.named(f"pod-{next(_numbers)}")
        claims = [{"name": f"c{index}", **source} for index, source in enumerate(sources)]
        spec = {
            "schedulerName": self.scheduler,
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"test": self.scheduler},
            "tolerations": [{"operator": "Exists"}],
            "initContainers": [self._container(f"i{at}", count) for at, count in enumerate(init)],
            "containers": [self._container(f"c{at}", count, claims if not at else []) for at, count in enumerate(main)],
            "resourceClaims": claims,
        }
        self.api.create("pods", name, spec=spec)
        self._made.append(f"/api/v1/namespaces/{ME}/pods/{name}")
        return name

    def _container(self, name: str, count: int, claims: list[dict[str, str]] | None = None) -> dict[str, Any]:
        amounts = {f"{self.driver}/gpu": str(count)} if count else {}
        uses = [{"name": claim["name"]} for claim in claims or ()]
        resources = {"claims": uses, "requests": {"cpu": "1", **amounts}, "limits": amounts}
        return {"name": name, "image": "pause", "resources": resources}

    def special_claim(self, pod: str) -> Any:
        """What a pod's status says of the claim for its extended resources, and that claim's spec and metadata."""
        status = self.api.get("pods", pod)["status"].get("extendedResourceClaimStatus")
        if status is None:
            return None
        claim = self.api.call("GET", f"{self.claims()}/{status['resourceClaimName']}")
        meta = claim["metadata"]
        (owner,) = meta["ownerReferences"]
        content = {
            "mappings": status["requestMappings"],
            "spec": claim["spec"],
            "annotations": meta["annotations"],
            "generateName": meta["generateName"].replace(pod, "POD"),
            "owner": {key: value for key, value in owner.items() if key not in ("uid", "name")},
            "status": self.status(meta["name"]),
        }
        return json.loads(json.dumps(content).replace(self.scheduler, "S"))

    def delete(self, pod: str) -> None:
        self.api.call("DELETE", f"/api/v1/namespaces/{ME}/pods/{pod}", {"gracePeriodSeconds": 0})

    def node_of(self, pod: str) -> str:
        answer = self.api.get("pods", pod)
        return str(answer["spec"].get("nodeName", "")).removeprefix(f"{self.scheduler}-")

    def wait_bound(self, pod: str) -> str:
        return str(eventually(lambda: self.node_of(pod), f"{pod} bound: {self.message(pod)}"))

    def message(self, pod: str) -> str:
        conditions = self.api.get("pods", pod)["status"].get("conditions", [])
        text = next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")
        return re.sub(r"claim-\d+", "claim", str(text).replace(self.scheduler, "S"))

    def claim_of(self, pod: str) -> str:
        return str(self.api.get("pods", pod)["status"]["resourceClaimStatuses"][0]["resourceClaimName"])

    def status(self, claim: str) -> Any:
        """A claim's status without names that differ between the two."""
        answer = self.api.call("GET", f"{self.claims()}/{claim}")
        text = json.dumps({"status": answer.get("status", {}), "finalizers": answer["metadata"].get("finalizers", [])})
        plain = json.loads(text.replace(self.scheduler, "S"))
        # From 1.36 on: when it was allocated.
        allocation = plain["status"].get("allocation", {})
        allocation.pop("allocationTimestamp", None)
        for result in allocation.get("devices", {}).get("results", ()):
            # Drawn at random by one of them.
            if "shareID" in result:
                result["shareID"] = "drawn"
        for user in plain["status"].get("reservedFor", []):
            del user["uid"], user["name"]
        return plain

    def clean(self) -> None:
        """Delete everything that was made, pods first, so that the controller frees the claims."""
        for path in reversed(self._made):
            with contextlib.suppress(NotFound):
                self.api.call("DELETE", path, {"gracePeriodSeconds": 0})
        eventually(
            lambda: (
                not [
                    item
                    for item in self.api.call("GET", self.claims())["items"]
                    if item["metadata"]["name"].startswith(self.scheduler)
                ]
            ),
            "claims gone",
        )
        self._made.clear()


@pytest.fixture(scope="module")
def api(control_plane: Any) -> Iterator[Api]:
    api = Api(control_plane.kubeconfig, ME)
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": ME}})

    def has_account() -> bool:
        with contextlib.suppress(NotFound):
            api.call("GET", f"/api/v1/namespaces/{ME}/serviceaccounts/default")
            return True
        return False

    eventually(has_account, "the default service account")
    yield api
    api.call("DELETE", f"/api/v1/namespaces/{ME}")
    api.close()


@pytest.fixture(scope="module")
def kubeconfig(api: Api, control_plane: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("devices")
    return kubeconfig_with_shipped_rights(api, Path(control_plane.kubeconfig), configuration(OURS), directory)


@contextlib.contextmanager
def running(command: list[str], name: str, kubeconfig: Path, ready: str) -> Iterator[None]:
    """One of the schedulers."""
    file = kubeconfig.parent / f"{name}.yaml"
    file.write_text(json.dumps({**configuration(name), "clientConnection": {"kubeconfig": str(kubeconfig)}}))
    log = kubeconfig.parent / f"{name}.log"
    with log.open("w") as output:
        process = subprocess.Popen([*command, f"--config={file}", "--secure-port=0"], stdout=output, stderr=output)
    try:
        eventually(lambda: ready in log.read_text() or process.poll() is not None, f"{name} ready")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECONDS)
    assert "Traceback" not in log.read_text()


@pytest.fixture(scope="module", autouse=True)
def schedulers(
    api: Api, kubeconfig: Path, control_plane: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Ours, with its rights, and kube-scheduler, as the administrator."""
    binary = binaries.ensure(["kube-scheduler"], SilentReporter())["kube-scheduler"]
    theirs = tmp_path_factory.mktemp("theirs") / "kubeconfig"
    theirs.write_text(Path(control_plane.kubeconfig).read_text())
    with (
        running([sys.executable, "-m", "scheduler"], OURS, kubeconfig, "caches are filled"),
        running([str(binary), "-v=2"], THEIRS, theirs, "Caches populated"),
    ):
        yield


@pytest.fixture
def worlds(api: Api) -> Iterator[tuple[DeviceNodes, DeviceNodes]]:
    pair = DeviceNodes(api, OURS), DeviceNodes(api, THEIRS)
    yield pair
    for world in pair:
        world.clean()


FULL = "cannot allocate all claims"
GPUS = tuple(
    device(
        f"gpu-{index}",
        attributes={
            "model": "large" if index % 2 else "small",
            "numa": index // 2,
            "version": {"version": f"1.{index}.0"},
        },
        capacity={"memory": f"{10 * (index + 1)}Gi"},
    )
    for index in range(4)
)
CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "one": ([exactly()], {}),
    "three": ([exactly(count=3)], {}),
    "all": ([exactly(allocationMode="All")], {}),
    "selected": ([exactly(when='device.attributes["gpu.example.com"].model == "large"', count=2)], {}),
    "by capacity": (
        [exactly(when='device.capacity["gpu.example.com"].memory.compareTo(quantity("25Gi")) > 0')],
        {},
    ),
    "by version": (
        [exactly(when='device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.1.9"))')],
        {},
    ),
    "two of one NUMA node": (
        [exactly(when='device.attributes["gpu.example.com"].model == "large"'), exactly("s")],
        {"constraints": [{"matchAttribute": "gpu.example.com/numa"}]},
    ),
    "the first alternative that there is": (
        [first_available("r", exactly("many", count=5), exactly("few", count=2), exactly("one"))],
        {},
    ),
    "the configuration of its only class": ([exactly("r", "configured")], {}),
    "a configuration for both requests": (
        [exactly("a"), exactly("b")],
        {"config": [{"requests": ["a", "b"], "opaque": {"driver": "gpu.example.com", "parameters": {"mode": "fast"}}}]},
    ),
    "two requests with configuration": (
        [exactly("a"), exactly("b", "configured")],
        {"config": [{"requests": ["a"], "opaque": {"driver": "gpu.example.com", "parameters": {"mode": "fast"}}}]},
    ),
}


def fill(world: DeviceNodes) -> None:
    world.nodes("a")
    world.device_class("gpu")
    world.device_class("configured", config=[{"opaque": {"driver": world.driver, "parameters": {"size": 1}}}])
    world.slice("a", *GPUS)


def test_both_write_the_same_into_claims(worlds: tuple[DeviceNodes, DeviceNodes]) -> None:
    """Case by case: allocation, reservation, finalizer."""
    for world in worlds:
        fill(world)
    for title, (requests, more) in CASES.items():
        written = []
        for world in worlds:
            claim = world.claim(*requests, **more)
            pod = world.pod({"resourceClaimName": claim})
            assert world.wait_bound(pod) == "a", title
            written.append(world.status(claim))
            world.delete(pod)
            # The resourceclaim controller frees it once the pod is gone.
            eventually(lambda world=world, claim=claim: "allocation" not in world.status(claim)["status"], "freed")
        assert written[0] == written[1], title
        assert written[0]["finalizers"] == ["resource.kubernetes.io/delete-protection"]


def test_both_say_the_same_of_claims_that_cannot_be_had(worlds: tuple[DeviceNodes, DeviceNodes]) -> None:
    cases: dict[str, list[dict[str, Any]]] = {
        "too many": [exactly(count=5)],
        "no class": [exactly(device_class="absent")],
        "a selector that fails": [exactly(when='device.attributes["gpu.example.com"].absent == 1')],
    }
    for world in worlds:
        fill(world)
    for title, requests in cases.items():
        messages = []
        for world in worlds:
            pod = world.pod({"resourceClaimName": world.claim(*requests)})
            messages.append(eventually(lambda world=world, pod=pod: world.message(pod), f"{title}: a message"))
        assert messages[0] == messages[1], title


def test_template_claims_share_devices_and_wait_for_each_other(worlds: tuple[DeviceNodes, DeviceNodes]) -> None:
    """Two devices, three pods: the third waits until the controller has freed a claim, and takes its device."""
    for world in worlds:
        fill(world)
        template = world.template(exactly(count=2))
        first, second = (world.pod({"resourceClaimTemplateName": template}) for _ in range(2))
        for pod in (first, second):
            world.wait_bound(pod)
        third = world.pod({"resourceClaimTemplateName": template})
        eventually(lambda world=world, third=third: FULL in world.message(third), "a reason")
        devices = [
            result["device"]
            for pod in (first, second)
            for result in world.status(world.claim_of(pod))["status"]["allocation"]["devices"]["results"]
        ]
        assert sorted(devices) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
        world.delete(first)
        assert world.wait_bound(third) == "a"


def test_a_claim_is_shared_by_pods(worlds: tuple[DeviceNodes, DeviceNodes]) -> None:
    for world in worlds:
        fill(world)
        claim = world.claim(exactly())
        pods = [world.pod({"resourceClaimName": claim}) for _ in range(3)]
        for pod in pods:
            assert world.wait_bound(pod) == "a"
        assert len(world.status(claim)["status"]["reservedFor"]) == 3


since_1_36 = pytest.mark.skipif(
    int(releases.chosen().partition(".")[2]) < 36, reason="the API server drops what these need, by default"
)


@since_1_36
def test_both_share_the_capacity_of_a_device(worlds: tuple[DeviceNodes, DeviceNodes]) -> None:
    memory = {"value": "10Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}}
    shared = {"name": "gpu-0", "capacity": {"memory": memory}, "allowMultipleAllocations": True}
    outcomes = []
    for world in worlds:
        world.nodes("a")
        world.device_class("gpu")
        world.slice("a", shared)
        claims = [
            world.claim(exactly(capacity={"requests": {"memory": amount}})) for amount in ("2500Mi", "6Gi", "2Gi")
        ]
        first, second, third = (world.pod({"resourceClaimName": claim}) for claim in claims)
        for pod in (first, second):
            world.wait_bound(pod)
        eventually(lambda world=world, third=third: FULL in world.message(third), "no capacity is left")
        outcomes.append([world.status(claim) for claim in claims])
    assert outcomes[0] == outcomes[1]
    (result,) = outcomes[0][0]["status"]["allocation"]["devices"]["results"]
    assert (result["shareID"], result["consumedCapacity"]) == ("drawn", {"memory": "3Gi"})


@since_1_36
def test_both_wait_until_a_device_is_ready(worlds: tuple[DeviceNodes, DeviceNodes]) -> None:
    fabric = device("gpu-0", bindsToNode=True, bindingConditions=["attached"], bindingFailureConditions=["broken"])
    outcomes = []
    for world in worlds:
        world.nodes("a")
        world.device_class("gpu")
        world.slice("a", fabric)
        claim = world.claim(exactly())
        pod = world.pod({"resourceClaimName": claim})
        eventually(lambda world=world, claim=claim: "allocation" in world.status(claim)["status"], "allocated")
        assert world.node_of(pod) == ""
        outcomes.append(world.status(claim))
        condition = {"type": "attached", "status": "True", "reason": "R", "message": "m"}
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        report = {"driver": world.driver, "pool": world.named("a"), "device": "gpu-0", "conditions": [condition]}
        patch = {"status": {"devices": [report]}}
        world.api.call("PATCH", f"{world.claims()}/{claim}/status", patch, "application/merge-patch+json")
        assert world.wait_bound(pod) == "a"
    assert outcomes[0] == outcomes[1]


@since_1_36
def test_both_prefer_a_node_with_an_earlier_alternative(worlds: tuple[DeviceNodes, DeviceNodes]) -> None:
    for world in worlds:
        world.nodes("a", "b", "c")
        world.device_class("gpu")
        world.slice("a", device("gpu-0"))
        world.slice("b", device("gpu-0"), device("gpu-1"))
        world.slice("c", device("gpu-0"))
        pod = world.pod(
            {"resourceClaimName": world.claim(first_available("r", exactly("two", count=2), exactly("any")))}
        )
        assert world.wait_bound(pod) == "b"


EXTENDED = {
    "one": ((), (1,)),
    "two containers": ((), (1, 2)),
    "an init container that reuses": ((2,), (1, 1)),
    "an init container that needs more": ((3, 1), (1,)),
}


@since_1_36
def test_both_give_devices_for_extended_resources(worlds: tuple[DeviceNodes, DeviceNodes]) -> None:
    """The claim that is made, its devices, and what the pod's status says; full nodes; a node that has the resource."""
    for world in worlds:
        world.nodes("a")
        world.device_class("gpu", extendedResourceName=f"{world.driver}/gpu")
        world.slice("a", *GPUS)
    for title, (init, main) in EXTENDED.items():
        outcomes = []
        for world in worlds:
            pod = world.pod(init=init, main=main)
            assert world.wait_bound(pod) == "a", title
            outcomes.append(world.special_claim(pod))
            second = world.pod(main=(4,))
            eventually(lambda world=world, second=second: world.message(second), "a reason")
            outcomes[-1]["second"] = world.message(second)
            for each in (pod, second):
                world.delete(each)
            eventually(
                lambda world=world: (
                    not [
                        item
                        for item in world.api.call("GET", world.claims())["items"]
                        if item["metadata"]["name"].startswith(world.scheduler)
                    ]
                ),
                "the claim is gone with its pod",
            )
        assert outcomes[0] == outcomes[1], title
    for world in worlds:
        world.nodes("b")
        name = world.named("b")
        patch = {"status": {"allocatable": {f"{world.driver}/gpu": "8"}, "capacity": {f"{world.driver}/gpu": "8"}}}
        world.api.call("PATCH", f"/api/v1/nodes/{name}/status", patch, "application/merge-patch+json")
        pod = world.pod(main=(5,))
        assert world.wait_bound(pod) == "b"
        assert world.special_claim(pod) is None


since_1_37 = pytest.mark.skipif(
    int(releases.chosen().partition(".")[2]) < 37, reason="kube-scheduler follows DeviceTaintRules since 1.37"
)


@since_1_37
def test_both_follow_taint_rules(worlds: tuple[DeviceNodes, DeviceNodes]) -> None:
    for world in worlds:
        fill(world)
        world.taint_rule("broken", "NoSchedule", device="gpu-0")
        first = world.claim(exactly())
        assert world.wait_bound(world.pod({"resourceClaimName": first})) == "a"
        (result,) = world.status(first)["status"]["allocation"]["devices"]["results"]
        assert result["device"] == "gpu-1"
        tolerant = world.claim(exactly(tolerations=[{"key": "broken", "operator": "Exists"}]))
        assert world.wait_bound(world.pod({"resourceClaimName": tolerant})) == "a"
        (result,) = world.status(tolerant)["status"]["allocation"]["devices"]["results"]
        assert result["device"] == "gpu-0"
        world.taint_rule("all", "NoSchedule")
        waiting = world.pod({"resourceClaimName": world.claim(exactly())})
        eventually(lambda world=world, waiting=waiting: FULL in world.message(waiting), "a reason")
        # The end of a rule wakes it.
        world.forget(f"{DRA}/devicetaintrules/{world.named('all')}")
        assert world.wait_bound(waiting) == "a"
