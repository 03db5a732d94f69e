"""Runs one Pulumi program against the engine: what the official distribution calls `pulumi-language-python-exec`.

Started by file name under the project's interpreter, so it imports nothing but the Pulumi SDK.
"""

import argparse
import asyncio
import functools
import logging
import os
import runpy
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

BAIL_EXIT_CODE = 32
_PAUSE_STEP_SECONDS = 0.0002
_MAX_PAUSE_SECONDS = 0.005


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Execute a Pulumi Python program")
    for flag in ("project", "stack", "organization", "root_directory", "pwd", "monitor", "engine", "tracing"):
        parser.add_argument(f"--{flag}")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--dry_run", default="false")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(argv)


def _exit_with_parent() -> None:
    """End this process when its parent has died: a cut-off SDK would wait for its engine for ever."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


class _PatientQueue(deque[Any]):
    """The SDK's queue of unfinished outputs. While it waits for resources the SDK takes and puts back every entry in a
    tight loop, which costs a whole core; this queue puts a short sleep into each round that finished nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._taken: Any = None
        self._put_back = 0
        self._pause = 0.0

    def popleft(self) -> Any:
        self._taken = super().popleft()
        return self._taken

    def append(self, item: Any) -> None:
        super().append(item)
        if item is not self._taken:
            self._put_back, self._pause = 0, 0.0
            return
        self._put_back += 1
        if self._put_back >= len(self):
            self._put_back = 0
            self._pause = min(self._pause + _PAUSE_STEP_SECONDS, _MAX_PAUSE_SECONDS)
            time.sleep(self._pause)


def _resolve_types_once() -> None:
    """Keep what the SDK makes of a class's annotations, which it resolves for each value: a fifth of a program's
    time."""
    from pulumi import _types

    if resolve := getattr(_types, "_types_from_py_properties", None):  # private to the SDK: other releases may lack it
        _types._types_from_py_properties = functools.cache(resolve)


def _run(arguments: argparse.Namespace) -> int:
    import pulumi
    import pulumi.runtime

    _resolve_types_once()
    pulumi.runtime.set_all_config(pulumi.runtime.get_config_env(), pulumi.runtime.get_config_secret_keys_env())
    settings = pulumi.runtime.Settings(
        monitor=arguments.monitor,
        engine=arguments.engine,
        project=arguments.project,
        stack=arguments.stack,
        parallel=arguments.parallel,
        dry_run=arguments.dry_run == "true",
        organization=arguments.organization,
        root_directory=arguments.root_directory,
    )
    if isinstance(settings.outputs, deque):  # Newer SDKs wait without a loop.
        settings.outputs = _PatientQueue()
    pulumi.runtime.configure(settings)
    # A failed program leaves futures that nobody awaits; asyncio would print each of them after the error that matters.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    threads = ThreadPoolExecutor(max(arguments.parallel, 1) * 4)
    loop.set_default_executor(threads)
    path = os.path.abspath(arguments.program)

    def program() -> None:
        runpy.run_path(path, run_name="__main__")

    try:
        loop.run_until_complete(pulumi.runtime.run_in_stack(program))
    except pulumi.RunError as error:
        pulumi.log.error(str(error))
        return 1
    except Exception:
        pulumi.log.error("Program failed with an unhandled exception:\n" + traceback.format_exc())
        return BAIL_EXIT_CODE
    finally:
        threads.shutdown(wait=True)
        loop.close()
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def main(argv: Sequence[str]) -> int:
    """Run the program that `argv` names; 0, 1 (message printed), or 32 (trace printed, nothing to add)."""
    arguments = _arguments(argv)
    _exit_with_parent()
    if arguments.pwd:
        os.chdir(arguments.pwd)
    sys.argv = [arguments.program, *arguments.arguments]
    # Python put this file's directory first; a program must not find our modules under its own imports.
    directory = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != directory]
    try:
        return _run(arguments)
    except ImportError:
        sys.stderr.write(traceback.format_exc())
        sys.stderr.write(
            f"The Pulumi SDK cannot be imported by {sys.executable}: install requirements.txt into that environment.\n"
        )
        return 1
    except KeyboardInterrupt:
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
