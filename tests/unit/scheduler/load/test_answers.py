"""The decoder of hostile answers: what is wrong in a sample costs that sample, and nothing holds the interpreter."""

from __future__ import annotations

import gc
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from scheduler.load import MAX_BYTES, AnswerDecoder, AnswerError, LoadAnswer, max_bytes

MAX_HELD_SECONDS = 0.1


class Vector(msgspec.Struct):
    result: list[Any]


class Reply(msgspec.Struct):
    data: Vector
    status: str = ""


class Sample(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


VECTOR: AnswerDecoder[Reply, Sample] = AnswerDecoder(Reply, "data", "result", sample=Sample, seam=b"]},{")
GOOD = b'{"metric":{"instance":"n1"},"value":[1435781451.781,"1"]}'


def reply(*samples: bytes) -> bytes:
    return b'{"status":"success","data":{"resultType":"vector","result":[' + b",".join(samples) + b"]}}"


def instances(answer: LoadAnswer[Reply, Sample]) -> list[str]:
    return [sample.metric["instance"] for _, sample in answer.samples]


def test_samples_and_what_is_around_them_are_decoded() -> None:
    answer = VECTOR.decode(reply(GOOD, GOOD.replace(b"n1", b"n2")))
    assert (instances(answer), answer.rest.status, answer.rejected) == (["n1", "n2"], "success", 0)
    assert VECTOR.decode(reply()).samples == []


WRONG = {
    "a number": (b"7", "Expected `object`, got `int`"),
    "a list of labels": (b'{"metric":[1],"value":[1,"1"]}', "got `array` - at `$.metric`"),
    "a label that is a number": (b'{"metric":{"instance":5},"value":[1,"1"]}', "Expected `str`, got `int`"),
    "a value that is a number": (b'{"metric":{},"value":[1,1]}', "at `$.value[1]`"),
    "a time that is text": (b'{"metric":{},"value":["1","1"]}', "at `$.value[0]`"),
    "no value": (b'{"metric":{}}', "missing required field `value`"),
    "a lone surrogate": (rb'{"metric":{"instance":"\ud800"},"value":[1,"1"]}', "not JSON"),
    "bytes that are no text": (b'{"metric":{"instance":"\xff"},"value":[1,"1"]}', "not JSON"),
    "a bare NaN": (b'{"metric":{},"value":[NaN,"1"]}', "not JSON"),
    "an escape that is none": (rb'{"metric":{"a":"\q"},"value":[1,"1"]}', "not JSON"),
    "deeper than any": (b"[" * 2_000_000 + b"]" * 2_000_000, "larger than 65536 bytes"),
    "too deep for a decoder": (b"[" * 20_000 + b"]" * 20_000, "Expected `object`, got `array`"),
    "deep in an unknown field": (b'{"x":' + b"[" * 20_000 + b"]" * 20_000 + b"}", "nested too deeply"),
    "long text": (b'"' + b"x" * 100_000 + b'"', "larger than 65536 bytes"),
    "long text of escapes": (b'"' + rb"\"" * 100_000 + b'"', "larger than 65536 bytes"),
    "a long number": (b"1" * 100_000, "larger than 65536 bytes"),
    "long but flat": (b"[" + b",".join([b"1"] * 100_000) + b"]", "larger than 65536 bytes"),
    "an object closed as a list": (b'{"metric":{}]', "not JSON"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_in_a_sample_costs_that_sample(wrong: str) -> None:
    sample, reason = WRONG[wrong]
    answer = VECTOR.decode(reply(GOOD, sample, GOOD.replace(b"n1", b"n2")))
    assert (instances(answer), answer.rejected) == (["n1", "n2"], 1)
    assert reason in answer.reason


def test_the_first_reason_is_told_and_all_are_counted() -> None:
    answer = VECTOR.decode(reply(b"7", GOOD, b"[]", b"null"))
    assert (len(answer.samples), answer.rejected, answer.reason) == (1, 3, "Expected `object`, got `int`")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"<html>log in</html>", "not JSON"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "missing required field `data`"),
        (b'{"data":{"result":"x"}}', "Expected `array`, got `str` - at `$.data.result`"),
        (b'{"data":[' + b"[" * 2_000_000, "more than 65536 bytes beside its samples"),
        (b'{"x":' + b"[" * 60_000, "not JSON"),
        (b'{"data":{"result":[]},"x":' + b"[" * 60_000, "nested too deeply"),
        (reply(GOOD)[:-1], "not JSON"),
        (reply(GOOD)[:-3], "not JSON"),
        (reply(GOOD)[:-10], "not JSON"),
        (reply(GOOD) + b"x", "not JSON"),
        (reply(GOOD + b" " + GOOD), "not JSON"),
        (reply(GOOD, b""), "not JSON"),
        (reply(b"", GOOD), "not JSON"),
        (reply(b'"' + b"x" * 100_000), "not JSON"),
        (reply(b'"' + b"x" * 100_000 + b"\\"), "not JSON"),
        (b'{"more":"' + b"x" * 70_000 + b'","data":{"result":[]}}', "more than 65536 bytes beside its samples"),
        (b'{"data":{"result":[]},"more":"' + b"x" * 70_000 + b'"}', "more than 65536 bytes beside its samples"),
        (b'{"data":{"result":' + b" " * 140_000 + b"[]}}", "more than 65536 bytes beside its samples"),
    ],
)
def test_an_answer_of_another_form_says_why(body: bytes, reason: str) -> None:
    with pytest.raises(AnswerError) as refused:
        VECTOR.decode(body)
    assert reason in str(refused.value)


def test_an_answer_has_a_cap_by_what_is_known() -> None:
    assert [max_bytes(known) for known in (0, 100, 8064, 100_000, None)] == [
        256 << 10,
        (256 << 10) + 100 * 2048,
        MAX_BYTES,
        MAX_BYTES,
        MAX_BYTES,
    ]
    with pytest.raises(AnswerError, match="larger than 100 bytes"):
        VECTOR.decode(reply(GOOD, GOOD), 100)


def test_an_answer_of_more_values_than_its_cap_is_for_is_refused() -> None:
    limit = max_bytes(0)
    assert VECTOR.decode(reply(*[b"[]"] * 6000), limit).rejected == 6000
    with pytest.raises(AnswerError, match="holds more than 6144 values"):
        VECTOR.decode(reply(*[b"[]"] * 6145), limit)
    with pytest.raises(AnswerError, match="holds more than 6144 values"):
        VECTOR.decode(reply(b"[" + b",".join([b"[]"] * 50_000) + b"]"), limit)


class Group(msgspec.Struct):
    items: list[int] | None = None


class Groups(msgspec.Struct):
    groups: dict[str, Any]


GROUP: AnswerDecoder[Group, int] = AnswerDecoder(Group, "items", sample=int, seam=b",")
GROUPS: AnswerDecoder[Groups, Group] = AnswerDecoder(
    Groups, "groups", sample=Group, seam=b'},"', inner=GROUP, keyed=True
)


def test_in_a_map_of_lists_a_wrong_sample_a_wrong_list_and_a_wrong_key_cost_themselves() -> None:
    answer = GROUPS.decode(
        rb'{"groups": {"a": {"items": [1, "2", 3]}, "b": 5, "\ud800": {"items": [4]}, "\u00e9": {"items": null}, '
        rb'"d": {}}}'
    )
    values = {name: group.items for name, group in answer.samples}
    assert (values, answer.rejected) == ({"a": [1, 3], "é": [], "d": []}, 3)
    assert answer.reason == "Expected `int`, got `str`"


def test_lists_in_a_map_share_what_their_answer_may_hold() -> None:
    groups = b",".join(b'"%d":{"items":[%s]}' % (number, b",".join([b"1"] * 700)) for number in range(10))
    with pytest.raises(AnswerError, match="holds more than 6144 values"):
        GROUPS.decode(b'{"groups":{' + groups + b"}}", max_bytes(0))


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
    max_leaves=30,
)
ANY: AnswerDecoder[dict[str, Any], Any] = AnswerDecoder(dict[str, Any], "here", sample=Any, seam=b"},{")
ANY_KEYED: AnswerDecoder[dict[str, Any], Any] = AnswerDecoder(
    dict[str, Any], "here", sample=Any, seam=b'},"', keyed=True
)
INDENTS = st.sampled_from([None, 0, 3])


def around(samples: Any, before: Any, after: Any, indent: int | None) -> tuple[bytes, dict[str, Any]]:
    document = {"before": before, "here": samples, "after": after}
    separators = (",", ":") if indent is None else None
    return json.dumps(document, indent=indent, separators=separators).encode(), {**document, "here": type(samples)()}


@given(st.lists(JSON), JSON, JSON, INDENTS)
def test_a_list_is_read_as_a_plain_decoder_reads_it(
    samples: list[Any], before: Any, after: Any, indent: int | None
) -> None:
    body, rest = around(samples, before, after, indent)
    try:
        plain = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # A lone surrogate: all is lost to a plain decoder, and one sample to ours.
        return
    answer = ANY.decode(body)
    assert [value for _, value in answer.samples] == plain["here"] == samples
    assert (answer.rest, answer.rejected) == (rest, 0)


@given(st.dictionaries(st.text(max_size=6), JSON), JSON, JSON, INDENTS)
def test_a_map_is_read_as_a_plain_decoder_reads_it(
    samples: dict[str, Any], before: Any, after: Any, indent: int | None
) -> None:
    body, rest = around(samples, before, after, indent)
    answer = ANY_KEYED.decode(body)
    assert (dict(answer.samples), answer.rest, answer.rejected) == (samples, rest, 0)


@given(st.integers(0, 40), st.booleans())
def test_depth_makes_no_difference(depth: int, closed: bool) -> None:
    nested = b"[" * depth + b'"]"' + b"]" * depth
    body = b'{"here":[1,' + nested + b",2" + (b"]}" if closed else b"")
    if closed:
        assert [value for _, value in ANY.decode(body).samples] == msgspec.json.decode(body)["here"]
    else:
        with pytest.raises(AnswerError):
            ANY.decode(body)


@given(st.integers(0, 10**9), st.binary(min_size=1, max_size=3))
def test_any_damage_is_an_error_of_the_answer_or_of_a_sample(position: int, damage: bytes) -> None:
    body = reply(GOOD, GOOD, b'{"metric":{"a":"b\\\\"},"value":[1,"2"]}')
    at = position % len(body)
    damaged = body[:at] + damage + body[at + len(damage) :]
    try:
        answer = VECTOR.decode(damaged)
    except AnswerError:
        return
    assert len(answer.samples) + answer.rejected <= 4


def _filled(unit: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    return reply(before + unit * ((MAX_BYTES - 1000 - len(before) - len(after)) // len(unit)) + after)


HOSTILE = {
    "lists": lambda: _filled(b"[],", after=b"[]"),
    "objects": lambda: _filled(b"{},", after=b"{}"),
    "lists in a sample": lambda: _filled(b"[],", b"[", b"[]]"),
    "brackets": lambda: _filled(b"["),
    "brackets that close": lambda: reply(b"[" * (8 << 20) + b"]" * (8 << 20))[: MAX_BYTES - 4] + b"]}}",
    "escapes": lambda: _filled(b"\\n", b'"', b'"'),
    "escapes of an instance": lambda: _filled(rb"\u0041", b'{"metric":{"instance":"', b'"},"value":[1,"1"]}'),
    "digits": lambda: _filled(b"1", b'{"metric":{},"value":[', b',"1"]}'),
    "labels": lambda: _filled(b'"":"",', b'{"metric":{', b'"":""},"value":[1,"1"]}'),
    "samples": lambda: _filled(GOOD + b",", after=GOOD),
    "long samples": lambda: _filled(
        b'{"metric":{' + b",".join(b'"%d":""' % label for label in range(5000)) + b'},"value":[1,"1"]},', after=GOOD
    ),
    "fields": lambda: b'{"":1' + b',"":1' * 3_000_000 + b"}",
    "spaces": lambda: _filled(b" "),
}


@pytest.mark.parametrize("shape", HOSTILE)
def test_the_interpreter_is_not_held_by_the_largest_answer_that_is_admitted(shape: str) -> None:
    body = HOSTILE[shape]()
    assert len(body) <= MAX_BYTES

    def read() -> None:
        try:
            VECTOR.decode(body)
        except AnswerError:
            return

    gc.freeze()  # as the scheduler does: else the collector goes through all that pytest has
    # What else the machine does only adds to it: one of three is the decoder's own.
    assert any(longest_hold(read) < MAX_HELD_SECONDS for _ in range(3))


@pytest.mark.slow
def test_a_plain_decoder_holds_the_interpreter_longer() -> None:
    """The measure measures: so the largest answer was read before."""
    body = HOSTILE["lists"]()
    assert longest_hold(lambda: json.loads(body)) > MAX_HELD_SECONDS


def longest_hold(work: Callable[[], object]) -> float:
    """Return the CPU seconds that a thread used between two moments at which this one could run."""
    watched, done, over = threading.Event(), threading.Event(), threading.Event()

    def run() -> None:
        watched.wait()
        work()
        done.set()
        over.wait()

    thread = threading.Thread(target=run)
    thread.start()
    assert thread.ident is not None
    clock = time.pthread_getcpuclockid(thread.ident)
    last, longest = time.clock_gettime(clock), 0.0
    watched.set()
    while not done.is_set():
        used = time.clock_gettime(clock)
        longest, last = max(longest, used - last), used
    over.set()
    thread.join()
    return longest
