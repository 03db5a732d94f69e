"""Who may read the guarded endpoints: the API server's reviews, and how many of them strangers may cause.

A flood of tokens from anybody who reaches the port must neither load the API server nor keep a known scraper waiting.
So there are two lanes. A token that was allowed lately is reviewed without waiting behind others. All other tokens
share a small rate, each address only a part of it, and a refused token is not reviewed again for a while.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Literal

from scheduler.connectionlimits import client_of
from scheduler.kube.client import review_token
from scheduler.observe.answers import ReviewClient
from scheduler.observe.clients import MASTERS, CertifiedUser

TOO_MANY = 429
DECISIONS: Final = "/debug/decisions"
QUEUE: Final = "/debug/queue"
NODES: Final = "/debug/nodes"
SHADOW: Final = "/debug/shadow"
_NAMESPACE: Final = r"(?P<namespace>[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)"
_NODE: Final = r"(?P<node>[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)"
_RESOURCE_PATHS: Final[tuple[tuple[re.Pattern[str], dict[str, str]], ...]] = (
    (re.compile(rf"{DECISIONS}/namespaces/{_NAMESPACE}"), {"verb": "get", "resource": "pods"}),
    (re.compile(rf"{QUEUE}/namespaces/{_NAMESPACE}"), {"verb": "list", "resource": "pods"}),
    (re.compile(QUEUE), {"verb": "list", "resource": "pods"}),
    (re.compile(rf"{SHADOW}/namespaces/{_NAMESPACE}"), {"verb": "list", "resource": "pods"}),
    (re.compile(SHADOW), {"verb": "list", "resource": "pods"}),
    (re.compile(NODES), {"verb": "get", "resource": "nodes"}),
    (re.compile(rf"{NODES}/{_NODE}"), {"verb": "get", "resource": "nodes"}),
    (re.compile(rf"{NODES}/{_NODE}/decisions"), {"verb": "list", "resource": "pods"}),
)
"""Paths for which a right on objects is wanted, in the namespace that they name or in all, and that right."""
_CACHE_SECONDS = 10.0
"""How long an answer counts, unless a flag says otherwise; upstream's value."""
_KNOWN_SECONDS = 3600.0
"""How long after its last permission a token keeps its lane."""
_REMEMBERED = 256
"""Answers, known tokens and addresses remembered, each; the oldest is dropped first."""
_STRANGERS_AT_ONCE = 4
_KNOWN_AT_ONCE = 8
_STRANGERS_PER_SECOND = 5.0
"""With two requests per review, half of what the daemon's client for reviews allows itself."""
_STRANGERS_BURST = 20
_ADDRESS_PER_SECOND = 1.0
_ADDRESS_BURST = 5

_Key = tuple[bytes, str]


class CallAllowance:
    """`burst` calls at once, `per_second` in the long run; says no instead of waiting."""

    def __init__(self, per_second: float, burst: int, now: float) -> None:
        self._per_second, self._burst = per_second, float(burst)
        self._left, self._filled_at = float(burst), now

    def take(self, now: float) -> bool:
        """Take one call; False when none is left."""
        self._left = min(self._burst, self._left + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Authorizer:
    """Asks the API server who a bearer token is and whether it may read a path; remembers for some seconds.

    Tokens are remembered as digests. Clients with a certificate are asked about in the same lanes.
    """

    def __init__(
        self,
        client: ReviewClient,
        authenticated: float = _CACHE_SECONDS,
        authorized: float = _CACHE_SECONDS,
        refused: float = _CACHE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        *,
        audience: str = "",
        access: Callable[[str], dict[str, Any]] | None = None,
    ) -> None:
        """Configure.

        Args:
            client: for the reviews.
            authenticated, authorized, refused: for how many seconds an answer counts: who the token is, that it may
                read, that it may not. A request needs the first and one of the others, so the shorter one counts.
            clock: monotonic.
            audience: for whom a token must be; "" for the API server.
            access: returns what a caller must be allowed for a path, as a part of a SubjectAccessReview; None: as
                `access_to` says.
        """
        self._client, self._audience, self._access = client, audience, access or access_to
        self._allowed_seconds, self._refused_seconds = min(authenticated, authorized), min(authenticated, refused)
        self._clock = clock
        self._answers: OrderedDict[_Key, tuple[float, int]] = OrderedDict()
        self._known: OrderedDict[bytes, float] = OrderedDict()
        self._users: OrderedDict[bytes, str] = OrderedDict()
        self._addresses: OrderedDict[str, CallAllowance] = OrderedDict()
        self._strangers = CallAllowance(_STRANGERS_PER_SECOND, _STRANGERS_BURST, clock())
        self._running: dict[_Key, asyncio.Task[int]] = {}
        self._known_lane = asyncio.Semaphore(_KNOWN_AT_ONCE)
        self._strangers_lane = asyncio.Semaphore(_STRANGERS_AT_ONCE)

    async def status(self, token: str, path: str, address: str = "") -> int:
        """Return the HTTP status of a request: 200, 401 (unknown token), 403 (not allowed), or 429 where too many
        tokens that are not known came, from this address or in all.

        Raises:
            Exception: the API server could not review the token.
        """
        if not token.isascii():
            return 401
        return await self._status((_digest(token), path), address, lambda: self._ask(token, path))

    def user(self, token: str) -> str:
        """Return the name of the user whose token this was when it was last reviewed; "" for one that is not known."""
        return self._users.get(_digest(token), "")

    async def status_of_user(self, user: CertifiedUser, path: str, address: str = "") -> int:
        """Return the HTTP status of a request of a client with a certificate: 200, 403 or 429.

        Raises:
            Exception: the API server could not say.
        """
        if MASTERS in user.groups:
            return 200
        subject = {"username": user.name, "groups": list(user.groups), "extra": user.extra}
        return await self._status((b"certificate" + user.digest, path), address, lambda: self._may_read(subject, path))

    async def _status(self, key: _Key, address: str, ask: Callable[[], Coroutine[Any, Any, int]]) -> int:
        remembered = self._answers.get(key)
        if remembered and remembered[0] > self._clock():
            return remembered[1]
        task = self._running.get(key)
        if task is None:
            known = self._known.get(key[0], 0.0) > self._clock()
            if not known and not self._may_be_asked_by(address):
                return TOO_MANY
            task = asyncio.create_task(self._review(key, known, ask), name="review")
            self._running[key] = task
            task.add_done_callback(lambda done: self._finish(key, done))
        # A client that goes away does not take the others' review with it.
        return await asyncio.shield(task)

    def _finish(self, key: _Key, task: asyncio.Task[int]) -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            task.exception()  # whoever asked may be gone

    def _may_be_asked_by(self, address: str) -> bool:
        now, client = self._clock(), client_of(address)
        allowance = self._addresses.get(client)
        if allowance is None:
            allowance = self._addresses[client] = CallAllowance(_ADDRESS_PER_SECOND, _ADDRESS_BURST, now)
            _drop_oldest(self._addresses)
        self._addresses.move_to_end(client)
        # In this order: an address that is refused takes nothing from the others.
        return allowance.take(now) and self._strangers.take(now)

    async def _review(self, key: _Key, known: bool, ask: Callable[[], Coroutine[Any, Any, int]]) -> int:
        async with self._known_lane if known else self._strangers_lane:
            status = await ask()
        now = self._clock()
        self._answers.pop(key, None)
        seconds = self._allowed_seconds if status == 200 else self._refused_seconds
        self._answers[key] = (now + seconds, status)
        _drop_oldest(self._answers)
        self._known.pop(key[0], None)
        if status == 200:
            self._known[key[0]] = now + _KNOWN_SECONDS
            _drop_oldest(self._known)
        return status

    async def _ask(self, token: str, path: str) -> int:
        answer = json.loads(await review_token(self._client, token, self._audience))
        status = answer.get("status", {})
        if not status.get("authenticated"):
            return 401
        # An authenticator that knows no audiences says none: its token is good at the API server.
        if self._audience and self._audience not in (status.get("audiences") or ()):
            return 401
        digest = _digest(token)
        self._users[digest] = status["user"].get("username", "")
        self._users.move_to_end(digest)
        _drop_oldest(self._users)
        return await self._may_read(status["user"], path)

    async def _may_read(self, user: Mapping[str, Any], path: str) -> int:
        access = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.get("username", ""),
                "groups": user.get("groups", []),
                "uid": user.get("uid", ""),
                "extra": user.get("extra") or {},
                **self._access(path),
            },
        }
        answer = json.loads(await self._client.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", access))
        return 200 if answer.get("status", {}).get("allowed") else 403


def named_in(path: str, kind: Literal["namespace", "node"]) -> str | None:
    """Return the namespace or node that a path of ours names; None where it names none."""
    for pattern, _ in _RESOURCE_PATHS:
        match = pattern.fullmatch(path)
        if match is not None:
            return match.groupdict().get(kind)
    return None


def access_to(path: str) -> dict[str, Any]:
    """Return what a caller must be allowed, as a part of a SubjectAccessReview.

    That is `get` on the path, but for what the scheduler says of objects: a right on these. Decisions about a
    namespace's pods need `get` on them; the queue, as it lists pods, `list`, in a namespace or in all; a node `get` on
    this node, the load of all `get` on nodes. The decisions that chose a node name pods of all namespaces, which needs
    `list`, too.
    """
    for pattern, right in _RESOURCE_PATHS:
        match = pattern.fullmatch(path)
        if match is None:
            continue
        named = match.groupdict()
        attributes: dict[str, Any] = dict(right)
        if "namespace" in named:
            attributes["namespace"] = named["namespace"]
        if right["resource"] == "nodes" and "node" in named:
            attributes["name"] = named["node"]
        return {"resourceAttributes": attributes}
    return {"nonResourceAttributes": {"path": path, "verb": "get"}}


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _drop_oldest(remembered: OrderedDict[Any, Any]) -> None:
    while len(remembered) > _REMEMBERED:
        remembered.popitem(last=False)
