"""Why no scheduler that was asked knows a pod, as pages show it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.kube.client import ClientConfig, KubeError
from secondary_scheduler.clusterstatus import unknownpods
from secondary_scheduler.clusterstatus.unknownpods import AskedSchedulers, refuse_unknown
from secondary_scheduler.errors import CommandError

ASKED = AskedSchedulers(("scheduler-1",), ("secondary-scheduler",))


def pod(scheduler: str, node: str = "") -> dict[str, Any]:
    return {"spec": {"schedulerName": scheduler, "nodeName": node}, "status": {}}


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (pod("secondary-schduler"), "scheduler-1 decides for secondary-scheduler; did you mean secondary-scheduler"),
        (pod("secondary-scheduler"), "scheduler-1 has not seen it yet: ask again"),
        (pod("secondary-scheduler", "n1"), "placed on n1 by secondary-scheduler, and why is no longer known"),
        (pod("default-scheduler", "n1"), "placed on n1 by default-scheduler, which knows why"),
        (KubeError("connection refused"), "unknown to scheduler-1; connection refused"),
    ],
)
def test_the_pod_itself_says_why_it_is_not_known(
    monkeypatch: pytest.MonkeyPatch, read: dict[str, Any] | KubeError, text: str
) -> None:
    def read_named(*_: object) -> dict[str, Any]:
        if isinstance(read, KubeError):
            raise read
        return read

    monkeypatch.setattr(unknownpods, "read_named", read_named)
    with pytest.raises(CommandError) as refused:
        refuse_unknown(ClientConfig(server="http://127.0.0.1:1"), "ui", "shop", "web", ASKED)
    assert str(refused.value).startswith("shop/web: ")
    assert text in str(refused.value)
