"""Pods with resource claims are turned away with a reason; others see what upstream's plugin adds to messages."""

from scheduler.framework import Code, CycleState
from tests.unit.scheduler.core.builders import NOW, cluster, node, pod, runner
from tests.unit.scheduler.plugins.storage import explained, mount

PROFILE = runner()
PLUGIN = PROFILE.plugins["DynamicResources"]
CLAIMING = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}


def post_filter(new, *, pre_filter=True):
    state, view = CycleState(), cluster(node("n")).snapshot(NOW)
    if pre_filter:
        PLUGIN.pre_filter(state, new, view)
    return PLUGIN.post_filter(state, new, view, {})[1]


def test_a_pod_with_claims_fits_nowhere_and_says_why():
    explanation = explained(cluster(node("a"), node("b")), pod("new", **CLAIMING), PROFILE)
    assert explanation.message.startswith(
        "0/2 nodes are available: resource claims are not supported by this scheduler yet"
    )
    rejection = explanation.node("a").rejection
    assert (rejection.plugin, rejection.code) == ("DynamicResources", Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


def test_a_pod_with_claims_enters_the_queue_so_that_its_status_says_why_it_waits():
    assert PROFILE.run_pre_enqueue(pod("new", **CLAIMING)).is_success


def test_a_pod_without_claims_is_skipped():
    state = CycleState()
    _, status = PLUGIN.pre_filter(state, pod("new"), cluster(node("n")).snapshot(NOW))
    assert status.is_skip


def test_nothing_to_free_adds_upstreams_words():
    status = post_filter(pod("new"))
    assert (status.code, status.message) == (Code.UNSCHEDULABLE, "no new claims to deallocate")


def test_preemption_is_not_tried_for_a_pod_with_claims():
    status = post_filter(pod("new", **CLAIMING))
    assert (status.code, status.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "")


def test_an_attempt_that_ended_before_it_adds_upstreams_error():
    status = post_filter(pod("new", **mount("absent")), pre_filter=False)
    assert (status.code, status.message) == (Code.ERROR, "not found")


def test_no_event_wakes_a_pod_with_claims():
    assert PROFILE.hint_registrations()["DynamicResources"] == ()
