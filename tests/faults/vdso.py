"""Sets the wall clock of one process that is not ours to change: a Go binary, say.

Such a process asks the kernel for the time by way of the vDSO, a page of code that the kernel maps into it. What
`set_wall_clock` writes there adds a number of seconds to CLOCK_REALTIME and leaves every other clock as it is, as when
an administrator sets the machine's clock. Linux on x86-64 only.
"""

from __future__ import annotations

import os
import platform
import signal
import struct
import time
from pathlib import Path

_CODE = bytes.fromhex(
    "b8e4000000"  # mov eax, 228: the system call clock_gettime(edi, rsi)
    "0f05"  # syscall
    "85ff"  # test edi, edi: CLOCK_REALTIME is 0
    "750a"  # jne to the end
    "488b0d0e000000"  # mov rcx, [seconds]
    "48010e"  # add [rsi], rcx
    "c3"  # ret
    "90909090909090909090"  # up to the cell, which is aligned
)
_SECONDS = struct.Struct("<q")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC_SYMBOLS = 11
_PATIENCE_SECONDS = 5.0


def set_wall_clock(process: int, seconds: float) -> None:
    """Make a process's wall clock wrong by so many whole seconds, from now on.

    Raises OSError when the process is gone or may not be written to, and RuntimeError on another kind of machine.
    """
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise RuntimeError("the vDSO is written in the machine code of x86-64 Linux")
    first, last = _pages(process)
    with Path(f"/proc/{process}/mem").open("r+b", buffering=0) as memory:
        memory.seek(first)
        start = first + _offset_of(b"__vdso_clock_gettime", memory.read(last - first))
        # The cell alone, where the code is there already: no thread can be in the middle of eight aligned bytes.
        memory.seek(start)
        if memory.read(len(_CODE)) != _CODE:
            _stop_outside(process, first, last)
            try:
                memory.seek(start)
                memory.write(_CODE + _SECONDS.pack(int(seconds)))
            finally:
                os.kill(process, signal.SIGCONT)
        else:
            memory.seek(start + len(_CODE))
            memory.write(_SECONDS.pack(int(seconds)))


def _pages(process: int) -> tuple[int, int]:
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        if line.endswith("[vdso]"):
            first, _, last = line.split()[0].partition("-")
            return int(first, 16), int(last, 16)
    raise OSError(f"process {process} has no vDSO")


def _offset_of(name: bytes, image: bytes) -> int:
    """Where a function begins in the ELF image."""
    (table,) = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    sections = [_SECTION.unpack_from(image, table + number * size) for number in range(count)]
    symbols = next(section for section in sections if section[1] == _DYNAMIC_SYMBOLS)
    names = sections[symbols[6]][4]
    for offset in range(symbols[4], symbols[4] + symbols[5], _SYMBOL.size):
        name_at, _, _, _, value, room = _SYMBOL.unpack_from(image, offset)
        if image[names + name_at :].startswith(name + b"\0"):
            assert room >= len(_CODE) + _SECONDS.size
            return int(value)
    raise OSError(f"the vDSO has no {name.decode()}")


def _stop_outside(process: int, first: int, last: int) -> None:
    """Stop all threads at a moment when none of them runs the code that will be overwritten."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        os.kill(process, signal.SIGSTOP)
        while (counters := _program_counters(process)) is None:
            if time.monotonic() > deadline:
                os.kill(process, signal.SIGCONT)
                raise OSError(f"process {process} does not stop")
            time.sleep(0.001)
        if not any(first <= counter < last for counter in counters):
            return
        os.kill(process, signal.SIGCONT)
        time.sleep(0.001)


def _program_counters(process: int) -> list[int] | None:
    """Of every thread; None while one of them is not stopped."""
    counters = []
    for thread in Path(f"/proc/{process}/task").iterdir():
        try:
            state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
            words = (thread / "syscall").read_text().split()
        except FileNotFoundError:
            continue
        if state not in "Tt" or words[0] == "running":
            return None
        counters.append(int(words[-1], 16))
    return counters
