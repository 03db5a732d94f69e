"""`secondary-scheduler render`: plain manifests of what a stack installs, for `kubectl apply` instead of Pulumi."""

from __future__ import annotations

import enum
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secondary_scheduler.cli import completers
from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.output import examples

if TYPE_CHECKING:
    from secondary_scheduler.cli.render.stack import StackValues

_RECORDER = Path(__file__).parent / "recorder.py"


class ManifestFormat(enum.StrEnum):
    """How manifests are written."""

    YAML = "yaml"
    JSON = "json"


class RenderingFormat(enum.StrEnum):
    """For which tool objects are written."""

    YAML = "yaml"
    KUSTOMIZE = "kustomize"
    HELM = "helm"


_EXAMPLES = examples(
    "render --stack prod",
    "render --stack prod --output-dir deploy",
    "render --stack prod | kubectl diff -f -",
    "render --stack prod --format kustomize --output-dir deploy",
    "render --stack prod --format helm --output-dir chart",
)


def register(parent: typer.Typer) -> None:
    """Add the command `render`."""
    parent.command("render", epilog=_EXAMPLES)(render)


def render(
    stack: Annotated[
        str, typer.Option("--stack", "-s", autocompletion=completers.stacks, help="The stack whose settings are used.")
    ],
    directory: Annotated[
        Path | None,
        typer.Option("--output-dir", metavar="DIR", help="Write one file per object there instead of to stdout."),
    ] = None,
    form: Annotated[
        RenderingFormat,
        typer.Option(
            "--format", help="Plain manifests, a kustomization, or a Helm chart; the last two need --output-dir."
        ),
    ] = RenderingFormat.YAML,
    project: Annotated[
        Path, typer.Option("--project", metavar="DIR", help="Directory of Pulumi.yaml, or one below it.")
    ] = Path(),
    show_secrets: Annotated[
        bool,
        typer.Option("--show-secrets", help="Write Secrets with their values in clear."),
    ] = False,
    output: Annotated[
        ManifestFormat, typer.Option("-o", "--output", help="Form of the manifests.")
    ] = ManifestFormat.YAML,
) -> None:
    """Write the manifests of everything that a stack installs.

    It needs neither a cluster nor Pulumi's engine. They come from the same program as `pulumi up`, in the order in
    which they can be applied. Exit code 4: the stack's settings are not valid. Secrets are left out and mentioned as
    comments.
    """
    from secondary_scheduler.cli.render.chart import chart
    from secondary_scheduler.cli.render.directory import write_directory
    from secondary_scheduler.cli.render.manifests import build, files, kustomization, stream, stream_json
    from secondary_scheduler.cli.render.stack import read_stack

    _check_usage(directory, form, output, show_secrets=show_secrets)
    rendered = build(_record(read_stack(project, stack, decrypt=show_secrets)), show_secrets=show_secrets)
    for manifest in rendered:
        if manifest.left_out:
            typer.echo(f"secondary-scheduler: {manifest.title} is left out: {manifest.left_out}", err=True)
    if directory is None:
        text = stream_json(rendered) if output is ManifestFormat.JSON else stream(rendered, stack)
        typer.echo(text, nl=False)
        return
    make = {RenderingFormat.YAML: files, RenderingFormat.KUSTOMIZE: kustomization, RenderingFormat.HELM: chart}[form]
    written = make(rendered, stack)
    write_directory(written, directory)
    typer.echo(f"{directory}: {len(written)} files", err=True)


def _check_usage(directory: Path | None, form: RenderingFormat, output: ManifestFormat, *, show_secrets: bool) -> None:
    if directory is not None and directory.exists() and not directory.is_dir():
        raise CommandError(f"--output-dir {directory}: is not a directory", ExitCode.USAGE)
    if form is not RenderingFormat.YAML and directory is None:
        raise CommandError(f"--format {form} writes files; name a directory: --output-dir DIR", ExitCode.USAGE)
    if form is RenderingFormat.HELM and show_secrets:
        raise CommandError("--format helm and --show-secrets exclude each other: charts are shared", ExitCode.USAGE)
    if directory is not None and output is ManifestFormat.JSON:
        raise CommandError("--output-dir writes YAML; leave -o json out, or write to stdout", ExitCode.USAGE)


def _record(stack: StackValues) -> list[dict[str, Any]]:
    """Run the program in a process of its own: it is whatever stands in the project, with imports of its own."""
    python = stack.python or Path(sys.executable)
    kubeconfig = f"{stack.project}:kubeconfig"
    request = {
        "root": str(stack.root),
        "project": stack.project,
        "stack": stack.stack,
        "config": {key: value for key, value in stack.values.items() if key != kubeconfig},
        "secretKeys": sorted(stack.secrets - {kubeconfig}),
    }
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [str(python), str(_RECORDER)],
            input=json.dumps(request),
            env=_without_cluster(home),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    if done.returncode:
        raise CommandError(f"the program in {stack.root} failed; see above (it ran with {python})")
    answer: dict[str, Any] = json.loads(done.stdout)
    if "missing" in answer:
        raise CommandError(
            f"the program in {stack.root} needs the Python package {answer['missing']!r}, which {python} does not "
            f"have; run `pulumi install` in {stack.root}"
        )
    if "error" in answer:
        raise CommandError(f"stack {stack.stack} cannot be rendered:\n{answer['error']}", ExitCode.INVALID_INPUT)
    objects: list[dict[str, Any]] = answer["objects"]
    return objects


def _without_cluster(home: str) -> dict[str, str]:
    """An environment that looks like a pod's, so that the program asks for no kubeconfig: kubectl picks the cluster."""
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    return {**environment, "HOME": home, "KUBERNETES_SERVICE_HOST": "rendering.invalid"}
