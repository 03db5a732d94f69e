"""`secondary-scheduler ui` as a process: what it prints, what it serves, and how it ends."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.browser import served_pages
from tests.support.pagemodels import write_page_model
from tests.support.rawclient import send_garbage


def fetch(address: str, path: str) -> tuple[int, str]:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request("GET", f"{parts.path}{path}")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "secondary_scheduler.cli", "ui", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_address_that_is_printed_once_leads_to_the_pages_and_is_in_no_log(tmp_path: Path) -> None:
    files = write_page_model(tmp_path, 3, 2)
    with served_pages(["--snapshot", str(files["snapshot"]), "--config", str(files["config"])], tmp_path) as address:
        assert urlsplit(address).hostname == "127.0.0.1"
        assert fetch(address, "/nodes")[0] == 200
        assert fetch(address, "/decisions/1")[0] == 200
        assert fetch(address.rpartition("/")[0], "/nodes")[0] == 403
    log = (tmp_path / "ui.err").read_text()
    assert "3 nodes, 2 decisions" in log
    assert address.rpartition("/")[2] not in log
    assert "Traceback" not in log


def test_without_a_configuration_the_default_profile_decides(tmp_path: Path) -> None:
    files = write_page_model(tmp_path, 3, 2)
    with served_pages([str(files["snapshot"]), "--as-scheduler", "secondary-scheduler"], tmp_path) as address:
        status, text = fetch(address, "/decisions")
        assert (status, text.count('class="tag placed"')) == (200, 2)
        assert "default-scheduler" in fetch(address, "/configuration")[1]


def test_requests_that_cannot_be_read_are_counted_and_no_traceback(tmp_path: Path) -> None:
    files = write_page_model(tmp_path, 3, 2)
    with served_pages([str(files["snapshot"])], tmp_path) as address:
        answers = send_garbage(urlsplit(address).port or 0, 30, tls=False)
        assert set(answers) == {b"HTTP/1.0 400 Bad Request"}
    log = (tmp_path / "ui.err").read_text()
    assert "malformed requests: 1, the last by 127.0.0.1: " in log
    assert log.count("malformed requests: 29, ") == 1
    assert log.count("malformed") == 2
    assert "Traceback" not in log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_without_a_traceback(tmp_path: Path, number: signal.Signals) -> None:
    files = write_page_model(tmp_path, 3, 2)
    command = [sys.executable, "-m", "secondary_scheduler.cli", "ui", "--snapshot", str(files["snapshot"])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.send_signal(number)
        assert process.wait(60) == 130
        assert "Traceback" not in process.stderr.read()


def test_a_signal_ends_it_while_it_answers(tmp_path: Path) -> None:
    files = write_page_model(tmp_path, 3000, 2)
    command = [sys.executable, "-m", "secondary_scheduler.cli", "ui", "--snapshot", str(files["snapshot"])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().strip())
        with socket.create_connection((address.hostname, address.port)) as connection:
            for _ in range(20):  # the page takes a while to make: the signal comes meanwhile
                connection.sendall(f"GET {address.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            connection.recv(1)
            process.send_signal(signal.SIGINT)
            try:
                assert process.wait(60) == 130
            finally:
                process.kill()


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    files = write_page_model(tmp_path, 3, 2)
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        done = run("--snapshot", str(files["snapshot"]), "--port", str(port))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"--port {port}: " in done.stderr
    assert "address already in use" in done.stderr


def test_a_file_that_cannot_be_used_ends_the_command_before_it_serves(tmp_path: Path) -> None:
    files = write_page_model(tmp_path, 3, 2)
    done = run("--snapshot", str(tmp_path / "absent.json"))
    assert (done.returncode, done.stdout) == (4, "")
    assert "absent.json: No such file or directory" in done.stderr
    files["config"].write_text(files["config"].read_text().replace("weight: 10", "weight: ten"))
    done = run("--snapshot", str(files["snapshot"]), "--config", str(files["config"]))
    assert (done.returncode, done.stdout) == (4, "")
    assert "config.yaml:8:43: " in done.stderr
