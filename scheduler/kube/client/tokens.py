"""Tokens at the API server: have one reviewed, have one made. Nothing else sends somebody else's token anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec import Struct, field

from scheduler.kube.client.errors import MalformedResponse
from scheduler.kube.client.paths import api_path

if TYPE_CHECKING:
    from scheduler.kube.client.sync import SyncConnection

_API: Final = "authentication.k8s.io/v1"
_REVIEWS: Final = f"/apis/{_API}/tokenreviews"


class _Posting(Protocol):
    async def post(self, path: str, body: dict[str, Any], /) -> bytes: ...


class _IssuedToken(Struct):
    token: str | None = None


class _TokenRequest(Struct):
    status: _IssuedToken | None = field(default_factory=_IssuedToken)


_decoder = msgspec.json.Decoder(_TokenRequest)


async def review_token(client: _Posting, token: str, audience: str = "") -> bytes:
    """Ask whose a token is; `audience`: whom it must be for, "" for the API server. Return the TokenReview as JSON.

    Raises:
        KubeError: the API server does not answer, or refuses.
    """
    spec: dict[str, Any] = {"token": token}
    if audience:
        spec["audiences"] = [audience]
    return await client.post(_REVIEWS, {"apiVersion": _API, "kind": "TokenReview", "spec": spec})


def request_token(connection: SyncConnection, namespace: str, name: str, seconds: int) -> str:
    """Have a token of a ServiceAccount made, valid for so many seconds; "" where the answer holds none.

    Raises:
        NotFound: there is no such account.
        Forbidden: the user may not `create` on `serviceaccounts/token`.
        KubeError: the API server does not answer, or not with a TokenRequest.
    """
    path = api_path("v1", "serviceaccounts", namespace=namespace, name=name, subresource="token")
    request = {"apiVersion": _API, "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
    try:
        status = _decoder.decode(connection.request("POST", path, body=request)).status
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedResponse(f"POST {path}: {error}") from error
    return (status.token if status is not None else None) or ""
