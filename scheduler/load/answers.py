"""Answers of sources that nobody vouches for: the list or map of samples is taken apart, and each is decoded by itself.

A decode in one call holds the interpreter until its end: for 16 MiB of `[]` more than a second, in which the scheduling
loop, the Lease and the probes stand still. And one wrong sample would cost all the others. Here no call has more than
64 KiB to work on, and what is wrong in a sample costs that sample.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import structs

_KIB: Final = 1024
MAX_BYTES: Final = 16 * _KIB * _KIB
_BASE_BYTES: Final = 256 * _KIB
_BYTES_EACH: Final = 2 * _KIB
_MAX_PART: Final = 64 * _KIB
"""Bytes of a sample, of everything around the samples, and of what one call works on."""
_BASE_STEPS: Final = 4096
_BYTES_A_STEP: Final = 128
"""A step takes a microsecond or two: this bounds the time, as the cap bounds the memory. Samples of Prometheus have 57
bytes or more, but a source that tells about these nodes or pods only does not use up its cap."""

_BARE = rb'[^"\[\]{}]*+'
_BLANK = rb"[ \t\n\r]*+"
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*"'
_SCALAR = rb'[^"\[\]{},: \t\n\r]++'


def _nested(depth: int) -> bytes:
    """A pattern for what is between two brackets, up to a depth.

    Each repetition begins with a character that nothing else does, so that going back finds nothing, and ends. Python
    before 3.11.5 repeats no group possessively.
    """
    pattern = _BARE + rb"(?:" + _STRING + _BARE + rb")*"
    for _ in range(depth):
        pattern = _BARE + rb"(?:(?:" + _STRING + rb"|[\[{]" + pattern + rb"[\]}])" + _BARE + rb")*"
    return pattern


# Of a value only the end is looked for. Whether it is JSON, its decoder says.
_MEMBER = re.compile(
    rb"([\[{]" + _nested(4) + rb"[\]}]|" + _STRING + rb"|" + _SCALAR + rb")" + _BLANK + rb"([,\]}])" + _BLANK, re.DOTALL
)
_KEY = re.compile(rb"(" + _STRING + rb")" + _BLANK + rb":" + _BLANK, re.DOTALL)
_SPACE = re.compile(_BLANK)
_RUN = re.compile(rb'[\[{]++|[\]}]++|"|[^"\[\]{}]++')
_LONG_SCALAR = re.compile(_SCALAR)
_TEXT = re.compile(rb'(?:[^"\\]++|\\.)*', re.DOTALL)

Rest = TypeVar("Rest")
Sample = TypeVar("Sample")


class AnswerError(Exception):
    """An answer that cannot be used, or a sample of it; the text says why."""


class _TooManyError(AnswerError):
    pass


_WRONG = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder raises."""


def max_bytes(count: int | None, bytes_each: int = _BYTES_EACH) -> int:
    """Return the cap on an answer about so many nodes or pods: 256 KiB, and 2 KiB for each; at most 16 MiB.

    16 MiB also where nobody knows how many there are.
    """
    return MAX_BYTES if count is None else min(_BASE_BYTES + bytes_each * count, MAX_BYTES)


@dataclass(slots=True)
class LoadAnswer(Generic[Rest, Sample]):
    """An answer, decoded.

    Attributes:
        rest: what is around the samples.
        samples: with their keys; those of a list have "".
        rejected: how many samples cannot be used.
        reason: why the first of them cannot.
    """

    rest: Rest
    samples: list[tuple[str, Sample]]
    rejected: int
    reason: str


class AnswerDecoder(Generic[Rest, Sample]):
    """Decodes the answers to one question."""

    def __init__(
        self,
        rest: Any,
        *path: str,
        sample: Any,
        seam: bytes,
        read: Callable[[Any], Sample] | None = None,
        inner: AnswerDecoder[Any, Any] | None = None,
        keyed: bool = False,
    ) -> None:
        """Say how an answer looks.

        Args:
            rest: type of the answer. The samples are taken out of it: an empty list or map is in their place.
            path: keys that lead to the samples.
            sample: type of one, as it is written.
            seam: what is between two samples where the source's own program writes them, with one comma. There an
                answer is cut into parts of many samples for one call. Where there is no seam, or a part is not in
                order, samples are decoded one by one.
            read: makes what is kept of a sample; raises AnswerError for one that cannot be used. None: it is kept.
            inner: decodes a sample that is a list of samples itself: what is wrong in one of them costs that one. Its
                `rest` is this `sample`.
            keyed: the samples are the values of a map, not of a list.
        """
        self._rest = msgspec.json.Decoder(rest)
        self._sample = msgspec.json.Decoder(sample)
        self._part: msgspec.json.Decoder[Any] = msgspec.json.Decoder(dict[str, sample] if keyed else list[sample])
        self._path = path
        self._seam = seam
        self._read = read
        self._inner = inner
        self._brackets = (b"{", b"}") if keyed else (b"[", b"]")

    def decode(self, body: bytes, limit: int = MAX_BYTES) -> LoadAnswer[Rest, Sample]:
        """Decode an answer of at most so many bytes.

        Raises:
            AnswerError: it is larger, is not JSON, has another form, or holds too many values.
        """
        if len(body) > limit:
            raise AnswerError(f"larger than {limit} bytes")
        return self._decode(body, _Steps(_BASE_STEPS + limit // _BYTES_A_STEP))

    def _decode(self, body: bytes, steps: _Steps) -> LoadAnswer[Rest, Sample]:
        cursor, answer = _Cursor(body, steps), _Taken(self._read)
        opening, closing = self._brackets
        outside = body
        if cursor.enter(self._path, opening):
            outside = body[: min(cursor.at, _MAX_PART)]
            self._take_all(answer, cursor, steps)
            outside += closing + body[cursor.at : cursor.at + _MAX_PART]
        if len(outside) > _MAX_PART:
            raise AnswerError(f"holds more than {_MAX_PART} bytes beside its samples")
        try:
            return LoadAnswer(self._rest.decode(outside), answer.samples, answer.rejected, answer.reason)
        except _WRONG as error:
            raise AnswerError(_why(error)) from error

    def _take_all(self, answer: _Taken, cursor: _Cursor, steps: _Steps) -> None:
        """Take the samples behind the cursor, and put it behind their closing bracket."""
        keyed, closing = self._brackets[1] == b"}", self._brackets[1]
        stop = closing if cursor.open(closing) else b","
        singly_to = 0
        while stop == b",":
            if cursor.at >= singly_to:
                part = cursor.part(self._seam)
                if part and self._take_part(answer, part, steps):
                    cursor.leave(part)
                    continue
                singly_to = cursor.at + (len(part) or _MAX_PART)
            steps.take(1)
            key, text, stop = cursor.member(keyed=keyed)
            try:
                sample = self._decode_one(answer, text, steps)
                answer.add(_key.decode(key) if keyed else "", sample)
            except _TooManyError:
                raise
            except (AnswerError, *_WRONG) as error:
                answer.reject(1, _why(error))
        if stop != closing:
            raise cursor.malformed()

    def _take_part(self, answer: _Taken, part: bytes, steps: _Steps) -> bool:
        """Take samples that are all in order; take nothing where one is not."""
        opening, closing = self._brackets
        try:
            # What is valid between brackets is a row of whole values, wherever it was cut.
            decoded = self._part.decode(opening + part + closing)
        except _WRONG:
            return False
        samples = list(decoded.values()) if closing == b"}" else decoded
        steps.take(len(samples))
        if self._inner is not None:
            steps.take(sum(len(getattr(sample, self._inner._path[-1], None) or ()) for sample in samples))
        answer.add_all(zip(decoded if closing == b"}" else repeat(""), samples, strict=False))
        return True

    def _decode_one(self, answer: _Taken, text: bytes | None, steps: _Steps) -> Any:
        if text is None:
            raise AnswerError(f"larger than {_MAX_PART} bytes")
        if self._inner is None:
            return self._sample.decode(text)
        within = self._inner._decode(text, steps)
        answer.reject(within.rejected, within.reason)
        samples = [sample for _, sample in within.samples]
        return within.rest and structs.replace(within.rest, **{self._inner._path[-1]: samples})


_key = msgspec.json.Decoder(str)


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    # The messages of msgspec name types and places, and quote no value.
    return str(error) if isinstance(error, msgspec.ValidationError | AnswerError) else f"not JSON ({error})"


class _Taken:
    """What was taken of an answer so far."""

    def __init__(self, read: Callable[[Any], Any] | None) -> None:
        self._read = read
        self.samples: list[tuple[str, Any]] = []
        self.rejected = 0
        self.reason = ""

    def add(self, key: str, sample: Any) -> None:
        self.samples.append((key, sample if self._read is None else self._read(sample)))

    def add_all(self, samples: Iterable[tuple[str, Any]]) -> None:
        if self._read is None:
            self.samples.extend(samples)
            return
        for key, sample in samples:
            try:
                self.samples.append((key, self._read(sample)))
            except AnswerError as error:
                self.reject(1, str(error))

    def reject(self, count: int, reason: str) -> None:
        self.rejected += count
        self.reason = self.reason or reason


class _Steps:
    """How far an answer is looked at. A step is a value, or a run of characters of a value that is too long."""

    def __init__(self, limit: int) -> None:
        self._limit = self._left = limit

    def take(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _TooManyError(f"holds more than {self._limit} values; narrow what is asked for")


class _Cursor:
    """A place in an answer."""

    def __init__(self, body: bytes, steps: _Steps) -> None:
        self._body = body
        self._steps = steps
        self.at = 0

    def enter(self, path: Iterable[str], opening: bytes) -> bool:
        """Go behind the opening bracket of the list or map that a path leads to, if it does."""
        return all(self.open(b"{") and self._find(b'"%s"' % key.encode()) for key in path) and self.open(opening)

    def part(self, seam: bytes) -> bytes:
        """Return what is up to the last seam of the next 64 KiB; nothing where there is none."""
        end = self._body.rfind(seam, self.at, self.at + _MAX_PART)
        return self._body[self.at : end + seam.index(b",")] if end >= 0 else b""

    def leave(self, part: bytes) -> None:
        """Go behind a part and the comma that follows."""
        self.at += len(part) + 1

    def member(self, *, keyed: bool) -> tuple[bytes, bytes | None, bytes]:
        """Go behind a value and the separator that follows. Returns its key, its text and the separator.

        The text of what is too long is None.
        """
        key = self._key() if keyed else b""
        begin = self.at
        match = _MEMBER.match(self._body, begin, begin + _MAX_PART)
        if match is not None:
            self.at = match.end()
            return key, match[1], match[2]
        self._walk()
        text = self._body[begin : self.at] if self.at - begin <= _MAX_PART else None
        self._skip_space()
        stop = self._body[self.at : self.at + 1]
        if not stop or stop not in b",]}":
            raise self.malformed()
        self.open(stop)
        return key, text, stop

    def open(self, bracket: bytes) -> bool:
        """Go behind a character and spaces around it, if it comes next."""
        self._skip_space()
        is_next = self._body.startswith(bracket, self.at)
        if is_next:
            self.at += 1
            self._skip_space()
        return is_next

    def malformed(self) -> AnswerError:
        """Return the error that says where the cursor is."""
        return AnswerError("not JSON (it breaks off)" if self.at >= len(self._body) else f"not JSON (byte {self.at})")

    def _find(self, name: bytes) -> bool:
        """Go to the value of a key of the object that the cursor is in, if it has that key."""
        stop = b"}" if self.open(b"}") else b","
        while stop == b",":
            self._steps.take(1)
            begin = self.at
            if self._key() == name:
                return True
            self.at = begin
            _, _, stop = self.member(keyed=True)
        return False

    def _skip_space(self) -> None:
        space = _SPACE.match(self._body, self.at, self.at + _MAX_PART)
        self.at = space.end() if space is not None else self.at

    def _key(self) -> bytes:
        match = _KEY.match(self._body, self.at, self.at + _MAX_PART)
        if match is None:
            raise self.malformed()
        self.at = match.end()
        return match[1]

    def _walk(self) -> None:
        """Step over a value that is long or deep, run by run."""
        depth = 0
        pattern = _RUN if self._body[self.at : self.at + 1] in (b"[", b"{", b'"') else _LONG_SCALAR
        while True:
            self._steps.take(1)
            run = pattern.match(self._body, self.at, self.at + _MAX_PART)
            if run is None:
                raise self.malformed()
            first, length = run[0][:1], run.end() - self.at
            self.at = run.end()
            if first in b"[{":
                depth += length
            elif first in b"]}":
                # Of more brackets than are open, the others belong to what the value is in.
                closed = min(length, depth)
                self.at -= length - closed
                depth -= closed
            elif first == b'"':
                self._leave_string()
            if depth == 0 and (pattern is _RUN or length < _MAX_PART):
                return

    def _leave_string(self) -> None:
        while not self._body.startswith(b'"', self.at):
            self._steps.take(1)
            text = _TEXT.match(self._body, self.at, self.at + _MAX_PART)
            if text is None or text.end() == self.at:
                raise self.malformed()
            self.at = text.end()
        self.at += 1
