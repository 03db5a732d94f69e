"""One run of the pulumi command line in a session of its own, so that it is ended as a whole and in order.

A Ctrl-C at the terminal does not reach it. SIGINT cancels it: the engine lets running operations
end, saves its state and releases its lock. A second SIGINT ends it at once; then it is killed with all its children.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pulumi.automation import CommandResult, LocalWorkspace, PulumiCommand
from pulumi.automation.errors import InvalidVersionError, create_command_error

from secondary_scheduler.cli.errors import CommandError

_POLL_SECONDS = 0.1
_READ_SECONDS = 5.0


@dataclass(frozen=True)
class StopTimeouts:
    """How long, in seconds, a run that is to end may take.

    Attributes:
        cancel: to end what it is doing, after the first SIGINT.
        terminate: to end at once, after the second.
    """

    cancel: float = 45.0
    terminate: float = 15.0


@dataclass
class ProcessResult:
    """How a run ended.

    Attributes:
        code: exit code; negative for a signal.
        interrupted: SIGINT was sent to it.
        timed_out: because its time was up.
        pid: it had.
    """

    code: int = 0
    interrupted: bool = False
    timed_out: bool = False
    pid: int = 0
    stdout: list[str] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)


def run(
    argv: Sequence[str],
    *,
    directory: str,
    environment: Mapping[str, str],
    deadline: float,
    stopping: threading.Event,
    patience: StopTimeouts | None = None,
    on_stdout: Callable[[str], object] | None = None,
    on_stderr: Callable[[str], object] | None = None,
) -> ProcessResult:
    """Run to the end, at most until `deadline` (monotonic seconds) or until `stopping` is set, and what ending takes.

    Raises:
        OSError: it cannot be started.
    """
    ending = ProcessResult()
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=directory,
        env=dict(environment),
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    ending.pid = process.pid
    assert process.stdout is not None
    assert process.stderr is not None
    readers = [
        threading.Thread(target=_read, args=(process.stdout, ending.stdout, on_stdout), daemon=True),
        threading.Thread(target=_read, args=(process.stderr, ending.stderr, on_stderr), daemon=True),
    ]
    for reader in readers:
        reader.start()
    try:
        _wait(process, ending, deadline, stopping, patience or StopTimeouts())
    finally:
        if process.poll() is None:
            _kill_session(process.pid)
            process.wait()
        for reader in readers:
            reader.join(_READ_SECONDS)
        if any(reader.is_alive() for reader in readers):
            # Something that outlived the engine holds its pipes.
            _kill_session(process.pid)
            for reader in readers:
                reader.join(_READ_SECONDS)
    ending.code = process.returncode
    return ending


def _wait(
    process: subprocess.Popen[str],
    ending: ProcessResult,
    deadline: float,
    stopping: threading.Event,
    patience: StopTimeouts,
) -> None:
    signalled_at = 0.0
    signals = 0
    while True:
        try:
            process.wait(_POLL_SECONDS)
            return
        except subprocess.TimeoutExpired:
            pass
        now = time.monotonic()
        if not signals:
            ending.timed_out = now >= deadline
            if not ending.timed_out and not stopping.is_set():
                continue
            ending.interrupted = True
        elif now - signalled_at < (patience.cancel if signals == 1 else patience.terminate):
            continue
        if signals == 2:
            _kill_session(process.pid)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGINT)
        signals, signalled_at = signals + 1, now


def _read(stream: IO[str], lines: list[str], callback: Callable[[str], object] | None) -> None:
    with stream:
        for line in stream:
            lines.append(line.rstrip())
            if callback is not None:
                callback(line.rstrip())


def _kill_session(leader: int) -> None:
    """Kill what runs in the session that the process leads; plugins have process groups of their own."""
    for pid in _members(leader):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _members(session: int) -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The command's name may hold spaces and parentheses: count the fields from its end.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            yield int(entry.name)


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
        self.ending = run(
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
