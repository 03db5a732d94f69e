"""The checks of `preflight`: from the network up to whether every node has a fresh load."""

from __future__ import annotations

import datetime
import enum
import math
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from scheduler.answers import Document
from scheduler.framework import MAX_AHEAD, LoadReading
from scheduler.load import (
    AddressedNode,
    LoadError,
    LoadRefused,
    LoadSettings,
    LoadSource,
    MetricsServerSource,
    PrometheusSource,
    match_nodes,
    nodes_by_address,
    tls_advice,
)
from secondary_scheduler.cli.preflight import series

_WARNING_DAYS = 14
_OTHER_ADDRESS = (
    "that name exists only inside the cluster: run preflight in a pod, or forward the port (kubectl port-forward) and"
    " give --address"
)
_MAX_EXAMPLES = 3


class CheckStatus(enum.StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


class Check(Struct, frozen=True):
    """One line of the result: what was checked, what it showed, and what to do about it."""

    name: str
    status: CheckStatus
    finding: str = field(name="found")
    advice: str = ""


class CheckedSource(Struct, frozen=True):
    """A load source, or what else was checked."""

    source: str
    ok: bool
    checks: list[Check]


class PreflightResult(Document, frozen=True, kw_only=True):
    """What was checked."""

    sources: list[CheckedSource]


_PREREQUISITES = ("reachable", "TLS", "token", "answers", "labels")
"""Where one of these fails, the later checks would only fail for the same reason."""
NAMES = ("reachable", "TLS", "token", "answers", "labels", "nodes", "ages", "values")


class Examination:
    """Checks one source against the cluster's nodes."""

    def __init__(
        self,
        settings: LoadSettings,
        source: LoadSource,
        nodes: Sequence[AddressedNode],
        counted: frozenset[str],
        needed: frozenset[str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the examination of one source.

        Args:
            settings: where and how the source is read.
            source: the source itself; closed by the caller.
            nodes: all nodes of the cluster.
            counted: names of the nodes that must have a load.
            needed: figures such as `cpu_average` that an enabled plugin cannot do without.
            clock: seconds since the epoch.
        """
        self._settings, self._source, self._clock = settings, source, clock
        self._nodes, self._counted, self._needed = nodes, counted, needed

    def run(self) -> Iterator[Check]:
        """Yield the checks in order; what cannot be checked after a failure is skipped."""
        for check in self._run():
            yield check
            if check.status is CheckStatus.FAILED and check.name in _PREREQUISITES:
                for name in NAMES[NAMES.index(check.name) + 1 :]:
                    yield Check(name, CheckStatus.SKIPPED, f"not checked, as {check.name} failed")
                return

    def _run(self) -> Iterator[Check]:
        if self._settings.address:
            settings = self._settings
            yield check_connection(settings.address, settings.timeout_seconds, _OTHER_ADDRESS)
            yield check_tls(self._settings)
        if isinstance(self._source, PrometheusSource):
            yield from self._check_token(self._source)
            yield from self._check_queries(self._source)
        try:
            reading = self._source.read()
        except LoadRefused as error:
            yield Check("token", CheckStatus.FAILED, str(error), "use the token of an account that may read it")
            return
        except LoadError as error:
            yield Check("answers", CheckStatus.FAILED, str(error), self._advice_without_loads())
            return
        if not reading.loads:
            finding = "; ".join(reading.problems) or "it has no load of any node"
            yield Check("answers", CheckStatus.FAILED, finding, self._advice_without_loads())
            return
        yield Check("answers", CheckStatus.OK, f"loads of {len(reading.loads)} instances")
        yield from self._check_reading(reading)

    def _advice_without_loads(self) -> str:
        if isinstance(self._source, PrometheusSource):
            return "see the queries above"
        if isinstance(self._source, MetricsServerSource):
            return "install the metrics server (kubectl top nodes must work), or name another source"
        return "look at its log: it serves loads once it has read its own source"

    def _check_token(self, source: PrometheusSource) -> Iterator[Check]:
        credential = "with a token" if self._settings.token or self._settings.token_file else "without a token"
        try:
            source.ask("vector(1)", self._clock())
        except LoadRefused as error:
            advice = (
                "give a token with --token-file, or grant its account the right to read (on OpenShift"
                " cluster-monitoring-view)"
            )
            yield Check("token", CheckStatus.FAILED, str(error), advice)
        except LoadError as error:
            yield Check("token", CheckStatus.FAILED, str(error), "give the address of Prometheus or Thanos itself")
        else:
            yield Check("token", CheckStatus.OK, f"it answers {credential}")

    def _check_queries(self, source: PrometheusSource) -> Iterator[Check]:
        for figure in series.FIGURES:
            expression = source.expression(figure)
            name = f"series {series.option(figure)}"
            failure = CheckStatus.FAILED if figure in self._needed else CheckStatus.WARNING
            started = time.monotonic()
            try:
                vector = source.ask(expression, self._clock())
            except LoadError as error:
                yield Check(name, failure, str(error), "correct load.queries in SecondarySchedulerOptions")
                continue
            seconds = time.monotonic() - started
            if vector.samples:
                yield Check(name, CheckStatus.OK, f"{len(vector.samples)} series in {seconds:.2f} s")
            else:
                yield Check(name, failure, f"no series for {expression}", series.advice(source, figure))

    def _check_reading(self, reading: LoadReading) -> Iterator[Check]:
        names = nodes_by_address((node.name, node.addresses) for node in self._nodes)
        matched, unmatched = match_nodes(reading, names.get)
        yield self._check_labels(reading, matched, unmatched)
        yield self._check_coverage(matched)
        yield self._check_ages(matched)
        rejected = sum(reading.rejected.values())
        if rejected:
            advice = "NaN, infinite, negative or above 100,000 %: check the recording rule behind the query"
            yield Check(
                "values", CheckStatus.WARNING, f"{rejected} values cannot be a load: {reading.left_out}", advice
            )
        elif reading.problems:
            yield Check("values", CheckStatus.WARNING, "; ".join(reading.problems[:2]))
        else:
            yield Check("values", CheckStatus.OK, "every value can be a load")

    def _check_labels(self, reading: LoadReading, matched: LoadReading, unmatched: list[str]) -> Check:
        by_name = sum(name in reading.loads for name in matched.loads)
        finding = f"{by_name} by name, {len(matched.loads) - by_name} by address, {len(unmatched)} of no node"
        if unmatched:
            finding += f" ({_examples(unmatched)})"
        if matched.loads:
            return Check("labels", CheckStatus.WARNING if unmatched else CheckStatus.OK, finding)
        advice = "set load.nodeLabel to the label that holds the node's name or address"
        if isinstance(self._source, PrometheusSource):
            label = series.label_with(self._source, {node.name for node in self._nodes})
            advice = f"set load.nodeLabel: {label}" if label else advice
        return Check("labels", CheckStatus.FAILED, finding, advice)

    def _check_coverage(self, matched: LoadReading) -> Check:
        measured = {name for name, load in matched.loads.items() if not math.isnan(load.cpu_average)}
        missing = sorted(self._counted - measured)
        total = len(self._counted)
        finding = f"{total - len(missing)} of {total} have a CPU load"
        if not missing:
            return Check("nodes", CheckStatus.OK, finding)
        advice = "is the exporter running there? Leave out nodes that do not matter with --selector"
        return Check("nodes", CheckStatus.FAILED, f"{finding}; none: {_examples(missing)}", advice)

    def _check_ages(self, matched: LoadReading) -> Check:
        now, limit = self._clock(), self._settings.max_age_seconds
        ages = {
            name: now - load.measured_at for name, load in matched.loads.items() if not math.isnan(load.measured_at)
        }
        if not ages:
            advice = "set load.queries.sampleTime to a query for the time of each node's newest sample"
            return Check("ages", CheckStatus.WARNING, "unknown: each value counts as old as the answer", advice)
        finding = f"newest {min(ages.values()):.0f} s, oldest {max(ages.values()):.0f} s; allowed {limit:g} s"
        old = sorted(ages.keys() - matched.fresh_loads(now, limit).keys())
        early = [name for name in old if ages[name] < 0]
        if early:
            finding += f"; more than {MAX_AHEAD:g} s ahead of this machine's clock: {_examples(early)}"
            return Check("ages", CheckStatus.FAILED, finding, "correct the clocks: what is so far ahead is not used")
        if old:
            advice = "are the exporters and the recording rules running? If they are, raise load.maxAgeSeconds"
            return Check("ages", CheckStatus.FAILED, f"{finding}; too old: {_examples(old)}", advice)
        ahead = -min(ages.values())
        if ahead > 5:
            return Check("ages", CheckStatus.WARNING, finding, f"the source's clock is {ahead:.0f} s ahead of this one")
        return Check("ages", CheckStatus.OK, finding)


def check_connection(address: str, timeout: float, advice_for_service: str) -> Check:
    """Check that the host of a URL takes connections.

    Args:
        address: the URL.
        timeout: seconds.
        advice_for_service: what to do where the name is that of a Service.
    """
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((host, port), timeout=timeout):
            return Check("reachable", CheckStatus.OK, f"{host}:{port} answers")
    except OSError as error:
        advice = "check the address, and whether a firewall, a NetworkPolicy or a VPN blocks the port"
        if host.endswith((".svc", ".svc.cluster.local")):
            advice = advice_for_service
        return Check("reachable", CheckStatus.FAILED, f"{host}:{port}: {error.strerror or error}", advice)


def check_tls(settings: LoadSettings) -> Check:
    """Check the source's certificate against the CA that will be used."""
    parts = urlsplit(settings.address)
    refusal = settings.rules.refusal(settings.credential)
    if refusal is not None:
        return Check("TLS", CheckStatus.FAILED, refusal.message, refusal.hint)
    if parts.scheme != "https":
        if settings.token or settings.token_file:
            return Check("TLS", CheckStatus.WARNING, "plain HTTP", "the token is not encrypted; use https")
        return Check("TLS", CheckStatus.OK, "plain HTTP, without a token")
    if not settings.verify_tls:
        advice = "an impostor could answer; give caFile instead of insecureSkipVerify"
        return Check("TLS", CheckStatus.WARNING, "its certificate is not verified", advice)
    trusted = str(settings.ca_file) if settings.ca_file else "the system's CAs"
    host, port = parts.hostname or "", parts.port or 443
    try:
        context = ssl.create_default_context(cafile=str(settings.ca_file) if settings.ca_file else None)
    except OSError as error:
        return Check("TLS", CheckStatus.FAILED, f"{trusted}: {error.strerror or error}", "give --ca-file a PEM file")
    return check_certificate(host, port, context, trusted, settings.timeout_seconds)


def check_certificate(
    host: str, port: int, context: ssl.SSLContext, trusted: str, timeout: float, server_name: str = ""
) -> Check:
    """Check a server's certificate.

    Args:
        host, port: where it serves.
        context: verifies it.
        trusted: whom the context trusts, in words.
        timeout: seconds.
        server_name: the name in the certificate, if it is not the host.
    """
    try:
        with (
            socket.create_connection((host, port), timeout=timeout) as raw,
            context.wrap_socket(raw, server_hostname=server_name or host) as secure,
        ):
            certificate: Mapping[str, Any] = secure.getpeercert() or {}
            version = secure.version() or "TLS"
    except ssl.SSLCertVerificationError as error:
        cause = error.verify_message
        return Check("TLS", CheckStatus.FAILED, f"not verified by {trusted}: {cause}", tls_advice(cause))
    except OSError as error:
        return Check(
            "TLS", CheckStatus.FAILED, f"no handshake: {error.strerror or error}", "does this port serve HTTPS?"
        )
    until = datetime.datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), datetime.UTC)
    days = (until - datetime.datetime.now(datetime.UTC)).days
    finding = f"{version}, certificate by {_issuer(certificate)} until {until:%Y-%m-%d}, verified by {trusted}"
    if days < _WARNING_DAYS:
        return Check("TLS", CheckStatus.WARNING, finding, f"renew it within {days} days")
    return Check("TLS", CheckStatus.OK, finding)


def _issuer(certificate: Mapping[str, Any]) -> str:
    parts = {name: value for group in certificate.get("issuer", ()) for name, value in group}
    return str(parts.get("commonName") or parts.get("organizationName") or "an unnamed authority")


def _examples(names: Sequence[str]) -> str:
    examples = ", ".join(sorted(names)[:_MAX_EXAMPLES])
    return examples if len(names) <= _MAX_EXAMPLES else f"{examples} and {len(names) - _MAX_EXAMPLES} more"
