"""What the reports on the functions that can do harm say of mutmut's and coverage's results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import harmcoverage, mutants
from tools.harmfunctions import PROVEN

ROOT = Path(__file__).parents[3]


def test_every_function_has_the_name_that_mutmut_gives_it() -> None:
    names = list(mutants.functions())
    assert "scheduler.engine.binding.xǁBinderǁ_post" in names
    assert "scheduler.kube.client.tokens.x_review_token" in names
    # What stands inside a function is changed with it.
    assert "scheduler.observe.endpoints.xǁEndpointsǁ_guard" in names
    assert len(names) == len(PROVEN)


def test_mutants_of_other_functions_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "COPY", tmp_path)
    meta = tmp_path / "mutants" / "scheduler" / "engine" / "binding.py.meta"
    meta.parent.mkdir(parents=True)
    post, other = "scheduler.engine.binding.xǁBinderǁ_post__mutmut_3", "scheduler.engine.binding.x_pod_path__mutmut_1"
    meta.write_text(json.dumps({"exit_code_by_key": {post: 1, other: 0}}))
    assert list(mutants.results()) == [(post, 1)]


def test_the_table_counts_what_became_of_the_mutants_by_module() -> None:
    outcome = {"a.x_f__mutmut_1": 1, "a.x_f__mutmut_2": 0, "a.x_g__mutmut_1": 36, "b.x_h__mutmut_1": 33}
    text = mutants.table(outcome, number=40, seed=7)
    assert text.splitlines() == [
        "Seed 7: 4 of 40 mutants; score 50.0%.",
        "",
        "| module | mutants | killed | timeout | survived | no test |",
        "|---|---|---|---|---|---|",
        "| `a` | 3 | 1 | 1 | 1 | 0 |",
        "| `b` | 1 | 0 | 0 | 0 | 1 |",
    ]


@pytest.mark.parametrize("code", [None, 0, 2, 5, 33, 34])
def test_only_a_mutant_that_a_test_fails_on_or_that_never_ends_is_killed(code: int | None) -> None:
    assert mutants.score({"killed": 1, "endless": 36, "other": code}) == pytest.approx(2 / 3)


def test_the_tests_that_are_run_exist() -> None:
    assert not [path for path in mutants.TESTS if not (ROOT / path).exists()]


def test_a_function_with_a_branch_that_no_test_takes_is_shown_with_it() -> None:
    report: dict[str, dict[str, dict[str, object]]] = {"files": {}}
    for function in PROVEN:
        path, _, name = function.place.partition("::")
        clean = {"missing_lines": [], "missing_branches": []}
        functions = report["files"].setdefault(path, {"functions": {}})["functions"]
        assert isinstance(functions, dict)
        functions[name] = clean
    assert not list(harmcoverage.untaken(report))
    binding = report["files"]["scheduler/engine/binding.py"]["functions"]
    assert isinstance(binding, dict)
    binding["Binder._post"] = {"missing_lines": [168], "missing_branches": [[170, 171]]}
    del report["files"]["scheduler/handover.py"]
    assert list(harmcoverage.untaken(report)) == [
        "scheduler/engine/binding.py: Binder._post: 168, 170->171",
        "scheduler/handover.py: Handover._is_known is not run at all",
        "scheduler/handover.py: Handover._ask is not run at all",
    ]
