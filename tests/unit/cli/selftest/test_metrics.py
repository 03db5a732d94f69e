"""What the self-test takes from the metrics of an instance, of ours and of Go's alike."""

from __future__ import annotations

import pytest

from secondary_scheduler.clusterstatus.asking import summarize_metrics

REQUESTS = """\
# HELP rest_client_requests_total Number of HTTP requests, partitioned by status code, method, and host.
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="10.0.0.1:6443",method="GET"} 12
"""
REFUSED = 'rest_client_requests_total{code="403",host="10.0.0.1:6443",method="GET"} 4\n'
REFUSED_WRITES = 'rest_client_requests_total{code="403",host="10.0.0.1:6443",method="POST"} 3\n'


@pytest.mark.parametrize(
    ("text", "forbidden"),
    [("", None), (REQUESTS, 0), (REQUESTS + REFUSED, 4), (REQUESTS + REFUSED + REFUSED_WRITES, 7)],
)
def test_refused_requests_are_counted_and_none_is_not_the_same_as_not_told(text: str, forbidden: int | None) -> None:
    assert summarize_metrics(text).forbidden == forbidden


@pytest.mark.parametrize("value", [0, 1])
def test_the_one_that_leads_is_told_by_its_metric(value: int) -> None:
    assert summarize_metrics(f'leader_election_master_status{{name="scheduler"}} {value}\n').leads is bool(value)
