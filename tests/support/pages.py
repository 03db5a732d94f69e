"""The pages as what they say to type: blocks of commands and files, taken from the Markdown as they stand there.

A fence may say more after `console`: `fails` (every command of it is refused), `needs=WORD` (what no test has; the word
has a row in docs/guides/README.md), `in=JOURNEY` (only that journey runs it, where several follow the page).
`json file=NAME` is a file to write, as is YAML that begins with a comment that is a name.
`python -m tests.support.pages` counts the commands.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
GUIDES = "docs/guides"
INDEX = f"{GUIDES}/README.md"
INSTALL = f"{GUIDES}/install-on-kubernetes.md"
HELM = f"{GUIDES}/helm-and-argo-cd.md"
LEAVE = f"{GUIDES}/leave-for-the-go-scheduler.md"
TUTORIAL = "docs/tutorial.md"
FROM_0_1 = f"{GUIDES}/upgrade-from-0.1.md"
UPSTREAM_ISSUES = "docs/upstream-issues.md"

JOURNEYS: dict[str, tuple[str, ...]] = {
    "openshift": (
        f"{INSTALL}#1-get-the-program",
        f"{GUIDES}/install-on-openshift.md",
        "docs/load.md",
        f"{GUIDES}/remove.md",
    ),
    "kubernetes": (
        INSTALL,
        "docs/operating.md",
        "docs/runbooks.md",
        "docs/explain.md",
        "docs/status.md",
        "docs/bundle.md",
        "docs/load.md",
        "docs/simulate.md",
        "docs/plan.md",
        "docs/selftest.md",
        "docs/image.md",
        "docs/policy.md",
        "docs/fleet.md",
        f"{GUIDES}/change-a-plugin-arg.md",
        f"{GUIDES}/rotate-the-token.md",
        f"{GUIDES}/changed-by-hand.md",
        f"{GUIDES}/upgrade.md",
        f"{GUIDES}/roll-back.md",
        f"{GUIDES}/move-workloads.md",
        f"{GUIDES}/kueue.md",
        f"{GUIDES}/train-inside-a-rack.md",
        f"{GUIDES}/gangs-of-job-controllers.md",
        f"{GUIDES}/hpa.md",
        f"{GUIDES}/resize.md",
        LEAVE,
        f"{GUIDES}/remove.md",
    ),
    "by-hand": (
        "docs/render.md",
        f"{GUIDES}/adopt.md",
        f"{GUIDES}/install-modes.md",
    ),
    "helm": (HELM,),
    "readme": ("README.md", f"{GUIDES}/install-the-command-line.md"),
    "tutorial": (TUTORIAL,),
    "from-0.1": (f"{FROM_0_1}#the-update", f"{FROM_0_1}#back-to-010"),
    "plugin": (f"{GUIDES}/write-an-out-of-tree-plugin.md#3-try-it-on-the-local-cluster",),
    "checkout": ("docs/benchmarks.md#in-seconds",),
    "upstream": (UPSTREAM_ISSUES,),
    "files": (
        "docs/configuration.md",
        "docs/simulate.md",
        "docs/plan.md",
        "docs/rebalancing.md",
        f"{GUIDES}/write-an-out-of-tree-plugin.md",
    ),
}
"""The pages that a reader follows one after another, in one clone with one environment, by the journey's name.

Those on a cluster are run by tests/e2e/test_guides.py, `tutorial` by tests/e2e/test_tutorial.py, `from-0.1` by
tests/e2e/test_upgrade_from_0_1.py, `plugin` by
tests/integration/scheduler/test_plugin_on_a_cluster.py, `upstream` by tests/conformance/test_upstream_issues.py,
`files` and `checkout` by tests/unit/docs/test_pages_without_a_cluster.py.
"""
_FENCE = re.compile(r"( *)```(.*)")
_FILE = re.compile(r"# (\S+\.yaml)")
_ROW = re.compile(r"^\| `([\w/.-]+)` \| `(\w+)` \| (.+) \|$", re.MULTILINE)
_OPTIONS = {"needs", "fails", "in", "file"}


@dataclass(frozen=True)
class Step:
    """A command and what the page shows of its output.

    Attributes:
        command: lines that follow a `> ` belong to it.
        expected: lines; `…` stands for anything within one.
        line: where it stands on the page.
        fails: the page says that it is refused.
    """

    command: str
    expected: tuple[str, ...]
    line: int
    fails: bool = False

    def missing_in(self, output: str) -> list[str]:
        """The expected lines that no line of the output has."""
        lines = [" ".join(line.split()) for line in output.splitlines()]
        return [wanted for wanted in self.expected if not any(_pattern(wanted).search(line) for line in lines)]


@dataclass(frozen=True)
class File:
    """A file that the page has the reader write."""

    path: str
    content: str
    line: int


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        needs: what it needs that no test has; empty: it is run.
        journey: the only journey that runs it; empty: each that follows the page.
        section: the anchors of the headings above it.
    """

    line: int
    needs: str
    content: tuple[Step | File, ...]
    journey: str = ""
    section: frozenset[str] = frozenset()

    @property
    def commands(self) -> int:
        """How many commands it has."""
        return sum(isinstance(part, Step) for part in self.content)


def pages() -> list[str]:
    """All pages that may have commands."""
    found_in = (CHECKOUT.glob("*.md"), (CHECKOUT / "docs").glob("*.md"), (CHECKOUT / GUIDES).glob("*.md"))
    return sorted(str(path.relative_to(CHECKOUT)) for paths in found_in for path in paths)


def guides() -> list[str]:
    """All guides but the index."""
    return [page for page in pages() if page.startswith(f"{GUIDES}/") and page != INDEX]


def text_of(page: str) -> str:
    return (CHECKOUT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """What is to be typed and written, in order."""
    fenced = _fenced(text_of(page))
    return [block for fence in fenced if (block := _block(page, fence)) is not None]


def followed(journey: str, step: str) -> list[Block]:
    """The blocks that a journey runs of a page, or of the part of it below a heading: `docs/x.md#heading`."""
    page, _, section = step.partition("#")
    return [
        block
        for block in blocks(page)
        if not block.needs and block.journey in ("", journey) and (not section or section in block.section)
    ]


def listed() -> dict[tuple[str, str], str]:
    """The commands that no test runs: the reason, by page and what they need; the list of docs/guides/README.md."""
    return {(page, need): reason for page, need, reason in _ROW.findall(text_of(INDEX))}


@dataclass(frozen=True)
class Inventory:
    """The commands of one page: all, those that a journey runs, those on the list, and the lines of all others."""

    commands: int
    run: int
    listed: int
    neither: tuple[int, ...]


def inventory(page: str) -> Inventory:
    """Count the commands of a page."""
    known = listed()
    run_lines = {
        block.line
        for journey, steps in JOURNEYS.items()
        for step in steps
        if step.partition("#")[0] == page
        for block in followed(journey, step)
    }
    each = blocks(page)
    needing = [block for block in each if block.needs and (page, block.needs) in known]
    run = [block for block in each if block.line in run_lines]
    counted = {block.line for block in (*needing, *run)}
    return Inventory(
        sum(block.commands for block in each),
        sum(block.commands for block in run),
        sum(block.commands for block in needing),
        tuple(block.line for block in each if block.commands and block.line not in counted),
    )


@dataclass(frozen=True)
class Fence:
    """A fenced block as it stands on the page."""

    info: str
    line: int
    lines: list[str]
    section: frozenset[str]


def fences(page: str) -> list[Fence]:
    """All fenced blocks of a page, commands or not."""
    return list(_fenced(text_of(page)))


def anchor(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _pattern(wanted: str) -> re.Pattern[str]:
    parts = (re.escape(" ".join(part.split())) for part in wanted.split("…"))
    return re.compile(".*".join(parts))


def _fenced(text: str) -> Iterator[Fence]:
    info: str | None = None
    start, indent, lines = 0, "", list[str]()
    headings: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.fullmatch(line)
        if fence and info is None:
            indent, info, start, lines = fence[1], fence[2].strip(), number, []
        elif fence and not fence[2]:
            assert info is not None
            yield Fence(info, start, lines, frozenset(map(anchor, headings)))
            info = None
        elif info is not None:
            lines.append(line.removeprefix(indent))
        elif line.startswith("#"):
            marks, _, heading = line.partition(" ")
            headings = [*headings[: len(marks) - 1], *[""] * (len(marks) - 1 - len(headings)), heading]
    assert info is None, f"the block that begins in line {start} has no end"


def _block(page: str, fence: Fence) -> Block | None:
    language, *words = fence.info.split() or [""]
    options = dict(word.partition("=")[::2] for word in words)
    assert set(options) <= _OPTIONS, f"{page}:{fence.line}: {fence.info}"
    if language == "console":
        steps = tuple(_steps(fence.lines, fence.line + 1, "fails" in options))
        return Block(fence.line, options.get("needs", ""), steps, options.get("in", ""), fence.section)
    name = _FILE.fullmatch(fence.lines[0]) if language == "yaml" and fence.lines else None
    path = name[1] if name else options.get("file")
    if path:
        file = File(path, "\n".join(fence.lines) + "\n", fence.line)
        return Block(fence.line, "", (file,), options.get("in", ""), fence.section)
    return None


def _steps(lines: list[str], first: int, fails: bool) -> Iterator[Step]:
    command: list[str] = []
    expected: list[str] = []
    start = first
    for number, line in enumerate([*lines, "$ "], first):
        if line.startswith("$ "):
            if command:
                yield Step("\n".join(command), tuple(expected), start, fails)
            command, expected, start = [line[2:]], [], number
        elif line.startswith("> ") and not expected:
            command.append(line[2:])
        elif line.strip() not in ("", "…"):
            assert command, f"line {number}: output without a command, or a command without $"
            expected.append(line)


class Shell:
    """A reader's shell: what is exported, and the directory, last from command to command.

    Attributes:
        values: the reader's own in place of the examples'.
        before: called with the reader's directory before a command that begins with the key.
        seconds: how long a command may take.

    What is typed and printed is kept beside `state`, with the suffix .log, for whoever looks into a failure.
    """

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str],
        values: Mapping[str, str],
        state: Path,
        before: Mapping[str, Callable[[Path], None]] | None = None,
    ) -> None:
        self.values = dict(values)
        self.before = dict(before or {})
        self.seconds = 280.0
        self._environment = dict(environment)
        self._state = state
        self._state.write_text(f"cd {directory}\n")
        self._transcript = state.with_suffix(".log")

    @property
    def directory(self) -> Path:
        """Where the reader is now."""
        (last,) = re.findall(r"^cd (.+)$", self._state.read_text(), re.MULTILINE)[-1:]
        return Path(last.replace("\\", ""))

    def follow(self, block: Block) -> None:
        """Write the files of a block, run its commands, and compare with what the page shows."""
        for part in block.content:
            if isinstance(part, File):
                path = self.directory / part.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._with_values(part.content), encoding="utf-8")
                continue
            for beginning, prepare in self.before.items():
                if part.command.startswith(beginning):
                    prepare(self.directory)
            code, output = self.run(self._with_values(part.command))
            report = f"line {part.line}: {part.command}\n{output}"
            assert (code != 0) == part.fails, f"exit code {code}, {report}"
            assert not part.missing_in(self._as_on_the_page(output)), f"{part.missing_in(output)} is missing, {report}"

    def run(self, command: str, seconds: float | None = None) -> tuple[int, str]:
        """Run one command as it stands; its exit code, and all that it prints."""
        # What pytest or a colleague's shell exports in between stays out: the environment is given, not inherited.
        limit = self.seconds if seconds is None else seconds
        script = f'set -a; . "{self._state}"; set +a\n{command}\ncode=$?\n'
        script += f'{{ export -p; printf "cd %q\\n" "$PWD"; }} > "{self._state}"; exit $code\n'
        started = time.monotonic()
        with subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-c", script],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGTERM)
                raise AssertionError(f"not within {limit:g} s: {command}") from None
        with self._transcript.open("a") as transcript:
            transcript.write(f"$ {command}\n{output}\n[{process.returncode}, {time.monotonic() - started:.1f} s]\n")
        return process.returncode, output

    def _with_values(self, text: str) -> str:
        for example, own in self.values.items():
            text = text.replace(example, own)
        return text

    def _as_on_the_page(self, output: str) -> str:
        for example, own in self.values.items():
            output = output.replace(own, example)
        return output


def main() -> None:
    """Print how many commands the pages have, how many a test runs, and how many are on the list."""
    counts = {page: inventory(page) for page in pages()}
    for page, count in counts.items():
        if count.commands:
            print(f"{page:45} {count.commands:4} commands, {count.run:4} run, {count.listed:4} listed")
    every = [sum(getattr(count, field) for count in counts.values()) for field in ("commands", "run", "listed")]
    print(f"{'all pages':45} {every[0]:4} commands, {every[1]:4} run, {every[2]:4} listed")


if __name__ == "__main__":
    main()
