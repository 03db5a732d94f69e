"""Zone and region labels of bound volumes against those of nodes."""

import pytest

from scheduler.framework import Hint
from tests.unit.scheduler.core.builders import cluster, node, pod, runner
from tests.unit.scheduler.plugins.storage import ZONE, answers, claim, explained, mount, put, storage_class, volume

REASON = "node(s) had no available volume zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
# The other volume plugins would speak first where a claim is not bound.
ALONE = {
    point: {"disabled": [{"name": name} for name in ("VolumeBinding", "NodeVolumeLimits", "VolumeRestrictions")]}
    for point in ("preFilter", "filter")
}
PROFILE = runner(ALONE)
PLUGIN = PROFILE.plugins["VolumeZone"]
POD = pod("new", **mount("data"))


def asked(volume_labels, node_labels, *objects):
    state = cluster(node("n", labels=node_labels))
    put(state, claim("data", volume="disk"), volume("disk", for_claim="data", labels=volume_labels), *objects)
    return answers(state, POD, PROFILE)


@pytest.mark.parametrize(
    ("volume_labels", "node_labels", "fits"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: "a__b"}, {ZONE: "c"}, False),
        ({ZONE: "a"}, {}, True),
        ({ZONE: "a"}, {REGION: "r"}, False),
        ({REGION: "r"}, {ZONE: "a", REGION: "r"}, True),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
        ({BETA_ZONE: "a"}, {BETA_ZONE: "a"}, True),
        ({BETA_ZONE: "a"}, {ZONE: "a"}, True),
        ({BETA_ZONE: "a"}, {ZONE: "b"}, False),
        ({BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, False),
        ({BETA_REGION: "r"}, {REGION: "r"}, True),
        ({ZONE: "a"}, {BETA_ZONE: "a"}, False),
        ({ZONE: "a__"}, {ZONE: "b"}, True),
        ({}, {ZONE: "b"}, True),
    ],
)
def test_a_volume_is_used_in_its_zone_only(volume_labels, node_labels, fits):
    expected = {} if fits else {"n": ("VolumeZone", "UNSCHEDULABLE_AND_UNRESOLVABLE", (REASON,))}
    assert asked(volume_labels, node_labels) == expected


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        ([claim("data", volume="gone")], 'persistentvolume "gone" not found'),
        ([claim("data", storage_class=None)], "PersistentVolumeClaim had no pv name and storageClass name"),
        ([claim("data")], 'storageclass.storage.k8s.io "fast" not found'),
        ([claim("data"), storage_class(mode="Immediate")], "PersistentVolume had no name"),
        ([claim("data"), storage_class(mode=None)], 'VolumeBindingMode not set for StorageClass "fast"'),
    ],
)
def test_a_claim_without_a_volume_is_reported(objects, reason):
    state = put(cluster(node("n", labels={ZONE: "a"})), *objects)
    assert explained(state, POD, PROFILE).message == f"0/1 nodes are available: {reason}."


def test_a_claim_that_is_bound_later_has_no_zone_yet():
    state = put(cluster(node("n", labels={ZONE: "a"})), claim("data"), storage_class())
    assert answers(state, POD, PROFILE) == {}


@pytest.mark.parametrize(
    ("event", "old", "new", "hint"),
    [
        (0, None, storage_class(), Hint.QUEUE),
        (0, None, storage_class(mode="Immediate"), Hint.SKIP),
        (2, None, claim("data"), Hint.QUEUE),
        (2, None, claim("other"), Hint.SKIP),
        (3, None, volume("disk"), Hint.QUEUE),
        (3, volume("disk"), volume("disk", labels={ZONE: "a"}), Hint.QUEUE),
        (3, volume("disk"), volume("disk", labels={"a": "b"}), Hint.SKIP),
    ],
    ids=["later class", "immediate class", "own claim", "other claim", "volume added", "zone changed", "label changed"],
)
def test_what_wakes_a_pod(event, old, new, hint):
    assert PLUGIN.events_to_register()[event].hint(POD, old, new) is hint
