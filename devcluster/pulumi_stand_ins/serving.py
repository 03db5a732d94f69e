"""How a Pulumi plugin is served: the engine's address comes last in argv, our port is the first line on stdout."""

import contextlib
import os
import queue
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent import futures
from types import FrameType

import grpc

MESSAGE_LIMIT_BYTES = 400 * 1024 * 1024  # the engine's own limit
_ENGINE_CHECK_SECONDS = 1.0
_OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_LIMIT_BYTES),
    ("grpc.max_send_message_length", MESSAGE_LIMIT_BYTES),
]


def engine_address(argv: Sequence[str]) -> str:
    """The engine's gRPC address: the last argument that is not a flag; empty when the engine attaches later."""
    return next((argument for argument in reversed(argv) if not argument.startswith("-")), "")


def engine_channel(address: str) -> grpc.Channel:
    """A channel to the engine; it connects when first used."""
    return grpc.insecure_channel(address, options=_OPTIONS)


def serve(register: Callable[[grpc.Server], None], *, workers: int, on_stop: Callable[[], None], grace: float) -> None:
    """Serve until the engine interrupts us or has died, then stop quietly.

    `on_stop` must make the calls that are still running come to an end; they get `grace` seconds. The engine sends
    SIGINT at the end of every command, so leaving is the normal case and prints nothing.
    """
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=workers), options=_OPTIONS)
    register(server)
    port = server.add_insecure_port("127.0.0.1:0")
    # Not an Event: a signal may arrive while this thread holds its lock, and would wait for it forever.
    stops: queue.SimpleQueue[int] = queue.SimpleQueue()

    def stop(number: int, _frame: FrameType | None) -> None:
        stops.put(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    engine = os.getppid()
    while os.getppid() == engine:
        with contextlib.suppress(queue.Empty):
            stops.get(timeout=_ENGINE_CHECK_SECONDS)
            break
    on_stop()
    server.stop(grace).wait()
