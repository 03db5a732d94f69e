"""Container processes as the agent sees them: a launcher to start, signal, wait for and find again."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.node_agent.sandbox import LAUNCHER, StartError
from devcluster.processes import identity

REPORT_SECONDS = 30.0
# After "kill everything" the launcher itself gets this long before it is killed, and its children with it.
FORCE_SECONDS = 5.0


@dataclass(slots=True)
class ContainerProcess:
    """A launcher and, below it, a container's processes."""

    launcher: asyncio.subprocess.Process
    entry_pid: int
    """What ``Sandbox.exec_spec`` needs to run a command in the container."""
    record: Path | None = None

    async def wait(self) -> int:
        """The container's exit code (128 + signal if killed)."""
        code = await self.launcher.wait()
        if self.record is not None:
            self.record.unlink(missing_ok=True)
        return code if code >= 0 else 128 - code

    async def stop(self, grace: float) -> None:
        """SIGTERM to the workload's process group, after ``grace`` seconds SIGKILL to everything; returns then."""
        if grace > 0:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self.launcher.wait()
        if self.launcher.returncode is None:
            self._signal(signal.SIGUSR2)
            try:
                async with asyncio.timeout(FORCE_SECONDS):
                    await self.launcher.wait()
            except TimeoutError:
                self._signal(signal.SIGKILL)
                await self.launcher.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.launcher.send_signal(number)


async def launch(spec: dict[str, Any], spec_file: Path, output: int, record: Path | None = None) -> ContainerProcess:
    """Start a launcher with its output on the descriptor ``output``; return once the workload runs.

    ``record``: file to keep the launcher's identity in, for ``kill_recorded`` after a crash. Raises StartError.
    """
    read_end, write_end = os.pipe()
    try:
        document = {**spec, "statusFd": write_end, "agentPid": os.getpid()}
        write_private(spec_file, json.dumps(document))
        launcher = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(LAUNCHER), str(spec_file),
            stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output,
            pass_fds=(write_end,), start_new_session=True,
        )  # fmt: skip
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    process = ContainerProcess(launcher, launcher.pid, record)
    try:
        if record is not None:
            _write_record(record, launcher.pid)
        async with asyncio.timeout(REPORT_SECONDS):
            process.entry_pid = await _report(read_end) or launcher.pid
    except BaseException as error:
        await asyncio.shield(process.stop(0))
        await process.wait()
        if isinstance(error, TimeoutError):
            raise StartError(f"the sandbox was not ready within {REPORT_SECONDS:.0f} s") from error
        raise
    finally:
        _remove(spec_file)  # it holds the container's environment
    return process


async def _report(descriptor: int) -> int:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        pid = 0
        while line := await reader.readline():
            message = json.loads(line)
            if "error" in message:
                raise StartError(message["error"])
            pid = int(message.get("pid", pid))
            if message.get("started"):
                return pid
        raise StartError("the sandbox ended before the container's process started; see the container's log")
    finally:
        transport.close()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "w") as stream:
        stream.write(text)


def _write_record(path: Path, pid: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"pid": pid, "started": identity(pid)}))


def kill_recorded(directory: Path) -> int:
    """Kill what a predecessor left running, by pid and start time; return how many there were.

    The launchers' children die with them (``PR_SET_PDEATHSIG``).
    """
    killed = 0
    for path in sorted(directory.glob("*/processes/*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError):
            recorded = json.loads(path.read_text())
            if recorded["started"] and identity(recorded["pid"]) == recorded["started"]:
                os.kill(recorded["pid"], signal.SIGKILL)
                killed += 1
        path.unlink(missing_ok=True)
    return killed
