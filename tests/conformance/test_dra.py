"""Selectors and allocations beside Kubernetes' own packages (k8s.io/dynamic-resource-allocation 0.36.3; allocations
also 0.37.0 and 0.38.0-beta.0), on random questions with stated seeds."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.conformance.dra import (
    DRIVER,
    Expressions,
    Oracle,
    agrees,
    comparable,
    ours_allocates,
    ours_of,
    random_allocation,
    same_selection,
    selector_answer,
)
from tests.unit.scheduler.cel import selections
from tests.unit.scheduler.plugins import allocations

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
        seen["errors" if theirs.get("error") else f"{theirs['result']}"] += 1
        if not same_selection(ours, theirs):
            different.append((expression, device, theirs, ours))
    assert not different, f"{len(different)} of {seen}: {different[:5]}"
    assert min(seen["True"], seen["False"], seen["errors"]) > 500, seen


@pytest.fixture(scope="module")
def newer_oracles() -> Iterator[dict[int, Oracle]]:
    running = {minor: Oracle(minor) for minor in allocations.CHANGED}
    yield running
    for each in running.values():
        each.close()


@pytest.fixture(params=[36, *allocations.CHANGED])
def oracle_of(request: pytest.FixtureRequest, oracle: Oracle) -> tuple[int, Oracle]:
    """A minor, and the Go program with its packages."""
    if request.param == 36:
        return 36, oracle
    newer: dict[int, Oracle] = request.getfixturevalue("newer_oracles")
    return request.param, newer[request.param]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_allocations_are_the_go_allocators(oracle_of: tuple[int, Oracle], seed: int) -> None:
    """Equal devices in equal order, configurations, node selectors; equal errors."""
    rng = random.Random(seed)
    minor, oracle = oracle_of
    seen: Counter[str] = Counter()
    different = []
    for _ in range(ALLOCATIONS // 2):
        question = random_allocation(rng)
        theirs, ours = comparable(oracle.ask({"allocate": question})), ours_allocates(question, minor)
        if "error" in theirs:
            seen["invalid pools" if theirs["nodeOnly"] else "errors"] += 1
        else:
            seen["allocated" if theirs["allocations"] else "none"] += 1
            seen["shared"] += "shareID" in str(theirs["allocations"])
        if not agrees(ours, theirs):
            different.append((question, theirs, ours))
    assert not different, f"{len(different)} of {seen}: {different[:2]}"
    assert min(seen["allocated"], seen["none"], seen["errors"], seen["shared"]) > 100, seen


def test_the_recorded_answers_are_the_go_packages(oracle: Oracle, newer_oracles: dict[int, Oracle]) -> None:
    """`RECORD=1` records them again."""
    devices = {title: comparable(oracle.ask({"allocate": question})) for title, question in allocations.CASES.items()}
    values = {
        title: selector_answer(
            oracle.ask(
                {"cel": {"expression": expression, "driver": driver, "device": device, "consumableCapacity": True}}
            )
        )
        for title, (expression, driver, device) in selections.CASES.items()
    }
    newer, before = {}, devices
    files = {allocations.ANSWERS: devices, selections.ANSWERS: values}
    for minor, newer_oracle in newer_oracles.items():
        newer[minor] = {
            title: comparable(newer_oracle.ask({"allocate": question})) for title, question in allocations.CASES.items()
        }
        files[allocations.CHANGED[minor]] = {
            title: answer for title, answer in newer[minor].items() if answer != before[title]
        }
        before = newer[minor]
    if os.environ.get("RECORD"):
        for path, answers in files.items():
            path.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n")
    assert devices == allocations.recorded()
    assert newer == {minor: allocations.recorded(minor) for minor in newer}
    assert values == selections.recorded_selectors()
