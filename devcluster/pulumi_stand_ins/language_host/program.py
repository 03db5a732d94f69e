"""Programs and plugins that are written in Python: what their environment holds, and running each in a process of its
own, so that one run cannot leak into the next."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import IO, Literal

BAIL_EXIT_CODE = 32  # the program has already reported the error: the engine adds nothing
_SHIM = Path(__file__).with_name("shim.py")
_KILL_AFTER_SECONDS = 2.0
_CHUNK_BYTES = 64 * 1024
_PLUGIN_FILE = "pulumi-plugin.json"
Stream = Literal["stdout", "stderr"]


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


@dataclass(frozen=True)
class PluginRun:
    """A plugin, such as a component package, as the engine asks for it: a folder with a `__main__.py`, whose first line
    of output is its port."""

    folder: str
    working_directory: str
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class PluginProcess:
    """A running plugin."""

    def __init__(self, run: PluginRun, python: str) -> None:
        self._process = subprocess.Popen(
            [python, "-u", run.folder, *run.arguments],
            cwd=run.working_directory or None,
            env={**os.environ, **run.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def output(self) -> Iterator[tuple[Stream, bytes]]:
        """Yield what it writes, as it comes, until it ends; the engine waits for the port, which comes first."""
        chunks: queue.Queue[tuple[Stream, bytes]] = queue.Queue()
        streams: dict[Stream, IO[bytes] | None] = {"stdout": self._process.stdout, "stderr": self._process.stderr}

        def read(name: Stream, stream: IO[bytes]) -> None:
            while chunk := os.read(stream.fileno(), _CHUNK_BYTES):
                chunks.put((name, chunk))
            chunks.put((name, b""))

        for name, stream in streams.items():
            assert stream is not None  # both are pipes
            threading.Thread(target=read, args=(name, stream), daemon=True, name=f"plugin-{name}").start()
        still_open = len(streams)
        while still_open:
            name, chunk = chunks.get()
            if chunk:
                yield name, chunk
            else:
                still_open -= 1

    def wait(self) -> int:
        """Wait for its end and return the exit code (negative: the signal that ended it)."""
        return self._process.wait()

    def stop(self) -> None:
        """End it: SIGTERM, and SIGKILL if it has not gone soon after."""
        self._process.terminate()
        try:
            self._process.wait(_KILL_AFTER_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()


# --- the environment --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, order=True)
class Package:
    """A Pulumi package whose SDK is installed; `version` is that of the provider plugin, empty if it is not said."""

    name: str
    version: str
    server: str


def import_path(python: str) -> list[str]:
    """Where the interpreter finds packages: our own path if it is ours, else the environment's site-packages."""
    if python == sys.executable:
        return [entry for entry in sys.path if entry]
    return [str(directory) for directory in Path(python).parent.parent.glob("lib/python*/site-packages")]


def required_packages(path: Iterable[str]) -> list[Package]:
    """The packages whose SDKs ship a `pulumi-plugin.json` that says they need a resource plugin."""
    packages = set()
    for directory in path:
        for file in Path(directory).glob(f"*/{_PLUGIN_FILE}"):
            described = json.loads(file.read_text())
            if described.get("resource") and described.get("name"):
                version = described.get("version")
                packages.add(Package(described["name"], f"v{version}" if version else "", described.get("server", "")))
    return sorted(packages)


def installed(path: Iterable[str], *, transitive: bool) -> list[tuple[str, str]]:
    """Name and version of the installed distributions; without `transitive`, only those nothing else requires."""
    distributions = list(metadata.distributions(path=list(path)))
    versions = {distribution.metadata["Name"]: distribution.version for distribution in distributions}
    if not transitive:
        needed = {_requirement_name(text) for distribution in distributions for text in distribution.requires or ()}
        versions = {name: version for name, version in versions.items() if _canonical(name) not in needed}
    return sorted(versions.items())


def _requirement_name(requirement: str) -> str:
    end = next((i for i, c in enumerate(requirement) if not (c.isalnum() or c in "-_.")), len(requirement))
    return _canonical(requirement[:end])


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
