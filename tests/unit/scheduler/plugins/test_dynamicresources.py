"""Devices for the claims of pods: where they are found, that none is given twice, what is written, what is undone."""

from datetime import UTC, datetime

import msgspec
import pytest

from scheduler.framework import Code, CycleState, Hint, UnknownOutcome
from scheduler.helpers import DoubleAllocations
from scheduler.kube.primitives import format_time
from scheduler.plugins.dynamicresources.capacity import AllocationError
from scheduler.plugins.dynamicresources.results import ClaimProblem, pod_claims
from tests.unit.scheduler.core.builders import NOW, cluster, node, pod, runner
from tests.unit.scheduler.plugins.devices import (
    DRIVER,
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
from tests.unit.scheduler.plugins.storage import explained, mount, put

PROFILE = runner()
PLUGIN = PROFILE.plugins["DynamicResources"]
CANNOT = "cannot allocate all claims"


def post_filter(new, *, pre_filter=True):
    state, view = CycleState(), cluster(node("n")).snapshot(NOW)
    if pre_filter:
        PLUGIN.pre_filter(state, new, view)
    return PLUGIN.post_filter(state, new, view, {})[1]


# Pods without claims ------------------------------------------------------------------------------------------------


def test_a_pod_without_claims_is_skipped():
    state = CycleState()
    _, status = PLUGIN.pre_filter(state, pod("new"), cluster(node("n")).snapshot(NOW))
    assert status.is_skip


def test_nothing_to_free_adds_upstreams_words():
    status = post_filter(pod("new"))
    assert (status.code, status.message) == (Code.UNSCHEDULABLE, "no new claims to deallocate")


def test_an_attempt_that_ended_before_it_adds_upstreams_error():
    status = post_filter(pod("new", **mount("absent")), pre_filter=False)
    assert (status.code, status.message) == (Code.ERROR, "not found")


# Claims that cannot be used yet -------------------------------------------------------------------------------------

OF_TEMPLATE = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
CREATED = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "new-gpu"}]}}
OWNED = {"metadata": {"ownerReferences": [{"kind": "Pod", "name": "new", "uid": "uid-new", "controller": True}]}}


@pytest.mark.parametrize(
    ("objects", "fields", "reason"),
    [
        ([], OF_TEMPLATE, 'pod "default/new": ResourceClaim not created yet'),
        ([], OF_TEMPLATE | CREATED, 'could not find ResourceClaim "default/new-gpu"'),
        (
            [claim("new-gpu")],
            OF_TEMPLATE | CREATED,
            "ResourceClaim default/new-gpu was not created for pod default/new (pod is not owner)",
        ),
        ([], using("gpu"), 'could not find ResourceClaim "default/gpu"'),
        (
            [claim("gpu", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            using("gpu"),
            'resourceclaim "gpu" is being deleted',
        ),
        (
            [],
            {"resourceClaims": [{"name": "gpu"}]},
            'pod "default/new", spec.resourceClaim "gpu": none of the supported fields are set',
        ),
    ],
)
def test_a_pod_waits_at_the_gate_until_its_claims_can_be_used(objects, fields, reason):
    server, new = Server(*objects), pod("new", **fields)
    gated = server.plugin.pre_enqueue(new)
    assert (gated.code, gated.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)
    assert Try(server, new).status == gated


def test_a_claim_of_a_template_is_found_by_the_pods_status():
    state = put(cluster(), claim("new-gpu", **OWNED))
    assert [each.metadata.name for each in pod_claims(pod("new", **OF_TEMPLATE, **CREATED), state.objects)] == [
        "new-gpu"
    ]


def test_a_claim_that_the_controller_found_unnecessary_is_none():
    new = pod("new", **OF_TEMPLATE, status={"resourceClaimStatuses": [{"name": "gpu"}]})
    assert pod_claims(new, cluster().objects) == []


def test_a_claim_that_a_pod_names_twice_counts_once():
    state = put(cluster(), claim("gpu"))
    assert len(pod_claims(pod("new", **using("gpu", "gpu")), state.objects)) == 1


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (exactly("r", "absent"), "request r: device class absent does not exist"),
        (
            first_available("r", exactly("a"), exactly("b", "absent")),
            "request r/b: device class absent does not exist",
        ),
        ({"name": "r"}, "resource claim default/gpu, request r: unknown request type"),
    ],
)
def test_a_request_that_no_node_can_meet_ends_the_attempt_at_once(request_, reason):
    attempt = Try(Server(claim("gpu", request_), device_class()), pod("new", **using("gpu")))
    assert (attempt.status.code, attempt.status.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)


# Filter -------------------------------------------------------------------------------------------------------------


def test_nodes_with_enough_free_devices_pass():
    server = Server(
        claim("gpu", exactly(count=2)),
        device_class(),
        devices_of("a", "g0", "g1"),
        devices_of("b", "g0"),
        devices_of("c", "g0", "g1"),
        allocated("other", ("c", "g1")),
        nodes="abcd",
    )
    assert Try(server, pod("new", **using("gpu"))).rejections() == {"b": CANNOT, "c": CANNOT, "d": CANNOT}


def test_the_message_of_a_pod_that_fits_nowhere_is_upstreams():
    state = put(cluster(node("a"), node("b")), claim("gpu"), device_class(), devices_of("a", device("g0")))
    put(state, allocated("other", ("a", "g0")))
    PROFILE.use_objects(state.objects)
    explanation = explained(state, pod("new", **using("gpu")), PROFILE)
    assert explanation.message == "0/2 nodes are available: 2 cannot allocate all claims."


def test_an_allocated_claim_binds_the_pod_to_its_node():
    server = Server(allocated("gpu", ("a", "g0"), only_on="a"), nodes="ab")
    assert Try(server, pod("new", **using("gpu"))).rejections() == {"b": "resourceclaim not available on the node"}


def test_a_selector_that_fails_fails_the_attempt():
    broken = exactly(when='device.attributes["gpu.example.com"].absent == 1')
    server = Server(claim("gpu", broken), device_class(), devices_of("a", "g0"))
    attempt = Try(server, pod("new", **using("gpu")))
    with pytest.raises(Exception, match=r"^claim default/gpu: selector #0: CEL runtime error: no such key: absent$"):
        attempt.rejections()


def test_an_unknown_function_fails_the_attempt_by_name():
    server = Server(claim("gpu", exactly(when="device.frobnicate()")), device_class(), devices_of("a", "g0"))
    with pytest.raises(Exception, match="CEL compile error: function frobnicate is not supported"):
        Try(server, pod("new", **using("gpu"))).rejections()


def test_claims_share_a_device_until_its_capacity_is_used_up():
    shared = device("g0", capacity={"memory": "10Gi"}, allowMultipleAllocations=True)
    names = ("one", "two", "three")
    server = Server(
        *(claim(name, exactly(capacity={"requests": {"memory": "4Gi"}})) for name in names),
        device_class(),
        devices_of("a", shared),
    )
    for name in names[:2]:
        attempt = Try(server, pod(name, **using(name)))
        assert attempt.rejections() == {}
        assert attempt.reserve().is_success
        assert Try(server, pod(name, **using("three"))).rejections() == ({} if name == "one" else {"a": CANNOT})
        assert attempt.bind().is_success
    results = [server.stored(name).status.allocation.devices.results[0] for name in names[:2]]
    assert [each.consumed_capacity for each in results] == [{"memory": "4Gi"}] * 2
    assert len({each.share_id for each in results} - {None}) == 2
    assert Try(server, pod("p", **using("three"))).rejections() == {"a": CANNOT}
    server.changed("one", allocation=None, reservedFor=None)
    assert Try(server, pod("p", **using("three"))).rejections() == {}


def test_a_negative_capacity_in_a_claim_makes_no_room_for_others():
    def taking(name, amount):
        result = {"request": "r", "driver": DRIVER, "pool": "a", "device": "g0", "shareID": f"share-{name}"}
        results = [{**result, "consumedCapacity": {"memory": amount}}]
        return claim(name, status={"allocation": {"devices": {"results": results}}})

    shared = device("g0", capacity={"memory": "10Gi"}, allowMultipleAllocations=True)
    wanted = claim("gpu", exactly(capacity={"requests": {"memory": "4Gi"}}))
    server = Server(wanted, taking("one", "7Gi"), taking("odd", "-7Gi"), device_class(), devices_of("a", shared))
    assert Try(server, pod("new", **using("gpu"))).rejections() == {"a": CANNOT}


def test_a_tainted_device_is_given_to_who_tolerates_it():
    tainted = device("g0", taints=[{"key": "sick", "effect": "NoSchedule"}])
    refused = Server(claim("gpu"), device_class(), devices_of("a", tainted))
    assert Try(refused, pod("new", **using("gpu"))).rejections() == {"a": CANNOT}
    tolerating = exactly(tolerations=[{"key": "sick", "operator": "Exists"}])
    holding = Server(claim("gpu", tolerating), device_class(), devices_of("a", tainted))
    assert Try(holding, pod("new", **using("gpu"))).rejections() == {}


# Reserve: no device twice -------------------------------------------------------------------------------------------


def two_pods_for_one_device(**options):
    server = Server(claim("one"), claim("two"), device_class(), devices_of("a", "g0"), **options)
    return server, pod("first", **using("one")), pod("second", **using("two"))


def test_a_reserved_device_is_not_given_again():
    server, first, second = two_pods_for_one_device()
    assert Try(server, first).reserve().is_success
    assert Try(server, second).rejections() == {"a": CANNOT}


def test_another_profile_sees_what_is_reserved():
    server, first, second = two_pods_for_one_device()
    other = server.plugin_for("other")
    assert Try(server, first).reserve().is_success
    assert Try(server, second, other).rejections() == {"a": CANNOT}


def test_of_two_members_of_a_gang_decided_together_one_gets_the_device():
    server, first, second = two_pods_for_one_device()
    early, late = Try(server, first), Try(server, second)
    assert early.rejections() == late.rejections() == {}
    assert early.reserve().is_success
    refusal = late.reserve()
    assert (refusal.code, refusal.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, CANNOT)


def test_a_device_given_back_is_free_again():
    server, first, second = two_pods_for_one_device()
    attempt = Try(server, first)
    attempt.reserve()
    server.plugin.unreserve(attempt.cycle, first, "a")
    assert Try(server, second).rejections() == {}
    assert server.writes == []


def test_a_claim_in_flight_is_not_shared():
    server = Server(claim("gpu"), device_class(), devices_of("a", "g0", "g1"))
    Try(server, pod("first", **using("gpu"))).reserve()
    status = Try(server, pod("second", **using("gpu"))).status
    assert status.message == "resource claim default/gpu is in the process of being allocated"


@pytest.mark.parametrize("delayed", [False, True])
def test_a_written_device_stays_in_use_whenever_the_watch_brings_it(delayed):
    server, first, second = two_pods_for_one_device(delayed=delayed)
    attempt = Try(server, first)
    assert attempt.reserve().is_success
    assert attempt.bind().is_success
    assert Try(server, second).rejections() == {"a": CANNOT}
    server.watch_brings("one")
    assert Try(server, second).rejections() == {"a": CANNOT}


def test_a_deallocated_claim_gives_its_devices_back():
    server = Server(claim("new"), allocated("old", ("a", "g0")), device_class(), devices_of("a", "g0"))
    assert Try(server, pod("p", **using("new"))).rejections() == {"a": CANNOT}
    server.changed("old", allocation=None, reservedFor=None)
    assert Try(server, pod("p", **using("new"))).rejections() == {}


def test_an_administrators_access_takes_no_device():
    server = Server(claim("watch", exactly(adminAccess=True)), claim("use"), device_class(), devices_of("a", "g0"))
    watching = Try(server, pod("watcher", **using("watch")))
    assert watching.reserve().is_success
    assert watching.bind().is_success
    assert server.stored("watch").status.allocation.devices.results[0].admin_access is True
    using_it = Try(server, pod("user", **using("use")))
    assert using_it.reserve().is_success
    assert Try(server, pod("watcher2", **using("watch"))).rejections() == {}


# PreBind: what is written -------------------------------------------------------------------------------------------


def test_finalizer_then_allocation_and_reservation_are_written():
    server = Server(claim("gpu", exactly(count=2)), device_class(), devices_of("a", "g1", "g0"))
    attempt = Try(server, pod("new", **using("gpu")))
    assert attempt.reserve().is_success
    assert attempt.bind().is_success
    assert server.writes == [("gpu", ""), ("gpu", "status")]
    written = server.stored("gpu")
    assert written.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    assert given(written) == [("r", "a", "g1"), ("r", "a", "g0")]
    (term,) = written.status.allocation.node_selector.node_selector_terms
    assert (term.match_fields[0].key, term.match_fields[0].values) == ("metadata.name", ("a",))
    assert [(user.resource, user.name, user.uid) for user in written.status.reserved_for] == [
        ("pods", "new", "uid-new")
    ]


def test_an_allocated_claim_is_only_reserved():
    server = Server(allocated("gpu", ("a", "g0"), users=("first",)))
    attempt = Try(server, pod("second", **using("gpu")))
    assert attempt.reserve().is_success
    assert attempt.bind().is_success
    assert server.writes == [("gpu", "status")]
    assert [user.name for user in server.stored("gpu").status.reserved_for] == ["first", "second"]


def test_a_claim_reserved_for_the_pod_is_not_written():
    server = Server(allocated("gpu", ("a", "g0"), users=("new",)))
    attempt = Try(server, pod("new", **using("gpu")))
    assert attempt.reserve().is_success
    assert attempt.bind().is_success
    assert server.writes == []


def test_after_a_conflict_the_claim_is_read_and_written_again():
    server = Server(claim("gpu"), device_class(), devices_of("a", "g0"))
    attempt = Try(server, pod("new", **using("gpu")))
    attempt.reserve()
    server.delayed = True
    server.changed("gpu")
    assert attempt.bind().is_success
    assert given(server.stored("gpu")) == [("r", "a", "g0")]


def test_a_write_whose_answer_was_lost_counts():
    server = Server(claim("gpu"), device_class(), devices_of("a", "g0"), delayed=True)
    attempt = Try(server, pod("new", **using("gpu")))
    attempt.reserve()
    server.lost_answers = 2
    assert attempt.bind().is_success
    assert [user.name for user in server.stored("gpu").status.reserved_for] == ["new"]


def with_finalizer():
    """A claim whose next write is that of its allocation."""
    return claim("gpu", metadata={"finalizers": ["resource.kubernetes.io/delete-protection"]})


def in_doubt(**doubt):
    server = Server(with_finalizer(), claim("other"), device_class(), devices_of("a", "g0"), delayed=True)
    attempt = Try(server, pod("new", **using("gpu")))
    attempt.reserve()
    for name, number in doubt.items():
        setattr(server, name, number)
    return server, attempt


def test_devices_stay_in_use_until_it_is_known_whether_they_were_written():
    """Neither the write nor the reads after it are answered; it lands while nobody can read."""
    server, attempt = in_doubt(late=1, unreadable=20)
    free_meanwhile = []
    pause = server.pause

    async def pause_and_look(seconds, **_):
        free_meanwhile.append(not Try(server, pod("second", **using("other"))).rejections())
        await pause(seconds)

    server.pause = pause_and_look
    assert attempt.bind().is_success
    assert len(free_meanwhile) == 20
    assert not any(free_meanwhile)
    assert given(server.stored("gpu")) == [("r", "a", "g0")]
    assert (
        "it is not known whether a claim was allocated; its devices stay in use until it can be read" in server.logged
    )


def test_a_write_that_lands_late_counts():
    server, attempt = in_doubt(late=1)
    assert attempt.bind().is_success
    assert [user.name for user in server.stored("gpu").status.reserved_for] == ["new"]


def test_a_write_in_doubt_is_given_up_when_it_cannot_land_any_more():
    server, attempt = in_doubt()

    async def lost(*args):
        return UnknownOutcome(Code.ERROR, error="connection lost"), None

    server.patch_object = lost
    status = attempt.bind()
    assert status.message == "add allocation and reservation to claim default/gpu: connection lost"
    assert server.seconds >= 75
    assert Try(server, pod("second", **using("other"))).rejections() == {}


def changed_elsewhere(server):
    server.changed("gpu", allocation={"devices": {"results": []}})


@pytest.mark.parametrize(
    ("happening", "error"),
    [
        (changed_elsewhere, "claim default/gpu got allocated elsewhere in the meantime"),
        (lambda server: server.deleted("gpu"), "claim default/gpu got deleted in the meantime"),
        (
            lambda server: server.refusals.append("not today"),
            "add finalizer to claim default/gpu: not today",
        ),
        (
            lambda server: (server.changed("gpu"), server.refusals.extend(["conflict", "not today"])),
            "add finalizer to claim default/gpu: not today",
        ),
    ],
)
def test_a_claim_that_cannot_be_had_fails_the_binding_and_frees_the_device(happening, error):
    server = Server(claim("gpu"), claim("other"), device_class(), devices_of("a", "g0"), delayed=True)
    attempt = Try(server, pod("new", **using("gpu")))
    attempt.reserve()
    happening(server)
    status = attempt.bind()
    assert (status.code, status.message) == (Code.ERROR, error)
    assert Try(server, pod("second", **using("other"))).rejections() == {}


def test_of_two_claims_the_first_loses_its_reservation_when_the_second_cannot_be_had():
    server = Server(claim("one"), claim("two"), device_class(), devices_of("a", "g0", "g1"))
    attempt = Try(server, pod("new", **using("one", "two")))
    attempt.reserve()
    server.delayed = True
    server.deleted("two")
    assert not attempt.bind().is_success
    server.finish()
    # The allocation stays: the next attempt uses it, or frees it.
    first = server.stored("one")
    assert given(first) == [("r", "a", "g0")]
    assert first.status.reserved_for == ()


# Another scheduler --------------------------------------------------------------------------------------------------

ELSEWHERE = {"devices": {"results": [{"request": "r", "driver": "gpu.example.com", "pool": "a", "device": "g0"}]}}
TWICE = (
    "a device is allocated to two claims: does another scheduler use the pool, too? (docs/one-scheduler-per-pool.md)"
)


def test_a_device_that_another_scheduler_gave_away_meanwhile_is_not_written():
    server = Server(claim("gpu"), claim("theirs"), device_class(), devices_of("a", "g0"))
    attempt = Try(server, pod("new", **using("gpu")))
    assert attempt.reserve().is_success
    server.changed("theirs", allocation=ELSEWHERE)
    assert server.logged == [TWICE]
    status = attempt.bind()
    message = "device gpu.example.com/a/g0 got allocated to another claim in the meantime"
    assert (status.code, status.message) == (Code.ERROR, message)
    assert server.writes == []
    # It is theirs.
    assert Try(server, pod("next", **using("gpu"))).rejections() == {"a": CANNOT}


def test_a_device_that_two_claims_have_is_reported():
    server = Server(allocated("gpu", ("a", "g0")), claim("theirs"), device_class(), devices_of("a", "g0"))
    server.changed("theirs", allocation=ELSEWHERE)
    assert server.logged == [TWICE]
    assert server.state.objects.derived(DoubleAllocations).devices == {"gpu.example.com/a/g0"}
    server.changed("theirs", allocation=None)
    assert not server.state.objects.derived(DoubleAllocations).devices
    assert Try(server, pod("new", **using("theirs"))).rejections() == {"a": CANNOT}


def test_the_pod_that_has_a_device_that_somebody_else_gets_too_has_an_event():
    mine = allocated("gpu", ("a", "g0"), only_on="a", users=("mine",))
    server = Server(mine, claim("theirs"), device_class(), devices_of("a", "g0"))
    server.state.upsert_pod(pod("mine", **using("gpu"), nodeName="a"))
    server.changed("theirs", allocation=ELSEWHERE)
    # Only of the replica that decides.
    assert server.events == []
    server.changed("theirs", allocation=None)
    Try(server, pod("new", **using("theirs")))
    server.changed("theirs", allocation=ELSEWHERE)
    note = "device gpu.example.com/a/g0 is allocated to another claim, too: does another scheduler use the pool?"
    assert server.events == [("mine", "DeviceAllocatedTwice", note)]


def test_our_own_writes_are_no_conflict():
    server = Server(claim("gpu"), device_class(), devices_of("a", "g0"))
    attempt = Try(server, pod("new", **using("gpu")))
    attempt.reserve()
    assert attempt.bind().is_success
    assert server.logged == []


# PostFilter ---------------------------------------------------------------------------------------------------------


def test_a_claim_that_keeps_the_pod_off_every_node_is_freed():
    server = Server(allocated("gpu", ("b", "g0"), only_on="b", users=("new",)))
    attempt = Try(server, pod("new", **using("gpu")))
    assert attempt.rejections() == {"a": "resourceclaim not available on the node"}
    status = attempt.post_filter()
    assert (status.code, status.message) == (Code.UNSCHEDULABLE, "deallocation of ResourceClaim completed")
    freed = server.stored("gpu").status
    assert (freed.allocation, freed.reserved_for) == (None, ())


def test_a_claim_that_others_use_is_not_freed():
    server = Server(allocated("gpu", ("b", "g0"), only_on="b", users=("other",)))
    attempt = Try(server, pod("new", **using("gpu")))
    attempt.rejections()
    assert attempt.post_filter().message == "still not schedulable"
    # Since 1.37 it has nothing to add.
    later = Try(server, pod("new", **using("gpu")), server.plugin_for("later", "1.37"))
    later.rejections()
    assert later.post_filter().message == ""
    assert server.writes == []


# Hints --------------------------------------------------------------------------------------------------------------


def hint(server, waiting, resource, old, new):
    (registration,) = (each for each in server.plugin.events_to_register() if each.resource == resource)
    return registration.hint(waiting, old, new)


def test_a_deallocation_anywhere_wakes_a_pod_and_a_reservation_does_not():
    server, waiting = Server(claim("gpu")), pod("new", **using("gpu"))
    holding, free = allocated("other", ("a", "g0")), claim("other")
    assert hint(server, waiting, "ResourceClaim", holding, free) is Hint.QUEUE
    assert hint(server, waiting, "ResourceClaim", free, holding) is Hint.SKIP


def test_a_change_of_the_status_of_the_pods_own_claim_wakes_it():
    server, waiting = Server(claim("gpu")), pod("new", **using("gpu"))
    assert hint(server, waiting, "ResourceClaim", None, claim("gpu")) is Hint.QUEUE
    assert hint(server, waiting, "ResourceClaim", claim("gpu"), allocated("gpu", ("a", "g0"))) is Hint.QUEUE
    finalized = claim("gpu", metadata={"finalizers": ["x"]})
    assert hint(server, waiting, "ResourceClaim", claim("gpu"), finalized) is Hint.SKIP


def test_nothing_wakes_a_pod_whose_claims_are_incomplete():
    server, waiting = Server(claim("gpu")), pod("new", **using("gpu", "absent"))
    assert hint(server, waiting, "ResourceClaim", allocated("other", ("a", "g0")), claim("other")) is Hint.SKIP


def test_the_pods_own_status_wakes_it_once_all_claims_are_there():
    server = Server(claim("new-gpu", **OWNED))
    waiting, complete = pod("new", **OF_TEMPLATE), pod("new", **OF_TEMPLATE, **CREATED)
    assert hint(server, waiting, "Pod", waiting, complete) is Hint.QUEUE
    assert hint(server, waiting, "Pod", waiting, waiting) is Hint.SKIP
    assert hint(server, waiting, "Pod", waiting, pod("other", **CREATED)) is Hint.SKIP


def test_a_missing_claim_is_a_problem_with_upstreams_words():
    with pytest.raises(ClaimProblem, match='could not find ResourceClaim "default/gpu"'):
        pod_claims(pod("new", **using("gpu")), cluster().objects)


# Score --------------------------------------------------------------------------------------------------------------


ONE_AND_TWO = (devices_of("a", "g0"), devices_of("b", "g0", "g1"))


def ratings(server, new):
    attempt = Try(server, new)
    attempt.rejections()
    view = attempt.view
    scores = attempt.plugin.score(attempt.cycle, new, view, view.rows)
    if scores is None:
        return None
    normal = attempt.plugin.normalize(attempt.cycle, new, view, view.rows, scores)
    return {view.name(row): (int(scores[at]), int(normal[at])) for at, row in enumerate(view.rows.tolist())}


def test_a_node_with_an_earlier_alternative_is_rated_higher():
    choice = first_available("r", exactly("two", count=2), exactly("any"))
    server = Server(
        claim("gpu", choice), device_class(), devices_of("a", "g0"), devices_of("b", "g0", "g1"), nodes="ab"
    )
    assert ratings(server, pod("new", **using("gpu"))) == {"a": (7, 87), "b": (8, 100)}


def test_the_alternatives_of_an_allocated_claim_count_on_every_node():
    choice = first_available("r", exactly("two", count=2), exactly("any"))
    done = allocated("old", ("a", "g9"), request="s/any")
    old = msgspec.structs.replace(done, spec=claim("old", first_available("s", exactly("any"))).spec)
    server = Server(
        claim("gpu", choice), old, device_class(), devices_of("a", "g0"), devices_of("b", "g0", "g1"), nodes="ab"
    )
    assert ratings(server, pod("new", **using("gpu", "old"))) == {"a": (15, 93), "b": (16, 100)}


def test_claims_without_a_choice_are_not_rated():
    server = Server(claim("gpu"), device_class(), *ONE_AND_TWO, nodes="ab")
    assert ratings(server, pod("new", **using("gpu"))) is None
    assert ratings(server, pod("new")) is None


# Binding conditions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kubernetes", "requests"), [("1.36", ("r",)), ("1.37", ())])
def test_since_1_37_a_configuration_for_all_requests_does_not_name_them(kubernetes, requests):
    config = [{"opaque": {"driver": "gpu.example.com", "parameters": {"size": 1}}}]
    server = Server(claim("gpu"), device_class(config=config), devices_of("a", "g0"))
    attempt = Try(server, pod("new", **using("gpu")), server.plugin_for("test", kubernetes))
    assert attempt.reserve().is_success
    assert attempt.bind().is_success
    (written,) = server.stored("gpu").status.allocation.devices.config
    assert (written.source, written.requests) == ("FromClass", requests)


@pytest.mark.parametrize(("kubernetes", "named"), [("1.36", False), ("1.37", True)])
def test_since_1_37_the_error_of_a_selector_names_the_device(kubernetes, named):
    absent = exactly(selectors=[{"cel": {"expression": 'device.attributes["gpu.example.com"].absent == 1'}}])
    server = Server(claim("gpu", absent), device_class(), devices_of("a", "g0"))
    attempt = Try(server, pod("new", **using("gpu")), server.plugin_for("test", kubernetes))
    with pytest.raises(AllocationError, match="no such key: absent") as error:
        attempt.rejections()
    assert ("selector #0 on device gpu.example.com/a/g0: CEL runtime error" in str(error.value)) == named
    assert ("consider using CEL optional chaining" in str(error.value)) == named


FABRIC = device("g0", bindingConditions=["attached"], bindingFailureConditions=["broken"], bindsToNode=True)


def reported(condition, **more):
    """What a driver says of the device."""
    conditions = [{"type": condition, "status": "True", "reason": "R", "message": 'no "link"', **more}]
    return [{"driver": "gpu.example.com", "pool": "a", "device": "g0", "conditions": conditions}]


def binding(*reports, timeout=600.0):
    """PreBind of a pod whose device has conditions; each pause brings one report."""
    server = Server(claim("gpu"), device_class(), devices_of("a", FABRIC))
    attempt = Try(server, pod("new", **using("gpu")), server.plugin_for("test", kubernetes="1.36", timeout=timeout))
    assert attempt.reserve().is_success
    left, pause = list(reports), server.pause

    async def pause_and_report(seconds, **_):
        if left:
            server.changed("gpu", devices=left.pop(0))
        await pause(seconds)

    server.pause = pause_and_report
    status = attempt.bind()
    server.finish()
    return server, status


def test_a_pod_waits_until_its_devices_are_ready():
    server, status = binding([], reported("other"), reported("attached"))
    assert status.is_success
    assert server.events == [("new", "BindingConditionsPending", "waiting for binding conditions for device on node a")]
    (result,) = server.stored("gpu").status.allocation.devices.results
    assert (result.binding_conditions, result.binding_failure_conditions) == (("attached",), ("broken",))


@pytest.mark.parametrize(
    ("reports", "outcome", "seconds"),
    [
        ([[], reported("attached")], "success", 0.3),
        ([reported("broken")], "failure", 0.1),
        ([], "timeout", 600.0),
    ],
)
def test_waits_for_devices_are_measured(reports, outcome, seconds):
    server, _ = binding(*reports)
    labels = ("test", "gpu.example.com", outcome)
    assert server.measured == [
        ("scheduler_dra_bindingconditions_wait_duration_seconds", pytest.approx(seconds, abs=1.0), *labels),
        ("scheduler_dra_bindingconditions_allocations_total", 1, *labels),
    ]


def test_a_device_that_will_not_be_ready_fails_the_binding():
    _, status = binding(reported("broken"))
    message = 'device binding failed: claim=gpu, reason=R, message="no \\"link\\""'
    assert (status.code, status.message) == (Code.ERROR, message)


def test_a_device_that_is_not_ready_in_time_fails_the_binding():
    server, status = binding(timeout=30.0)
    assert (status.code, status.message) == (Code.ERROR, "device binding timeout: context deadline exceeded")
    assert 30 <= server.seconds < 40


@pytest.mark.parametrize(
    ("devices", "timestamp", "other_devices"),
    [
        (reported("broken"), NOW, True),
        ([], NOW - 601, True),
        ([], NOW - 599, False),
        (reported("attached"), NOW - 601, False),
    ],
)
def test_a_claim_whose_devices_will_not_be_ready_is_freed(devices, timestamp, other_devices):
    stored = allocated("gpu", ("a", "g0"))
    (result,) = stored.status.allocation.devices.results
    results = (
        msgspec.structs.replace(result, binding_conditions=("attached",), binding_failure_conditions=("broken",)),
    )
    moment = format_time(datetime.fromtimestamp(timestamp, UTC))
    server = Server(stored, device_class(), devices_of("a", FABRIC))
    allocation = {"devices": {"results": msgspec.to_builtins(results)}, "allocationTimestamp": moment}
    server.changed("gpu", allocation=allocation, devices=devices)
    attempt = Try(server, pod("new", **using("gpu")))
    assert attempt.rejections() == ({"a": "resourceclaim not available on the node"} if other_devices else {})
    assert (attempt.post_filter().message == "deallocation of ResourceClaim completed") is other_devices
