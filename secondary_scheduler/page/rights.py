"""What a visitor may see, as the API server says: the reviews of `scheduler.observe.Authorizer`, one for each right."""

from __future__ import annotations

import contextlib
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from scheduler.catalog import is_label
from scheduler.observe import CallAllowance
from secondary_scheduler.page.cutting import Visitor
from secondary_scheduler.views.guarding import Refused

AUDIENCE: Final = "secondary-scheduler-page"
"""Of a token that somebody types into the form: whoever takes over the page cannot use it at the API server."""
MAX_NAMESPACES: Final = 10
NODES, PODS, CONFIGURATION, LEASE = "nodes", "pods", "configuration", "lease"
_PER_SECOND, _BURST = 5.0, 60
"""Pages per user: one of them takes a tenth of a second of the processor with 5,000 nodes."""
_AT_ONCE = 8
"""Pages that a user waits for: all users may come over the connections of one Ingress."""
_REMEMBERED = 256
_NOT_NOW = "the API server does not say who you are and what you may read; try again"


class Reviewer(Protocol):
    """The part of an `Authorizer` that is used here."""

    async def status(self, token: str, path: str, address: str = "") -> int:
        """Return 200, 401 (unknown token), 403 (not allowed) or 429 (too many strangers)."""
        ...

    def user(self, token: str) -> str:
        """Return the name of the user whose token was reviewed."""
        ...


@dataclass(frozen=True, slots=True)
class NamespacedName:
    """Where an object is, such as the scheduler's ConfigMap, whose readers may see its configuration."""

    namespace: str
    name: str


def access_to(config_map: NamespacedName, lease: NamespacedName | None) -> Callable[[str], dict[str, Any]]:
    """Return what says which access a right of this module is, as a part of a SubjectAccessReview."""

    def access(right: str) -> dict[str, Any]:
        kind, _, namespace = right.partition("/")
        attributes: dict[str, Any]
        if kind == NODES:
            attributes = {"verb": "get", "resource": "nodes"}
        elif kind == PODS:
            attributes = {"verb": "list", "resource": "pods"}
            if namespace:
                attributes["namespace"] = namespace
        elif kind == LEASE:
            assert lease is not None  # it is asked about only where it is known
            attributes = {"verb": "get", "group": "coordination.k8s.io", "resource": "leases"}
            attributes |= {"namespace": lease.namespace, "name": lease.name}
        else:
            assert kind == CONFIGURATION
            attributes = {"verb": "get", "resource": "configmaps"}
            attributes |= {"namespace": config_map.namespace, "name": config_map.name}
        return {"resourceAttributes": attributes}

    return access


def named_namespaces(text: str) -> tuple[str, ...]:
    """Return the namespaces of `a,b`, each once, in order.

    Raises:
        Refused: too many, or one that cannot be.
    """
    names = tuple(sorted({name.strip() for name in re.split(r"[,\s]+", text[: MAX_NAMESPACES * 100]) if name.strip()}))
    if not 0 < len(names) <= MAX_NAMESPACES:
        raise Refused(400, f"name one to {MAX_NAMESPACES} namespaces, with commas between them")
    if not all(is_label(name) for name in names):
        raise Refused(400, "a namespace has lower-case letters, digits and dashes, 63 at most")
    return names


class Rights:
    """Asks who a token is and what it may read."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pages: OrderedDict[str, CallAllowance] = OrderedDict()
        self._waiting: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def visitor(
        self, reviewer: Reviewer, token: str, address: str, namespaces: Sequence[str], *, with_lease: bool = False
    ) -> AsyncIterator[Visitor]:
        """Say what the owner of a token may see, for the time that a page is made for it.

        Args:
            reviewer: for the token's audience.
            token: as the request or the session has it.
            address: of the caller.
            namespaces: those that it names; none: all, where it may list pods in all.
            with_lease: ask about the scheduler's Lease, too.

        Raises:
            Refused: 401 where the token is not known, 403 where it may not see what it asks for, 429, or 503 where the
                API server does not answer.
        """
        status = await reviewed(reviewer, token, NODES, address)
        if status == 403:
            raise Refused(403, "this page is for who may get nodes, and you may not")
        require_known(status)
        # By the user's name: of tokens somebody can have as many as they like.
        user = reviewer.user(token)
        with self._one_more_of(user):
            visitor = await self._visitor(reviewer, token, address, namespaces)
            lease = with_lease and await _is_allowed(reviewer, token, LEASE, address)
            yield replace(visitor, lease=lease, user=user)

    @staticmethod
    async def _visitor(reviewer: Reviewer, token: str, address: str, namespaces: Sequence[str]) -> Visitor:
        if namespaces:
            for name in namespaces:
                status = await reviewed(reviewer, token, f"{PODS}/{name}", address)
                if status == 403:
                    raise Refused(403, f"you may not list pods in the namespace {name}")
                require_known(status)
            seen: frozenset[str] | None = frozenset(namespaces)
        else:
            seen = None if await _is_allowed(reviewer, token, PODS, address) else frozenset()
        return Visitor(seen, configuration=await _is_allowed(reviewer, token, CONFIGURATION, address))

    @contextlib.contextmanager
    def _one_more_of(self, user: str) -> Iterator[None]:
        allowance = self._pages.setdefault(user, CallAllowance(_PER_SECOND, _BURST, self._clock()))
        self._pages.move_to_end(user)
        while len(self._pages) > _REMEMBERED:
            self._pages.popitem(last=False)
        if self._waiting.get(user, 0) >= _AT_ONCE or not allowance.take(self._clock()):
            raise Refused(429, "too many pages at a time; wait some seconds")
        self._waiting[user] = self._waiting.get(user, 0) + 1
        try:
            yield
        finally:
            self._waiting[user] -= 1
            if not self._waiting[user]:
                del self._waiting[user]


async def _is_allowed(reviewer: Reviewer, token: str, right: str, address: str) -> bool:
    status = await reviewed(reviewer, token, right, address)
    if status != 403:
        require_known(status)
    return status == 200


async def reviewed(reviewer: Reviewer, token: str, right: str, address: str) -> int:
    """Return what a review says.

    Raises:
        Refused: the API server does not answer.
    """
    try:
        return await reviewer.status(token, right, address)
    except Exception as error:
        # Whatever it is: without an answer nobody may see anything. Its text may hold what was sent.
        raise Refused(503, _NOT_NOW) from error


def require_known(status: int) -> None:
    """Check that a review let a token pass.

    Raises:
        Refused: it did not.
    """
    if status == 429:
        raise Refused(429, "too many unknown tokens come at the moment; wait some seconds")
    if status == 401:
        raise Refused(401, "the token is not known, or not for this page")
    if status != 200:
        raise Refused(status, "you may not see this")
