"""The options of kubectl, for the commands that ask a cluster; `connecting` does what the first ones say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secondary_scheduler.cli.output import FullOutputFormat

KubeconfigOption = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="Kubeconfig of the cluster (default: $KUBECONFIG, else ~/.kube/config)."),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", help="Context of the kubeconfig (default: its current one).")
]
NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace (default: that of the kubeconfig's context).")
]
OnlyNamespaceOption = Annotated[str | None, typer.Option("--namespace", "-n", help="Only this namespace.")]
AllNamespacesOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
FullOutputOption = Annotated[FullOutputFormat, typer.Option("-o", "--output", help="Form of the output.")]
SchedulerNamespaceOption = Annotated[
    str | None,
    typer.Option("--scheduler-namespace", help="Namespace that the scheduler runs in (default: the operator's)."),
]
SchedulerPodOption = Annotated[
    str | None, typer.Option("--scheduler-pod", help="Pod of the scheduler to ask (default: those that lead).")
]
PortOption = Annotated[int, typer.Option("--port", min=1, max=65535, help="The scheduler's --secure-port.")]
