"""The configuration that a simulation runs: a file of its own, or what follows from a ConfigMap or a stack file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import typer

from scheduler.config import Configuration, ConfigurationError, Problem, find_configuration, load_configuration
from secondary_scheduler.cli.errors import ExitCode, printable_lines
from secondary_scheduler.cli.stackfile import check_stack, is_stack_file
from secondary_scheduler.files import read_text
from secondary_scheduler.simulation.report import Report

_LENIENT: Final[dict[str, Any]] = {
    "allow_token_in_config_map": True,
    "allow_default_scheduler_name": True,
    "external_load": True,
}
"""Nothing is installed, and no token is sent."""


@dataclass(frozen=True, slots=True)
class ConfigurationFile:
    """A file with one configuration.

    Attributes:
        option: what named it.
        beside: another file of the project that it belongs to, if it is a stack file that lies in none.
    """

    option: str
    path: Path
    text: str
    beside: Path | None = None

    @classmethod
    def read(cls, option: str, path: Path, beside: Path | None = None) -> ConfigurationFile:
        """Read a file.

        Raises:
            InputError: it cannot be read.
        """
        return cls(option, path, read_text(path, option=option), beside)

    def load(self, report: Report, minor: int | None) -> Configuration:
        """Return the configuration as it is on a cluster of a minor version; None: of an unknown one.

        Raises:
            typer.Exit: it is not valid, and the problems are on stderr.
            CommandError: it is a stack file without its project.
        """
        if is_stack_file(self.path, self.text):
            return self._stack(report, minor)
        configuration, title = load_text(self.text, str(self.path), report, minor)
        if title:
            report.note(f"{self.option} {self.path}: {title}")
        return configuration

    def _stack(self, report: Report, minor: int | None) -> Configuration:
        configuration, problems = check_stack(self.path, self.text, self.beside)
        errors = [problem for problem in problems if problem.severity == "error"]
        if configuration is None or errors:
            _refuse(errors)
        for problem in problems:
            report.warn_of(problem)
        if minor is None:
            return configuration
        try:
            # As the scheduler will read it there: a version that the stack names is written in it where it has effect.
            return load_configuration(
                configuration.data,
                source=configuration.source,
                flavour=configuration.flavour,
                cluster_minor=minor,
                **_LENIENT,
            )
        except ConfigurationError as error:
            _refuse(error.problems, error)


def load_text(text: str, source: str, report: Report, minor: int | None) -> tuple[Configuration, str]:
    """Return the only configuration of a text as it is on a cluster of a minor version, and which one of it this is.

    Raises:
        typer.Exit: it is not valid, and the problems are on stderr.
    """
    try:
        embedded = find_configuration(text, source)
        configuration = embedded.load(cluster_minor=minor, **_LENIENT)
    except ConfigurationError as error:
        _refuse(error.problems, error)
    for warning in configuration.warnings:
        report.warn_of(warning)
    return configuration, embedded.title


def _refuse(problems: Iterable[Problem], error: Exception | None = None) -> NoReturn:
    for problem in problems:
        typer.echo(printable_lines(str(problem)), err=True)
    raise typer.Exit(ExitCode.INVALID_INPUT) from error
