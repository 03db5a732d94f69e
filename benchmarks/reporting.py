"""Results of a long benchmark, told as they come and kept when it breaks off."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from devcluster.errors import DevClusterError
from scheduler.kube.client import KubeError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Result = TypeVar("Result", bound="DataclassInstance")


def report(
    command: str,
    results: Iterable[Result],
    line: Callable[[Result], str],
    table: Callable[[Sequence[Result]], Iterable[str]],
    file: Path | None,
) -> int:
    """Print a line per result on stderr, at the end the table; returns the exit code.

    Args:
        command: of `python -m benchmarks`, for the error message.
        results: whose making may raise DevClusterError, KubeError or RuntimeError: exit code 1.
        line: a result in one line.
        table: the lines of the table.
        file: gets the results as JSON, also those before an error; None for no file.
    """
    done: list[Result] = []
    try:
        for result in results:
            done.append(result)
            print(f"  {line(result)}", file=sys.stderr, flush=True)
    except (DevClusterError, RuntimeError, KubeError) as error:
        print(f"benchmarks {command}: {error}", file=sys.stderr)
        return 1
    finally:
        if file and done:
            file.write_text(json.dumps([asdict(result) for result in done], indent=1))
    print("\n".join(table(done)))
    return 0
