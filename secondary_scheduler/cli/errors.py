"""Errors that end a command: those that also arise below the command line, an interruption, and how every command says
that the API server refused it: with the right that is missing, as RBAC calls it.

`scheduler.kube` is imported within the functions: mistakes in a call need none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from secondary_scheduler.errors import (
    CommandError as CommandError,
    ExitCode as ExitCode,
    InputError as InputError,
    printable as printable,
    printable_lines as printable_lines,
)

if TYPE_CHECKING:
    from scheduler.kube.client import KubeError


class Interrupted(SystemExit):
    """Ctrl-C, SIGTERM or SIGHUP. Not an Exception, so that only cleanup sees it on its way out. A SystemExit, because
    asyncio logs and drops whatever else a callback of its loop raises, and typer answers a KeyboardInterrupt itself."""

    def __init__(self, text: str = "interrupted; everything unfinished was removed") -> None:
        super().__init__(ExitCode.INTERRUPTED.value)
        self.text = text


def refusal(error: KubeError, server: str) -> CommandError:
    """Return the error that ends a command; `server` is the address of the API server."""
    return CommandError(printable(f"{server}: {explained(error)}"))


def explained(error: KubeError) -> str:
    """Return what is wrong and what to do."""
    from scheduler.kube.client import Forbidden, Unauthorized

    if isinstance(error, Forbidden):
        return f"this user needs to {error.right}"
    if isinstance(error, Unauthorized):
        return "the API server does not know this user (401); log in again, or name another --context or --kubeconfig"
    return str(error)
