"""The status of the installations for people: what is wrong first, then what runs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from scheduler.catalog import shortage_of
from secondary_scheduler.cli.ages import age_of, duration, seconds_since
from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import aligned, text_width
from secondary_scheduler.cli.status.health import State, is_expected

Json = Mapping[str, Any]
Paint = Callable[[str, State], str]
"""Returns a word in the colour of a state, or as it is."""
_SHOWN_HASH = 16
_LABEL = 14
_MOST_CHANGES = 4
"""Of a shadow from its profile, unless the output is wide."""
_WIDTH = 130
_CLOCK_SECONDS = 5.0
"""By which this machine's clock and the cluster's may usually differ."""
_MOST_LINES = 12
"""Of a message: the API server takes 32 KiB in a condition."""


def unpainted(word: str, _: State) -> str:
    """Where there is no terminal, or colours are not wanted."""
    return word


def lines(document: Json, now: datetime, *, wide: bool, paint: Paint = unpainted) -> Iterator[str]:
    """Yield the text: a line about the cluster, the instances with the worst first, and what could not be read.

    Args:
        document: as `status_document` returns it.
        now: to tell ages by.
        wide: with every condition, every plugin that scores, and all errors that are known.
        paint: colours the states.
    """
    cluster, instances = document["cluster"], document["instances"]
    openshift = f", OpenShift {cluster['openshift']}" if cluster["openshift"] else ""
    yield printable(f"{cluster['server']}: Kubernetes {cluster['kubernetes']}{openshift}")
    order = [State.FAILED, State.WARNING, State.OK]
    for instance in sorted(instances, key=lambda each: order.index(each["state"])):
        yield ""
        state = State(instance["state"])
        word = {State.OK: "ok", State.WARNING: "warning", State.FAILED: "FAILED"}[state]
        yield f"{printable(_title(instance))}: {paint(word, state)}"
        for problem in instance["problems"]:
            severity = State(problem["severity"])
            since = f" for {age_of(problem['since'], now)}" if problem["since"] else ""
            first, *rest = _wrapped(f"{problem['subject']}{since}: {problem['message']}")
            yield f"  {paint(f'{severity.value:{_LABEL}}', severity)} {first}"
            yield from (f"  {'':{_LABEL}} {line}" for line in rest)
        for label, text in _facts(instance, now, wide=wide):
            for number, line in enumerate(_wrapped(text)):
                yield f"  {'' if number else label:{_LABEL}} {line}"
    if document["notShown"]:
        yield ""
        yield from (printable(f"Not shown: {line}") for line in document["notShown"])


def _wrapped(text: str) -> list[str]:
    """The lines of a text that came from the cluster, and may hold anything."""
    wrapped = textwrap.wrap(text, text_width(_WIDTH, _LABEL + 3), break_on_hyphens=False)
    return [printable(line) for line in wrapped[:_MOST_LINES]] or [""]


def _title(instance: Json) -> str:
    kind = "" if instance["kind"] == "SecondaryScheduler" else " (Deployment without a SecondaryScheduler)"
    return f"{instance['namespace']}/{instance['name']}{kind}"


def _facts(instance: Json, now: datetime, *, wide: bool) -> Iterator[tuple[str, str]]:
    """Label and text of each line."""
    if instance["managementState"] not in (None, "Managed"):
        yield "management", f"{instance['managementState']}: the operator changes nothing else"
    yield "replicas", _replicas(instance, now)
    yield from (("profile", text) for text in _profiles(instance["profiles"], wide=wide))
    yield from (("shadow", text) for text in _shadows(instance["profiles"], wide=wide))
    yield "configuration", _configuration(instance["configuration"], wide=wide)
    yield from (("load", text) for text in _load(instance))
    if instance["queue"] is not None:
        yield "queue", ", ".join(f"{count} {queue}" for queue, count in instance["queue"].items())
    if (attempts := _attempts(instance["attempts"])) is not None:
        yield "attempts", attempts
    for error in (instance["errors"] or ())[: None if wide else 1]:
        yield "error", f"{age_of(error['time'], now)} ago, {error['pod']}: {error['message']}"
    yield from (("version", text) for text in _versions(instance["versions"]))
    yield from (("condition", text) for text in _conditions(instance, now, wide=wide))


def _replicas(instance: Json, now: datetime) -> str:
    deployment, leader = instance["deployment"], instance["leader"]
    ready = "not known" if deployment is None else f"{deployment['ready']} of {deployment['replicas']} ready"
    if shortage := shortage_of(instance["conditions"]):
        ready = f"{shortage}; {ready}"
    if leader is None:
        return ready
    silent = seconds_since(leader["renewedAt"], now)
    if silent is not None and silent > leader["leaseDurationSeconds"] + _CLOCK_SECONDS:
        return f"{ready}; {leader['pod']} last renewed the Lease {duration(silent)} ago"
    since = f" for {age_of(leader['since'], now)}" if leader["since"] else ""
    return f"{ready}; {leader['pod']} leads{since}"


def _profiles(profiles: Sequence[Json] | Json | None, *, wide: bool) -> Iterator[str]:
    if not isinstance(profiles, Sequence):
        return
    for profile in profiles:
        score = [f"{plugin['name']} {plugin['weight']}" for plugin in profile["score"]]
        scoring = {plugin["name"] for plugin in profile["score"]}
        added = profile["plugins"] if wide else profile["added"]
        others = _listed("; also ", [name for name in added if name not in scoring])
        removed = _listed("; without ", profile["removed"])
        yield f"{profile['schedulerName']}: scores by {', '.join(score) or 'nothing'}{others}{removed}"


def _shadows(profiles: Sequence[Json] | Json | None, *, wide: bool) -> Iterator[str]:
    """What is tried beside a profile, with which outcome, and how it differs."""
    if not isinstance(profiles, Sequence):
        return
    for profile in profiles:
        if (shadow := profile.get("shadow")) is None:
            continue
        changes = shadow["differences"]
        most = len(changes) if wide else _MOST_CHANGES
        differs = "; ".join(changes[:most]) or "decides as the profile itself does"
        more = f"; and {len(changes) - most} more (-o wide)" if len(changes) > most else ""
        yield (
            f"{shadow['schedulerName']} is tried beside {profile['schedulerName']}{_compared(shadow['compared'])}: "
            f"{differs}{more}"
        )


def _compared(counts: Mapping[str, int] | None) -> str:
    if counts is None:
        return ""
    skipped = counts.get("notCompared", 0)
    compared = sum(counts.values()) - skipped
    same = counts.get("sameNode", 0) + counts.get("neitherPlaced", 0)
    return f" ({compared:,} decisions compared, {compared - same:,} otherwise; {skipped:,} not compared)"


def _listed(before: str, names: Sequence[str]) -> str:
    return f"{before}{', '.join(names)}" if names else ""


def _configuration(hashes: Json, *, wide: bool) -> str:
    wanted, running = (value and (value if wide else value[:_SHOWN_HASH]) for value in hashes.values())
    if running is None:
        return f"{wanted} is wanted; which runs is not reported" if wanted else "not known"
    if wanted is None or wanted == running:
        return f"{running} runs{', as wanted' if wanted else ''}"
    return f"{running} runs, {wanted} is wanted"


def _load(instance: Json) -> Iterator[str]:
    for source in instance["loadSources"] or ():
        age = "never read" if source["ageSeconds"] is None else f"newest sample {duration(source['ageSeconds'])} old"
        nodes = _results({state: count for state, count in source["nodes"].items() if count})
        state = "fresh" if source["fresh"] else "STALE"
        yield f"{source['source']}: {state}, {age}{f'; nodes: {nodes}' if nodes else ''}"
    load = instance["loadData"]
    if not instance["loadSources"] and load is not None:
        yield "fresh" if load["fresh"] else f"STALE: {load['message']}"


def _attempts(attempts: Json) -> str | None:
    last, total = attempts["last"], attempts["sinceStart"]
    texts = []
    if last and last["count"]:
        rate = f" ({last['count'] / last['seconds']:.2g}/s)" if last["seconds"] else ""
        texts.append(f"last {last['count']} in {duration(last['seconds'])}{rate}: {_results(last['results'])}")
    if total:
        texts.append(f"since the start: {_results(total)}")
    nothing = "none since the start" if total is not None or last else None
    return "; ".join(texts) or nothing


def _results(results: Mapping[str, int]) -> str:
    """Numbers with what they count."""
    return ", ".join(f"{count} {result}" for result, count in results.items())


def _versions(versions: Json) -> Iterator[str]:
    behaves = f" behaves as Kubernetes {versions['behavesAs']}" if versions["behavesAs"] else ""
    fits = "" if versions["incompatibilities"] else "; it goes with this cluster"
    yield f"scheduler {versions['image']}{behaves}{fits}" if versions["image"] else "not known"
    if versions["operatorImage"]:
        yield f"operator {versions['operatorImage']} ({versions['operatorReady']} ready)"


def _conditions(instance: Json, now: datetime, *, wide: bool) -> Iterator[str]:
    """A line for each that is not as it should be and no problem, or for all; the others are named."""
    conditions, named = instance["conditions"], {problem["subject"] for problem in instance["problems"]}
    apart = [each for each in conditions if wide or not (is_expected(each) or each["type"] in named)]
    rows = [
        [
            f"{each['type']}={each['status']}",
            age_of(each["since"], now),
            each["reason"],
            " ".join(each["message"].split()),
        ]
        for each in apart
    ]
    if rows:
        yield from aligned(rows)
    expected = [each["type"] for each in conditions if is_expected(each)]
    if expected and not wide:
        yield f"as expected: {', '.join(expected)}"
