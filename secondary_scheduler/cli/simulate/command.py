"""`secondary-scheduler simulate`: the scheduling core on a snapshot in files, without a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.kubeoptions import AllNamespacesOption, ContextOption, FullOutputOption, KubeconfigOption
from secondary_scheduler.cli.output import FullOutputFormat, examples
from secondary_scheduler.cli.simulate.options import Detail, SimulateOptions
from secondary_scheduler.cli.snapshotoptions import (
    AsSchedulerOption,
    ConfigOption,
    InstalledPlace,
    LoadOption,
    MoreFilesArgument,
    SchedulerOption,
    SeedOption,
    SnapshotRequest,
)
from secondary_scheduler.cli.typed import moment, require_apart, require_single_stdin
from secondary_scheduler.importing import importing

_EXAMPLES = examples(
    "simulate --snapshot cluster.json",
    "simulate --config config.yaml --snapshot cluster.json",
    "simulate --config config.yaml --snapshot cluster.json --pod new-pod.yaml -o wide",
    "simulate --config config.yaml --snapshot cluster.json --as-scheduler default-scheduler -n shop",
    "simulate --config config.yaml --snapshot cluster.json -o json --detail top:5",
)


def register(parent: typer.Typer) -> None:
    """Add the command `simulate`."""
    parent.command("simulate", epilog=_EXAMPLES)(simulate)


def simulate(
    call: typer.Context,
    snapshot: Annotated[
        list[str], typer.Option("--snapshot", help="Kubernetes objects in YAML or JSON; repeatable, - is stdin.")
    ],
    more: MoreFilesArgument = None,
    config: ConfigOption = None,
    scheduler: SchedulerOption = None,
    load: LoadOption = None,
    pod: Annotated[str | None, typer.Option("--pod", help="File with one more pod to place.")] = None,
    seed: SeedOption = 0,
    now: Annotated[
        str | None,
        typer.Option(
            "--now",
            help="Time of the decisions, RFC 3339 or seconds since 1970 (default: the end of the load's window, else "
            "the newest time in the snapshot).",
        ),
    ] = None,
    detail: Annotated[
        str, typer.Option("--detail", help="Nodes shown per pod: full, none, or top:K for the best K.")
    ] = "full",
    preempt: Annotated[
        bool, typer.Option("--preempt", help="Execute preemption: remove the victims and place the pod.")
    ] = False,
    extender_recording: Annotated[
        str | None,
        typer.Option(
            "--extender-recording",
            metavar="FILE",
            help="Answers of extenders that the scheduler recorded (its flag of that name); without it, pods that an "
            "extender is to be asked about are not simulated.",
        ),
    ] = None,
    as_scheduler: AsSchedulerOption = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Show the pods of this namespace only; all are decided.")
    ] = None,
    all_namespaces: AllNamespacesOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """Place the pending pods of a snapshot as the scheduler would.

    Pods come in queue order, and each pod sees the earlier ones placed. Objects that cannot be used are reported on
    stderr; exit code 4 means that one was invalid.
    """
    files = [*snapshot, *(more or ())]
    require_single_stdin([*files, load, pod, extender_recording])
    time = moment(now, "--now") if now is not None else None
    require_apart(call, "namespace", "all_namespaces")
    require_apart(call, "config", "scheduler", "kubeconfig", "context")
    place = InstalledPlace(scheduler, kubeconfig, context)
    request = SnapshotRequest(
        files,
        config,
        load=load,
        as_scheduler=as_scheduler or (),
        seed=seed,
        now=time,
        extender_recording=extender_recording,
        place=place,
    )
    options = SimulateOptions(pod, _detail(detail), preempt, output, namespace)
    with importing():
        # Here, not above: it takes longer than all the rest of the command line, and mistakes in it need none of this.
        from secondary_scheduler.cli.simulate.running import run
    if not run(request, options):
        raise typer.Exit(ExitCode.INVALID_INPUT)


def _detail(text: str) -> Detail:
    if text == "full":
        return "full"
    if text == "none":
        return "none"
    count = text.removeprefix("top:")
    if count != text and count.isascii() and count.isdigit() and int(count[:9]) > 0:
        return int(count[:9])
    raise CommandError(f"--detail {text}: use full, none, or top:K with K of at least 1", ExitCode.USAGE)
