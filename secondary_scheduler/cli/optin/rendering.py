"""Status and check of opting in, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from scheduler.answers import Document
from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.optin.probing import ProbeAnswer
from secondary_scheduler.cli.optin.status import OptInSituation, OptInStatus
from secondary_scheduler.cli.optinpolicies import OptInReason
from secondary_scheduler.cli.output import aligned

_NAME_LIMIT = 5
"""Scheduler names in a cell."""


def status_lines(status: OptInStatus) -> Iterator[str]:
    """Yield the status for people."""
    rows = [["NAMESPACE", "OPTED IN TO", "PODS", "TEMPLATES", "MOVE AT ROLLOUT"]]
    for namespace in status.namespaces:
        cells = [
            namespace.name,
            ", ".join(namespace.opted_in) or "-",
            _counts(namespace.pods),
            _counts(namespace.templates),
        ]
        rows.append([*map(printable, cells), str(namespace.moving)])
    yield from aligned(rows)
    if not status.unserved:
        return
    yield ""
    yield "Scheduler names that nobody seems to serve:"
    for entry in status.unserved:
        facts = []
        if entry.waiting:
            facts.append(f"{entry.waiting} pod{'s wait' if entry.waiting != 1 else ' waits'} without an attempt")
        if entry.templates:
            facts.append(f"named by {entry.templates} template{'s' if entry.templates != 1 else ''}")
        yield printable(f"  {entry.name}: {', '.join(facts)} ({', '.join(entry.examples)})")


class CheckedPod(Struct, frozen=True, rename="camel"):
    """What would become of a pod, and why; `scheduler_name` is "" where it is refused."""

    case: str
    namespace: str
    scheduler_name: str
    moved: bool
    as_expected: bool
    reason: str


class OptInCheck(Document, frozen=True, kw_only=True):
    """What the API server would make of pods.

    Attributes:
        served: in which version it serves MutatingAdmissionPolicies; "" if it does not.
        feature_gate: what its metrics say about it; None if nothing.
        moved, reason, message: of an ordinary pod of the namespace.
    """

    kubernetes: str
    served: str
    feature_gate: bool | None
    namespace: str
    moved: bool
    reason: OptInReason
    message: str
    pods: list[CheckedPod]


def check_document(
    situation: OptInSituation, reason: OptInReason, detail: str, answers: Sequence[ProbeAnswer]
) -> OptInCheck:
    """Return the check for programs."""
    return OptInCheck(
        kubernetes=situation.kubernetes,
        served=situation.served,
        feature_gate=situation.gate,
        namespace=situation.namespace,
        moved=reason is OptInReason.MOVED,
        reason=reason,
        message=detail,
        pods=[
            CheckedPod(
                answer.case.name,
                answer.case.namespace,
                answer.scheduler_name,
                answer.moved,
                as_expected(answer, reason),
                why(answer, reason),
            )
            for answer in answers
        ],
    )


def check_lines(
    situation: OptInSituation, reason: OptInReason, detail: str, answers: Sequence[ProbeAnswer]
) -> Iterator[str]:
    """Yield the check for people."""
    served = f"served as {situation.served}" if situation.served else "not served"
    gate = {True: "on", False: "off", None: "not known"}[situation.gate]
    yield printable(f"Kubernetes {situation.kubernetes}: MutatingAdmissionPolicies {served}, feature gate {gate}")
    yield ""
    rows = [["POD", "NAMESPACE", "SCHEDULER", "AS EXPECTED", "WHY"]]
    for answer in answers:
        expected = "yes" if as_expected(answer, reason) else "NO"
        cells = [answer.case.name, answer.case.namespace, answer.scheduler_name or "-", expected, why(answer, reason)]
        rows.append([printable(cell) for cell in cells])
    yield from aligned(rows)
    yield ""
    verdict = "is moved" if reason is OptInReason.MOVED else f"is not moved ({reason.value})"
    yield printable(f"An ordinary pod of {situation.namespace} {verdict}: {detail}")


def as_expected(answer: ProbeAnswer, reason: OptInReason) -> bool:
    """Tell whether a pod fares as the verdict on ordinary pods, and its own exclusion, say."""
    if answer.refusal:
        return bool(answer.case.excluded)
    return answer.moved == (reason is OptInReason.MOVED and not answer.case.excluded)


def why(answer: ProbeAnswer, reason: OptInReason) -> str:
    """Return the reason for what would become of a pod."""
    if answer.refusal:
        return f"refused: {answer.refusal}"
    if answer.moved:
        return "moved" if not answer.case.excluded else f"moved, although {answer.case.excluded}"
    return answer.case.excluded or reason.value


def _counts(counts: Mapping[str, int]) -> str:
    ordered = Counter(counts).most_common()
    texts = [f"{name} {count}" for name, count in ordered[:_NAME_LIMIT]]
    if len(ordered) > _NAME_LIMIT:
        texts.append(f"others {sum(count for _, count in ordered[_NAME_LIMIT:])}")
    return ", ".join(texts) or "-"
