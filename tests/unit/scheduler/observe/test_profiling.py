"""Profiles of the running process, in pprof's format."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import threading
from collections.abc import Iterator

from scheduler.observe.profiling import StackProfile, sample_stacks, show_stacks, task_stacks, thread_stacks


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a message, decoded apart from our encoder."""
    place = 0

    def varint() -> int:
        nonlocal place
        number = shift = 0
        while True:
            byte = message[place]
            place += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while place < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            length = varint()
            yield key >> 3, message[place : place + length]
            place += length


def spin(stop: threading.Event) -> None:
    for _ in itertools.takewhile(lambda _: not stop.is_set(), itertools.count()):
        pass


def test_a_profile_counts_the_stacks_of_busy_threads() -> None:
    stop = threading.Event()
    busy = threading.Thread(target=spin, args=(stop,), name="busy")
    busy.start()
    try:
        rounds = iter(range(40))
        # Ends once the clock says so: after as many samples, however long they take.
        profile = sample_stacks(39, threading.Event(), clock=lambda: float(next(rounds)))
        stacks = thread_stacks()
    finally:
        stop.set()
        busy.join()
    message = dict_of(gzip.decompress(profile.encoded("samples", 5, 0.5)))
    names = [text.decode() for text in message[6] if isinstance(text, bytes)]
    assert names[0] == ""
    assert "spin" in names
    assert {"samples", "count", "cpu", "nanoseconds"} <= set(names)
    assert message[9] == [5]
    assert message[10] == [500_000_000]
    functions = {dict_of(each)[1][0]: dict_of(each)[2][0] for each in message[5] if isinstance(each, bytes)}
    assert "spin" in {names[int(number)] for number in functions.values()}
    (busy_stack,) = [name for name in stacks if name.startswith("thread busy ")]
    assert "\tspin\t" in show_stacks({busy_stack: stacks[busy_stack]})


def dict_of(message: bytes) -> dict[int, list[int | bytes]]:
    """The values of each field."""
    values: dict[int, list[int | bytes]] = {}
    for number, value in fields(message):
        values.setdefault(number, []).append(value)
    return values


def test_a_profile_of_counts_has_one_value_per_stack() -> None:
    profile = StackProfile()
    code = spin.__code__
    for _ in range(300):
        profile.add(((code, 7),))
    message = dict_of(gzip.decompress(profile.encoded("goroutine", 1, 0.0)))
    (sample,) = message[2]
    assert isinstance(sample, bytes)
    assert dict_of(sample) == {1: [b"\x01"], 2: [b"\xac\x02"]}
    assert len(message[1]) == 1
    assert 12 not in message


async def test_the_stack_of_a_task_begins_with_what_it_waits_for() -> None:
    async def inner() -> None:
        await asyncio.Event().wait()

    async def outer() -> None:
        await inner()

    task = asyncio.create_task(outer(), name="waiting")
    await asyncio.sleep(0)
    (stack,) = [stack for name, stack in task_stacks().items() if name.startswith("task waiting ")]
    task.cancel()
    assert [code.co_name for code, _ in stack] == ["wait", "inner", "outer"]


def test_sampling_ends_when_it_is_stopped() -> None:
    stopped = threading.Event()
    stopped.set()
    assert dict_of(gzip.decompress(sample_stacks(3600, stopped).encoded("samples", 0, 0.0))).get(2) is None
