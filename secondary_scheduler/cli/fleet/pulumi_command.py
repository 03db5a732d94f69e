"""The pulumi command line as the Automation API runs it: in sessions of its own, with an end to every run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from pulumi.automation import CommandResult, LocalWorkspace, PulumiCommand
from pulumi.automation.errors import CommandError as EngineError
from pulumi.automation.errors import InvalidVersionError, create_command_error

from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.fleet import process
from secondary_scheduler.cli.fleet.process import ProcessResult, StopTimeouts

__all__ = ["EngineError", "StackPulumiCommand", "StackWorkspace", "find_pulumi"]

_CLEANUP_SECONDS = 60.0


class StackPulumiCommand(PulumiCommand):
    """The command for the runs of one stack.

    Attributes:
        ending: how the last run ended; None before the first one.
    """

    def __init__(
        self, pulumi: PulumiCommand, stopping: threading.Event, deadline: float, patience: StopTimeouts | None = None
    ) -> None:
        # Not the base class' own: it would ask the command for its version once more for every stack.
        self.command = pulumi.command
        self.version = pulumi.version
        self.ending: ProcessResult | None = None
        self._stopping = stopping
        self._deadline = deadline
        self._patience = patience

    def for_cleanup(self) -> StackPulumiCommand:
        """The same command for what must still be done when the others are over."""
        return StackPulumiCommand(self, threading.Event(), time.monotonic() + _CLEANUP_SECONDS)

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Callable[[str], Any] | None = None,
        on_error: Callable[[str], Any] | None = None,
    ) -> CommandResult:
        """As the base class, within the stack's time and until the fleet is stopped."""
        arguments = args if "--non-interactive" in args else [*args, "--non-interactive"]
        self.ending = process.run(
            [self.command, *arguments],
            directory=cwd,
            environment={**os.environ, **additional_env, "PULUMI_AUTOMATION_API": "true"},
            deadline=self._deadline,
            stopping=self._stopping,
            patience=self._patience,
            on_stdout=on_output,
            on_stderr=on_error,
        )
        result = CommandResult("\n".join(self.ending.stdout), "\n".join(self.ending.stderr), self.ending.code)
        if self.ending.code != 0:
            raise create_command_error(result)
        return result


class StackWorkspace(LocalWorkspace):
    """The project's directory, without a selected stack.

    Selecting one is kept for the user in PULUMI_HOME: after a fleet command, a plain `pulumi destroy` would meet
    another stack than before. Every run names its stack anyway.
    """

    def select_stack(self, stack_name: str) -> None:
        """Do nothing; the operation itself reports a stack that does not exist."""


def find_pulumi() -> PulumiCommand:
    """Find the pulumi command line.

    Raises:
        CommandError: it is not there, or of a version that the SDK cannot work with.
    """
    try:
        return PulumiCommand()
    except FileNotFoundError:
        raise CommandError(
            "pulumi is not on PATH: see https://www.pulumi.com/docs/install, or for the local cluster: "
            'eval "$(secondary-scheduler cluster env)"'
        ) from None
    except InvalidVersionError as error:
        raise CommandError(f"pulumi: {error}") from None
