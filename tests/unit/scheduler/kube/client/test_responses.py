"""The parser of answers: what is understood, what is refused, and that it does not matter how the bytes arrive."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from scheduler.kube.client.responses import CHUNK_LINE_LIMIT, HEAD_LIMIT, AnswerParser, Head, MalformedAnswer

MALFORMED = "malformed"
Outcome = tuple[Head | None, bytes, bool, bool] | str
"""Head, body, whether the answer is complete at the connection's end, whether bytes came after it."""


def outcome(pieces: list[bytes]) -> Outcome:
    """What the parser makes of the pieces and the end of the connection after them."""
    parser, body = AnswerParser(), b""
    try:
        for piece in pieces:
            body += parser.feed(piece)
    except MalformedAnswer:
        return MALFORMED
    return parser.head, body, parser.finish(), parser.surplus


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(marks)]


def chunked(chunks: list[bytes], *, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    lines = [b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks if chunk]
    return b"".join(lines) + b"0" + extension + b"\r\n" + trailer + b"\r\n"


CHUNKS = st.lists(st.binary(min_size=1, max_size=40), max_size=6)
STATUS_LINES = st.sampled_from(
    [b"HTTP/1.1 200 OK", b"HTTP/1.1 201", b"HTTP/1.0 200 OK", b"HTTP/1.1 503 Not now, really"]
)
OTHER_HEADERS = st.lists(
    st.sampled_from([b"Date: now", b"X-Empty:", b"Retry-After: 3", b"Connection: close", b"connection: keep-alive"]),
    max_size=4,
)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Answers as they are, now and then with bytes after them or cut short."""
    informational = draw(
        st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\n"])
    )
    headers = [draw(STATUS_LINES), *draw(OTHER_HEADERS)]
    kind = draw(st.sampled_from(["length", "chunks", "close"]))
    if kind == "chunks":
        headers.append(b"Transfer-Encoding: chunked")
        trailer = draw(st.sampled_from([b"", b"Checksum: 1\r\nOther: 2\r\n"]))
        body = chunked(draw(CHUNKS), extension=draw(st.sampled_from([b"", b";a=b", b" "])), trailer=trailer)
    else:
        body = draw(st.binary(max_size=100))
        if kind == "length":
            headers.append(b"Content-Length: %d" % len(body))
    data = informational + b"\r\n".join(headers) + b"\r\n\r\n" + body + draw(st.sampled_from([b"", b"", b"HTTP/1.1 2"]))
    return data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """Answers with some bytes replaced."""
    data = bytearray(draw(answers()))
    for _ in range(draw(st.integers(1, 4))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.sampled_from(b"\r\n :;0f1\x00\xffH"))
    return bytes(data)


@given(answers() | mutations() | st.binary(max_size=200), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_split_of_the_bytes_gives_the_same_answer(data: bytes, places: list[int]) -> None:
    whole = outcome([data])
    assert outcome(cut(data, places)) == whole
    assert outcome([bytes([byte]) for byte in data]) == whole


@given(CHUNKS, st.lists(st.integers(0, 10_000), max_size=12))
def test_a_body_in_chunks_is_what_was_sent(chunks: list[bytes], places: list[int]) -> None:
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(chunks)
    head = Head(200, None, True, True, "")
    assert outcome(cut(data, places)) == (head, b"".join(chunks), True, False)


@pytest.mark.parametrize(
    ("data", "head", "body"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", Head(204, 0, False, True, ""), b""),
        (b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}", Head(201, 2, False, True, ""), b"{}"),
        (b"HTTP/1.1 200\r\ncontent-LENGTH:2 \r\n\r\n{}", Head(200, 2, False, True, ""), b"{}"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", Head(200, 2, False, True, ""), b"{}"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", Head(200, 2, False, False, ""), b"{}"),
        (
            b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\n{}",
            Head(200, 2, False, False, ""),
            b"{}",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n{} to the end", Head(200, None, False, False, ""), b"{} to the end"),
        (
            b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
            Head(429, 0, False, True, "7"),
            b"",
        ),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 P\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            Head(200, 1, False, True, ""),
            b"x",
        ),
    ],
)
def test_what_an_answer_can_be(data: bytes, head: Head, body: bytes) -> None:
    assert outcome([data]) == (head, body, True, False)


OK = b"HTTP/1.1 200 OK\r\n"
IN_CHUNKS = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x15\x03\x01\x00\x02\x02",
        b"<html>",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\n\nbody\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b": no name\r\n\r\n",
        OK + b"Content-Length : 2\r\n\r\n{}",
        OK + b"Folded: a\r\n b\r\n\r\n",
        OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: +2\r\n\r\n{}",
        OK + b"Content-Length: 0x2\r\n\r\n{}",
        OK + b"Content-Length: 2, 2\r\n\r\n{}",
        OK + b"Content-Length: \r\n\r\n",
        OK + b"Content-Length: 9999999999999999999\r\n\r\n",
        OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        OK + b"Transfer-Encoding: identity\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        IN_CHUNKS + b"\r\n",
        IN_CHUNKS + b"g\r\n",
        IN_CHUNKS + b"-1\r\n",
        IN_CHUNKS + b"+1\r\nx\r\n",
        IN_CHUNKS + b" 1\r\nx\r\n",
        IN_CHUNKS + b"1_0\r\n",
        IN_CHUNKS + b"123456789\r\n",
        IN_CHUNKS + b"2\r\nlonger\r\n",
        IN_CHUNKS + b"2;" + b"e" * CHUNK_LINE_LIMIT + b"\r\n{}\r\n",
        IN_CHUNKS + b"2;" + b"e" * CHUNK_LINE_LIMIT,
        IN_CHUNKS + b"0\r\n" + b"Trailer: x\r\n" * (HEAD_LIMIT // 10),
        OK + b"X: y\r\n" * (HEAD_LIMIT // 5),
        OK + b"X: " + b"y" * HEAD_LIMIT,
        b"HTTP/1.1 100 Continue\r\n\r\n" * (HEAD_LIMIT // 20),
    ],
)
def test_what_is_no_answer_is_refused_without_waiting_for_more(data: bytes) -> None:
    assert outcome([data]) == MALFORMED


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Len",
        OK + b"Content-Length: 3\r\n\r\n{}",
        IN_CHUNKS + b"2\r\n{}\r\n",
        IN_CHUNKS + b"2\r\n{}\r\n0\r\n",
        IN_CHUNKS + b"5\r\n{}",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
def test_an_answer_that_is_cut_short_is_not_complete(data: bytes) -> None:
    parsed = outcome([data])
    assert parsed != MALFORMED
    assert parsed[2] is False


@pytest.mark.parametrize("answer", [OK + b"Content-Length: 2\r\n\r\n{}", IN_CHUNKS + b"2\r\n{}\r\n0\r\n\r\n"])
def test_bytes_after_an_answer_are_told_and_are_not_its_body(answer: bytes) -> None:
    for pieces in ([answer + b"HTTP/1.1 200 OK"], [answer, b"HTTP/1.1 200 OK"]):
        parsed = outcome(pieces)
        assert parsed[1:] == (b"{}", True, True)
