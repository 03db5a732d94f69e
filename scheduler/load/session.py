"""An HTTP session for untrusted servers: a deadline, a byte cap, no redirects, a credential that may rotate, and bodies
that are decoded as what they should be."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Callable, Mapping
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError, ReadTimeoutError

from scheduler.load.answers import AnswerError, max_bytes
from scheduler.load.settings import LoadError, LoadRefused, LoadSettings, ObjectCount

_CHUNK = 64 * 1024
_MAX_TOKEN = 64 * 1024
_MAX_AUTHORITY = 4 * 1024 * 1024
_MAX_REFUSAL = 64 * 1024
"""Bytes of an answer that is no 200: of what it says, a line is shown."""

Decode = Callable[[bytes, int], Any]
"""Decodes an answer of at most so many bytes; raises AnswerError."""

_LIBRARY_WORDS = re.compile(r"HTTPS?Connection(?:Pool)?\([^()]*\): |\[Errno -?\d+\] ")
"""What urllib3 and Python put around the system's reason."""


class GuardedResponse(requests.Response):
    """A response whose body has been read, and whose `json()` is what that should be."""

    def __init__(self, response: requests.Response, body: bytes, decode: Callable[[bytes], Any]) -> None:
        super().__init__()
        # requests has no public way to hand it a body that was read elsewhere.
        self.__dict__.update(vars(response), _content=body)
        self._decode = decode

    def json(self, **_: Any) -> Any:
        """Decode the body.

        Raises:
            LoadError: it is not what the path answers with.
        """
        return self._decode(self.content)


class GuardedSession(requests.Session):
    """A session whose `request()` enforces the limits of its settings.

    The limits stand in `request()` because prometheus-api-client mounts an adapter of its own on its address, which
    shadows anything set by `mount()`.
    """

    def __init__(
        self, settings: LoadSettings, answers: Mapping[str, Decode], object_count: ObjectCount | None = None
    ) -> None:
        """Create a session.

        Args:
            settings: where to, and the limits.
            answers: how to decode what each path that will be asked for answers with.
            object_count: for the cap on an answer (`max_bytes`); None where nobody knows.
        """
        super().__init__()
        self._settings = settings
        self._answers = answers
        self._object_count = object_count
        # A proxy or .netrc of the environment would see the credential.
        self.trust_env = False
        self.verify = (str(settings.ca_file) if settings.ca_file else True) if settings.verify_tls else False
        self.headers["Accept-Encoding"] = "identity"
        # A server could have any number kept.
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))

    def request(  # type: ignore[override]  # nobody calls it positionally beyond the address
        self, method: str | bytes, url: str | bytes, **kwargs: Any
    ) -> GuardedResponse:
        """Send one request within deadline and byte cap.

        Raises:
            LoadError: redirected, too slow, too large, refused, or not reachable; says which.
        """
        settings = self._settings
        deadline = time.monotonic() + settings.timeout_seconds
        headers = dict(kwargs.pop("headers", None) or {})
        if (refusal := settings.rules.refusal(settings.credential)) is not None:
            raise LoadError(f"{settings.address}: {refusal}")
        self._check_authority()
        token = self._token()
        if token and settings.credential_header:
            headers[settings.credential_header] = token
        elif token:
            headers["Authorization"] = f"Bearer {token}"
        kwargs.update(stream=True, allow_redirects=False, timeout=settings.timeout_seconds, verify=self.verify)
        object_count = None if self._object_count is None else self._object_count()
        limit = max_bytes(object_count)
        try:
            response = super().request(method, url, headers=headers, **kwargs)
            with response:
                self._check_status(response)
                is_answer = response.status_code == requests.codes.ok
                body = self._body(response, deadline, limit if is_answer else _MAX_REFUSAL, object_count)
        except requests.exceptions.SSLError as error:
            cause = _root_cause(error)
            raise LoadError(f"{settings.address}: TLS verification failed ({cause}); {tls_advice(cause)}") from error
        except requests.exceptions.Timeout as error:
            raise LoadError(f"{settings.address}: no answer within {settings.timeout_seconds:g} s") from error
        except requests.exceptions.ConnectionError as error:
            raise LoadError(f"{settings.address}: not reachable ({_root_cause(error)})") from error
        except requests.exceptions.RequestException as error:
            raise LoadError(f"{settings.address}: {type(error).__name__}") from error
        except OSError as error:
            # Without a certificate file requests raises a bare OSError.
            raise LoadError(f"caFile {settings.ca_file}: cannot be read; mount it, or leave caFile out") from error
        path = urlsplit(str(url)).path
        decode = next(decode for suffix, decode in self._answers.items() if path.endswith(suffix))
        return GuardedResponse(response, body, lambda content: self._decoded(decode, content, limit, path))

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """None is followed. For one that is not, requests would still read the whole body, without any limit."""
        del resp
        return None

    def _decoded(self, decode: Decode, content: bytes, limit: int, path: str) -> Any:
        try:
            return decode(content, limit)
        except AnswerError as error:
            raise LoadError(f"{self._settings.address}: the answer of {path} cannot be used: {error}") from error

    def _body(self, response: requests.Response, deadline: float, limit: int, object_count: int | None) -> bytes:
        settings = self._settings
        body = bytearray()
        try:
            # read1 returns what has arrived: with full chunks a slow server could hold us beyond the deadline. Some
            # servers compress although they are asked not to, so the cap is on the decoded bytes.
            while chunk := response.raw.read1(_CHUNK, decode_content=True):
                body += chunk
                if len(body) > limit:
                    reason = "" if object_count is None else f", which is the most for {object_count} nodes or pods"
                    raise LoadError(
                        f"{settings.address}: the answer is larger than {limit} bytes{reason}; narrow the queries to"
                        " this cluster"
                    )
                if time.monotonic() > deadline:
                    raise LoadError(f"{settings.address}: answer not complete within {settings.timeout_seconds:g} s")
        except ReadTimeoutError as error:
            raise LoadError(f"{settings.address}: answer not complete within {settings.timeout_seconds:g} s") from error
        except (HTTPError, OSError) as error:
            raise LoadError(f"{settings.address}: the answer broke off ({type(error).__name__})") from error
        return bytes(body)

    def _check_status(self, response: requests.Response) -> None:
        address, status = self._settings.address, response.status_code
        if 300 <= status < 400:
            raise LoadError(
                f"{address}: redirected (HTTP {status}), which is not followed as the token would go elsewhere; "
                "give the final address"
            )
        if status in (401, 403):
            source = (
                f"token file {self._settings.token_file}" if self._settings.token_file else "token of the configuration"
            )
            raise LoadRefused(f"{address}: HTTP {status}, the {source} is not accepted")
        kind = response.headers.get("Content-Type", "json")
        # A load-watcher of one's own may name none, for which Go says text/plain; upstream's readers take any.
        if "html" in kind or ("json" not in kind and status != requests.codes.ok):
            raise LoadError(f"{address}: HTTP {status} with {kind} where JSON was expected; is this a login page?")

    def _check_authority(self) -> None:
        """Refuse a CA file that OpenSSL would read without end, such as a device."""
        path = self._settings.ca_file
        if path is None:
            return
        try:
            status = path.stat()
        except OSError:
            return  # requests says so
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_AUTHORITY:
            raise LoadError(f"caFile {path}: not a file of at most {_MAX_AUTHORITY} bytes; name a PEM bundle")

    def _token(self) -> str | None:
        path: Path | None = self._settings.token_file
        if path is None:
            return self._settings.token
        try:
            # Read for each round of queries: projected tokens rotate, and a stat costs about as much as the read.
            token = self._read_token(path).decode().strip()
        except OSError as error:
            raise LoadError(f"token file {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise LoadError(f"token file {path}: not a token, as it is not text") from error
        if not token.isascii() or not token.isprintable() or not token:
            raise LoadError(
                f"token file {path}: {'empty' if not token else 'not a token: it holds control characters'}"
            )
        return token

    def _read_token(self, path: Path) -> bytes:
        rules = self._settings.rules
        # Links are followed first: in a mounted volume every file is one, to a directory of the same volume.
        resolved = path.resolve(strict=True)
        if rules.directory is not None:
            own = str(path) == rules.service_account_token
            directory = (path.parent if own else Path(rules.directory)).resolve()
            if not resolved.is_relative_to(directory):
                raise LoadError(f"token file {path}: leads to {resolved}, outside of {directory}, and is not read")
        if not resolved.is_file():
            raise LoadError(f"token file {path}: not a file")
        with resolved.open("rb") as file:
            content = file.read(_MAX_TOKEN + 1)
        if len(content) > _MAX_TOKEN:
            raise LoadError(f"token file {path}: not a token, as it is larger than {_MAX_TOKEN} bytes")
        return content


def tls_advice(cause: str) -> str:
    """Return what to do about a certificate that was refused for this reason."""
    if "expired" in cause or "not yet valid" in cause:
        return "renew the certificate on the server, or correct a wrong clock"
    if "match" in cause:
        return "give an address with a name that its certificate is for"
    return "give caFile the CA that signed its certificate"


def _root_cause(error: BaseException) -> str:
    """The innermost reason of a wrapped connection error, without addresses of objects."""
    while True:
        reason = getattr(error, "reason", None)
        inner = reason if isinstance(reason, BaseException) else (error.args[0] if error.args else None)
        if not isinstance(inner, BaseException):
            text = str(error.args[-1]) if error.args else type(error).__name__
            text = text.rsplit(": ", 1)[-1] if " object at 0x" in text else text
            return _LIBRARY_WORDS.sub("", text)
        error = inner
