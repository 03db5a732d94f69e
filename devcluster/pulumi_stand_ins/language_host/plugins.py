"""Running a plugin that is written in Python, such as a component package, as a process of its own."""

import os
import queue
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Literal

_CHUNK_BYTES = 64 * 1024
_KILL_AFTER_SECONDS = 2.0
Stream = Literal["stdout", "stderr"]


@dataclass(frozen=True)
class PluginRun:
    """A plugin as the engine asks for it: a folder with a `__main__.py`, whose first line of output is its port."""

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
