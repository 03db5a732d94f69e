"""One operation of the Pulumi engine on one stack."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pulumi.automation import PulumiCommand, Stack as EngineStack
from pulumi.automation.errors import CommandError as EngineError

from scheduler.kube.client import ClientConfig, KubeError, SyncConnection
from secondary_scheduler.cli.connecting import load_connection, load_text
from secondary_scheduler.cli.fleet.events import EventCollector, one_line, plain_text
from secondary_scheduler.cli.fleet.process import (
    ProcessResult,
    StackPulumiCommand,
    StackWorkspace,
    StopTimeouts,
)
from secondary_scheduler.cli.fleet.project import FleetStack, Project
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


class PulumiEngine:
    """The engine for one stack, within its time."""

    def __init__(
        self,
        pulumi: PulumiCommand,
        project: Project,
        stack: FleetStack,
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


_AGENT = "secondary-scheduler/fleet"


def client_config(kubeconfig: str | None, context: str | None) -> ClientConfig:
    """The connection of the stack's kubeconfig (content or path), or of $KUBECONFIG if the stack has none.

    Raises:
        KubeError: there is no kubeconfig, or it cannot be used.
    """
    if kubeconfig is None:
        return load_connection(None, context)
    # One line of JSON is content, too, and as a name too long to ask for.
    if "\n" not in kubeconfig and not kubeconfig.lstrip().startswith("{") and Path(kubeconfig).expanduser().is_file():
        return load_connection(Path(kubeconfig).expanduser(), context)
    return load_text(kubeconfig, context)


@contextlib.contextmanager
def connection(config: ClientConfig, timeout: float) -> Iterator[SyncConnection]:
    """A connection for one thread; `timeout` (seconds) is that of each wait for the server."""
    opened = SyncConnection(config, timeout=timeout, user_agent=_AGENT)
    try:
        yield opened
    finally:
        opened.close()


def connection_problem(config: ClientConfig, timeout: float) -> str:
    """One line about why the cluster does not answer; empty if it does."""
    try:
        with connection(config, timeout) as cluster:
            cluster.get("/version")
    except KubeError as error:
        return f"{config.server} does not answer: {one_line(str(error)).removeprefix('GET /version: ')}"
    return ""


_MAX_LINE = 400
_NO_SUCH_STACK = re.compile(r"no stack named '([^']+)' found")
_LOCKS = re.compile(r"currently locked by \d+ lock")
_LOCK_HOLDER = re.compile(r"created by (\S+) \(pid (\d+)\) at (\S+)")
_SERVICE_CONFLICT = "Another update is currently in progress"
_PASSPHRASE = re.compile(r"incorrect passphrase|passphrase must be set")
_ERROR = re.compile(r"^\s*(?:error|Error):\s*(.+)$", re.MULTILINE)
_GENERIC = re.compile(r"^(preview|update|refresh|destroy) failed$")
_TRACEBACK = "Traceback (most recent call last)"


def failure_reason(stack: str, event_error: str, printed: str, code: int) -> str:
    """One line that says why the engine failed.

    `event_error` is the first error in its events, `printed` its stderr and stdout, `code` its exit code.
    """
    explanation = _known(stack, printed)
    if explanation:
        return explanation
    if event_error:
        return _shortened(event_error)
    errors = [error for error in _ERROR.findall(plain_text(printed)) if not _GENERIC.match(error.strip())]
    if errors:
        return _shortened(errors[0])
    last = [line for line in plain_text(printed).splitlines() if line.strip()]
    return _shortened(last[-1]) if last else f"pulumi ended with exit code {code} and no output"


def _known(stack: str, printed: str) -> str:
    if _LOCKS.search(printed):
        holder = _LOCK_HOLDER.search(printed)
        by = f" of {holder[1]} (pid {holder[2]}) since {holder[3]}" if holder else ""
        return f"locked by another update{by}; wait for it, or if it is dead: pulumi cancel --stack {stack}"
    if _SERVICE_CONFLICT in printed:
        return f"locked by another update; wait for it, or if it is dead: pulumi cancel --stack {stack}"
    if _NO_SUCH_STACK.search(printed):
        return f"the backend has no such stack; make it: pulumi stack init {stack}"
    if _PASSPHRASE.search(printed):
        return "its secrets cannot be decrypted: PULUMI_CONFIG_PASSPHRASE (or _FILE) is missing or not this stack's"
    return ""


def _shortened(text: str) -> str:
    if _TRACEBACK in text:
        lines = [line for line in plain_text(text).splitlines() if line.strip()]
        return one_line(lines[-1], _MAX_LINE)
    return one_line(text, _MAX_LINE)
