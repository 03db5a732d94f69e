"""Nonsense from the API server, brought to the running engine as the watches bring it: it is left out, or its pod is
parked with a reason, or it is taken for what it says; the pod beside it is placed, and the loop goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from scheduler.engine.inputs import reduce_node_update
from scheduler.engine.objects import ObjectInputs
from scheduler.helpers import PodReducer, salvage_pod
from scheduler.kube.client import PageReader, Reflector, unchanged
from scheduler.kube.client.http import Params
from scheduler.kube.model import NODES, PODS
from scheduler.state import WATCHED_KINDS
from tests.support import faketime
from tests.support.faketime import wall_clock
from tests.support.selection import tries
from tests.unit.scheduler.engine.fakes import Engine, eventually
from tests.unit.scheduler.engine.hostile import NODE, OTHERS, PLAIN_POD, POD, spoilt

_HEALTHY = {"kubernetes.io/hostname": "healthy"}
_PATIENCE_SECONDS = 10.0


class _OneList:
    """A fake client that answers each request with the same page."""

    def __init__(self, page: dict[str, Any]) -> None:
        self._page = json.dumps(page).encode()

    async def get(self, path: str, params: Params, *, timeout: float) -> bytes:
        return self._page


class Daemon:
    """The engine with the inputs that the daemon has, fed with lines of watches."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.version = 1000
        client: Any = None
        self._reflectors: dict[str, Reflector[Any, Any]] = {
            "Node": Reflector(client, "/nodes", NODES, self.engine.nodes, reduce_node_update),
            "Pod": Reflector(client, "/pods", PODS, self.engine.pods, PodReducer().reduce, salvage=salvage_pod),
        }
        for kind in WATCHED_KINDS.values():
            sink = ObjectInputs(
                kind, self.engine.state, self.engine.queue, wake=self.engine.cycle.wake, metrics=self.engine.metrics
            )
            self._reflectors[kind.kind] = Reflector(client, f"/{kind.kind}", kind.codec, sink, unchanged)

    def deliver(self, kind: str, item: Any, change: str = "ADDED") -> bool:
        """Deliver an event; false when its object was left out."""
        reflector = self._reflectors[kind]
        before = reflector.state.invalid
        reflector._deliver([json.dumps({"type": change, "object": item}).encode()])
        return reflector.state.invalid == before

    async def relist_pods(self, pods: list[Any], keep: Sequence[str] = ()) -> None:
        """Deliver a list of pods, as after a lost watch, with the pending pods of the engine named in `keep`."""
        self.version += 1
        page = {"metadata": {"resourceVersion": str(self.version)}, "items": pods}
        kept = [pod for pod in self.engine.pending.values() if pod.name in keep]
        reflector = self._reflectors["Pod"]
        api: Any = _OneList(page)
        reflector._pages = PageReader(api, "/pods")
        replace = self.engine.pods.replace
        self.engine.pods.replace = lambda items, version: replace([*items, *kept], version)  # type: ignore[method-assign]
        await reflector._list()
        self.engine.pods.replace = replace  # type: ignore[method-assign]

    def bound(self) -> dict[str, str]:
        return {name: node for name, _, node in self.engine.api.bindings}

    def reasons(self) -> dict[str, str]:
        """Messages of PodScheduled=False by pod."""
        messages = {}
        for path, patch in self.engine.api.patches:
            for condition in patch["status"].get("conditions", ()):
                if condition["type"] == "PodScheduled":
                    messages[path.split("/")[-2]] = condition["message"]
        return messages


async def _run_scene(objects: list[tuple[str, Any]]) -> None:
    daemon = Daemon()
    daemon.engine.recorder.start()
    loop = asyncio.create_task(daemon.engine.cycle.run())
    try:
        daemon.engine.add_node("healthy")
        accepted = [item for kind, item in objects if daemon.deliver(kind, item) and kind == "Pod"]
        daemon.engine.add_pod("beside", nodeSelector=_HEALTHY)
        deadline = wall_clock() + _PATIENCE_SECONDS
        while wall_clock() < deadline and not loop.done():
            decided = daemon.bound().keys() | daemon.reasons().keys()
            if "beside" in decided and all(_at_rest(daemon, item, decided) for item in accepted):
                break
            await asyncio.sleep(0.002)
        assert not loop.done(), loop.exception()
        assert daemon.bound().get("beside") == "healthy", daemon.reasons()
        for item in accepted:
            assert _at_rest(daemon, item, decided), f"{item['metadata']['name']}: {daemon.reasons()}"
        for kind, item in objects:
            daemon.deliver(kind, item, "MODIFIED")
            daemon.deliver(kind, item, "DELETED")
        await asyncio.sleep(0)
        assert not loop.done(), loop.exception()
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        await daemon.engine.recorder.drain(1)


def _at_rest(daemon: Daemon, item: Any, decided: set[str]) -> bool:
    """Whether a pod is bound or was given a reason, is gated, or is none of ours to decide about."""
    uid, name = item["metadata"]["uid"], item["metadata"]["name"]
    return (
        name in decided or uid in daemon.engine.state.pod_uids or daemon.engine.queue.queue_of(uid) in (None, "gated")
    )


def _on(node: str, item: Any) -> Any:
    if isinstance(item.get("spec"), dict):
        item["spec"]["nodeName"] = node
    return item


@settings(max_examples=tries(60))
@given(
    pods=st.lists(st.one_of(spoilt(POD), spoilt(PLAIN_POD)), min_size=1, max_size=2),
    running=st.one_of(spoilt(POD), spoilt(PLAIN_POD)).map(lambda item: _on("strange", item)),
    node=spoilt(NODE),
    others=st.lists(
        st.sampled_from(sorted(OTHERS)).flatmap(lambda kind: st.tuples(st.just(kind), spoilt(OTHERS[kind]))), max_size=4
    ),
)
def test_nonsense_neither_delays_other_pods_nor_ends_the_loop(
    pods: list[Any], running: Any, node: Any, others: list[tuple[str, Any]]
) -> None:
    for number, item in enumerate([*pods, running]):
        item["metadata"]["uid"] = f"uid-{number}"
        item["metadata"]["name"] = f"strange-{number}"
    objects = [("Node", node), *others, ("Pod", running), *(("Pod", item) for item in pods)]
    faketime.run(_run_scene(objects))


_MANY = {
    "500 containers": PLAIN_POD | {"spec": PLAIN_POD["spec"] | {"containers": PLAIN_POD["spec"]["containers"] * 500}},
    "annotations of a mebibyte": PLAIN_POD
    | {"metadata": PLAIN_POD["metadata"] | {"annotations": {"a": "x" * (1 << 20)}}},
    "5,000 labels": PLAIN_POD
    | {"metadata": PLAIN_POD["metadata"] | {"labels": {f"l{number}": "v" for number in range(5000)}}},
    "5,000 tolerations": PLAIN_POD
    | {"spec": PLAIN_POD["spec"] | {"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(5000)]}},
    "control characters in its name": PLAIN_POD | {"metadata": PLAIN_POD["metadata"] | {"name": "a\u0000\u001b\n/b"}},
}


@pytest.mark.parametrize("name", _MANY)
def test_size_alone_is_no_offence(name: str) -> None:
    faketime.run(_run_scene([("Node", NODE), ("Pod", _MANY[name])]))


async def test_what_asks_for_more_than_there_can_be_is_rejected_with_the_reason() -> None:
    daemon = Daemon()
    loop = asyncio.create_task(daemon.engine.cycle.run())
    daemon.deliver("Node", NODE)
    container = {"name": "a", "image": "i", "resources": {"requests": {"cpu": "1e30"}}}
    daemon.deliver("Pod", PLAIN_POD | {"spec": PLAIN_POD["spec"] | {"containers": [container]}})
    await eventually(lambda: "plain" in daemon.reasons(), "the reason")
    loop.cancel()
    assert daemon.reasons()["plain"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
