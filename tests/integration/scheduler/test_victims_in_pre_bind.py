"""A victim that still waits for its volume: the real kube-scheduler of 1.36, 1.37 and 1.38, and ours. It gives up its
node and is tried again; nobody deletes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.scheduler.podgroups import GATES, NAMESPACE, OURS, REAL, SERVED, Json, Stage, both_running
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

_CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
_STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


class VolumeStage(Stage):
    """A stage on which nobody makes volumes, so pods with a claim stay in PreBind."""

    def prepare(self) -> None:
        """Make what every scenario needs."""
        super().prepare()
        storage_class = {"provisioner": "example.com/none", "volumeBindingMode": "WaitForFirstConsumer"}
        self.call("POST", _STORAGE_CLASSES, {"metadata": {"name": "slow"}, **storage_class})

    def clear(self) -> None:
        """Take everything off the stage."""
        super().clear()
        self.call("DELETE", _CLAIMS)
        eventually(lambda: not self.call("GET", _CLAIMS)["items"], "no claim is left")

    def wait_in_pre_bind(self, name: str, cpu: str = "1500m") -> str:
        """Have a pod of low priority wait for its volume; returns its UID."""
        resources = {"requests": {"storage": "1Gi"}}
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "slow", "resources": resources}
        self.call("POST", _CLAIMS, {"metadata": {"name": name}, "spec": spec})
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        self.make(name, cpu, "low", volumes=[volume])
        eventually(lambda: self.selected_node(name), f"{self.scheduler}: {name} is in PreBind")
        uid: str = self.call("GET", f"{self.pods}/{name}")["metadata"]["uid"]
        return uid

    def selected_node(self, claim: str) -> str:
        """Return the node for which a claim's volume is to be made."""
        annotations = self.call("GET", f"{_CLAIMS}/{claim}")["metadata"].get("annotations", {})
        return str(annotations.get(_SELECTED_NODE, ""))

    def wait_tried_again(self, name: str, uid: str) -> None:
        """Wait until the same pod has been told that there is no room."""

        def is_told() -> bool:
            pod = self.call("GET", f"{self.pods}/{name}")
            assert pod["metadata"]["uid"] == uid
            return "nodes are available" in self.outcome().messages.get(name, "")

        eventually(is_told, f"{self.scheduler}: {name} is tried again")

    def wait_in_its_place(self, name: str, node: str) -> None:
        """Wait until the preemptor has the node.

        kube-scheduler may have tried it before the victim gave up its node, and tries it again only at an event, such
        as a pod that goes.
        """

        def is_placed() -> bool:
            if self.scheduler == REAL and name not in self.placed():
                self.run("passing", node, cpu="1m")
                self.let_go("passing")
            return name in self.placed()

        eventually(is_placed, f"{self.scheduler}: {name} is placed", interval=0.5)


def finds_no_other_node(stage: VolumeStage) -> None:
    """The victim is tried again, and has to wait."""
    stage.add_nodes("n1")
    uid = stage.wait_in_pre_bind("victim")
    stage.come()
    stage.wait_tried_again("victim", uid)
    stage.wait_in_its_place("preemptor", "n1")


def is_bound_to_its_volume(stage: VolumeStage) -> None:
    """A node that comes later is no help: the volume is to be made for the first one, and only who makes it may change
    that."""
    finds_no_other_node(stage)
    stage.add_nodes("n2")
    eventually(
        lambda: stage.outcome().messages.get("victim", "").startswith("0/2"),
        f"{stage.scheduler}: the victim is told of the other node",
    )


SCENARIOS: tuple[Callable[[VolumeStage], None], ...] = (
    finds_no_other_node,
    is_bound_to_its_volume,
)


@pytest.fixture(scope="module", params=["1.36", "1.37", "1.38"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VolumeStage]:
    minor: str = request.param
    gates = GATES[min(minor, SERVED)]
    with both_running(minor, gates, tmp_path_factory.mktemp("pre-bind"), VolumeStage) as running:
        yield running


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_victim_in_pre_bind_gives_up_its_node_as_with_kube_scheduler(
    stage: VolumeStage, scenario: Callable[[VolumeStage], None]
) -> None:
    stories: list[Json] = []
    for scheduler in (REAL, OURS):
        stage.scheduler = scheduler
        stage.clear()
        scenario(stage)
        stories.append({**stage.story(), "selected": stage.selected_node("victim")})
        print(scheduler, stories[-1])
    stage.clear()
    real, ours = stories
    assert ours == real


def test_of_two_victims_the_one_that_runs_is_deleted(stage: VolumeStage) -> None:
    """kube-scheduler tries the preemptor at once, maybe before the other one has given up its node: then it deletes
    that as well (seen with 1.37.0), or leaves the preemptor waiting (1.37.0, 1.38.0-beta.0)."""
    stage.scheduler = OURS
    stage.clear()
    stage.add_nodes("n1")
    stage.run("running", "n1", cpu="900m")
    uid = stage.wait_in_pre_bind("victim", "900m")
    stage.come("preemptor", "1900m")
    stage.wait_preempted()
    stage.wait_tried_again("victim", uid)
    assert [name for name, _ in stage.story()["left"]] == ["preemptor", "victim"]
    stage.clear()
