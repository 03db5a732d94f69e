"""The operator's flags, with defaults from its pod's environment."""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scheduler import __version__, operand
from scheduler.catalog import OPERAND
from scheduler.connectionlimits import DEFAULT_LIMITS, ConnectionLimits, add_connection_flags, connection_limits
from scheduler.kube.client import ClientConfig
from secondary_scheduler.operator.groups import KINDS

DEFAULT_PORT = 8080
DEFAULT_METRICS_PORT = 8443
LEASE_NAME = "openshift-secondary-scheduler-operator-lock"
"""Upstream's operator takes the same one: there are never two on one instance."""


@dataclass(frozen=True, kw_only=True)
class OperatorOptions:
    """How one operator process runs."""

    namespace: str | None
    """Where the operator's Lease is, and instances are served; None: where this process runs."""
    watch_namespaces: tuple[str, ...] = ()
    """Further namespaces whose instances are served."""
    status_of: tuple[str, ...] = tuple(KINDS)
    """Kinds of scheduler-plugins whose status is kept, where they are installed."""
    secrets: tuple[str, ...] = operand.secret_names(OPERAND)
    """Names of the Secrets of which it is watched whether they exist, in every namespace."""
    kubeconfig: Path | None
    """None: as a pod, or as kubectl would."""
    bind_address: str
    """For health and metrics; the pod's own address by default."""
    port: int
    """Of health; 0 lets the kernel choose."""
    metrics_port: int = DEFAULT_METRICS_PORT
    """Of metrics, over HTTPS; 0 as above."""
    connection_limits: ConnectionLimits = DEFAULT_LIMITS
    """Of each of both ports."""
    verbosity: int
    identity: str | None
    """Who holds the Lease. The pod's name lets a container that was killed take its own Lease back at once."""

    def namespace_of(self, config: ClientConfig) -> str:
        """The namespace, from the flag, the pod or the kubeconfig's context."""
        return self.namespace or config.namespace

    def served(self, config: ClientConfig) -> tuple[str, ...]:
        """All namespaces whose instances are served, each once."""
        return tuple(dict.fromkeys((self.namespace_of(config), *self.watch_namespaces)))


def parse_options(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> OperatorOptions:
    """Read flags, with the pod's environment as their defaults; wrong ones end the process with code 2."""
    parser = argparse.ArgumentParser(
        prog="secondary-scheduler-operator",
        description="Keeps the scheduler that a SecondaryScheduler describes running.",
    )
    parser.add_argument(
        "--namespace", metavar="NAME", help="namespace of the instances (default: POD_NAMESPACE, else the connection's)"
    )
    parser.add_argument(
        "--watch-namespaces",
        metavar="NAME,…",
        type=lambda text: tuple(name for name in text.split(",") if name),
        default=(),
        help="further namespaces whose instances are served; each needs the operator's Role (default: none)",
    )
    parser.add_argument(
        "--status-of",
        metavar="KIND,…",
        type=_kinds,
        default=tuple(KINDS),
        help=f"keep the status of these, where they are installed: {','.join(KINDS)} (default) or none",
    )
    parser.add_argument(
        "--secrets",
        metavar="NAME,…",
        type=lambda text: tuple(name for name in text.split(",") if name),
        default=operand.secret_names(OPERAND),
        help="Secrets that schedulers mount; it is watched whether they exist (default: "
        f"{','.join(operand.secret_names(OPERAND))})",
    )
    parser.add_argument("--kubeconfig", metavar="FILE", type=Path, help="connect with this file (default: as a pod)")
    parser.add_argument(
        "--bind-address", metavar="IP", help="address of /healthz, /readyz and /metrics (default: POD_IP, else all)"
    )
    parser.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, help="port of /healthz and /readyz (default: %(default)s)"
    )
    parser.add_argument(
        "--metrics-port",
        type=_port,
        default=DEFAULT_METRICS_PORT,
        help="port of /metrics, over HTTPS; a client needs RBAC get on the path (default: %(default)s)",
    )
    add_connection_flags(parser)
    parser.add_argument("-v", dest="verbosity", type=int, default=2, metavar="N", help="4 and more: debug lines")
    parser.add_argument("--version", action="version", version=__version__)
    parsed = parser.parse_args(arguments)
    return OperatorOptions(
        namespace=parsed.namespace or environment.get("POD_NAMESPACE") or None,
        watch_namespaces=parsed.watch_namespaces,
        status_of=parsed.status_of,
        secrets=parsed.secrets,
        kubeconfig=parsed.kubeconfig,
        bind_address=parsed.bind_address or environment.get("POD_IP") or "0.0.0.0",  # noqa: S104 -- all, as documented
        port=parsed.port,
        metrics_port=parsed.metrics_port,
        connection_limits=connection_limits(parsed),
        verbosity=parsed.verbosity,
        identity=environment.get("POD_NAME") or None,
    )


def _kinds(text: str) -> tuple[str, ...]:
    if text == "none":
        return ()
    names = tuple(name for name in text.split(",") if name)
    unknown = [name for name in names if name not in KINDS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"not known: {', '.join(unknown) or 'nothing'}; {', '.join(KINDS)} or none")
    return names


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError("not between 0 and 65535")
    return port
