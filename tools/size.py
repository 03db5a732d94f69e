"""Says how large the project is, and how many forms and hops one fact has: files, lines, repeated names, files of a
setting, files that one pod, one setting and one sample pass through.

    tools/size.py            everything
    tools/size.py --static   without the flows, which run three tests

Only Python files that git knows count. A flow's files are those of which a function ran in its test, imports excepted.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # stacks is not installed

import grimp  # noqa: E402

from stacks.settings import StackSettings  # noqa: E402
from tools.architecture import ROOTS  # noqa: E402

LONG_FILE = 500
FRAGMENT = 80
"""Lines of a module that one other imports: it may as well be a part of that."""
FLOWS = {
    "pod -> Binding": "tests/unit/scheduler/engine/test_cycle.py::"
    "test_a_pod_is_bound_with_its_uid_and_everybody_is_told",
    "setting -> ConfigMap": "tests/components/test_scheduler_installation.py::"
    "test_an_operator_may_serve_two_resources_of_one_namespace",
    "sample -> score": "tests/unit/scheduler/engine/test_nodeloads.py",
}
SETTING_FILES = ("*.py", "*.yaml", "*.json", "*.md", ":!tests", ":!CHANGELOG.md", ":!benchmarks/NOTES.md")
# By make schemas and make olm. Of components/packaged.py, it writes what is a setting.
GENERATED = (
    "Pulumi.yaml",
    "docs/schemas/",
    "deploy/olm/",
    "components/packaged.py",
    "components/package/schema.json",
    "components/settings_args.py",
)


def tracked(*patterns: str) -> list[str]:
    """Paths of files that git knows."""
    command = ["git", "ls-files", *patterns]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def text_of(path: str) -> str:
    """The text of a file, by its path in the repository."""
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def lines_of(paths: Iterable[str]) -> int:
    """How many lines files have together."""
    return sum(text_of(path).count("\n") for path in paths)


def extent(production: list[str], tests: list[str]) -> Iterator[str]:
    """Files and lines, by top-level folder."""
    folders: dict[str, list[str]] = {}
    for path in production:
        folders.setdefault(path.partition("/")[0] if "/" in path else ".", []).append(path)
    for folder, files in sorted(folders.items()):
        yield f"{folder}: {lines_of(files)} lines in {len(files)} files"
    yield f"production: {lines_of(production)} lines in {len(production)} files"
    yield f"tests: {lines_of(tests)} lines in {len(tests)} files"
    lengths = [text_of(path).count("\n") for path in production]
    yield f"longer than {LONG_FILE} lines: {sum(length > LONG_FILE for length in lengths)} files"


def forms(production: list[str]) -> Iterator[str]:
    """What stands for one thing in several places."""
    trees = {path: ast.parse(text_of(path)) for path in production}
    classes = Counter(node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    repeated = {name: count for name, count in classes.items() if count > 1}
    yield f"class names that occur more than once: {len(repeated)}"
    scheduler = "".join(text_of(path) for path in production if path.startswith("scheduler/"))
    yield f"Callable[ in scheduler/: {scheduler.count('Callable[')}"
    checks = re.findall(r"^_\w+: type\[", scheduler, re.MULTILINE)
    yield f"lines _X: type[...] = ... in scheduler/: {len(checks)}"
    yield f"dict[str, Any] in production: {sum(text_of(path).count('dict[str, Any]') for path in production)}"
    yield f"modules of at most {FRAGMENT} lines with one importer: {len(list(fragments()))}"


def fragments() -> Iterator[str]:
    """Small modules that one other imports."""
    graph = grimp.build_graph(*ROOTS, exclude_type_checking_imports=False)
    for module in sorted(graph.modules):
        file = ROOT / f"{module.replace('.', '/')}.py"
        if file.exists() and file.read_text(encoding="utf-8").count("\n") <= FRAGMENT:
            importers = graph.find_modules_that_directly_import(module)
            if len(importers - {module.rpartition(".")[0]}) <= 1:
                yield module


def files_of_settings() -> Mapping[str, list[str]]:
    """The files that name each setting of a stack, in either of its spellings."""
    texts = {path: text_of(path) for path in tracked(*SETTING_FILES)}
    words = {path: set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text)) for path, text in texts.items()}
    return {
        name: [path for path, fields in words.items() if fields & {name, field.alias or name}]
        for name, field in StackSettings.model_fields.items()
    }


def settings() -> Iterator[str]:
    """How many files a setting is written in."""
    files = files_of_settings()
    # A short word is also a word of English, and of others' objects.
    telling = {name: paths for name, paths in files.items() if "_" in name}
    counts = sorted((len(paths), name) for name, paths in telling.items())
    most, name = counts[-1]
    yield f"settings of a stack: {len(files)}"
    yield f"files that name one: {median(count for count, _ in counts)} in the median, {most} at most ({name})"
    by_hand = [sum(not path.startswith(GENERATED) for path in paths) for paths in telling.values()]
    yield f"of these written by hand: {median(by_hand)} in the median"


def flow(test: str) -> list[str]:
    """The production files of which a function runs while a test does."""
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        command = [sys.executable, __file__, "--trace", file.name, test]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{test}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return Path(file.name).read_text(encoding="utf-8").splitlines()


def trace(target: Path, test: str) -> int:
    """Run a test by pytest, and write which files ran."""
    import pytest

    seen: set[str] = set()

    def look(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename)

    class CallTracing:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_call(self) -> Iterator[None]:
            threading.setprofile(look)
            sys.setprofile(look)
            try:
                return (yield)
            finally:
                sys.setprofile(None)
                threading.setprofile(None)

    code = pytest.main(["-q", "-p", "no:cacheprovider", test], plugins=[CallTracing()])
    production = {str(ROOT / path): path for path in tracked("*.py", ":!tests")}
    target.write_text("\n".join(sorted(production[path] for path in seen & production.keys())), encoding="utf-8")
    return int(code)


def main(arguments: list[str]) -> int:
    """Print the figures."""
    if arguments[:1] == ["--trace"]:
        return trace(Path(arguments[1]), arguments[2])
    production, tests = tracked("*.py", ":!tests"), tracked("tests/*.py")
    for part in (extent(production, tests), forms(production), settings()):
        print("\n".join(part))
    if "--static" not in arguments:
        for name, test in FLOWS.items():
            print(f"{name}: {len(flow(test))} files ({test})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
