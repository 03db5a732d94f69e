"""Mutation testing of the functions that can do harm: a seeded sample of mutmut's mutants, each against the unit tests
that reach its function.

    tools/mutants.py [--seed 1] [--number 300] [--workers 2] [--lines]

Works on a copy of the checkout, in build/mutants.
`--lines` prints what each survivor changes. Exit code: 0 where at least 90 % of the mutants are killed, else 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.harmfunctions import PROVEN  # noqa: E402

COPY = ROOT / "build" / "mutants"
REQUIRED = 0.9
KILLED, SURVIVED = "killed", "survived"
_CODES = {
    **dict.fromkeys((1, 3), KILLED),
    0: SURVIVED,
    **dict.fromkeys((5, 33), "no test"),
    **dict.fromkeys((-24, -9, 24, 36, 152, 255), "timeout"),
}
"""What mutmut's exit codes mean."""
_CLIENT, _ENGINE = "tests/unit/scheduler/kube/client", "tests/unit/scheduler/engine"
_OBSERVE, _OPERATOR = "tests/unit/scheduler/observe", "tests/unit/operator"
TESTS = (
    *(f"{_CLIENT}/test_{name}.py" for name in ("credentials", "http", "pool", "sessions", "sync", "tokens")),
    "tests/unit/scheduler/kube/test_lease.py",
    *(f"{_ENGINE}/test_{name}.py" for name in ("bindings", "failures", "preemption", "recorder", "writes")),
    *(f"{_OBSERVE}/test_{name}.py" for name in ("authorization", "otlp", "server")),
    *(f"tests/unit/scheduler/load/test_{name}.py" for name in ("prometheus", "redirects")),
    *("tests/unit/scheduler/test_handover.py", "tests/integration/scheduler/test_extender_calls.py"),
    *(f"{_OPERATOR}/test_{name}.py" for name in ("caches", "controller", "groups", "process", "writer")),
    *("tests/unit/rebalancer/test_live.py", "tests/unit/rebalancing/test_rules.py"),
    *("tests/unit/page/test_access.py", "tests/unit/page/test_running.py"),
    *("tests/unit/cli/fleet/test_gate.py", "tests/unit/cli/optin/test_probing.py"),
    *("tests/unit/cli/preflight/test_openshift.py", "tests/unit/cli/test_serviceaccounts.py"),
    "tests/unit/cli/selftest/test_objects.py",
    *("tests/unit/stacks/test_clustercheck.py", "tests/unit/cli/explain/test_schedulerclient.py"),
)
"""The unit tests that reach these functions."""
_SOURCES = ("scheduler", "secondary_scheduler", "stacks")


def main(arguments: Sequence[str]) -> int:
    """Copy the checkout, have the sample run, and print the table."""
    parser = argparse.ArgumentParser(description="Mutation testing of the functions that can do harm.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=300, help="mutants in the sample; 0: all")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lines", action="store_true", help="show what each survivor changes")
    options = parser.parse_args(arguments)
    copy_checkout()
    # The first run makes the mutants, and finds out which test reaches which function.
    _mutmut(f"{next(iter(functions()))}__mutmut_1", workers=options.workers)
    names = sorted(name for name, _ in results())
    wanted = (
        names if options.number == 0 else random.Random(options.seed).sample(names, min(options.number, len(names)))
    )
    _mutmut(*sorted(wanted), workers=options.workers)
    outcome = {name: code for name, code in results() if name in set(wanted)}
    print(table(outcome, len(names), options.seed))
    if options.lines:
        for name in sorted(name for name, code in outcome.items() if verdict(code) == SURVIVED):
            print(_output("show", name))
    return 0 if score(outcome) >= REQUIRED else 1


def copy_checkout() -> None:
    """Make the copy anew: what git knows, or would know, with mutmut's settings."""
    shutil.rmtree(COPY, ignore_errors=True)
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for path in listed:
        if (ROOT / path).is_file():
            (COPY / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, COPY / path)
    beside = sorted(path.name for path in COPY.iterdir() if path.name not in (*_SOURCES, "tests"))
    settings = {
        "source_paths": list(_SOURCES),
        "only_mutate": sorted({function.place.partition("::")[0] for function in PROVEN}),
        "also_copy": beside,
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-m", "not slow"],
        "pytest_add_cli_args_test_selection": list(TESTS),
        "process_isolation": "forkserver",
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    with (COPY / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("\n[tool.mutmut]\n" + "\n".join(lines) + "\n")


def functions() -> Iterator[str]:
    """The functions' names as mutmut has them, without the number of the mutant."""
    for function in PROVEN:
        path, _, name = function.place.partition("::")
        # What stands inside a function is part of it.
        outer, *inner = name.split(".")
        mangled = f"xǁ{outer}ǁ{inner[0]}" if outer.strip("_")[0].isupper() else f"x_{outer}"
        yield f"{path.removesuffix('.py').replace('/', '.')}.{mangled}"


def results() -> Iterator[tuple[str, int | None]]:
    """Every mutant of these functions with mutmut's exit code; None: not run."""
    wanted = set(functions())
    for file in sorted((COPY / "mutants").rglob("*.meta")):
        codes = json.loads(file.read_text(encoding="utf-8"))["exit_code_by_key"]
        for name, code in codes.items():
            if name.rpartition("__mutmut_")[0] in wanted:
                yield name, code


def verdict(code: int | None) -> str:
    """What became of a mutant."""
    return "not run" if code is None else _CODES.get(code, f"exit code {code}")


def score(outcome: dict[str, int | None]) -> float:
    """The share of mutants that are killed; one that never ends counts as killed."""
    verdicts = Counter(verdict(code) for code in outcome.values())
    return (verdicts[KILLED] + verdicts["timeout"]) / max(len(outcome), 1)


def table(outcome: dict[str, int | None], number: int, seed: int) -> str:
    """The table for benchmarks/NOTES.md."""
    modules: dict[str, Counter[str]] = {}
    for name, code in outcome.items():
        module = name.rpartition(".")[0]
        modules.setdefault(module, Counter())[verdict(code)] += 1
    lines = [
        f"Seed {seed}: {len(outcome)} of {number} mutants; score {score(outcome):.1%}.",
        "",
        "| module | mutants | killed | timeout | survived | no test |",
        "|---|---|---|---|---|---|",
    ]
    for module, counts in sorted(modules.items()):
        figures = (counts.total(), *(counts[each] for each in (KILLED, "timeout", SURVIVED, "no test")))
        lines.append(f"| `{module}` | {' | '.join(map(str, figures))} |")
    return "\n".join(lines)


def _mutmut(*names: str, workers: int) -> None:
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(workers), *names]
    if code := subprocess.run(command, cwd=COPY, check=False, env=_environment()).returncode:
        raise SystemExit(f"mutants: mutmut ended with code {code}")


def _output(*arguments: str) -> str:
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, cwd=COPY, check=True, capture_output=True, text=True, env=_environment()).stdout


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
