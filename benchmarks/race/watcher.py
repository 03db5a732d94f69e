"""A fake load-watcher: it reports the same, always fresh loads to all contestants."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from devcluster.ports import LOOPBACK

_WINDOW = 900


def loads(nodes: list[str]) -> dict[str, float]:
    """A CPU load in percent for each node: 5 to 44, in no order that a scheduler could profit from."""
    return {name: 5.0 + (number * 37) % 40 for number, name in enumerate(nodes)}


@contextlib.contextmanager
def serving(loads_of: Mapping[str, float]) -> Iterator[str]:
    """Serve `/watcher` while the block runs; yields the address."""
    metrics = {
        name: {
            "metrics": [
                {"name": "host.cpu.utilization", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": load},
                {"name": "host.cpu.utilization", "type": "CPU", "operator": "STD", "rollup": "15m", "value": load / 10},
                {"name": "host.mem.utilization", "type": "Memory", "operator": "AVG", "rollup": "15m", "value": load},
                {"name": "host.mem.utilization", "type": "Memory", "operator": "STD", "rollup": "15m", "value": 1.0},
            ]
        }
        for name, load in loads_of.items()
    }
    data = json.dumps({"NodeMetricsMap": metrics})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            end = int(time.time())
            window = json.dumps({"duration": "15m", "start": end - _WINDOW, "end": end})
            body = f'{{"timestamp":{end},"window":{window},"source":"race","data":{data}}}'.encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: the race's own output is a table."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
