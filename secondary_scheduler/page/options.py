"""The command line of the page."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scheduler import __version__
from scheduler.catalog import CredentialRules
from scheduler.connectionlimits import ConnectionLimits, add_connection_flags, connection_limits
from scheduler.flags import add_credential_flags, credential_rules
from secondary_scheduler.page.rights import NamespacedName

PROGRAM: Final = "secondary-scheduler-page"
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|[0-9a-f:]+")


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen; "" is every address, port 0 any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PageOptions:
    """What the command line says.

    Attributes:
        config: file with the scheduler's configuration.
        config_map: where it comes from: who may get it sees the configuration.
        lease: the scheduler's Lease, by which it is noticed that the cluster went back; None: it is not.
        hosts: names under which the page is reached.
        listen, probes: of the page, and of `/livez` and `/readyz`.
        limits: of the connections of each of both: in all, as an Ingress has one address for everybody.
        certificate, key: to serve with; None: a self-signed one.
        rules: what may be done with credentials of the load's source.
        kubeconfig: of the cluster; None: the pod's own.
    """

    config: Path
    config_map: NamespacedName
    lease: NamespacedName | None
    hosts: frozenset[str]
    listen: ListenAddress
    probes: ListenAddress
    limits: ConnectionLimits
    certificate: Path | None
    key: Path | None
    rules: CredentialRules
    kubeconfig: Path | None


def parse_options(arguments: Sequence[str]) -> PageOptions:
    """Parse the command line; exits with 2 and one line on bad usage, as every command of ours."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if (parsed.tls_cert_file is None) != (parsed.tls_private_key_file is None):
        parser.error("--tls-cert-file and --tls-private-key-file: give both or none")
    return PageOptions(
        parsed.config,
        parsed.config_map,
        parsed.lease,
        frozenset(parsed.host),
        parsed.listen,
        parsed.probes,
        connection_limits(parsed),
        parsed.tls_cert_file,
        parsed.tls_private_key_file,
        credential_rules(parser, parsed),
        parsed.kubeconfig,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Serves pages about nodes, pods and decisions, to each visitor what the API server lets it read.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"secondary-scheduler {__version__}")
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="the scheduler's KubeSchedulerConfiguration"
    )
    parser.add_argument(
        "--config-map",
        type=_namespaced_name,
        required=True,
        metavar="NAMESPACE/NAME",
        help="where the configuration comes from: who may get this ConfigMap sees the configuration",
    )
    parser.add_argument(
        "--lease",
        type=_namespaced_name,
        metavar="NAMESPACE/NAME",
        help="the scheduler's Lease: it shows that etcd was put back to a copy, and what was read before is dropped",
    )
    parser.add_argument(
        "--host",
        type=_host,
        action="append",
        required=True,
        metavar="NAME",
        help="a name under which the page is reached; may be given several times. Any other is refused",
    )
    parser.add_argument("--listen", type=_address, default=":8443", metavar="HOST:PORT", help="default: %(default)s")
    parser.add_argument(
        "--probes", type=_address, default=":8081", metavar="HOST:PORT", help="of /livez and /readyz; %(default)s"
    )
    add_connection_flags(parser, per_address=False)
    parser.add_argument("--tls-cert-file", type=Path, metavar="FILE", help="without it a self-signed one is made")
    parser.add_argument("--tls-private-key-file", type=Path, metavar="FILE")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="default: the pod's ServiceAccount")
    group = parser.add_argument_group(
        "credentials of the load's source", "what the file may do with tokens: whoever writes it cannot permit more"
    )
    add_credential_flags(group)
    return parser


def _namespaced_name(text: str) -> NamespacedName:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return NamespacedName(namespace, name)


def _host(text: str) -> str:
    lower = text.lower()
    if not _HOST.fullmatch(lower):
        raise argparse.ArgumentTypeError(f"{text!r} is no host name; give it without a port")
    return lower


def _address(text: str) -> ListenAddress:
    # An IPv6 address may come without brackets, as the pod's own does.
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and len(port) < 6 and int(port) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address and a port, such as :8443")
    return ListenAddress(host.removeprefix("[").removesuffix("]"), int(port))
