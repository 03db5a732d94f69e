"""Whether a scheduler kept its promises, judged from `History` alone. Each check returns the violations, one line each.

I1 a pod is bound once, by its UID · I2 no node gets more than it has · I3 constraints hold · I4 what fits is bound ·
I5 gangs whole or not at all · I6 only the leader binds · I7 the scheduler's cache equals the API · I8 requests, log,
memory are bounded · I9 it says what is wrong · I10 no secret appears · I11 the same snapshot and seed, the same
decision. I8 to I10 are given figures and texts; I11 two runs.

`staleness` is how many revisions a decision may be behind what it is judged by: a scheduler cannot know what became
true while its Binding was on the way. Where a test makes the world stand still it is 0.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.faults import fits
from tests.faults.history import GROUP, LEASE, NODE, POD, Bind, History, Key, Request, State

Json = dict[str, Any]


@dataclass(frozen=True)
class Violation:
    """A promise that was broken."""

    invariant: str
    message: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.message}"


@dataclass(frozen=True)
class Ours:
    """Whose deeds are judged: users of the audit log, and the scheduler names of their pods."""

    users: frozenset[str]
    scheduler_names: frozenset[str]

    def bound(self, bind: Bind) -> bool:
        """Whether a bind is one of theirs."""
        if bind.request is not None:
            return bind.user in self.users
        return bind.pod["spec"].get("schedulerName") in self.scheduler_names


@dataclass
class Expectations:
    """What a scenario wants judged, beyond what always holds."""

    staleness: int = 0
    lease: Key | None = None
    """The Lease of the leader, where there is more than one process."""
    liveness: bool = True
    room: bool = True
    """False where another scheduler gives the same nodes away: what is ours is judged by `own_room`."""
    waiting: frozenset[str] = field(default_factory=frozenset)
    """Names of pods that need not be bound in the end."""
    shrunk: set[str] = field(default_factory=set)
    """Names of gangs of which the scenario deletes members, bound ones too: nobody could keep those whole."""
    owners: dict[str, str] = field(default_factory=dict)
    """Holders of the Lease that are known from before, to their users; who is found to hold it is added."""


def judge(history: History, ours: Ours, expected: Expectations | None = None) -> list[Violation]:
    """All that the history alone can tell: I1 to I6."""
    expected = expected or Expectations()
    violations = bound_once(history, ours)
    violations += room(history, ours, expected.staleness) if expected.room else own_room(history.final(), ours)
    violations += constraints(history, ours, expected.staleness)
    if expected.liveness:
        violations += liveness(history.final(), ours, expected.waiting)
    violations += gangs(history.final(), ours, expected.shrunk)
    if expected.lease:
        violations += leadership(history, ours, expected.lease, expected.owners)
    return violations


def bound_once(history: History, ours: Ours) -> list[Violation]:
    """I1: every Binding carries the UID of the pod it binds, and no pod is bound twice."""
    violations = []
    uids: dict[str, str] = {}
    for bind in history.binds():
        if not ours.bound(bind):
            continue
        name = bind.pod["metadata"]["name"]
        if bind.uid in uids:
            violations.append(Violation("I1", f"pod {name} bound to {uids[bind.uid]}, then to {bind.node}"))
        uids[bind.uid] = bind.node
        body = bind.request.body if bind.request else None
        if body is not None and body.get("metadata", {}).get("uid") != bind.uid:
            violations.append(Violation("I1", f"pod {name} {bind.uid} bound by a Binding for {_uid(bind.request)}"))
    for request in history.requests:
        # What is refused before it is read, as by fair queueing, is in the audit log without its body.
        read = request.resource == "pods/binding" and request.body is not None
        if read and request.user in ours.users and not _uid(request):
            violations.append(Violation("I1", f"a Binding of {request.namespace}/{request.name} without a UID"))
    return violations


def _uid(request: Request | None) -> str:
    body = request.body if request is not None else None
    return str((body or {}).get("metadata", {}).get("uid", ""))


def room(history: History, ours: Ours, staleness: int = 0) -> list[Violation]:
    """I2: when we bound a pod, its node had room for it beside all others."""
    violations = []
    for bind, states in _judged(history, ours, staleness):
        if reason := _in_each(_room_in(state, bind) for state in states):
            violations.append(Violation("I2", f"{bind.pod['metadata']['name']} on {bind.node}: {reason}"))
    return violations


def _in_each(reasons: Iterable[str]) -> str:
    """The first reason, where each state has one; a state without one ends the search."""
    first = ""
    for reason in reasons:
        if not reason:
            return ""
        first = first or reason
    return first


def own_room(state: State, ours: Ours) -> list[Violation]:
    """I2 beside another scheduler: our pods alone do not ask for more than a node has."""
    violations = []
    for (_, name), node in state.of(NODE).items():
        pods = [pod for pod in state.pods_on(name) if pod["spec"].get("schedulerName") in ours.scheduler_names]
        reason = fits.overcommitted(pods[0], node, pods[1:]) if pods else ""
        if reason:
            violations.append(Violation("I2", f"our own pods on {name}: {reason}"))
    return violations


def _room_in(state: State, bind: Bind) -> str:
    node = state.node(bind.node)
    return fits.overcommitted(bind.pod, node, state.pods_on(bind.node)) if node else "no such node"


def constraints(history: History, ours: Ours, staleness: int = 0) -> list[Violation]:
    """I3: selectors, taints, ports, required affinity and the gangs' racks of pods that we bound."""
    violations = []
    for bind, states in _judged(history, ours, staleness):
        with_node = ((state, node) for state in states if (node := state.node(bind.node)))
        if reason := _in_each(fits.refused(_now(state, bind), node, state) for state, node in with_node):
            violations.append(Violation("I3", f"{bind.pod['metadata']['name']} on {bind.node}: {reason}"))
    return violations


def _now(state: State, bind: Bind) -> Json:
    """The pod as it was in that state, which may differ from what it was when it was bound."""
    meta = bind.pod["metadata"]
    pod = state.of(POD).get((meta["namespace"], meta["name"]))
    return pod if pod is not None and pod["metadata"]["uid"] == bind.uid else bind.pod


def _judged(history: History, ours: Ours, staleness: int) -> Iterable[tuple[Bind, Iterable[State]]]:
    """Our binds, with the states a decision may rest on: the one just before the bind, and as many earlier ones as
    relevant objects changed within the staleness, the newest first."""
    binds = [bind for bind in history.binds() if ours.bound(bind)]
    if not staleness:
        # One state that goes forward with the binds; thousands of binds would be too many copies.
        walked = history.walk(bind.revision - 1 for bind in binds)
        yield from ((bind, [state]) for bind, (_, state) in zip(binds, walked, strict=True))
        return
    revisions = [change.revision for change in history.changes if change.kind in (POD, NODE)]
    for bind in binds:
        first = max(0, bisect_left(revisions, bind.revision - staleness - 1))
        before = revisions[first : bisect_left(revisions, bind.revision)]
        # Most decisions are right in the newest: the others are made when they are asked for.
        yield bind, map(history.at, reversed(before or [bind.revision - 1]))


def liveness(state: State, ours: Ours, waiting: Iterable[str] = ()) -> list[Violation]:
    """I4: no pod of ours waits in the end although a node would take it. Pods of gangs are judged by I5, pods with
    constraints that the oracle does not know are left out."""
    violations = []
    judged: dict[str, str] = {}
    for (_, name), pod in state.of(POD).items():
        if not _waits(pod, ours) or name in waiting:
            continue
        # Of a crowd of pods that are alike, one answers for all.
        alike = json.dumps([pod["spec"], pod["metadata"].get("labels")], sort_keys=True)
        if alike not in judged:
            judged[alike] = _node_that_fits(pod, state)
        if judged[alike]:
            violations.append(Violation("I4", f"{name} waits, although {judged[alike]} would take it"))
    return violations


def _waits(pod: Json, ours: Ours) -> bool:
    """Whether it is a single pod of ours without a node, with no constraint that the oracle does not know."""
    spec, meta = pod["spec"], pod["metadata"]
    if spec.get("schedulerName") not in ours.scheduler_names or spec.get("nodeName") or spec.get("schedulingGates"):
        return False
    if meta.get("deletionTimestamp") or fits.GROUP_LABEL in meta.get("labels", {}):
        return False
    return not spec.get("topologySpreadConstraints") and not (spec.get("affinity") or {}).get("podAffinity")


def _node_that_fits(pod: Json, state: State) -> str:
    for (_, name), node in state.of(NODE).items():
        if not fits.refused(pod, node, state) and not fits.overcommitted(pod, node, state.pods_on(name)):
            return name
    return ""


def gangs(state: State, ours: Ours, shrunk: Iterable[str] = ()) -> list[Violation]:
    """I5: of every PodGroup at rest, at least `minMember` pods are bound, or none; `shrunk` are left out."""
    violations = []
    for (namespace, name), group in state.of(GROUP).items():
        if name in shrunk:
            continue
        members = [
            pod
            for (home, _), pod in state.of(POD).items()
            if home == namespace
            and pod["metadata"].get("labels", {}).get(fits.GROUP_LABEL) == name
            and pod["spec"].get("schedulerName") in ours.scheduler_names
        ]
        bound = sum(bool(pod["spec"].get("nodeName")) for pod in members)
        least = group["spec"].get("minMember", 1)
        if 0 < bound < least:
            violations.append(Violation("I5", f"gang {name}: {bound} bound of at least {least}"))
    return violations


def leadership(history: History, ours: Ours, lease: Key, owners: dict[str, str] | None = None) -> list[Violation]:
    """I6: whoever bound a pod was the Lease's holder then. Which process a holder is, follows from who wrote it, and
    is added to `owners`."""
    owners = {} if owners is None else owners
    for request in history.requests:
        if request.resource == "leases" and (request.namespace, request.name) == lease and request.body:
            holder = (request.body.get("spec") or {}).get("holderIdentity") or ""
            if holder and request.user in ours.users:
                owners.setdefault(holder, request.user)
    violations = []
    holder = ""
    binds = {bind.revision: bind for bind in history.binds() if ours.bound(bind)}
    for change in history.changes:
        if change.kind == LEASE and change.key == lease:
            holder = ((change.after or {}).get("spec") or {}).get("holderIdentity") or ""
        bind = binds.get(change.revision)
        if bind is not None and bind.request is not None and owners.get(holder) != bind.user:
            name, owner = bind.pod["metadata"]["name"], owners.get(holder) or "nobody known"
            violations.append(Violation("I6", f"{name} bound by {bind.user} while {owner} ({holder!r}) held the Lease"))
    return violations


def cache(dump: Json, state: State) -> list[Violation]:
    """I7: the scheduler's nodes and pods are the API's, and nothing is assumed.

    `dump`: `nodes` (names), `pods` (UID to node) and `assumed` (UIDs).
    """
    nodes = {name for _, name in state.of(NODE)}
    pods = {
        pod["metadata"]["uid"]: pod["spec"]["nodeName"]
        for pod in state.of(POD).values()
        if pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    }
    violations = []
    if nodes != set(dump["nodes"]):
        violations.append(Violation("I7", f"nodes {sorted(nodes ^ set(dump['nodes']))} differ"))
    if pods != dump["pods"]:
        differing = sorted(uid for uid in pods | dump["pods"] if pods.get(uid) != dump["pods"].get(uid))
        shown = [f"{uid}: API {pods.get(uid)}, cache {dump['pods'].get(uid)}" for uid in differing[:3]]
        violations.append(Violation("I7", f"{len(differing)} pods differ: {'; '.join(shown)}"))
    if dump["assumed"]:
        violations.append(Violation("I7", f"still assumed: {', '.join(sorted(dump['assumed'])[:3])}"))
    return violations


@dataclass(frozen=True)
class Bounds:
    """What a scenario may cost; None where a figure is not judged."""

    requests: float | None = None
    """Per second, over the scenario."""
    log_bytes: int | None = None
    resident_bytes: int | None = None
    descriptors: int | None = None


def bounded(figures: Mapping[str, float], bounds: Bounds) -> list[Violation]:
    """I8: requests, log, memory and descriptors stay within bounds."""
    violations = []
    for name in ("requests", "log_bytes", "resident_bytes", "descriptors"):
        limit = getattr(bounds, name)
        if limit is not None and figures.get(name, 0) > limit:
            violations.append(Violation("I8", f"{name}: {figures[name]:g} > {limit:g}"))
    return violations


def says(expected: Mapping[str, str], outputs: Mapping[str, str]) -> list[Violation]:
    """I9: each output (`log`, `readyz`, `metrics`, `events`) matches its regular expression."""
    return [
        Violation("I9", f"{output} says nothing of {pattern!r}")
        for output, pattern in expected.items()
        if not re.search(pattern, outputs.get(output, ""))
    ]


def secret(canary: str, outputs: Mapping[str, str | bytes]) -> list[Violation]:
    """I10: the canary stands in no output."""
    return [
        Violation("I10", f"the canary stands in {name}")
        for name, text in outputs.items()
        if canary.encode() in (text.encode() if isinstance(text, str) else text)
    ]


def same_decisions(runs: Sequence[Mapping[str, str | None]]) -> list[Violation]:
    """I11: every run decided the same for every pod."""
    first = runs[0]
    return [
        Violation("I11", f"run {number}: {pod} on {run.get(pod)}, in the first on {first.get(pod)}")
        for number, run in enumerate(runs[1:], 2)
        for pod in sorted(first.keys() | run.keys())
        if run.get(pod) != first.get(pod)
    ]
