"""Processes are identified by more than their PID; no foreign process is ever signalled."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import processes
from devcluster.errors import PortTakenError, ServiceError
from devcluster.processes import ProcessRecord, ServiceProcess
from tests.support.waiting import eventually


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "logs").mkdir()
    yield tmp_path
    processes.sweep(tmp_path)


def python(name: str, code: str, **options: object) -> ServiceProcess:
    return ServiceProcess(name, [sys.executable, "-c", code], **options)  # type: ignore[arg-type]


def wait_for(path: Path) -> str:
    eventually(lambda: path.exists() and path.read_text(), f"{path} written")
    return path.read_text()


def test_a_started_process_is_alive_until_stopped(state_dir: Path) -> None:
    record = processes.start(python("sleeper", "import time; time.sleep(60)"), state_dir)
    assert processes.is_alive(record)
    processes.stop([record])
    assert not processes.is_alive(record)


def test_a_process_that_ignores_sigterm_is_killed_after_its_time(state_dir: Path) -> None:
    code = (
        "import signal, time, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "pathlib.Path('ready').write_text('yes'); time.sleep(60)"
    )
    record = processes.start(python("stubborn", code, stop_seconds=0.3), state_dir)
    wait_for(state_dir / "ready")
    began = time.monotonic()
    processes.stop([record])
    assert 0.3 <= time.monotonic() - began < 50, "it would have run for 60 s"
    assert not processes.is_alive(record)


def test_a_pid_that_belongs_to_somebody_else_by_now_is_not_signalled(state_dir: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        identity = processes.identity(stranger.pid)
        assert identity is not None
        boot, tick = identity.split(":")
        stale = ProcessRecord(
            service="etcd", pid=stranger.pid, started=f"{boot}:{int(tick) - 1}", log=state_dir / "x", stop_seconds=1
        )
        processes.stop([stale])
        assert stranger.poll() is None
        assert not processes.is_alive(stale)
    finally:
        stranger.kill()
        stranger.wait()


def test_stopping_ends_the_whole_group(state_dir: Path) -> None:
    code = (
        "import subprocess, sys, pathlib, time;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "pathlib.Path('child').write_text(str(child.pid)); time.sleep(60)"
    )
    record = processes.start(python("parent", code), state_dir)
    child = int(wait_for(state_dir / "child"))
    processes.stop([record])
    deadline = time.monotonic() + 5
    while processes.identity(child) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes.identity(child) is None


def test_services_marked_stop_first_end_before_the_others(state_dir: Path) -> None:
    code = (
        "import signal, sys, time, pathlib;"
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep({pause}), pathlib.Path('{name}').write_text("
        "str(time.monotonic())), sys.exit()));"
        "pathlib.Path('ready-{name}').write_text('yes'); time.sleep(60)"
    )
    agent = python("agent", code.format(name="agent", pause=0.3), stop_first=True)
    server = python("server", code.format(name="server", pause=0))
    records = [processes.start(service, state_dir) for service in (server, agent)]
    for name in ("agent", "server"):
        wait_for(state_dir / f"ready-{name}")
    processes.stop(records)
    assert float(wait_for(state_dir / "agent")) < float(wait_for(state_dir / "server"))


def test_sweep_finds_an_orphan_in_a_session_of_its_own(
    state_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    code = (
        "import subprocess, sys, pathlib;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True);"
        "pathlib.Path('child').write_text(str(child.pid))"
    )
    processes.start(python("parent", code), state_dir)
    child = int(wait_for(state_dir / "child"))
    other = tmp_path_factory.mktemp("other")
    assert processes.sweep(other) == 0, "another cluster's processes are none of its business"
    assert processes.identity(child) is not None
    assert processes.sweep(state_dir) >= 1
    assert processes.identity(child) is None


def test_readiness_fails_with_the_end_of_the_log_when_the_process_ends(state_dir: Path) -> None:
    service = python("etcd", "import sys; sys.exit('listen failed: no such device')", ready=lambda: False)
    record = processes.start(service, state_dir)
    with pytest.raises(ServiceError, match="etcd exited during startup: listen failed: no such device"):
        processes.wait_ready(service, record)


def test_readiness_fails_when_time_is_up(state_dir: Path) -> None:
    service = python("etcd", "import time; time.sleep(60)", ready=lambda: False, ready_seconds=0.1)
    record = processes.start(service, state_dir)
    with pytest.raises(ServiceError, match=r"etcd was not ready after 0 s: its log is empty"):
        processes.wait_ready(service, record)


def test_a_port_taken_before_the_start_is_named(state_dir: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"etcd cannot listen on 127.0.0.1:{port}"):
            processes.start(python("etcd", "pass", ports=[port]), state_dir)


def test_a_port_taken_during_the_start_is_named(state_dir: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        service = python("etcd", "raise SystemExit(1)", ports=[port], ready=lambda: False)
        # Bound but not listening yet: the port looks free to the check that comes before the start.
        record = processes.start(ServiceProcess("etcd", service.argv), state_dir)
        listener.listen()
        with pytest.raises(PortTakenError, match=f"etcd cannot listen on 127.0.0.1:{port}"):
            processes.wait_ready(service, record)


def test_a_command_that_cannot_be_executed_is_named(state_dir: Path) -> None:
    with pytest.raises(ServiceError, match="etcd cannot be started: /no/such/etcd: No such file or directory"):
        processes.start(ServiceProcess("etcd", ["/no/such/etcd"]), state_dir)


def test_proxies_and_other_clusters_settings_are_not_inherited(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("KUBECONFIG", "/home/me/.kube/config")
    code = "import os, pathlib; pathlib.Path('env').write_text(repr(sorted(os.environ)))"
    processes.start(python("service", code, env={"MINE": "1"}), state_dir)
    names = wait_for(state_dir / "env")
    assert "'MINE'" in names
    assert "proxy" not in names.lower()
    assert "KUBECONFIG" not in names


def test_an_ended_process_that_nobody_has_reaped_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.identity(child.pid) is None
    assert child.wait() == 0


def test_services_survive_a_signal_to_the_terminals_group(state_dir: Path) -> None:
    record = processes.start(python("sleeper", "import time; time.sleep(60)"), state_dir)
    assert os.getpgid(record.pid) == record.pid
    assert os.getsid(record.pid) != os.getsid(0)
    os.kill(record.pid, signal.SIGKILL)
