"""Running a Pulumi program in a process of its own, so that one run cannot leak into the next."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

BAIL_EXIT_CODE = 32  # the program has already reported the error: the engine adds nothing
_SHIM = Path(__file__).with_name("shim.py")
_KILL_AFTER_SECONDS = 2.0


@dataclass(frozen=True)
class ProgramRun:
    """One run as the engine asks for it. `secret_keys` name the secret entries of `config`, which come decrypted."""

    project: str
    stack: str
    organization: str
    root_directory: str
    working_directory: str
    entry_point: str
    monitor: str
    engine: str
    parallel: int
    dry_run: bool
    config: Mapping[str, str]
    secret_keys: Sequence[str]
    arguments: Sequence[str] = field(default_factory=tuple)

    def command(self, python: str) -> list[str]:
        """The shim's command line; flags are those of the official `pulumi-language-python-exec`."""
        flags = {
            "project": self.project,
            "stack": self.stack,
            "organization": self.organization,
            "root_directory": self.root_directory,
            "pwd": self.working_directory,
            "monitor": self.monitor,
            "engine": self.engine,
            "parallel": str(self.parallel),
            "dry_run": str(self.dry_run).lower(),
        }
        options = [part for name, value in flags.items() for part in (f"--{name}", value)]
        return [python, "-u", str(_SHIM), *options, self.entry_point, *self.arguments]

    def environment(self) -> dict[str, str]:
        """The engine's environment and the configuration, which the SDK reads from these two variables."""
        return {
            **os.environ,
            "PULUMI_CONFIG": json.dumps(dict(self.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(self.secret_keys)),
        }


def interpreter(root_directory: str, options: Mapping[str, object]) -> str:
    """The Python of the project's `virtualenv` option where that environment exists, else our own.

    Pulumi.yaml names an environment that the official `pulumi install` makes; here the checkout's own usually runs us.
    """
    name = options.get("virtualenv")
    if isinstance(name, str) and name:
        candidate = Path(root_directory, name, "bin", "python")
        if candidate.exists():
            return str(candidate)
    return sys.executable


class Programs:
    """The programs that are running, so that all can be ended when the engine goes away."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, run: ProgramRun, python: str) -> int:
        """Run to the end and return the exit code (negative: the signal that ended it)."""
        with self._lock:
            if self._stopped:
                return -signal.SIGTERM
            process = subprocess.Popen(run.command(python), env=run.environment(), stdin=subprocess.DEVNULL)
            self._running.add(process)
        try:
            return process.wait()
        finally:
            with self._lock:
                self._running.discard(process)

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called: exit codes then say nothing about the programs."""
        return self._stopped

    def stop(self) -> None:
        """End every program: SIGTERM, and SIGKILL for those that have not gone soon after."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(_KILL_AFTER_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
