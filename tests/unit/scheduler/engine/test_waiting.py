"""Pods waiting on permission go on when the last plugin allows, and fall back on a rejection or when time is up."""

from __future__ import annotations

from scheduler.engine.waiting import WaitingPods
from scheduler.framework import Code
from tests.unit.scheduler.engine.pods import pod_info


async def test_the_last_permission_lets_the_pod_go_on() -> None:
    waiting = WaitingPods()
    outcome = waiting.add(pod_info("p"), {"A": 60, "B": 60})
    waiting.allow("p-uid", "A")
    assert not outcome.done()
    waiting.allow("p-uid", "B")
    assert (await outcome).is_success
    assert len(waiting) == 0


async def test_one_rejection_is_enough_and_names_its_plugin() -> None:
    waiting = WaitingPods()
    outcome = waiting.add(pod_info("p"), {"A": 60, "B": 60})
    assert waiting.reject("p-uid", "B", "no room for the gang")
    status = await outcome
    assert (status.code, status.plugin, status.reasons) == (Code.UNSCHEDULABLE, "B", ("no room for the gang",))
    assert not waiting.reject("p-uid", "B", "again")


async def test_time_up_is_a_rejection_in_upstreams_words() -> None:
    waiting = WaitingPods()
    status = await waiting.add(pod_info("p"), {"Slow": 0.02})
    assert status.reasons == ("rejected due to timeout after waiting 0.02s at plugin Slow",)
