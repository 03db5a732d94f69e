"""Which nodes a pod's claims allow, which volumes they get there, and what wakes a pod that got none."""

import numpy as np
import pytest

from scheduler.framework import CycleState, Hint
from scheduler.plugins.volumebinding.claims import pod_claims
from scheduler.plugins.volumebinding.matching import find_pod_volumes
from tests.unit.scheduler.core.builders import NOW, cluster, node, pod, runner
from tests.unit.scheduler.plugins.storage import (
    DRIVER,
    ZONE,
    answers,
    claim,
    explained,
    made,
    mount,
    put,
    storage_class,
    volume,
)

PROFILE = runner()
PLUGIN = PROFILE.plugins["VolumeBinding"]
NO_PROVISIONER = storage_class(provisioner="kubernetes.io/no-provisioner")
CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_MATCH = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
# VolumeZone would speak first about a volume that does not exist.
WITHOUT_ZONE = runner({point: {"disabled": [{"name": "VolumeZone"}]} for point in ("preFilter", "filter")})


def zoned(*objects, zones="ab"):
    return put(cluster(*(node(f"n-{zone}", labels={ZONE: zone}) for zone in zones)), *objects)


def rejected(*reasons):
    return ("VolumeBinding", "UNSCHEDULABLE_AND_UNRESOLVABLE", reasons)


def matched(state, new):
    """The volume each claim gets on each node."""
    view = state.snapshot(NOW)
    matches = find_pod_volumes(view, view.rows, pod_claims(new, view.objects))
    by_node = {}
    for match in matches.static_bindings:
        for row, index in zip(view.rows.tolist(), match.chosen.tolist(), strict=True):
            chosen = match.volumes[index].metadata.name if index >= 0 else None
            by_node.setdefault(view.name(row), {})[match.claim.metadata.name] = chosen
    return by_node


# Before any node ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "volumes", "reason"),
    [
        (
            [],
            mount(scratch={"ephemeral": {}}),
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "new-scratch"',
        ),
        (
            [claim("data", volume="disk", phase="Lost")],
            mount("data"),
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "disk"',
        ),
        (
            [claim("data", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            mount("data"),
            'persistentvolumeclaim "data" is being deleted',
        ),
        (
            [claim("new-scratch")],
            mount(scratch={"ephemeral": {}}),
            "PVC default/new-scratch was not created for pod default/new (pod is not owner)",
        ),
        (
            [claim("data"), storage_class(mode="Immediate")],
            mount("data"),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        ([claim("data")], mount("data"), "pod has unbound immediate PersistentVolumeClaims"),
        (
            [claim("data", storage_class=None)],
            mount("data"),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            [claim("data", volume="disk", annotations={"pv.kubernetes.io/bind-completed": None}), storage_class()],
            mount("data"),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
    ],
    ids=["no ephemeral claim", "lost", "deleted", "not its own", "immediate", "no class", "class unset", "pre-bound"],
)
def test_claims_that_cannot_be_used_now_are_reported(objects, volumes, reason):
    state = zoned(*objects)
    assert explained(state, pod("new", **volumes), PROFILE).message == f"0/2 nodes are available: {reason}."


def test_a_class_without_a_binding_mode_is_an_error():
    state = zoned(claim("data"), storage_class(mode=None))
    message = explained(state, pod("new", **mount("data")), PROFILE).message
    assert message.endswith('VolumeBindingMode not set for StorageClass "fast"')


def test_the_old_class_annotation_wins():
    annotated = claim("data", annotations={"volume.beta.kubernetes.io/storage-class": "old"})
    state = zoned(annotated, storage_class(mode="Immediate"), storage_class("old"))
    assert answers(state, pod("new", **mount("data")), PROFILE) == {}


# Bound claims -------------------------------------------------------------------------------------------------------


def test_a_bound_volume_is_used_where_it_can_be_reached():
    state = zoned(claim("data", volume="disk"), volume("disk", for_claim="data", zone="a"))
    assert answers(state, pod("new", **mount("data")), PROFILE) == {"n-b": rejected(CONFLICT)}


def test_a_deleted_bound_volume_rejects_every_node():
    state = zoned(claim("data", volume="gone"))
    answer = answers(state, pod("new", **mount("data")), WITHOUT_ZONE)
    assert answer == {"n-a": rejected(NO_VOLUME), "n-b": rejected(NO_VOLUME)}


def test_the_first_bound_claim_that_fails_gives_the_reason():
    state = zoned(claim("far", volume="far"), volume("far", for_claim="far", zone="a"), claim("lost", volume="gone"))
    answer = answers(state, pod("new", **mount("far", "lost")), WITHOUT_ZONE)
    assert answer == {"n-a": rejected(NO_VOLUME), "n-b": rejected(CONFLICT)}


def test_reasons_about_bound_and_unbound_claims_come_together():
    state = zoned(claim("far", volume="far"), volume("far", for_claim="far", zone="a"), claim("data"), NO_PROVISIONER)
    answer = answers(state, pod("new", **mount("far", "data")), PROFILE)
    assert answer == {"n-a": rejected(NO_MATCH), "n-b": rejected(CONFLICT, NO_MATCH)}


@pytest.mark.parametrize(("migrated", "fits"), [(True, {"n-b"}), (False, {"n-a"})])
def test_an_in_tree_volume_is_reached_as_the_drivers_where_the_node_handed_it_over(migrated, fits):
    topology = "topology.ebs.csi.aws.com/zone"
    disk = volume("disk", for_claim="data", source={"awsElasticBlockStore": {"volumeID": "vol-1"}}, zone="a")
    labels = {"n-a": {ZONE: "a", topology: "b"}, "n-b": {ZONE: "b", topology: "a"}}
    state = cluster(*(node(name, labels=values) for name, values in labels.items()))
    annotation = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"} if migrated else {}
    csi_nodes = (made("CSINode", name, annotations=annotation, spec={"drivers": []}) for name in labels)
    put(state, claim("data", volume="disk"), disk, *csi_nodes)
    assert set(labels) - set(answers(state, pod("new", **mount("data")), PROFILE)) == fits


# Volumes that are there ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "offered", "expected"),
    [
        ({"size": "2Gi"}, {"size": "2Gi"}, True),
        ({"size": "2Gi"}, {"size": "1Gi"}, False),
        ({"size": "1000000001"}, {"size": "1G"}, False),
        ({}, {"phase": "Released"}, False),
        ({}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False),
        ({"modes": ["ReadWriteMany"]}, {"modes": ["ReadWriteOnce"]}, False),
        ({"modes": ["ReadWriteOnce"]}, {"modes": ["ReadWriteOnce", "ReadWriteMany"]}, True),
        ({"spec": {"volumeMode": "Block"}}, {}, False),
        ({"spec": {"volumeMode": "Filesystem"}}, {}, True),
        ({}, {"spec": {"storageClassName": "other"}}, False),
        ({"spec": {"selector": {"matchLabels": {"tier": "gold"}}}}, {"labels": {"tier": "gold"}}, True),
        ({"spec": {"selector": {"matchLabels": {"tier": "gold"}}}}, {}, False),
        ({"spec": {"volumeAttributesClassName": "x"}}, {}, False),
        ({"spec": {"volumeAttributesClassName": "x"}}, {"spec": {"volumeAttributesClassName": "x"}}, True),
        ({}, {"for_claim": "other", "phase": "Available"}, False),
        ({}, {"for_claim": "data", "phase": "Pending"}, True),
    ],
)
def test_a_volume_must_suit_the_claim(wanted, offered, expected):
    state = zoned(claim("data", **wanted), volume("disk", **offered), NO_PROVISIONER)
    answer = answers(state, pod("new", **mount("data")), PROFILE)
    assert answer == ({} if expected else {"n-a": rejected(NO_MATCH), "n-b": rejected(NO_MATCH)})


def test_the_smallest_volume_that_is_large_enough_is_chosen_on_each_node():
    volumes = [volume("huge", "9Gi"), volume("small", "1Gi"), volume("near", "3Gi", zone="a"), volume("big", "5Gi")]
    state = zoned(claim("data", "2Gi"), NO_PROVISIONER, *volumes)
    assert matched(state, pod("new", **mount("data"))) == {"n-a": {"data": "near"}, "n-b": {"data": "big"}}


def test_the_smallest_claim_chooses_first_and_no_volume_is_given_twice():
    state = zoned(claim("large", "2Gi"), claim("small"), volume("two", "2Gi"), volume("three", "3Gi"), NO_PROVISIONER)
    chosen = matched(state, pod("new", **mount("large", "small")))
    assert chosen["n-a"] == {"small": "two", "large": "three"}


def test_a_volume_meant_for_the_claim_is_the_only_one_for_it():
    meant = volume("meant", "9Gi", for_claim="data", phase="Available", zone="a")
    state = zoned(claim("data"), volume("smaller"), meant, NO_PROVISIONER)
    assert matched(state, pod("new", **mount("data"))) == {"n-a": {"data": "meant"}, "n-b": {"data": None}}


def test_a_volume_of_an_unreadable_size_is_passed_over():
    state = zoned(claim("data"), volume("odd", "many"), volume("disk"), NO_PROVISIONER)
    assert matched(state, pod("new", **mount("data")))["n-a"] == {"data": "disk"}


# Volumes to be made -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provisioner", ["", "kubernetes.io/no-provisioner"])
def test_a_class_without_provisioner_needs_an_existing_volume(provisioner):
    state = zoned(claim("data"), storage_class(provisioner=provisioner))
    assert answers(state, pod("new", **mount("data")), PROFILE)["n-a"] == rejected(NO_MATCH)


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}], {"n-a"}),
        ([{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}], {"n-a", "n-b"}),
        ([{"matchLabelExpressions": [{"key": ZONE, "values": ["z"]}]}, {}], set()),
        (
            [
                {"matchLabelExpressions": [{"key": ZONE, "values": ["z"]}]},
                {"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["n-b"]}]},
            ],
            {"n-b"},
        ),
        ([{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}, {"key": "x", "values": ["y"]}]}], set()),
        ([{"matchLabelExpressions": [{"key": ZONE, "values": []}]}], set()),
    ],
)
def test_a_class_makes_volumes_in_its_topologies(terms, fits):
    state = zoned(claim("data"), storage_class(allowedTopologies=terms))
    answer = answers(state, pod("new", **mount("data")), PROFILE)
    assert {"n-a", "n-b"} - set(answer) == fits
    assert set(answer.values()) <= {rejected(NO_MATCH)}


def capacity(zone, *, size=None, largest=None, name="c", for_class="fast"):
    content = {key: value for key, value in (("capacity", size), ("maximumVolumeSize", largest)) if value}
    topology = {} if zone is None else {"nodeTopology": {"matchLabels": {ZONE: zone} if zone else {}}}
    return made("CSIStorageCapacity", name, "kube-system", storageClassName=for_class, **topology, **content)


TRACKING = made("CSIDriver", DRIVER, spec={"storageCapacity": True})


@pytest.mark.parametrize(
    ("objects", "fits"),
    [
        ([TRACKING], set()),
        ([made("CSIDriver", DRIVER, spec={"storageCapacity": False})], {"n-a", "n-b"}),
        ([made("CSIDriver", DRIVER, spec={})], {"n-a", "n-b"}),
        ([TRACKING, capacity("a", size="5Gi")], {"n-a"}),
        ([TRACKING, capacity("a", size="1Gi")], set()),
        ([TRACKING, capacity("a", size="5Gi", largest="1Gi")], set()),
        ([TRACKING, capacity("a", size="1Gi", largest="5Gi")], {"n-a"}),
        ([TRACKING, capacity("a")], set()),
        ([TRACKING, capacity("a", size="plenty"), capacity("b", size="5Gi", name="d")], {"n-b"}),
        ([TRACKING, capacity("", size="5Gi")], {"n-a", "n-b"}),
        ([TRACKING, capacity(None, size="5Gi")], set()),
        ([TRACKING, capacity("a", size="5Gi", for_class="other")], set()),
        ([TRACKING, capacity("a", size="5Gi"), capacity("b", size="2Gi", name="d")], {"n-a", "n-b"}),
    ],
)
def test_a_driver_that_tracks_capacity_must_have_room(objects, fits):
    state = zoned(claim("data", "2Gi"), storage_class(), *objects)
    answer = answers(state, pod("new", **mount("data")), PROFILE)
    assert {"n-a", "n-b"} - set(answer) == fits
    assert set(answer.values()) <= {rejected(NO_SPACE)}


@pytest.mark.parametrize(
    ("wanted", "reported", "fits"),
    [("20E", "19E", False), ("20E", "20E", True), ("1.8", "1.5", False), ("1.2", "1.5", True)],
)
def test_a_reported_capacity_is_compared_as_it_is(wanted, reported, fits):
    state = zoned(claim("data", wanted), storage_class(), TRACKING, capacity("a", size=reported))
    assert ("n-a" in answers(state, pod("new", **mount("data")), PROFILE)) is not fits


def test_a_claim_already_meant_for_a_node_stays_there():
    marked = claim("data", annotations={"volume.kubernetes.io/selected-node": "n-b"})
    state = zoned(marked, volume("disk"), storage_class())
    new = pod("new", **mount("data"))
    assert answers(state, new, PROFILE) == {"n-a": rejected(NO_MATCH)}
    assert matched(state, new) == {}, "a volume that is there would not be where it is being made"


# Reserving ----------------------------------------------------------------------------------------------------------


def reserved(state, new, node_name):
    view, cycle = state.snapshot(NOW), CycleState()
    PLUGIN.pre_filter(cycle, new, view)
    assert PLUGIN.filter(cycle, new, view, np.array([view.row(node_name)])) is None
    status = PLUGIN.reserve(cycle, new, node_name)
    assert status.is_success, status
    return cycle


def test_a_reserved_volume_is_not_offered_to_the_next_pod_until_unreserve():
    state = zoned(claim("mine"), claim("other"), volume("disk"), NO_PROVISIONER)
    mine, other = pod("mine", **mount("mine")), pod("other", **mount("other"))
    cycle = reserved(state, mine, "n-a")
    disk = state.objects.latest("PersistentVolume", "", "disk")
    assert (disk.spec.claim_ref.name, disk.spec.claim_ref.uid) == ("mine", "uid-mine")
    assert disk.metadata.annotations["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert state.objects.get("PersistentVolume", "", "disk").spec.claim_ref is None
    assert answers(state, other, PROFILE)["n-a"] == rejected(NO_MATCH)
    PLUGIN.unreserve(cycle, mine, "n-a")
    PLUGIN.unreserve(cycle, mine, "n-a")
    assert answers(state, other, PROFILE) == {}


def test_a_claim_to_be_provisioned_is_meant_for_its_node_at_once():
    state = zoned(claim("shared"), storage_class())
    reserved(state, pod("first", **mount("shared")), "n-b")
    assert answers(state, pod("second", **mount("shared")), PROFILE) == {"n-a": rejected(NO_MATCH)}


def test_the_reserved_volume_is_that_of_the_chosen_node():
    state = zoned(claim("data"), volume("near", zone="a"), volume("far", "2Gi", zone="b"), NO_PROVISIONER)
    reserved(state, pod("new", **mount("data")), "n-b")
    assert state.objects.latest("PersistentVolume", "", "far").spec.claim_ref.name == "data"
    assert state.objects.latest("PersistentVolume", "", "near").spec.claim_ref is None


def test_a_node_that_was_not_filtered_last_is_looked_at_again():
    state = zoned(claim("data"), volume("near", zone="a"), volume("far", "2Gi", zone="b"), NO_PROVISIONER)
    view, cycle, new = state.snapshot(NOW), CycleState(), pod("new", **mount("data"))
    PLUGIN.pre_filter(cycle, new, view)
    for name in ("n-b", "n-a"):
        assert PLUGIN.filter(cycle, new, view, np.array([view.row(name)])) is None
    assert PLUGIN.reserve(cycle, new, "n-b").is_success
    assert state.objects.latest("PersistentVolume", "", "far").spec.claim_ref.name == "data"


def test_nothing_is_reserved_for_bound_claims():
    state = zoned(claim("data", volume="disk"), volume("disk", for_claim="data"))
    before = state.objects.generation("PersistentVolume", "PersistentVolumeClaim")
    reserved(state, pod("new", **mount("data")), "n-a")
    assert state.objects.generation("PersistentVolume", "PersistentVolumeClaim") == before


# Waking -------------------------------------------------------------------------------------------------------------

MIGRATED = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
EVENTS = {registration.resource: registration for registration in PLUGIN.events_to_register()}


@pytest.mark.parametrize(
    ("kind", "old", "new", "hint"),
    [
        ("StorageClass", None, storage_class(), Hint.QUEUE),
        ("StorageClass", storage_class(), storage_class(labels={"a": "b"}), Hint.SKIP),
        (
            "StorageClass",
            storage_class(),
            storage_class(allowedTopologies=[{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}]),
            Hint.QUEUE,
        ),
        ("PersistentVolumeClaim", None, claim("data"), Hint.QUEUE),
        ("PersistentVolumeClaim", claim("data"), claim("data", volume="disk"), Hint.QUEUE),
        ("PersistentVolumeClaim", None, claim("new-scratch"), Hint.QUEUE),
        ("PersistentVolumeClaim", None, claim("other"), Hint.SKIP),
        ("CSINode", None, made("CSINode", "n"), Hint.QUEUE),
        ("CSINode", made("CSINode", "n"), made("CSINode", "n", annotations=MIGRATED), Hint.QUEUE),
        ("CSINode", made("CSINode", "n"), made("CSINode", "n", labels={"a": "b"}), Hint.SKIP),
        ("CSIDriver", TRACKING, made("CSIDriver", DRIVER, spec={}), Hint.QUEUE),
        ("CSIDriver", made("CSIDriver", DRIVER, spec={}), TRACKING, Hint.SKIP),
        ("CSIDriver", made("CSIDriver", "x", spec={"storageCapacity": True}), made("CSIDriver", "x"), Hint.SKIP),
        ("CSIStorageCapacity", None, capacity("a", size="1Gi"), Hint.QUEUE),
        ("CSIStorageCapacity", capacity("a", size="1Gi"), capacity("a", size="2Gi"), Hint.QUEUE),
        ("CSIStorageCapacity", capacity("a", size="2Gi"), capacity("a", size="1Gi"), Hint.SKIP),
        ("CSIStorageCapacity", capacity("a"), capacity("a", size="1Gi"), Hint.QUEUE),
    ],
)
def test_what_wakes_a_pod(kind, old, new, hint):
    waiting = pod("new", **mount("data", scratch={"ephemeral": {}}, inline={"csi": {"driver": DRIVER}}))
    assert EVENTS[kind].hint(waiting, old, new) is hint


def test_every_volume_and_every_new_or_relabelled_node_wakes():
    assert EVENTS["PersistentVolume"].hint is None
    assert EVENTS["Node"].hint is None
