"""Pods that have ended are in no watch: they are read when a plugin asks for them."""

import json
from typing import Any, cast

from scheduler.engine.handle import EngineHandle
from scheduler.kube.client import KubeClient
from scheduler.kube.client.errors import api_error


class Server:
    """Answers one list, or a failure."""

    def __init__(self, *items: dict[str, Any], status: int = 200) -> None:
        self.items = items
        self.status = status
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def get(self, path: str, params: dict[str, str]) -> bytes:
        self.asked.append((path, params))
        if self.status != 200:
            raise api_error("GET", path, self.status, b"")
        return json.dumps({"items": self.items}).encode()


def handle(server: Server) -> EngineHandle:
    """A handle of which only the client is used."""
    made = EngineHandle.__new__(EngineHandle)
    made._client = cast(KubeClient, server)
    return made


async def test_the_ended_pods_of_a_node_are_listed_in_one_request() -> None:
    pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "status": {"phase": "Succeeded"}}
    server = Server(pod)
    (found,) = await handle(server).ended_pods("n")
    assert (found.key, found.phase) == ("ns/p", "Succeeded")
    selector = "spec.nodeName=n,status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
    assert server.asked == [("/api/v1/pods", {"fieldSelector": selector})]


async def test_there_are_none_where_they_cannot_be_read() -> None:
    assert await handle(Server(status=403)).ended_pods("n") == ()
    broken = {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}}
    assert await handle(Server(broken)).ended_pods("n") == ()
