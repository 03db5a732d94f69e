"""How many volumes a driver attaches to a node: what counts, once or twice, and what wakes a pod that found no slot."""

import pytest

from scheduler.framework import Hint
from tests.unit.scheduler.core.builders import cluster, node, pod, runner
from tests.unit.scheduler.plugins.storage import (
    DRIVER,
    answers,
    claim,
    explained,
    limit,
    made,
    mount,
    put,
    storage_class,
    volume,
)

FULL = {"n": ("NodeVolumeLimits", "UNSCHEDULABLE", ("node(s) exceed max volume count",))}
# VolumeRestrictions and VolumeBinding would speak first where a claim is missing.
ALONE = {
    point: {"disabled": [{"name": name} for name in ("VolumeBinding", "VolumeZone", "VolumeRestrictions")]}
    for point in ("preFilter", "filter")
}
PROFILE = runner(ALONE)
PLUGIN = PROFILE.plugins["NodeVolumeLimits"]
EBS = "ebs.csi.aws.com"


def bound(name, source=None):
    """A claim and its volume, both of a name."""
    return claim(name, volume=name), volume(name, for_claim=name, **({"source": source} if source else {}))


def attached(name, node_name="n", attacher=DRIVER):
    return made(
        "VolumeAttachment",
        f"at-{name}",
        spec={"attacher": attacher, "nodeName": node_name, "source": {"persistentVolumeName": name}},
    )


def state_with(*objects, pods=()):
    return put(cluster(node("n"), pods={"n": list(pods)}), *objects)


OLD = pod("old", **mount("one"))


@pytest.mark.parametrize(
    ("count", "claims", "fits"),
    [
        (2, ("two",), True),
        (1, ("two",), False),
        (1, ("one",), True),
        (2, ("two", "three"), False),
        (None, ("two",), True),
    ],
    ids=["room", "full", "attached already", "two at once", "no limit"],
)
def test_volumes_of_pods_on_the_node_count_once_each(count, claims, fits):
    objects = [item for name in ("one", "two", "three") for item in bound(name)]
    state = state_with(limit("n", count), *objects, pods=[OLD])
    assert answers(state, pod("new", **mount(*claims)), PROFILE) == ({} if fits else FULL)


def test_a_node_no_driver_speaks_of_has_no_limit():
    assert answers(state_with(*bound("one"), *bound("two"), pods=[OLD]), pod("new", **mount("two")), PROFILE) == {}


def test_another_drivers_limit_does_not_matter():
    state = state_with(limit("n", 0, "other.example.com"), *bound("one"))
    assert answers(state, pod("new", **mount("one")), PROFILE) == {}


def test_attachments_without_a_pod_count_but_not_twice():
    objects = (*bound("one"), *bound("two"), *bound("three"))
    new = pod("new", **mount("two"))
    assert answers(state_with(limit("n", 2), *objects, attached("three"), pods=[OLD]), new, PROFILE) == FULL
    assert answers(state_with(limit("n", 2), *objects, attached("one"), pods=[OLD]), new, PROFILE) == {}
    assert answers(state_with(limit("n", 2), *objects, attached("three", "m"), pods=[OLD]), new, PROFILE) == {}


def test_a_claim_without_a_volume_counts_as_one_of_its_class():
    state = state_with(limit("n", 1), storage_class(), claim("a"), claim("b"), pods=[pod("old", **mount("a"))])
    assert answers(state, pod("new", **mount("b")), PROFILE) == FULL


def test_a_claim_without_a_class_does_not_count():
    assert answers(state_with(limit("n", 0), claim("a", storage_class=None)), pod("new", **mount("a")), PROFILE) == {}


@pytest.mark.parametrize(
    ("source", "driver", "annotations", "fits"),
    [
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, EBS, {}, False),
        ({"gcePersistentDisk": {"pdName": "d"}}, "pd.csi.storage.gke.io", {}, False),
        ({"azureDisk": {"diskName": "d", "diskURI": "/d"}}, "disk.csi.azure.com", {}, False),
        ({"cinder": {"volumeID": "d"}}, "cinder.csi.openstack.org", {}, False),
        ({"portworxVolume": {"volumeID": "d"}}, "pxd.portworx.com", {}, True),
        (
            {"portworxVolume": {"volumeID": "d"}},
            "pxd.portworx.com",
            {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/portworx-volume"},
            False,
        ),
        ({"vsphereVolume": {"volumePath": "d"}}, "csi.vsphere.vmware.com", {}, True),
    ],
)
def test_in_tree_volumes_count_for_the_driver_that_took_over(source, driver, annotations, fits):
    state = state_with(limit("n", 0, driver, annotations=annotations), *bound("one", source))
    expected = {} if fits else FULL
    assert answers(state, pod("claimed", **mount("one")), PROFILE) == expected
    assert answers(state, pod("inline", **mount(disk=source)), PROFILE) == expected


def test_an_ebs_volume_is_one_whatever_its_name_looks_like():
    url, bare = ({"awsElasticBlockStore": {"volumeID": name}} for name in ("aws://us-east-1a/vol-1", "vol-1"))
    state = state_with(limit("n", 1, EBS), pods=[pod("old", **mount(disk=url))])
    assert answers(state, pod("new", **mount(disk=bare)), PROFILE) == {}


def test_a_missing_claim_closes_every_node():
    explanation = explained(cluster(node("n"), node("m")), pod("new", **mount("absent")), PROFILE)
    assert (
        explanation.message
        == '0/2 nodes are available: 2 looking up PVC default/absent: persistentvolumeclaim "absent" not found.'
    )


def test_a_running_pods_missing_claim_is_left_out():
    state = state_with(limit("n", 1), *bound("one"), pods=[pod("old", **mount("absent"))])
    assert answers(state, pod("new", **mount("one")), PROFILE) == {}


def test_somebody_elses_claim_under_an_ephemeral_volumes_name_is_an_error():
    state = state_with(limit("n", 1), claim("new-scratch"), storage_class())
    message = explained(state, pod("new", **mount(scratch={"ephemeral": {}})), PROFILE).message
    assert message.endswith("PVC default/new-scratch was not created for pod default/new (pod is not owner)")


@pytest.mark.parametrize(
    ("event", "old", "new", "hint"),
    [
        (1, limit("n", 1), limit("n", 2), Hint.QUEUE),
        (1, limit("n", 2), limit("n", 1), Hint.SKIP),
        (1, limit("n", None), limit("n", 1), Hint.QUEUE),
        (2, pod("old", nodeName="n", **mount("one")), None, Hint.QUEUE),
        (2, pod("old", **mount("one")), None, Hint.SKIP),
        (2, pod("old", nodeName="n", **mount(disk={"cinder": {"volumeID": "d"}})), None, Hint.QUEUE),
        (2, pod("old", nodeName="n", **mount(disk={"iscsi": {"iqn": "q"}})), None, Hint.SKIP),
        (3, None, claim("mine"), Hint.QUEUE),
        (3, None, claim("new-scratch"), Hint.QUEUE),
        (3, None, claim("other"), Hint.SKIP),
        (4, attached("one"), None, Hint.QUEUE),
    ],
)
def test_what_wakes_a_pod(event, old, new, hint):
    waiting = pod("new", **mount("mine", scratch={"ephemeral": {}}))
    assert PLUGIN.events_to_register()[event].hint(waiting, old, new) is hint


def test_a_detached_volume_wakes_inline_users_of_its_driver():
    registration = PLUGIN.events_to_register()[4]
    waiting = pod("new", **mount(disk={"awsElasticBlockStore": {"volumeID": "vol-1"}}))
    assert registration.hint(waiting, attached("x", attacher=EBS), None) is Hint.QUEUE
    assert registration.hint(waiting, attached("x"), None) is Hint.SKIP


def demanding(driver=DRIVER, wanted=True):
    return made("CSIDriver", driver, spec={"preventPodSchedulingIfMissing": wanted})


@pytest.mark.parametrize(
    ("objects", "rejected"),
    [
        pytest.param([demanding(), limit("n", None)], False, id="the node has it"),
        pytest.param([demanding(), limit("n", None, "other.example.com")], True, id="the node has another"),
        pytest.param([demanding()], True, id="nothing is known of the node"),
        pytest.param([demanding(wanted=False)], False, id="the driver does not ask for it"),
        pytest.param([], False, id="there is no CSIDriver"),
    ],
)
def test_a_driver_may_reject_nodes_that_lack_it_from_1_37_on(objects, rejected):
    state = state_with(*bound("one"), *objects)
    for version, expected in (("1.36", False), ("1.37", rejected), ("1.38", rejected)):
        reason = f"{DRIVER} CSI driver is not installed on the node"
        rejections = answers(state, pod("new", **mount("one")), runner(ALONE, kubernetes=version))
        assert rejections == ({"n": ("NodeVolumeLimits", "UNSCHEDULABLE", (reason,))} if expected else {})


def test_nodes_that_lack_a_driver_and_full_ones_are_told_apart():
    state = put(cluster(node("n"), node("m"), pods={"n": [OLD]}), *bound("one"), *bound("two"))
    put(state, demanding(), limit("n", 1))
    rejections = answers(state, pod("new", **mount("two")), runner(ALONE, kubernetes="1.37"))
    assert rejections["n"] == FULL["n"]
    assert rejections["m"][2] == (f"{DRIVER} CSI driver is not installed on the node",)


def test_a_driver_that_comes_to_a_node_wakes_the_pods_that_were_rejected_for_it():
    registrations = {each.resource: each for each in PLUGIN.events_to_register() if each.resource == "CSINode"}
    hint = registrations["CSINode"].hint
    assert hint(pod("p"), limit("n", None, "other.example.com"), limit("n", None)) is Hint.QUEUE
    assert hint(pod("p"), limit("n", None), limit("n", None)) is Hint.SKIP
