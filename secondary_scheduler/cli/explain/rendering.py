"""The answers of `explain` for people: about a pod, the queue, a node, and shadow profiles."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import typer

from scheduler.answers import (
    Decision,
    DecisionDetail,
    DecisionList,
    DeploymentPods,
    Document,
    ForgottenDecision,
    GangReport,
    HistoryCoverage,
    LoadInput,
    NodeReport,
    Queue,
    QueueReport,
    RejectedNodes,
    Score,
    ScoredNode,
    ShadowDifference,
    ShadowReport,
    Shortage,
    TriedAgain,
    WaitingPod,
    WhyNot,
)
from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import FullOutputFormat, aligned, counted, document_text, fitted, text_width

_WIDTH = 110
_MAX_NAMES = 5
_LOAD = "LOAD (CPU, MEMORY, AGE)"
_WITHOUT_DETAILS = (
    "The scores of this decision were not kept: it was one of many at a time, and details may take a share of the time "
    "only (--decision-details)."
)


def pod_lines(answer: DecisionList, *, wide: bool) -> Iterator[str]:
    """Yield the text about a pod: its last attempt in full, where it waits, and the attempts before.

    Args:
        answer: about one pod, with at least one decision, `waiting` or `forgotten`.
        wide: show each score as computed, scaled and weighted, not only weighted.
    """
    items = answer.items
    parts: list[Iterator[str]] = []
    if answer.deployment:
        parts.append(_deployment(answer.deployment))
    if answer.forgotten and answer.why_not:
        parts.append(_forgotten(answer.forgotten, answer.why_not))
    if items:
        parts.append(_decision(items[0], answer.history, wide=wide))
    if answer.waiting:
        parts.append(_waiting(answer.waiting, items[0].details if items else None, wide=wide))
    if answer.why_not and answer.why_not.verdict:
        parts.append(_why_not(answer.why_not, wide=wide))
    for number, part in enumerate(parts):
        if number:
            yield ""
        yield from part
    if len(items) > 1:
        yield ""
        yield "Earlier attempts:"
        yield from _indented([item.time, _outcome(item), item.message or ""] for item in items[1:])


def _indented(rows: Iterable[Sequence[str]], spare: Sequence[str] = (), *, whole: bool = False) -> Iterator[str]:
    yield from (f"  {line}" for line in aligned(rows, spare, whole=whole))


def _deployment(summary: DeploymentPods) -> Iterator[str]:
    """The pods of a Deployment or PodGroup, and which of them is explained."""
    waiting, nodes, explained = summary.waiting, summary.nodes, summary.explained
    fullest = sorted(nodes.items(), key=lambda counts: (-counts[1], counts[0]))
    placed = ", ".join(f"{number} on {node}" for node, number in fullest[:_MAX_NAMES])
    shares = [f"{len(waiting)} of them waiting"] if waiting else []
    shares += [f"{placed}{_more(len(nodes), 'node')}"] if placed else []
    yield f"{summary.kind} {summary.name}: {counted(summary.pods, 'pod')}; {'; '.join(shares)}."
    why = "which waits longest" if waiting else "the newest"
    others = [name for name in waiting if name != explained]
    also = f" (also waiting: {', '.join(others[:_MAX_NAMES])}{_more(len(others), 'pod')})" if others else ""
    if summary.pods > 1:
        yield f"About {explained}, {why}{also}:"


def _more(number: int, noun: str) -> str:
    """How many of these are not named."""
    return f", and {counted(number - _MAX_NAMES, f'more {noun}')}" if number > _MAX_NAMES else ""


def _forgotten(placed: ForgottenDecision, why_not: WhyNot) -> Iterator[str]:
    """Where a pod is whose decision is no longer known, and what would be decided now, unless another node is asked
    about."""
    now, verdict = "", why_not.verdict
    if verdict is not None and why_not.node == placed.node:
        if verdict.rejection is not None:
            now = f"{verdict.rejection.plugin} would reject it ({', '.join(verdict.rejection.reasons)})"
        elif verdict.rank is not None:
            now = f"it fits there, number {verdict.rank} of {counted(verdict.feasible, 'node')} that fit"
        else:
            now = str(verdict.error)
    restart = f" before the restart at {placed.before}" if placed.before else ""
    yield f"{placed.pod}: placed on {placed.node}{restart}{now and f'; judged now: {now}'}"
    when = f" at {placed.time}" if placed.time else ""
    yield f"  {placed.scheduler_name} placed it{when}, and why is no longer known:"
    if restart:
        yield "  its process ended without handing its history over, as after a crash, or without another replica."
    else:
        yield f"  the history reaches back to {placed.history_since} (--decision-history)."


def _decision(item: Decision, history: HistoryCoverage | None, *, wide: bool) -> Iterator[str]:
    attempt = f"attempt {item.attempt}" if item.attempt else "simulated" if item.simulated else "under way"
    if item.waited_seconds is not None:
        attempt += f", after {item.waited_seconds} s"
    yield f"{item.pod}: {_outcome(item)} ({attempt}, {item.time}, {item.scheduler_name})"
    yield from (f"  {line}" for line in textwrap.wrap(item.message or "", text_width(_WIDTH, 4)))
    if item.decided_by:
        yield f"  decided by {item.decided_by}, which led before and handed its history over"
    if item.victim_count:
        victims = item.victims or ()
        others = item.victim_count - len(victims)
        rest = f"{others} of other namespaces" if others else ""
        yield f"  preempts on {item.nominated_node or '-'}: {' and '.join(filter(None, (', '.join(victims), rest)))}"
    if item.details is None:
        if not item.simulated:
            yield ""
            yield from _without_details(item, history)
        return
    yield ""
    # A node may fit a pod that gets none: the other members of its gang had no room, or it was not reserved or bound.
    instead = "" if item.node else " the pod by itself; it was given none, for the reason above"
    yield from _details(item.details if item.node else _without_choice(item.details), wide=wide, instead=instead)


def _without_details(item: Decision, history: HistoryCoverage | None) -> Iterator[str]:
    if not item.evaluated_nodes:
        yield "No node was looked at."
        return
    yield f"{item.feasible_nodes} of {item.evaluated_nodes} nodes fit. {_WITHOUT_DETAILS}"
    if history is not None and history.decisions:
        share = f"{100 * history.with_details / history.decisions:.0f} %"
        decisions = counted(history.decisions, "decision")
        yield f"Of {decisions} since {history.since}, {history.with_details} have theirs ({share})."


def _without_choice(details: DecisionDetail) -> DecisionDetail:
    """The details of a decision that came to nothing."""
    nodes = tuple(msgspec.structs.replace(node, chosen=False) for node in details.nodes)
    return msgspec.structs.replace(details, nodes=nodes)


def _details(details: DecisionDetail, *, wide: bool, instead: str = "") -> Iterator[str]:
    """What fits and what does not; `instead` ends the sentence about nodes that fit where none was given."""
    if details.error:
        yield f"Nothing can be said about any of {counted(details.evaluated, 'node')}: {details.error}"
        return
    ties = f", {details.ties} of them equally well" if details.ties > 1 else ""
    if details.nominated:
        yield "It fits where preemption made room for it; no other node was looked at."
    else:
        ending = instead if details.feasible else ""
        yield f"{details.feasible} of {details.evaluated} nodes fit{ties}{ending}."
    if details.nodes:
        yield from _scoreboard(details.nodes, wide=wide)
    if details.rejected:
        yield "Rejected:"
        yield from _indented(map(_rejection, details.rejected))
    if details.taken_back:
        yield "Rejected, and taken back as no node was left:"
        yield from _indented(map(_rejection, details.taken_back))
    if details.shortage:
        yield from _shortage(details.shortage)


def _shortage(shortage: Shortage) -> Iterator[str]:
    too_small = f", {shortage.too_small} of them even when empty" if shortage.too_small else ""
    yield f"Nothing but room is missing on {counted(shortage.nodes, 'node')}{too_small}."
    for lacking in shortage.nearest:
        amounts = ", ".join(f"{amount} {resource}" for resource, amount in lacking.missing.items())
        yield f"  {lacking.node} lacks {amounts}"


def _outcome(item: Decision) -> str:
    return f"{item.result} on {item.node}" if item.node else item.result


def _scoreboard(nodes: Sequence[ScoredNode], *, wide: bool) -> Iterator[str]:
    plugins = sorted({plugin for node in nodes for plugin in node.scores})
    load_column = [_LOAD] if any(node.load for node in nodes) else []
    rows = [["", "NODE", "TOTAL", *plugins, *load_column]]
    for node in nodes:
        scores = [_score(node.scores.get(plugin), wide=wide) for plugin in plugins]
        load = [_load(next(iter(node.load.values()), None)) for _ in load_column]
        rows.append(["*" if node.chosen else "", node.name, str(node.total), *scores, *load])

    def spread(plugin: str) -> int:
        points = [node.scores[plugin].weighted if plugin in node.scores else 0 for node in nodes]
        return max(points) - min(points)

    # A narrow terminal keeps longest what tells the nodes apart.
    by_spread = sorted(plugins, key=spread)
    alike = sum(spread(plugin) == 0 for plugin in plugins)
    yield from _indented(rows, [*by_spread[:alike], *load_column, *by_spread[alike:]], whole=wide)


def _score(score: Score | None, *, wide: bool) -> str:
    if score is None:
        return "-"
    return f"{score.raw}/{score.normalized}/{score.weighted}" if wide else str(score.weighted)


def _load(load: LoadInput | None) -> str:
    if load is None:
        return "not measured"
    return f"{_percent(load.cpu)} {_percent(load.memory)} {'-' if load.age is None else f'{load.age:.0f} s'}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"


def _rejection(group: RejectedNodes) -> list[str]:
    more = ", …" if 0 < len(group.examples) < group.nodes else ""
    return [counted(group.nodes, "node"), group.plugin, group.reason, ", ".join(group.examples) + more]


def _waiting(waiting: TriedAgain, last: DecisionDetail | None, *, wide: bool) -> Iterator[str]:
    """Where a pod waits, and what is so now; `last` has the details of its last attempt, which stand above."""
    extra = ""
    if waiting.pods_ahead is not None:
        extra = f", {counted(waiting.pods_ahead, 'pod')} first"
    elif waiting.backoff_seconds is not None:
        extra = f", tried again in {waiting.backoff_seconds} s"
    attempts = counted(waiting.attempts or 0, "attempt")
    yield f"It waits in the {waiting.queue} queue for {waiting.seconds} s, after {attempts}{extra}."
    if waiting.gate:
        yield f"  {waiting.gate.plugin}: {waiting.gate.message}"
    if last is not None and waiting.now == _without_choice(last):
        yield "At this moment all of that is still so."
    else:
        yield "At this moment:"
        yield from (f"  {line}" for line in _details(waiting.now, wide=wide))
    if waiting.gang is not None:
        yield from _gang(waiting.gang)
    if events := [[plugin, ", ".join(names)] for plugin, names in waiting.woken_by.items() if names]:
        yield "It is tried again when one of these may help:"
        yield from _indented(events)


def _gang(gang: GangReport) -> Iterator[str]:
    """What a pod is tried together with, and which domains would take how many."""
    yield (
        f"It is tried with its gang, {gang.name}: {gang.placed} of at least {gang.minimum} members have nodes, "
        f"{gang.waiting} wait."
    )
    if gang.preemption:
        yield f"  {gang.preemption}"
    if gang.obstacle:
        yield f"  {gang.obstacle}"
        return
    if not gang.domains:
        return
    needed = max(1, gang.minimum - gang.placed)
    otherwise = "; any nodes in the end" if gang.anywhere else ""
    domains = counted(gang.domain_count, "domain")
    yield f"All go to one domain of {' or '.join(gang.levels)}{otherwise}. Of {domains} those with most room now:"
    rows = [["DOMAIN", "NODES", "ROOM FOR MEMBERS", ""]]
    for domain in gang.domains:
        missing = needed - domain.room
        rows.append([domain.domain, str(domain.nodes), str(domain.room), f"{missing} too few" if missing > 0 else ""])
    yield from _indented(rows)


def _why_not(answer: WhyNot, *, wide: bool) -> Iterator[str]:
    node, verdict, placed_on = answer.node, answer.verdict, answer.placed_on
    assert verdict is not None  # it is shown only with one
    own_use = f", and without the pod's own use on {placed_on}" if placed_on else ""
    if node == placed_on:
        yield f"Judged on {node}, as it is now, and without the pod's own use there:"
    else:
        yield f"Why not {node} (judged as it is now{own_use}):"
    if verdict.error:
        yield f"  Nothing can be said about any node: {verdict.error}"
        return
    rejection = verdict.rejection
    if rejection is None:
        equally = f", as well as {counted(verdict.ties - 1, 'other')}" if verdict.ties > 1 else ""
        yield f"  It fits there: rank {verdict.rank} of {counted(verdict.feasible, 'node')} that fit{equally}."
    else:
        without = " beside the pods that are nominated to it; without these it fits" if verdict.nominated else ""
        yield f"  {rejection.plugin} rejects it: {', '.join(rejection.reasons)}{without}"
    for plugin in verdict.verdicts:
        if plugin.stepped_back:
            yield f"  {plugin.plugin} steps back, as no node would be left: {', '.join(plugin.reasons)}"
    objecting = (plugin for plugin in verdict.verdicts if plugin.objects)
    rows = [[plugin.plugin, plugin.point, plugin.code, ", ".join(plugin.reasons)] for plugin in objecting]
    if len(rows) > 1:
        yield "  Every plugin that rejects it, whatever the others say:"
        yield from (f"    {line}" for line in aligned(rows))
    if passed := [plugin.plugin for plugin in verdict.verdicts if plugin.code == "Success"]:
        yield from textwrap.wrap(
            f"Passed: {', '.join(passed)}", text_width(_WIDTH, 4), initial_indent="  ", subsequent_indent="    "
        )
    if verdict.nodes:
        if rejection is not None:
            yield "  Where it fits:"
        yield from _scoreboard(verdict.nodes, wide=wide)


# The queue -----------------------------------------------------------------------------------------------------------


def queue_lines(answer: QueueReport) -> Iterator[str]:
    """Yield the text about what waits: a paragraph for each queue."""
    if answer.simulated:
        yield "Each pending pod of the snapshot, after one attempt in queue order:"
        yield ""
    for number, queue in enumerate(answer.queues):
        if number:
            yield ""
        yield from _queue(queue, answer.namespaces or (), simulated=answer.simulated)
    if answer.others:
        counts = ", ".join(f"{number} of {name}" for name, number in answer.others.items())
        yield ""
        yield f"Pending pods of other schedulers, which are not decided: {counts}"


def _queue(queue: Queue, namespaces: Sequence[str], *, simulated: bool) -> Iterator[str]:
    if not queue.pods:
        yield f"{queue.queue}: no pods"
        return
    own = f", {queue.readable or 'none'} of them in {', '.join(namespaces)}" if namespaces else ""
    yield f"{queue.queue}: {counted(queue.pods, 'pod')}{own}"
    if not queue.items:
        return
    yield from _indented(_simulated_rows(queue) if simulated else _rows(queue))
    if queue.readable > len(queue.items):
        yield f"  and {queue.readable - len(queue.items)} more (--limit)"


def _rows(queue: Queue) -> Iterator[list[str]]:
    place = {"active": ["#"], "backoff": ["TRIED AGAIN IN"]}.get(queue.queue, [])
    yield [*place, "POD", "PRIORITY", "WAITS", "SINCE", "ATTEMPTS", "GATE" if queue.queue == "gated" else "REJECTED BY"]
    for item in queue.items:
        rejected_by = ", ".join(item.rejected_by or ()) or "-"
        why = f"{item.gate.plugin}: {item.gate.message}" if item.gate else rejected_by
        yield [*_place(item), *_pod(item), str(item.attempts), why]


def _simulated_rows(queue: Queue) -> Iterator[list[str]]:
    place = {"active": ["#"]}.get(queue.queue, [])
    last = {"active": "WOULD GO TO", "unschedulable": "REJECTED BY"}.get(queue.queue, "WHY")
    yield [*place, "POD", "PRIORITY", "WAITS", "SINCE", last]
    for item in queue.items:
        yield [*_place(item), *_pod(item), item.node or item.why or ""]


def _place(item: WaitingPod) -> list[str]:
    if item.position is not None:
        return [str(item.position)]
    return [] if item.backoff_seconds is None else [f"{item.backoff_seconds:.0f} s"]


def _pod(item: WaitingPod) -> list[str]:
    priority = "-" if item.priority is None else str(item.priority)
    return [item.pod, priority, "-" if item.seconds is None else f"{item.seconds:.0f} s", item.since or "-"]


# A node --------------------------------------------------------------------------------------------------------------


def node_lines(answer: NodeReport) -> Iterator[str]:
    """Yield the text about a node."""
    yield from _node(answer)
    yield ""
    yield from _coming(answer) if answer.simulated else _history(answer)


def _node(answer: NodeReport) -> Iterator[str]:
    pods = answer.pods
    owners = ", ".join(f"{number} of {name or 'others'}" for name, number in pods.by_scheduler.items())
    cordoned = ", unschedulable" if answer.unschedulable else ""
    count = f"{pods.counted} of {counted(pods.allowed, 'pod')}"
    yield f"{answer.node}: {count}{f' ({owners})' if owners else ''}{cordoned}"
    rows = [[resource, amount, answer.requested.get(resource, "0")] for resource, amount in answer.allocatable.items()]
    yield from _indented([["RESOURCE", "ALLOCATABLE", "REQUESTED"], *rows])
    for taint in answer.taints:
        yield f"Taint: {taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
    for source, load in answer.load.items():
        age = "" if load.age is None else f", {load.age:.0f} s old"
        yield f"Load: cpu {_percent(load.cpu)}, memory {_percent(load.memory)}{age} ({source})"
    if not answer.load:
        yield "Load: not measured"


def _coming(answer: NodeReport) -> Iterator[str]:
    placed, would_place = answer.placed or 0, answer.would_place or ()
    yield f"Of {counted(answer.pending or 0, 'pending pod')} of the snapshot, {placed} would be placed there."
    yield from _indented([item.pod, item.scheduler_name] for item in would_place)
    if placed > len(would_place):
        yield f"  and {placed - len(would_place)} more (--limit)"


def _history(answer: NodeReport) -> Iterator[str]:
    if (chosen := answer.chosen) is not None:
        yield f"Chosen by {chosen.times} of the last {counted(chosen.decisions, 'decision')}."
    if (rejected := answer.rejected) is not None and rejected.decisions:
        decisions = counted(rejected.decisions, "decision")
        if rejected.by_plugin:
            yield f"Of the last {decisions} with details, rejected first by:"
            yield from _indented([plugin, str(times)] for plugin, times in rejected.by_plugin.items())
        else:
            yield f"Rejected by none of the last {decisions} with details."
    if answer.last_chosen:
        yield "Placed there last:"
        yield from _indented([last.time, last.pod, last.result, last.scheduler_name] for last in answer.last_chosen)


# Shadow profiles -----------------------------------------------------------------------------------------------------

_OUTCOMES: Mapping[str, str] = {
    "sameNode": "on the same node",
    "otherNode": "on another node",
    "onlyLivePlaced": "placed by the live profile only",
    "onlyShadowPlaced": "placed by the shadow only",
    "neitherPlaced": "placed by neither",
}


def shadow_lines(answer: ShadowReport) -> Iterator[str]:
    """Yield the text about shadow profiles: the counts of each, and the last differences."""
    for profile in answer.profiles:
        total = counted(sum(profile.compared.values()), "decision")
        yield f"{profile.scheduler_name} and its shadow {profile.shadow}: {total} compared"
        shares = [f"{number} {words}" for name, words in _OUTCOMES.items() if (number := profile.compared.get(name))]
        if shares:
            yield f"  {', '.join(shares)}"
    if not answer.items:
        yield "No differences are remembered."
    for item in answer.items:
        yield ""
        yield from _difference(item)


def _difference(item: ShadowDifference) -> Iterator[str]:
    shadow = item.shadow_node or "nowhere"
    if item.shadow_ties > 1:
        shadow += f" (or {item.shadow_ties - 1} equally good)"
    yield f"{item.pod}: {item.live_node or 'nowhere'}; {item.shadow}: {shadow} ({item.time})"
    if item.shadow_message:
        yield f"  {item.shadow_message}"
    judged = [(item.scheduler_name, node) for node in item.live_judges]
    judged += [(item.shadow, node) for node in item.shadow_judges]
    plugins = sorted({plugin for _, node in judged for plugin in node.scores})
    rows = [["PROFILE", "NODE", "TOTAL", *plugins]]
    for profile, node in judged:
        if node.rejected_by:
            rows.append([profile, node.node, "-", f"{node.rejected_by}: {node.reason}"])
        else:
            scores = [str(node.scores.get(plugin, "-")) for plugin in plugins]
            rows.append([profile, node.node, str(node.total), *scores])
    yield from _indented(rows)


def write(answer: Document, output: FullOutputFormat, lines: Iterable[str]) -> None:
    """Write an answer to stdout; `lines` are what people read."""
    if output.is_document:
        typer.echo(document_text(answer, output), nl=False)
        return
    text = map(printable, lines)
    for line in text if output is FullOutputFormat.WIDE else fitted(text):
        typer.echo(line)


# A pod ---------------------------------------------------------------------------------------------------------------
