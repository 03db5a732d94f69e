"""Selectors and allocations beside Kubernetes' own packages (k8s.io/dynamic-resource-allocation 0.36.3), on random
questions with stated seeds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.conformance.dra import (
    DRIVER,
    Expressions,
    Oracle,
    comparable,
    ours_allocates,
    ours_of,
    random_allocation,
)

pytestmark = [pytest.mark.slow]

SELECTORS, ALLOCATIONS = 20_000, 4_000
DEPTHS = (1, 2, 3)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    running = Oracle()
    yield running
    running.close()


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_selectors_have_the_go_evaluators_values(oracle: Oracle, seed: int) -> None:
    """Equal results; errors where it has errors, with its words where a key is missing."""
    rng = random.Random(seed)
    expressions = Expressions(rng)
    seen: Counter[str] = Counter()
    different = []
    for _ in range(SELECTORS // 2):
        expression, device = expressions.boolean(rng.choice(DEPTHS)), expressions.device()
        theirs = oracle.ask({"cel": {"expression": expression, "driver": DRIVER, "device": device}})
        if theirs.get("compileError"):
            # The server does not let it in.
            seen["refused"] += 1
            continue
        ours = ours_of(expression, device)
        if theirs.get("error"):
            seen["errors"] += 1
            words = theirs["error"] if theirs["error"].startswith("no such key") else ours.get("error")
            equal = ours.get("error") is not None and ours["error"] == words
        else:
            seen[f"{theirs['result']}"] += 1
            equal = ours == {"result": theirs["result"]}
        if not equal:
            different.append((expression, device, theirs, ours))
    assert not different, f"{len(different)} of {seen}: {different[:5]}"
    assert min(seen["True"], seen["False"], seen["errors"]) > 500, seen


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_allocations_are_the_go_allocators(oracle: Oracle, seed: int) -> None:
    """Equal devices in equal order, configurations, node selectors; equal errors."""
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    different = []
    for _ in range(ALLOCATIONS // 2):
        question = random_allocation(rng)
        theirs, ours = comparable(oracle.ask({"allocate": question})), ours_allocates(question)
        if "error" in theirs:
            seen["invalid pools" if theirs["nodeOnly"] else "errors"] += 1
            equal = ours.get("reason" if theirs["nodeOnly"] else "error") == theirs["error"]
        else:
            seen["allocated" if theirs["allocations"] else "none"] += 1
            seen["shared"] += "shareID" in str(theirs["allocations"])
            equal = ours.get("error") is None and ours.get("allocations") == theirs["allocations"]
        if not equal:
            different.append((question, theirs, ours))
    assert not different, f"{len(different)} of {seen}: {different[:2]}"
    assert min(seen["allocated"], seen["none"], seen["errors"], seen["shared"]) > 100, seen
