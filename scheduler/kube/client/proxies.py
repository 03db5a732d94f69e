"""Proxies that the environment names, by the rules of client-go (golang.org/x/net/http/httpproxy)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_variable(server: str, environment: Mapping[str, str]) -> str | None:
    """Return the name of the variable whose proxy client-go would use for a server; None if it connects directly."""
    parts = urlsplit(server)
    name = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    chosen = next((each for each in (name, name.lower()) if environment.get(each)), None)
    if chosen is None:
        return None
    host, port = (parts.hostname or "").rstrip("."), parts.port or (443 if parts.scheme == "https" else 80)
    address = _ip(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return None
    exceptions = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    return None if any(_excepts(entry.strip().lower(), host, port) for entry in exceptions.split(",")) else chosen


def _excepts(entry: str, host: str, port: int) -> bool:
    if entry in ("", "*"):
        return entry == "*"
    address = _ip(host)
    try:
        network = ipaddress.ip_network(entry, strict=False)
    except ValueError:
        pass
    else:
        return address is not None and address in network
    name, colon, entry_port = entry.rpartition(":")
    if colon and entry_port.isdecimal():
        if int(entry_port) != port:
            return False
        entry = name.removeprefix("[").removesuffix("]")
    if address is not None:
        return address == _ip(entry)
    entry = entry.removeprefix("*")
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
