"""What a shell may complete the value of an option or argument to; typer asks when the shell does, and not before.

A completer never fails: where the cluster does not answer in time, or does not let the user list, there are no
completions.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import typer

_TIMEOUT = 3.0
_LIMIT = 500
_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._]*")
"""What the API server takes as a name. A shell gets nothing else."""


def contexts(incomplete: str) -> list[str]:
    """The contexts of the kubeconfig."""
    from secondary_scheduler.cli.connecting import context_names

    with contextlib.suppress(Exception):
        return sorted(name for name in context_names() if name.startswith(incomplete))
    return []


def stacks(incomplete: str) -> list[str]:
    """The stacks of the project in or above this directory."""
    return sorted(name for name in _stacks() if name.startswith(incomplete))


def namespaces(call: typer.Context, incomplete: str) -> list[str]:
    """The namespaces of the cluster."""
    return names(call, "namespaces", None, incomplete)


def nodes(call: typer.Context, incomplete: str) -> list[str]:
    """The nodes of the cluster."""
    return names(call, "nodes", None, incomplete)


def scheduler_pods(call: typer.Context, incomplete: str) -> list[str]:
    """The pods of the scheduler's namespace."""
    from scheduler.catalog import OPERATOR_NAMESPACE

    return names(call, "pods", call.params.get("scheduler_namespace") or OPERATOR_NAMESPACE, incomplete)


def names(
    call: typer.Context, plural: str, namespace: str | None, incomplete: str, api_version: str = "v1"
) -> list[str]:
    """Names of objects; `namespace`: "" for the context's, None for objects that have none."""
    from scheduler.kube.client import SyncConnection, api_path
    from secondary_scheduler.cli.connecting import load_connection
    from secondary_scheduler.clusterstatus.listing import read_object
    from secondary_scheduler.kubeobjects import part, parts

    if call.params.get("snapshot"):
        return []  # it is about no cluster
    with contextlib.suppress(Exception):
        kubeconfig = call.params.get("kubeconfig")
        config = load_connection(Path(kubeconfig) if kubeconfig else None, call.params.get("context"))
        place = config.namespace if namespace == "" else namespace
        connection = SyncConnection(config, timeout=_TIMEOUT, user_agent="secondary-scheduler/completion")
        with contextlib.closing(connection):
            path = api_path(api_version, plural, namespace=place)
            items = parts(read_object(connection.get(path, {"limit": _LIMIT}), path), "items")
        names = (str(part(item, "metadata").get("name")) for item in items)
        return sorted(name for name in names if name.startswith(incomplete) and _NAME.fullmatch(name))
    return []


def _stacks() -> Iterator[str]:
    start = Path.cwd()
    project = next((path for path in (start, *start.parents) if (path / "Pulumi.yaml").is_file()), None)
    if project is not None:
        for directory in (project, project / "stacks"):
            for file in directory.glob("Pulumi.*.yaml"):
                yield file.name.removeprefix("Pulumi.").removesuffix(".yaml")
