"""The lines of a stack file that problems of its settings belong to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from scheduler.catalog import Loc
from scheduler.config import ConfigurationDocument, ConfigurationError, Problem, read_document


def locate(problems: Iterable[Problem], stack_file: Path, project: str, *, source: str) -> list[Problem]:
    """Return the problems in the order of the file, each with the line of its key or of the closest enclosing key.

    Args:
        problems: those with a source, such as a configuration file, keep their position and come last.
        stack_file: the file with the settings.
        project: prefix of the file's keys.
        source: name of the file in messages.
    """
    document = _read(stack_file)
    own = [
        replace(problem, line=_line_of(problem.loc, project, document), source=source)
        for problem in problems
        if not problem.source
    ]
    others = [problem for problem in problems if problem.source]
    return [
        *sorted(own, key=lambda problem: (problem.line, problem.path)),
        *sorted(others, key=lambda problem: (problem.source, problem.line, problem.path)),
    ]


def _read(stack_file: Path) -> ConfigurationDocument | None:
    """The stack file; None where settings come from --config-file or the command line, and problems have no line."""
    try:
        return read_document(stack_file.read_text(encoding="utf-8"), stack_file.name)
    except (OSError, ValueError, ConfigurationError):
        return None


def _line_of(loc: Loc, project: str, document: ConfigurationDocument | None) -> int:
    """The line of a key in the stack file, or of the nearest key around it; 0 if not even its first key is there."""
    first: Loc = ("config", f"{project}:{loc[0]}") if loc else ()
    if document is None or not first or not document.has(first):
        return 0
    return document.position((*first, *loc[1:]), at_key=True)[0]
