"""One extender over HTTP: a session of its own, with the TLS that its configuration asks for.

Follows makeTransport and send of kube-scheduler 1.34. Redirects are not followed, as a service that was not configured
must not be sent pods; an answer is read up to a limit, and the timeout spans the whole exchange.
"""

from __future__ import annotations

import base64
import os
import ssl
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

import aiohttp
from aiohttp import ClientTimeout, TCPConnector

from scheduler.config import Extender as ExtenderConfiguration, ExtenderTLSConfig
from scheduler.engine.extenderwire import NonsenseError, one_line
from scheduler.framework import ExtenderError
from scheduler.kube.client import ClientConfig, ConfigError, Credentials, proxy_variable

DEFAULT_TIMEOUT: Final = 5.0
"""Seconds, where the configuration names no httpTimeout."""
LEAST_LIMIT: Final = 16 << 20
"""An answer may have so many bytes, or twice as many as the question: it may hold the same Nodes."""
_CONNECTIONS: Final = 8

T = TypeVar("T")
Observe = Callable[[str, str, float], None]
"""Is told of an exchange: the verb, what came of it (`answered`, `refused`, `timeout`, `nonsense`, `failed`), and its
seconds."""


class ExtenderEndpoint:
    """Where an extender is asked. Use it on one event loop; `close` it in the end."""

    def __init__(
        self, configuration: ExtenderConfiguration, observe: Observe = lambda verb, result, seconds: None
    ) -> None:
        """Check the TLS settings; nothing is opened yet.

        Raises:
            ValueError: they contradict each other, or a file of them cannot be read.
        """
        self._base = configuration.url_prefix.rstrip("/")
        self._timeout = configuration.http_timeout or DEFAULT_TIMEOUT
        self._observe = observe
        self._credentials: Credentials | None = None
        self._session: aiohttp.ClientSession | None = None
        self._server_name = configuration.tls_config.server_name if configuration.tls_config is not None else ""
        try:
            config = _client_config(configuration)
            if urlsplit(self._base).scheme == "https":
                self._credentials = Credentials(config)
                self._credentials.ssl_context()
        except ConfigError as error:
            raise ValueError(str(error)) from error

    @property
    def timeout(self) -> float:
        """Seconds that an exchange may take."""
        return self._timeout

    def url(self, verb: str) -> str:
        """Return the address for a verb."""
        return f"{self._base}/{verb}"

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return what verifies the extender; None over HTTP."""
        return self._credentials.ssl_context() if self._credentials is not None else None

    async def status(self, verb: str) -> int:
        """Return the status of a GET without a body, which asks the extender for nothing.

        Raises:
            ExtenderError: there is no answer; the text names verb, URL and cause.
        """
        try:
            async with self._request("GET", verb, None) as response:
                return response.status
        except TimeoutError as error:
            raise self._error(verb, f"no answer within {self._timeout:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError, ConfigError) as error:
            raise self._error(verb, one_line([str(error) or type(error).__name__])) from error

    async def call(self, verb: str, body: bytes, read: Callable[[bytes], T]) -> T:
        """Send a request and return what is read of the answer.

        Raises:
            ExtenderError: there is no answer with status 200 that can be read; the text names verb, URL and cause.
        """
        began, result = time.monotonic(), "failed"
        try:
            answer = read(await self._exchange(verb, body))
            result = "answered"
            return answer
        except TimeoutError as error:
            result = "timeout"
            raise self._error(verb, f"no answer within {self._timeout:g} s") from error
        except _RefusedError as error:
            result = "refused"
            # Upstream's words.
            raise ExtenderError(f"failed {verb} with extender at URL {self.url(verb)}, code {error.status}") from error
        except (NonsenseError, ExtenderError) as error:
            result = "nonsense"
            raise error if isinstance(error, ExtenderError) else self._error(verb, str(error)) from error
        except (aiohttp.ClientError, OSError, ValueError, ConfigError) as error:
            raise self._error(verb, one_line([str(error) or type(error).__name__])) from error
        finally:
            self._observe(verb, result, time.monotonic() - began)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _exchange(self, verb: str, body: bytes) -> bytes:
        limit = max(LEAST_LIMIT, 2 * len(body))
        async with self._request("POST", verb, body) as response:
            if response.status != 200:
                raise _RefusedError(response.status)
            parts: list[bytes] = []
            size = 0
            async for chunk in response.content.iter_any():
                size += len(chunk)
                if size > limit:
                    response.close()
                    raise NonsenseError(f"the answer is larger than {limit} bytes")
                parts.append(chunk)
            return b"".join(parts)

    def _request(
        self, method: str, verb: str, body: bytes | None
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._open().request(
            method,
            self.url(verb),
            data=body,
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
            allow_redirects=False,
            timeout=ClientTimeout(total=self._timeout),
            ssl=self.ssl_context() or True,
            server_hostname=self._server_name or None,
            proxy=self._proxy(),
        )

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=TCPConnector(limit=_CONNECTIONS),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "kube-scheduler"},
            )
        return self._session

    def _proxy(self) -> str | None:
        """Return the proxy that Go's client would use."""
        variable = proxy_variable(self._base, os.environ)
        return os.environ[variable] if variable else None

    def _error(self, verb: str, cause: str) -> ExtenderError:
        return ExtenderError(f"failed {verb} with extender at URL {self.url(verb)}: {cause}")


class _RefusedError(Exception):
    """The status is not 200."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


def _client_config(configuration: ExtenderConfiguration) -> ClientConfig:
    """Return the TLS settings in force.

    With enableHTTPS and no certificate authority nothing is verified, as upstream. Data goes before files, and a
    certificate without its key is not used.
    """
    tls = configuration.tls_config or ExtenderTLSConfig()
    has_authority = bool(tls.ca_file or tls.ca_data)
    insecure = tls.insecure or (configuration.enable_https and not has_authority)
    label = f"extender {configuration.url_prefix}"
    if insecure and has_authority:
        raise ConfigError(f"{label}: specifying a root certificates file with the insecure flag is not allowed")
    has_pair = bool((tls.cert_file or tls.cert_data) and (tls.key_file or tls.key_data))
    return ClientConfig(
        server=configuration.url_prefix,
        insecure_skip_tls_verify=insecure,
        ca_file=Path(tls.ca_file) if tls.ca_file and not tls.ca_data else None,
        ca_data=_data(tls.ca_data, "caData", label),
        cert_file=Path(tls.cert_file) if tls.cert_file and has_pair and not tls.cert_data else None,
        cert_data=_data(tls.cert_data, "certData", label) if has_pair else None,
        key_file=Path(tls.key_file) if tls.key_file and has_pair and not tls.key_data else None,
        key_data=_data(tls.key_data, "keyData", label) if has_pair else None,
        source=label,
    )


def _data(text: str, field: str, label: str) -> bytes | None:
    if not text:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        # The value is a secret: it is not shown.
        raise ConfigError(f"{label}: tlsConfig.{field} is not valid base64") from None
