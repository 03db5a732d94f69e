"""What waits to be scheduled, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import aligned, counted

Json = Mapping[str, Any]


def merged(answers: Sequence[Json], namespaces: Sequence[str], limit: int) -> dict[str, Any]:
    """Return the answers about several namespaces as one; `namespaces` is empty where all were asked for.

    Totals are those of the last answer: they are of the whole queue, and answers are some milliseconds apart.
    """
    queues = []
    for number, latest in enumerate(answers[-1]["queues"]):
        parts = [answer["queues"][number] for answer in answers]
        items = sorted((item for part in parts for item in part["items"]), key=_order)
        readable = sum(part["readable"] for part in parts)
        queues.append({**latest, "readable": readable, "items": items[:limit]})
    shown = {key: value for key, value in answers[-1].items() if key != "namespace"}
    return {**shown, "namespaces": list(namespaces), "queues": queues}


def _order(item: Json) -> tuple[float, float, float]:
    """Active pods by position, those that back off by its end, all others by how long they wait."""
    return item.get("position", 0), item.get("backoffSeconds", 0.0), -item["seconds"]


def lines(answer: Json) -> Iterator[str]:
    """Yield the text: a paragraph for each queue."""
    namespaces = answer["namespaces"]
    if answer.get("simulated"):
        yield "Each pending pod of the snapshot, after one attempt in queue order:"
        yield ""
    for number, queue in enumerate(answer["queues"]):
        if number:
            yield ""
        yield from map(printable, _queue(queue, namespaces, simulated=bool(answer.get("simulated"))))
    if answer.get("others"):
        counts = ", ".join(f"{number} of {name}" for name, number in answer["others"].items())
        yield ""
        yield printable(f"Pending pods of other schedulers, which are not decided: {counts}")


def _queue(queue: Json, namespaces: Sequence[str], *, simulated: bool) -> Iterator[str]:
    total, readable, items = queue["pods"], queue["readable"], queue["items"]
    if not total:
        yield f"{queue['queue']}: no pods"
        return
    own = f", {readable or 'none'} of them in {', '.join(namespaces)}" if namespaces else ""
    yield f"{queue['queue']}: {counted(total, 'pod')}{own}"
    if not items:
        return
    rows = _simulated_rows(queue["queue"], items) if simulated else _rows(queue["queue"], items)
    yield from (f"  {line}" for line in aligned(rows))
    if readable > len(items):
        yield f"  and {readable - len(items)} more (--limit)"


def _rows(name: str, items: Sequence[Json]) -> Iterator[list[str]]:
    place = {"active": ["#"], "backoff": ["TRIED AGAIN IN"]}.get(name, [])
    last = "GATE" if name == "gated" else "REJECTED BY"
    yield [*place, "POD", "PRIORITY", "WAITS", "SINCE", "ATTEMPTS", last]
    yield from map(_row, items)


def _simulated_rows(name: str, items: Sequence[Json]) -> Iterator[list[str]]:
    active = name == "active"
    last = {"active": "WOULD GO TO", "unschedulable": "REJECTED BY"}.get(name, "WHY")
    yield [*(["#"] if active else []), "POD", "PRIORITY", "WAITS", "SINCE", last]
    for item in items:
        waits = "-" if item["seconds"] is None else f"{item['seconds']:.0f} s"
        priority = "-" if item["priority"] is None else str(item["priority"])
        why = str(item["node"] if active else item["why"])
        place = [str(item["position"])] if active else []
        yield [*place, item["pod"], priority, waits, item["since"] or "-", why]


def _row(item: Json) -> list[str]:
    place = []
    if "position" in item:
        place = [str(item["position"])]
    elif "backoffSeconds" in item:
        place = [f"{item['backoffSeconds']:.0f} s"]
    gate = item.get("gate")
    why = f"{gate['plugin']}: {gate['message']}" if gate else ", ".join(item["rejectedBy"]) or "-"
    waits = f"{item['seconds']:.0f} s"
    return [*place, item["pod"], str(item["priority"]), waits, item["since"], str(item["attempts"]), why]
