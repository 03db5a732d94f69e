"""The checks of `preflight`: from the network up to whether every node has a load that is young enough."""

from __future__ import annotations

import datetime
import enum
import math
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

from scheduler.framework import LoadReading
from scheduler.load import (
    KnownNode,
    LoadError,
    LoadRefused,
    LoadSettings,
    LoadSource,
    MetricsServerSource,
    PrometheusSource,
    match_nodes,
    nodes_by_address,
)
from scheduler.load.session import tls_advice
from secondary_scheduler.cli.preflight import series

_SOON_DAYS = 14
_SHOWN = 3


class Status(enum.StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the result."""

    name: str
    status: Status
    found: str
    advice: str = ""

    def to_dict(self) -> dict[str, str]:
        """As JSON-ready data."""
        return asdict(self)


_GATES = ("reachable", "TLS", "token", "answers", "labels")
"""Checks without which the later ones would only say the same again."""
NAMES = ("reachable", "TLS", "token", "answers", "labels", "nodes", "ages", "values")


class Examination:
    """Checks one source against the cluster's nodes.

    `counted` are the names of those that must have a load. `needed` are the figures (`cpu_average` …) that the enabled
    plugins read; without the others they can do.
    """

    def __init__(
        self,
        settings: LoadSettings,
        source: LoadSource,
        nodes: Sequence[KnownNode],
        counted: frozenset[str],
        needed: frozenset[str],
    ) -> None:
        self._settings, self._source = settings, source
        self._nodes, self._counted, self._needed = nodes, counted, needed

    def run(self) -> Iterator[Check]:
        """Yield the checks in order; what cannot be checked after a failure is skipped."""
        done: list[str] = []
        for check in self._run():
            done.append(check.name)
            yield check
            if check.status is Status.FAILED and check.name in _GATES:
                for name in NAMES[NAMES.index(check.name) + 1 :]:
                    yield Check(name, Status.SKIPPED, f"not reached: {check.name} failed")
                return

    def _run(self) -> Iterator[Check]:
        if self._settings.address:
            yield self._reachable()
            yield tls(self._settings)
        if isinstance(self._source, PrometheusSource):
            yield from self._credential(self._source)
            yield from self._queries(self._source)
        try:
            reading = self._source.read()
        except LoadRefused as error:
            yield Check("token", Status.FAILED, str(error), "give the token of an account that may read it")
            return
        except LoadError as error:
            yield Check("answers", Status.FAILED, str(error), self._without_answer())
            return
        if not reading.loads:
            found = "; ".join(reading.problems) or "it has no load of any node"
            yield Check("answers", Status.FAILED, found, self._without_answer())
            return
        yield Check("answers", Status.OK, f"loads of {len(reading.loads)} instances")
        yield from self._of_reading(reading)

    def _without_answer(self) -> str:
        if isinstance(self._source, PrometheusSource):
            return "see the queries above"
        if isinstance(self._source, MetricsServerSource):
            return "install the metrics server (kubectl top nodes must work), or name another source"
        return "look at the log of what runs there: it has to have read its own source once"

    def _reachable(self) -> Check:
        address = self._settings.address
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        try:
            with socket.create_connection((host, port), timeout=self._settings.timeout_seconds):
                return Check("reachable", Status.OK, f"{host}:{port} answers")
        except OSError as error:
            advice = "check the address, and that nothing in between (firewall, NetworkPolicy, VPN) closes the port"
            if host.endswith((".svc", ".svc.cluster.local")):
                advice = (
                    "that name exists inside the cluster only: run preflight in a pod, or forward the port (kubectl"
                    " port-forward) and give --address"
                )
            return Check("reachable", Status.FAILED, f"{host}:{port}: {error.strerror or error}", advice)

    def _credential(self, source: PrometheusSource) -> Iterator[Check]:
        shown = "with a token" if self._settings.token or self._settings.token_file else "without a token"
        try:
            source.ask("vector(1)", time.time())
        except LoadRefused as error:
            advice = (
                "give one with --token-file, or the account's right to read it (on OpenShift cluster-monitoring-view)"
            )
            yield Check("token", Status.FAILED, str(error), advice)
        except LoadError as error:
            yield Check("token", Status.FAILED, str(error), "give the address of a Prometheus or Thanos itself")
        else:
            yield Check("token", Status.OK, f"it answers {shown}")

    def _queries(self, source: PrometheusSource) -> Iterator[Check]:
        for figure in series.FIGURES:
            expression = source.expression(figure)
            needed = figure in self._needed
            name = f"series {series.option(figure)}"
            bad = Status.FAILED if needed else Status.WARNING
            started = time.monotonic()
            try:
                found = source.ask(expression, time.time())
            except LoadError as error:
                yield Check(name, bad, str(error), "correct load.queries in SecondarySchedulerOptions")
                continue
            took = time.monotonic() - started
            if found:
                yield Check(name, Status.OK, f"{len(found)} series in {took:.2f} s")
            else:
                yield Check(name, bad, f"no series for {expression}", series.advice(source, figure))

    def _of_reading(self, reading: LoadReading) -> Iterator[Check]:
        names = nodes_by_address((node.name, node.addresses) for node in self._nodes)
        matched, unmatched = match_nodes(reading, names.get)
        yield self._labels(reading, matched, unmatched)
        yield self._coverage(matched)
        yield self._ages(matched)
        rejected = sum(reading.rejected.values())
        if rejected:
            advice = "NaN, infinite, negative or beyond 100,000 %: look at the rule behind the query"
            yield Check("values", Status.WARNING, f"{rejected} values can be no load: {dict(reading.rejected)}", advice)
        elif reading.problems:
            yield Check("values", Status.WARNING, "; ".join(reading.problems[:2]))
        else:
            yield Check("values", Status.OK, "all can be loads")

    def _labels(self, reading: LoadReading, matched: LoadReading, unmatched: list[str]) -> Check:
        by_name = sum(name in reading.loads for name in matched.loads)
        found = f"{by_name} by name, {len(matched.loads) - by_name} by address, {len(unmatched)} of no node"
        if unmatched:
            found += f" ({_some(unmatched)})"
        if matched.loads:
            return Check("labels", Status.WARNING if unmatched else Status.OK, found)
        advice = "set load.nodeLabel to the label that holds the node's name or address"
        if isinstance(self._source, PrometheusSource):
            better = series.label_with(self._source, {node.name for node in self._nodes})
            advice = f"set load.nodeLabel: {better}" if better else advice
        return Check("labels", Status.FAILED, found, advice)

    def _coverage(self, matched: LoadReading) -> Check:
        measured = {name for name, load in matched.loads.items() if not math.isnan(load.cpu_average)}
        missing = sorted(self._counted - measured)
        total = len(self._counted)
        found = f"{total - len(missing)} of {total} have a CPU load"
        if not missing:
            return Check("nodes", Status.OK, found)
        advice = "is the exporter running there? Nodes that do not matter are left out with --selector"
        return Check("nodes", Status.FAILED, f"{found}; none: {_some(missing)}", advice)

    def _ages(self, matched: LoadReading) -> Check:
        now, limit = time.time(), self._settings.max_age_seconds
        ages = {
            name: now - load.measured_at for name, load in matched.loads.items() if not math.isnan(load.measured_at)
        }
        if not ages:
            advice = "set load.queries.sampleTime to a query for the time of each node's newest sample"
            return Check("ages", Status.WARNING, "unknown: a value counts as old as the answer", advice)
        found = f"newest {min(ages.values()):.0f} s, oldest {max(ages.values()):.0f} s; allowed {limit:g} s"
        old = sorted(ages.keys() - matched.fresh_loads(now, limit).keys())
        if old:
            advice = "are the exporters and the recording rules running? Else raise load.maxAgeSeconds"
            return Check("ages", Status.FAILED, f"{found}; too old: {_some(old)}", advice)
        ahead = -min(ages.values())
        if ahead > 5:
            return Check("ages", Status.WARNING, found, f"the source's clock is {ahead:.0f} s ahead of this one")
        return Check("ages", Status.OK, found)


def tls(settings: LoadSettings) -> Check:
    """Check the source's certificate against the CA that will be used."""
    parts = urlsplit(settings.address)
    if parts.scheme != "https":
        if settings.token or settings.token_file:
            return Check("TLS", Status.WARNING, "plain HTTP", "the token goes over the network in clear; use https")
        return Check("TLS", Status.OK, "plain HTTP, and no token to lose")
    if not settings.verify_tls:
        advice = "whoever can stand in for it gets the token; give caFile instead of insecureSkipVerify"
        return Check("TLS", Status.WARNING, "its certificate is not verified", advice)
    trusted = str(settings.ca_file) if settings.ca_file else "the system's authorities"
    host, port = parts.hostname or "", parts.port or 443
    try:
        context = ssl.create_default_context(cafile=str(settings.ca_file) if settings.ca_file else None)
    except OSError as error:
        return Check("TLS", Status.FAILED, f"{trusted}: {error.strerror or error}", "give --ca-file a file in PEM form")
    try:
        with (
            socket.create_connection((host, port), timeout=settings.timeout_seconds) as raw,
            context.wrap_socket(raw, server_hostname=host) as secure,
        ):
            certificate: Mapping[str, Any] = secure.getpeercert() or {}
            version = secure.version() or "TLS"
    except ssl.SSLCertVerificationError as error:
        cause = error.verify_message
        return Check("TLS", Status.FAILED, f"not verified by {trusted}: {cause}", tls_advice(cause))
    except OSError as error:
        return Check("TLS", Status.FAILED, f"no handshake: {error.strerror or error}", "is this port HTTPS?")
    until = datetime.datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), datetime.UTC)
    days = (until - datetime.datetime.now(datetime.UTC)).days
    found = f"{version}, certificate by {_issuer(certificate)} until {until:%Y-%m-%d}, verified by {trusted}"
    if days < _SOON_DAYS:
        return Check("TLS", Status.WARNING, found, f"it has to be renewed within {days} days")
    return Check("TLS", Status.OK, found)


def _issuer(certificate: Mapping[str, Any]) -> str:
    parts = {name: value for group in certificate.get("issuer", ()) for name, value in group}
    return str(parts.get("commonName") or parts.get("organizationName") or "an unnamed authority")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(sorted(names)[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
