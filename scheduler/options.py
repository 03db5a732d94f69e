"""The command line of `kube-scheduler`: the flags of upstream's binary that an operator passes, and our own.

Names, defaults and precedence are kube-scheduler 1.34's: leader-election flags override the file when they are
given; `--master` overrides the server of any configuration.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from scheduler import __version__
from scheduler.catalog import METRIC_CREDENTIALS_DIRECTORY, CredentialRules, format_duration, parse_duration
from scheduler.config import KubeSchedulerConfiguration
from scheduler.connectionlimits import ConnectionLimits, add_connection_flags, connection_limits
from scheduler.flags import (
    IdleSetting,
    add_idle_flags,
    credential_rules,
    feature_gates,
    idle_gates,
    idle_settings,
    shown_flags,
    source_address,
    with_dashes,
)
from scheduler.gates import SETTABLE_GATES

T = TypeVar("T")
USER_AGENT: Final = f"kube-scheduler/secondary-scheduler-{__version__}"
"""Under which the API server's audit log shows this process; each client adds what it is for."""
_ABOUT_CREDENTIALS = "what the configuration may do with tokens: whoever writes it cannot permit more"
_TLS_VERSIONS = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")


class LeaderElection(Struct, frozen=True):
    """Lease settings after file and flags; durations in seconds."""

    enabled: bool
    lease_duration: float
    renew_deadline: float
    retry_period: float
    name: str
    namespace: str


class Options(Struct, frozen=True):
    """What the command line says. None where a flag was not given and the file decides."""

    config: Path | None
    write_config_to: Path | None
    kubeconfig: Path | None
    master: str | None
    leader_elect: bool | None
    leader_elect_lease_duration: float | None
    leader_elect_renew_deadline: float | None
    leader_elect_retry_period: float | None
    leader_elect_resource_name: str | None
    leader_elect_resource_namespace: str | None
    bind_address: str
    secure_port: int
    tls_cert_file: Path | None
    tls_private_key_file: Path | None
    tls_cipher_suites: tuple[str, ...]
    tls_min_version: str
    permit_port_sharing: bool
    connection_limits: ConnectionLimits
    always_allow_paths: tuple[str, ...]
    authentication_kubeconfig: Path | None
    authorization_kubeconfig: Path | None
    client_ca_file: Path | None
    skip_authentication_lookup: bool
    tolerate_authentication_lookup_failure: bool
    review_memory: ReviewMemory
    disabled_metrics: frozenset[str]
    pod_max_in_unschedulable_pods_duration: float
    connection: Mapping[str, object]
    """Deprecated flags in the words of the file, which they stand for where there is none."""
    feature_gates: Mapping[str, bool]
    idle: tuple[IdleSetting, ...]
    """What was asked for and does not happen."""
    logging_format: str
    verbosity: int
    allow_default_scheduler_name: bool
    extender_recording: str
    """Where answers of extenders are recorded: a file, `-` for standard output, "" for nowhere."""
    decision_history: int
    """Decisions that `/debug/decisions` shows; 0: it is not served."""
    decision_details: float
    """Share of the processor's time for their details, from 0 to 1."""
    credential_rules: CredentialRules
    """What the Deployment permits; no file can."""
    shown: Mapping[str, str]
    """Every flag with its value, as `/flagz` shows them."""

    @property
    def takes_the_cluster_schedulers_place(self) -> bool:
        """Whether this is the command line of the cluster's own kube-scheduler, such as kubeadm's: no file, and its
        Lease. Only one of the two schedules at a time then, so the name default-scheduler is safe."""
        return (
            self.config is None
            and self.leader_elect is True
            and self.leader_elect_resource_name in (None, "kube-scheduler")
            and self.leader_elect_resource_namespace in (None, "kube-system")
        )

    def leader_election(self, model: KubeSchedulerConfiguration) -> LeaderElection:
        """Combine the file's `leaderElection` with the flags; a flag that was given wins."""
        file = model.leader_election

        def prefer_flag(flag: T | None, value: T) -> T:
            return value if flag is None else flag

        return LeaderElection(
            enabled=prefer_flag(self.leader_elect, file.leader_elect),
            lease_duration=prefer_flag(self.leader_elect_lease_duration, file.lease_duration),
            renew_deadline=prefer_flag(self.leader_elect_renew_deadline, file.renew_deadline),
            retry_period=prefer_flag(self.leader_elect_retry_period, file.retry_period),
            name=prefer_flag(self.leader_elect_resource_name, file.resource_name),
            namespace=prefer_flag(self.leader_elect_resource_namespace, file.resource_namespace),
        )


class ReviewMemory(Struct, frozen=True):
    """For how many seconds the API server's word on a token counts: who it is, that it may read, that it may not."""

    authenticated: float = 10.0
    authorized: float = 10.0
    refused: float = 10.0


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "t", "1"):
        return True
    if text.lower() in ("false", "f", "0"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is no boolean; write true or false")


def _port(text: str) -> int:
    if text.isdigit() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port; write 0 to 65535")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 999999")
    return int(text)


def _percent(text: str) -> float:
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0.0 <= percent <= 100.0:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage; write a number from 0 to 100")
    return percent / 100.0


def _paths(text: str) -> tuple[str, ...]:
    paths = _comma_separated(text)
    for path in paths:
        if "*" in path[:-1]:
            raise argparse.ArgumentTypeError(f"only trailing * allowed in {path!r}")
    return tuple(f"/{path.removeprefix('/')}" for path in paths)


def _comma_separated(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)


def _parser(version: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kube-scheduler",
        description="secondary-scheduler's kube-scheduler: places the pods of its profiles, beside the cluster's own.",
        allow_abbrev=False,
    )
    about = f"secondary-scheduler {version}, a drop-in for kube-scheduler v1.34"
    parser.add_argument("--version", action=_Version, version=about)
    parser.add_argument("--config", type=Path, help="KubeSchedulerConfiguration file")
    parser.add_argument(
        "--write-config-to", type=Path, metavar="FILE", help="write the completed configuration to this file and exit"
    )
    parser.add_argument("--kubeconfig", type=Path, help="kubeconfig file, ignored with --config, as upstream")
    parser.add_argument("--master", help="address of the API server, overrides every configuration")
    _leader_election_flags(parser.add_argument_group("leader election"))
    _serving_flags(parser.add_argument_group("serving"))
    _review_flags(parser.add_argument_group("authentication and authorization"))
    _deprecated_flags(parser.add_argument_group("deprecated, ignored with --config, as upstream"))
    parser.add_argument(
        "--feature-gates",
        type=feature_gates,
        action="append",
        default=[],
        metavar="NAME=BOOL,...",
        help=f"what can be chosen: {', '.join(sorted(SETTABLE_GATES))}; others are named in the log",
    )
    parser.add_argument(
        "--disabled-metrics", type=_comma_separated, default=(), metavar="NAME,...", help="metrics not to show"
    )
    parser.add_argument("--pod-max-in-unschedulable-pods-duration", type=_duration, default=300.0)
    parser.add_argument("--logging-format", choices=("text", "json"), default="text")
    parser.add_argument(
        "-v", "--v", dest="verbosity", type=int, default=0, help="0 to 10; 4: rejections by plugin, 6: scores"
    )
    parser.add_argument(
        "--allow-default-scheduler-name",
        nargs="?",
        const=True,
        default=False,
        type=_boolean,
        help="let a profile be named default-scheduler, at the risk of two schedulers placing the same pods",
    )
    parser.add_argument(
        "--extender-recording",
        default="",
        metavar="FILE",
        help="record the answers of extenders for `secondary-scheduler simulate`; - is standard output",
    )
    _history_flags(parser.add_argument_group("history of decisions"))
    _metric_flags(parser.add_argument_group("credentials of metric sources", _ABOUT_CREDENTIALS))
    add_idle_flags(
        parser.add_argument_group("other flags of kube-scheduler", "are accepted and do nothing: docs/flags.md")
    )
    return parser


class _Version(argparse.Action):
    """Shows the version and ends; takes `=raw` and the like, as upstream does."""

    def __init__(self, option_strings: Sequence[str], dest: str, version: str, **_: object) -> None:
        super().__init__(option_strings, dest, nargs="?", const="true", metavar="true", help="show the version")
        self._version = version

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it and end."""
        sys.stdout.write(f"{self._version}\n")
        parser.exit()


def _review_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--authentication-kubeconfig",
        type=Path,
        metavar="FILE",
        help="for TokenReviews; default: as for everything else",
    )
    group.add_argument(
        "--authorization-kubeconfig",
        type=Path,
        metavar="FILE",
        help="for SubjectAccessReviews; default: as for everything else",
    )
    group.add_argument("--client-ca-file", type=Path, metavar="FILE", help="who signs certificates of clients")
    # Where --authentication-kubeconfig is given, and --client-ca-file is not.
    group.add_argument("--authentication-skip-lookup", nargs="?", const=True, default=False, type=_boolean)
    group.add_argument("--authentication-tolerate-lookup-failure", nargs="?", const=True, default=True, type=_boolean)
    for name in (
        "authentication-token-webhook-cache-ttl",
        "authorization-webhook-cache-authorized-ttl",
        "authorization-webhook-cache-unauthorized-ttl",
    ):
        group.add_argument(f"--{name}", type=_duration, default=10.0, metavar="DURATION")


def _deprecated_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--kube-api-qps", type=float, metavar="N", help="clientConnection.qps")
    group.add_argument("--kube-api-burst", type=int, metavar="N", help="clientConnection.burst")
    group.add_argument("--kube-api-content-type", metavar="TYPE", help="clientConnection.contentType; JSON is spoken")
    about = {"profiling": "serve /debug/pprof", "contention-profiling": "has no effect"}
    for name, text in about.items():
        group.add_argument(f"--{name}", nargs="?", const=True, type=_boolean, metavar="BOOL", help=text)


def _history_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--decision-history",
        type=_count,
        default=1000,
        metavar="N",
        help="decisions that /debug/decisions shows, some 8 KiB each; 0 serves none (default: %(default)s)",
    )
    group.add_argument(
        "--decision-details",
        type=_percent,
        default=0.01,
        metavar="PERCENT",
        help="share of one processor's time for the scores in them (default: 1); 0 keeps none",
    )


def _metric_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--metric-credentials-directory",
        metavar="DIR",
        default=os.environ.get("METRIC_CREDENTIALS_DIRECTORY") or METRIC_CREDENTIALS_DIRECTORY,
        help="load.tokenFile must be below it (default: %(default)s, or $METRIC_CREDENTIALS_DIRECTORY)",
    )
    group.add_argument(
        "--metric-credentials-address",
        type=source_address,
        metavar="URL",
        help="send tokens of files to this metric source only",
    )
    group.add_argument(
        "--metric-service-account-token",
        metavar="FILE",
        help="let load.tokenFile be this file with the ServiceAccount's own token, for --metric-credentials-address",
    )
    group.add_argument(
        "--allow-insecure-metric-credentials",
        nargs="?",
        const=True,
        default=False,
        type=_boolean,
        help="send other tokens over HTTP too, and to servers whose certificate is not verified",
    )


def _leader_election_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--leader-elect", nargs="?", const=True, type=_boolean)
    for name in ("lease-duration", "renew-deadline", "retry-period"):
        group.add_argument(f"--leader-elect-{name}", type=_duration, metavar="DURATION")
    group.add_argument("--leader-elect-resource-lock", choices=("leases",))
    group.add_argument("--leader-elect-resource-name", metavar="NAME")
    group.add_argument("--leader-elect-resource-namespace", metavar="NAMESPACE")


def _serving_flags(group: argparse._ArgumentGroup) -> None:
    # Appended twice, the last one wins: a node agent appends the pod's own address.
    group.add_argument("--bind-address", default="0.0.0.0")  # noqa: S104 # upstream's default
    group.add_argument("--secure-port", type=_port, default=10259, help="0 serves nothing")
    # An address is shared anyway: the socket has SO_REUSEADDR.
    group.add_argument("--permit-address-sharing", nargs="?", const=True, default=True, type=_boolean)
    group.add_argument("--permit-port-sharing", nargs="?", const=True, default=False, type=_boolean)
    group.add_argument("--tls-cert-file", type=Path)
    group.add_argument("--tls-private-key-file", type=Path)
    group.add_argument("--tls-cipher-suites", type=_comma_separated, default=())
    group.add_argument("--tls-min-version", choices=_TLS_VERSIONS, default="VersionTLS12")
    group.add_argument("--authorization-always-allow-paths", type=_paths, default=("/healthz", "/readyz", "/livez"))
    add_connection_flags(group)


def _connection(parsed: argparse.Namespace) -> dict[str, object]:
    """Return what the deprecated flags say, as a part of a configuration file."""
    client = {
        "kubeconfig": str(parsed.kubeconfig) if parsed.kubeconfig else None,
        "qps": parsed.kube_api_qps,
        "burst": parsed.kube_api_burst,
        "contentType": parsed.kube_api_content_type,
    }
    document: dict[str, object] = {
        "clientConnection": {key: value for key, value in client.items() if value is not None}
    }
    if parsed.profiling is not None:
        document["enableProfiling"] = parsed.profiling
    if parsed.contention_profiling is not None:
        document["enableContentionProfiling"] = parsed.contention_profiling
    return document


def _idle(parsed: argparse.Namespace, gates: Mapping[str, bool]) -> Iterator[IdleSetting]:
    yield from idle_settings(parsed)
    yield from idle_gates(gates)
    with_file = "with --config, upstream ignores it too: the file decides"
    for name in ("kubeconfig", "kube_api_qps", "kube_api_burst", "kube_api_content_type", "profiling"):
        if parsed.config is not None and getattr(parsed, name) is not None:
            yield IdleSetting(f"--{name.replace('_', '-')}", with_file)
    if parsed.config is None and parsed.kube_api_content_type not in (None, "application/json"):
        yield IdleSetting("--kube-api-content-type", "JSON is spoken with the API server")
    if parsed.contention_profiling:
        yield IdleSetting("--contention-profiling", "Python has no profile of blocking")


def parse_options(arguments: Sequence[str], version: str) -> Options:
    """Parse the command line; exits with 2 and one line on bad usage, as every command of ours."""
    parser = _parser(version)
    parsed = parser.parse_args([*with_dashes(arguments)])
    if (parsed.tls_cert_file is None) != (parsed.tls_private_key_file is None):
        parser.error("--tls-cert-file and --tls-private-key-file go together; give both or neither")
    rules = credential_rules(parser, parsed)
    gates = {name: value for each in parsed.feature_gates for name, value in each.items()}
    return Options(
        config=parsed.config,
        write_config_to=parsed.write_config_to,
        kubeconfig=parsed.kubeconfig,
        master=parsed.master,
        leader_elect=parsed.leader_elect,
        leader_elect_lease_duration=parsed.leader_elect_lease_duration,
        leader_elect_renew_deadline=parsed.leader_elect_renew_deadline,
        leader_elect_retry_period=parsed.leader_elect_retry_period,
        leader_elect_resource_name=parsed.leader_elect_resource_name,
        leader_elect_resource_namespace=parsed.leader_elect_resource_namespace,
        bind_address=parsed.bind_address,
        secure_port=parsed.secure_port,
        tls_cert_file=parsed.tls_cert_file,
        tls_private_key_file=parsed.tls_private_key_file,
        tls_cipher_suites=parsed.tls_cipher_suites,
        tls_min_version=parsed.tls_min_version,
        permit_port_sharing=parsed.permit_port_sharing,
        connection_limits=connection_limits(parsed),
        always_allow_paths=parsed.authorization_always_allow_paths,
        authentication_kubeconfig=parsed.authentication_kubeconfig,
        authorization_kubeconfig=parsed.authorization_kubeconfig,
        client_ca_file=parsed.client_ca_file,
        skip_authentication_lookup=parsed.authentication_skip_lookup,
        tolerate_authentication_lookup_failure=parsed.authentication_tolerate_lookup_failure,
        review_memory=ReviewMemory(
            parsed.authentication_token_webhook_cache_ttl,
            parsed.authorization_webhook_cache_authorized_ttl,
            parsed.authorization_webhook_cache_unauthorized_ttl,
        ),
        disabled_metrics=frozenset(parsed.disabled_metrics),
        pod_max_in_unschedulable_pods_duration=parsed.pod_max_in_unschedulable_pods_duration,
        connection=_connection(parsed),
        feature_gates=gates,
        idle=tuple(_idle(parsed, gates)),
        logging_format=parsed.logging_format,
        verbosity=parsed.verbosity,
        allow_default_scheduler_name=parsed.allow_default_scheduler_name,
        extender_recording=parsed.extender_recording,
        decision_history=parsed.decision_history,
        decision_details=parsed.decision_details,
        credential_rules=rules,
        shown=shown_flags(parser, parsed, {_duration: format_duration, _percent: lambda part: f"{part * 100:g}"}),
    )
