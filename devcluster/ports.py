"""Ports and loopback networks for the services of one cluster."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from devcluster.errors import PortTakenError

LOOPBACK = "127.0.0.1"
# Below the kernel's ephemeral range (32768 and up), or an outgoing connection could take a port between its choice and
# its use.
FIRST_PORT, LAST_PORT = 20000, 29999
_ATTEMPTS = 2000
_FIRST_NETWORK, _LAST_NETWORK = 16, 249


class Reservations:
    """Numbers that no other process of this user chooses while this one lives.

    Between the choice of a port and the start of its service another process may look for one, too. Record locks on a
    file end with the process, however that ends, and only what has been reserved is looked at, never who listens.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._own: set[int] = set()

    def reserve(self, number: int) -> bool:
        """Whether the number was free, and is this process's from now on."""
        if self._descriptor is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self._path, flags, 0o600)
        if number in self._own:
            return False
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise
        self._own.add(number)
        return True


_RESERVED = Reservations(Path(tempfile.gettempdir()) / f"secondary-scheduler-ports-{os.getuid()}")
"""Ports, and the second octets of pod networks."""


def is_free(port: int, address: str = LOOPBACK) -> bool:
    """Whether a service could listen on the port now; connections that are only waiting to expire do not count."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def allocate(names: Iterable[str], fixed: Mapping[str, int], avoid: Iterable[int] = ()) -> dict[str, int]:
    """A port for every name: the fixed one where given, else a free one, reserved for this process, not in `avoid`.

    Raises PortTakenError when a fixed port cannot be used or no free one is left.
    """
    used = {*avoid, *fixed.values()}
    chosen: dict[str, int] = {}
    for name in names:
        if name in fixed:
            require_free(name, fixed[name])
            chosen[name] = fixed[name]
            continue
        for _ in range(_ATTEMPTS):
            port = random.randint(FIRST_PORT, LAST_PORT)
            if port not in used and is_free(port) and _RESERVED.reserve(port):
                break
        else:
            raise PortTakenError(
                f"no free port for {name} between {FIRST_PORT} and {LAST_PORT} on {LOOPBACK}: stop other local services"
            )
        used.add(port)
        chosen[name] = port
    return chosen


def require_free(service: str, port: int) -> None:
    """Raise PortTakenError, naming the process that holds the port where that can be seen."""
    if is_free(port):
        return
    raise PortTakenError(
        f"{service} cannot listen on {LOOPBACK}:{port}: the port is in use by {_holder(port)}; "
        f"stop that process or choose another port"
    )


@contextlib.contextmanager
def hold_port(address: str, port: int) -> Iterator[None]:
    """Bind a port on one address while the block runs, so that no process can bind it on all addresses.

    If the port is already in use there, it is as good as held.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as holder:
        with contextlib.suppress(OSError):
            holder.bind((address, port))
            holder.listen(1)
        yield


def _holder(port: int) -> str:
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for process in Path("/proc").glob("[0-9]*"):
        # Processes of others cannot be looked into, and descriptors come and go meanwhile.
        with contextlib.suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(descriptor) in sockets:
                        return f"{(process / 'comm').read_text().strip()} (process {process.name})"
    return "another process"


def _listening_inodes(port: int) -> set[str]:
    inodes: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(fields[9])
    return inodes


def pod_network(avoid: Iterable[str]) -> str:
    """A /16 of 127.0.0.0/8 as its first two octets ("127.83") for the pods of one cluster's real nodes."""
    used = set(avoid)
    # 127.0 belongs to the services above.
    candidates = [octet for octet in range(_FIRST_NETWORK, _LAST_NETWORK + 1) if f"127.{octet}" not in used]
    if not candidates:
        raise PortTakenError(
            "no loopback network is left for pods: stop a local cluster with: secondary-scheduler cluster down"
        )
    random.shuffle(candidates)
    # Of those that are reserved, too, the cluster may have ended.
    return f"127.{next(filter(_RESERVED.reserve, candidates), candidates[0])}"


@contextmanager
def serving(document: Callable[[], bytes]) -> Iterator[str]:
    """Serve JSON that is made for each request while the block runs; yields the address, without a path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = document()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: the output is that of the command."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    # A client that keeps its connection must not keep the server.
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
