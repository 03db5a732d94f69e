"""The HTTPS server of the daemon as the command line wants it: port, TLS, who reviews the callers, and when it begins;
and what its probes say."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from scheduler.catalog import KubernetesVersion
from scheduler.gates import is_on
from scheduler.kube.client import ClientConfig, KubeClient, Reflector
from scheduler.kube.lease import LeaseElector
from scheduler.observe import (
    Check,
    ClientAuthorities,
    EndpointSources,
    HealthChecks,
    LoopWatchdog,
    ReviewClient,
    SelfSigned,
    Server,
    SplitReviewClient,
    follow_renewals,
    serving_context,
    validity,
)
from scheduler.options import USER_AGENT, Options

_SERVE_WITHIN_SECONDS, _FIRST_PODS_SECONDS = 2.0, 0.1
log = structlog.get_logger(component="app")


def new_server(
    options: Options,
    answers: EndpointSources,
    show_certificate: Callable[[float, float], None] = lambda *_: None,
    count_drop: Callable[[str], None] = lambda _: None,
) -> Server:
    """Return the server, which has its port but does not answer yet.

    `show_certificate` is told since when and until when the certificate that is served from a file is valid, at the
    start and at each renewal, in the server's thread. `count_drop` gets there the reason of each connection that is not
    served to its end.

    Raises:
        OSError: the address or port cannot be used.
        ValueError: certificate, key, client authorities or a cipher suite cannot be used.
    """
    certificate, key, authorities = options.tls_cert_file, options.tls_private_key_file, answers.authorities

    def new_context() -> ssl.SSLContext:
        return serving_context(
            certificate,
            key,
            minimum=options.tls_min_version,
            suites=options.tls_cipher_suites,
            client_authorities=authorities.pem() if authorities.asked_for else None,
        )

    tls = new_context()

    def show_validity() -> None:
        if certificate is not None and (period := validity(certificate)) is not None:
            show_certificate(*period)

    def make_tls() -> ssl.SSLContext:
        files = [file for file in (certificate, key, authorities.file) if file is not None]
        own = SelfSigned(options.bind_address) if certificate is None else None
        if own is not None:
            own.use(tls)
        show_validity()

        def renew() -> ssl.SSLContext:
            context = new_context()
            if own is not None:
                own.use(context)
            show_validity()
            return context

        served = "serving certificate or client authorities" if authorities.asked_for else "serving certificate"
        report = functools.partial(_report_renewal, served)
        if files or authorities.asked_for:
            follow_renewals(tls, files, renew, report, also=lambda: authorities.looked_up)
        return tls

    server = Server(
        address=options.bind_address,
        port=options.secure_port,
        share_port=options.permit_port_sharing,
        make_tls=make_tls,
        answers=answers,
        limits=options.connection_limits,
        on_drop=count_drop,
        on_serving=lambda: log.info("serving", address=options.bind_address, port=options.secure_port),
    )
    try:
        server.bind()
    except OSError as error:
        address = f"{options.bind_address}:{options.secure_port}"
        raise OSError(f"--bind-address, --secure-port: {address} cannot be used: {error.strerror}") from error
    return server


async def serve_later(server: Server, sync: asyncio.Task[None]) -> None:
    """Answer probes once the first pods are placed: what serving imports takes a sixth of a second of the interpreter.
    A start that takes longer than two seconds does not wait for that. Ends only when the server fails.

    Args:
        server: which has its port.
        sync: ends when the caches are filled.
    """
    done, _ = await asyncio.wait([sync], timeout=_SERVE_WITHIN_SECONDS)
    if done:
        await asyncio.sleep(_FIRST_PODS_SECONDS)
    server.start()
    await asyncio.wrap_future(server.ended)


def health_checks(
    elector: LeaseElector | None,
    watchdog: LoopWatchdog,
    reflectors: Mapping[str, Reflector[Any, Any]],
    *,
    synced: Callable[[], bool],
    outdated: Callable[[], str],
    stopping: Callable[[], bool],
) -> HealthChecks:
    """Return what `/healthz`, `/livez` and `/readyz` ask.

    Args:
        elector: None without leader election.
        watchdog: knows whether the event loop is stuck.
        reflectors: by resource; filled later.
        synced: whether the caches are filled and the first load is read.
        outdated: why what is known is from before the cluster went back to an older state; "" where it is not.
        stopping: whether the process ends.
    """
    lease: dict[str, Check] = {"ping": lambda: None}
    if elector:
        lease = {"leaderElection": lambda: None if elector.healthy() else "the Lease was not renewed in time"}
    return HealthChecks(
        healthz=lease,
        livez={"ping": lambda: None, "event-loop": watchdog.check},
        readyz={
            **lease,
            "shutdown": lambda: "shutting down" if stopping() else None,
            "sched-handler-sync": lambda: None if synced() else _unfilled(reflectors),
            "watches": lambda: _refused_watches(reflectors),
            "etcd-restore": lambda: outdated() or None,
        },
    )


def new_authorities(options: Options) -> ClientAuthorities:
    """Return who signs the certificates of clients: as the flags say, or, where a kubeconfig for authentication is
    given, as the cluster publishes them."""
    kubeconfig = options.authentication_kubeconfig

    def new_reader() -> KubeClient:
        config = ClientConfig.load(kubeconfig=kubeconfig, context=None, master=None)
        return KubeClient(config, qps=1, burst=5, user_agent=f"{USER_AGENT}/authentication")

    looks_up = kubeconfig is not None and not options.skip_authentication_lookup
    return ClientAuthorities(
        options.client_ca_file,
        new_reader if looks_up else None,
        tolerant=options.tolerate_authentication_lookup_failure,
    )


def new_review_client(options: Options, default: ClientConfig) -> ReviewClient:
    """Return the client for reviews, of the kubeconfigs that the flags name; called on the serving thread."""

    def client_of(file: Path | None) -> ReviewClient:
        config = default if file is None else ClientConfig.load(kubeconfig=file, context=None, master=None)
        return KubeClient(config, qps=20, burst=40, user_agent="kube-scheduler/reviews")

    authentication, authorization = options.authentication_kubeconfig, options.authorization_kubeconfig
    if authentication == authorization:
        return client_of(authentication)
    return SplitReviewClient(client_of(authentication), client_of(authorization))


def pages_of(options: Options, version: KubernetesVersion) -> tuple[str, Mapping[str, str] | None]:
    """Return what `/statusz` shows as version and what `/flagz` shows: nothing where their feature gates are off."""
    gates = options.feature_gates
    statusz, flagz = (is_on(name, version.minor, gates) for name in ("ComponentStatusz", "ComponentFlagz"))
    return version.name if statusz else "", options.shown if flagz else None


def _unfilled(reflectors: Mapping[str, Reflector[Any, Any]]) -> str:
    waiting = [
        f"{resource} ({reflector.state.error})" if reflector.state.error else resource
        for resource, reflector in reflectors.items()
        if not reflector.synced.is_set()
    ]
    return f"the caches are not filled yet: {', '.join(waiting) or 'the first load is read'}"


def _refused_watches(reflectors: Mapping[str, Reflector[Any, Any]]) -> str | None:
    """Whether the API server refuses a watch that it allowed before: the copy grows old.

    One that it never allowed has no copy, and no other replica would have it.
    """
    refused = [f"{name}: {each.refusal}" for name, each in reflectors.items() if each.refusal and not each.state.unread]
    return "; ".join(refused) or None


def _report_renewal(served: str, problem: str | None) -> None:
    if problem is None:
        log.info(f"{served} renewed")
    else:
        log.warning(f"the renewed {served} cannot be used; the former one stays", reason=problem)
