"""The oracle on histories written by hand: a good one passes, and each altered one is caught by its invariant."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults import oracle
from tests.faults.history import GROUP, LEASE, NODE, POD, Change, History, Json, Request, parse_key, read_requests
from tests.faults.oracle import Expectations, Ours

OURS = Ours(frozenset({"ours", "ours-2"}), frozenset({"ours"}))
LEASE_KEY = ("kube-system", "ours")


def node(name: str, cpu: str = "1", **spec: Any) -> Json:
    status = {"allocatable": {"cpu": cpu, "pods": "10"}}
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": spec, "status": status}


def pod(name: str, cpu: str = "400m", uid: str = "", labels: dict[str, str] | None = None, **spec: Any) -> Json:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}, "ports": spec.pop("ports", [])}]
    return {
        "metadata": {"name": name, "namespace": "a", "uid": uid or f"uid-{name}", "labels": labels or {}},
        "spec": {"schedulerName": "ours", "containers": containers, **spec},
        "status": {"phase": "Pending"},
    }


class Writer:
    """Writes a history, as etcd and the audit log would."""

    def __init__(self) -> None:
        self.history = History([])
        self._objects: dict[tuple[str, tuple[str, str]], Json] = {}

    def put(self, kind: str, item: Json) -> None:
        key = (item["metadata"].get("namespace", ""), item["metadata"]["name"])
        self._change(kind, key, item)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        self._change(kind, (namespace, name), None)

    def bind(self, name: str, to: str, user: str = "ours", uid: str | None = None, code: int = 201) -> None:
        """A Binding; where its code says so, the pod is bound."""
        item = self._objects[POD, ("a", name)]
        body = {"metadata": {"name": name, "uid": item["metadata"]["uid"] if uid is None else uid}}
        body["target"] = {"name": to}
        at = float(len(self.history.requests))
        self.history.requests.append(
            Request(user, "agent", "create", "pods/binding", "a", name, code, at, at + 0.5, body)
        )
        if code == 201:
            self.put(POD, {**item, "spec": {**item["spec"], "nodeName": to}})

    def lease(self, holder: str, user: str) -> None:
        body = {"metadata": {"namespace": LEASE_KEY[0], "name": LEASE_KEY[1]}, "spec": {"holderIdentity": holder}}
        at = float(len(self.history.requests))
        self.history.requests.append(Request(user, "agent", "update", "leases", *LEASE_KEY, 200, at, at + 0.5, body))
        self.put(LEASE, body)

    def _change(self, kind: str, key: tuple[str, str], item: Json | None) -> None:
        revision = len(self.history.changes) + 1
        self.history.changes.append(Change(revision, kind, key, self._objects.get((kind, key)), item))
        if item is None:
            del self._objects[kind, key]
        else:
            self._objects[kind, key] = item


def verdict(write: Callable[[Writer], None], expected: Expectations | None = None) -> set[str]:
    """The invariants that are broken."""
    writer = Writer()
    writer.put(NODE, node("n1"))
    writer.put(POD, pod("p"))
    write(writer)
    return {violation.invariant for violation in oracle.judge(writer.history, OURS, expected)}


def test_a_good_history_has_no_violation() -> None:
    def write(writer: Writer) -> None:
        writer.lease("one", "ours")
        writer.bind("p", "n1", code=409)
        writer.bind("p", "n1")
        writer.put(POD, pod("too-large", cpu="2"))
        writer.put(POD, pod("gated", schedulingGates=[{"name": "x"}]))
        writer.put(POD, pod("of-another", schedulerName="default-scheduler"))

    assert verdict(write, Expectations(lease=LEASE_KEY)) == set()


def bound_without_a_uid(writer: Writer) -> None:
    writer.bind("p", "n1", uid="")


def bound_twice(writer: Writer) -> None:
    writer.put(NODE, node("n2"))
    writer.bind("p", "n1")
    writer.bind("p", "n2")


def bound_by_a_binding_for_a_namesake(writer: Writer) -> None:
    writer.bind("p", "n1", uid="uid-former")


def room_given_twice(writer: Writer) -> None:
    writer.put(POD, pod("q", cpu="700m"))
    writer.bind("p", "n1")
    writer.bind("q", "n1")


def one_pod_too_many(writer: Writer) -> None:
    small = node("n1")
    small["status"]["allocatable"]["pods"] = "0"
    writer.put(NODE, small)
    writer.bind("p", "n1")


def a_taint_ignored(writer: Writer) -> None:
    writer.put(NODE, node("n1", taints=[{"key": "dedicated", "effect": "NoSchedule"}]))
    writer.bind("p", "n1")


def a_selector_ignored(writer: Writer) -> None:
    writer.put(POD, pod("p", nodeSelector={"disk": "ssd"}))
    writer.bind("p", "n1")


def a_host_port_given_twice(writer: Writer) -> None:
    for name in ("p", "q"):
        writer.put(POD, pod(name, ports=[{"hostPort": 80}]))
        writer.bind(name, "n1")


def anti_affinity_broken(writer: Writer) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    writer.put(POD, pod("q", labels={"app": "web"}))
    writer.put(POD, pod("p", labels={"app": "web"}, affinity=away))
    for name in ("p", "q"):
        writer.bind(name, "n1")


def a_pod_forgotten(writer: Writer) -> None:
    """It is never bound."""


def half_a_gang(writer: Writer) -> None:
    member = {"scheduling.x-k8s.io/pod-group": "g"}
    writer.put(GROUP, {"metadata": {"name": "g", "namespace": "a"}, "spec": {"minMember": 2}})
    writer.put(POD, pod("p", labels=member))
    writer.put(POD, pod("q", labels=member))
    writer.bind("p", "n1")


def bound_after_the_lease_was_lost(writer: Writer) -> None:
    writer.lease("one", "ours")
    writer.lease("two", "ours-2")
    writer.bind("p", "n1", user="ours")


@pytest.mark.parametrize(
    ("write", "invariant"),
    [
        (bound_without_a_uid, "I1"),
        (bound_twice, "I1"),
        (bound_by_a_binding_for_a_namesake, "I1"),
        (room_given_twice, "I2"),
        (one_pod_too_many, "I2"),
        (a_taint_ignored, "I3"),
        (a_selector_ignored, "I3"),
        (a_host_port_given_twice, "I3"),
        (anti_affinity_broken, "I3"),
        (a_pod_forgotten, "I4"),
        (half_a_gang, "I5"),
        (bound_after_the_lease_was_lost, "I6"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_each_broken_promise_is_caught_by_its_invariant(write: Callable[[Writer], None], invariant: str) -> None:
    assert invariant in verdict(write, Expectations(lease=LEASE_KEY if invariant == "I6" else None))


def test_what_became_true_while_the_binding_was_on_the_way_may_be_excused() -> None:
    def write(writer: Writer) -> None:
        writer.put(NODE, node("n1", cpu="100m"))
        writer.bind("p", "n1")

    assert verdict(write) == {"I2"}
    assert verdict(write, Expectations(staleness=3)) == set()


def test_deeds_of_others_are_not_judged() -> None:
    def write(writer: Writer) -> None:
        writer.put(POD, pod("q", cpu="900m", schedulerName="default-scheduler"))
        writer.bind("p", "n1")
        writer.bind("q", "n1", user="system:kube-scheduler")

    assert verdict(write) == set()


def test_a_cache_that_differs_from_the_api_is_caught() -> None:
    writer = Writer()
    writer.put(NODE, node("n1"))
    writer.put(POD, pod("p", nodeName="n1"))
    state = writer.history.final()
    good = {"nodes": ["n1"], "pods": {"uid-p": "n1"}, "assumed": []}
    assert oracle.cache(good, state) == []
    for mutant in ({"nodes": []}, {"pods": {}}, {"pods": {"uid-p": "n2"}}, {"assumed": ["uid-p"]}):
        assert [violation.invariant for violation in oracle.cache({**good, **mutant}, state)] == ["I7"]


def test_figures_beyond_their_bounds_are_caught() -> None:
    bounds = oracle.Bounds(requests=10, log_bytes=1000)
    assert oracle.bounded({"requests": 9, "log_bytes": 999}, bounds) == []
    violations = oracle.bounded({"requests": 11, "log_bytes": 1001}, bounds)
    assert [violation.invariant for violation in violations] == ["I8", "I8"]


def test_silence_and_secrets_are_caught() -> None:
    outputs = {"log": "cannot list resource pods", "metrics": "# HELP"}
    assert oracle.says({"log": "cannot list .* pods"}, outputs) == []
    assert [violation.invariant for violation in oracle.says({"metrics": "absent"}, outputs)] == ["I9"]
    assert oracle.secret("canary", outputs) == []
    assert [violation.invariant for violation in oracle.secret("cannot", outputs)] == ["I10"]


def test_a_holder_that_is_known_from_before_need_not_renew_its_lease_to_be_known() -> None:
    """A part of a history may be shorter than a leader's pause between two renewals."""

    def bound_without_a_renewal(writer: Writer) -> None:
        writer.put(LEASE, {"metadata": {"namespace": LEASE_KEY[0], "name": LEASE_KEY[1]},
                           "spec": {"holderIdentity": "vm-1"}})  # fmt: skip
        writer.bind("p", "n1")

    def judged(owners: dict[str, str]) -> set[str]:
        return verdict(bound_without_a_renewal, Expectations(lease=LEASE_KEY, owners=owners))

    assert judged({}) == {"I6"}
    assert judged({"vm-1": "somebody-else"}) == {"I6"}
    assert judged({"vm-1": "ours"}) == set()


def test_decisions_that_differ_between_runs_are_caught() -> None:
    assert oracle.same_decisions([{"p": "n1"}, {"p": "n1"}]) == []
    assert [violation.invariant for violation in oracle.same_decisions([{"p": "n1"}, {"p": "n2"}])] == ["I11"]


def test_keys_of_etcd_are_read() -> None:
    assert parse_key("/registry/pods/a/p") == ("pods", ("a", "p"))
    assert parse_key("/registry/minions/n1") == ("minions", ("", "n1"))
    assert parse_key("/registry/scheduling.x-k8s.io/podgroups/a/g") == ("podgroups", ("a", "g"))
    assert parse_key("/registry/health") is None


def test_an_audit_log_is_read_up_to_a_line_that_is_still_being_written(tmp_path: Path) -> None:
    event = {
        "stage": "ResponseComplete",
        "verb": "create",
        "user": {"username": "admin"},
        "impersonatedUser": {"username": "ours"},
        "objectRef": {"resource": "pods", "subresource": "binding", "namespace": "a", "name": "p"},
        "responseStatus": {"code": 201},
        "requestReceivedTimestamp": "2026-11-22T10:00:00.000000Z",
        "stageTimestamp": "2026-11-22T10:00:00.250000Z",
        "requestObject": {"metadata": {"uid": "u"}},
    }
    log = tmp_path / "audit.log"
    log.write_text(json.dumps(event) + "\n" + json.dumps(event)[:50])
    (request,) = read_requests([log])
    assert (request.user, request.resource, request.ok) == ("ours", "pods/binding", True)
    assert request.answered - request.received == 0.25
