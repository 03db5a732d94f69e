"""What the commands share: options, and how they begin and end."""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from devcluster.errors import DevClusterError, SpecError
from devcluster.progress import ProgressReporter, reporter
from tests.upstream.results import Results
from tests.upstream.running import Side


def add_options(parser: argparse.ArgumentParser, record: str) -> None:
    """Add those about what is recorded, in this file by default, and what is kept."""
    parser.add_argument("--record", type=Path, default=Path(record), help="file of results (%(default)s)")
    parser.add_argument("--again", action="store_true", help="also what is recorded")
    parser.add_argument("--logs", type=Path, help="keep what the tests and our scheduler print in this directory")


def add_mode(parser: argparse.ArgumentParser) -> None:
    """Add `--mode`, whose value is a list of sides."""
    help_text = "compatibility of ours: upstream, safe or both"
    parser.add_argument("--mode", type=_modes, default="upstream,safe", help=help_text)


def pattern(text: str) -> re.Pattern[str]:
    """Read an option that is a pattern."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _modes(text: str) -> Sequence[Side]:
    try:
        modes = [Side(mode) for mode in text.split(",")]
    except ValueError:
        modes = [Side.GO]
    if Side.GO in modes:
        raise argparse.ArgumentTypeError(f"{text!r} is not upstream, safe or upstream,safe")
    return modes


def carry_out(work: Callable[[ProgressReporter, Path], None], logs: Path | None) -> int:
    """Do the work, which is given a directory for logs: this one, or a temporary one. Return 0, or the exit code of
    what kept it from its end, which is said in one line."""
    # As on Ctrl-C: what the work has started ends with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(stderr=True)
    try:
        with reporter(console) as report, _kept(logs) as directory:
            work(report, directory)
    except KeyboardInterrupt:
        return 130
    except DevClusterError as error:
        console.print(str(error), markup=False, highlight=False, soft_wrap=True)
        return 2 if isinstance(error, SpecError) else 1
    return 0


def judge(results: Results, minor: str, packages: Sequence[str], sides: Sequence[Side]) -> int:
    """Print what fails with ours and passes with the Go scheduler; return the exit code."""
    rows = [row for row in results.failures(minor) if row[0] in packages]
    controls = {row[:2] for row in rows if row[2] is Side.GO}
    faults = [row for row in rows if row[2] in sides and row[:2] not in controls]
    for package, case, side in faults:
        print(f"{package} {case}: fails with ours ({side}), passes with the Go scheduler")
    return 1 if faults else 0


@contextlib.contextmanager
def _kept(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        yield directory.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="upstream-logs-") as temporary:
        yield Path(temporary)
