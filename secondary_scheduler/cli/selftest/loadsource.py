"""A metric source of the self-test's own: serves the loads that a step chooses, as a load-watcher does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from scheduler.framework import NodeLoad
from scheduler.load import watcher_document

_WINDOW_SECONDS = 900.0


class LoadSource:
    """Answers on this machine's loopback only, until it is cut."""

    def __init__(self) -> None:
        self._loads: Mapping[str, NodeLoad] = {}
        source = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10.0

            def do_GET(self) -> None:
                body = source._answer()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing: stdout is the report's."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.questions = 0
        self._thread = threading.Thread(target=self._server.serve_forever, name="load source", daemon=True)
        self._thread.start()

    def serve(self, cpu_percent: Mapping[str, float]) -> None:
        """Serve these loads from now on."""
        self._loads = {
            name: NodeLoad(cpu_average=percent, cpu_stddev=1.0, memory_average=percent, memory_stddev=1.0)
            for name, percent in cpu_percent.items()
        }

    def _answer(self) -> bytes:
        self.questions += 1
        now = time.time()
        document = watcher_document(
            self._loads, source="Prometheus", window="15m", window_seconds=_WINDOW_SECONDS, end=now, timestamp=now
        )
        return json.dumps(document).encode()

    def close(self) -> None:
        """Close it; whoever asks from then on is refused."""
        if not self._thread.is_alive():
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
