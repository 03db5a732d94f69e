"""Reading YAML text into plain data, with the position of every key and value.

The file is composed into nodes and not constructed: nodes carry line and column, and duplicate keys can all be
reported at once. Scalars are read as sigs.k8s.io/yaml reads them (YAML 1.1 booleans, no sexagesimal numbers), because
the Go binaries will read the same file.

The project uses two YAML libraries, each for what the other cannot do. ruamel.yaml reads what users write: it has
positions (here) and keeps comments (`rewrite`), but takes about 200 ms for a CRD of 17 kB. PyYAML's `CSafeLoader`, at
about 11 ms, reads what programs write (CRDs, kubeconfigs, snapshots of a cluster), where nobody needs line numbers; it
accepts duplicate keys, and this package does not depend on it. The command line also reads stack files as plain data
with ruamel, because Pulumi's engine reads them as YAML 1.2, unlike PyYAML.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from scheduler.catalog import Loc
from scheduler.config.problems import ConfigurationError, Problem, Severity

MAX_SIZE = 1 << 20
"""The API server refuses a larger ConfigMap."""
_MAX_DEPTH = 100
_TOO_DEEP = "not usable: lists or maps are nested too deeply"
_BRACKET = re.compile(r"[\[\]{}]")
_MAX_NODES = 100_000
"""A small text can expand to a huge one through aliases; no real configuration has this many values."""

_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_INT = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|[0-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
PLACEHOLDER_MESSAGE = "unresolved placeholder"
NOT_FINITE_MESSAGE = "unsupported value"
"""So begins the message about a number that is not finite: kube-scheduler's and kubectl's words."""
REMOVED = object()
"""For `Document.replace`: the value goes."""
_FOREIGN_BLANKS = re.compile("^[ \\t]*[\u00a0\u2000-\u200a\u202f\u3000]", re.MULTILINE)
"""Non-ASCII spaces, from web pages and word processors, at the start of a line, where YAML reads them as text."""
_ANY_FOREIGN_BLANK = re.compile("[\u00a0\u2000-\u200a\u202f\u3000]")
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}?")


class ConfigurationDocument:
    """A configuration as plain data (dicts, lists, scalars), with what is needed to report problems in it.

    `read_document` also records the line and column of every key and value; `document_of` has no text to point to.
    """

    def __init__(self, source: str, *, origin: tuple[int, int] = (1, 1)) -> None:
        """`origin` is the line and column of locations that have no position."""
        self.source = source
        self._origin = origin
        self.data: Any = None
        self.problems: list[Problem] = []
        self._keys: dict[Loc, tuple[int, int]] = {}
        self._values: dict[Loc, tuple[int, int]] = {}
        # Every map and list with its location. The references keep them alive, so that no id() is reused.
        self._containers: list[tuple[Any, Loc]] = []
        self._moved: dict[Loc, Loc] | None = None

    def problem(
        self, loc: Loc, message: str, *, hint: str = "", severity: Severity = "error", at_key: bool = False
    ) -> Problem:
        """Return a problem at a location; its position is that of the closest enclosing location in the text."""
        loc = self.original(loc)
        line, column = self._position(loc, at_key=at_key)
        return Problem(loc, message, line, column, severity, hint, self.source)

    def position(self, loc: Loc, *, at_key: bool = False) -> tuple[int, int]:
        """Return line and column (from 1) of a value, or of its key."""
        return self._position(self.original(loc), at_key=at_key)

    def has(self, loc: Loc) -> bool:
        """Tell whether the text holds a value at a location of the data."""
        return self.original(loc) in self._values

    def value_at(self, loc: Loc) -> Any:
        """Return the data at a location; None where there is none."""
        value = self.data
        for part in loc:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def replace(self, changes: Mapping[Loc, Any]) -> None:
        """Replace values of the data, or remove those whose new value is `REMOVED`; problems keep their place."""
        for loc, value in changes.items():
            if value is not REMOVED:
                self.value_at(loc[:-1])[loc[-1]] = value
        removed = [loc for loc, value in changes.items() if value is REMOVED]
        # The last elements of a list first, so that the others stay where they are.
        for loc in sorted(removed, key=lambda loc: [(isinstance(part, int), part) for part in loc], reverse=True):
            container: Any = self.value_at(loc[:-1])
            if container is not None:
                del container[loc[-1]]
        self.track_moves()

    def original(self, loc: Loc) -> Loc:
        """Return the location in the file of a location in the data; they differ only after `track_moves`."""
        for length in range(len(loc), -1, -1) if self._moved is not None else ():
            place = (self._moved or {}).get(loc[:length])
            if place is not None:
                return (*place, *loc[length:])
        return loc

    def location_of(self, container: object) -> Loc:
        """Return the location in the file of a map or list of the data; the root for a new one."""
        return next((loc for known, loc in self._containers if known is container), ())

    def track_moves(self) -> None:
        """Record where the maps and lists of the file are now, so that problems are reported at their place in it."""
        places = {id(container): loc for container, loc in self._containers}
        self._moved = dict(_moves(self.data, (), places))

    def _position(self, loc: Loc, *, at_key: bool) -> tuple[int, int]:
        tables = (self._keys, self._values) if at_key else (self._values, self._keys)
        for length in range(len(loc), -1, -1):
            for table in tables:
                position = table.get(loc[:length])
                if position is not None:
                    return position
        return self._origin

    def _add_error(self, loc: Loc, message: str, node: Node, hint: str = "") -> None:
        line, column = _mark(node)
        self.problems.append(Problem(loc, message, line, column, "error", hint, self.source))

    def _copy(self, value: Any, loc: Loc) -> Any:
        result: Any = value
        if isinstance(value, str):
            self._check_placeholder(value, loc, (0, 0))
        elif isinstance(value, float):
            self._check_finite(value, str(value), loc, (0, 0))
        elif isinstance(value, Mapping):
            result = {str(key): self._copy(inner, (*loc, str(key))) for key, inner in value.items()}
        elif isinstance(value, list | tuple):
            result = [self._copy(inner, (*loc, index)) for index, inner in enumerate(value)]
        if isinstance(result, dict | list):
            self._containers.append((result, loc))
        return result

    def _read(self, node: Node, loc: Loc, open_nodes: frozenset[int], budget: list[int]) -> Any:
        budget[0] -= 1
        if budget[0] < 0 or id(node) in open_nodes:
            message = "the file refers to itself, or is too large when its aliases are expanded"
            raise ConfigurationError([self.problem(loc, message)])
        self._values.setdefault(loc, _mark(node))
        if isinstance(node, ScalarNode):
            return self._scalar(node, loc)
        inner = open_nodes | {id(node)}
        value: Any = None
        if isinstance(node, SequenceNode):
            value = [self._read(item, (*loc, index), inner, budget) for index, item in enumerate(node.value)]
        elif isinstance(node, MappingNode):
            value = self._mapping(node, loc, inner, budget)
        self._containers.append((value, loc))
        return value

    def _mapping(self, node: MappingNode, loc: Loc, open_nodes: frozenset[int], budget: list[int]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self._add_error(loc, "a key must be plain text", key_node)
                continue
            key = str(key_node.value)
            at = (*loc, key)
            if key == "<<" and key_node.style is None:
                sources = value_node.value if isinstance(value_node, SequenceNode) else [value_node]
                for source in sources:
                    value = self._read(source, loc, open_nodes, budget)
                    if isinstance(value, dict):
                        merged = {**value, **merged}
                continue
            if key in result:
                first = self._keys[at][0]
                self._add_error(at, f'key "{key}" already set in line {first}', key_node, "keep one of the two")
                continue
            self._keys[at] = _mark(key_node)
            self._values.pop(at, None)
            result[key] = self._read(value_node, at, open_nodes, budget)
        return {**merged, **result}

    def _scalar(self, node: ScalarNode, loc: Loc) -> Any:
        text = str(node.value)
        self._check_placeholder(text, loc, _mark(node))
        if node.style is not None:
            return text
        value = plain_scalar(text)
        self._check_finite(value, text, loc, _mark(node))
        # The composer resolves numbers itself; if it says string, the author tagged the scalar with !!str.
        tagged = str(node.tag).endswith(":str") and isinstance(value, int | float) and not isinstance(value, bool)
        return text if tagged else value

    def _check_finite(self, value: Any, text: str, loc: Loc, position: tuple[int, int]) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            message, hint = f"{NOT_FINITE_MESSAGE}: {text}", "JSON has no such number: write a finite one"
            self.problems.append(Problem(loc, message, *position, "error", hint, self.source))

    def _check_placeholder(self, text: str, loc: Loc, position: tuple[int, int]) -> None:
        placeholder = _PLACEHOLDER.search(text)
        if placeholder is not None:
            hint = "write the value itself here"
            if loc and str(loc[-1]).lower() == "token":
                hint = "nothing replaces it; put the token into a Secret (metricCredentials) instead"
            message = f"{PLACEHOLDER_MESSAGE} {placeholder[0]}"
            self.problems.append(Problem(loc, message, *position, "error", hint, self.source))


def _moves(value: Any, loc: Loc, places: Mapping[int, Loc]) -> Iterator[tuple[Loc, Loc]]:
    if not isinstance(value, dict | list):
        return
    if id(value) in places:
        yield loc, places[id(value)]
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _moves(item, (*loc, key), places)


def plain_scalar(text: str) -> Any:
    """Return what an unquoted YAML scalar stands for."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if _INT.fullmatch(text):
        return _integer(text.replace("_", ""))
    if _FLOAT.fullmatch(text) and any(char.isdigit() for char in text):
        return float(text.replace("_", ""))
    if text.lower() in (".inf", "+.inf", "-.inf"):
        return -math.inf if text.startswith("-") else math.inf
    return math.nan if text.lower() == ".nan" else text


def _integer(text: str) -> Any:
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    for prefix, base in (("0b", 2), ("0x", 16), ("0o", 8), ("0", 8)):
        if digits.startswith(prefix) and len(digits) > len(prefix):
            try:
                return sign * int(digits[len(prefix) :], base)
            except ValueError:
                return text
    # Python refuses to convert thousands of digits; no field of the configuration holds such a number.
    return sign * int(digits) if len(digits) <= 400 else text


def _mark(node: Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def check_size(text: str, source: str) -> None:
    """Raise a ConfigurationError for a text that no ConfigMap can hold."""
    if len(text) > MAX_SIZE:
        message = f"the file has {len(text)} characters; a ConfigMap holds at most {MAX_SIZE}"
        raise ConfigurationError([Problem((), message, source=source)])


def document_of(data: Mapping[str, Any], source: str) -> ConfigurationDocument:
    """Return a document of plain data that was never text; the data is copied, and problems have no line."""
    document = ConfigurationDocument(source, origin=(0, 0))
    document.data = document._copy(data, ())
    return document


def is_too_deep(text: str) -> bool:
    """Whether brackets are nested too deeply to be parsed, those in strings and comments included.

    The parser's time grows with the square of the depth: a megabyte of brackets would take it two minutes.
    """
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth = depth + 1 if bracket[0] in "[{" else max(depth - 1, 0)
        if depth > _MAX_DEPTH:
            return True
    return False


def read_document(text: str, source: str) -> ConfigurationDocument:
    """Parse one YAML or JSON document.

    Raises:
        ConfigurationError: the text is not YAML, holds several documents, or is larger than a ConfigMap can be.
    """
    document = ConfigurationDocument(source)
    check_size(text, source)
    if is_too_deep(text):
        raise ConfigurationError([Problem((), _TOO_DEEP, source=source)])
    foreign = _FOREIGN_BLANKS.search(text)
    if foreign is not None:
        line = text.count("\n", 0, foreign.start()) + 1
        count = len(_FOREIGN_BLANKS.findall(text))
        message = (
            f"{count} {'line is' if count == 1 else 'lines are'} indented with non-ASCII spaces "
            f"(U+{ord(foreign[0][-1]):04X}), which YAML reads as text"
        )
        column = foreign.end() - foreign.start()
        document.problems.append(Problem((), message, line, column, "error", "replace them with plain spaces", source))
        # Continue with plain spaces, so that other problems are reported too. All positions stay the same.
        text = _ANY_FOREIGN_BLANK.sub(" ", text)
    try:
        root = YAML(pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
        message = "not valid YAML: " + " ".join(str(error.problem or error.context or "cannot be read").split())
        raise ConfigurationError([Problem((), message, line, column, source=source)]) from error
    except (YAMLError, ValueError, RecursionError) as error:
        message = f"not valid YAML: {' '.join(str(error).split())[:200]}"
        raise ConfigurationError([Problem((), message, source=source)]) from error
    if root is not None:
        try:
            document.data = document._read(root, (), frozenset(), [_MAX_NODES])
        except RecursionError as error:
            raise ConfigurationError([Problem((), _TOO_DEEP, source=source)]) from error
    return document
