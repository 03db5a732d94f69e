"""`secondary-scheduler ui`: pages that show what the scheduler sees and decides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secondary_scheduler.cli.examples import examples
from secondary_scheduler.cli.importing import importing
from secondary_scheduler.cli.reading import require_single_stdin

_EXAMPLES = examples(
    "ui --snapshot cluster.json",
    "ui --snapshot cluster.json --config config.yaml --old before.yaml",
)


def register(parent: typer.Typer) -> None:
    """Add the command `ui`."""
    parent.command("ui", epilog=_EXAMPLES)(ui)


def ui(
    snapshot: Annotated[
        list[str], typer.Option("--snapshot", help="Kubernetes objects in YAML or JSON; repeatable, - is stdin.")
    ],
    more: Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", help="More files of the snapshot.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="KubeSchedulerConfiguration, ConfigMap or stack file to decide with (default: the default profile of "
            "kube-scheduler).",
        ),
    ] = None,
    old: Annotated[
        Path | None, typer.Option("--old", help="Another configuration; the page shows what differs from it.")
    ] = None,
    load: Annotated[
        str | None, typer.Option("--load", help="Measured load: the JSON that load-watcher serves at /watcher.")
    ] = None,
    as_scheduler: Annotated[
        list[str] | None,
        typer.Option(
            "--as-scheduler",
            metavar="NAME[=PROFILE]",
            help="Decide the pending pods of this other scheduler, too, as those of the profile; repeatable.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the choice among nodes with equal scores.")] = 0,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port on 127.0.0.1 (default: one that is free).")
    ] = 0,
) -> None:
    """Show nodes, queue, decisions and configuration in a browser.

    The pages are served on 127.0.0.1 until Ctrl-C, to whoever has the address that is printed: it holds a token.
    """
    files = [*snapshot, *(more or ())]
    require_single_stdin([*files, load])
    with importing():
        # Here, not above: it takes longer than all the rest of the command line, and mistakes in it need none of this.
        from secondary_scheduler.cli.ui.scenes import SceneRequest
        from secondary_scheduler.cli.ui.serving import serve_snapshot
    serve_snapshot(SceneRequest(files, config, old, load, as_scheduler or (), seed), port)
