"""`secondary-scheduler ui`: pages that show what the scheduler sees and decides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.kubeoptions import (
    AsServiceAccountOption,
    ContextOption,
    KubeconfigOption,
    SchedulerNamespaceOption,
    SchedulerPodOption,
)
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
from secondary_scheduler.cli.output import examples
from secondary_scheduler.cli.schedulers import PORT
from secondary_scheduler.cli.snapshotoptions import (
    AsSchedulerOption,
    ConfigOption,
    InstalledPlace,
    LoadOption,
    MoreFilesArgument,
    SchedulerOption,
    SeedOption,
)
from secondary_scheduler.cli.typed import require_apart, require_file, require_single_stdin, was_typed
from secondary_scheduler.importing import importing

_EXAMPLES = examples(
    "ui --snapshot cluster.json",
    "ui --snapshot cluster.json --config config.yaml --old before.yaml",
    "ui --recording cluster.recording --config config.yaml",
    "ui --context prod --prometheus https://prometheus.example.com --token-file token",
)


_OF_CLUSTERS = (*OF_A_CLUSTER, "scheduler_namespace", "scheduler_pod", "scheduler_port", "as_service_account")


def register(parent: typer.Typer) -> None:
    """Add the command `ui`."""
    parent.command("ui", epilog=_EXAMPLES)(ui)


def ui(
    call: typer.Context,
    snapshot: Annotated[
        list[str] | None,
        typer.Option(
            "--snapshot",
            help="Kubernetes objects in YAML or JSON; repeatable, - is stdin (default: the cluster of the kubeconfig).",
        ),
    ] = None,
    more: MoreFilesArgument = None,
    recording: Annotated[
        str | None,
        typer.Option(
            "--recording",
            metavar="FILE",
            help="What snapshot --record wrote, in place of --snapshot: it is replayed, and every page is about a "
            "moment of it.",
        ),
    ] = None,
    config: ConfigOption = None,
    scheduler: SchedulerOption = None,
    old: Annotated[
        Path | None, typer.Option("--old", help="Another configuration; the page shows what differs from it.")
    ] = None,
    load: LoadOption = None,
    as_scheduler: AsSchedulerOption = None,
    seed: SeedOption = 0,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    prometheus: PrometheusOption = None,
    watcher: WatcherOption = None,
    token_file: TokenFileOption = None,
    ca_file: CaFileOption = None,
    allow_insecure: AllowInsecureOption = False,
    window: WindowOption = None,
    scheduler_namespace: SchedulerNamespaceOption = None,
    scheduler_pod: SchedulerPodOption = None,
    scheduler_port: Annotated[
        int, typer.Option("--scheduler-port", min=1, max=65535, help="The scheduler's --secure-port.")
    ] = PORT,
    as_service_account: AsServiceAccountOption = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port on 127.0.0.1 (default: one that is free).")
    ] = 0,
) -> None:
    """Show nodes, queue, decisions and configuration in a browser.

    They come from snapshot files, from a recording or, without either, from a running cluster, which is only read. The
    pages are served on 127.0.0.1 until Ctrl-C, to whoever has the address that is printed: it holds a token.
    """
    files = [*(snapshot or ()), *(more or ())]
    require_single_stdin([*files, recording, load])
    require_apart(call, "config", "scheduler")
    if recording is not None:
        if files:
            raise CommandError("--recording and --snapshot exclude each other; leave one out", ExitCode.USAGE)
        require_apart(call, "recording", "load")
    origin = None
    if not files and recording is None:
        require_file(config, "--config")
        require_file(old, "--old")
        origin = load_origin(call, prometheus, watcher, token_file, ca_file, window, allow_insecure)
    else:
        require_apart(call, "config", "kubeconfig", "context")
    if (files or recording is not None) and (typed := was_typed(call, *_OF_CLUSTERS)):
        files_option = "--snapshot" if recording is None else "--recording"
        raise CommandError(f"{typed}: of a running cluster; leave out {files_option}", ExitCode.USAGE)
    with importing():
        # Here, not above: it takes longer than all the rest of the command line, and mistakes in it need none of this.
        from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
        from secondary_scheduler.cli.ui.serving import serve_cluster, serve_recording, serve_snapshot
    place = InstalledPlace(scheduler, kubeconfig, context, "ui", scheduler_namespace)
    request = SnapshotRequest(files, config, old, load, as_scheduler or (), seed, recording=recording, place=place)
    if recording is not None:
        serve_recording(request, port)
        return
    if files:
        serve_snapshot(request, port)
        return
    from secondary_scheduler.cli.ui.live import LiveCluster

    cluster = LiveCluster(
        kubeconfig, context, origin, scheduler_namespace, scheduler_pod, scheduler_port, as_service_account
    )
    serve_cluster(cluster, request, port)
