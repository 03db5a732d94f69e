"""Who has logged in: tokens in memory, under random bits that the browser's cookie holds."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

COOKIE: Final = "__Host-session"
"""Browsers take it over TLS only, without a domain and for every path."""
MOST_SESSIONS: Final = 256
MOST_OF_A_USER: Final = 16
IDLE_SECONDS: Final = 30 * 60.0
LONGEST_SECONDS: Final = 8 * 3600.0


@dataclass(slots=True)
class _Session:
    token: str
    user: str
    began: float
    used: float


class Sessions:
    """At most `MOST_SESSIONS`, and `MOST_OF_A_USER`: the one that was idle longest goes first. They end with the
    process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By digest, the one that was idle longest first: how long a look-up takes says nothing about the bits.
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, token: str, user: str) -> str:
        """Begin a session of a user, and return its 192 random bits."""
        identifier = secrets.token_urlsafe(24)
        now = self._clock()
        own = [digest for digest, session in self._sessions.items() if session.user == user]
        for digest in own[: max(0, len(own) + 1 - MOST_OF_A_USER)]:
            del self._sessions[digest]
        self._sessions[_digest(identifier)] = _Session(token, user, now, now)
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return identifier

    def token(self, identifier: str) -> str | None:
        """Return the token of a session, which this keeps alive; None where it has ended, or there is none."""
        digest, now = _digest(identifier), self._clock()
        session = self._sessions.get(digest)
        if session is None:
            return None
        if now - session.used >= IDLE_SECONDS or now - session.began >= LONGEST_SECONDS:
            del self._sessions[digest]
            return None
        session.used = now
        self._sessions.move_to_end(digest)
        return session.token

    def close(self, identifier: str) -> None:
        """End a session, if there is one."""
        self._sessions.pop(_digest(identifier), None)


def _digest(identifier: str) -> bytes:
    return hashlib.sha256(identifier.encode("utf-8", "surrogateescape")).digest()
