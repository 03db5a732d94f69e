"""What a match of a label selector costs, and what compiling it does: `python -m benchmarks selectors`.

A table of microseconds of processor time by the selector's requirements and the object's labels. A match costs the
labels that the object has; a selector of 30,000 requirements is as fast as one of three.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from scheduler.kube.model import LabelSelector, LabelSelectorRequirement
from scheduler.kube.primitives import label_selector

REQUIREMENTS, LABELS = (1, 30, 3_000, 30_000), (0, 3, 30)
SHAPES = (("In", ("v",)), ("DoesNotExist", ()))
SECONDS = 0.2


def selector_source(operator: str, values: tuple[str, ...], requirements: int) -> LabelSelector:
    """A selector with one requirement per key; an object of `labels_of` has the first keys where it is `In`."""
    prefix = "k" if operator == "In" else "absent"
    expressions = [LabelSelectorRequirement(f"{prefix}{number}", operator, values) for number in range(requirements)]
    return LabelSelector(match_expressions=tuple(expressions))


def labels_of(number: int) -> dict[str, str]:
    """The labels of an object."""
    return {f"k{each}": "v" for each in range(number)}


def microseconds(work: Callable[[], object]) -> float:
    """Mean processor time of a call, over at least SECONDS."""
    calls, started = 0, time.process_time()
    while (elapsed := time.process_time() - started) < SECONDS:
        for _ in range(10):
            work()
        calls += 10
    return elapsed / calls * 1e6


def main() -> None:
    """Print the table."""
    columns = "".join(f"{f'{number} labels':>12}" for number in LABELS)
    print(f"{'us per match':<14}{'requirements':>14}{columns}{'compiling':>12}")
    for operator, values in SHAPES:
        for requirements in REQUIREMENTS:
            source = selector_source(operator, values, requirements)
            selector = label_selector(source)
            matches = [microseconds(partial(selector.matches, labels_of(number))) for number in LABELS]
            compiling = microseconds(partial(label_selector, source))
            row = "".join(f"{each:>12.2f}" for each in matches)
            print(f"{operator:<14}{requirements:>14,}{row}{compiling:>12,.0f}", flush=True)


if __name__ == "__main__":
    main()
