"""The rebalancer's flags, with defaults from its pod's environment."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scheduler import __version__
from scheduler.catalog import OPERAND, OPERATOR_NAMESPACE, CredentialRules
from scheduler.connectionlimits import DEFAULT_LIMITS, ConnectionLimits, add_connection_flags, connection_limits
from scheduler.flags import add_credential_flags, credential_rules
from secondary_scheduler.rebalancer.status import Mode

DEFAULT_NAME = "secondary-scheduler-rebalancer"
DEFAULT_PORT, DEFAULT_METRICS_PORT = 8080, 8443
DEFAULT_SCHEDULER = f"{OPERATOR_NAMESPACE}/{OPERAND}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancerOptions:
    """How one process runs.

    Attributes:
        config: the scheduler's configuration.
        extract: returns the configuration that stands in the text of that file.
        settings: file with what may be moved; None for the defaults.
        scheduler: namespace and name of the scheduler's Deployment.
        namespace: of the Lease and the status; None: where this process runs.
        name: of both.
        bind_address: for health and metrics.
        port, metrics_port: 0 lets the kernel choose.
        connection_limits: of each of both ports.
        identity: who holds the Lease; None for one of its own.
    """

    config: Path
    mode: Mode = Mode.OFF
    settings: Path | None = None
    scheduler: tuple[str, str] = (OPERATOR_NAMESPACE, OPERAND)
    namespace: str | None = None
    name: str = DEFAULT_NAME
    kubeconfig: Path | None = None
    bind_address: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    metrics_port: int = DEFAULT_METRICS_PORT
    connection_limits: ConnectionLimits = DEFAULT_LIMITS
    rules: CredentialRules = field(default_factory=CredentialRules)
    verbosity: int = 2
    extract: Callable[[str], str] = str
    identity: str | None = None


def parse_options(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> RebalancerOptions:
    """Read flags, with the pod's environment as their defaults; wrong ones end the process with code 2."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    rules = credential_rules(parser, parsed)
    return RebalancerOptions(
        config=parsed.config,
        mode=parsed.mode,
        settings=parsed.settings,
        scheduler=parsed.scheduler,
        namespace=parsed.namespace or environment.get("POD_NAMESPACE") or None,
        name=parsed.name,
        kubeconfig=parsed.kubeconfig,
        bind_address=parsed.bind_address or environment.get("POD_IP") or "0.0.0.0",  # noqa: S104 -- all, as documented
        port=parsed.port,
        metrics_port=parsed.metrics_port,
        connection_limits=connection_limits(parsed),
        rules=rules,
        verbosity=parsed.verbosity,
        identity=environment.get("POD_NAME") or None,
    )


def place_of(text: str) -> tuple[str, str]:
    """Return namespace and name of `NAMESPACE/NAME`.

    Raises:
        ValueError: it is something else.
    """
    namespace, slash, name = text.partition("/")
    if not namespace or not slash or not name or "/" in name:
        raise ValueError(f"{text!r} is not NAMESPACE/NAME, such as {DEFAULT_SCHEDULER}")
    return namespace, name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rebalancer",
        description="Moves pods off overloaded nodes to where the scheduler itself would put them.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"secondary-scheduler {__version__}")
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the scheduler's configuration")
    parser.add_argument(
        "--mode",
        type=Mode,
        choices=list(Mode),
        default=Mode.OFF,
        help="Off (default); Predictive: evictions with dryRun, nothing changes; Automatic",
    )
    parser.add_argument("--settings", type=Path, metavar="FILE", help="YAML with thresholds, limits and the rest")
    parser.add_argument(
        "--scheduler",
        type=_place,
        default=DEFAULT_SCHEDULER,
        metavar="NAMESPACE/NAME",
        help="Deployment of the scheduler (default: %(default)s)",
    )
    parser.add_argument(
        "--namespace",
        metavar="NAME",
        help="of Lease and status (default: POD_NAMESPACE, else the connection's)",
    )
    parser.add_argument("--name", default=DEFAULT_NAME, help="of both (default: %(default)s)")
    parser.add_argument("--kubeconfig", metavar="FILE", type=Path, help="connect with this file (default: as a pod)")
    parser.add_argument(
        "--bind-address", metavar="IP", help="address of /healthz, /readyz and /metrics (default: POD_IP, else all)"
    )
    parser.add_argument("--port", type=_port, default=DEFAULT_PORT, help="of health (default: %(default)s)")
    parser.add_argument(
        "--metrics-port",
        type=_port,
        default=DEFAULT_METRICS_PORT,
        help="of /metrics, over HTTPS; a client needs RBAC get on the path (default: %(default)s)",
    )
    add_connection_flags(parser)
    parser.add_argument("-v", dest="verbosity", type=int, default=2, metavar="N", help="4 and more: debug lines")
    group = parser.add_argument_group(
        "credentials of the load source",
        "what the configuration may do with tokens: whoever writes it cannot permit more",
    )
    add_credential_flags(group)
    return parser


def _place(text: str) -> tuple[str, str]:
    try:
        return place_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError("not between 0 and 65535")
    return port
