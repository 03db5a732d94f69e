"""The options of kubectl, for the commands that ask a cluster; `connecting` does what the first ones say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from secondary_scheduler.cli import completers
from secondary_scheduler.cli.output import FullOutputFormat

_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


_Names = TypeVar("_Names", str | None, list[str] | None)


def namespace_name(value: _Names) -> _Names:
    """Return the namespace, or the namespaces, that an option names.

    Raises:
        typer.BadParameter: the API server would refuse such a name.
    """
    for name in [value] if isinstance(value, str) else value or ():
        if not re.fullmatch(_LABEL, name):
            raise typer.BadParameter(f"{name!r} cannot be the name of a namespace")
    return value


def _pod_name(value: str | None) -> str | None:
    if value is not None and (len(value) > 253 or not re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", value)):
        raise typer.BadParameter(f"{value!r} cannot be the name of a pod")
    return value


def _account_name(value: str | None) -> str | None:
    if value is not None and not re.fullmatch(rf"({_LABEL}/)?{_LABEL}(\.{_LABEL})*", value):
        raise typer.BadParameter(f"{value!r} is neither NAME nor NAMESPACE/NAME of a ServiceAccount")
    return value


KubeconfigOption = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="Kubeconfig of the cluster (default: $KUBECONFIG, else ~/.kube/config)."),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context", autocompletion=completers.contexts, help="Context of the kubeconfig (default: its current one)."
    ),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        callback=namespace_name,
        autocompletion=completers.namespaces,
        help="Namespace (default: that of the kubeconfig's context).",
    ),
]
OnlyNamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        callback=namespace_name,
        autocompletion=completers.namespaces,
        help="Only this namespace.",
    ),
]
AllNamespacesOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
FullOutputOption = Annotated[FullOutputFormat, typer.Option("-o", "--output", help="Form of the output.")]
SchedulerNamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--scheduler-namespace",
        callback=namespace_name,
        autocompletion=completers.namespaces,
        help="Namespace that the scheduler runs in (default: the operator's).",
    ),
]
SchedulerPodOption = Annotated[
    str | None,
    typer.Option(
        "--scheduler-pod",
        callback=_pod_name,
        autocompletion=completers.scheduler_pods,
        help="Pod of the scheduler to ask (default: those that lead).",
    ),
]
PortOption = Annotated[int, typer.Option("--port", min=1, max=65535, help="The scheduler's --secure-port.")]
AsServiceAccountOption = Annotated[
    str | None,
    typer.Option(
        "--as-service-account",
        metavar="NAME",
        callback=_account_name,
        help="Ask the scheduler as this ServiceAccount (NAME or NAMESPACE/NAME), by a token that is valid for ten "
        "minutes; for a kubeconfig with a client certificate.",
    ),
]
