"""The command line of `kube-scheduler`: the flags of upstream's binary that an operator passes, and our own.

Names, defaults and precedence are kube-scheduler 1.34's: leader-election flags override the file when they are
given; `--master` overrides the server of any configuration.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from scheduler import __version__
from scheduler.catalog import METRIC_CREDENTIALS_DIRECTORY, CredentialRules, address_problem, parse_duration
from scheduler.config import KubeSchedulerConfiguration

T = TypeVar("T")
USER_AGENT: Final = f"kube-scheduler/secondary-scheduler-{__version__}"
"""Under which the API server's audit log shows this process; each client adds what it is for."""
_ABOUT_CREDENTIALS = "what the configuration may do with tokens: whoever writes it cannot permit more"
_TLS_VERSIONS = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """Lease settings after file and flags; durations in seconds."""

    enabled: bool
    lease_duration: float
    renew_deadline: float
    retry_period: float
    name: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Options:
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
    always_allow_paths: tuple[str, ...]
    pod_max_in_unschedulable_pods_duration: float
    logging_format: str
    verbosity: int
    allow_default_scheduler_name: bool
    credential_rules: CredentialRules
    """What the Deployment permits; no file can."""

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


def _source_address(text: str) -> str:
    if problem := address_problem(text):
        raise argparse.ArgumentTypeError(problem)
    return text


def _port(text: str) -> int:
    if text.isdigit() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port; write 0 to 65535")


def _comma_separated(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)


def _parser(version: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kube-scheduler",
        description="secondary-scheduler's kube-scheduler: places the pods of its profiles, beside the cluster's own.",
        allow_abbrev=False,
    )
    about = f"secondary-scheduler {version}, a drop-in for kube-scheduler v1.34"
    parser.add_argument("--version", action="version", version=about)
    parser.add_argument("--config", type=Path, help="KubeSchedulerConfiguration file")
    parser.add_argument(
        "--write-config-to", type=Path, metavar="FILE", help="write the completed configuration to this file and exit"
    )
    parser.add_argument("--kubeconfig", type=Path, help="kubeconfig file, ignored with --config, as upstream")
    parser.add_argument("--master", help="address of the API server, overrides every configuration")
    _leader_election_flags(parser.add_argument_group("leader election"))
    _serving_flags(parser.add_argument_group("serving"))
    parser.add_argument("--pod-max-in-unschedulable-pods-duration", type=_duration, default=300.0)
    parser.add_argument("--logging-format", choices=("text", "json"), default="text")
    parser.add_argument("-v", "--v", dest="verbosity", type=int, default=0, help="log level, 0 to 10")
    parser.add_argument(
        "--allow-default-scheduler-name",
        nargs="?",
        const=True,
        default=False,
        type=_boolean,
        help="let a profile be named default-scheduler, at the risk of two schedulers placing the same pods",
    )
    _metric_flags(parser.add_argument_group("credentials of metric sources", _ABOUT_CREDENTIALS))
    return parser


def _metric_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--metric-credentials-directory",
        metavar="DIR",
        default=os.environ.get("METRIC_CREDENTIALS_DIRECTORY") or METRIC_CREDENTIALS_DIRECTORY,
        help="load.tokenFile must be below it (default: %(default)s, or $METRIC_CREDENTIALS_DIRECTORY)",
    )
    group.add_argument(
        "--metric-credentials-address",
        type=_source_address,
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
    group.add_argument("--tls-cert-file", type=Path)
    group.add_argument("--tls-private-key-file", type=Path)
    group.add_argument("--tls-cipher-suites", type=_comma_separated, default=())
    group.add_argument("--tls-min-version", choices=_TLS_VERSIONS, default="VersionTLS12")
    group.add_argument(
        "--authorization-always-allow-paths", type=_comma_separated, default=("/healthz", "/readyz", "/livez")
    )


def parse_options(arguments: Sequence[str], version: str) -> Options:
    """Parse the command line; exits with 2 and one line on bad usage, as every command of ours."""
    parser = _parser(version)
    parsed = parser.parse_args(arguments)
    if (parsed.tls_cert_file is None) != (parsed.tls_private_key_file is None):
        parser.error("--tls-cert-file and --tls-private-key-file go together; give both or neither")
    if parsed.metric_service_account_token and not parsed.metric_credentials_address:
        parser.error("--metric-service-account-token needs --metric-credentials-address, the only place it is sent to")
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
        always_allow_paths=parsed.authorization_always_allow_paths,
        pod_max_in_unschedulable_pods_duration=parsed.pod_max_in_unschedulable_pods_duration,
        logging_format=parsed.logging_format,
        verbosity=parsed.verbosity,
        allow_default_scheduler_name=parsed.allow_default_scheduler_name,
        credential_rules=CredentialRules(
            parsed.metric_credentials_directory,
            parsed.metric_credentials_address,
            parsed.metric_service_account_token,
            parsed.allow_insecure_metric_credentials,
        ),
    )
