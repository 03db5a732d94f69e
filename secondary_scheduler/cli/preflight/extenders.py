"""The checks of `preflight` for extenders: connection, TLS, and whether something answers for each verb.

No verb is called: filter and bind of an extender may change devices or pods. A GET without a body asks for nothing, and
its status shows what is there.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from scheduler.config import Extender, ExtenderTLSConfig
from scheduler.engine import ExtenderEndpoint
from scheduler.framework import ExtenderError
from secondary_scheduler.cli.preflight.checks import Check, CheckStatus, check_certificate, check_connection

_IN_CLUSTER = "that name exists only inside the cluster: run preflight in a pod there"
_NO_CREDENTIALS = "a scheduler sends no token: give certFile and keyFile, or let the extender answer without"
_POST_ONLY = "compare the verb with the extender's documentation; it may also answer POST alone"


@dataclass(frozen=True, slots=True)
class ExtenderTarget:
    """One extender of a configuration."""

    extender: Extender

    @property
    def description(self) -> str:
        """What is checked, as a heading."""
        return f"extender {self.extender.url_prefix}"

    @property
    def key(self) -> str:
        """The target among others."""
        return f"extender:{self.extender.url_prefix}"

    @property
    def own_address(self) -> str:
        """Where it listens."""
        return self.extender.url_prefix

    def checks(self) -> Iterator[Check]:
        """Yield the checks in order; what cannot be checked after a failure is skipped."""
        try:
            endpoint = ExtenderEndpoint(self.extender)
        except ValueError as error:
            # Most often a file of the scheduler's pod, which is not on this machine.
            yield Check("TLS", CheckStatus.WARNING, str(error), "run preflight where the files of tlsConfig are")
            yield from self._skipped("the files of tlsConfig are not here")
            return
        reachable = check_connection(self.extender.url_prefix, endpoint.timeout, _IN_CLUSTER)
        yield reachable
        if reachable.status is CheckStatus.FAILED:
            yield from self._skipped("reachable failed")
            return
        tls = self._check_tls(endpoint)
        yield tls
        if tls.status is CheckStatus.FAILED:
            yield from self._skipped("TLS failed")
            return
        verbs = [verb for _, verb in self._verbs()]
        statuses = asyncio.run(_statuses(endpoint, verbs))
        for (name, verb), status in zip(self._verbs(), statuses, strict=True):
            yield _check_status(name, endpoint.url(verb), status)

    def _verbs(self) -> list[tuple[str, str]]:
        extender = self.extender
        named = (
            ("filterVerb", extender.filter_verb),
            ("prioritizeVerb", extender.prioritize_verb),
            ("preemptVerb", extender.preempt_verb),
            ("bindVerb", extender.bind_verb),
        )
        return [(name, verb) for name, verb in named if verb]

    def _skipped(self, reason: str) -> Iterator[Check]:
        for name, _ in self._verbs():
            yield Check(name, CheckStatus.SKIPPED, f"not checked, as {reason}")

    def _check_tls(self, endpoint: ExtenderEndpoint) -> Check:
        context = endpoint.ssl_context()
        if context is None:
            return Check("TLS", CheckStatus.OK, "plain HTTP")
        if context.verify_mode is ssl.CERT_NONE:
            advice = "an impostor could answer; give tlsConfig.caFile"
            return Check("TLS", CheckStatus.WARNING, "its certificate is not verified", advice)
        tls = self.extender.tls_config or ExtenderTLSConfig()
        trusted = "caData" if tls.ca_data else tls.ca_file or "the system's CAs"
        parts = urlsplit(self.extender.url_prefix)
        return check_certificate(
            parts.hostname or "", parts.port or 443, context, trusted, endpoint.timeout, tls.server_name
        )


async def _statuses(endpoint: ExtenderEndpoint, verbs: Sequence[str]) -> list[int | ExtenderError]:
    async def status(verb: str) -> int | ExtenderError:
        try:
            return await endpoint.status(verb)
        except ExtenderError as error:
            return error

    try:
        return await asyncio.gather(*map(status, verbs))
    finally:
        await endpoint.close()


def _check_status(name: str, url: str, status: int | ExtenderError) -> Check:
    if isinstance(status, ExtenderError):
        return Check(name, CheckStatus.FAILED, str(status), "look at the extender's log")
    finding = f"{url}: GET is answered with {status}"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return Check(name, CheckStatus.FAILED, finding, _NO_CREDENTIALS)
    if 300 <= status < 400:
        return Check(name, CheckStatus.FAILED, finding, "redirects are not followed: give the address they lead to")
    if status == HTTPStatus.NOT_FOUND:
        return Check(name, CheckStatus.WARNING, finding, _POST_ONLY)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Check(name, CheckStatus.WARNING, finding, "look at the extender's log")
    return Check(name, CheckStatus.OK, finding)
