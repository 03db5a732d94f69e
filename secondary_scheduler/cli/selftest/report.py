"""What the self-test found: for programs, as Markdown, and as a page to attach to a change request."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, json

from scheduler.answers import API_VERSION
from secondary_scheduler.cli.errors import printable

Outcome = Literal["passed", "failed", "skipped"]


class StepResult(Struct, frozen=True):
    """One step: what was tried and seen.

    Attributes:
        outcome: `skipped` where it could not be tried; `seen` says why then.
        seconds: that it took.
    """

    name: str
    tried: str
    outcome: Outcome
    seen: tuple[str, ...]
    seconds: float


class SelfTestReport(Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag="SelfTestReport"):
    """A run.

    Attributes:
        run: six characters that its objects' names end with.
        server: address of the API server.
        kubernetes: version of the API server.
        nodes: how many the cluster has.
        version: of this program.
        instances: what was under test.
        begun: RFC 3339.
        seconds: that the run took.
        left: objects that could not be removed, and why.
    """

    api_version: str = API_VERSION
    run: str
    server: str
    kubernetes: str
    nodes: int
    version: str
    instances: str
    begun: str
    seconds: float
    steps: tuple[StepResult, ...]
    left: tuple[str, ...] = ()

    @property
    def has_failed(self) -> bool:
        """Whether a step failed, or something could not be removed."""
        return bool(self.left) or any(step.outcome == "failed" for step in self.steps)

    @property
    def summary(self) -> str:
        """The number of steps by their outcome."""
        outcomes = [step.outcome for step in self.steps]
        return ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in ("passed", "failed", "skipped"))

    @property
    def digest(self) -> str:
        """SHA-256 of the document as JSON without spaces: two pages with the same one say the same."""
        return hashlib.sha256(json.encode(self)).hexdigest()


def markdown(report: SelfTestReport) -> Iterator[str]:
    """Yield the lines."""
    yield f"# Self-test of secondary-scheduler: {report.summary}"
    yield ""
    yield f"- Cluster: {_cell(report.server)}, Kubernetes {_cell(report.kubernetes)}, {report.nodes} nodes"
    yield f"- Under test: {_cell(report.instances)}; secondary-scheduler {report.version}"
    yield f"- Run {report.run}, begun {report.begun}, {report.seconds:.0f} s"
    yield f"- Digest: sha256:{report.digest}"
    yield ""
    yield "| Step | Outcome | Seconds | Tried | Seen |"
    yield "|---|---|---|---|---|"
    for step in report.steps:
        seen = "<br>".join(_cell(line) for line in step.seen)
        yield f"| {step.name} | {step.outcome} | {step.seconds:.1f} | {_cell(step.tried)} | {seen} |"
    yield ""
    if report.left:
        yield "Not removed:"
        yield ""
        yield from (f"- {_cell(line)}" for line in report.left)
    else:
        yield "Everything that the self-test made is removed."


def _cell(text: str) -> str:
    """Text of others that neither ends a cell nor becomes markup."""
    plain = printable(text)
    return "".join(f"\\{character}" if character in r"\`*_[]<>|#" else character for character in plain)


def page(report: SelfTestReport) -> str:
    """Return the page: one file, without a script and without anything to load."""
    # Here: it takes longer to import than all the rest.
    from secondary_scheduler.views.rendering import render

    return render("selftest.html", report=report)
