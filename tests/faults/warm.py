"""Schedulers without the seconds that Python needs to import one: a process that has imported everything forks them.

    async with WarmStarts() as starts:
        process = await starts.start(["--config=..."], environment, log)

A fork shares what was imported and nothing else: options, environment, output, randomness from the system and the event
loop are its own, and its exit code is that of a scheduler that was started as a command. All forks share one hash seed.
The forking process ends, and kills what it forked, when its client goes away.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import select
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

_MAX_MESSAGE_LENGTH = 1 << 20


class WarmProcess:
    """What `asyncio.subprocess.Process` offers, of a fork."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        """Negative: the number of the signal that ended it."""
        self._ended = asyncio.Event()

    def finish(self, code: int) -> None:
        """Take its exit code."""
        self.returncode = code
        self._ended.set()

    async def wait(self) -> int:
        """Wait for its end; returns the exit code."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Signal it, unless it has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class WarmStarts:
    """The client: a forking process that lives as long as the block."""

    def __init__(self) -> None:
        self._processes: dict[int, WarmProcess] = {}
        self._early: dict[int, int] = {}
        self._waiting: list[asyncio.Future[int]] = []
        self._forker: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        ours, theirs = socket.socketpair()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
        with theirs:
            self._forker = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.faults.warm", str(theirs.fileno()),
                pass_fds=[theirs.fileno()], env=environment, stdin=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
        reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=_MAX_MESSAGE_LENGTH)
        self._reader = asyncio.create_task(self._read(reader))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._writer is not None
        assert self._forker is not None
        assert self._reader is not None
        self._writer.close()
        await self._forker.wait()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader

    async def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> WarmProcess:
        """Fork a scheduler; its output is added to the log. Raises ConnectionError when the forking process is gone."""
        assert self._writer is not None
        assert self._reader is not None
        if self._reader.done():
            raise ConnectionError("the forking process has ended")
        started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(started)
        message = {"arguments": list(arguments), "environment": dict(environment), "log": str(log)}
        self._writer.write(json.dumps(message).encode() + b"\n")
        pid = await started
        process = self._processes[pid] = WarmProcess(pid)
        if pid in self._early:
            self._finish(pid, self._early.pop(pid))
        return process

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._take(json.loads(line))
        finally:
            # The forking process is gone, or this task is cancelled with all others: nobody would tell of an end.
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the forking process has ended"))
            for pid in list(self._processes):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self._finish(pid, -signal.SIGKILL)

    def _take(self, message: dict[str, int]) -> None:
        if "code" in message:
            self._finish(message["pid"], message["code"])
            return
        waiting = self._waiting.pop(0)
        if waiting.done():
            # Nobody waits for it any more, so nobody would end it.
            os.kill(message["pid"], signal.SIGKILL)
        else:
            waiting.set_result(message["pid"])

    def _finish(self, pid: int, code: int) -> None:
        process = self._processes.pop(pid, None)
        if process is None:
            self._early[pid] = code
        else:
            process.finish(code)


class _Forker:
    """The forking process: one thread, no event loop, so that a fork is whole."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._children: set[int] = set()
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> dict[str, Any] | None:
        """Fork on request until the client goes; returns None then, and in each child the request."""
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        pending = b""
        while True:
            ready, _, _ = select.select([self._connection, self._woken], [], [])
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
                self._reap()
            if self._connection not in ready:
                continue
            received = self._connection.recv(_MAX_MESSAGE_LENGTH)
            if not received:
                self._end_all()
                return None
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                pid = os.fork()
                if pid == 0:
                    return self._as_child(json.loads(line))
                self._children.add(pid)
                self._send({"pid": pid})

    def _as_child(self, request: dict[str, Any]) -> dict[str, Any]:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._woken)
        os.close(self._wakes)
        self._connection.close()
        output = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.environ.clear()
        os.environ.update(request["environment"])
        random.seed()
        return request

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._children.discard(pid)
            self._send({"pid": pid, "code": os.waitstatus_to_exitcode(status)})

    def _send(self, message: dict[str, int]) -> None:
        with contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def _end_all(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        for pid in self._children:
            os.waitpid(pid, 0)


def main(descriptor: int) -> int:
    """Import the scheduler, then fork it on request; in a fork, returns the scheduler's exit code."""
    from tests.faults import debugged

    # An interrupt is for the client, which ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    debugged.import_everything()
    request = _Forker(socket.socket(fileno=descriptor)).serve()
    if request is None:
        return 0
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["kube-scheduler", *request["arguments"]]
    return debugged.main()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
