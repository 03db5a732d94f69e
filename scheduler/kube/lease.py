"""Leader election over a Lease, in a thread of its own.

Differences from client-go, which this otherwise follows (tools/leaderelection, v0.34): only the monotonic clock decides
anything, a renewal counts from the moment it was *sent*, and a second thread ends the process at the deadline whatever
the first one is stuck in. The Lease only keeps two schedulers from disturbing each other; what makes a double binding
impossible is the Binding's UID precondition.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import math
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from scheduler.kube.client.config import ClientConfig
from scheduler.kube.client.errors import Conflict, ConnectionFailed, KubeError, MalformedResponse, NotFound
from scheduler.kube.client.etcdrestore import FROM_MEMORY, EtcdRestore, QuorumVersions
from scheduler.kube.client.paths import api_path
from scheduler.kube.client.sync import SyncConnection
from scheduler.kube.model import ResourceVersion, newer_version
from scheduler.kube.primitives.timestamps import format_micro_time

log = logging.getLogger(__name__)

_API: Final = "coordination.k8s.io/v1"
_MAX_WAIT: Final = 3600.0
"""Seconds that another holder is believed at most without a sign of life, whatever duration its record claims."""
_MAX_TRANSITIONS: Final = (1 << 31) - 1
_COALESCE: Final = 0.05
"""Seconds that an early renewal waits for more annotations."""


class LeaseSettings(Struct, frozen=True, kw_only=True):
    """Which Lease, and the three periods in seconds. Raises ValueError for periods that do not fit together."""

    namespace: str
    name: str
    duration: float = 15.0
    """How long the others wait after our last renewal."""
    renew_deadline: float = 10.0
    """How long we go on after our last renewal."""
    retry_period: float = 2.0
    release_on_stop: bool = True

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline:
            raise ValueError("leaseDuration must be greater than renewDeadline")
        if not self.renew_deadline > 1.2 * self.retry_period:
            raise ValueError("renewDeadline must be greater than retryPeriod*1.2")
        if not self.retry_period > 0:
            raise ValueError("retryPeriod must be greater than zero")
        if not self.namespace or not self.name:
            raise ValueError("the Lease needs a namespace and a name")


class _State(enum.Enum):
    STANDBY = enum.auto()
    LEADING = enum.auto()
    LOST = enum.auto()
    STOPPED = enum.auto()


def default_identity() -> str:
    """Return `<hostname>_<uuid>`, new at each call."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def exit_process(reason: str) -> None:
    """Exit at once with code 1: no clean-up may delay a leader that has lost its Lease."""
    log.error("leader election lost, exiting: %s", reason)
    os._exit(1)


class LeaseElector:
    """Acquire and keep one Lease. Use once: after `stop` or a loss it never leads again.

    `on_started_leading` is called on the elector's thread and must return at once. `on_lost` is called at most once,
    with the reason, on whichever thread notices; it should end the process. `on_restore` is called on the elector's
    thread when the Lease shows that the cluster went back to an older state.
    """

    def __init__(
        self,
        config: ClientConfig,
        settings: LeaseSettings,
        *,
        identity: str | None = None,
        on_started_leading: Callable[[], None] | None = None,
        on_lost: Callable[[str], None] = exit_process,
        on_restore: Callable[[EtcdRestore], None] = lambda restore: None,
        user_agent: str = "secondary-scheduler/leader-election",
    ) -> None:
        self._settings = settings
        self._identity = identity or default_identity()
        self._on_started_leading = on_started_leading
        self._on_lost = on_lost
        self._on_restore = on_restore
        self._collection = api_path(_API, "leases", namespace=settings.namespace)
        self._path = api_path(_API, "leases", namespace=settings.namespace, name=settings.name)
        timeout = min(10.0, settings.renew_deadline / 3)
        self._connection = SyncConnection(config, timeout=timeout, user_agent=user_agent)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._state = _State.STANDBY
        self._held_until = -math.inf
        self._wrote = False
        self._last_write = ""
        """The renewTime of our last write that was answered."""
        self._release_on_stop = settings.release_on_stop
        self._annotations: dict[str, str | None] = {}
        self._record: dict[str, Any] | None = None
        self._seen_spec: Mapping[str, Any] | None = None
        self._seen_at = -math.inf
        self._last_failure = ""
        self._previous_holder = ""
        self._versions = QuorumVersions()
        self.slow_paths = 0
        """How often, while leading, the Lease had to be read before it could be renewed."""
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._watchdog = threading.Thread(target=self._watch_deadline, name="lease-watchdog", daemon=True)

    @property
    def identity(self) -> str:
        """What this process writes as holderIdentity."""
        return self._identity

    @property
    def observed_holder(self) -> str:
        """The holder of the Lease when it was last read, or ""."""
        return _holder(self._seen_spec or {})

    @property
    def previous_holder(self) -> str:
        """Who else held the Lease last, as far as this process saw; "" for nobody."""
        return self._previous_holder

    def start(self) -> None:
        """Start to compete for the Lease."""
        self._thread.start()

    def is_leader(self) -> bool:
        """Return whether writes are allowed right now. Check before each write."""
        return self._state is _State.LEADING and time.monotonic() < self._held_until

    def healthy(self, tolerance: float = 20.0) -> bool:
        """Return whether election works: False once lost, or as leader `tolerance` seconds after the Lease expired."""
        state = self._state
        if state is _State.LOST:
            return False
        if state is _State.STANDBY:
            return self._thread.is_alive() or self._thread.ident is None
        if state is _State.LEADING:
            expiry = self._held_until - self._settings.renew_deadline + self._settings.duration
            return time.monotonic() < expiry + tolerance
        return True

    def set_annotation(self, key: str, value: str | None) -> None:
        """Have the Lease carry this annotation (None removes it); written at once while leading, else on acquiring.

        Annotations set by others stay as they are.
        """
        with self._lock:
            if key in self._annotations and self._annotations[key] == value:
                return
            self._annotations[key] = value
        self._wake.set()

    def stop(self, timeout: float | None = None, *, release: bool = True) -> None:
        """Stop leading at once, release the Lease if settings say so, and wait for the thread (seconds).

        Finish or resolve all writes before. Where that is not possible, do not `release`: the Lease then expires, so
        that others wait for as long as they can be made to. `on_lost` is not called.
        """
        self._release_on_stop = self._settings.release_on_stop and release
        with self._lock:
            if self._state is not _State.LOST:
                self._state = _State.STOPPED
        self._ended.set()
        self._wake.set()
        if self._thread.ident is not None and threading.current_thread() is not self._thread:
            self._thread.join(self._settings.renew_deadline if timeout is None else timeout)

    # --- the elector's thread ---

    def _run(self) -> None:
        try:
            self._acquire()
            self._renew()
        except Exception as error:
            log.exception("leader election failed")
            self._lose(f"unexpected error: {error}")
            return
        finally:
            # Also when an acquiring write was under way as `stop` came.
            if self._state is _State.STOPPED and self._wrote and self._release_on_stop:
                self._release()
            self._connection.close()

    def _acquire(self) -> None:
        """Return once leading or stopped."""
        while self._state is _State.STANDBY:
            sent_at = time.monotonic()
            if self._attempt() and self._lead(sent_at):
                log.info("became leader of %s/%s", self._settings.namespace, self._settings.name)
                self._watchdog.start()
                if self._on_started_leading is not None:
                    self._on_started_leading()
                return
            # Annotations need no hurry while someone else leads: only `stop` cuts this wait short.
            self._ended.wait(self._settings.retry_period * random.uniform(1.0, 2.2))

    def _renew(self) -> None:
        """Return once lost or stopped."""
        while True:
            if self._wake.wait(self._settings.retry_period):
                self._ended.wait(_COALESCE)
                self._wake.clear()
            if self._state is not _State.LEADING:
                return
            sent_at = time.monotonic()
            if sent_at >= self._held_until:
                # Woken too late (stopped process, blocked interpreter): someone else may lead by now.
                self._lose("the Lease was not renewed in time")
                return
            if self._attempt():
                self._lead(sent_at)

    def _lead(self, sent_at: float) -> bool:
        """Extend leadership from the moment the successful write was sent, unless that is already too long ago."""
        until = sent_at + self._settings.renew_deadline
        with self._lock:
            if self._state is _State.STANDBY:
                if time.monotonic() >= until:
                    return False
                self._held_until = until
                self._state = _State.LEADING
            elif self._state is _State.LEADING and time.monotonic() < self._held_until:
                self._held_until = until
            return self._state is _State.LEADING

    def _attempt(self) -> bool:
        """Try once to acquire or renew; True if the Lease is ours by our own successful write."""
        try:
            try:
                done = self._write_if_allowed()
            except ConnectionFailed:
                # A kept-alive connection dies with the server's restart; that is no reason to lose a whole period.
                if self._state is not _State.LEADING:
                    raise
                self._record = None
                done = self._write_if_allowed()
        except KubeError as error:
            self._record = None
            self._last_failure = str(error)
            log.warning("cannot %s the Lease: %s", "renew" if self._state is _State.LEADING else "acquire", error)
            return False
        self._last_failure = ""
        return done

    def _write_if_allowed(self) -> bool:
        leading = self._state is _State.LEADING
        if leading and self._record is not None:
            try:
                return self._write(self._record, takeover=False)
            except (Conflict, NotFound):
                self._record = None
        if leading:
            self.slow_paths += 1
        try:
            record = _decode(self._connection.get(self._path))
        except NotFound:
            return self._write(None, takeover=False)
        self._compare(record)
        spec = _mapping(record.get("spec"))
        if spec != self._seen_spec:
            self._seen_spec, self._seen_at = spec, time.monotonic()
        holder = _holder(spec)
        if holder and holder != self._identity:
            self._previous_holder = holder
            if leading:
                self._lose(f"the Lease is held by {holder}")
                return False
            if time.monotonic() < self._seen_at + self._validity_seconds(spec):
                return False
        return self._write(record, takeover=holder != self._identity)

    def _validity_seconds(self, spec: Mapping[str, Any]) -> float:
        """Return how long another holder's record is valid, seconds; junk falls back to our own duration."""
        claimed = spec.get("leaseDurationSeconds")
        if isinstance(claimed, bool) or not isinstance(claimed, int) or claimed <= 0:
            return self._settings.duration
        return min(float(claimed), _MAX_WAIT)

    def _write(self, record: dict[str, Any] | None, *, takeover: bool) -> bool:
        now = format_micro_time(datetime.now(UTC))
        old = _mapping(record.get("spec")) if record is not None else {}
        acquired = old.get("acquireTime")
        transitions = old.get("leaseTransitions")
        count = transitions if isinstance(transitions, int) and not isinstance(transitions, bool) else 0
        spec = {
            **old,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._settings.duration),
            "acquireTime": acquired if isinstance(acquired, str) and not takeover else now,
            "renewTime": now,
            "leaseTransitions": min(count + 1, _MAX_TRANSITIONS) if takeover else count,
        }
        self._send(record, spec)
        return True

    def _send(self, record: dict[str, Any] | None, spec: Mapping[str, Any]) -> None:
        meta = _mapping(record.get("metadata")) if record is not None else {}
        with self._lock:
            wanted = dict(self._annotations)
        annotations = {**_mapping(meta.get("annotations")), **wanted}
        body: dict[str, Any] = {
            **(record or {"apiVersion": _API, "kind": "Lease"}),
            "metadata": {
                **meta,
                "name": self._settings.name,
                "namespace": self._settings.namespace,
                "annotations": {key: value for key, value in annotations.items() if value is not None},
            },
            "spec": spec,
        }
        self._wrote = True
        if record is None:
            answer = self._connection.request("POST", self._collection, body=body)
        else:
            answer = self._connection.request("PUT", self._path, body=body)
        self._record = _decode(answer)
        self._last_write = spec["renewTime"]
        self._seen_spec, self._seen_at = _mapping(self._record.get("spec")), time.monotonic()
        self._compare(self._record)

    def _compare(self, record: Mapping[str, Any]) -> None:
        """Compare an answer about the Lease with those before it; where it shows that the cluster went back, a second
        read has to show the same."""
        if not self._sign_of_restore(record):
            self._versions.follow(_version(record))
            return
        try:
            remembered: Mapping[str, Any] = {}
            with contextlib.suppress(NotFound):
                remembered = _decode(self._connection.get(self._path, FROM_MEMORY))
            again = _decode(self._connection.get(self._path))
        except KubeError as error:
            # The next answer shows it, too.
            log.warning("the Lease is not as it was left, and cannot be read again: %s", error)
            return
        sign = self._sign_of_restore(again)
        if not sign:
            self._versions.follow(_version(again))
            return
        self._versions.restart(_version(again))
        self._last_write = _renewed(again)
        unnoticed = newer_version(_version(remembered), _version(again)) is True
        self._on_restore(EtcdRestore(f"Lease {self._settings.namespace}/{self._settings.name} {sign}", unnoticed))

    def _sign_of_restore(self, record: Mapping[str, Any]) -> str:
        """Return how an answer shows that the cluster went back; "" where it does not."""
        contradiction = self._versions.contradiction(_version(record))
        if contradiction:
            return contradiction
        spec = _mapping(record.get("spec"))
        held = _renewed(record)
        # After another's edit it still holds our last write, or one since without an answer. Times of one form compare
        # as text.
        if self._state is _State.LEADING and _holder(spec) == self._identity and held < self._last_write:
            return f"holds our write of {held} after that of {self._last_write}"
        return ""

    def _release(self) -> None:
        """Release the Lease, so that nobody has to wait for it to expire."""
        for _ in range(2):
            try:
                record = _decode(self._connection.get(self._path))
                spec = _mapping(record.get("spec"))
                if _holder(spec) != self._identity:
                    return
                now = format_micro_time(datetime.now(UTC))
                freed = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
                self._send(record, {**spec, **freed})
            except KubeError as error:
                self._last_failure = str(error)
            else:
                log.info("released the Lease %s/%s", self._settings.namespace, self._settings.name)
                return
        log.warning("cannot release the Lease, it will expire: %s", self._last_failure)

    # --- the watchdog's thread ---

    def _watch_deadline(self) -> None:
        while (left := self._held_until - time.monotonic()) > 0:
            if self._ended.wait(left):
                return
        self._lose("the Lease could not be renewed in time" + (f": {self._last_failure}" if self._last_failure else ""))

    def _lose(self, reason: str) -> None:
        with self._lock:
            if self._state is not _State.LEADING:
                return
            self._state = _State.LOST
        self._ended.set()
        self._wake.set()
        self._on_lost(reason)


def _decode(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedResponse(f"the Lease is not JSON: {error}") from error


def _renewed(record: Mapping[str, Any]) -> str:
    return str(_mapping(record.get("spec")).get("renewTime", ""))


def _version(record: Mapping[str, Any]) -> ResourceVersion:
    return ResourceVersion(str(_mapping(record.get("metadata")).get("resourceVersion", "")))


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _holder(spec: Mapping[str, Any]) -> str:
    holder = spec.get("holderIdentity")
    return holder if isinstance(holder, str) else ""
