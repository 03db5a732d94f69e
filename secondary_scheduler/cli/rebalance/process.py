"""`secondary-scheduler rebalance run`: the rebalancer as a process of this machine, or of a pod."""

from __future__ import annotations

import contextlib
import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode, printable
from secondary_scheduler.cli.kubeoptions import ContextOption, KubeconfigOption
from secondary_scheduler.cli.output import say
from secondary_scheduler.cli.typed import require_file
from secondary_scheduler.importing import importing

if TYPE_CHECKING:
    from secondary_scheduler.rebalancer.options import RebalancerOptions


class ModeChoice(enum.StrEnum):
    """What becomes of a plan."""

    OFF = "Off"
    PREDICTIVE = "Predictive"
    AUTOMATIC = "Automatic"


_DEFAULT_NAME = "secondary-scheduler-rebalancer"
_DEFAULT_SCHEDULER = "openshift-secondary-scheduler-operator/secondary-scheduler"


def run(
    config: Annotated[
        Path, typer.Option("--config", help="KubeSchedulerConfiguration, ConfigMap or stack file of the scheduler.")
    ],
    mode: Annotated[
        ModeChoice,
        typer.Option("--mode", help="Off: do nothing. Predictive: evict with dryRun. Automatic: evict."),
    ] = ModeChoice.OFF,
    settings: Annotated[
        Path | None, typer.Option("--settings", help="YAML file with thresholds, limits and the rest.")
    ] = None,
    scheduler: Annotated[
        str, typer.Option("--scheduler", metavar="NAMESPACE/NAME", help="Deployment of the scheduler.")
    ] = _DEFAULT_SCHEDULER,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Where its Lease and status are (default: the connection's)."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of Lease and status.")] = _DEFAULT_NAME,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    bind_address: Annotated[
        str, typer.Option("--bind-address", metavar="IP", help="Address of /healthz, /readyz and /metrics.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of health; 0: any free one.")] = 8080,
    metrics_port: Annotated[
        int, typer.Option("--metrics-port", min=0, max=65535, help="Port of /metrics, over HTTPS; 0: any free one.")
    ] = 8443,
    allow_insecure: Annotated[
        bool,
        typer.Option(
            "--allow-insecure-metric-credentials",
            help="Send the load source's token over HTTP too, and to a server whose certificate is not verified.",
        ),
    ] = False,
    verbosity: Annotated[int, typer.Option("-v", help="4 and more: debug lines.")] = 2,
) -> None:
    """Move pods off overloaded nodes, round after round, until a signal.

    It watches the cluster, reads the load source of the configuration, and makes the plan of `rebalance plan` in each
    interval. Only the process that holds its Lease evicts. In mode Predictive the API server is asked with dryRun, and
    nothing changes. Status and memory are in a ConfigMap. The log is JSON, on stderr.
    """
    for option, file in (("--config", config), ("--settings", settings)):
        require_file(file, option)
    with importing():
        from scheduler.catalog import CredentialRules
        from secondary_scheduler.rebalancer.options import RebalancerOptions, place_of
        from secondary_scheduler.rebalancer.status import Mode
    try:
        place = place_of(scheduler)
    except ValueError as error:
        raise CommandError(f"--scheduler: {error}", ExitCode.USAGE) from None
    options = RebalancerOptions(
        config=config,
        mode=Mode(mode.value),
        settings=settings,
        scheduler=place,
        namespace=namespace,
        name=name,
        bind_address=bind_address,
        port=port,
        metrics_port=metrics_port,
        # Whoever runs the command may name any file; in a pod, the image's command allows mounted credentials only.
        rules=CredentialRules(directory=None, allow_insecure=allow_insecure),
        verbosity=verbosity,
        extract=lambda text: _extracted(config, text),
    )
    code = _run(options, kubeconfig, context)
    if code:
        raise typer.Exit(code)


def _extracted(file: Path, text: str) -> str:
    """The configuration that follows from a stack file, or the text as it is."""
    from scheduler.config import render
    from secondary_scheduler.cli.stackfile import examine_stack, is_stack_file

    if not is_stack_file(file, text):
        return text
    stack = examine_stack(file, text)
    if stack.configuration is None or stack.errors:
        raise CommandError("\n".join(map(str, stack.errors)), ExitCode.INVALID_INPUT)
    return render(stack.configuration.data)


def _run(options: RebalancerOptions, kubeconfig: Path | None, context: str | None) -> int:
    from scheduler.kube.client import ConfigError
    from scheduler.logs import configure_logging
    from secondary_scheduler.cli.connecting import renewed_connection
    from secondary_scheduler.rebalancer.app import run_process

    configure_logging("json", options.verbosity)
    with contextlib.ExitStack() as opened:
        try:
            connection = opened.enter_context(renewed_connection(kubeconfig, context))
        except ConfigError as error:
            raise CommandError(printable(str(error))) from error
        return run_process(options, connection, say)
