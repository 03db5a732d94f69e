"""Disks only one pod of a node may mount, and claims only one pod of the cluster may use."""

import numpy as np
import pytest

from scheduler.framework import CycleState, Hint
from tests.unit.scheduler.core.builders import NOW, cluster, node, pod, runner
from tests.unit.scheduler.plugins.storage import answers, claim, explained, mount, put, volume

DISK = ("VolumeRestrictions", "UNSCHEDULABLE", ("node(s) had no available disk",))
IN_USE = (
    "VolumeRestrictions",
    "UNSCHEDULABLE",
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
        "another pod",
    ),
)
PROFILE = runner()
PLUGIN = PROFILE.plugins["VolumeRestrictions"]
EXCLUSIVE = [
    claim("only", volume="disk", modes=["ReadWriteOncePod"]),
    volume("disk", for_claim="only", modes=["ReadWriteOncePod"]),
]


def gce(name, read_only=False):
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name, read_only=False):
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(name, read_only=False, lun=0):
    return {"iscsi": {"iqn": name, "lun": lun, "readOnly": read_only}}


def rbd(image, read_only=False, monitors=("m1",), pool="rbd"):
    return {"rbd": {"monitors": monitors, "image": image, "pool": pool, "readOnly": read_only}}


@pytest.mark.parametrize(
    ("present", "wanted", "conflict"),
    [
        (gce("a"), gce("a"), True),
        (gce("a"), gce("b"), False),
        (gce("a", True), gce("a"), True),
        (gce("a", True), gce("a", True), False),
        (ebs("a"), ebs("a"), True),
        (ebs("a", True), ebs("a", True), True),
        (ebs("a"), ebs("b"), False),
        (iscsi("q"), iscsi("q", lun=1), True),
        (iscsi("q", True), iscsi("q", True), False),
        (iscsi("q"), iscsi("r"), False),
        (rbd("i", monitors=("m1", "m2")), rbd("i", monitors=("m2", "m3")), True),
        (rbd("i", monitors=("m1",)), rbd("i", monitors=("m2",)), False),
        (rbd("i", True), rbd("i", True), False),
        (rbd("i"), rbd("i", True), True),
        (rbd("i"), rbd("i", pool="other"), False),
        (rbd("i"), rbd("j"), False),
        (gce("a"), ebs("a"), False),
    ],
)
def test_a_disk_is_mounted_once_unless_all_only_read(present, wanted, conflict):
    state = cluster(node("a"), node("b"), pods={"a": [pod("old", **mount(disk=present))]})
    assert answers(state, pod("new", **mount(disk=wanted)), PROFILE) == ({"a": DISK} if conflict else {})


def test_a_missing_claim_is_reported_by_this_plugin_first():
    explanation = explained(cluster(node("n")), pod("new", **mount("absent")), PROFILE)
    assert explanation.message == '0/1 nodes are available: persistentvolumeclaim "absent" not found.'
    assert explanation.node("n").rejection.plugin == "VolumeRestrictions"


def test_a_read_write_once_pod_claim_in_use_rejects_every_node():
    state = put(cluster(node("a"), node("b"), pods={"b": [pod("old", **mount("only"))]}), *EXCLUSIVE)
    assert answers(state, pod("new", **mount("only")), PROFILE) == {"a": IN_USE, "b": IN_USE}


def test_a_claim_of_that_name_in_another_namespace_is_another():
    old = pod("old", namespace="other", **mount("only"))
    state = put(cluster(node("a"), pods={"a": [old]}), *EXCLUSIVE)
    assert answers(state, pod("new", **mount("only")), PROFILE) == {}


def test_a_claim_for_many_pods_is_shared():
    shared = [claim("data", volume="disk"), volume("disk", for_claim="data")]
    state = put(cluster(node("a"), pods={"a": [pod("old", **mount("data"))]}), *shared)
    assert answers(state, pod("new", **mount("data")), PROFILE) == {}


def test_removing_the_user_of_the_claim_helps():
    user = pod("old", **mount("only"))
    view = put(cluster(node("a"), pods={"a": [user]}), *EXCLUSIVE).snapshot(NOW)
    new, state, row = pod("new", **mount("only")), CycleState(), np.array([view.row("a")])
    PLUGIN.pre_filter(state, new, view)
    trial = state.clone()
    PLUGIN.remove_pod(trial, new, user, view, 0)
    assert PLUGIN.filter(trial, new, view, row) is None
    PLUGIN.add_pod(trial, new, user, view, 0)
    assert PLUGIN.filter(trial, new, view, row).codes.tolist() == [2]
    assert PLUGIN.filter(state, new, view, row).codes.tolist() == [2]


@pytest.mark.parametrize(
    ("event", "old", "new", "hint"),
    [
        (0, pod("old", **mount(disk=gce("a"))), None, Hint.QUEUE),
        (0, pod("old", **mount(disk=gce("b"))), None, Hint.SKIP),
        (0, pod("old", **mount("only")), None, Hint.QUEUE),
        (0, pod("old", namespace="other", **mount("only")), None, Hint.SKIP),
        (0, pod("old"), None, Hint.SKIP),
        (2, None, claim("only"), Hint.QUEUE),
        (2, None, claim("other"), Hint.SKIP),
    ],
    ids=["same disk", "other disk", "same claim", "other namespace", "no volumes", "own claim", "other claim"],
)
def test_what_wakes_a_pod(event, old, new, hint):
    waiting = pod("new", **mount("only", disk=gce("a")))
    assert PLUGIN.events_to_register()[event].hint(waiting, old, new) is hint
