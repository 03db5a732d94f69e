"""Between reserving volumes and binding the pod: what is written, what is waited for, what ends the wait."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.catalog import SecondarySchedulerOptionsArgs, VolumeBindingArgs
from scheduler.framework import SUCCESS, Code, CycleState, PluginContext, Status
from scheduler.plugins.volumebinding import VolumeBinding
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, node, pod
from tests.unit.scheduler.plugins.storage import BOUND, ZONE, claim, mount, put, storage_class, volume

CLAIMED = ("PersistentVolumeClaim", "data")
SELECTED = "volume.kubernetes.io/selected-node"
POD = pod("new", **mount("data"))


class VolumeHandle:
    """A Handle on a state: a write makes a new version at once; `controller` is called at each pause."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.written: list[tuple[str, str, dict[str, Any]]] = []
        self.time = 0.0
        self.gone = False
        self.refusal = ""
        self.controller: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.time

    async def pause(self, seconds: float, *, to_end: bool = False) -> None:
        self.time += seconds
        self.controller()

    async def patch_object(self, kind: str, item: Any, patch: dict[str, Any]) -> tuple[Status, Any]:
        if self.refusal:
            return Status(Code.ERROR, error=self.refusal), None
        self.written.append((kind, item.metadata.name, patch))
        return SUCCESS, self.arrives(kind, item)

    def exists(self, pod: object) -> bool:
        return not self.gone

    def node(self, name: str) -> Any:
        return self.state.node(name)

    def arrives(self, kind: str, item: Any) -> Any:
        """The watch brings an object in a new version."""
        version = str(int(item.metadata.resource_version) + 1)
        metadata = msgspec.structs.replace(item.metadata, resource_version=version)
        fresh = msgspec.structs.replace(item, metadata=metadata)
        self.state.objects.upsert(kind, fresh)
        return fresh

    def change(self, kind: str, name: str, *, annotations: Any = None, **spec: Any) -> None:
        """Somebody changes an object."""
        item = self.state.objects.get(kind, "default" if kind == "PersistentVolumeClaim" else "", name)
        if annotations is not None:
            metadata = msgspec.structs.replace(item.metadata, annotations=annotations)
            item = msgspec.structs.replace(item, metadata=metadata)
        self.arrives(kind, msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, **spec)))


def bind(world: VolumeHandle, timeout: int = 600) -> Status:
    """Reserve for the pod on node n and run PreBind; Unreserve if that fails."""
    context = PluginContext("test", SecondarySchedulerOptionsArgs(), world)  # type: ignore[arg-type]
    plugin = VolumeBinding(VolumeBindingArgs.model_validate({"bindTimeoutSeconds": timeout}), context)
    view, cycle = world.state.snapshot(NOW), CycleState()
    plugin.pre_filter(cycle, POD, view)
    assert plugin.filter(cycle, POD, view, np.array([view.row("n")])) is None
    assert plugin.reserve(cycle, POD, "n").is_success
    status = asyncio.run(plugin.pre_bind(cycle, POD, "n"))
    if not status.is_success:
        plugin.unreserve(cycle, POD, "n")
    return status


@pytest.fixture
def static() -> VolumeHandle:
    """A claim, and a volume that is there for it."""
    state = cluster(node("n", labels={ZONE: "a"}))
    return VolumeHandle(put(state, claim("data"), volume("disk", zone="a"), storage_class()))


@pytest.fixture
def dynamic() -> VolumeHandle:
    """A claim for which a volume will be made."""
    return VolumeHandle(put(cluster(node("n", labels={ZONE: "a"})), claim("data"), storage_class()))


def test_the_volume_is_written_and_the_controller_awaited(static):
    static.controller = lambda: static.change("PersistentVolumeClaim", "data", annotations=BOUND, volume_name="disk")
    assert bind(static).is_success
    ((kind, name, patch),) = static.written
    assert (kind, name) == ("PersistentVolume", "disk")
    assert patch == {
        "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": "default",
                "name": "data",
                "uid": "uid-data",
                "resourceVersion": "10",
            }
        },
    }


def test_a_claim_to_be_provisioned_gets_its_node_written(dynamic):
    def provision():
        put(dynamic.state, volume("made", for_claim="data", zone="a"))
        marks = {**BOUND, SELECTED: "n"}
        dynamic.change("PersistentVolumeClaim", "data", annotations=marks, volume_name="made")

    dynamic.controller = provision
    assert bind(dynamic).is_success
    assert dynamic.written == [("PersistentVolumeClaim", "data", {"metadata": {"annotations": {SELECTED: "n"}}})]


def test_binding_ends_with_an_error_at_the_deadline(dynamic):
    status = bind(dynamic, timeout=30)
    assert (status.code, status.error) == (Code.ERROR, "binding volumes: context deadline exceeded")
    assert dynamic.time == pytest.approx(30)


@pytest.mark.parametrize("world", ["static", "dynamic"])
def test_a_cluster_that_went_back_is_not_waited_for_until_the_deadline(world, request):
    """The watch will never bring what was written."""
    world = request.getfixturevalue(world)
    kind, name = ("PersistentVolume", "disk") if world.state.objects.get("PersistentVolume", "", "disk") else CLAIMED
    before = world.state.objects.get(kind, "" if kind == "PersistentVolume" else "default", name)

    def go_back():
        world.state.objects.upsert(kind, before)
        world.state.objects.forget_assumed()

    world.controller = go_back
    status = bind(world)
    assert status.code is Code.ERROR
    assert "is as before it was written: the cluster went back" in status.error
    assert world.time < 10


def test_a_failed_write_ends_the_binding_and_reverts_all(static):
    static.refusal = "the object has been modified"
    status = bind(static)
    assert status.error == "the object has been modified"
    assert static.state.objects.latest("PersistentVolume", "", "disk").spec.claim_ref is None


def test_a_provisioner_that_asks_for_another_node_ends_the_wait(dynamic):
    dynamic.controller = lambda: dynamic.change("PersistentVolumeClaim", "data", annotations={"other": "x"})
    assert bind(dynamic).error == 'binding volumes: provisioning failed for PVC "data"'


def test_annotations_that_vanish_end_the_wait(dynamic):
    dynamic.controller = lambda: dynamic.change("PersistentVolumeClaim", "data", annotations={})
    assert bind(dynamic).error == 'binding volumes: selectedNode annotation reset for PVC "data"'


def test_a_volume_made_out_of_reach_ends_the_wait(dynamic):
    def provision():
        put(dynamic.state, volume("made", for_claim="data", zone="b"))
        dynamic.change("PersistentVolumeClaim", "data", annotations={SELECTED: "n"}, volume_name="made")

    dynamic.controller = provision
    assert bind(dynamic).error == (
        'binding volumes: pv "made" node affinity doesn\'t match node "n": no matching NodeSelectorTerms'
    )


def test_a_volume_that_lost_its_claim_ends_the_wait(static):
    static.controller = lambda: static.change("PersistentVolume", "disk", claim_ref=None)
    assert bind(static).error == 'binding volumes: ClaimRef got reset for pv "disk"'


def test_a_deleted_volume_ends_the_wait(static):
    static.controller = lambda: static.state.objects.remove("PersistentVolume", "", "disk")
    assert bind(static).error == ('binding volumes: failed to check binding: could not find v1.PersistentVolume "disk"')


def test_a_deleted_claim_ends_the_wait(dynamic):
    dynamic.controller = lambda: dynamic.state.objects.remove("PersistentVolumeClaim", "default", "data")
    assert bind(dynamic).error == (
        'binding volumes: failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "default/data"'
    )


def test_a_deleted_pod_ends_the_wait(dynamic):
    dynamic.gone = True
    assert bind(dynamic).error == 'binding volumes: pod does not exist any more: pod "new" not found'


def test_a_deleted_node_ends_the_wait(dynamic):
    dynamic.controller = lambda: dynamic.state.remove_node("n")
    assert bind(dynamic).error == 'binding volumes: failed to get node "n": node "n" not found'


def test_a_volume_that_is_not_in_the_watch_yet_is_waited_for(dynamic):
    seen = []

    def provision():
        seen.append(dynamic.time)
        if len(seen) == 3:
            put(dynamic.state, volume("made", for_claim="data", zone="a"))
        dynamic.change("PersistentVolumeClaim", "data", annotations={**BOUND, SELECTED: "n"}, volume_name="made")

    dynamic.controller = provision
    assert bind(dynamic).is_success
    assert len(seen) == 3


def test_a_claim_bound_meanwhile_needs_no_writing():
    state = put(cluster(node("n")), claim("data", volume="disk"), volume("disk", for_claim="data"))
    world = VolumeHandle(state)
    assert bind(world).is_success
    assert world.written == []
