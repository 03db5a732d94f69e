"""Extended resources that are devices of a class: which nodes pass, the claim that is made, and when it goes again."""

import random

import msgspec
import pytest

from scheduler.core import decide
from scheduler.framework import Code, Hint, conclude, failure
from scheduler.helpers import ExtendedResources
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner
from tests.unit.scheduler.plugins.devices import Server, Try, claim, device_class, devices_of, exactly, given, using
from tests.unit.scheduler.plugins.storage import explained, made, put

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
CLASS = device_class(extendedResourceName=GPU)
CANNOT = "cannot allocate all claims"


def asking(name="new", count="1", resource=GPU, **more):
    return pod(name, container(requests={resource: count}), **more)


def on_1_36(*objects, nodes="a", delayed=False):
    server = Server(*objects, nodes=nodes, delayed=delayed)
    server.plugin = server.plugin_for("test", "1.36")
    return server


def ended(server, pod_, on="a"):
    attempt = Try(server, pod_)
    assert attempt.rejections() == {}
    assert attempt.reserve(on).is_success
    return attempt


# Classes ------------------------------------------------------------------------------------------------------------


def dated(name, day, resource=GPU):
    return made(
        "DeviceClass",
        name,
        metadata={"creationTimestamp": f"2026-01-0{day}T00:00:00Z"},
        spec={"extendedResourceName": resource},
    )


def test_of_classes_with_one_resource_the_youngest_counts_then_the_first_by_name():
    state = put(cluster(), dated("old", 1), dated("b", 2), dated("a", 2))
    known = state.objects.derived(ExtendedResources)
    assert known.class_of(GPU) == "a"
    state.objects.remove("DeviceClass", "", "a")
    assert known.class_of(GPU) == "b"
    assert known.class_of("deviceclass.resource.kubernetes.io/old") == "old"
    assert known.class_of("deviceclass.resource.kubernetes.io/a") is None


# Filter -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resource", [GPU, IMPLICIT])
def test_a_node_that_lacks_the_resource_needs_devices(resource):
    server = on_1_36(CLASS, devices_of("a", "g0", "g1"), nodes="ab")
    assert Try(server, asking(resource=resource, count="2")).rejections() == {"b": CANNOT}
    assert Try(server, asking(resource=resource, count="3")).rejections() == {"a": CANNOT, "b": CANNOT}


@pytest.mark.parametrize("version", ["1.34", "1.35"])
def test_older_versions_do_not_look_for_devices(version):
    server = Server(CLASS, devices_of("a", "g0"))
    attempt = Try(server, asking(), server.plugin_for("test", version))
    assert attempt.status.is_skip


def test_a_resource_of_no_class_is_not_its_concern():
    server = on_1_36(device_class())
    assert Try(server, asking()).status.is_skip


def test_a_node_with_the_resource_needs_no_devices():
    server = on_1_36(CLASS)
    server.state.upsert_node(node("b", allocatable={GPU: "4"}))
    attempt = Try(server, asking())
    assert attempt.rejections() == {"a": CANNOT}
    assert attempt.reserve("b").is_success
    assert attempt.bind("b").is_success
    assert server.claims == []


def test_a_claim_of_the_pod_and_its_resource_have_different_devices():
    server = on_1_36(CLASS, claim("gpu"), devices_of("a", "g0", "g1"), devices_of("b", "g0"), nodes="ab")
    new = asking(**using("gpu"))
    attempt = Try(server, new)
    assert attempt.rejections() == {"b": CANNOT}
    attempt.reserve()
    assert attempt.bind().is_success
    named, special = server.claims
    assert given(server.stored(named)) == [("r", "a", "g0")]
    assert given(server.stored(special)) == [("container-0-request-0", "a", "g1")]


def test_a_node_with_the_resource_needs_devices_for_the_claim_only():
    server = on_1_36(CLASS, claim("gpu"), devices_of("b", "g0"))
    server.state.upsert_node(node("b", allocatable={GPU: "4"}))
    attempt = Try(server, asking(**using("gpu")))
    assert attempt.rejections() == {"a": CANNOT}
    attempt.reserve("b")
    # Upstream creates a claim without requests here, and then fails.
    assert attempt.bind("b").is_success
    assert server.claims == ["gpu"]


def test_a_resource_that_neither_the_node_nor_a_class_has_cannot_be_had():
    server = on_1_36(CLASS, devices_of("a", "g0"))
    new = pod("new", container(requests={GPU: "1", "example.com/other": "1"}))
    assert Try(server, new).rejections() == {"a": "cannot fit resource"}


def test_more_devices_than_a_claim_can_have_fail_the_attempt():
    server = on_1_36(CLASS, devices_of("a", "g0"))
    attempt = Try(server, asking(count="33"))
    with pytest.raises(Exception, match="number of requested devices 33 exceeds the claim limit of 32"):
        attempt.rejections()


def test_noderesourcesfit_leaves_the_resource_to_the_devices():
    """Pods of one class: what is kept of it follows the classes."""
    profile, state = runner(kubernetes="1.36"), put(cluster(node("a"), node("b")), devices_of("a", "g0"))
    rng = random.Random(1)

    def decided(name):
        placement = conclude(decide(state.snapshot(NOW), asking(name), profile, rng))
        return placement.node or placement.message

    insufficient = f"0/2 nodes are available: 2 Insufficient {GPU}"
    for name in ("first", "second", "third"):
        assert decided(name).startswith(insufficient)
    state.objects.upsert("DeviceClass", CLASS)
    for name in ("fourth", "fifth", "sixth"):
        assert decided(name) == "a"
    state.objects.remove("DeviceClass", "", "gpu")
    for name in ("seventh", "eighth"):
        assert decided(name).startswith(insufficient)
    assert explained(state, asking("ninth"), profile).message.startswith(insufficient)


# The claim ----------------------------------------------------------------------------------------------------------


def test_the_claim_is_made_as_upstream_makes_it():
    server = on_1_36(CLASS, devices_of("a", "g0", "g1"))
    attempt = ended(server, asking(count="2"))
    assert server.claims == []
    assert attempt.bind().is_success
    (name,) = server.claims
    stored = server.stored(name)
    assert name.startswith("new-extended-resources-")
    assert stored.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert msgspec.to_builtins(stored.metadata.owner_references[0]) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "new",
        "uid": "uid-new",
        "controller": True,
    }
    (request,) = stored.spec.devices.requests
    assert (request.name, request.exactly.device_class_name, request.exactly.count) == (
        "container-0-request-0",
        "gpu",
        2,
    )
    assert given(stored) == [("container-0-request-0", "a", "g0"), ("container-0-request-0", "a", "g1")]
    assert [user.uid for user in stored.status.reserved_for] == ["uid-new"]
    assert stored.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    mapping = {"containerName": "c", "resourceName": GPU, "requestName": "container-0-request-0"}
    status = {"extendedResourceClaimStatus": {"requestMappings": [mapping], "resourceClaimName": name}}
    assert server.pod_patches == [("new", "status", {"status": status})]
    assert server.logged == []


def test_its_devices_are_in_use_until_the_watch_brings_it_and_after():
    server = on_1_36(CLASS, devices_of("a", "g0"), delayed=True)
    attempt = ended(server, asking())
    assert Try(server, asking("second")).rejections() == {"a": CANNOT}
    waited = []

    async def pause(seconds, **_):
        waited.append(seconds)
        assert Try(server, asking("second")).rejections() == {"a": CANNOT}
        if len(waited) == 3:
            server.watch_brings(server.claims[0])
        server.seconds += seconds

    server.pause = pause
    assert attempt.bind().is_success
    assert len(waited) == 3
    assert Try(server, asking("second")).rejections() == {"a": CANNOT}
    assert server.logged == []


INIT = {"restartPolicy": "Always"}
CASES = {
    "index in the sorted names": (
        [],
        [container("1", "1Gi", requests={GPU: "1"})],
        [("container-0-request-1", 1)],
        [("c", "container-0-request-1")],
    ),
    "two containers": (
        [],
        [container(requests={GPU: "1"}), container(name="d", requests={GPU: "2"})],
        [("container-0-request-0", 1), ("container-1-request-0", 2)],
        [("c", "container-0-request-0"), ("d", "container-1-request-0")],
    ),
    "an init container uses what runs after it": (
        [container(name="i", requests={GPU: "1"})],
        [container(requests={GPU: "2"})],
        [("container-1-request-0", 2)],
        [("c", "container-1-request-0"), ("i", "container-1-request-0")],
    ),
    "an init container needs more": (
        [container(name="i", requests={GPU: "3"})],
        [container(requests={GPU: "2"})],
        [("container-0-request-0", 1), ("container-1-request-0", 2)],
        [("c", "container-1-request-0"), ("i", "container-1-request-0"), ("i", "container-0-request-0")],
    ),
    "init containers share the largest": (
        [container(name="i", requests={GPU: "1"}), container(name="j", requests={GPU: "2"})],
        [container()],
        [("container-1-request-0", 2)],
        [("i", "container-1-request-0"), ("j", "container-1-request-0")],
    ),
    "a sidecar lasts": (
        [container(name="s", requests={GPU: "1"}, **INIT), container(name="i", requests={GPU: "1"})],
        [container(requests={GPU: "1"})],
        [("container-0-request-0", 1), ("container-2-request-0", 1)],
        [("s", "container-0-request-0"), ("c", "container-2-request-0"), ("i", "container-2-request-0")],
    ),
    "an earlier sidecar is not for a later init container": (
        [container(name="s", requests={GPU: "2"}, **INIT), container(name="i", requests={GPU: "1"})],
        [container()],
        [("container-0-request-0", 2), ("container-1-request-0", 1)],
        [("s", "container-0-request-0"), ("i", "container-1-request-0")],
    ),
}


@pytest.mark.parametrize(("init", "main", "requests", "mappings"), CASES.values(), ids=CASES)
def test_containers_share_requests_as_upstream(init, main, requests, mappings):
    server = on_1_36(CLASS, devices_of("a", *(f"g{index}" for index in range(6))))
    attempt = ended(server, pod("new", *main, initContainers=init))
    assert attempt.bind().is_success
    stored = server.stored(server.claims[0])
    assert [(each.name, each.exactly.count) for each in stored.spec.devices.requests] == requests
    ((_, _, patch),) = server.pod_patches
    status = patch["status"]["extendedResourceClaimStatus"]["requestMappings"]
    assert [(each["containerName"], each["requestName"]) for each in status] == mappings


# What fails ---------------------------------------------------------------------------------------------------------


def test_a_claim_that_cannot_be_created_fails_the_binding_and_frees_the_devices():
    server = on_1_36(CLASS, devices_of("a", "g0"))
    attempt = ended(server, asking())
    server.refusals = ["not today"]
    status = attempt.bind()
    message = "create claim for extended resources default/: not today"
    assert (status.code, status.message) == (Code.ERROR, message)
    server.finish()
    assert server.writes == []
    assert server.measured == [("scheduler_resourceclaim_creates_total", 1, "failure")]
    assert Try(server, asking("second")).rejections() == {}


def test_claims_that_are_created_are_counted_in_the_metric_of_the_version():
    server = on_1_36(CLASS, devices_of("a", "g0", "g1"))
    assert ended(server, asking()).bind().is_success
    server.plugin = server.plugin_for("later", "1.37")
    assert ended(server, asking("second")).bind().is_success
    assert server.measured == [
        ("scheduler_resourceclaim_creates_total", 1, "success"),
        ("dynamic_resource_allocation_resourceclaim_creates_total", 1, "success", "false", "", "Pod"),
    ]


def test_the_claim_of_a_binding_that_failed_is_deleted():
    server = on_1_36(CLASS, devices_of("a", "g0"))
    attempt = ended(server, asking())

    async def refused(*args):
        return failure("not today")

    server.patch_pod = refused
    status = attempt.bind()
    assert status.message == "update pod default/new ExtendedResourceClaimStatus: not today"
    server.finish()
    assert server.claims == []
    assert Try(server, asking("second")).rejections() == {}


STALE = claim(
    "stale",
    exactly(),
    metadata={
        "finalizers": ["resource.kubernetes.io/delete-protection"],
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"kind": "Pod", "name": "new", "uid": "uid-new", "controller": True}],
    },
)


def test_a_claim_of_an_earlier_attempt_goes_first():
    server = on_1_36(CLASS, STALE, devices_of("a", "g0"))
    attempt = Try(server, asking())
    assert attempt.rejections() == {"a": "cannot schedule extended resource claim"}
    status = attempt.post_filter()
    assert (status.code, status.message) == (Code.UNSCHEDULABLE, "deletion of ResourceClaim completed")
    assert server.claims == []
    assert Try(server, asking()).rejections() == {}
    # It is nobody else's concern.
    server = on_1_36(CLASS, STALE, devices_of("a", "g0"))
    assert Try(server, asking("other")).rejections() == {}


# Hints --------------------------------------------------------------------------------------------------------------


def hint(plugin, resource, waiting, old, new):
    (registration,) = (each for each in plugin.events_to_register() if each.resource == resource)
    return registration.hint(waiting, old, new)


def test_the_end_of_its_stale_claim_wakes_a_pod_and_no_other():
    server = on_1_36(CLASS)
    assert hint(server.plugin, "ResourceClaim", asking(), STALE, None) is Hint.QUEUE
    assert hint(server.plugin, "ResourceClaim", asking("other"), STALE, None) is Hint.SKIP


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, CLASS, Hint.QUEUE),
        (None, device_class(), Hint.SKIP),
        (device_class(), CLASS, Hint.QUEUE),
        (CLASS, CLASS, Hint.SKIP),
        (CLASS, device_class(extendedResourceName="example.com/other"), Hint.SKIP),
    ],
)
def test_a_class_that_may_be_the_resource_wakes_pods_that_lack_it(old, new, expected):
    fit = runner(kubernetes="1.36").plugins["NodeResourcesFit"]
    assert hint(fit, "DeviceClass", asking(), old, new) is expected


def test_an_implicit_name_wakes_at_the_classs_creation_only():
    fit = runner(kubernetes="1.36").plugins["NodeResourcesFit"]
    waiting = asking(resource=IMPLICIT)
    assert hint(fit, "DeviceClass", waiting, None, device_class()) is Hint.QUEUE
    assert hint(fit, "DeviceClass", waiting, device_class(), CLASS) is Hint.SKIP


def test_a_node_without_the_resource_wakes_a_pod_if_a_class_has_it():
    for version, expected in (("1.35", Hint.SKIP), ("1.36", Hint.QUEUE)):
        fit, state = runner(kubernetes=version).plugins["NodeResourcesFit"], put(cluster(), CLASS)
        fit.use_objects(state.objects)
        (registration,) = (each for each in fit.events_to_register() if each.resource == "Node")
        assert registration.hint(asking(), None, node("a")) is expected
