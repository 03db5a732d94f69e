"""Processes of a cluster: started detached, known by identity, ended with everything they started.

A process is identified by its pid together with the boot and the clock tick it started at, so that a pid which the
kernel has reused for another process is never signalled. Every process carries the cluster's state directory in its
environment (`CLUSTER_MARKER`); children inherit it, which is how orphans are found after a crash.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from devcluster.errors import ServiceError
from devcluster.ports import require_free

CLUSTER_MARKER = "SECONDARY_SCHEDULER_CLUSTER_DIR"
# Proxies and other clusters' settings of the user's shell must not reach services that talk over loopback only.
_NOT_INHERITED = ("KUBECONFIG", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_POLL_SECONDS = 0.02
_LOG_LINES = 3

Probe = Callable[[], bool]


class ProcessRecord(BaseModel):
    """What is needed to find a process again and to be sure that it is the same one."""

    model_config = ConfigDict(extra="ignore")

    service: str
    pid: int
    started: str
    """Boot id and start tick: equal only for the very same process."""
    log: Path
    stop_seconds: float
    stop_first: bool = False


@dataclass(frozen=True)
class ServiceProcess:
    """A process to start: its command, what it listens on and how to tell that it is ready."""

    name: str
    argv: Sequence[str]
    ports: Sequence[int] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    ready: Probe | None = None
    ready_seconds: float = 60.0
    stop_seconds: float = 5.0
    """How long it may take to end by itself before it is killed."""
    stop_first: bool = False
    """It has work to do on its way out that needs the other services."""


def identity(pid: int) -> str | None:
    """Boot id and start tick of a live process; None for a missing process or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command's name may hold spaces and parentheses: count the fields from its end.
    fields = stat.rpartition(")")[2].split()
    if fields[0] in ("Z", "X"):
        return None
    return f"{_boot_id()}:{fields[19]}"


def is_alive(record: ProcessRecord) -> bool:
    """Whether the recorded process still runs."""
    return identity(record.pid) == record.started


def start(service: ServiceProcess, state_dir: Path) -> ProcessRecord:
    """Start a service in a session of its own, its output appended to `logs/<name>.log`.

    Raises PortTakenError when one of its ports is in use and ServiceError when the command cannot be executed.
    """
    for port in service.ports:
        require_free(service.name, port)
    log = state_dir / "logs" / f"{service.name}.log"
    env = {key: value for key, value in os.environ.items() if key.upper() not in _NOT_INHERITED}
    env |= {CLUSTER_MARKER: str(state_dir), **service.env}
    with log.open("ab") as output:
        try:
            process = subprocess.Popen(
                list(service.argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=state_dir,
                env=env,
                start_new_session=True,
            )
        except OSError as error:
            raise ServiceError(f"{service.name} cannot be started: {service.argv[0]}: {error.strerror}") from error
    # It outlives this process on purpose: without an exit code, Popen would warn of a forgotten child. `_reap` waits.
    process.returncode = 0
    _children.add(process.pid)
    started = identity(process.pid) or "ended"
    return ProcessRecord(
        service=service.name,
        pid=process.pid,
        started=started,
        log=log,
        stop_seconds=service.stop_seconds,
        stop_first=service.stop_first,
    )


def wait_ready(service: ServiceProcess, record: ProcessRecord) -> None:
    """Wait until the service's probe succeeds.

    Raises ServiceError with the last lines of its log when it ends or is not ready within `ready_seconds`, and
    PortTakenError when it ended because a port was taken from under it.
    """
    if service.ready is None:
        return
    deadline = time.monotonic() + service.ready_seconds
    pause = _POLL_SECONDS
    while not service.ready():
        _reap(record.pid)
        if not is_alive(record):
            for port in service.ports:
                require_free(service.name, port)
            raise ServiceError(f"{service.name} exited during startup: {last_lines(record.log)}")
        if time.monotonic() > deadline:
            raise ServiceError(
                f"{service.name} was not ready after {service.ready_seconds:.0f} s: {last_lines(record.log)}"
            )
        time.sleep(pause)
        pause = min(pause * 1.3, 0.2)


def last_lines(log: Path) -> str:
    """The end of a log on one line, for an error message."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return "no log"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-_LOG_LINES:])[-600:] or "its log is empty"


def stop(records: Iterable[ProcessRecord]) -> None:
    """End processes with their groups: SIGTERM to all, SIGKILL to each that outlives its `stop_seconds`.

    Those marked `stop_first` have gone before the others are asked. Records whose process has ended, or whose pid
    belongs to another process by now, are left alone.
    """
    entries = list(records)
    _stop_together(record for record in entries if record.stop_first)
    _stop_together(record for record in entries if not record.stop_first)


def _stop_together(records: Iterable[ProcessRecord]) -> None:
    waiting = [record for record in records if _signal(record, signal.SIGTERM)]
    began = time.monotonic()
    while waiting:
        still: list[ProcessRecord] = []
        for record in waiting:
            _reap(record.pid)
            if not is_alive(record):
                continue
            if time.monotonic() - began > record.stop_seconds:
                _signal(record, signal.SIGKILL)
            still.append(record)
        waiting = still
        if waiting:
            time.sleep(_POLL_SECONDS)


def sweep(state_dir: Path) -> int:
    """Kill whatever process still carries this cluster's marker in its environment; returns how many there were.

    For what no record names: children that outlived their parent, and processes started just before a crash.
    """
    count = 0
    deadline = time.monotonic() + 5
    while pids := list(_marked(state_dir)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                count += 1
            _reap(pid)
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_SECONDS)
    return count


_children: set[int] = set()


def _reap(pid: int) -> None:
    if pid not in _children:
        return
    try:
        ended, _ = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        ended = pid
    if ended:
        _children.discard(pid)


def _signal(record: ProcessRecord, number: signal.Signals) -> bool:
    if not is_alive(record):
        return False
    try:
        os.killpg(record.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _marked(state_dir: Path) -> Iterator[int]:
    marker = f"{CLUSTER_MARKER}={state_dir}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        pid = int(process.name)
        if pid == os.getpid():
            continue
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if marker in environment and identity(pid) is not None:
            yield pid


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
