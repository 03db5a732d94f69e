"""The steps of the self-test. Each makes pods of its own, and says what it saw of them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from scheduler.config import DEFAULT_SCHEDULER_NAME
from scheduler.core import judge_node, without_own_use
from scheduler.framework import PodInfo
from scheduler.kube.client import KubeError
from scheduler.kube.model import POD_GROUP_LABEL
from secondary_scheduler.cli.errors import CommandError, explained, printable
from secondary_scheduler.cli.selftest.auditlog import AuditFindings, described
from secondary_scheduler.cli.selftest.bench import Bench, StepFailed, StepSkipped, keeps_off, node_of, until
from secondary_scheduler.cli.selftest.loadsource import LoadSource
from secondary_scheduler.cli.selftest.report import Outcome, StepResult

HOST = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_LEASE_SECONDS = 60.0
"""Until another instance leads: a Lease of 15 s, and room for a slow cluster."""
_IDLE_PERCENT, _BUSY_PERCENT = 20.0, 90.0
_LOAD_PODS = 4
_REFRESHED_SECONDS = 90.0
"""Until a scheduler has asked its metric source again: upstream asks every 30 s."""
_SPREAD_PODS = 6
_GANG = 3
_MAX_SHADOW_PODS = 200
_PATIENCE_FOR_START = 120.0
_LOGGED_SECONDS = 30.0


class Step(NamedTuple):
    """A step; `run` returns what it saw."""

    name: str
    tried: str
    run: Callable[[Bench], list[str]]


def results(bench: Bench, steps: Sequence[Step], say: Callable[[str], None]) -> Iterator[StepResult]:
    """Run the steps in their order; where the scheduler does not start, the others that need it are skipped."""
    unable = bench.unable
    for step in steps:
        begun = time.monotonic()
        outcome: Outcome = "passed"
        if unable and step not in INDEPENDENT:
            yield StepResult(step.name, step.tried, "skipped", (unable,), 0.0)
            continue
        try:
            seen = step.run(bench)
        except StepSkipped as reason:
            outcome, seen = "skipped", [str(reason)]
        except (StepFailed, CommandError) as failure:
            outcome, seen = "failed", list(map(str, failure.args))
        except KubeError as error:
            outcome, seen = "failed", [printable(explained(error))]
        if step is START and outcome == "failed":
            unable = "the scheduler did not start"
        seconds = round(time.monotonic() - begun, 2)
        say(f"{outcome:8}{step.name} ({seconds:.1f} s): {seen[0] if seen else ''}")
        yield StepResult(step.name, step.tried, outcome, tuple(map(printable, seen)), seconds)


def pinned(nodes: Sequence[str]) -> dict[str, Any]:
    """A node affinity that leaves these nodes only."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]} for node in nodes]
    terms = [{"matchFields": [expression]} for expression in fields]
    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}}


def _start(bench: Bench) -> list[str]:
    begun = time.monotonic()
    bench.instances.start()
    holder = _leader(bench, "", _PATIENCE_FOR_START)
    leads = time.monotonic() - begun
    (node,) = bench.placed([bench.pod("first")], _PATIENCE_FOR_START).values()
    seconds = time.monotonic() - begun
    return [f"{holder} leads after {leads:.1f} s; the first pod is on {node} {seconds:.1f} s after the start"]


def _leader(bench: Bench, former: str, seconds: float) -> str:
    holder = ""

    def is_led() -> bool:
        nonlocal holder
        holder = bench.cluster.lease_holder()
        problem = bench.instances.problem()
        if problem and not holder:
            raise StepFailed(problem)
        return bool(holder) and holder != former

    if not until(is_led, seconds):
        raise StepFailed(f"nobody else holds the Lease after {seconds:.0f} s{f'; {former} did' if former else ''}")
    return holder


def _taints(bench: Bench) -> list[str]:
    view = bench.before.assembly.attempts.snapshot()
    for row in view.rows:
        info = view.info(row)
        taints = [taint for taint in info.taints if keeps_off(taint, bench.tolerated)]
        only_placing = all(taint.effect == "NoSchedule" for taint in taints)
        if taints and only_placing and not info.unschedulable and view.allowed_pods[row] > view.pod_count[row]:
            break
    else:
        raise StepSkipped("no node has taints of the effect NoSchedule only, and room; the self-test taints none")
    kept_off = bench.stays_waiting(bench.pod("without-toleration", pinned([info.name])))
    bench.cluster.end_pod("without-toleration")
    tolerations = [{"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in taints]
    bench.placed([bench.pod("with-toleration", {**pinned([info.name]), "tolerations": tolerations})])
    return [f"on {info.name}: placed with the toleration; without it: {kept_off}"]


def _spread(bench: Bench) -> list[str]:
    nodes = bench.some_usable(2, 3)
    labels = {"selftest": "spread"}
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    spec = {**pinned(nodes), "topologySpreadConstraints": [constraint]}
    placed = bench.placed([bench.pod(f"spread-{number}", spec, labels) for number in range(_SPREAD_PODS)])
    counts = Counter(placed.values())
    numbers = [counts[node] for node in nodes]
    if max(numbers) - min(numbers) > 1:
        raise StepFailed(f"pods per node differ by more than maxSkew 1: {dict(counts)}")
    return [f"{_SPREAD_PODS} pods on {len(nodes)} nodes: {', '.join(f'{node} {counts[node]}' for node in nodes)}"]


def _affinity(bench: Bench) -> list[str]:
    nodes = bench.some_usable(2)
    labels = {"selftest": "affinity"}
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": labels}}
    spec = pinned(nodes)
    apart = {"affinity": {**spec["affinity"], "podAntiAffinity": {_REQUIRED: [term]}}}
    together = {"affinity": {**spec["affinity"], "podAffinity": {_REQUIRED: [term]}}}
    first = bench.placed([bench.pod("alone", spec, labels)])["alone"]
    placed = bench.placed([bench.pod("apart", apart), bench.pod("together", together)])
    if placed["apart"] == first or placed["together"] != first:
        raise StepFailed(
            f"the first is on {first}, with affinity: {placed['together']}, with anti-affinity: {placed['apart']}"
        )
    return [f"with affinity to a pod on {first}: {placed['together']}; with anti-affinity: {placed['apart']}"]


def _gang(bench: Bench) -> list[str]:
    if not bench.has_gangs:
        raise StepSkipped(
            "the cluster has no PodGroups of scheduling.x-k8s.io, which Coscheduling needs, or they may not be made"
        )
    group = {"spec": {"minMember": _GANG, "scheduleTimeoutSeconds": 30}}
    bench.cluster.create_here("PodGroup", "gang", group, {})
    members = [bench.pod(f"gang-{number}", labels={POD_GROUP_LABEL: "gang"}) for number in range(_GANG - 1)]
    reasons = [bench.stays_waiting(member) for member in members]
    begun = time.monotonic()
    members.append(bench.pod(f"gang-{_GANG - 1}", labels={POD_GROUP_LABEL: "gang"}))
    bench.placed(members)
    return [
        f"{_GANG - 1} of {_GANG} members wait: {reasons[0]}",
        f"with the last one all have a node after {time.monotonic() - begun:.1f} s",
    ]


def _load(bench: Bench) -> list[str]:
    source = _own_source(bench)
    nodes = bench.some_usable(2, 4)
    seen = []
    # Their numbers are in the pods' names, as a node's name may be too long for that.
    for number_of_idle in (len(nodes) - 1, 0):
        idle = nodes[number_of_idle]
        questions = source.questions
        source.serve({node: _IDLE_PERCENT if node == idle else _BUSY_PERCENT for node in nodes})
        if not until(lambda before=questions: source.questions >= before + 2, _REFRESHED_SECONDS):  # type: ignore[misc]
            raise StepFailed(f"the scheduler did not ask its metric source twice within {_REFRESHED_SECONDS:.0f} s")
        names = [
            bench.pod(f"by-load-{number_of_idle}-{number}", pinned(nodes), scheduler_name=bench.cluster.names.by_load)
            for number in range(_LOAD_PODS)
        ]
        counts = Counter(bench.placed(names).values())
        if counts[idle] != _LOAD_PODS:
            raise StepFailed(
                f"{idle} uses {_IDLE_PERCENT:.0f} % of its CPU, {len(nodes) - 1} others {_BUSY_PERCENT:.0f} %; "
                f"{_LOAD_PODS} pods went to {dict(counts)}"
            )
        seen.append(f"{idle} uses {_IDLE_PERCENT:.0f} % of its CPU, others {_BUSY_PERCENT:.0f} %: all pods went there")
    return seen


def _own_source(bench: Bench) -> LoadSource:
    if bench.source is None or not bench.instances.is_here:
        raise StepSkipped("the self-test's metric source is on this machine, where pods of the cluster do not reach it")
    return bench.source


def _cut(bench: Bench) -> list[str]:
    source = _own_source(bench)
    nodes = bench.some_usable(1)
    source.close()
    begun = time.monotonic()
    by_load = bench.cluster.names.by_load
    bench.placed([bench.pod(f"without-load-{number}", pinned(nodes), scheduler_name=by_load) for number in range(2)])
    return [f"without its metric source pods of the profile by load are placed after {time.monotonic() - begun:.1f} s"]


def _preemption(bench: Bench) -> list[str]:
    if not bench.may_preempt:
        raise StepSkipped("this user may not create and delete PriorityClasses")
    (node,) = bench.some_usable(1)
    view = bench.before.assembly.attempts.snapshot()
    row = view.row(node)
    names = bench.cluster.names
    # Each pod of the run that is there asks for one millicore.
    own = sum(node_of(pod) == node for pod in bench.cluster.pods().values())
    # What is free now is what the victim fills: nobody else's pod is touched, whose priority is above both.
    free = int(view.allocatable("cpu")[row] - view.requested("cpu")[row]) - own
    size = free * 2 // 3
    if size < 50:
        raise StepSkipped(f"{node} has only {free}m CPU free")
    bench.placed([bench.pod("victim", pinned([node]), millicores=size)])
    begun = time.monotonic()
    bench.placed([bench.pod("preemptor", pinned([node]), millicores=size, priority=names.high)])
    seconds = time.monotonic() - begun
    if "victim" in bench.cluster.pods():
        raise StepFailed(f"both pods of {size}m fit on {node}: nothing was preempted")
    return [f"a pod of {size}m CPU made room for one of higher priority on {node} within {seconds:.1f} s"]


def _leader_killed(bench: Bench) -> list[str]:
    holder = bench.cluster.lease_holder()
    bench.instances.kill(holder)
    begun = time.monotonic()
    bench.pod("after-the-leader")
    next_holder = _leader(bench, holder, _LEASE_SECONDS)
    led = time.monotonic() - begun
    bench.placed(["after-the-leader"], _PATIENCE_FOR_START)
    gap = time.monotonic() - begun
    return [f"{holder} was killed; {next_holder} leads after {led:.1f} s, and the next pod is placed after {gap:.1f} s"]


def _shadow(bench: Bench) -> list[str]:
    attempts = bench.before.assembly.attempts
    view, runner = attempts.snapshot(), attempts.runners[DEFAULT_SCHEDULER_NAME]
    placed = (pod for pod in attempts.state.pods() if pod.scheduler_name == DEFAULT_SCHEDULER_NAME)
    pods = [pod for pod in placed if not _is_of_node(pod)]
    if not pods:
        raise StepSkipped(f"no pod of {DEFAULT_SCHEDULER_NAME} is on a node")
    chosen = random.Random(0).sample(pods, min(len(pods), _MAX_SHADOW_PODS))
    outcomes: Counter[str] = Counter()
    for pod in chosen:
        without, waiting = without_own_use(view, pod)
        verdict = judge_node(without, waiting, runner, pod.node_name)
        if verdict.error:
            outcomes["not judged"] += 1
        elif verdict.rank is None:
            outcomes["would not fit today"] += 1
        else:
            outcomes["among the best" if verdict.rank == 1 else "fits, but others score better"] += 1
    numbers = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    return [
        f"of {len(chosen)} of {len(pods)} pods: {numbers}",
        "judged on the cluster as it is now, which is not the one at the time of their placement",
    ]


def _is_of_node(pod: PodInfo) -> bool:
    return pod.controller is not None and pod.controller.kind in ("Node", "DaemonSet")


def _rights(bench: Bench) -> list[str]:
    counted, problem = _refused_by_metrics(bench)
    logged, about_use = _audited(bench) if bench.audit_logs else (None, [])
    if counted is None and logged is None:
        raise StepSkipped("; ".join([problem, *about_use]))
    seen = [problem or "the API server refused no request of the instances that still run (403)"]
    if not counted and not logged:
        return [*seen, *about_use]
    rights = ", ".join(logged or bench.instances.missing_rights())
    number = sum(logged.values()) if logged else counted
    raise StepFailed(f"the API server refused {number} requests with 403{f': {rights}' if rights else ''}", *about_use)


def _refused_by_metrics(bench: Bench) -> tuple[int | None, str]:
    """How many requests were refused; None with the reason where it is not known."""
    try:
        refused = bench.instances.refused()
    except KubeError as error:
        return None, f"the instances' metrics cannot be read: {explained(error)}"
    if refused is None:
        return None, "no instance that still runs shows rest_client_requests_total in its metrics"
    return refused, ""


def _audited(bench: Bench) -> tuple[dict[str, int] | None, list[str]]:
    """What was refused, by right, and what is to be said of the log; None where it has no request of the instances."""
    user = bench.cluster.names.user
    findings = AuditFindings()

    def has_requests() -> bool:
        nonlocal findings
        findings = AuditFindings()
        for log in bench.audit_logs:
            log.read(user, findings)
        return findings.requests > 0

    try:
        # A copy of a log may be some seconds behind.
        until(has_requests, _LOGGED_SECONDS)
    except CommandError as error:
        return None, [str(error)]
    unreadable = [f"{findings.unreadable} lines of the audit log are no Event of audit.k8s.io/v1"]
    notes = unreadable if findings.unreadable else []
    if not findings.requests:
        return None, [f"the audit log has no request of {user}: is it that of this API server?", *notes]
    refused = {str(right): number for right, number in findings.refused.items()}
    return refused, [*described(findings, bench.held), *notes]


START = Step("start", "two instances start; one leads and places a pod", _start)
SHADOW = Step(
    "shadow", f"up to {_MAX_SHADOW_PODS} pods that kube-scheduler placed, judged by our default profile", _shadow
)
INDEPENDENT = (SHADOW,)
STEPS = (
    START,
    Step("taints", "a pod without the toleration stays off a tainted node; one with it gets there", _taints),
    Step("spread", f"{_SPREAD_PODS} pods with maxSkew 1 over host names", _spread),
    Step("affinity", "a pod beside another, and one that must not be", _affinity),
    Step("gang", f"a PodGroup of {_GANG}: held until it is complete, then placed", _gang),
    Step("load", "pods go to the node that is the least busy, also when that changes", _load),
    Step("source cut", "the metric source is cut; pods are placed all the same", _cut),
    Step("preemption", "a pod of the self-test preempts another one of it", _preemption),
    Step("leader killed", "the leader is killed; the other instance takes over", _leader_killed),
    SHADOW,
    Step("rights", "requests that the API server refused; by an audit log also rights that were not used", _rights),
)
