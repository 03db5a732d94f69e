"""`secondary-scheduler rebalance`: pods off overloaded nodes, as the scheduler itself would place them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.kubeoptions import ContextOption, FullOutputOption, KubeconfigOption
from secondary_scheduler.cli.loadoptions import (
    OF_A_CLUSTER,
    AllowInsecureOption,
    CaFileOption,
    PrometheusOption,
    TokenFileOption,
    WatcherOption,
    WindowOption,
    load_origin,
)
from secondary_scheduler.cli.output import FullOutputFormat, examples
from secondary_scheduler.cli.rebalance.options import LiveSource, RebalanceOptions
from secondary_scheduler.cli.rebalance.process import run
from secondary_scheduler.cli.snapshotoptions import (
    ConfigOption,
    InstalledPlace,
    LoadOption,
    MoreFilesArgument,
    SchedulerOption,
    SeedOption,
    SnapshotRequest,
)
from secondary_scheduler.cli.typed import moment, require_apart, require_file, require_single_stdin, was_typed
from secondary_scheduler.importing import importing

_PLAN = examples(
    "rebalance plan --config config.yaml --snapshot cluster.json",
    "rebalance plan --config config.yaml --settings rebalance.yaml --snapshot cluster.json --rounds 20 -o wide",
    "rebalance plan --config config.yaml --context prod --prometheus https://prometheus.example.com",
)
_RUN = examples(
    "rebalance run --config config.yaml --mode Predictive",
    "rebalance run --config config.yaml --settings rebalance.yaml --mode Automatic --scheduler kube-apps/scheduler",
)
_OF_A_CLUSTER = (*OF_A_CLUSTER, "assume_scheduler")


def register(parent: typer.Typer) -> None:
    """Add the group `rebalance`."""
    group = typer.Typer(
        help="Plan which pods to move off overloaded nodes, or move them.",
        no_args_is_help=True,
        epilog=examples(
            "rebalance plan --config config.yaml --snapshot cluster.json",
            "rebalance run --config config.yaml --mode Predictive",
        ),
    )
    group.command("plan", epilog=_PLAN)(plan)
    group.command("run", epilog=_RUN)(run)
    parent.add_typer(group, name="rebalance")


def plan(
    call: typer.Context,
    config: ConfigOption = None,
    scheduler: SchedulerOption = None,
    snapshot: Annotated[
        list[str] | None,
        typer.Option(
            "--snapshot",
            help="Kubernetes objects in YAML or JSON; repeatable, - is stdin. Without it, the cluster is read.",
        ),
    ] = None,
    more: MoreFilesArgument = None,
    settings: Annotated[
        Path | None,
        typer.Option("--settings", help="YAML file with thresholds, limits and the rest; without it, the defaults."),
    ] = None,
    load: LoadOption = None,
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds", min=1, max=100, help="Rounds to plan; the load follows the pods, and nothing else changes."
        ),
    ] = 1,
    seed: SeedOption = 0,
    now: Annotated[
        str | None,
        typer.Option(
            "--now",
            help="Time of the plan, RFC 3339 or seconds since 1970 (default: now for a cluster; for a snapshot the end "
            "of the load's window, else the newest time in it).",
        ),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    prometheus: PrometheusOption = None,
    watcher: WatcherOption = None,
    token_file: TokenFileOption = None,
    ca_file: CaFileOption = None,
    allow_insecure: AllowInsecureOption = False,
    window: WindowOption = None,
    assume_scheduler: Annotated[
        bool,
        typer.Option(
            "--assume-scheduler", help="Take the scheduler to be available, with this configuration; do not look."
        ),
    ] = False,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """Show pods to move, where they would go, and why others stay.

    Nothing is evicted or written. Each pod of an overloaded node is decided as the scheduler would decide it, on the
    cluster without this pod; each move sees the ones before it. Exit code 3: there are moves; 0: there are none; 4: a
    file, or an object of the snapshot, is not valid.
    """
    files = [*(snapshot or ()), *(more or ())]
    if files and not snapshot:
        raise CommandError(f"{files[0]}: name the first file of a snapshot with --snapshot", ExitCode.USAGE)
    if files and (typed := was_typed(call, *_OF_A_CLUSTER)):
        raise CommandError(f"--snapshot and {typed} exclude each other: a snapshot is no cluster", ExitCode.USAGE)
    require_apart(call, "config", "scheduler", *(("kubeconfig", "context") if files else ()))
    require_single_stdin([str(config), str(settings), *files, load])
    time = moment(now, "--now") if now is not None else None
    live = None
    if not files:
        require_file(config, "--config")
        origin = load_origin(call, prometheus, watcher, token_file, ca_file, window, allow_insecure)
        live = LiveSource(kubeconfig, context, origin, not assume_scheduler)
    place = InstalledPlace(scheduler, kubeconfig, context, "rebalance")
    request = SnapshotRequest(files, config, load=load, seed=seed, now=time, place=place)
    with importing():
        # Here, not above: it takes longer than all the rest of the command line, and mistakes in it need none of this.
        from secondary_scheduler.cli.rebalance.running import run
    outcome = run(request, RebalanceOptions(settings, live, rounds, output))
    if not outcome.valid:
        raise typer.Exit(ExitCode.INVALID_INPUT)
    if outcome.moves:
        raise typer.Exit(ExitCode.DIFFERENCES)
