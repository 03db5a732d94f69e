"""Many preemptors at once on a played API server: what each of them costs it."""

from benchmarks.preemptors import measure


async def test_a_preemptor_takes_two_attempts_and_the_requests_that_upstream_sends() -> None:
    figures = await measure(12, 8, 100_000)
    assert figures["attempts"] == 2
    assert figures["requests"] == {
        "PATCH status, DisruptionTarget": 3,
        "DELETE pod": 3,
        "POST Event Preempted": 3,
        "POST Event FailedScheduling": 1,
        "PATCH status, PodScheduled": 1,
        "POST Binding": 1,
        "POST Event Scheduled": 1,
    }
