"""What the scheduler remembers of a pod, for people."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import typer

from secondary_scheduler.cli.errors import CommandError, printable
from secondary_scheduler.cli.output import FullOutputFormat, aligned, counted, document_text, fitted, text_width


def write(
    answer: Mapping[str, Any], output: FullOutputFormat, lines: Callable[[Mapping[str, Any], bool], Iterable[str]]
) -> None:
    """Write an answer to stdout.

    Args:
        answer: JSON-ready.
        output: its form.
        lines: renders it for people, `wide` or not.

    Raises:
        CommandError: the answer is of a scheduler of another version, which `lines` does not understand.
    """
    if output.is_document:
        typer.echo(document_text(answer, output), nl=False)
        return
    wide = output is FullOutputFormat.WIDE
    try:
        text = list(lines(answer, wide))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CommandError(
            "the answer is of a scheduler of another version, which this command does not understand: use the command "
            "of that version, or -o json"
        ) from error
    for line in text if wide else fitted(text):
        typer.echo(line)


Json = Mapping[str, Any]
_WIDTH = 110
_MOST_NAMED = 5
_LOAD = "LOAD (CPU, MEMORY, AGE)"
_NOT_KEPT = (
    "The scores of this decision were not kept: it was one of many at a time, and details may take a share of the time "
    "only (--decision-details)."
)


def lines(answer: Json, *, wide: bool) -> Iterator[str]:
    """Yield the text about a pod: its last attempt in full, where it waits, and the attempts before.

    Args:
        answer: a DecisionList about one pod, with at least one decision, `waiting` or `forgotten`; with `deployment` if
            it is about one of its pods.
        wide: show each score as computed, scaled and weighted, not only weighted.
    """
    items: Sequence[Json] = answer.get("items") or ()
    parts: list[Iterator[str]] = []
    if answer.get("deployment"):
        parts.append(_deployment(answer["deployment"]))
    if answer.get("forgotten"):
        parts.append(_forgotten(answer["forgotten"], answer))
    if items:
        parts.append(_decision(items[0], answer.get("history") or {}, wide=wide))
    if answer.get("waiting"):
        parts.append(_waiting(answer["waiting"], items[0].get("details") if items else None, wide=wide))
    if (answer.get("whyNot") or {}).get("verdict"):
        parts.append(_why_not(answer["whyNot"], wide=wide))
    for number, part in enumerate(parts):
        if number:
            yield ""
        yield from map(printable, part)
    if len(items) > 1:
        yield ""
        yield "Earlier attempts:"
        rows = [[str(item["time"]), _outcome(item), str(item.get("message") or "")] for item in items[1:]]
        yield from (printable(f"  {line}") for line in aligned(rows))


def _deployment(summary: Json) -> Iterator[str]:
    """The pods of a Deployment, and which of them is explained."""
    waiting, nodes, explained = summary["waiting"], summary["nodes"], summary["explained"]
    fullest = sorted(nodes.items(), key=lambda counts: (-counts[1], counts[0]))
    placed = ", ".join(f"{number} on {node}" for node, number in fullest[:_MOST_NAMED])
    shares = [f"{len(waiting)} of them waiting"] if waiting else []
    shares += [f"{placed}{_more(len(nodes), 'node')}"] if placed else []
    yield f"Deployment {summary['name']}: {counted(summary['pods'], 'pod')}; {'; '.join(shares)}."
    why = "which waits longest" if waiting else "the newest"
    others = [name for name in waiting if name != explained]
    also = f" (also waiting: {', '.join(others[:_MOST_NAMED])}{_more(len(others), 'pod')})" if others else ""
    if summary["pods"] > 1:
        yield f"About {explained}, {why}{also}:"


def _more(number: int, noun: str) -> str:
    """How many of these are not named."""
    return f", and {counted(number - _MOST_NAMED, f'more {noun}')}" if number > _MOST_NAMED else ""


def _forgotten(placed: Json, answer: Json) -> Iterator[str]:
    """Where a pod is whose decision is no longer known, and what would be decided now, unless another node is asked
    about."""
    verdict = answer["whyNot"]["verdict"]
    if answer["whyNot"]["node"] != placed["node"]:
        now = ""
    elif verdict["rejection"] is not None:
        rejection = verdict["rejection"]
        now = f"{rejection['plugin']} would reject it ({', '.join(rejection['reasons'])})"
    elif verdict["rank"] is not None:
        now = f"it fits there, number {verdict['rank']} of {counted(verdict['feasible'], 'node')} that fit"
    else:
        now = str(verdict["error"])
    restart = f" before the restart at {placed['before']}" if placed["before"] else ""
    yield f"{placed['pod']}: placed on {placed['node']}{restart}{now and f'; judged now: {now}'}"
    when = f" at {placed['time']}" if placed["time"] else ""
    yield f"  {placed['schedulerName']} placed it{when}, and why is no longer known:"
    if restart:
        yield "  its process ended without handing its history over, as after a crash, or without another replica."
    else:
        yield f"  the history reaches back to {placed['historySince']} (--decision-history)."


def _decision(item: Json, history: Json, *, wide: bool) -> Iterator[str]:
    attempt = f"attempt {item['attempt']}" if item["attempt"] else "simulated" if item.get("simulated") else "under way"
    if "waitedSeconds" in item:
        attempt += f", after {item['waitedSeconds']} s"
    yield f"{item['pod']}: {_outcome(item)} ({attempt}, {item['time']}, {item['schedulerName']})"
    yield from (f"  {line}" for line in textwrap.wrap(str(item.get("message") or ""), text_width(_WIDTH, 4)))
    if item.get("decidedBy"):
        yield f"  decided by {item['decidedBy']}, which led before and handed its history over"
    if item.get("victimCount"):
        named = ", ".join(item["victims"])
        others = item["victimCount"] - len(item["victims"])
        rest = f"{others} of other namespaces" if others else ""
        yield f"  preempts on {item.get('nominatedNode') or '-'}: {' and '.join(filter(None, (named, rest)))}"
    details = item.get("details")
    if details is None and item.get("simulated"):
        return
    yield ""
    if details is None:
        if item["evaluatedNodes"]:
            yield f"{item['feasibleNodes']} of {item['evaluatedNodes']} nodes fit. {_NOT_KEPT}"
            if decisions := history.get("decisions"):
                kept = history["withDetails"]
                share = f"{100 * kept / decisions:.0f} %"
                yield f"Of {counted(decisions, 'decision')} since {history['since']}, {kept} have theirs ({share})."
        else:
            yield "No node was looked at."
        return
    # A node may fit a pod that gets none: the other members of its gang had no room, or it was not reserved or bound.
    instead = "" if item.get("node") else " the pod by itself; it was given none, for the reason above"
    yield from _details(details if item.get("node") else _without_choice(details), wide=wide, instead=instead)


def _without_choice(details: Json) -> Json:
    """The details of a decision that came to nothing."""
    return {**details, "nodes": [{**node, "chosen": False} for node in details["nodes"]]}


def _details(details: Json, *, wide: bool, instead: str = "") -> Iterator[str]:
    """What fits and what does not; `instead` ends the sentence about nodes that fit where none was given."""
    if details.get("error"):
        yield f"Nothing can be said about any of {counted(details['evaluated'], 'node')}: {details['error']}"
        return
    ties = f", {details['ties']} of them equally well" if details["ties"] > 1 else ""
    if details.get("nominated"):
        yield "It fits where preemption made room for it; no other node was looked at."
    else:
        ending = instead if details["feasible"] else ""
        yield f"{details['feasible']} of {details['evaluated']} nodes fit{ties}{ending}."
    if details["nodes"]:
        yield from _scoreboard(details["nodes"], wide=wide)
    if details["rejected"]:
        yield "Rejected:"
        yield from (f"  {line}" for line in aligned(_rejections(details["rejected"])))
    if details.get("taken_back"):
        yield "Rejected, and taken back as no node was left:"
        yield from (f"  {line}" for line in aligned(_rejections(details["taken_back"])))
    if details.get("shortage"):
        yield from _shortage(details["shortage"])


def _shortage(shortage: Json) -> Iterator[str]:
    too_small = f", {shortage['too_small']} of them even when empty" if shortage["too_small"] else ""
    yield f"Nothing but room is missing on {counted(shortage['nodes'], 'node')}{too_small}."
    for lacking in shortage["nearest"]:
        amounts = ", ".join(f"{amount} {resource}" for resource, amount in lacking["missing"].items())
        yield f"  {lacking['node']} lacks {amounts}"


def _outcome(item: Json) -> str:
    node = item.get("node")
    return f"{item['result']} on {node}" if node else str(item["result"])


def _scoreboard(nodes: Sequence[Json], *, wide: bool) -> Iterator[str]:
    plugins = sorted({plugin for node in nodes for plugin in node["scores"]})
    load_column = [_LOAD] if any(node["load"] for node in nodes) else []
    rows = [["", "NODE", "TOTAL", *plugins, *load_column]]
    for node in nodes:
        scores = [_score(node["scores"].get(plugin), wide=wide) for plugin in plugins]
        load = [_load(next(iter(node["load"].values()), None)) for _ in load_column]
        rows.append(["*" if node["chosen"] else "", node["name"], str(node["total"]), *scores, *load])

    def spread(plugin: str) -> int:
        points = [node["scores"][plugin]["weighted"] if plugin in node["scores"] else 0 for node in nodes]
        return int(max(points) - min(points))

    # A narrow terminal keeps longest what tells the nodes apart.
    by_spread = sorted(plugins, key=spread)
    alike = sum(spread(plugin) == 0 for plugin in plugins)
    spare = [*by_spread[:alike], *load_column, *by_spread[alike:]]
    yield from (f"  {line}" for line in aligned(rows, spare, whole=wide))


def _score(score: Json | None, *, wide: bool) -> str:
    if score is None:
        return "-"
    return f"{score['raw']}/{score['normalized']}/{score['weighted']}" if wide else str(score["weighted"])


def _load(load: Json | None) -> str:
    if load is None:
        return "not measured"
    cpu, memory = ("-" if value is None else f"{value:.0f}%" for value in (load["cpu"], load["memory"]))
    return f"{cpu} {memory} {'-' if load['age'] is None else format(load['age'], '.0f') + ' s'}"


def _rejections(groups: Iterable[Json]) -> Iterator[list[str]]:
    for group in groups:
        names = ", ".join(group["examples"])
        more = ", …" if 0 < len(group["examples"]) < group["nodes"] else ""
        yield [counted(group["nodes"], "node"), group["plugin"], group["reason"], names + more]


def _waiting(waiting: Json, last: Json | None, *, wide: bool) -> Iterator[str]:
    """Where a pod waits, and what is so now; `last` has the details of its last attempt, which stand above."""
    extra = ""
    if "podsAhead" in waiting:
        extra = f", {counted(waiting['podsAhead'], 'pod')} first"
    elif "backoffSeconds" in waiting:
        extra = f", tried again in {waiting['backoffSeconds']} s"
    queue, seconds, attempts = waiting["queue"], waiting["seconds"], waiting["attempts"]
    yield f"It waits in the {queue} queue for {seconds} s, after {counted(attempts, 'attempt')}{extra}."
    if waiting.get("gate"):
        yield f"  {waiting['gate']['plugin']}: {waiting['gate']['message']}"
    if waiting.get("now") and last is not None and waiting["now"] == _without_choice(last):
        yield "At this moment all of that is still so."
    elif waiting.get("now"):
        yield "At this moment:"
        yield from (f"  {line}" for line in _details(waiting["now"], wide=wide))
    events = {plugin: names for plugin, names in waiting["wokenBy"].items() if names}
    if events:
        yield "It is tried again when one of these may help:"
        yield from (f"  {line}" for line in aligned([plugin, ", ".join(names)] for plugin, names in events.items()))


def _why_not(answer: Json, *, wide: bool) -> Iterator[str]:
    node, verdict, placed_on = answer["node"], answer["verdict"], answer["placedOn"]
    own_use = f", and without the pod's own use on {placed_on}" if placed_on else ""
    if node == placed_on:
        yield f"Judged on {node}, as it is now, and without the pod's own use there:"
    else:
        yield f"Why not {node} (judged as it is now{own_use}):"
    if verdict.get("error"):
        yield f"  Nothing can be said about any node: {verdict['error']}"
        return
    rejection = verdict["rejection"]
    if rejection is None:
        equally = f", as well as {counted(verdict['ties'] - 1, 'other')}" if verdict["ties"] > 1 else ""
        yield f"  It fits there: rank {verdict['rank']} of {counted(verdict['feasible'], 'node')} that fit{equally}."
    else:
        beside = " beside the pods that are nominated to it; without these it fits" if verdict["nominated"] else ""
        yield f"  {rejection['plugin']} rejects it: {', '.join(rejection['reasons'])}{beside}"
    rejecting = [each for each in verdict["verdicts"] if each["code"] not in ("Success", "Skip")]
    for each in (each for each in rejecting if each.get("stepped_back")):
        yield f"  {each['plugin']} steps back, as no node would be left: {', '.join(each['reasons'])}"
    objecting = [each for each in rejecting if not each.get("stepped_back")]
    if len(objecting) > 1:
        yield "  Every plugin that rejects it, whatever the others say:"
        rows = [[each["plugin"], each["point"], each["code"], ", ".join(each["reasons"])] for each in objecting]
        yield from (f"    {line}" for line in aligned(rows))
    passed = [each["plugin"] for each in verdict["verdicts"] if each["code"] == "Success"]
    if passed:
        yield from textwrap.wrap(
            f"Passed: {', '.join(passed)}", text_width(_WIDTH, 4), initial_indent="  ", subsequent_indent="    "
        )
    if verdict["nodes"]:
        if rejection is not None:
            yield "  Where it fits:"
        yield from _scoreboard(verdict["nodes"], wide=wide)
