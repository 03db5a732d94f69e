"""The options of kubectl, for the commands that ask a cluster; `connecting` does what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
AllNamespacesOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
