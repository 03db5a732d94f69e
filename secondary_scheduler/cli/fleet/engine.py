"""One operation of the Pulumi engine on one stack."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pulumi.automation import PulumiCommand
from pulumi.automation import Stack as EngineStack

from secondary_scheduler.cli.fleet.events import EventCollector, one_line
from secondary_scheduler.cli.fleet.process import ProcessResult, StopTimeouts
from secondary_scheduler.cli.fleet.project import Project, Stack
from secondary_scheduler.cli.fleet.pulumi_command import EngineError, StackPulumiCommand, StackWorkspace
from secondary_scheduler.cli.fleet.reasons import failure_reason
from secondary_scheduler.cli.fleet.results import Operation
from secondary_scheduler.cli.redaction import MASK


@dataclass
class EngineRun:
    """The result of one operation.

    Attributes:
        failure: one line, if it did not succeed.
        cancelled: because the fleet was stopped.
        outputs: of the stack after an update, secret ones masked.
    """

    events: EventCollector
    failure: str = ""
    cancelled: bool = False
    outputs: Mapping[str, Any] = field(default_factory=dict)


class Engine:
    """The engine for one stack, within its time."""

    def __init__(
        self,
        pulumi: PulumiCommand,
        project: Project,
        stack: Stack,
        stopping: threading.Event,
        deadline: float,
        patience: StopTimeouts | None = None,
    ) -> None:
        self._stack = stack
        self._project = project
        self._stopping = stopping
        self._started = time.monotonic()
        self._deadline = deadline
        self._command = StackPulumiCommand(pulumi, stopping, deadline, patience)
        self._engine = self._stack_over(self._command)

    def secrets(self) -> dict[str, str]:
        """The stack's encrypted settings in clear, by key without the project's name.

        Raises:
            EngineError: they cannot be decrypted.
        """
        if not self._stack.has_secrets:
            return {}
        prefix = f"{self._project.name}:"
        settings = self._engine.get_all_config()
        return {key.removeprefix(prefix): value.value for key, value in settings.items() if value.secret}

    def state(self) -> list[Mapping[str, Any]]:
        """The resources of the stack's state; secret values stay encrypted.

        Raises:
            EngineError: the state cannot be read.
        """
        deployment = self._engine.export_stack().deployment or {}
        return list(deployment.get("resources") or ())

    def reason(self, error: EngineError) -> str:
        """One line for an error outside an operation."""
        ending = self._command.ending or ProcessResult()
        return self._stopped(ending) or failure_reason(
            self._stack.name, "", _output_of(ending) or str(error), ending.code
        )

    def run(self, operation: Operation, *, preview_only: bool = False) -> EngineRun:
        """Run the operation; a failure is part of the result."""
        events = EventCollector()
        engine_run = EngineRun(events)
        try:
            engine_run.outputs = self._operate(operation, events, preview_only=preview_only)
        except EngineError as error:
            ending = self._command.ending or ProcessResult()
            engine_run.failure = self._stopped(ending) or failure_reason(
                self._stack.name, events.failure(), _output_of(ending) or str(error), ending.code
            )
            engine_run.cancelled = ending.interrupted and not ending.timed_out
            if ending.interrupted and operation is not Operation.PREVIEW and not preview_only:
                engine_run.failure += self._release(ending, events)
        except (OSError, RuntimeError) as error:
            engine_run.failure = one_line(str(error))
        return engine_run

    def _operate(self, operation: Operation, events: EventCollector, *, preview_only: bool) -> Mapping[str, Any]:
        common: dict[str, Any] = {"on_event": events.event, "color": "never"}
        if operation is Operation.PREVIEW:
            self._engine.preview(**common)
        elif operation is Operation.REFRESH and preview_only:
            self._engine.preview_refresh(**common)
        elif operation is Operation.REFRESH:
            self._engine.refresh(show_secrets=False, **common)
        else:
            result = self._engine.up(show_secrets=False, **common)
            return {name: MASK if output.secret else output.value for name, output in result.outputs.items()}
        return {}

    def _stopped(self, ending: ProcessResult) -> str:
        if ending.timed_out:
            return f"not done after {self._deadline - self._started:.0f} s; it was cancelled (see --timeout)"
        return "cancelled" if ending.interrupted else ""

    def _release(self, ending: ProcessResult, events: EventCollector) -> str:
        """Release the lock of an engine that had to be killed; returns what to add to the failure, usually nothing."""
        cleaning = self._command.for_cleanup()
        engine = self._stack_over(cleaning)
        try:
            locked = self._locked_by(engine, ending.pid)
            # Other backends cannot be inspected. There, an engine that had started held the lock; it released the lock
            # if it was not killed.
            if locked or (locked is None and events.began and ending.code < 0):
                engine.cancel()
        except (EngineError, OSError) as error:
            printed = _output_of(cleaning.ending or ProcessResult()) or str(error)
            reason = failure_reason(self._stack.name, "", printed, 1)
            return f"; its lock may be left: pulumi cancel --stack {self._stack.name} ({reason})"
        return ""

    def _locked_by(self, engine: EngineStack, pid: int) -> bool | None:
        """Whether a process of this machine holds the stack's lock; None if the backend's files are not here."""
        url = urlsplit(engine.workspace.who_am_i().url or "")
        if url.scheme != "file":
            return None
        # `file://~` is the home directory.
        root = Path(unquote(f"{url.netloc}{url.path}")).expanduser()
        for file in (root / ".pulumi" / "locks").rglob("*.json"):
            if file.parent.name != self._stack.name:
                continue
            with contextlib.suppress(OSError, ValueError):
                holder = json.loads(file.read_text())
                if holder.get("pid") == pid and holder.get("hostname") == socket.gethostname():
                    return True
        return False

    def _stack_over(self, command: StackPulumiCommand) -> EngineStack:
        workspace = StackWorkspace(
            work_dir=str(self._project.directory),
            pulumi_command=command,
            env_vars={
                "PULUMI_SKIP_UPDATE_CHECK": os.environ.get("PULUMI_SKIP_UPDATE_CHECK", "1"),
                # A user's own is a --yes, which a refresh that only previews refuses; others get theirs explicitly.
                "PULUMI_SKIP_CONFIRMATIONS": "false",
            },
        )
        return EngineStack.select(self._stack.name, workspace)


def _output_of(ending: ProcessResult) -> str:
    return "\n".join([*ending.stderr, *ending.stdout])
