"""The work on what a start reads first, without an API server: `python -m benchmarks lists`.

Pages of nodes and pods, as an API server sends them, are decoded, reduced, and taken into cache and queue by the
modules of one or more checkouts; then a load-watcher's answer about the nodes is decoded. Each measurement has a
process of its own, as each start has; the checkouts take turns. Figures are processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.harness import watcher
from benchmarks.harness.contestants import OURS, add_checkouts, checkouts, interpreter
from benchmarks.harness.figures import order_of, text_of
from benchmarks.harness.manifests import at, listed_pod, node, node_name
from benchmarks.listing import LOADS

PAGE = 2000
"""As the scheduler asks for."""
UNITS = {
    "node_us": "us per node",
    "pod_us": "us per pod",
    "ms": "ms for both lists",
    "load_us": "us per node's load",
    "source_ms": "ms to import a load source",
}
_FIRST_CREATED = 1_767_225_600
_CREATED_PER_SECOND = 50


def write_pages(directory: Path, nodes: int, placed: int, waiting: int) -> None:
    """Write the pages of both lists, and a load-watcher's answer."""
    listed = {
        "nodes": (_node(number) for number in range(nodes)),
        "pods": (_pod(number, nodes if number < placed else 0) for number in range(placed + waiting)),
    }
    for resource, objects in listed.items():
        pages = list(_pages(objects))
        for number, page in enumerate(pages):
            following = str(number + 1) if number + 1 < len(pages) else ""
            metadata = {"resourceVersion": "999999", "continue": following}
            (directory / f"{resource}-{number:03d}.json").write_text(json.dumps({"metadata": metadata, "items": page}))
    loads = watcher.node_loads(watcher.cpu_loads([node_name(number) for number in range(nodes)]))
    (directory / LOADS).write_text(json.dumps(watcher.answer(loads, _FIRST_CREATED)))


def _pages(objects: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while page := list(islice(objects, PAGE)):
        yield page


def _node(number: int) -> dict[str, Any]:
    manifest = node(number)
    manifest["metadata"]["resourceVersion"] = str(number + 1)
    manifest["status"]["addresses"] = [
        {"type": "InternalIP", "address": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"}
    ]
    return manifest


def _pod(number: int, nodes: int) -> dict[str, Any]:
    """Return a running pod on one of so many nodes; with 0, one that waits."""
    manifest = listed_pod(number)
    manifest["metadata"]["creationTimestamp"] = at(_FIRST_CREATED + number // _CREATED_PER_SECOND)
    if nodes:
        manifest["spec"]["nodeName"] = node_name(number % nodes)
    else:
        manifest["status"] = {"phase": "Pending"}
    return manifest


def measure(root: Path, pages: Path) -> dict[str, float]:
    """Run a checkout's lists in a process of its own.

    Raises:
        RuntimeError: that checkout cannot be measured; the text says why.
    """
    if not (root / "scheduler" / "engine").is_dir():
        raise RuntimeError(f"{root}: no checkout of this project")
    child = Path(__file__).with_name("listing.py")
    environment = {**os.environ, "PYTHONPATH": str(root)}
    # -P: the first place for modules is that checkout, not the folder of the script.
    command = [interpreter(root), "-P", str(child), str(pages)]
    answer = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise RuntimeError(f"{root}: {answer.stderr.strip().rpartition(chr(10))[2]}")
    answered: dict[str, float] = json.loads(answer.stdout)
    seconds = {resource: answered[f"{resource}_seconds"] for resource in ("nodes", "pods", "loads")}
    return {
        "node_us": 1e6 * seconds["nodes"] / answered["nodes"],
        "pod_us": 1e6 * seconds["pods"] / answered["pods"],
        "ms": 1e3 * (seconds["nodes"] + seconds["pods"]),
        "load_us": 1e6 * seconds["loads"] / answered["loads"],
        "source_ms": 1e3 * answered["source_seconds"],
        "nodes": answered["nodes"],
        "pods": answered["pods"],
        "loads": answered["loads"],
    }


def table(rounds: Sequence[Mapping[str, Mapping[str, float]]]) -> Iterable[str]:
    """Yield a line per figure and checkout: median, least and most, and the median of its ratios to ours."""
    for figure, unit in UNITS.items():
        for name in rounds[0]:
            values = [figures[name][figure] for figures in rounds]
            line = f"{name:<12} {text_of(values)} {unit}"
            if name != OURS:
                ratios = [figures[OURS][figure] / figures[name][figure] for figures in rounds]
                line += f"; ours: {text_of(ratios)} of it"
            yield line


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks lists", description=__doc__)
    add_checkouts(parser)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--placed", type=int, default=1000, help="pods on the nodes")
    parser.add_argument("--waiting", type=int, default=10_000, help="pods without a node")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(arguments)
    if min(options.nodes, options.placed + options.waiting, options.rounds) < 1:
        parser.error("--nodes, --placed and --waiting together, --rounds: at least 1")
    roots = checkouts(parser, options.before)
    rounds = []
    with tempfile.TemporaryDirectory() as directory:
        write_pages(Path(directory), options.nodes, options.placed, options.waiting)
        for number in range(1, options.rounds + 1):
            measured = {name: measure(roots[name], Path(directory)) for name in order_of(roots, number)}
            rounds.append({name: measured[name] for name in roots})
    print("\n".join(table(rounds)))
    return 0
