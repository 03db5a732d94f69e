"""`/debug/pprof`: what clients of Go's pprof can use of a Python process.

`profile` samples the stacks of all threads and adds up the CPU time that each thread used between two samples;
`goroutine` shows the stacks of threads and tasks. Both are answered in pprof's format (proto/profile.proto of
github.com/google/pprof), which `go tool pprof` reads. Stacks are names, files and lines: no variable is read.
"""

from __future__ import annotations

import asyncio
import gzip
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

MAX_SECONDS: Final = 60.0
"""How long a profile may take: sampling costs the process about a hundredth of a CPU."""
_INTERVAL_SECONDS: Final = 0.01
_DEEPEST: Final = 200
_TASKS: Final = Path("/proc/self/task")

Stack = tuple[tuple[CodeType, int], ...]
"""Code and line of each frame, innermost first."""


def stack_of(frame: FrameType | None) -> Stack:
    """Return the stack of a frame, without the outermost frames of a very deep one."""
    frames: list[tuple[CodeType, int]] = []
    while frame is not None and len(frames) < _DEEPEST:
        frames.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(frames)


def thread_stacks() -> dict[str, Stack]:
    """Return the stack of each thread by its name and number."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    return {f"thread {names.get(ident, '')} {ident}": stack_of(frame) for ident, frame in frames.items()}


def task_stacks() -> dict[str, Stack]:
    """Return the stack of each task of the running loop by its name and number: what it waits for comes first."""
    return {f"task {task.get_name()} {number}": _awaited(task) for number, task in enumerate(asyncio.all_tasks())}


def _awaited(task: asyncio.Task[Any]) -> Stack:
    frames: list[tuple[CodeType, int]] = []
    waiting: Any = task.get_coro()
    while (frame := getattr(waiting, "cr_frame", None)) is not None and len(frames) < _DEEPEST:
        frames.append((frame.f_code, frame.f_lineno))
        waiting = waiting.cr_await
    return tuple(reversed(frames))


def show_stacks(stacks: Mapping[str, Stack]) -> str:
    """Return stacks as text, by the name of what runs them."""
    lines: list[str] = []
    for name, stack in stacks.items():
        lines.append(f"{name}:")
        lines += [f"\t{code.co_qualname}\t{code.co_filename}:{line}" for code, line in stack]
        lines.append("")
    return "\n".join(lines)


def sample_stacks(
    seconds: float, stopped: threading.Event, clock: Callable[[], float] = time.monotonic
) -> StackProfile:
    """Sample the stacks of all other threads for some seconds, or until `stopped`; blocks the calling thread."""
    profile = StackProfile(_INTERVAL_SECONDS)
    own = threading.get_ident()
    used: dict[int, int] = {}
    ends = clock() + seconds
    while clock() < ends and not stopped.wait(_INTERVAL_SECONDS):
        native = {thread.ident: thread.native_id for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            if ident == own:
                continue
            total = _cpu_nanoseconds(native.get(ident))
            spent = int(_INTERVAL_SECONDS * 1e9) if total is None else total - used.get(ident, total)
            used[ident] = total or 0
            if spent > 0:
                profile.add(stack_of(frame), spent)
    return profile


def _cpu_nanoseconds(native_id: int | None) -> int | None:
    """The CPU time of a thread; None where the kernel does not say."""
    try:
        return int((_TASKS / str(native_id) / "schedstat").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None


class StackProfile:
    """Samples by stack, and their form for pprof."""

    def __init__(self, interval_seconds: float = 0.0) -> None:
        """`interval_seconds` is the time between two samples; zero for a profile of counts alone."""
        self._interval = int(interval_seconds * 1e9)
        self._counts: Counter[Stack] = Counter()
        self._spent: Counter[Stack] = Counter()

    def add(self, stack: Stack, nanoseconds: int = 0) -> None:
        """Count a sample and the CPU time since the one before."""
        self._counts[stack] += 1
        self._spent[stack] += nanoseconds

    def encoded(self, name: str, time_nanoseconds: int, duration_seconds: float) -> bytes:
        """Return the profile in pprof's format, compressed.

        Args:
            name: of what is counted, such as `samples`.
            time_nanoseconds: since 1970.
            duration_seconds: how long it took.
        """
        strings = _Strings()
        types = [(name, "count"), *([("cpu", "nanoseconds")] if self._interval else [])]
        parts = [_nested(1, _pair(strings.index(kind), strings.index(unit))) for kind, unit in types]
        places: dict[tuple[CodeType, int], int] = {}
        functions: dict[CodeType, int] = {}
        for stack, count in self._counts.items():
            numbers = [places.setdefault(frame, len(places) + 1) for frame in stack]
            values = [count, *([self._spent[stack]] if self._interval else [])]
            parts.append(_nested(2, _packed(1, numbers) + _packed(2, values)))
        for (code, line), number in places.items():
            function = functions.setdefault(code, len(functions) + 1)
            parts.append(_nested(4, _field(1, number) + _nested(4, _pair(function, line))))
        for code, number in functions.items():
            text, file = strings.index(code.co_qualname), strings.index(code.co_filename)
            fields = _field(1, number) + _field(2, text) + _field(3, text) + _field(4, file)
            parts.append(_nested(5, fields + _field(5, code.co_firstlineno)))
        parts.append(_field(9, time_nanoseconds) + _field(10, int(duration_seconds * 1e9)))
        if self._interval:
            parts.append(_nested(11, _pair(strings.index("cpu"), strings.index("nanoseconds"))))
            parts.append(_field(12, self._interval))
        return gzip.compress(b"".join((*parts, strings.encoded())))


class _Strings:
    """The table of strings, of which the first is empty."""

    def __init__(self) -> None:
        self._numbers = {"": 0}

    def index(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def encoded(self) -> bytes:
        return b"".join(_nested(6, text.encode()) for text in self._numbers)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _nested(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _packed(number: int, values: Iterable[int]) -> bytes:
    return _nested(number, b"".join(map(_varint, values)))


def _pair(first: int, second: int) -> bytes:
    return _field(1, first) + _field(2, second)
