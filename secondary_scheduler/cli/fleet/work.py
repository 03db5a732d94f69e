"""The work for one stack: check the cluster, run the engine, wait for the health gate, redact the result."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from msgspec.structs import replace
from pulumi.automation import PulumiCommand
from pulumi.automation.errors import CommandError as EngineError

from scheduler.kube.client import KubeError
from secondary_scheduler.cli.errors import Interrupted
from secondary_scheduler.cli.fleet.drift import DriftCheck, objects_of
from secondary_scheduler.cli.fleet.engine import EngineRun, PulumiEngine, client_config, connection, connection_problem
from secondary_scheduler.cli.fleet.events import one_line
from secondary_scheduler.cli.fleet.gate import GateResult, HealthGate, expected_scheduler
from secondary_scheduler.cli.fleet.project import FleetStack, Project
from secondary_scheduler.cli.fleet.results import FleetPlan, GateCheck, Operation, StackOutcome, StackResult
from secondary_scheduler.cli.redaction import Redactor, secret_parts

_KUBECONFIG = "kubeconfig"


class StackWork:
    """Does the plan for any stack of the project; called from several threads."""

    def __init__(
        self,
        pulumi: PulumiCommand,
        project: Project,
        plan: FleetPlan,
        stopping: threading.Event,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._pulumi = pulumi
        self._project = project
        self._plan = plan
        self._stopping = stopping
        self._say = say

    def __call__(self, stack: FleetStack) -> StackResult:
        """Do it; every failure is part of the result."""
        began = time.monotonic()
        self._say(f"{stack.name}: {self._plan.operation} started")
        result, secrets = self._done(stack, began)
        return _redacted(replace(result, seconds=round(time.monotonic() - began, 1)), secrets)

    def _done(self, stack: FleetStack, began: float) -> tuple[StackResult, list[str]]:
        engine = PulumiEngine(self._pulumi, self._project, stack, self._stopping, began + self._plan.seconds)
        secrets = _tokens(stack)
        failed = StackResult(stack.name, stack.wave, stack.cluster, StackOutcome.FAILED)
        try:
            settings = engine.secrets()
        except EngineError as error:
            outcome = StackOutcome.CANCELLED if self._stopping.is_set() else StackOutcome.FAILED
            return replace(failed, outcome=outcome, reason=engine.reason(error)), secrets
        secrets += [part for value in settings.values() for part in secret_parts(value)]
        kubeconfig = settings.get(_KUBECONFIG)
        if self._plan.cluster_seconds is not None:
            try:
                config = client_config(kubeconfig, stack.context)
                problem = connection_problem(config, self._plan.cluster_seconds)
            except KubeError as error:
                problem = f"no connection to the cluster: {one_line(str(error))}"
            if problem:
                return replace(failed, reason=problem), secrets
        run = engine.run(self._plan.operation, preview_only=self._plan.preview_only)
        result = self._result(stack, run)
        if self._plan.operation is Operation.REFRESH and self._plan.preview_only and not run.failure:
            return self._with_drift(stack, engine, result, kubeconfig), secrets
        if self._plan.gate_seconds is None or self._plan.operation is not Operation.UP or run.failure:
            return result, secrets
        self._say(f"{stack.name}: waiting for the health gate")
        return self._gated(stack, result, kubeconfig, self._plan.gate_seconds), secrets

    def _with_drift(
        self, stack: FleetStack, engine: PulumiEngine, result: StackResult, kubeconfig: str | None
    ) -> StackResult:
        """Add what somebody changed by hand, with manager and repair; the engine's refresh does not see all of it."""
        try:
            state = engine.state()
            if next(objects_of(state), None) is None:
                return result
            config = client_config(kubeconfig, stack.context)
            with connection(config, self._plan.cluster_seconds or 10.0) as cluster:
                drift, problems = DriftCheck(stack.name, cluster).run(state)
        except EngineError as error:
            return replace(result, outcome=StackOutcome.FAILED, reason=engine.reason(error))
        except KubeError as error:
            return replace(result, outcome=StackOutcome.FAILED, reason=one_line(str(error)))
        if problems:
            messages = [*result.messages, *problems]
            return replace(result, outcome=StackOutcome.FAILED, reason=problems[0], messages=messages, drift=drift)
        if not drift:
            return result
        objects = len({entry.object for entry in drift})
        reason = f"{objects} {'object was' if objects == 1 else 'objects were'} changed by hand; see below"
        return replace(result, outcome=StackOutcome.CHANGES, reason=reason, drift=drift)

    def _result(self, stack: FleetStack, run: EngineRun) -> StackResult:
        changes = run.events.counts
        if run.cancelled:
            outcome = StackOutcome.CANCELLED
        elif run.failure:
            outcome = StackOutcome.FAILED
        elif not changes:
            outcome = StackOutcome.UNCHANGED
        else:
            outcome = StackOutcome.CHANGES if self._plan.previews else StackOutcome.DONE
        return StackResult(
            stack.name,
            stack.wave,
            stack.cluster,
            outcome,
            reason=run.failure,
            changes=changes,
            resources=run.events.resources,
            messages=run.events.messages,
            outputs=run.outputs,
        )

    def _gated(self, stack: FleetStack, result: StackResult, kubeconfig: str | None, seconds: float) -> StackResult:
        expected = expected_scheduler(result.outputs, stack.flavour)
        try:
            config = client_config(kubeconfig, stack.context)
            with connection(config, self._plan.cluster_seconds or 10.0) as cluster:
                gate = HealthGate(cluster, expected, self._stopping).wait(seconds)
        except KubeError as error:
            gate = GateResult([GateCheck("cluster", False, one_line(str(error)))])
        if gate.passed:
            placed = [check.detail for check in gate.checks if check.name.startswith("pod ")]
            return replace(result, gate=gate.checks, reason=f"healthy; pod {placed[0]}" if placed else "healthy")
        if gate.cancelled:
            reason = f"updated, then cancelled before it was healthy: {gate.reason}".removesuffix(": ")
            return replace(result, gate=gate.checks, outcome=StackOutcome.CANCELLED, reason=reason)
        reason = f"updated, but not healthy after {seconds:.0f} s: {gate.reason}"
        return replace(result, gate=gate.checks, outcome=StackOutcome.FAILED, reason=reason)


def _tokens(stack: FleetStack) -> list[str]:
    """Credentials in the files that the stack takes from the environment; the engine does not know them as secrets."""
    tokens: list[str] = []
    for name in stack.token_variables:
        try:
            tokens.append(Path(os.environ[name]).read_text(encoding="utf-8"))
        except (KeyError, OSError, UnicodeDecodeError):
            continue
    return tokens


def _redacted(result: StackResult, secrets: Sequence[str]) -> StackResult:
    redactor = Redactor(secrets)
    return replace(
        result,
        reason=redactor.text(result.reason),
        messages=[redactor.text(line) for line in result.messages],
        outputs=redactor.data(result.outputs),
        resources=[
            replace(
                resource, name=redactor.text(resource.name), properties=tuple(map(redactor.text, resource.properties))
            )
            for resource in result.resources
        ],
        gate=[replace(check, detail=redactor.text(check.detail)) for check in result.gate],
        drift=[
            replace(drift, field=redactor.text(drift.field), repair=redactor.text(drift.repair))
            for drift in result.drift
        ],
    )


_LISTEN_SECONDS = 0.5


def run_waves(
    waves: Sequence[tuple[str, Sequence[FleetStack]]],
    work: Callable[[FleetStack], StackResult],
    *,
    parallel: int,
    stop_on_failure: bool,
    stopping: threading.Event,
    on_result: Callable[[StackResult], None] = lambda _: None,
) -> list[StackResult]:
    """Do `work` for every stack, at most `parallel` at a time, and return a result for each, in the order of the waves.

    Where `stop_on_failure` is false, all stacks form one wave and none waits for another. `on_result` is called in this
    thread with each result as it arrives. On an interrupt, `stopping` is set, `work` must come to an end, and stacks
    that were not started are reported as cancelled.
    """
    steps = waves if stop_on_failure else [("", [stack for _, stacks in waves for stack in stacks])]
    results: dict[str, StackResult] = {}
    failed: list[str] = []
    with ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="stack") as pool:
        for _, stacks in steps:
            if stopping.is_set():
                results |= {stack.name: _not_started(stack) for stack in stacks}
            elif failed:
                results |= {stack.name: _skipped(stack, failed) for stack in stacks}
            else:
                _run_wave(pool, stacks, work, stopping, results, on_result)
                failed = [stack.name for stack in stacks if results[stack.name].outcome is StackOutcome.FAILED]
    return [results[stack.name] for _, stacks in waves for stack in stacks]


def _run_wave(
    pool: ThreadPoolExecutor,
    stacks: Sequence[FleetStack],
    work: Callable[[FleetStack], StackResult],
    stopping: threading.Event,
    results: dict[str, StackResult],
    on_result: Callable[[StackResult], None],
) -> None:
    futures: list[Future[StackResult]] = []
    try:
        for stack in stacks:
            futures.append(pool.submit(_run_stack, stack, work, stopping))
        pending = set(futures)
        while pending:
            # A signal that comes just before the thread goes to sleep is only heard when it wakes.
            done, pending = wait(pending, timeout=_LISTEN_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                results[result.stack] = result
                on_result(result)
    except Interrupted:
        stopping.set()
        for future in futures:
            result = future.result()
            if results.setdefault(result.stack, result) is result:
                on_result(result)
        for stack in stacks:
            results.setdefault(stack.name, _not_started(stack))


def _run_stack(stack: FleetStack, work: Callable[[FleetStack], StackResult], stopping: threading.Event) -> StackResult:
    if stopping.is_set():
        return _not_started(stack)
    try:
        return work(stack)
    except Exception as error:
        # An unexpected error of one stack must not end the others.
        reason = one_line(f"{type(error).__name__}: {error}")
        return StackResult(stack.name, stack.wave, stack.cluster, StackOutcome.FAILED, reason=reason)


def _not_started(stack: FleetStack) -> StackResult:
    reason = "cancelled before it was started"
    return StackResult(stack.name, stack.wave, stack.cluster, StackOutcome.CANCELLED, reason=reason)


def _skipped(stack: FleetStack, failed: Sequence[str]) -> StackResult:
    names = failed[0] if len(failed) == 1 else f"{failed[0]} and {len(failed) - 1} more"
    reason = f"not started, since {names} failed"
    return StackResult(stack.name, stack.wave, stack.cluster, StackOutcome.SKIPPED, reason=reason)
