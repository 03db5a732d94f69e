"""Situations of upstream's tables for the plugin (dynamicresources_test.go and extendeddynamicresources_test.go of
kube-scheduler 1.36.3) that the other tests of devices do not have.

Of the 86 of TestPlugin 65 are covered: here, in `test_dynamicresources.py`, `test_extended_resources.py`,
`test_device_taint_rules.py`, and that of a search that takes too long, in steps, in `test_allocator.py`. Not covered
are 21: 9 of claims of pod groups and 5 of node-allocatable resources (gates that are off by default, not followed), 5
that switch a gate off that is always on here, a `filterTimeout` of no seconds, and a Filter that its caller cancels
(there are no callers that do).
"""

import pytest

from scheduler.framework import Code, failure
from tests.unit.scheduler.core.builders import container, node, pod
from tests.unit.scheduler.plugins.devices import (
    Server,
    Try,
    allocated,
    claim,
    device,
    device_class,
    devices_of,
    exactly,
    first_available,
    given,
    using,
)

CANNOT = "cannot allocate all claims"
FINALIZER = "resource.kubernetes.io/delete-protection"
BROKEN = 'device.attributes["gpu.example.com"].absent == 1'


def bound(server, new, on="a", plugin=None):
    attempt = Try(server, new, plugin)
    assert attempt.reserve(on).is_success
    return attempt.bind(on)


# Writes -------------------------------------------------------------------------------------------------------------


def test_a_finalizer_that_is_there_is_not_written_again():
    server = Server(claim("gpu", metadata={"finalizers": [FINALIZER]}), device_class(), devices_of("a", "g0"))
    assert bound(server, pod("new", **using("gpu"))).is_success
    assert server.writes == [("gpu", "status")]


def test_other_finalizers_stay():
    server = Server(claim("gpu", metadata={"finalizers": ["example.com/f"]}), device_class(), devices_of("a", "g0"))
    assert bound(server, pod("new", **using("gpu"))).is_success
    assert server.stored("gpu").metadata.finalizers == ("example.com/f", FINALIZER)


def test_a_finalizer_that_goes_meanwhile_is_written_after_the_conflict():
    server = Server(
        claim("gpu", metadata={"finalizers": [FINALIZER]}), device_class(), devices_of("a", "g0"), delayed=True
    )
    attempt = Try(server, pod("new", **using("gpu")))
    attempt.reserve()
    server._stored["gpu"]["metadata"]["finalizers"] = []
    server.changed("gpu")
    assert attempt.bind().is_success
    assert server.stored("gpu").metadata.finalizers == (FINALIZER,)


def test_an_allocation_that_is_freed_meanwhile_fails_the_binding():
    server = Server(allocated("gpu", ("a", "g0")), device_class(), devices_of("a", "g0"), delayed=True)
    attempt = Try(server, pod("new", **using("gpu")))
    attempt.reserve()
    server.changed("gpu", allocation=None)
    assert attempt.bind().message == "claim default/gpu got deallocated elsewhere in the meantime"


@pytest.mark.parametrize(("version", "stamped"), [("1.34", False), ("1.35", False), ("1.36", True), ("1.37", True)])
def test_the_time_of_an_allocation_is_written_from_1_36_on(version, stamped):
    server = Server(claim("gpu"), device_class(), devices_of("a", "g0"))
    assert bound(server, pod("new", **using("gpu")), plugin=server.plugin_for("test", version)).is_success
    assert bool(server.stored("gpu").status.allocation.allocation_timestamp) is stamped


def test_a_reservation_that_is_never_bound_leaves_nothing():
    server = Server(claim("gpu"), device_class(extendedResourceName="example.com/gpu"), devices_of("a", "g0", "g1"))
    server.plugin = server.plugin_for("test", "1.36")
    new = pod("new", container(requests={"example.com/gpu": "1"}), **using("gpu"))
    attempt = Try(server, new)
    assert attempt.reserve().is_success
    assert Try(server, pod("other", container(requests={"example.com/gpu": "1"}))).rejections() == {"a": CANNOT}
    attempt.plugin.unreserve(attempt.cycle, new, "a")
    server.finish()
    assert server.writes == []
    assert Try(server, new).rejections() == {}


# Selectors that fail ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("good", ["b", "bc"])
def test_a_selector_that_fails_on_one_node_fails_the_attempt_on_all(good):
    fine = [devices_of(name, device("g0", attributes={"absent": 1})) for name in good]
    server = Server(claim("gpu", exactly(when=BROKEN)), device_class(), devices_of("a", "g0"), *fine, nodes="a" + good)
    with pytest.raises(Exception, match=r"^claim default/gpu: selector #0: CEL runtime error: no such key: absent$"):
        Try(server, pod("new", **using("gpu"))).rejections()


def test_a_selector_of_a_class_that_fails_names_the_class():
    server = Server(claim("gpu"), device_class("gpu", BROKEN), devices_of("a", "g0"))
    with pytest.raises(Exception, match=r"^class gpu: selector #0: CEL runtime error: no such key: absent$"):
        Try(server, pod("new", **using("gpu"))).rejections()


# Scores -------------------------------------------------------------------------------------------------------------


def scored(server, new):
    attempt = Try(server, new)
    attempt.rejections()
    view = attempt.view
    scores = attempt.plugin.score(attempt.cycle, new, view, view.rows)
    return {view.name(row): int(scores[at]) for at, row in enumerate(view.rows.tolist())}


TWO_OR_ANY = ("two", 2), ("any", 1)


def choice(name):
    return first_available(name, *(exactly(sub, count=count) for sub, count in TWO_OR_ANY))


def test_each_request_of_a_claim_counts():
    server = Server(claim("gpu", choice("r"), choice("s")), device_class(), nodes="abc")
    for name, count in (("a", 2), ("b", 3), ("c", 4)):
        server.state.objects.upsert("ResourceSlice", devices_of(name, *(f"g{at}" for at in range(count))))
    # The first alternative of the first request is taken wherever the second one still gets something.
    assert scored(server, pod("new", **using("gpu"))) == {"a": 14, "b": 15, "c": 16}


def test_each_claim_of_a_pod_counts():
    server = Server(claim("one", choice("r")), claim("two", choice("r")), device_class(), nodes="abc")
    for name, count in (("a", 2), ("b", 3), ("c", 4)):
        server.state.objects.upsert("ResourceSlice", devices_of(name, *(f"g{at}" for at in range(count))))
    assert scored(server, pod("new", **using("one", "two"))) == {"a": 14, "b": 15, "c": 16}


def test_extended_resources_leave_the_ratings_of_claims():
    server = Server(claim("gpu", choice("r")), device_class(extendedResourceName="example.com/gpu"), nodes="abc")
    server.plugin = server.plugin_for("test", "1.36")
    for name, count in (("a", 2), ("b", 3)):
        server.state.objects.upsert("ResourceSlice", devices_of(name, *(f"g{at}" for at in range(count))))
    server.state.upsert_node(node("c", allocatable={"example.com/gpu": "1"}))
    server.state.objects.upsert("ResourceSlice", devices_of("c", "g0"))
    new = pod("new", container(requests={"example.com/gpu": "1"}), **using("gpu"))
    assert scored(server, new) == {"a": 7, "b": 8, "c": 7}


# Binding conditions -------------------------------------------------------------------------------------------------


def fabric(name):
    return device(name, bindingConditions=["attached"], bindingFailureConditions=["broken"])


def waiting_for(*reports):
    """PreBind of a pod with two claims, one of which needs no preparation; each pause brings reports by claim."""
    server = Server(
        claim("one"),
        claim("two"),
        claim("plain", exactly(when='device.driver == "plain.example.com"')),
        device_class(),
        devices_of("a", fabric("g0"), fabric("g1")),
        devices_of("a", "p0", name="plain", driver="plain.example.com", pool={"name": "plain"}),
    )
    plugin = server.plugin_for("test", "1.36")
    attempt = Try(server, pod("new", **using("plain", "one", "two")), plugin)
    assert attempt.reserve().is_success
    left, pause = list(reports), server.pause

    async def pause_and_report(seconds, **_):
        for name, condition in (left.pop(0) if left else {}).items():
            (result,) = server.stored(name).status.allocation.devices.results
            conditions = [{"type": condition, "status": "True", "reason": "R", "message": "m"}]
            report = {"driver": result.driver, "pool": result.pool, "device": result.device, "conditions": conditions}
            server.changed(name, devices=[report])
        await pause(seconds)

    server.pause = pause_and_report
    status = attempt.bind()
    server.finish()
    return status


def test_all_claims_of_a_pod_have_to_be_ready():
    assert waiting_for({"one": "attached"}, {}, {"two": "attached"}).is_success


def test_one_claim_that_will_not_be_ready_fails_the_binding():
    status = waiting_for({"one": "attached"}, {"two": "broken"})
    assert (status.code, status.message) == (Code.ERROR, 'device binding failed: claim=two, reason=R, message="m"')


def test_devices_without_conditions_are_not_waited_for():
    server = Server(claim("gpu"), device_class(), devices_of("a", "g0"))
    assert bound(server, pod("new", **using("gpu")), plugin=server.plugin_for("test", "1.36")).is_success
    assert server.events == []


# Extended resources -------------------------------------------------------------------------------------------------

ONE, TWO = "example.com/one", "example.com/two"


def both(**amounts):
    return pod("new", container(requests=amounts or {ONE: "1", TWO: "1"}))


def with_classes(*objects):
    server = Server(
        device_class("one", extendedResourceName=ONE), device_class("two", extendedResourceName=TWO), *objects
    )
    server.plugin = server.plugin_for("test", "1.36")
    return server


def test_one_resource_is_the_nodes_and_the_other_devices():
    server = with_classes(devices_of("b", "g0"))
    server.state.upsert_node(node("b", allocatable={ONE: "4"}))
    attempt = Try(server, both())
    assert attempt.rejections() == {"a": CANNOT}
    assert bound(server, both(), "b").is_success
    (request,) = server.stored(server.claims[0]).spec.devices.requests
    # Its index is that of the name among all that the container requests.
    assert (request.name, request.exactly.device_class_name) == ("container-0-request-1", "two")


def test_a_node_with_none_left_to_allocate_needs_devices():
    server = with_classes(devices_of("a", "g0"))
    server.state.upsert_node(node("a", allocatable={ONE: "0"}))
    assert bound(server, both(**{ONE: "1"})).is_success
    assert given(server.stored(server.claims[0])) == [("container-0-request-0", "a", "g0")]


def test_a_resource_without_class_of_which_a_node_has_none_left_is_not_its_concern():
    server = with_classes(devices_of("a", "g0"))
    server.state.upsert_node(node("a", allocatable={"example.com/other": "0"}))
    # NodeResourcesFit says that it is insufficient.
    assert Try(server, both(**{ONE: "1", "example.com/other": "1"})).rejections() == {}


def test_implicit_names_of_two_containers():
    resource = "deviceclass.resource.kubernetes.io/one"
    server = with_classes(devices_of("a", "g0", "g1", "g2"))
    new = pod("new", container(requests={resource: "1"}), container(name="d", requests={resource: "2"}))
    assert bound(server, new).is_success
    assert given(server.stored(server.claims[0])) == [
        ("container-0-request-0", "a", "g0"),
        ("container-1-request-0", "a", "g1"),
        ("container-1-request-0", "a", "g2"),
    ]


def test_a_claim_that_fails_to_be_reserved_is_deleted():
    server = with_classes(devices_of("a", "g0"))
    attempt = Try(server, both(**{ONE: "1"}))
    attempt.reserve()
    patch = server.patch_object

    async def refused(kind, item, content, subresource=""):
        if subresource:
            return failure("not today"), None
        return await patch(kind, item, content, subresource)

    server.patch_object = refused
    status = attempt.bind()
    assert status.message.endswith("not today")
    server.patch_object = patch
    server.finish()
    assert server.claims == []


# Pods of a group: its claims are those of each pod, as long as the gate DRAWorkloadResourceClaims is off --------------

OF_A_GROUP = {"schedulingGroup": {"podGroupName": "group"}, **using("gpu")}


@pytest.mark.parametrize(
    "shared", [claim("gpu"), allocated("gpu", ("a", "g0"))], ids=["without devices", "with devices"]
)
def test_a_claim_that_the_pods_group_names_too_is_reserved_for_the_pod(shared):
    server = Server(shared, device_class(), devices_of("a", "g0"))
    assert bound(server, pod("new", **OF_A_GROUP)).is_success
    (user,) = server.stored("gpu").status.reserved_for
    assert (user.resource, user.name, user.uid) == ("pods", "new", "uid-new")
    assert given(server.stored("gpu")) == [("r", "a", "g0")]


def test_a_claim_that_a_pod_group_has_reserved_is_not_freed():
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "group", "uid": "uid-group"}
    server = Server(allocated("gpu", ("b", "g0"), only_on="b"), device_class(), devices_of("a", "g0"))
    server.changed("gpu", reservedFor=[group])
    attempt = Try(server, pod("new", **OF_A_GROUP))
    assert attempt.rejections() == {"a": "resourceclaim not available on the node"}
    assert attempt.post_filter().message == "still not schedulable"
    assert server.writes == []
