"""A server on the loopback address that answers every GET with one document."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from devcluster.ports import LOOPBACK


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
