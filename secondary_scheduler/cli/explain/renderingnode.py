"""What the scheduler knows of a node, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import aligned, counted

Json = Mapping[str, Any]


def lines(answer: Json) -> Iterator[str]:
    """Yield the text about a node; `lastChosen` is None where the pods may not be named."""
    yield from map(printable, _facts(answer))
    yield ""
    yield from map(printable, _coming(answer) if answer.get("simulated") else _history(answer))


def _facts(answer: Json) -> Iterator[str]:
    pods = answer["pods"]
    owners = ", ".join(f"{number} of {name or 'others'}" for name, number in pods["byScheduler"].items())
    cordoned = ", unschedulable" if answer["unschedulable"] else ""
    count = f"{pods['counted']} of {counted(pods['allowed'], 'pod')}"
    yield f"{answer['node']}: {count}{f' ({owners})' if owners else ''}{cordoned}"
    requested = answer["requested"]
    rows = [["RESOURCE", "ALLOCATABLE", "REQUESTED"]]
    rows += [[resource, amount, requested.get(resource, "0")] for resource, amount in answer["allocatable"].items()]
    yield from (f"  {line}" for line in aligned(rows))
    for taint in answer["taints"]:
        value = f"={taint['value']}" if taint["value"] else ""
        yield f"Taint: {taint['key']}{value}:{taint['effect']}"
    for source, load in answer["load"].items():
        cpu, memory = ("-" if value is None else f"{value:.0f}%" for value in (load["cpu"], load["memory"]))
        age = "" if load["age"] is None else f", {load['age']:.0f} s old"
        yield f"Load: cpu {cpu}, memory {memory}{age} ({source})"
    if not answer["load"]:
        yield "Load: not measured"


def _coming(answer: Json) -> Iterator[str]:
    yield f"Of {counted(answer['pending'], 'pending pod')} of the snapshot, {answer['placed']} would be placed there."
    rows = [[item["pod"], item["schedulerName"]] for item in answer["wouldPlace"]]
    yield from (f"  {line}" for line in aligned(rows))
    if answer["placed"] > len(rows):
        yield f"  and {answer['placed'] - len(rows)} more (--limit)"


def _history(answer: Json) -> Iterator[str]:
    chosen, rejected = answer["chosen"], answer["rejected"]
    yield f"Chosen by {chosen['times']} of the last {counted(chosen['decisions'], 'decision')}."
    if rejected["byPlugin"]:
        yield f"Of the last {counted(rejected['decisions'], 'decision')} with details, rejected first by:"
        rows = [[plugin, str(times)] for plugin, times in rejected["byPlugin"].items()]
        yield from (f"  {line}" for line in aligned(rows))
    elif rejected["decisions"]:
        yield f"Rejected by none of the last {counted(rejected['decisions'], 'decision')} with details."
    if answer.get("lastChosen"):
        yield "Placed there last:"
        rows = [[item["time"], item["pod"], item["result"], item["schedulerName"]] for item in answer["lastChosen"]]
        yield from (f"  {line}" for line in aligned(rows))
