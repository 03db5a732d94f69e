"""Where a load-watcher listens."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

DEFAULT_LISTEN = "127.0.0.1:2020"


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to serve; port 0: any free one."""

    host: str
    port: int


def listen_address(text: str) -> Listen:
    """Return host and port of `HOST:PORT` or `[IPV6]:PORT`; without a host all addresses.

    Raises:
        ValueError: it is not an address and a port.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise ValueError(f"{text!r} is not an address and a port, such as {DEFAULT_LISTEN}")
    return Listen(host or "0.0.0.0", int(port))  # noqa: S104 # the user's choice; callers demand authentication


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
