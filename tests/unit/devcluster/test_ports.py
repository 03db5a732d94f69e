from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import ports
from devcluster.errors import PortTakenError


@pytest.fixture
def used_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind((ports.LOOPBACK, 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_every_name_gets_a_port_of_its_own_and_none_to_avoid() -> None:
    avoid = range(ports.FIRST_PORT, ports.FIRST_PORT + 9000)
    chosen = ports.allocate([f"service-{n}" for n in range(50)], {}, avoid)
    assert len(set(chosen.values())) == 50
    assert not set(chosen.values()) & set(avoid)
    assert all(ports.FIRST_PORT <= port <= ports.LAST_PORT for port in chosen.values())


def test_what_a_process_reserved_no_other_one_gets_until_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "reservations"
    program = f"""
import sys
from pathlib import Path
from devcluster.ports import Reservations
print(Reservations(Path({str(path)!r})).reserve(20123), flush=True)
sys.stdin.read()
"""
    reservations = ports.Reservations(path)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert not reservations.reserve(20123)
        assert reservations.reserve(20124)
        other.communicate()
    assert reservations.reserve(20123)
    assert not reservations.reserve(20123), "its own service may not have started yet"


def test_a_fixed_port_is_kept_and_given_to_nobody_else() -> None:
    free = ports.allocate(["probe"], {})["probe"]
    chosen = ports.allocate(["a", "b"], {"b": free}, avoid=())
    assert chosen["b"] == free
    assert chosen["a"] != free


def test_a_taken_fixed_port_is_refused_in_one_line_that_names_the_holder(used_port: int) -> None:
    with pytest.raises(PortTakenError) as error:
        ports.allocate(["kube-apiserver"], {"kube-apiserver": used_port})
    message = str(error.value)
    assert f"kube-apiserver cannot listen on 127.0.0.1:{used_port}" in message
    assert f"process {os.getpid()}" in message
    assert "\n" not in message


def test_when_no_port_is_left_it_says_so() -> None:
    with pytest.raises(PortTakenError, match="no free port for etcd"):
        ports.allocate(["etcd"], {}, avoid=range(ports.FIRST_PORT, ports.LAST_PORT + 1))


def test_a_port_is_free_again_once_its_listener_has_gone(used_port: int) -> None:
    assert not ports.is_free(used_port)
    with socket.socket() as other:
        # As Go's and Python's servers listen.
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((ports.LOOPBACK, 0))
        other.listen()
        number = other.getsockname()[1]
        client = socket.create_connection((ports.LOOPBACK, number))
        accepted, _ = other.accept()
        accepted.close()
        client.close()
    assert ports.is_free(number), "a connection in TIME_WAIT does not keep a service from listening"


def test_clusters_get_different_pod_networks() -> None:
    used: list[str] = []
    for _ in range(234):
        used.append(ports.pod_network(used))
    assert len(set(used)) == 234
    assert all(network.startswith("127.") and network != "127.0" for network in used)
    with pytest.raises(PortTakenError, match="no loopback network is left"):
        ports.pod_network(used)
