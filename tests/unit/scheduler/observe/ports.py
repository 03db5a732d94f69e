"""What tests of our servers share: a port, and a certificate."""

from __future__ import annotations

import socket
import ssl

from scheduler.observe import serving_context, use_self_signed


def free_port() -> int:
    """A port that nobody had a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def self_signed() -> ssl.SSLContext:
    """Of a server with a certificate that it has made itself."""
    context = serving_context(None, None, minimum="VersionTLS12")
    use_self_signed(context, "127.0.0.1")
    return context
