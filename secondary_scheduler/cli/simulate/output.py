"""Results as JSON or YAML, written decision by decision, or as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import IO, Any

import msgspec

from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import aligned
from secondary_scheduler.cli.simulate.options import Detail
from secondary_scheduler.simulation.deciding import Outcome

API_VERSION = "secondary-scheduler.io/v1"
KIND = "SimulationResult"
_CHUNK = 1 << 16
_encode = msgspec.json.Encoder().encode


def write_json(outcomes: Iterable[Outcome], out: IO[bytes], detail: Detail) -> None:
    """Write the result; one decision per line."""
    out.write(b'{"apiVersion":' + _encode(API_VERSION) + b',"kind":' + _encode(KIND) + b',"decisions":[')
    separator = b"\n"
    for outcome in outcomes:
        buffer = bytearray(separator)
        # Without its closing brace: the nodes follow one by one.
        buffer += _encode(_head(outcome))[:-1]
        buffer += b',"nodes":{'
        comma = b""
        for name, node in _nodes(outcome, detail):
            buffer += comma + _encode(name) + b":" + _encode(node)
            comma = b","
            if len(buffer) > _CHUNK:
                out.write(buffer)
                buffer.clear()
        out.write(buffer + b"}}")
        separator = b",\n"
    out.write(b"\n]}\n")
    out.flush()


def write_yaml(outcomes: Iterable[Outcome], out: IO[bytes], detail: Detail) -> None:
    """Write the result as YAML."""
    # Here, since JSON and tables need no YAML library to be imported.
    from secondary_scheduler.yamltext import dump_yaml

    out.write(f"apiVersion: {API_VERSION}\nkind: {KIND}\ndecisions:".encode())
    ending = b" []\n"
    for outcome in outcomes:
        decision = {**_head(outcome), "nodes": dict(_nodes(outcome, detail))}
        out.write(b"\n" + dump_yaml([decision]).removesuffix(b"\n"))
        ending = b"\n"
    out.write(ending)
    out.flush()


def write_table(outcomes: Iterable[Outcome], out: IO[bytes], *, wide: bool) -> None:
    """Write a line per pod; `wide` adds the plugins' weighted scores for the chosen node."""
    header = ["POD", "NODE", "SCORE", "FEASIBLE", *(["SCORES"] if wide else []), "MESSAGE"]
    rows = [header]
    for outcome in outcomes:
        placement, node = outcome.placement, outcome.node
        total, feasible, scores = "-", "-", "-"
        if placement is not None:
            feasible = f"{placement.feasible}/{placement.evaluated}"
            total = str(placement.total) if node is not None and placement.feasible > 1 else "-"
        if node is not None and outcome.explanation is not None:
            chosen = outcome.explanation.node(node)
            total = str(chosen.total)
            scores = ",".join(f"{plugin}={score.weighted}" for plugin, score in chosen.scores.items()) or "-"
        message = outcome.message or "; ".join(_remarks(outcome))
        row = [outcome.pod, node or "-", total, feasible, *([scores] if wide else []), message]
        rows.append([printable(cell) for cell in row])
    out.write("".join(f"{line}\n" for line in aligned(rows, ("FEASIBLE", "SCORE"), whole=wide)).encode())
    out.flush()


def _remarks(outcome: Outcome) -> Iterable[str]:
    if outcome.victims:
        yield f"after removing {', '.join(outcome.victims)}"
    if outcome.placement is not None and outcome.placement.remark:
        yield outcome.placement.remark


def _head(outcome: Outcome) -> dict[str, Any]:
    head: dict[str, Any] = {
        "pod": outcome.pod,
        "schedulerName": outcome.scheduler_name,
        "node": outcome.node,
        "message": outcome.message,
    }
    if outcome.victims:
        head["victims"] = list(outcome.victims)
    if outcome.node is not None and outcome.placement is not None and outcome.placement.remark:
        head["remark"] = outcome.placement.remark
    return head


def _nodes(outcome: Outcome, detail: Detail) -> Iterable[tuple[str, Mapping[str, Any]]]:
    if outcome.explanation is None:
        return
    for name, node in outcome.explanation.nodes(detail):
        yield name, node.to_dict()
