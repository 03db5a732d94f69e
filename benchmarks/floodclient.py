"""A client that holds idle connections: `python -m benchmarks.floodclient SOURCE HOST:PORT[,HOST:PORT] NUMBER RATE`.

It opens NUMBER connections from the address SOURCE, in turn to each place, sends nothing, and opens a new one for each
that the server closes, at most RATE a second. Every second it writes how many are open, were opened and were closed, as
JSON. It ends with its standard input. The standard library only: it starts fast, beside what it floods.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import select
import socket
import sys
import time
from collections.abc import Iterator

_AT_ONCE = 50


class ConnectionHolder:
    """The connections of one client."""

    def __init__(self, source: str, places: list[tuple[str, int]], number: int, rate: float) -> None:
        self._source, self._places = source, itertools.cycle(places)
        self._number, self._rate = number, rate
        self._open: dict[int, socket.socket] = {}
        self._epoll = select.epoll()
        self.opened = self.closed = 0

    def run(self) -> Iterator[dict[str, int]]:
        """Hold them; yields the figures once a second, without end."""
        allowed, at, reported_at = 0.0, time.monotonic(), 0.0
        while True:
            now = time.monotonic()
            allowed, at = min(self._rate, allowed + (now - at) * self._rate), now
            count = min(self._number - len(self._open), int(allowed), _AT_ONCE)
            for _ in range(count):
                allowed -= 1
                self._connect()
            for descriptor, _ in self._epoll.poll(0 if count else 0.02, 256):
                self._open.pop(descriptor).close()
                self.closed += 1
            if now - reported_at >= 1:
                reported_at = now
                yield {"open": len(self._open), "opened": self.opened, "closed": self.closed}

    def _connect(self) -> None:
        connection = socket.socket()
        connection.setblocking(False)
        # Without it the kernel would look for a port that is free for every destination.
        connection.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
        self.opened += 1
        try:
            connection.bind((self._source, 0))
            with contextlib.suppress(BlockingIOError):
                connection.connect(next(self._places))
        except OSError:
            connection.close()
            self.closed += 1
            return
        # It is readable when it is at its end: a server says nothing first.
        self._epoll.register(connection, select.EPOLLIN)
        self._open[connection.fileno()] = connection


def main(arguments: list[str]) -> None:
    """Run until standard input ends."""
    source, places, number, rate = arguments
    pairs = [place.rpartition(":") for place in places.split(",")]
    holder = ConnectionHolder(source, [(host, int(port)) for host, _, port in pairs], int(number), float(rate))
    for figures in holder.run():
        print(json.dumps(figures), flush=True)
        if select.select([sys.stdin], [], [], 0)[0] and not sys.stdin.readline():
            return


if __name__ == "__main__":
    main(sys.argv[1:])
