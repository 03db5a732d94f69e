"""How many connections a server holds, what it waits for on each, and which one goes when there are too many.

Knows no socket: a connection is closed by the function that it came with.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from typing import Final

from scheduler.connectionlimits import ConnectionLimits, client_of

_FEW: Final = 4
"""A kubelet or a Prometheus has no more connections to one port."""


class Wait(enum.Enum):
    """What the client of a connection has to do next."""

    HANDSHAKE = "no TLS handshake"
    FIRST_REQUEST = "no request"
    NEXT_REQUEST = "no further request"
    BODY = "no end of the request's body"
    READ = "the answer is not read"


SECONDS: Final = {
    Wait.HANDSHAKE: 5,
    Wait.FIRST_REQUEST: 10,
    # As Go's API machinery: Prometheus reads every 15 to 60 s.
    Wait.NEXT_REQUEST: 90,
    Wait.BODY: 30,
    Wait.READ: 30,
}
"""For how long. A byte now and then is no progress: the time counts from the step before."""


class Drop(enum.StrEnum):
    """Why a connection was not served to its end; a label of the metric."""

    ADDRESS = "address_limit"
    TOTAL = "total_limit"
    TIMEOUT = "timeout"
    LARGE_HEAD = "large_head"
    DESCRIPTORS = "no_descriptor"
    MALFORMED = "malformed"


class Connection:
    """One connection, from the moment it is accepted. `close` ends it at once; its owner replaces it as it grows up."""

    __slots__ = ("address", "client", "close", "since", "wait")

    def __init__(self, address: str, close: Callable[[], None]) -> None:
        self.address, self.client, self.close = address, client_of(address), close
        self.wait: Wait | None = None
        """None while its request is being answered."""
        self.since = 0.0


class _Client:
    """The connections of one client: their number, and those that wait, in the order in which they began to."""

    __slots__ = ("number", "unproven", "waiting")

    def __init__(self) -> None:
        self.number = 0
        self.waiting: dict[Connection, None] = {}
        self.unproven: dict[Connection, None] = {}


class Connections:
    """The open connections of a port, within its limits.

    Where there are too many, one goes whose client keeps the server waiting: of the client with the most connections
    that have made no request yet, the oldest of these; where nobody has more than four, of the client with the most
    connections the one that waits longest. So whoever has few keeps them, and a newcomer has the time that its
    handshake takes, however many others come. An address beyond its own number gives up one of its own: those without
    a request first, as long as they are the larger half, for it may stand for several clients.
    A connection whose request is being answered never goes: where all are, the newcomer does.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        on_drop: Callable[[Connection, Drop, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_drop` is told of each connection that is not served to its end, with the reason in words."""
        self._limits, self._on_drop, self._clock = limits, on_drop, clock
        self._clients: dict[str, _Client] = {}
        self._open: set[Connection] = set()

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, connection: Connection, wait: Wait) -> bool:
        """Take in a new connection, for which another may have to go; False where none can."""
        client, (total, per_address) = self._clients.get(connection.client), self._limits
        if per_address is not None and client is not None and client.number >= per_address:
            reason, words = Drop.ADDRESS, f"more than {per_address} of one address"
            room = self._drop_one_of(client, reason, words)
        elif len(self._open) >= total:
            reason, words = Drop.TOTAL, f"more than {total} in all"
            room = self.make_room(reason, words)
        else:
            room = True
        if room:
            self._open.add(connection)
            self._clients.setdefault(connection.client, _Client()).number += 1
            self.wait_for(connection, wait)
        else:
            self._on_drop(connection, reason, words)
        return room

    def make_room(self, reason: Drop, words: str) -> bool:
        """Drop a connection, whosever it is; False where none waits for its client."""
        clients = [client for client in self._clients.values() if client.waiting]
        if not clients:
            return False
        chosen = max(clients, key=lambda client: len(client.unproven))
        if len(chosen.unproven) <= _FEW:
            chosen = max(clients, key=lambda client: client.number)
        return self._drop_one_of(chosen, reason, words)

    def holds_few(self, connection: Connection) -> bool:
        """Tell whether its client has no more than a few connections."""
        client = self._clients.get(connection.client)
        return client is not None and client.number <= _FEW

    def wait_for(self, connection: Connection, wait: Wait | None) -> None:
        """Note what its client has to do now; None: nothing, as the server is at work."""
        if connection not in self._open:
            return
        client = self._clients[connection.client]
        self._end_wait(client, connection)
        connection.wait, connection.since = wait, self._clock()
        if wait is not None:
            client.waiting[connection] = None
        if wait is Wait.HANDSHAKE or wait is Wait.FIRST_REQUEST:
            client.unproven[connection] = None

    def leave(self, connection: Connection) -> None:
        """Forget a connection that has ended; one that is not known is no error."""
        if connection in self._open:
            self._open.discard(connection)
            client = self._clients[connection.client]
            self._end_wait(client, connection)
            client.number -= 1
            if not client.number:
                del self._clients[connection.client]

    def drop(self, connection: Connection, reason: Drop, words: str) -> None:
        """End a connection that is not to be served any further; one that is not known is no error."""
        if connection in self._open:
            self._end(connection)
            self._on_drop(connection, reason, words)

    def drop_overdue(self) -> None:
        """End the connections whose clients have taken too long."""
        now = self._clock()
        for connection in list(self._open):
            wait = connection.wait
            if wait is None or now - connection.since < SECONDS[wait]:
                continue
            if wait is Wait.NEXT_REQUEST:
                # The usual end of a connection: nobody has to hear of it.
                self._end(connection)
            else:
                self.drop(connection, Drop.TIMEOUT, f"{wait.value} within {SECONDS[wait]} s")

    def close_all(self) -> None:
        """End every connection."""
        for connection in list(self._open):
            self._end(connection)

    def _drop_one_of(self, client: _Client, reason: Drop, words: str) -> bool:
        mostly_unproven = 2 * len(client.unproven) > client.number
        chosen = next(iter(client.unproven if mostly_unproven else client.waiting), None)
        if chosen is None:
            return False
        self.drop(chosen, reason, words)
        return True

    def _end(self, connection: Connection) -> None:
        self.leave(connection)
        connection.close()

    def _end_wait(self, client: _Client, connection: Connection) -> None:
        # What waits anew goes to the end: the order is that of the times.
        client.waiting.pop(connection, None)
        client.unproven.pop(connection, None)
