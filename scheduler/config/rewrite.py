"""Rewriting a configuration of an older version as v1, with its comments and its style."""

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode
from ruamel.yaml.tokens import CommentToken

from scheduler.catalog import OPTIONS, Loc
from scheduler.config.beta import convert, is_converted
from scheduler.config.flavours import OURS, Flavour
from scheduler.config.load import Configuration, load_configuration
from scheduler.config.problems import ConfigurationError, Problem, Severity

_MAX_PASSES = 20
"""Some problems are found only when others are gone."""
_NOT_IN_V1 = "# From lines that v1 has no place for:"
_LEFT_OUT = "# From lines that are left out:"
_WIDTH = 4096
"""Long lines are not wrapped."""


def convert_text(text: str, *, source: str, flavour: Flavour = OURS) -> tuple[str, Configuration]:
    """Return the text as v1, and the configuration; text that is v1 already is returned unchanged.

    Every comment is kept; a comment of a line that v1 does not have moves to the end. A literal token and the name
    `default-scheduler` are accepted: converting is not installing.

    Raises:
        ConfigurationError: the text is not valid in its own version, or cannot be expressed in v1.
    """
    before = _load(text, source, flavour)
    if not is_converted(before.version):
        return text, before
    yaml = _yaml(text)
    tree = yaml.load(text)
    convert(tree, _ignore_report)
    out = io.StringIO()
    yaml.dump(tree, out)
    written = _restore_comments(text, out.getvalue(), _NOT_IN_V1)
    if not _means_the_same(before, written, source, flavour):
        message = "cannot be converted without changing its meaning; expand anchors and merge keys and try again"
        raise ConfigurationError([Problem((), message, source=source)])
    return written, before


def adapt_text(text: str, *, source: str, flavour: Flavour) -> tuple[str, list[Problem]]:
    """Return a configuration of ours as one for another flavour, and what is left out, each with the reason.

    Left out are plugins, entries of `pluginConfig` and fields that the flavour does not have. What stays means what it
    meant; comments are kept.

    Raises:
        ConfigurationError: the text is not valid for ours, or what is left is not valid for the flavour.
    """
    text, _ = convert_text(text, source=source)
    original, left_out = text, list[Problem]()
    for _ in range(_MAX_PASSES):
        yaml = _yaml(text)
        tree = yaml.load(text)
        problems = _foreign(text, tree, source, flavour)
        if not problems:
            break
        # From the end, so that the indices before stay what they are.
        removed = [problem for problem in sorted(problems, key=_place, reverse=True) if _remove(tree, problem.loc)]
        if not removed:
            raise ConfigurationError(problems)
        # The lines of a later pass are not those of the file.
        left_out += removed if not left_out else [replace(problem, line=0, column=0) for problem in removed]
        out = io.StringIO()
        yaml.dump(tree, out)
        text = out.getvalue()
    _load(text, source, flavour)
    return (_restore_comments(original, text, _LEFT_OUT) if left_out else text), sorted(
        left_out, key=lambda each: each.line
    )


def _foreign(text: str, tree: Any, source: str, flavour: Flavour) -> list[Problem]:
    """What of a configuration the flavour refuses, or ignores as it is of ours only."""
    problems: tuple[Problem, ...] = ()
    try:
        warnings = _load(text, source, flavour).warnings
    except ConfigurationError as error:
        problems, warnings = error.problems, error.warnings
    return [*problems, *(warning for warning in warnings if _at(tree, warning.loc) == OPTIONS)]


def _at(tree: Any, loc: Loc) -> Any:
    """What is at a place; None where nothing is."""
    node = tree
    for part in loc:
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            return None
    return node


def _place(problem: Problem) -> list[tuple[bool, int, str]]:
    return [(isinstance(part, int), part if isinstance(part, int) else 0, str(part)) for part in problem.loc]


def _remove(tree: Any, loc: Loc) -> bool:
    """Remove what is at a place: an item of a list whose name is meant, else a field. False: there is none."""
    *parents, last = loc[:-1] if loc and loc[-1] == "name" and isinstance(loc[-2], int) else loc or ("",)
    try:
        del _at(tree, tuple(parents))[last]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _means_the_same(before: Configuration, written: str, source: str, flavour: Flavour) -> bool:
    """Whether the rewritten text has the former meaning. Where profiles, or a profile and another part of the file,
    share an anchor, editing one also edits the other: the text then means something else, or is not valid at all."""
    try:
        return _behaviour(before) == _behaviour(_load(written, source, flavour))
    except ConfigurationError:
        return False


def _load(text: str, source: str, flavour: Flavour) -> Configuration:
    return load_configuration(
        text,
        source=source,
        flavour=flavour,
        allow_token_in_config_map=True,
        allow_default_scheduler_name=True,
        external_load=True,
        converting=True,
    )


def _behaviour(configuration: Configuration) -> list[object]:
    top = configuration.model.model_dump(exclude={"api_version", "profiles"})
    return [
        top,
        *(
            (profile.scheduler_name, profile.points, profile.plugin_args, profile.options)
            for profile in configuration.profiles
        ),
    ]


def _ignore_report(_container: object, _key: str | int | None, _message: str, _hint: str, _severity: Severity) -> None:
    return


def _yaml(text: str) -> YAML:
    """Return a round-trip reader and writer that indents lists as the text does."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _WIDTH
    yaml.explicit_start = text.lstrip().startswith("---")
    root = YAML(pure=True).compose(text)
    dash = next(_offsets(root, 0, SequenceNode), 0)
    mapping = next(_offsets(root, 0, MappingNode), 2)
    yaml.indent(mapping=mapping, sequence=2 + dash, offset=dash)
    return yaml


def _offsets(node: Node | None, column: int, kind: type[SequenceNode] | type[MappingNode]) -> Iterator[int]:
    """Yield the indentation of block lists, or of block maps, relative to their keys."""
    if isinstance(node, SequenceNode):
        for item in node.value:
            yield from _offsets(item, item.start_mark.column, kind)
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(value, kind) and not value.flow_style and value.value:
                yield value.start_mark.column - key.start_mark.column
            yield from _offsets(value, key.start_mark.column, kind)


def _restore_comments(before: str, after: str, title: str) -> str:
    """Restore comments that were lost with removed neighbours: above the same line as before, else at the end."""
    kept = [text for _, text in _comments(after)]
    lost: list[tuple[int, str]] = []
    for line, comment in _comments(before):
        if comment in kept:
            kept.remove(comment)
        else:
            lost.append((line, comment))
    source, lines, unplaced = before.splitlines(), after.splitlines(), []
    for line, comment in lost:
        place = _line_above_which(source, line, lines)
        if place is None:
            unplaced.append(comment)
        else:
            indent = len(lines[place]) - len(lines[place].lstrip())
            lines.insert(place, " " * indent + comment)
    if unplaced:
        lines += [title, *unplaced]
    return "\n".join(lines) + "\n"


def _line_above_which(source: list[str], line: int, lines: list[str]) -> int | None:
    """Return the index in `lines` of the line below a full-line comment; None for other comments, or if it is gone."""
    if not source[line].lstrip().startswith("#"):
        return None
    below = next((text.strip() for text in source[line:] if text.strip() and not text.lstrip().startswith("#")), None)
    nth = sum(1 for text in source[:line] if text.strip() == below)
    candidates = [index for index, text in enumerate(lines) if text.strip() == below]
    return candidates[min(nth, len(candidates) - 1)] if candidates else None


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield line (from 0) and text of every comment, in the order of the lines."""
    comments = []
    for token in _comment_tokens(YAML().load(text)):
        for offset, line in enumerate(token.value.split("\n")):
            if line.lstrip().startswith("#"):
                comments.append((token.start_mark.line + offset, line.strip()))
    yield from sorted(set(comments))


def _comment_tokens(value: Any, seen: set[int] | None = None) -> Iterator[CommentToken]:
    seen = set() if seen is None else seen
    attributes = getattr(value, "ca", None)
    if attributes is not None and id(value) not in seen:
        seen.add(id(value))
        yield from _flat([attributes.comment, attributes.items, attributes.end])
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _comment_tokens(item, seen)


def _flat(value: Any) -> Iterator[CommentToken]:
    if isinstance(value, CommentToken):
        yield value
    elif isinstance(value, dict):
        yield from _flat(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _flat(item)
