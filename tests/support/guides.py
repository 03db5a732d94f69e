"""The guides as what they say to type: blocks of commands and files, taken from the Markdown as they stand there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
GUIDES = CHECKOUT / "docs" / "guides"
OTHERS = ("install-modes", "adopt", "add-an-in-tree-plugin", "write-an-out-of-tree-plugin")
"""Guides whose commands are run by tests of their own."""
_FENCE = re.compile(r"( *)```(.*)")
_FILE = re.compile(r"# (\S+\.yaml)")


@dataclass(frozen=True)
class Step:
    """A command and what the guide shows of its output.

    Attributes:
        command: lines that follow a `> ` belong to it.
        expected: lines; `…` stands for anything within one.
        line: where it stands in the guide.
        fails: the guide says that it is refused.
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
    """A file that the guide has the reader write."""

    path: str
    content: str
    line: int


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        needs: what it needs that a local cluster does not have; empty: it runs there.
    """

    line: int
    needs: str
    content: tuple[Step | File, ...]


def guide_names() -> list[str]:
    """All guides but the index."""
    return sorted(path.stem for path in GUIDES.glob("*.md") if path.stem != "README")


def text_of(guide: str) -> str:
    return (GUIDES / f"{guide}.md").read_text(encoding="utf-8")


def blocks(guide: str) -> list[Block]:
    """What is to be typed and written, in order."""
    return [block for info, line, lines in _fenced(text_of(guide)) if (block := _block(info, line, lines)) is not None]


def _pattern(wanted: str) -> re.Pattern[str]:
    parts = (re.escape(" ".join(part.split())) for part in wanted.split("…"))
    return re.compile(".*".join(parts))


def _fenced(text: str) -> Iterator[tuple[str, int, list[str]]]:
    info: str | None = None
    start, indent, lines = 0, "", list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.fullmatch(line)
        if fence and info is None:
            indent, info, start, lines = fence[1], fence[2].strip(), number, []
        elif fence and not fence[2]:
            assert info is not None
            yield info, start, lines
            info = None
        elif info is not None:
            lines.append(line.removeprefix(indent))
    assert info is None, f"the block that begins in line {start} has no end"


def _block(info: str, line: int, lines: list[str]) -> Block | None:
    language, *words = info.split()
    options = dict(word.partition("=")[::2] for word in words)
    assert set(options) <= {"needs", "fails"}, f"line {line}: {info}"
    if language == "console":
        return Block(line, options.get("needs", ""), tuple(_steps(lines, line + 1, "fails" in options)))
    name = _FILE.fullmatch(lines[0]) if language == "yaml" and lines else None
    if name:
        return Block(line, "", (File(name[1], "\n".join(lines) + "\n", line),))
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
            assert command, f"line {number}: output without a command"
            expected.append(line)


class Shell:
    """A reader's shell: what is exported, and the directory, last from command to command.

    Attributes:
        values: the reader's own in place of the examples'.

    What is typed and printed is kept beside `state`, with the suffix .log, for whoever looks into a failure.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str], values: Mapping[str, str], state: Path) -> None:
        self.directory = directory
        self.values = dict(values)
        self._environment = dict(environment)
        self._state = state
        self._state.write_text(f"cd {directory}\n")
        self._transcript = state.with_suffix(".log")

    def follow(self, block: Block) -> None:
        """Write the files of a block, run its commands, and compare with what the guide shows."""
        for part in block.content:
            if isinstance(part, File):
                path = self.directory / part.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._with_values(part.content), encoding="utf-8")
                continue
            code, output = self.run(self._with_values(part.command))
            report = f"line {part.line}: {part.command}\n{output}"
            assert (code != 0) == part.fails, f"exit code {code}, {report}"
            assert not part.missing_in(self._as_in_the_guide(output)), f"{part.missing_in(output)} is missing, {report}"

    def run(self, command: str, seconds: float = 280) -> tuple[int, str]:
        """Run one command as it stands; its exit code, and all that it prints."""
        # What pytest or a colleague's shell exports in between stays out: the environment is given, not inherited.
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
                output, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGTERM)
                raise AssertionError(f"not within {seconds:g} s: {command}") from None
        with self._transcript.open("a") as transcript:
            transcript.write(f"$ {command}\n{output}\n[{process.returncode}, {time.monotonic() - started:.1f} s]\n")
        return process.returncode, output

    def _with_values(self, text: str) -> str:
        for example, own in self.values.items():
            text = text.replace(example, own)
        return text

    def _as_in_the_guide(self, output: str) -> str:
        for example, own in self.values.items():
            output = output.replace(own, example)
        return output
