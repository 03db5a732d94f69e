"""From the text of a CEL expression to its tree: lexer and recursive-descent parser, macros unexpanded.

The grammar is that of cel-spec (doc/langdef.md), with the optional syntax `a.?b`, `a[?b]`, `[?a]` and `{?a: b}`. No
type check: the API server has checked every expression that reaches a scheduler.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.cel.errors import CompileError
from scheduler.cel.values import NULL, Uint

MAX_LENGTH: Final = 10 * 1024
"""Characters of an expression, as the API server allows (CELSelectorExpressionMaxLength)."""
MAX_DEPTH: Final = 50
"""Nested expressions; cel-go's parser allows 250, which Python's stack does not."""
_MAX_LENGTH_OF_CHAIN: Final = 200


class Expression:
    """A part of an expression."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant."""

    value: object


@dataclass(frozen=True, slots=True)
class Ident(Expression):
    """A name: a variable, a type, or the first part of a qualified function."""

    name: str


@dataclass(frozen=True, slots=True)
class Select(Expression):
    """`operand.field`, or `operand.?field`."""

    operand: Expression
    field: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Index(Expression):
    """`operand[key]`, or `operand[?key]`."""

    operand: Expression
    key: Expression
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A function, an operator (named as in `_+_`) or a macro."""

    function: str
    target: Expression | None
    args: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ListNode(Expression):
    """`[a, ?b]`: elements, each with whether it is optional."""

    elements: tuple[tuple[Expression, bool], ...]


@dataclass(frozen=True, slots=True)
class MapNode(Expression):
    """`{k: v, ?k: v}`: entries, each with whether it is optional."""

    entries: tuple[tuple[Expression, Expression, bool], ...]


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


_TOKEN: Final = re.compile(
    r"""(?P<space>[\t\n\f\r ]+|//[^\n]*)
    |(?P<bytes>[bB][rR]?(?:'''|\"\"\"|'|\")|[rR][bB](?:'''|\"\"\"|'|\"))
    |(?P<string>[rR]?(?:'''|\"\"\"|'|\"))
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<int>0[xX][0-9a-fA-F]+[uU]?|[0-9]+[uU]?)
    |(?P<ident>[_a-zA-Z][_a-zA-Z0-9]*)
    |(?P<quoted>`[a-zA-Z0-9_.\-/ ]+`)
    |(?P<op>&&|\|\||<=|>=|==|!=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.ASCII,
)
_WORDS: Final = "as break const continue else for function if import let loop package namespace return var void while"
_RESERVED: Final = frozenset(_WORDS.split())
_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_BINARY: Final = (
    {"<": "_<_", "<=": "_<=_", ">": "_>_", ">=": "_>=_", "==": "_==_", "!=": "_!=_", "in": "@in"},
    {"+": "_+_", "-": "_-_"},
    {"*": "_*_", "/": "_/_", "%": "_%_"},
)


def parse(text: str) -> Expression:
    """Return the tree of an expression.

    Raises:
        CompileError: the text is too long, too deeply nested, or no expression.
    """
    if len(text) > MAX_LENGTH:
        raise CompileError(f"an expression may have {MAX_LENGTH} characters; this one has {len(text)}")
    return _Parser(_tokens(text)).parse()


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise CompileError(f"syntax error at character {at + 1}: {text[at]!r}")
        kind, word = match.lastgroup or "", match.group()
        if kind in ("string", "bytes"):
            end = _string_end(text, match.end(), word)
            tokens.append(_Token(kind, text[at:end], at))
            at = end
            continue
        if kind != "space":
            tokens.append(_Token(kind, word, at))
        at = match.end()
    tokens.append(_Token("end", "", at))
    return tokens


def _string_end(text: str, at: int, opening: str) -> int:
    raw, quotes = _opening(opening)
    while at < len(text):
        if text.startswith(quotes, at):
            return at + len(quotes)
        if len(quotes) == 1 and text[at] in "\n\r":
            break
        at += 2 if text[at] == "\\" and not raw else 1
    raise CompileError("syntax error: a string has no end")


def _opening(opening: str) -> tuple[bool, str]:
    """Return whether a string is raw, and its quotes."""
    prefix = opening.rstrip("'\"")
    return "r" in prefix.lower(), opening[len(prefix) :]


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def parse(self) -> Expression:
        node = self._expression()
        if self._peek().kind != "end":
            raise self._unexpected()
        return node

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _accept(self, *texts: str) -> str | None:
        token = self._peek()
        if token.kind in ("op", "ident") and token.text in texts:
            self._at += 1
            return token.text
        return None

    def _expect(self, text: str) -> None:
        if self._accept(text) is None:
            raise self._unexpected()

    def _unexpected(self) -> CompileError:
        token = self._peek()
        shown = repr(token.text) if token.text else "the end"
        return CompileError(f"syntax error at character {token.at + 1}: unexpected {shown}")

    def _expression(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise CompileError(f"the expression is nested more than {MAX_DEPTH} deep")
        node = self._or()
        if self._accept("?"):
            then = self._or()
            self._expect(":")
            node = Call("_?_:_", None, (node, then, self._expression()))
        self._depth -= 1
        return node

    def _or(self) -> Expression:
        parts = [self._and()]
        while self._accept("||"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else Call("_||_", None, tuple(parts))

    def _and(self) -> Expression:
        parts = [self._binary(0)]
        while self._accept("&&"):
            parts.append(self._binary(0))
        return parts[0] if len(parts) == 1 else Call("_&&_", None, tuple(parts))

    def _binary(self, level: int) -> Expression:
        if level == len(_BINARY):
            return self._unary()
        node, length = self._binary(level + 1), 0
        while operator := self._accept(*_BINARY[level]):
            length += 1
            if length > _MAX_LENGTH_OF_CHAIN:
                raise CompileError(f"the expression has more than {_MAX_LENGTH_OF_CHAIN} operators in a row")
            node = Call(_BINARY[level][operator], None, (node, self._binary(level + 1)))
        return node

    def _unary(self) -> Expression:
        if self._accept("!"):
            nots = 1
            while self._accept("!"):
                nots += 1
            operand = self._member()
            # As in the grammar of cel-go, two of them are none.
            return Call("!_", None, (operand,)) if nots % 2 else operand
        if self._peek().text != "-" or self._peek().kind != "op":
            return self._member()
        minuses = 0
        while self._accept("-"):
            minuses += 1
        following = self._peek()
        if minuses == 1 and following.kind in ("int", "float"):
            return self._member(negative=True)
        node = self._member()
        return Call("-_", None, (node,)) if minuses % 2 else node

    def _member(self, *, negative: bool = False) -> Expression:
        node, length = self._primary(negative=negative), 0
        while True:
            length += 1
            if length > _MAX_LENGTH_OF_CHAIN:
                raise CompileError(f"the expression has more than {_MAX_LENGTH_OF_CHAIN} selections in a row")
            if self._accept("."):
                optional = self._accept("?") is not None
                name = self._field()
                if not optional and self._accept("("):
                    node = Call(name, node, self._args(")"))
                else:
                    node = Select(node, name, optional)
            elif self._accept("["):
                optional = self._accept("?") is not None
                node = Index(node, self._expression(), optional)
                self._expect("]")
            elif self._peek().text == "{" and isinstance(node, Ident | Select):
                raise CompileError("messages cannot be built here")
            else:
                return node

    def _field(self) -> str:
        token = self._peek()
        if token.kind not in ("ident", "quoted"):
            raise self._unexpected()
        self._at += 1
        return token.text.strip("`")

    def _args(self, closing: str) -> tuple[Expression, ...]:
        args: list[Expression] = []
        while not self._accept(closing):
            if args:
                self._expect(",")
            args.append(self._expression())
        return tuple(args)

    def _primary(self, *, negative: bool) -> Expression:
        token = self._peek()
        if token.kind in ("int", "float"):
            self._at += 1
            return Literal(_number(token, negative=negative))
        if token.kind in ("string", "bytes"):
            self._at += 1
            return Literal(_unquoted(token))
        if self._accept("("):
            node = self._expression()
            self._expect(")")
            return node
        if self._accept("["):
            return self._list()
        if self._accept("{"):
            return self._map()
        self._accept(".")
        token = self._peek()
        if token.kind != "ident" or token.text in _RESERVED or token.text == "in":
            raise self._unexpected()
        self._at += 1
        constants: dict[str, object] = {"true": True, "false": False, "null": NULL}
        if token.text in constants:
            return Literal(constants[token.text])
        return Call(token.text, None, self._args(")")) if self._accept("(") else Ident(token.text)

    def _list(self) -> Expression:
        elements: list[tuple[Expression, bool]] = []
        while not self._accept("]"):
            if elements:
                self._expect(",")
                if self._accept("]"):
                    break
            optional = self._accept("?") is not None
            elements.append((self._expression(), optional))
        return ListNode(tuple(elements))

    def _map(self) -> Expression:
        entries: list[tuple[Expression, Expression, bool]] = []
        while not self._accept("}"):
            if entries:
                self._expect(",")
                if self._accept("}"):
                    break
            optional = self._accept("?") is not None
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression(), optional))
        return MapNode(tuple(entries))


def _number(token: _Token, *, negative: bool) -> object:
    if token.kind == "float":
        return -float(token.text) if negative else float(token.text)
    digits = token.text.rstrip("uU")
    value = int(digits, 16 if digits[:2].lower() == "0x" else 10)
    if digits != token.text:
        if negative or value >= 1 << 64:
            raise CompileError(f"syntax error at character {token.at + 1}: {token.text} is no unsigned 64-bit number")
        return Uint(value)
    value = -value if negative else value
    if not -(1 << 63) <= value < 1 << 63:
        raise CompileError(f"syntax error at character {token.at + 1}: {token.text} is no 64-bit number")
    return value


_ESCAPE: Final = re.compile(
    r"""\\(?:(?P<simple>[abfnrtv\\'"`?])|[xX](?P<hex>[0-9a-fA-F]{2})|u(?P<u4>[0-9a-fA-F]{4})"""
    r"""|U(?P<u8>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<other>.?))""",
    re.DOTALL,
)


def _unquoted(token: _Token) -> object:
    match = re.match(r"[a-zA-Z]*(?:'''|\"\"\"|'|\")", token.text)
    assert match is not None
    raw, quotes = _opening(match.group())
    content = token.text[match.end() : -len(quotes)]
    if not raw:
        content = _ESCAPE.sub(lambda escape: _unescaped(escape, token), content)
    if token.kind == "bytes":
        # Numeric escapes stand for bytes there; letters for their UTF-8.
        raise CompileError(f"syntax error at character {token.at + 1}: bytes are not supported")
    return content


def _unescaped(match: re.Match[str], token: _Token) -> str:
    if match["simple"]:
        return _SIMPLE_ESCAPES[match["simple"]]
    digits = match["hex"] or match["u4"] or match["u8"]
    code = int(digits, 16) if digits else int(match["octal"], 8) if match["octal"] else -1
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise CompileError(f"syntax error at character {token.at + 1}: invalid escape {match.group()}")
    return chr(code)
