"""How a Pulumi plugin is served: the engine's address comes last in argv, our port is the first line on stdout."""

import contextlib
import importlib.machinery
import os
import queue
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent import futures
from importlib.util import find_spec, module_from_spec
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


def prepare() -> None:
    """Make the start quiet and short. Only for a process that serves a plugin and does nothing else.

    An interrupt during the imports ends the process without a trace; `serving.serve` handles those that come later.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _stub_sdk_packages()


def _stub_sdk_packages() -> None:
    """Let `pulumi.runtime.proto` be imported without the SDK around it, which takes three times as long.

    Importing a submodule runs the `__init__` of every package above it. The empty packages put in their place only say
    where the submodules are.
    """
    search = None
    for name in ("pulumi", "pulumi.runtime"):
        spec = importlib.machinery.PathFinder.find_spec(name, search) if search else find_spec(name)
        if name in sys.modules or spec is None or not spec.submodule_search_locations:
            return
        search = list(spec.submodule_search_locations)
        bare = importlib.machinery.ModuleSpec(name, None, is_package=True)
        bare.submodule_search_locations = search
        sys.modules[name] = module_from_spec(bare)
