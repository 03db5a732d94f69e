"""The errors of requests to the API server.

KubeError
├── ConfigError              the kubeconfig or in-cluster files cannot be used
├── ConnectionFailed         no answer, and certainly nothing was changed (or the request only reads)
├── ConnectionLost           no answer to a write that may have been carried out
├── WriteWithheld            the caller's own check forbade the write right before it was sent
├── ResponseTooLarge         the answer is beyond the cap of the caller
├── MalformedResponse        an answer that is not what the API server sends
└── ApiError                 the API server answered with a failure
    ├── BadRequest 400, Unauthorized 401, Forbidden 403, NotFound 404, Invalid 422
    ├── Conflict 409 └── AlreadyExists
    ├── Expired 410          the resource version or continue token is too old (also called Gone)
    ├── TooManyRequests 429  with `retry_after` in seconds
    └── ServerError 5xx

`outcome_unknown` says whether a write may have happened all the same: then read the object back before deciding.
Messages hold at most 500 characters of what the server sent, control characters removed, and never a credential.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

from scheduler.kube.model.codec import decode_status
from scheduler.kube.model.meta import Status, StatusCause, StatusDetails

MESSAGE_LIMIT: Final = 500
# Those of name resolution and TLS count in numbers of their own.
_PLAIN_ERRORS: Final = (OSError, ConnectionRefusedError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
_READS: Final = ("GET", "HEAD")
_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_RESOURCE: Final = re.compile(
    r"/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/(?P<namespace>[^/?]+))?"
    r"(?:/(?P<resource>[^/?]+)(?:/(?P<name>[^/?]+)(?:/(?P<part>[^?]+))?)?)?(?:\?.*)?"
)
_CLUSTER_WIDE: Final = frozenset(
    {
        "clusterroles", "clusterversions", "csidrivers", "csinodes", "customresourcedefinitions", "deviceclasses",
        "devicetaintrules", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "namespaces",
        "noderesourcetopologies", "nodes", "persistentvolumes", "priorityclasses", "resourceslices", "storageclasses",
        "tokenreviews", "volumeattachments",
    }
)  # fmt: skip
"""Resources without a namespace, as far as we ask for them."""


class KubeError(Exception):
    """Base of all errors of this package."""

    outcome_unknown: bool = False
    """True where a write may have been carried out although it failed for us."""


class ConfigError(KubeError):
    """There is no usable configuration of the connection."""


class ConnectionFailed(KubeError):
    """No answer, and nothing was changed."""


class ConnectionLost(ConnectionFailed):
    """No answer to a write, which may or may not have been carried out."""

    outcome_unknown = True


class WriteWithheld(KubeError):
    """The caller's own check forbade the write; nothing was sent."""


class ResponseTooLarge(KubeError):
    """The answer has more bytes than the caller allows."""


class MalformedResponse(KubeError):
    """The answer is not what an API server sends."""


class ApiError(KubeError):
    """The API server refused.

    `status` is the HTTP code, `reason` the machine-readable word of metav1.Status, `message` its text (at most
    MESSAGE_LIMIT characters), `retry_after` in seconds, `causes` the details, such as one per conflicting field;
    `request` is the method and the path.
    """

    def __init__(
        self,
        summary: str,
        *,
        status: int,
        reason: str,
        message: str,
        retry_after: float | None = None,
        causes: Sequence[StatusCause] = (),
        request: tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(summary)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.causes = causes
        self.request = request


class BadRequest(ApiError):
    """400."""


class Unauthorized(ApiError):
    """401: the credential is missing, expired or unknown."""


class Forbidden(ApiError):
    """403: RBAC does not allow it; the message names user, verb and resource."""

    @property
    def right(self) -> str:
        """What the user would need, such as `list pods in all namespaces`."""
        method, path = self.request
        match = _OF_RESOURCE.fullmatch(path)
        if match is None or not (match["namespace"] or match["resource"]):
            return f"{_VERBS.get(method, method.lower())} {path}"
        namespace, resource, name, part = match["namespace"], match["resource"], match["name"], match["part"]
        if resource is None:
            namespace, resource, name = None, "namespaces", namespace
        verb = "list" if method == "GET" and name is None else _VERBS.get(method, method.lower())
        place = f" in namespace {namespace}" if namespace else ""
        if not namespace and resource not in _CLUSTER_WIDE:
            place = " in all namespaces"
        return f"{verb} {resource}{f'/{part}' if part else ''}{place}"


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: a precondition (resourceVersion, uid, state) does not hold."""


class AlreadyExists(Conflict):
    """409 on a create."""


class Expired(ApiError):
    """410: list again."""


class Invalid(ApiError):
    """422: the object is not valid."""


class TooManyRequests(ApiError):
    """429: come back after `retry_after` seconds (None if the server does not say)."""


class ServerError(ApiError):
    """5xx: the server failed; the outcome of a write is unknown."""


_BY_STATUS: Final[dict[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}


def api_error(method: str, path: str, status: int, body: bytes, retry_after: float | None = None) -> ApiError:
    """Build the exception for an answer with status 4xx or 5xx.

    `body` should be a metav1.Status but may be anything (proxies answer with HTML); `retry_after` is the header's, in
    seconds.
    """
    answer = decode_status(body) or Status()
    reason = answer.reason
    details = answer.details or StatusDetails()
    if details.retry_after_seconds > 0:
        retry_after = retry_after or float(details.retry_after_seconds)
    text = answer.message or body.decode("utf-8", "replace")
    message = sanitize(text)
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    if status == 409 and reason == "AlreadyExists":
        kind = AlreadyExists
    summary = f"{method} {path}: {status} {reason or kind.__name__}" + (f": {message}" if message else "")
    error = kind(
        summary,
        status=status,
        reason=reason,
        message=message,
        retry_after=retry_after,
        causes=details.causes,
        request=(method, path),
    )
    # "etcdserver: request timed out" and proxies' gateway errors and 408 come after the write may have landed.
    error.outcome_unknown = (status >= 500 or status == 408) and method not in _READS
    return error


def connection_error(method: str, path: str, cause: BaseException, *, sent: bool) -> ConnectionFailed:
    """Build the exception for a request without an answer; `sent` says whether it may have reached the server."""
    kind = ConnectionLost if sent and method not in _READS else ConnectionFailed
    return kind(f"{method} {path}: {sanitize(_reason(cause)) or type(cause).__name__}")


def _reason(cause: BaseException) -> str:
    """The cause in the system's words: HTTP libraries quote their own objects and error numbers."""
    # Of NotConnected, and of aiohttp's errors, which are not imported for their names alone.
    host, port = getattr(cause, "host", None), getattr(cause, "port", None)
    inner = getattr(cause, "os_error", None) or getattr(cause, "certificate_error", None)
    if host and port and isinstance(inner, Exception):
        return f"cannot connect to {host}:{port}: {_reason(inner)}"
    if type(cause) in _PLAIN_ERRORS and isinstance(cause, OSError) and cause.errno and cause.errno > 0:
        return os.strerror(cause.errno)
    return str(cause)


def sanitize(text: str) -> str:
    """Truncate foreign text to MESSAGE_LIMIT and replace control characters, so that logs and terminals are safe."""
    cut = text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 3] + "..."
    return "".join(character if character.isprintable() else " " for character in cut).strip()
