"""How many connections a port serves, whose count together, and the flags that say so, for each program with a port.
Imports nothing of the project."""

from __future__ import annotations

import argparse
import ipaddress
from typing import Final, NamedTuple

_LIMIT: Final = 100_000
_MAPPED: Final = "::ffff:"
_PREFIX_BITS: Final = 64


class ConnectionLimits(NamedTuple):
    """How many connections one port serves at a time.

    Attributes:
        total: in all.
        per_address: from one address; None where one address stands for many clients, as an Ingress does.
    """

    total: int = 256
    per_address: int | None = 32


DEFAULT_LIMITS: Final = ConnectionLimits()


def client_of(address: str) -> str:
    """Return whose connections count together: an IPv4 address, in IPv6's notation too, or the /64 of an IPv6 address,
    any of whose addresses one host may use. What is no address stands for itself."""
    if ":" not in address:
        return address
    if address.startswith(_MAPPED) and "." in address:
        return address[len(_MAPPED) :]
    try:
        network = ipaddress.IPv6Network((address.partition("%")[0], _PREFIX_BITS), strict=False)
    except ValueError:
        return address
    return str(network)


def add_connection_flags(group: argparse._ActionsContainer, *, per_address: bool = True) -> None:
    """Add them; without `per_address` for a server that an Ingress stands before, with one address for all clients."""
    group.add_argument(
        "--max-connections",
        type=_number,
        default=DEFAULT_LIMITS.total,
        metavar="N",
        help="most connections that a port serves at a time (default: %(default)s)",
    )
    if per_address:
        group.add_argument(
            "--max-connections-per-address",
            type=_number,
            default=DEFAULT_LIMITS.per_address,
            metavar="N",
            help="most of them from one IPv4 address, or one /64 of IPv6 (default: %(default)s)",
        )


def connection_limits(parsed: argparse.Namespace) -> ConnectionLimits:
    """Return what the flags say."""
    return ConnectionLimits(parsed.max_connections, getattr(parsed, "max_connections_per_address", None))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:7]) <= _LIMIT):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of connections from 1 to {_LIMIT}")
    return int(text)
