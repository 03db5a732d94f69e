"""`secondary-scheduler load-watcher`: serves the nodes' load to other clients, in load-watcher's format."""

from __future__ import annotations

import asyncio
import contextlib
import enum
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode, printable_lines
from secondary_scheduler.cli.examples import examples
from secondary_scheduler.cli.kubeoptions import ContextOption
from secondary_scheduler.cli.reading import require_file
from secondary_scheduler.cli.typed import require_apart, was_typed
from secondary_scheduler.loadwatcher import DEFAULT_LISTEN, WatcherError, is_loopback, listen_address

if TYPE_CHECKING:
    from scheduler.kube.client import ClientConfig
    from scheduler.load import LoadSettings
    from secondary_scheduler.loadwatcher import Listen


class Provider(enum.StrEnum):
    """Where the load comes from."""

    PROMETHEUS = "Prometheus"
    METRICS_SERVER = "KubernetesMetricsServer"
    SIGNALFX = "SignalFx"


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="KubeSchedulerConfiguration, ConfigMap or stack file whose source and load options are taken.",
    ),
]
ProviderOption = Annotated[
    Provider, typer.Option("--provider", envvar="METRICS_PROVIDER_NAME", help="The source, without --config.")
]
AddressOption = Annotated[
    str, typer.Option("--address", envvar="METRICS_PROVIDER_ADDRESS", help="URL of the source.", show_default=False)
]
TokenFileOption = Annotated[Path | None, typer.Option("--token-file", help="File with the source's bearer token.")]
CaFileOption = Annotated[
    Path | None, typer.Option("--ca-file", help="Certificate authority that signed the source's certificate.")
]
AllowInsecureOption = Annotated[
    bool,
    typer.Option(
        "--allow-insecure-metric-credentials",
        help="Send the token over HTTP too, and to a server whose certificate is not verified.",
    ),
]
WindowOption = Annotated[str, typer.Option("--window", help="Averaging window, as a PromQL duration.")]
RefreshSecondsOption = Annotated[int, typer.Option("--refresh-seconds", min=1, help="Pause between reads.")]
MaxAgeSecondsOption = Annotated[int, typer.Option("--max-age-seconds", min=1, help="Do not serve load that is older.")]
NodeLabelOption = Annotated[
    str, typer.Option("--node-label", help="Label of the series that holds the node's name or address.")
]
WatcherKubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        envvar="KUBE_CONFIG",
        help="Kubeconfig of the cluster whose nodes give addresses their names (default: $KUBECONFIG, else "
        "~/.kube/config).",
    ),
]
NoClusterOption = Annotated[
    bool, typer.Option("--no-cluster", help="Keep the source's names and connect to no cluster.")
]
ListenOption = Annotated[str, typer.Option("--listen", help="Address and port to serve on.")]
AuthTokenFileOption = Annotated[
    Path | None, typer.Option("--auth-token-file", help="Clients must send the bearer token in this file.")
]
TokenReviewOption = Annotated[
    bool,
    typer.Option("--token-review", help="Clients must send a token of the cluster whose user may get /watcher (RBAC)."),
]
ClientCaFileOption = Annotated[
    Path | None,
    typer.Option("--client-ca-file", help="Clients must present a certificate signed by this authority."),
]
ServeUnauthenticatedOption = Annotated[
    bool,
    typer.Option(
        "--serve-unauthenticated",
        help="Serve whoever reaches --listen, also without TLS: names of nodes and their utilization.",
    ),
]
TlsCertFileOption = Annotated[Path | None, typer.Option("--tls-cert-file", help="Certificate to serve TLS with.")]
TlsPrivateKeyFileOption = Annotated[Path | None, typer.Option("--tls-private-key-file", help="Key of the certificate.")]


_EXAMPLES = examples(
    "load-watcher",
    "load-watcher --provider Prometheus --address https://prometheus.example.com --token-file token",
    "load-watcher --config config.yaml --listen 127.0.0.1:2021",
)


def register(parent: typer.Typer) -> None:
    """Add the command `load-watcher`."""
    parent.command("load-watcher", epilog=_EXAMPLES)(load_watcher)


def load_watcher(
    call: typer.Context,
    config: ConfigOption = None,
    provider: ProviderOption = Provider.METRICS_SERVER,
    address: AddressOption = "",
    token_file: TokenFileOption = None,
    ca_file: CaFileOption = None,
    allow_insecure: AllowInsecureOption = False,
    window: WindowOption = "15m",
    refresh_seconds: RefreshSecondsOption = 30,
    max_age_seconds: MaxAgeSecondsOption = 300,
    node_label: NodeLabelOption = "instance",
    kubeconfig: WatcherKubeconfigOption = None,
    context: ContextOption = None,
    no_cluster: NoClusterOption = False,
    listen: ListenOption = DEFAULT_LISTEN,
    auth_token_file: AuthTokenFileOption = None,
    token_review: TokenReviewOption = False,
    client_ca_file: ClientCaFileOption = None,
    serve_unauthenticated: ServeUnauthenticatedOption = False,
    tls_cert_file: TlsCertFileOption = None,
    tls_private_key_file: TlsPrivateKeyFileOption = None,
) -> None:
    """Serve the nodes' load at /watcher, as load-watcher does.

    It runs until it is stopped by a signal. With a connection to the cluster, addresses of nodes become their names.
    Load that is too old is left out. On any address other than loopback it serves only TLS, and only clients that
    authenticate, unless --serve-unauthenticated says otherwise.
    """
    address_and_port = _listen_address(listen)
    authenticates = auth_token_file is not None or client_ca_file is not None or token_review
    if serve_unauthenticated and authenticates:
        raise CommandError(
            "--serve-unauthenticated: --auth-token-file, --token-review and --client-ca-file say the opposite; remove"
            " one of the two",
            ExitCode.USAGE,
        )
    if not serve_unauthenticated:
        host = address_and_port.host
        _check_exposure(host, listen, authenticates=authenticates, tls=tls_cert_file is not None)
    if (tls_cert_file is None) != (tls_private_key_file is None):
        raise CommandError("--tls-cert-file and --tls-private-key-file: give both or neither", ExitCode.USAGE)
    if client_ca_file is not None and tls_cert_file is None:
        raise CommandError(
            "--client-ca-file needs --tls-cert-file: clients present certificates over TLS only", ExitCode.USAGE
        )
    _check_source_options(call, config, provider)
    for option, file in (
        ("--token-file", token_file),
        ("--ca-file", ca_file),
        ("--auth-token-file", auth_token_file),
        ("--client-ca-file", client_ca_file),
        ("--tls-cert-file", tls_cert_file),
        ("--tls-private-key-file", tls_private_key_file),
    ):
        require_file(file, option)
    # Imported here: they take longer to import than all the rest of the command line.
    from scheduler.catalog import CredentialRules
    from scheduler.kube.client import KubeError
    from scheduler.load import LoadSettings
    from secondary_scheduler.loadwatcher import Access, WatcherService

    # Whoever runs the command may name any file; a configuration may only name mounted credentials.
    rules = CredentialRules(directory=None, allow_insecure=allow_insecure)
    if config is not None:
        key, settings = _source_of_configuration(config, allow_insecure=allow_insecure)
        if token_file is not None:
            settings = replace(settings, token=None, token_file=token_file, rules=rules)
    else:
        settings = LoadSettings(
            address=address,
            token_file=token_file,
            ca_file=ca_file,
            window=_valid_window(window),
            refresh_seconds=refresh_seconds,
            max_age_seconds=max_age_seconds,
            node_label=node_label,
            rules=rules,
        )
        key, settings = _source_of_options(provider, settings)
    needs_cluster = token_review or key.startswith(Provider.METRICS_SERVER)
    if no_cluster and needs_cluster:
        raise CommandError("--no-cluster: the metrics server and --token-review need a cluster", ExitCode.USAGE)
    access = Access(auth_token_file, token_review, client_ca_file, tls_cert_file, tls_private_key_file)
    with contextlib.ExitStack() as opened:
        api = None if no_cluster else _connection(opened, kubeconfig, context, required=needs_cluster)
        try:
            service = WatcherService(key, settings, api, access)
            asyncio.run(service.run(address_and_port, lambda text: typer.echo(printable_lines(text), err=True)))
        except (KubeError, WatcherError) as error:
            raise CommandError(str(error)) from error


def _listen_address(text: str) -> Listen:
    try:
        return listen_address(text)
    except ValueError as error:
        raise CommandError(f"--listen: {error}", ExitCode.USAGE) from None


def _check_exposure(host: str, listen: str, *, authenticates: bool, tls: bool) -> None:
    """Refuse to serve other machines without authentication and TLS."""
    if is_loopback(host):
        return
    if not authenticates:
        raise CommandError(
            f"--listen {listen}: anybody could read every node's load; give --auth-token-file, --token-review or"
            " --client-ca-file, listen on 127.0.0.1, or allow it with --serve-unauthenticated",
            ExitCode.USAGE,
        )
    if not tls:
        raise CommandError(
            f"--listen {listen}: tokens would cross the network unencrypted; give --tls-cert-file and"
            " --tls-private-key-file, or listen on 127.0.0.1",
            ExitCode.USAGE,
        )


def _check_source_options(call: typer.Context, config: Path | None, provider: Provider) -> None:
    """Refuse options that the source would silently ignore."""
    require_apart(call, "config", "provider", "address", "window", "refresh_seconds", "max_age_seconds", "node_label")
    if config is None and provider is Provider.METRICS_SERVER and (typed := was_typed(call, "address", "token_file")):
        raise CommandError(
            f"{typed}: the metrics server is reached through the API server; name another source with --provider",
            ExitCode.USAGE,
        )


def _source_of_options(provider: Provider, settings: LoadSettings) -> tuple[str, LoadSettings]:
    import os

    from scheduler.catalog import DEFAULT_ADDRESSES, address_problem
    from scheduler.load import signalfx_settings

    if provider is Provider.METRICS_SERVER:
        return f"{provider}:", settings
    address = settings.address or DEFAULT_ADDRESSES[provider]
    if problem := address_problem(address):
        raise CommandError(f"--address: {problem}", ExitCode.USAGE)
    settings = replace(settings, address=address)
    if provider is Provider.SIGNALFX:
        settings = signalfx_settings(settings, os.environ)
    return f"{provider}:{address}", settings


def _source_of_configuration(file: Path, *, allow_insecure: bool) -> tuple[str, LoadSettings]:
    from scheduler.catalog import CredentialRules
    from secondary_scheduler.cli.reading import read_configuration
    from secondary_scheduler.loadwatcher import source_of

    try:
        return source_of(read_configuration(file), CredentialRules(allow_insecure=allow_insecure), str(file))
    except WatcherError as error:
        hint = "give the source with --provider and --address instead"
        raise CommandError(f"{error}; {hint}", ExitCode.INVALID_INPUT) from error


def _valid_window(text: str) -> str:
    from scheduler.catalog import LoadOptions

    for _, message in LoadOptions(window=text).check():
        raise CommandError(f"--window: {message}", ExitCode.USAGE)
    return text


def _connection(
    opened: contextlib.ExitStack, kubeconfig: Path | None, context: str | None, *, required: bool
) -> ClientConfig | None:
    from scheduler.kube.client import ConfigError
    from secondary_scheduler.cli.connecting import renewed_connection

    try:
        return opened.enter_context(renewed_connection(kubeconfig, context))
    except ConfigError as error:
        if required or kubeconfig is not None or context is not None:
            raise CommandError(str(error)) from error
        return None
