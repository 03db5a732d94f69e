"""`secondary-scheduler load-watcher`: the nodes' load for other clients, in the form that load-watcher serves."""

from __future__ import annotations

import asyncio
import enum
import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode

if TYPE_CHECKING:
    from scheduler.kube.client import ClientConfig
    from scheduler.load import LoadSettings

DEFAULT_LISTEN = "127.0.0.1:2020"


class Provider(enum.StrEnum):
    """Where the load comes from."""

    PROMETHEUS = "Prometheus"
    METRICS_SERVER = "KubernetesMetricsServer"
    SIGNALFX = "SignalFx"


def register(parent: typer.Typer) -> None:
    """Add the command `load-watcher`."""
    parent.command("load-watcher")(load_watcher)


def load_watcher(
    config: Annotated[
        Path | None,
        typer.Option("--config", help="Take source and load options from this KubeSchedulerConfiguration."),
    ] = None,
    provider: Annotated[
        Provider, typer.Option("--provider", envvar="METRICS_PROVIDER_NAME", help="Without --config: the source.")
    ] = Provider.METRICS_SERVER,
    address: Annotated[
        str, typer.Option("--address", envvar="METRICS_PROVIDER_ADDRESS", help="Its URL.", show_default=False)
    ] = "",
    token_file: Annotated[Path | None, typer.Option("--token-file", help="Bearer token for it.")] = None,
    ca_file: Annotated[Path | None, typer.Option("--ca-file", help="Certificate authority of its certificate.")] = None,
    window: Annotated[str, typer.Option("--window", help="Averaging window, as in PromQL.")] = "15m",
    refresh_seconds: Annotated[int, typer.Option("--refresh-seconds", min=1, help="Pause between reads.")] = 30,
    max_age_seconds: Annotated[int, typer.Option("--max-age-seconds", min=1, help="Older load is not served.")] = 300,
    node_label: Annotated[str, typer.Option("--node-label", help="Label of the series that names the node.")] = (
        "instance"
    ),
    kubeconfig: Annotated[
        Path | None,
        typer.Option("--kubeconfig", envvar="KUBE_CONFIG", help="Connection by which addresses become node names."),
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig.")] = None,
    no_cluster: Annotated[
        bool, typer.Option("--no-cluster", help="Take the nodes' names as the source has them, and ask no cluster.")
    ] = False,
    listen: Annotated[str, typer.Option("--listen", help="Address and port to serve on.")] = DEFAULT_LISTEN,
    auth_token_file: Annotated[
        Path | None, typer.Option("--auth-token-file", help="Clients must show the bearer token in this file.")
    ] = None,
    token_review: Annotated[
        bool,
        typer.Option(
            "--token-review", help="Clients must show a token of the cluster whose owner may get /watcher (RBAC)."
        ),
    ] = False,
    client_ca_file: Annotated[
        Path | None, typer.Option("--client-ca-file", help="Clients must show a certificate of this authority.")
    ] = None,
    tls_cert_file: Annotated[Path | None, typer.Option("--tls-cert-file", help="Serve over TLS with this.")] = None,
    tls_private_key_file: Annotated[Path | None, typer.Option("--tls-private-key-file", help="Its key.")] = None,
) -> None:
    """Serve the nodes' load at /watcher until it is told to stop.

    Addresses of nodes become their names where the cluster can be asked, and load that is too old is left out. Beyond
    loopback it serves only over TLS and to clients that prove who they are.
    """
    host, port = listen_address(listen)
    guarded = auth_token_file is not None or client_ca_file is not None or token_review
    _refuse_open_doors(host, listen, guarded=guarded, tls=tls_cert_file is not None)
    if (tls_cert_file is None) != (tls_private_key_file is None):
        raise CommandError("--tls-cert-file and --tls-private-key-file belong together", ExitCode.USAGE)
    if client_ca_file is not None and tls_cert_file is None:
        raise CommandError("--client-ca-file needs --tls-cert-file: certificates are shown over TLS", ExitCode.USAGE)
    # Here, not above: reading them takes longer than all the rest of the command line.
    from scheduler.kube.client import KubeError
    from scheduler.load import LoadSettings
    from secondary_scheduler.cli.loadwatcher.serving import Access, Listen, WatcherService

    if config is not None:
        key, settings = _configured(config)
    else:
        settings = LoadSettings(
            address=address,
            token_file=token_file,
            ca_file=ca_file,
            window=_window(window),
            refresh_seconds=refresh_seconds,
            max_age_seconds=max_age_seconds,
            node_label=node_label,
        )
        key, settings = _given(provider, settings)
    needed = token_review or key.startswith(Provider.METRICS_SERVER)
    if no_cluster and needed:
        raise CommandError("--no-cluster: the metrics server and --token-review are of a cluster", ExitCode.USAGE)
    api = None if no_cluster else _connection(kubeconfig, context, needed=needed)
    access = Access(auth_token_file, token_review, client_ca_file, tls_cert_file, tls_private_key_file)
    try:
        service = WatcherService(key, settings, api, access)
        asyncio.run(service.run(Listen(host, port), lambda text: typer.echo(text, err=True)))
    except KubeError as error:
        raise CommandError(str(error)) from error


def listen_address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT` or `[IPV6]:PORT`.

    Raises:
        CommandError: it is none.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise CommandError(f"--listen {text}: write an address and a port, such as {DEFAULT_LISTEN}", ExitCode.USAGE)
    return host or "0.0.0.0", int(port)  # noqa: S104 # what the user asked for, and guarded below


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refuse_open_doors(host: str, listen: str, *, guarded: bool, tls: bool) -> None:
    if is_loopback(host):
        return
    if not guarded:
        raise CommandError(
            f"--listen {listen}: others could reach it and read every node's load; give --auth-token-file,"
            " --token-review or --client-ca-file, or listen on 127.0.0.1",
            ExitCode.USAGE,
        )
    if not tls:
        raise CommandError(
            f"--listen {listen}: tokens would go over the network in clear; give --tls-cert-file and"
            " --tls-private-key-file, or listen on 127.0.0.1",
            ExitCode.USAGE,
        )


def _given(provider: Provider, settings: LoadSettings) -> tuple[str, LoadSettings]:
    import os
    from dataclasses import replace

    from scheduler.load import DEFAULT_ADDRESSES

    if provider is Provider.METRICS_SERVER:
        return f"{provider}:", settings
    address = settings.address or DEFAULT_ADDRESSES[provider]
    if not address.startswith(("http://", "https://")):
        raise CommandError(f"--address {address}: is no URL: it starts with http:// or https://", ExitCode.USAGE)
    settings = replace(settings, address=address)
    if provider is Provider.SIGNALFX:
        settings = replace(
            settings,
            credential_header="X-SF-Token",
            host_suffix=os.environ.get("SIGNALFX_HOST_NAME_SUFFIX", ""),
            cluster=os.environ.get("SIGNALFX_CLUSTER_NAME", ""),
        )
    return f"{provider}:{address}", settings


def _configured(file: Path) -> tuple[str, LoadSettings]:
    from scheduler.load import configured_sources
    from secondary_scheduler.cli.reading import read_configuration

    configuration = read_configuration(file)
    wanted, _ = configured_sources(configuration.profiles)
    sources = {key: settings for key, settings in wanted.items() if not key.startswith("watcher:")}
    if len(sources) != 1:
        found = ", ".join(sources) or "none"
        raise CommandError(
            f"{file}: to serve one source the configuration must have one, apart from load-watchers (it has: {found});"
            " name it with --provider and --address instead",
            ExitCode.INVALID_INPUT,
        )
    return next(iter(sources.items()))


def _window(text: str) -> str:
    from scheduler.catalog import LoadOptions

    for _, message in LoadOptions(window=text).check():
        raise CommandError(f"--window: {message}", ExitCode.USAGE)
    return text


def _connection(kubeconfig: Path | None, context: str | None, *, needed: bool) -> ClientConfig | None:
    from scheduler.kube.client import ClientConfig, ConfigError

    try:
        return ClientConfig.load(kubeconfig, context)
    except ConfigError as error:
        if needed or kubeconfig is not None or context is not None:
            raise CommandError(str(error)) from error
        return None
