"""Leader election against a server that hangs, refuses, loses or falsifies the Lease."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import pytest

from scheduler.kube import lease as lease_module
from scheduler.kube.client import ClientConfig, EtcdRestore
from scheduler.kube.lease import LeaseElector, LeaseSettings
from tests.support.waiting import eventually

pytestmark = pytest.mark.real_time

SETTINGS = LeaseSettings(namespace="ns", name="lock", duration=1.5, renew_deadline=1.0, retry_period=0.02)
SHORT = LeaseSettings(namespace="ns", name="lock", duration=0.4, renew_deadline=0.3, retry_period=0.02)
"""For a candidate that waits for another's Lease to expire."""


class FakeLeases:
    """One Lease with resource versions, and switches for what goes wrong."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.writes: list[dict[str, Any]] = []
        self.fail_with = 0
        self.refuse_writes = False
        self.swallow_answers = False
        self.old_reads: list[dict[str, Any]] = []
        self.remembered: dict[str, Any] | None = None
        """What a watch cache that has not noticed a restored store answers."""
        self.hang = threading.Event()
        self.hang.set()
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                outer.hang.wait()
                code, answer = outer.act(self.command, json.loads(body) if body else None)
                if self.path.endswith("?resourceVersion=0") and outer.remembered is not None:
                    answer = outer.remembered
                if outer.swallow_answers and self.command != "GET":
                    self.close_connection = True
                    return
                data = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = handle_any

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.config = ClientConfig(server=f"http://127.0.0.1:{self.server.server_port}")
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def act(self, method: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        with self.lock:
            if self.fail_with:
                return self.fail_with, failure(self.fail_with, "InternalError")
            if method == "GET":
                if self.old_reads:
                    return 200, self.old_reads.pop()
                return (200, self.lease) if self.lease is not None else (404, failure(404, "NotFound"))
            assert body is not None
            if self.refuse_writes:
                return 500, failure(500, "InternalError")
            if method == "POST" and self.lease is not None:
                return 409, failure(409, "AlreadyExists")
            if method == "PUT":
                if self.lease is None:
                    return 404, failure(404, "NotFound")
                if body["metadata"].get("resourceVersion") != self.lease["metadata"]["resourceVersion"]:
                    return 409, failure(409, "Conflict")
            self.writes.append(body)
            self.set(body)
            assert self.lease is not None
            return 200, self.lease

    def set(self, body: dict[str, Any]) -> None:
        self.version += 1
        self.lease = {**body, "metadata": {**body.get("metadata", {}), "resourceVersion": str(self.version)}}

    def edit(self, **spec: Any) -> None:
        """Change the Lease as somebody else would."""
        with self.lock:
            lease = self.lease or {"metadata": {"name": "lock"}}
            self.set({**lease, "spec": {**(lease.get("spec") or {}), **spec}})

    def put_back(self, version: int, lease: dict[str, Any] | None) -> None:
        """Have an older version and what the Lease was then, as a restored store does."""
        with self.lock:
            self.version, self.lease = version, lease

    @property
    def holder(self) -> str:
        with self.lock:
            return (self.lease or {}).get("spec", {}).get("holderIdentity", "")  # type: ignore[no-any-return]


def failure(code: int, reason: str) -> dict[str, Any]:
    return {"kind": "Status", "metadata": {}, "status": "Failure", "code": code, "reason": reason, "message": ""}


class Candidate:
    """An elector that notes what happens to it instead of ending the process."""

    def __init__(self, api: FakeLeases, identity: str, settings: LeaseSettings = SETTINGS) -> None:
        self.started = threading.Event()
        self.lost = threading.Event()
        self.lost_at = 0.0
        self.reasons: list[str] = []
        self.restores: list[EtcdRestore] = []
        self.elector = LeaseElector(
            api.config,
            settings,
            identity=identity,
            on_started_leading=self.started.set,
            on_lost=self._lose,
            on_restore=self.restores.append,
        )

    def _lose(self, reason: str) -> None:
        self.lost_at = time.monotonic()
        self.reasons.append(reason)
        self.lost.set()


@pytest.fixture
def api() -> Iterator[FakeLeases]:
    fake = FakeLeases()
    yield fake
    fake.hang.set()
    fake.server.shutdown()
    fake.server.server_close()


@pytest.fixture
def candidate(api: FakeLeases) -> Iterator[Callable[..., Candidate]]:
    candidates: list[Candidate] = []

    def make(identity: str = "me", settings: LeaseSettings = SETTINGS) -> Candidate:
        competitor = Candidate(api, identity, settings)
        candidates.append(competitor)
        competitor.elector.start()
        return competitor

    yield make
    api.hang.set()
    for competitor in candidates:
        competitor.elector.stop()


Make = Callable[..., Candidate]


def test_a_free_lease_is_created_and_renewed(api: FakeLeases, candidate: Make) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    assert holder.elector.is_leader()
    assert holder.elector.observed_holder == "me"
    assert 0 < holder.elector._held_until - time.monotonic() <= 1.0
    created = api.writes[0]
    assert (created["apiVersion"], created["kind"]) == ("coordination.k8s.io/v1", "Lease")
    assert (created["metadata"]["name"], created["metadata"]["namespace"]) == (SETTINGS.name, SETTINGS.namespace)
    first = created["spec"]
    assert (first["holderIdentity"], first["leaseDurationSeconds"], first["leaseTransitions"]) == ("me", 2, 0)
    eventually(lambda: len(api.writes) >= 4)
    assert {write["spec"]["acquireTime"] for write in api.writes} == {first["acquireTime"]}
    assert len({write["spec"]["renewTime"] for write in api.writes}) >= 4
    assert holder.elector.healthy()


def test_another_holders_lease_is_respected_for_its_claimed_duration(api: FakeLeases, candidate: Make) -> None:
    # Its clock is an hour off in either direction: that proves nothing.
    api.edit(
        holderIdentity="other", leaseDurationSeconds=1, renewTime="2001-01-01T00:00:00.000000Z", leaseTransitions=3
    )
    started = time.monotonic()
    holder = candidate()
    assert holder.started.wait(5)
    assert time.monotonic() - started >= 1.0
    assert api.writes[0]["spec"]["leaseTransitions"] == 4


def test_a_renewing_holder_is_never_replaced(api: FakeLeases, candidate: Make) -> None:
    first = candidate("first")
    assert first.started.wait(5)
    second = candidate("second")
    assert not second.started.wait(SETTINGS.duration + 0.2)
    assert api.holder == "first"
    assert second.elector.observed_holder == "first"
    assert not second.elector.is_leader()
    assert second.elector._held_until < time.monotonic()
    assert second.elector.healthy()


@pytest.mark.parametrize(
    "junk",
    [
        {"leaseDurationSeconds": None, "renewTime": None, "acquireTime": None, "leaseTransitions": None},
        {"leaseDurationSeconds": "15", "renewTime": "yesterday", "acquireTime": 7, "leaseTransitions": "x"},
        {"leaseDurationSeconds": -1, "renewTime": {}, "leaseTransitions": True},
        {"leaseDurationSeconds": 0, "leaseTransitions": 2**31 - 1},
    ],
)
def test_an_invalid_duration_counts_as_our_own(api: FakeLeases, candidate: Make, junk: dict[str, Any]) -> None:
    api.edit(holderIdentity="other", **junk)
    started = time.monotonic()
    holder = candidate(settings=SHORT)
    assert holder.started.wait(6)
    assert time.monotonic() - started >= SHORT.duration
    assert isinstance(api.writes[0]["spec"]["acquireTime"], str)
    assert api.writes[0]["spec"]["leaseTransitions"] < 2**31


def test_a_lease_without_a_spec_is_free(api: FakeLeases, candidate: Make) -> None:
    api.set({"metadata": {"name": "lock", "annotations": None}, "spec": None})
    assert candidate().started.wait(2)


def test_stopping_hands_the_lease_over_at_once(api: FakeLeases, candidate: Make) -> None:
    first = candidate("first")
    assert first.started.wait(5)
    second = candidate("second")
    eventually(lambda: second.elector.observed_holder == "first", interval=0.01)
    first.elector.stop()
    assert not first.elector.is_leader()
    freed = next(write for write in api.writes if write["spec"]["holderIdentity"] == "")
    assert freed["spec"]["leaseDurationSeconds"] == 1
    assert second.started.wait(1)
    assert not first.lost.is_set()


def test_stopping_without_release_leaves_the_lease_to_expire(api: FakeLeases, candidate: Make) -> None:
    settings = LeaseSettings(
        namespace="ns", name="lock", duration=1.5, renew_deadline=1.0, retry_period=0.02, release_on_stop=False
    )
    holder = candidate("me", settings)
    assert holder.started.wait(5)
    holder.elector.stop()
    assert api.holder == "me"


def test_a_lease_is_kept_where_a_write_may_still_be_carried_out(api: FakeLeases, candidate: Make) -> None:
    holder = candidate("me")
    assert holder.started.wait(5)
    holder.elector.stop(release=False)
    assert not holder.elector.is_leader()
    assert api.holder == "me"


def test_stopping_a_candidate_does_not_touch_the_holders_lease(api: FakeLeases, candidate: Make) -> None:
    first = candidate("first")
    assert first.started.wait(5)
    second = candidate("second")
    eventually(lambda: second.elector.observed_holder == "first", interval=0.01)
    second.elector.stop()
    assert api.holder == "first"
    assert not first.lost.is_set()


def test_a_server_that_hangs_ends_leadership_at_the_deadline(api: FakeLeases, candidate: Make) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    api.hang.clear()
    hung_at = time.monotonic()
    assert holder.lost.wait(5)
    assert holder.lost_at - hung_at <= SETTINGS.renew_deadline + 0.3
    assert not holder.elector.is_leader()
    assert not holder.elector.healthy()
    assert "could not be renewed in time" in holder.reasons[0]
    api.hang.set()
    holder.elector._thread.join(5)
    assert len(holder.reasons) == 1
    assert not holder.elector.is_leader()


def test_failures_shorter_than_the_deadline_are_survived(api: FakeLeases, candidate: Make) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    api.fail_with = 500
    eventually(lambda: "500" in holder.elector._last_failure, interval=0.01)
    held_until = holder.elector._held_until
    time.sleep(0.3)
    api.fail_with = 0
    eventually(lambda: time.monotonic() > held_until, interval=0.01)
    assert holder.elector.is_leader()
    assert not holder.lost.is_set()


def test_a_renewal_whose_answer_is_lost_does_not_lose_the_lease(api: FakeLeases, candidate: Make) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    api.swallow_answers = True
    version = api.version
    eventually(lambda: api.version >= version + 2, interval=0.01)
    held_until = holder.elector._held_until
    api.swallow_answers = False
    eventually(lambda: time.monotonic() > held_until, interval=0.01)
    assert holder.elector.is_leader()
    assert api.holder == "me"


def test_a_stolen_lease_ends_leadership_at_the_next_renewal(api: FakeLeases, candidate: Make) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    api.edit(holderIdentity="thief")
    assert holder.lost.wait(0.8)
    assert holder.reasons == ["the Lease is held by thief"]
    assert not holder.elector.is_leader()
    holder.elector._thread.join(5)
    assert api.holder == "thief"


def test_a_deleted_lease_is_made_again_by_its_leader(api: FakeLeases, candidate: Make) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    with api.lock:
        api.lease = None
    eventually(lambda: api.holder == "me")
    assert holder.elector.is_leader()


def test_a_deadline_that_passes_while_the_renewing_thread_is_stuck_is_noticed(
    api: FakeLeases, candidate: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    holder = candidate()
    assert holder.started.wait(5)
    monkeypatch.setattr(holder.elector, "_attempt", lambda: release.wait(30) and False)
    assert holder.lost.wait(3)
    release.set()


def test_a_process_that_slept_past_the_deadline_does_not_renew(
    api: FakeLeases, candidate: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGSTOP and SIGCONT: on waking, the clock has moved on and the threads run in any order."""
    holder = candidate()
    assert holder.started.wait(5)
    real = time.monotonic
    monkeypatch.setattr(lease_module.time, "monotonic", lambda: real() + 3600)
    assert not holder.elector.is_leader()
    writes = len(api.writes)
    assert holder.lost.wait(3)
    monkeypatch.undo()
    assert len(api.writes) <= writes + 1  # one may have been under way
    assert not holder.elector.is_leader()


def test_the_wall_clock_does_not_matter(api: FakeLeases, candidate: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    jumps = itertools.cycle([timedelta(hours=1), timedelta(hours=-1)])

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(time.time(), tz) + next(jumps)

    monkeypatch.setattr(lease_module, "datetime", Jumping)
    writes = len(api.writes)
    held_until = holder.elector._held_until
    eventually(lambda: time.monotonic() > held_until, interval=0.01)
    assert holder.elector.is_leader()
    assert not holder.lost.is_set()
    assert len({write["spec"]["renewTime"][11:13] for write in api.writes[writes:]}) == 2


def test_annotations_are_written_at_once_and_those_of_others_kept(api: FakeLeases, candidate: Make) -> None:
    slow = LeaseSettings(namespace="ns", name="lock", duration=30, renew_deadline=20, retry_period=10)
    holder = candidate("me", slow)
    holder.elector.set_annotation("ours/early", "1")
    assert holder.started.wait(5)
    with api.lock:
        assert api.lease is not None
        meta = api.lease["metadata"]
        api.set({**api.lease, "metadata": {**meta, "annotations": {**meta.get("annotations", {}), "theirs": "x"}}})
    holder.elector.set_annotation("ours/a", "2")
    holder.elector.set_annotation("ours/b", "3")

    def annotations() -> dict[str, str]:
        assert api.lease is not None
        return api.lease["metadata"].get("annotations", {})  # type: ignore[no-any-return]

    eventually(lambda: annotations() == {"ours/early": "1", "ours/a": "2", "ours/b": "3", "theirs": "x"})
    holder.elector.set_annotation("ours/a", None)
    eventually(lambda: "ours/a" not in annotations())
    writes = len(api.writes)
    holder.elector.set_annotation("ours/b", "3")
    time.sleep(0.3)
    assert len(api.writes) == writes


def test_a_callback_that_fails_ends_leadership(api: FakeLeases) -> None:
    lost: list[str] = []

    def fail() -> None:
        raise RuntimeError("no engine")

    elector = LeaseElector(api.config, SETTINGS, on_started_leading=fail, on_lost=lost.append)
    elector.start()
    eventually(lambda: bool(lost))
    assert "no engine" in lost[0]
    assert not elector.is_leader()
    elector.stop()


def test_identities_name_the_host_and_are_never_the_same() -> None:
    first, second = lease_module.default_identity(), lease_module.default_identity()
    assert first != second
    assert first.rpartition("_")[0] == second.rpartition("_")[0] != ""


@pytest.mark.parametrize(
    ("periods", "reason"),
    [
        ({"duration": 10.0}, "leaseDuration must be greater than renewDeadline"),
        ({"renew_deadline": 2.4}, r"renewDeadline must be greater than retryPeriod\*1.2"),
        ({"retry_period": 0.0}, "retryPeriod must be greater than zero"),
        ({"name": ""}, "needs a namespace and a name"),
    ],
)
def test_periods_that_do_not_fit_together_are_refused(periods: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        LeaseSettings(**{"namespace": "ns", "name": "lock", **periods})


def lease_of(api: FakeLeases) -> dict[str, Any]:
    with api.lock:
        assert api.lease is not None
        return api.lease


def test_a_leader_notices_that_its_lease_is_older_than_its_last_write(api: FakeLeases, candidate: Make) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    copy, version = lease_of(api), api.version
    eventually(lambda: api.version >= version + 5)
    api.put_back(version, copy)
    (noticed,) = eventually(lambda: holder.restores)
    assert re.fullmatch(rf"Lease ns/lock is at version {version} after \d+", noticed.sign)
    assert not noticed.unnoticed
    eventually(lambda: api.version >= version + 5)
    assert holder.elector.is_leader()
    assert len(holder.restores) == 1


def test_a_follower_notices_it_too(api: FakeLeases, candidate: Make) -> None:
    holder, follower = candidate("holder"), candidate("follower")
    assert holder.started.wait(5) or follower.started.wait(5)
    copy, version = lease_of(api), api.version
    eventually(lambda: api.version >= version + 20)
    api.put_back(version, copy)
    eventually(lambda: holder.restores and follower.restores)
    assert holder.elector.is_leader() != follower.elector.is_leader()


def test_it_is_noticed_where_the_store_has_passed_the_version_of_before(api: FakeLeases, candidate: Make) -> None:
    """Then only what the Lease holds tells: an older write of ours."""
    holder = candidate()
    assert holder.started.wait(5)
    copy, version = lease_of(api), api.version
    eventually(lambda: api.version >= version + 5)
    with api.lock:
        latest, api.version = api.version, api.version + 50
        api.set(copy)
    (noticed,) = eventually(lambda: holder.restores)
    assert re.fullmatch(r"Lease ns/lock holds our write of \S+ after that of \S+", noticed.sign)
    eventually(lambda: api.version >= latest + 55)
    assert len(holder.restores) == 1


def test_a_bumped_revision_is_noticed(api: FakeLeases, candidate: Make) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    eventually(lambda: api.version >= 5)
    with api.lock:
        # Of the bump the Lease shows nothing before it is written again.
        api.version += 1_000_000_000
    (noticed,) = eventually(lambda: holder.restores)
    assert "as if etcd's revision had been bumped" in noticed.sign


def test_it_is_told_once_while_the_lease_cannot_be_written(api: FakeLeases, candidate: Make) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    copy, version = lease_of(api), api.version
    eventually(lambda: api.version >= version + 5)
    with api.lock:
        api.refuse_writes = True
        api.set(copy)
    eventually(lambda: holder.elector.slow_paths >= 4 or holder.lost.is_set())
    assert len(holder.restores) == 1


def test_one_old_answer_alone_tells_nothing(api: FakeLeases, candidate: Make) -> None:
    holder = candidate("holder")
    assert holder.started.wait(5)
    copy, version = lease_of(api), api.version
    follower = candidate("follower")
    eventually(lambda: api.version >= version + 20 and follower.elector.observed_holder == "holder")
    api.old_reads = [copy]
    eventually(lambda: not api.old_reads)
    version = api.version
    eventually(lambda: api.version >= version + 10)
    assert follower.restores == []


def test_it_is_told_whether_the_api_server_has_noticed(api: FakeLeases, candidate: Make) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    copy, version = lease_of(api), api.version
    eventually(lambda: api.version >= version + 5)
    api.remembered = lease_of(api)
    api.put_back(version, copy)
    (noticed,) = eventually(lambda: holder.restores)
    assert noticed.unnoticed


@pytest.mark.parametrize(
    "edit", [{"leaseTransitions": 7}, {"acquireTime": None}, {"renewTime": "2999-01-01T00:00:00Z"}]
)
def test_anothers_edit_is_no_older_state(api: FakeLeases, candidate: Make, edit: dict[str, Any]) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    api.edit(**edit)
    version = api.version
    eventually(lambda: api.version >= version + 5)
    assert holder.restores == []
    assert holder.elector.is_leader()


def test_a_deleted_lease_is_no_older_state(api: FakeLeases, candidate: Make) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    with api.lock:
        api.lease = None
    eventually(lambda: api.holder == "me")
    version = api.version
    eventually(lambda: api.version >= version + 3)
    assert holder.restores == []


def test_a_write_whose_answer_was_lost_is_no_older_state(api: FakeLeases, candidate: Make) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    api.swallow_answers = True
    version = api.version
    eventually(lambda: api.version >= version + 2)
    api.swallow_answers = False
    eventually(lambda: api.version >= version + 5)
    assert holder.restores == []


def test_a_lease_that_was_not_there_yet_and_is_made_again_tells(api: FakeLeases, candidate: Make) -> None:
    holder = candidate()
    assert holder.started.wait(5)
    eventually(lambda: api.version >= 8)
    api.put_back(2, None)
    (noticed,) = eventually(lambda: holder.restores)
    assert "is at version 3 after" in noticed.sign
