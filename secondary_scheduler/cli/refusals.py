"""How every command says that the API server refused it: with the right that is missing, as RBAC calls it."""

from __future__ import annotations

from scheduler.kube.client import Forbidden, KubeError, Unauthorized
from secondary_scheduler.cli.errors import CommandError, printable


def refusal(error: KubeError, server: str) -> CommandError:
    """Return the error that ends a command; `server` is the address of the API server."""
    return CommandError(printable(f"{server}: {explained(error)}"))


def explained(error: KubeError) -> str:
    """Return what is wrong and what to do."""
    if isinstance(error, Forbidden):
        return f"this user needs to {error.right}"
    if isinstance(error, Unauthorized):
        return "the API server does not know this user (401); log in again, or name another --context or --kubeconfig"
    return str(error)
