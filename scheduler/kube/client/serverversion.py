"""The version that an API server says it has."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from scheduler.kube.client.errors import MalformedResponse
from scheduler.kube.client.http import KubeClient

_PATH: Final = "/version"


class _Version(Struct, rename="camel"):
    git_version: str


_decoder = msgspec.json.Decoder(_Version)


async def server_version(client: KubeClient, *, timeout: float) -> str:
    """Return the API server's version, such as `v1.36.3`; whoever is authenticated may read it (`system:discovery`).

    Raises:
        KubeError: there is no answer within `timeout` seconds, a refusal, or an answer without a version.
    """
    body = await client.get(_PATH, timeout=timeout)
    try:
        return _decoder.decode(body).git_version
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedResponse(f"GET {_PATH}: {error}") from error
