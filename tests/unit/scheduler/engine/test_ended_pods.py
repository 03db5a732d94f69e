"""Pods that have ended are in no watch: they are read when a plugin asks for them."""

import json
from typing import Any

from scheduler.engine.handle import EngineHandle
from scheduler.kube.client.errors import api_error
from tests.unit.scheduler.engine.fakes import Engine, FakeApi


class Server(FakeApi):
    """Answers one list, or a failure."""

    def __init__(self, *items: dict[str, Any], status: int = 200) -> None:
        super().__init__()
        self.items = items
        self.status = status
        self.requests: list[tuple[str, dict[str, str] | None]] = []

    async def get(self, path: str, params: dict[str, str] | None = None) -> bytes:
        self.requests.append((path, params))
        if self.status != 200:
            raise api_error("GET", path, self.status, b"")
        return json.dumps({"items": self.items}).encode()


def handle(server: Server) -> EngineHandle:
    return Engine(server).handle


async def test_the_ended_pods_of_a_node_are_listed_in_one_request() -> None:
    pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "status": {"phase": "Succeeded"}}
    server = Server(pod)
    (pod_info,) = await handle(server).ended_pods("n")
    assert (pod_info.key, pod_info.phase) == ("ns/p", "Succeeded")
    selector = "spec.nodeName=n,status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
    assert server.requests == [("/api/v1/pods", {"fieldSelector": selector})]


async def test_there_are_none_where_they_cannot_be_read() -> None:
    assert await handle(Server(status=403)).ended_pods("n") == ()
    broken = {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}}
    assert await handle(Server(broken)).ended_pods("n") == ()
