"""Noticing that a cluster went back, and having everything listed anew."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from scheduler.kube.client import (
    ConnectionFailed,
    EtcdRestore,
    EtcdRestores,
    Forbidden,
    KubeClient,
    KubeError,
    LeasePoll,
    NotFound,
    Reflector,
    ReflectorState,
)
from tests.support.clock import Clock
from tests.support.waiting import eventually_on_loop

OURS, THEIRS = ("team-a", "ours"), ("kube-system", "kube-scheduler")
SIGN = EtcdRestore("Lease a/b is at version 206 after 215", unnoticed=False)


class FakeServer:
    """Leases by name: what quorum reads answer, and what the watch cache remembers."""

    def __init__(self, **versions: int | KubeError) -> None:
        self.versions: dict[str, int | KubeError] = dict(versions)
        self.remembered: dict[str, int] = {}
        self.reads: list[tuple[str, str]] = []
        self.once: list[int] = []

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        name = path.rpartition("/")[2]
        source = "memory" if params else "quorum"
        self.reads.append((name, source))
        version = self.versions.get(name, NotFound(f"{name} is not there", status=404, reason="NotFound", message=""))
        if params:
            version = self.remembered.get(name, version)
        elif self.once:
            version = self.once.pop(0)
        if isinstance(version, KubeError):
            raise version
        return json.dumps({"metadata": {"name": name, "resourceVersion": str(version)}}).encode()


def polling(server: FakeServer, *leases: tuple[str, str]) -> tuple[LeasePoll, list[EtcdRestore]]:
    noticed: list[EtcdRestore] = []
    return LeasePoll(cast(KubeClient, server), leases or (OURS,), noticed.append, Clock(step=5.0)), noticed


async def test_a_lease_that_is_renewed_shows_nothing() -> None:
    server = FakeServer(ours=200)
    poll, noticed = polling(server)
    for version in (200, 205, 205, 300):
        server.versions["ours"] = version
        await poll.look()
    assert noticed == []
    assert server.reads == [("ours", "quorum")] * 4


async def test_a_lease_that_is_older_than_before_is_read_again_and_tells() -> None:
    server = FakeServer(ours=215)
    poll, noticed = polling(server)
    await poll.look()
    server.versions["ours"] = 206
    await poll.look()
    assert noticed == [EtcdRestore("Lease team-a/ours is at version 206 after 215", unnoticed=False)]
    server.versions["ours"] = 208
    await poll.look()
    assert len(noticed) == 1


async def test_one_old_answer_alone_tells_nothing() -> None:
    server = FakeServer(ours=215)
    poll, noticed = polling(server)
    await poll.look()
    server.once = [206]
    await poll.look()
    assert server.reads == [("ours", "quorum"), ("ours", "quorum"), ("ours", "memory"), ("ours", "quorum")]
    assert noticed == []


@pytest.mark.parametrize(("remembered", "unnoticed"), [(215, True), (206, False), (None, False)])
async def test_it_is_told_whether_the_api_server_remembers_what_was_undone(
    remembered: int | None, unnoticed: bool
) -> None:
    server = FakeServer(ours=215)
    poll, noticed = polling(server)
    await poll.look()
    server.versions["ours"] = 206
    if remembered is not None:
        server.remembered["ours"] = remembered
    await poll.look()
    assert [restore.unnoticed for restore in noticed] == [unnoticed]


async def test_an_api_server_that_does_not_answer_says_nothing() -> None:
    server = FakeServer(ours=215)
    poll, noticed = polling(server)
    await poll.look()
    server.versions["ours"] = ConnectionFailed("no connection")
    await poll.look()
    server.versions["ours"] = 206
    await poll.look()
    assert len(noticed) == 1


async def test_the_next_lease_is_read_where_one_is_not_there_or_refused(caplog: pytest.LogCaptureFixture) -> None:
    server = FakeServer(ours=Forbidden("not for you", status=403, reason="Forbidden", message=""))
    server.versions["kube-scheduler"] = 215
    poll, noticed = polling(server, OURS, ("kube-system", "absent"), THEIRS)
    for _ in range(3):
        await poll.look()
    server.versions["kube-scheduler"] = 206
    await poll.look()
    assert [restore.sign for restore in noticed] == ["Lease kube-system/kube-scheduler is at version 206 after 215"]
    assert caplog.messages == []


async def test_a_lease_that_is_made_anew_in_the_restored_cluster_tells() -> None:
    """The copy is from before it."""
    server = FakeServer(ours=215)
    poll, noticed = polling(server)
    await poll.look()
    del server.versions["ours"]
    await poll.look()
    server.versions["ours"] = 208
    await poll.look()
    assert [restore.sign for restore in noticed] == ["Lease team-a/ours is at version 208 after 215"]


async def test_it_is_said_once_that_no_lease_can_be_read(caplog: pytest.LogCaptureFixture) -> None:
    poll, _ = polling(FakeServer(), OURS, THEIRS)
    for _ in range(5):
        await poll.look()
    reasons = "ours is not there; kube-scheduler is not there"
    assert caplog.messages == [f"no Lease can be read: a cluster that goes back may go unnoticed: {reasons}"]


class Listed:
    """Stands for a reflector: it lists when it is told to."""

    def __init__(self, *, optional: bool = False, doubtful: bool = False) -> None:
        self.optional = optional
        self.state = ReflectorState(synced=True)
        self.refusal: KubeError | None = None
        self.doubtful = doubtful
        self.begun = 0

    def list_anew(self) -> None:
        self.begun += 1
        self.state.outdated = True

    def finish(self, *, doubtful: bool = False) -> None:
        self.state.outdated, self.doubtful = False, doubtful
        self.state.lists += 1


@asynccontextmanager
async def following(**reflectors: Listed) -> AsyncIterator[tuple[EtcdRestores, list[tuple[bool, bool]]]]:
    """Yields what follows, and whether it was pending and current at each change."""
    changes: list[tuple[bool, bool]] = []
    listed = cast(Mapping[str, Reflector[Any, Any]], reflectors)
    restores = EtcdRestores(lambda: listed, lambda: changes.append((restores.pending, restores.current)))
    task = asyncio.create_task(restores.run())
    try:
        yield restores, changes
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_everything_is_listed_anew_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    nodes, pods = Listed(), Listed()
    async with following(nodes=nodes, pods=pods) as (restores, changes):
        assert (restores.pending, restores.current, restores.message) == (False, True, "")
        restores.notice(SIGN)
        await eventually_on_loop(lambda: restores.pending)
        assert (nodes.begun, pods.begun, restores.current) == (1, 1, False)
        nodes.finish()
        assert restores.message.endswith(f"older state: {SIGN.sign}; still to be listed anew: pods")
        pods.finish()
        await eventually_on_loop(lambda: not restores.pending)
        assert restores.current
        assert restores.message.endswith(f"older state: {SIGN.sign}; everything was listed anew")
    assert changes == [(True, False), (False, True)]
    assert [message.rpartition("; ")[2] for message in caplog.messages] == [
        "everything is listed anew",
        "everything was listed anew",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


async def test_it_may_be_noticed_on_another_thread() -> None:
    nodes = Listed()
    async with following(nodes=nodes) as (restores, _):
        await asyncio.to_thread(restores.notice, SIGN)
        await eventually_on_loop(lambda: nodes.begun == 1)


async def test_what_is_not_there_or_refused_is_not_waited_for() -> None:
    nodes, absent, unread, refused = Listed(), Listed(), Listed(), Listed()
    absent.state.absent = unread.state.unread = True
    refused.refusal = Forbidden("no", status=403, reason="Forbidden", message="")
    async with following(nodes=nodes, absent=absent, unread=unread, refused=refused) as (restores, _):
        restores.notice(SIGN)
        await eventually_on_loop(lambda: nodes.begun == 1)
        nodes.finish()
        await eventually_on_loop(lambda: not restores.pending)


async def test_what_may_be_missing_is_waited_for_some_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.kube.client.etcdrestore._PATIENCE_SECONDS", 0.0)
    nodes, claims = Listed(), Listed(optional=True)
    async with following(nodes=nodes, claims=claims) as (restores, changes):
        restores.notice(SIGN)
        await eventually_on_loop(lambda: nodes.begun == 1)
        await asyncio.sleep(0)
        assert changes == [(True, False)], "nodes are needed"
        nodes.finish()
        await eventually_on_loop(lambda: not restores.pending)


async def test_a_second_one_begins_all_over() -> None:
    nodes, pods = Listed(), Listed()
    async with following(nodes=nodes, pods=pods) as (restores, changes):
        restores.notice(SIGN)
        await eventually_on_loop(lambda: nodes.begun == 1)
        nodes.finish()
        restores.notice(EtcdRestore("Lease a/b is at version 180 after 207", unnoticed=False))
        await eventually_on_loop(lambda: nodes.begun == 2)
        nodes.finish()
        pods.finish()
        await eventually_on_loop(lambda: not restores.pending)
        assert "version 180 after 207; everything was listed anew" in restores.message
    assert changes == [(True, False), (True, False), (False, True)]


async def test_an_api_server_that_has_not_noticed_is_named_until_it_was_restarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scheduler.kube.client.etcdrestore.POLL_SECONDS", 0.01)
    nodes, pods = Listed(), Listed()
    async with following(nodes=nodes, pods=pods) as (restores, changes):
        restores.notice(EtcdRestore(SIGN.sign, unnoticed=True))
        await eventually_on_loop(lambda: restores.pending)
        nodes.finish(doubtful=True)
        pods.finish(doubtful=True)
        await eventually_on_loop(lambda: not restores.pending)
        assert not restores.current
        assert restores.message.endswith("has not noticed and lists what was undone: restart kube-apiserver")
        # A list that is older than what was known shows what the store has now; one that is not was taken anew.
        nodes.finish()
        pods.finish(doubtful=True)
        await eventually_on_loop(lambda: restores.current)
        assert restores.message.endswith("everything was listed anew")
    assert changes[-1] == (False, True)
