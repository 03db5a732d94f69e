"""Who may read a page, and what a page may do.

The server listens on the loopback interface only, and its pages show a cluster to the person who started it. Others
on the same machine can connect, too, and so can any web page that this person's browser shows. Hence:

- Every path begins with a random token. It is not in a cookie, which a browser would send to all ports of the host.
- The Host header must name the loopback interface: a foreign name that resolves to it (DNS rebinding) is refused.
- What `views.guarding` demands of every server of the pages.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final

from aiohttp import web

from secondary_scheduler.views.asking import Refused, check_form, host_of

ADDRESS: Final = "127.0.0.1"
_NAMES: Final = frozenset({ADDRESS, "localhost"})
"""With any port: it may be forwarded from another machine (`ssh -L`)."""


def new_token() -> str:
    """Return what the path of every page begins with: 192 random bits."""
    return secrets.token_urlsafe(24)


def check_request(request: web.Request, token: str) -> None:
    """Let a request pass, or say why not.

    Raises:
        Refused: it is not for us, or not from our own pages.
    """
    if host_of(request) not in _NAMES:
        raise Refused(421, f"this server answers to {ADDRESS} and localhost only; open the address that it printed")
    shown_token = request.path.split("/", 2)[1]
    # As bytes: a path may hold anything, and compare_digest takes text of ASCII only.
    if not hmac.compare_digest(shown_token.encode("utf-8", "replace"), token.encode()):
        raise Refused(403, "the address has no valid token; open the one that the command printed")
    check_form(request)
