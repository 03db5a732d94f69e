"""Reads the answers of an API server over HTTP/1.1 from bytes as they arrive.

Only what an answer of an API server, or of a proxy before it, can be: a status line, headers without folding, and a
body by Content-Length, in chunks, or up to the end of the connection. Anything else raises MalformedAnswer, and the
connection must not be used again. All that is kept while something is missing is bounded.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

HEAD_LIMIT: Final = 64 << 10
"""Bytes of a head, with those of the informational answers before it, and of a trailer."""
CHUNK_LINE_LIMIT: Final = 4 << 10
"""Bytes of the line before a chunk: a size, and extensions that nobody uses."""
_BLANK: Final = b"\r\n\r\n"
_END_OF_LINE: Final = b"\r\n"
_BEGIN: Final = b"HTTP/1."
# Possessive, but for groups: where it does not match, it has looked at each byte a few times at most. CPython before
# 3.11.5, such as Debian 12's, does not match a possessive group that repeats something itself (gh-106052).
_HEAD: Final = re.compile(
    rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [^\r\n]*+)?((?:\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]++:[^\r\n]*+)*)\r\n\r\n"
)
_NOTED: Final = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection|retry-after):[ \t]*+([^\r\n]*)", re.IGNORECASE
)
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*+(?:;[^\r\n]*+)?\r\n")
_NO_BODY: Final = (204, 304)
_SWITCHING_PROTOCOLS: Final = 101


class MalformedAnswer(Exception):
    """The bytes are no answer to a request over HTTP/1.1."""


class Head(Struct):
    """What comes before the body.

    Attributes:
        status: 200 to 999.
        length: of the body in bytes; None if it comes in chunks, or ends with the connection.
        chunked: the body comes in chunks.
        reusable: another request may follow on this connection.
        retry_after: the header of this name, else empty.
    """

    status: int
    length: int | None
    chunked: bool
    reusable: bool
    retry_after: str


def _read_head(match: re.Match[bytes]) -> Head:
    """Return what a match of `_HEAD` says. Raises MalformedAnswer."""
    data = match.string
    reusable = match[1] == b"1"
    length: int | None = None
    chunked = False
    retry_after = ""
    for header in _NOTED.finditer(data, match.start(3), match.end(3)):
        name, value = header[1].lower(), header[2].rstrip(b" \t")
        if name == b"content-length":
            if _LENGTH.fullmatch(value) is None or length not in (None, int(value)):
                raise MalformedAnswer("the length of the body cannot be read")
            length = int(value)
        elif name == b"transfer-encoding":
            if value.lower() != b"chunked" or chunked:
                raise MalformedAnswer("the transfer encoding is not `chunked`")
            chunked = True
        elif name == b"connection":
            reusable = reusable and b"close" not in value.lower()
        else:
            retry_after = value.decode("latin-1")
    if chunked and length is not None:
        raise MalformedAnswer("the body has both a length and chunks")
    status = int(match[2])
    if status < 200 or status in _NO_BODY:
        length, chunked = 0, False
    return Head(status, length, chunked, reusable and (chunked or length is not None), retry_after)


class AnswerParser:
    """Reads one answer; `feed` returns what each piece adds to the body.

    Attributes:
        head: None until it is whole.
        complete: nothing of this answer is missing. A body that ends with the connection is complete by `finish`.
        surplus: there were bytes after its end, so that nothing more on this connection can be trusted.
    """

    __slots__ = ("_after_chunk", "_in_trailer", "_missing", "_passed", "_unread", "complete", "head", "surplus")

    def __init__(self) -> None:
        self.head: Head | None = None
        self.complete = False
        self.surplus = False
        self._unread = b""
        self._missing = 0
        self._after_chunk = False
        self._in_trailer = False
        self._passed = 0

    def feed(self, data: bytes) -> bytes:
        """Read bytes of the answer. Raises MalformedAnswer."""
        if self.complete:
            self.surplus = self.surplus or bool(data)
            return b""
        if self._unread:
            data, self._unread = self._unread + data, b""
        head = self.head
        if head is None:
            at = self._feed_head(data)
            head = self.head
            if head is None:
                return b""
            data = data[at:]
        if head.chunked:
            return self._feed_chunks(data)
        if head.length is None:
            return data
        missing = self._missing - len(data)
        if missing > 0:
            self._missing = missing
            return data
        self.complete = True
        if missing:
            self.surplus = True
            return data[:missing]
        return data

    def finish(self) -> bool:
        """The connection has ended; returns whether the answer is complete."""
        if self.head is not None and self.head.length is None and not self.head.chunked:
            self.complete = True
        return self.complete

    def _feed_head(self, data: bytes) -> int:
        """Read the head, after those of informational answers; returns where it ends, if it is whole."""
        at = 0
        while True:
            match = _HEAD.match(data, at)
            end = len(data) if match is None else match.end()
            if self._passed + end - at > HEAD_LIMIT:
                raise MalformedAnswer(f"the head has more than {HEAD_LIMIT} bytes")
            if match is None:
                self._unread = data[at:]
                begin = self._unread[: len(_BEGIN)]
                if not _BEGIN.startswith(begin) or _BLANK in self._unread:
                    raise MalformedAnswer("this is not HTTP/1.1")
                return 0
            head = _read_head(match)
            if head.status >= 200:
                self.head = head
                self._missing = head.length or 0
                self._passed = 0
                return end
            if head.status == _SWITCHING_PROTOCOLS:
                raise MalformedAnswer("it switches to another protocol")
            self._passed += end - at
            at = end

    def _feed_chunks(self, data: bytes) -> bytes:
        parts: list[bytes] = []
        at, end = 0, len(data)
        while True:
            if self._missing:
                part = data[at : at + self._missing]
                parts.append(part)
                at += len(part)
                self._missing -= len(part)
                if self._missing:
                    break
                self._after_chunk = True
            if self._after_chunk:
                if end - at < len(_END_OF_LINE):
                    self._unread = data[at:]
                    break
                if not data.startswith(_END_OF_LINE, at):
                    raise MalformedAnswer("a chunk is longer than its announced length")
                at += len(_END_OF_LINE)
                self._after_chunk = False
            match = None if self._in_trailer else _CHUNK_LINE.match(data, at)
            if match is None:
                line_end = self._end_of_line(data, at)
                if line_end is None:
                    break
                if not self._in_trailer:
                    raise MalformedAnswer("the size of a chunk cannot be read")
                self.complete = line_end == at
                at = line_end + len(_END_OF_LINE)
                if self.complete:
                    self.surplus = at < end
                    break
            else:
                if match.end() - at > CHUNK_LINE_LIMIT:
                    raise MalformedAnswer("the line before a chunk is too long")
                at = match.end()
                self._missing = int(match[1], 16)
                self._in_trailer = not self._missing
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _end_of_line(self, data: bytes, at: int) -> int | None:
        """Return where a line that begins at `at` ends; None if its end has not come yet."""
        end = data.find(_END_OF_LINE, at)
        length = (len(data) if end < 0 else end + len(_END_OF_LINE)) - at
        if length > CHUNK_LINE_LIMIT:
            raise MalformedAnswer("a line between chunks is too long")
        if end < 0:
            self._unread = data[at:]
            return None
        if self._in_trailer:
            self._passed += length
            if self._passed > HEAD_LIMIT:
                raise MalformedAnswer(f"the trailer has more than {HEAD_LIMIT} bytes")
        return end
