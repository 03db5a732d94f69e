"""Branch coverage of the functions that can do harm, by the unit tests that reach them (`tools.mutants.TESTS`).

    tools/harmcoverage.py [PYTEST ARGUMENTS]

Prints each function with lines or branches that no test takes. Exit code: 0 where there is none, else 1.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.harmfunctions import PROVEN  # noqa: E402
from tools.mutants import TESTS  # noqa: E402


def main(arguments: Sequence[str]) -> int:
    """Run the tests under coverage, and report."""
    with tempfile.TemporaryDirectory() as directory:
        data, report = Path(directory) / "data", Path(directory) / "report.json"
        settings = Path(directory) / "settings"
        included = ",".join(sorted({function.place.partition("::")[0] for function in PROVEN}))
        settings.write_text(f"[run]\nbranch = True\ndata_file = {data}\ninclude = {included}\n", encoding="utf-8")
        coverage = [sys.executable, "-m", "coverage"]
        tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
        command = [*coverage, "run", f"--rcfile={settings}", *tests, *TESTS, *arguments]
        passed = subprocess.run(command, cwd=ROOT, check=False).returncode == 0
        subprocess.run([*coverage, "json", "-q", f"--rcfile={settings}", "-o", str(report)], cwd=ROOT, check=True)
        lacking = list(untaken(json.loads(report.read_text(encoding="utf-8"))))
    print("\n".join(lacking), end="\n" if lacking else "")
    print(f"{len(PROVEN) - len(lacking)} of {len(PROVEN)} functions: every line and branch is taken")
    return 0 if passed and not lacking else 1


def untaken(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the functions of which a line or a branch is not taken, from coverage's report in JSON."""
    for function in PROVEN:
        path, _, name = function.place.partition("::")
        counted = report["files"].get(path, {}).get("functions", {}).get(name)
        if counted is None:
            yield f"{path}: {name} is not run at all"
        elif counted["missing_lines"] or counted["missing_branches"]:
            branches = [f"{start}->{end}" for start, end in counted["missing_branches"]]
            missing = ", ".join([*map(str, counted["missing_lines"]), *branches])
            yield f"{path}: {name}: {missing}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
