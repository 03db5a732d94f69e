"""The message of a wait that fails."""

from __future__ import annotations

import pytest

from devcluster.pulumi_stand_ins.kubernetes_provider.dynamic_client import DynamicClient
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object
from devcluster.pulumi_stand_ins.kubernetes_provider.waiting import (
    Cancellation,
    NotReady,
    wait_until_ready,
)

UNSOLVED = {
    "type": "ResolutionFailed",
    "status": "True",
    "reason": "ConstraintsNotSatisfiable",
    "message": "no operators found",
}


class Unchanging(DynamicClient):
    """Nothing happens to its one object."""

    def __init__(self, live: Object) -> None:
        self._live = live

    def get(self, obj: Object, name: str) -> Object:
        return self._live


def reasons(wait_for: str, *conditions: Object) -> list[str]:
    metadata = {"name": "x", "namespace": "default", "annotations": {"pulumi.com/waitFor": wait_for}}
    live: Object = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata}
    live["status"] = {"conditions": list(conditions)}
    with pytest.raises(NotReady) as raised:
        wait_until_ready(
            Unchanging(live), live, timeout_seconds=0, report_status=lambda line: None, cancellation=Cancellation()
        )
    return raised.value.reasons


def test_another_condition_of_the_object_may_tell_why() -> None:
    assert reasons("jsonpath={.status.state}", UNSOLVED) == [
        "timed out after 0 s",
        "Waiting for {.status.state}; there is no such field yet",
        'Its condition "ResolutionFailed" is "True" (ConstraintsNotSatisfiable: no operators found)',
    ]


def test_the_awaited_condition_is_reported_once_and_one_without_message_never() -> None:
    unready = {"type": "Ready", "status": "False", "reason": "Broken", "message": "no disk"}
    lines = reasons("condition=Ready", unready, {"type": "Progressing", "status": "True", "message": ""})
    assert [line for line in lines if "no disk" in line] == lines[1:]
    assert len(lines) == 2
