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
    for number, queue in enumerate(answer["queues"]):
        if number:
            yield ""
        yield from map(printable, _queue(queue, namespaces))


def _queue(queue: Json, namespaces: Sequence[str]) -> Iterator[str]:
    total, readable, items = queue["pods"], queue["readable"], queue["items"]
    if not total:
        yield f"{queue['queue']}: no pods"
        return
    own = f", {readable or 'none'} of them in {', '.join(namespaces)}" if namespaces else ""
    yield f"{queue['queue']}: {counted(total, 'pod')}{own}"
    if not items:
        return
    place = {"active": ["#"], "backoff": ["TRIED AGAIN IN"]}.get(queue["queue"], [])
    last = "GATE" if queue["queue"] == "gated" else "REJECTED BY"
    rows = [[*place, "POD", "PRIORITY", "WAITS", "SINCE", "ATTEMPTS", last]]
    rows += [_row(item) for item in items]
    yield from (f"  {line}" for line in aligned(rows))
    if readable > len(items):
        yield f"  and {readable - len(items)} more (--limit)"


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
