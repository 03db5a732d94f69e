"""What happened, from two witnesses that know nothing of a scheduler: etcd's revisions and the API server's audit log.

etcd tells every state of every object in the order in which it became true; the audit log tells who asked for what.
"""

from __future__ import annotations

import base64
import json
import os
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty where there is none) and name."""
POD, NODE, LEASE, GROUP = "pods", "minions", "leases", "podgroups"
"""Kinds as etcd's keys name them."""
LogId = tuple[int, int]
"""Device and inode of an audit log: it keeps them when it is rotated."""
_PREFIX, _PREFIX_END = "/registry/", "/registry0"


@dataclass(frozen=True)
class Change:
    """An object came, changed, or went (`after` is None)."""

    revision: int
    kind: str
    key: Key
    before: Json | None
    after: Json | None


@dataclass(frozen=True)
class Request:
    """One write as the audit log tells it."""

    user: str
    """Whom it was for: the impersonated user, if any."""
    agent: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    received: float
    """Seconds since the epoch."""
    answered: float
    body: Json | None = None

    @property
    def ok(self) -> bool:
        """Whether it took effect."""
        return 200 <= self.code < 300


@dataclass(frozen=True)
class Bind:
    """A pod got its node."""

    revision: int
    pod: Json
    node: str
    request: Request | None
    """The Binding that did it; None where that is not known."""

    @property
    def user(self) -> str:
        """Who bound it."""
        return self.request.user if self.request else ""

    @property
    def uid(self) -> str:
        """The pod's."""
        return str(self.pod["metadata"]["uid"])


@dataclass
class History:
    """Changes by revision and requests by time of arrival."""

    changes: list[Change]
    requests: list[Request] = field(default_factory=list)
    start: int = 0
    """Only what comes after this revision is judged."""

    def binds(self) -> list[Bind]:
        """All moments when a pod got its node after its creation."""
        bindings: dict[tuple[Key, str], list[Request]] = {}
        for request in self.requests:
            if request.resource == "pods/binding" and request.body:
                target = request.body.get("target", {}).get("name", "")
                bindings.setdefault(((request.namespace, request.name), target), []).append(request)
        result = []
        for change in self.changes:
            if change.kind != POD or change.after is None or change.before is None:
                continue
            node = change.after.get("spec", {}).get("nodeName", "")
            if change.revision <= self.start or not node or change.before.get("spec", {}).get("nodeName") == node:
                continue
            uid = change.after["metadata"]["uid"]
            candidates = bindings.get((change.key, node), [])
            exact = [each for each in candidates if each.body and each.body.get("metadata", {}).get("uid") == uid]
            # One whose answer the API server could not give any more says nothing in its code.
            chosen = next((each for each in exact or candidates if each.ok), None) or next(iter(exact), None)
            result.append(Bind(change.revision, change.after, node, chosen))
        return result

    def at(self, revision: int) -> State:
        """All objects as they were with this revision."""
        state = State()
        for change in self.changes:
            if change.revision > revision:
                break
            state.apply(change)
        return state

    def walk(self, revisions: Iterable[int]) -> Iterator[tuple[int, State]]:
        """The states at ascending revisions; each is valid until the next."""
        state, index = State(), 0
        for revision in revisions:
            while index < len(self.changes) and self.changes[index].revision <= revision:
                state.apply(self.changes[index])
                index += 1
            yield revision, state

    def as_text(self) -> str:
        """What is judged, a line for each change and each write, for whoever looks for the cause of a violation."""
        lines = []
        for change in self.changes:
            item = change.after or {}
            spec = item.get("spec") or {}
            about = {name: spec[name] for name in ("nodeName", "holderIdentity", "schedulerName") if name in spec}
            uid = (change.after or change.before or {})["metadata"]["uid"]
            verb = "deleted" if change.after is None else "created" if change.before is None else "changed"
            lines.append(f"{change.revision} {change.kind} {'/'.join(change.key)} {uid} {verb} {about}")
        for request in self.requests:
            target = (request.body or {}).get("target", {}).get("name", "")
            lines.append(
                f"{request.received:.3f} {request.answered:.3f} {request.user} {request.verb} {request.resource} "
                f"{request.namespace}/{request.name} {target} {request.code}"
            )
        return "\n".join(lines) + "\n"

    def final(self) -> State:
        """All objects in the end."""
        return self.at(self.changes[-1].revision if self.changes else 0)


@dataclass
class State:
    """Objects by kind and key."""

    objects: dict[str, dict[Key, Json]] = field(default_factory=dict)

    def apply(self, change: Change) -> None:
        """Take in one change."""
        of_kind = self.objects.setdefault(change.kind, {})
        if change.after is None:
            of_kind.pop(change.key, None)
        else:
            of_kind[change.key] = change.after

    def of(self, kind: str) -> Mapping[Key, Json]:
        """The objects of a kind."""
        return self.objects.get(kind, {})

    def node(self, name: str) -> Json | None:
        """A node."""
        return self.of(NODE).get(("", name))

    def pods_on(self, node: str) -> list[Json]:
        """The pods that occupy a node: not those that have ended."""
        return [
            pod
            for pod in self.of(POD).values()
            if pod.get("spec", {}).get("nodeName") == node
            and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]


def parse_key(key: str) -> tuple[str, Key] | None:
    """Kind and key of an object from its path in etcd: `/registry/[group/]kind/[namespace/]name`."""
    parts = key.strip("/").split("/")[1:]
    if len(parts) > 1 and "." in parts[0]:
        parts = parts[1:]
    if len(parts) == 2:
        return parts[0], ("", parts[1])
    return (parts[0], (parts[1], parts[2])) if len(parts) == 3 else None


def read_changes(etcd: str, kinds: Iterable[str] = (POD, NODE, LEASE, GROUP), start: int = 0) -> list[Change]:
    """Every change of the kinds after a revision, in order; what was there with that revision comes first, as if it had
    been created then. Raises ValueError where the past was compacted away."""
    wanted = set(kinds)
    changes = _present(etcd, wanted, start) if start else []
    states = {(change.kind, change.key): change.after for change in changes if change.after is not None}
    for event in _events(etcd, start):
        parsed = parse_key(base64.b64decode(event["kv"]["key"]).decode())
        if parsed is None or parsed[0] not in wanted:
            continue
        kind, key = parsed
        revision = int(event["kv"]["mod_revision"])
        after = None if event.get("type") == "DELETE" else json.loads(base64.b64decode(event["kv"]["value"]))
        changes.append(Change(revision, kind, key, states.get(parsed), after))
        if after is None:
            states.pop(parsed, None)
        else:
            states[parsed] = after
    return changes


def _present(etcd: str, kinds: set[str], at: int) -> list[Change]:
    """The objects of the kinds as they were with a revision, in the order of their own."""
    everything = {"key": _encode(_PREFIX), "range_end": _encode(_PREFIX_END), "revision": at}
    changes = []
    for pair in _post(etcd, "/v3/kv/range", everything).get("kvs", ()):
        parsed = parse_key(base64.b64decode(pair["key"]).decode())
        if parsed is not None and parsed[0] in kinds:
            after = json.loads(base64.b64decode(pair["value"]))
            changes.append(Change(int(pair["mod_revision"]), *parsed, None, after))
    return sorted(changes, key=lambda change: change.revision)


def _events(etcd: str, start: int) -> Iterator[Json]:
    """All events after a revision, up to now."""
    create = {"key": _encode(_PREFIX), "range_end": _encode(_PREFIX_END), "start_revision": start + 1}
    # A key of our own ends the stream: what comes before it in the order of revisions has been sent.
    marker = "/registry/zz-oracle/marker"
    end = int(_post(etcd, "/v3/kv/put", {"key": _encode(marker), "value": _encode("x")})["header"]["revision"])
    request = urllib.request.Request(f"{etcd}/v3/watch", json.dumps({"create_request": create}).encode())
    with urllib.request.urlopen(request, timeout=30) as stream:
        for line in stream:
            result = json.loads(line).get("result", {})
            if result.get("canceled"):
                raise ValueError(f"etcd's past is gone: {result.get('cancel_reason')}")
            for event in result.get("events", ()):
                if int(event["kv"]["mod_revision"]) >= end:
                    return
                yield event


def _post(etcd: str, path: str, body: Json) -> Json:
    request = urllib.request.Request(etcd + path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return dict(json.load(answer))


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def revision(etcd: str) -> int:
    """etcd's newest revision."""
    return int(_post(etcd, "/v3/kv/range", {"key": _encode("/registry/ready-or-not")})["header"]["revision"])


def log_sizes(audit_logs: Iterable[Path]) -> dict[LogId, int]:
    """How long each log is, in bytes."""
    statuses = [log.stat() for log in audit_logs]
    return {(status.st_dev, status.st_ino): status.st_size for status in statuses}


def read_requests(audit_logs: Iterable[Path], known: Mapping[LogId, int] | None = None) -> list[Request]:
    """All writes of the audit logs, by time of arrival, without the first bytes of those that are `known`; a last line
    that is still being written is left out."""
    requests: list[Request] = []
    for log in audit_logs:
        with log.open("rb") as file:
            status = os.fstat(file.fileno())
            file.seek((known or {}).get((status.st_dev, status.st_ino), 0))
            # One line after the other: with large pods all of them are gigabytes.
            for line in map(bytes.rstrip, file):
                with_object = line.startswith(b"{") and line.endswith(b"}")
                event = json.loads(line) if with_object else {}
                if event.get("stage") == "ResponseComplete" and event.get("objectRef"):
                    requests.append(_request(event))
    return sorted(requests, key=lambda request: request.received)


def _request(event: Json) -> Request:
    about = event["objectRef"]
    resource = about.get("resource", "")
    if about.get("subresource"):
        resource += f"/{about['subresource']}"
    return Request(
        user=(event.get("impersonatedUser") or event["user"]).get("username", ""),
        agent=event.get("userAgent", ""),
        verb=event["verb"],
        resource=resource,
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        received=_time(event["requestReceivedTimestamp"]),
        answered=_time(event["stageTimestamp"]),
        body=event.get("requestObject"),
    )


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def read_history(
    etcd: str, audit_logs: Iterable[Path], start: int = 0, known: Mapping[LogId, int] | None = None
) -> History:
    """Everything after a revision of etcd and beyond the first bytes of the audit logs. What was there with that
    revision is context."""
    return History(read_changes(etcd, start=start), read_requests(audit_logs, known), start)
