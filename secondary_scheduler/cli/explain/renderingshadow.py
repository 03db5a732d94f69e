"""Where a shadow profile decides otherwise, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import aligned, counted

Json = Mapping[str, Any]
_WORDS = {
    "sameNode": "on the same node",
    "otherNode": "on another node",
    "onlyLivePlaced": "placed by the live profile only",
    "onlyShadowPlaced": "placed by the shadow only",
    "neitherPlaced": "placed by neither",
}


def lines(answer: Json) -> Iterator[str]:
    """Yield the text: the counts of each profile, and the last differences."""
    for profile in answer["profiles"]:
        compared = profile["compared"]
        total = counted(sum(compared.values()), "decision")
        yield printable(f"{profile['schedulerName']} and its shadow {profile['shadow']}: {total} compared")
        shares = [f"{compared[outcome]} {words}" for outcome, words in _WORDS.items() if compared.get(outcome)]
        if shares:
            yield f"  {', '.join(shares)}"
    items = answer["items"]
    if not items:
        yield "No differences are remembered."
    for item in items:
        yield ""
        yield from map(printable, _difference(item))


def _difference(item: Json) -> Iterator[str]:
    shadow = item["shadowNode"] or "nowhere"
    if item["shadowTies"] > 1:
        shadow += f" (or {item['shadowTies'] - 1} equally good)"
    yield f"{item['pod']}: {item['liveNode'] or 'nowhere'}; {item['shadow']}: {shadow} ({item['time']})"
    if item["shadowMessage"]:
        yield f"  {item['shadowMessage']}"
    judged = [(item["schedulerName"], node) for node in item["liveJudges"]]
    judged += [(item["shadow"], node) for node in item["shadowJudges"]]
    plugins = sorted({plugin for _, node in judged for plugin in node["scores"]})
    rows = [["PROFILE", "NODE", "TOTAL", *plugins]]
    for profile, node in judged:
        if node["rejected_by"]:
            rows.append([profile, node["node"], "-", f"{node['rejected_by']}: {node['reason']}"])
        else:
            scores = [str(node["scores"].get(plugin, "-")) for plugin in plugins]
            rows.append([profile, node["node"], str(node["total"]), *scores])
    yield from (f"  {line}" for line in aligned(rows))
