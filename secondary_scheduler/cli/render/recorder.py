"""Runs a Pulumi program against an engine that only records: the child process of `secondary-scheduler render`.

Started by file name under the project's interpreter, so it imports nothing but the Pulumi SDK. stdin: JSON with
`root`, `project`, `stack`, `config` and `secretKeys`. stdout: JSON, `objects` with each Kubernetes object's inputs as
the engine would get them (`adopted`: others make it, and the program only waits for it), or `error`, or `missing`: a
package that the interpreter does not have. What the program prints and warns of goes to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import runpy
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

_THREADS = 8
_KUBERNETES = "kubernetes:"
_PROVIDER = "pulumi:providers:kubernetes"


def record(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Run the program as a preview would, and return what it registered, in the order of registration."""
    from google.protobuf import json_format
    from pulumi.runtime import mocks
    from pulumi.runtime.config import set_all_config
    from pulumi.runtime.settings import set_root_resource
    from pulumi.runtime.stack import run_in_stack

    class Echo(mocks.Mocks):
        """Answers with what it was given. Nothing else is known before something exists."""

        def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]]]:
            return {}, []

        def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
            return f"{args.name}-id", dict(args.inputs)

    _resolve_types_once()
    objects: list[dict[str, Any]] = []
    adopting: set[str] = set()

    class Recorder(mocks.MockMonitor):
        """Keeps the requests: the mocks alone do not learn what a resource depends on."""

        def RegisterResource(self, request: Any) -> Any:
            response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
            inputs = json_format.MessageToDict(request.object)
            # That of a stack which adopts an installation takes over, too; what goes through it is the stack's own.
            if request.type == _PROVIDER and request.name.endswith("-adopting"):
                adopting.add(response.urn)
            elif request.type.startswith(_KUBERNETES) and request.custom:
                registered = {"urn": response.urn, "inputs": inputs, "dependencies": sorted(request.dependencies)}
                objects.append({**registered, "adopted": request.provider.rpartition("::")[0] in adopting})
            return response

    logger = logging.getLogger("render")
    logger.addHandler(logging.StreamHandler(sys.stderr))
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    # The mocks answer in threads, and want an event loop in each. Made here, so that they are closed: one that the
    # collector finds is closed by it, after its sockets, and the interpreter prints a traceback about that.
    loops = [loop]
    loop.set_default_executor(ThreadPoolExecutor(_THREADS, initializer=_set_new_event_loop, initargs=(loops,)))
    # A preview: the program waits for nothing, and values that only an update knows are marked as unknown.
    options = {"project": request["project"], "stack": request["stack"], "preview": True, "logger": logger}
    mocks.set_mocks(Echo(), monitor=Recorder(Echo()), **options)
    set_all_config(request["config"], request["secretKeys"])
    # set_mocks makes a stack of its own, which would take no outputs
    set_root_resource(None)  # type: ignore[arg-type]

    def program() -> None:
        runpy.run_path(request["root"], run_name="__main__")

    try:
        loop.run_until_complete(run_in_stack(program))
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        _cancel_unfinished(loop)
        for opened in loops:
            opened.close()
        asyncio.set_event_loop(None)
    return objects


def _resolve_types_once() -> None:
    """Keep what the SDK makes of a class's annotations, which it resolves for each value: a third of a rendering's
    time."""
    from pulumi import _types

    if resolve := getattr(_types, "_types_from_py_properties", None):  # private to the SDK: other releases may lack it
        _types._types_from_py_properties = functools.cache(resolve)


def _set_new_event_loop(loops: list[asyncio.AbstractEventLoop]) -> None:
    loops.append(asyncio.new_event_loop())
    asyncio.set_event_loop(loops[-1])


def _cancel_unfinished(loop: asyncio.AbstractEventLoop) -> None:
    """End what a program that failed left waiting."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


def main(source: TextIO, result: TextIO) -> int:
    """Answer one request; 0 also where the program refused or cannot be imported, which are answers."""
    try:
        from pulumi import RunError
    except ModuleNotFoundError as error:
        json.dump({"missing": error.name}, result)
        return 0

    request = json.load(source)
    os.chdir(request["root"])
    # A failed program leaves futures that nobody awaits; asyncio would print each after the error that matters.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            answer: dict[str, Any] = {"objects": record(request)}
    except RunError as error:
        answer = {"error": str(error)}
    except ModuleNotFoundError as error:
        answer = {"missing": error.name}
    json.dump(answer, result)
    return 0


if __name__ == "__main__":
    # Python put this file's directory first; a program must not find our modules under its own imports.
    sys.path.pop(0)
    sys.exit(main(sys.stdin, sys.stdout))
