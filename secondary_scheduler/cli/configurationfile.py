"""The configuration that a simulation runs: a file of its own, or what follows from a ConfigMap or a stack file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from scheduler.config import Configuration, ConfigurationError, find_configuration
from secondary_scheduler.cli.errors import ExitCode
from secondary_scheduler.cli.stackfile import check_stack, is_stack_file
from secondary_scheduler.files import read_text
from secondary_scheduler.simulation.report import Report


@dataclass(frozen=True, slots=True)
class ConfigurationFile:
    """A file with one configuration.

    Attributes:
        option: what named it.
    """

    option: str
    path: Path
    text: str

    @classmethod
    def read(cls, option: str, path: Path) -> ConfigurationFile:
        """Read a file.

        Raises:
            InputError: it cannot be read.
        """
        return cls(option, path, read_text(path, option=option))

    def load(self, report: Report, minor: int | None = None) -> Configuration:
        """Return the configuration as it is on a cluster of a minor version; warnings are reported where that is None.

        Raises:
            typer.Exit: it is not valid, and the problems are on stderr.
            CommandError: it is a stack file without its project.
        """
        if is_stack_file(self.path, self.text):
            return self._stack(report, minor)
        try:
            embedded = find_configuration(self.text, str(self.path))
            configuration = embedded.load(
                allow_token_in_config_map=True,
                allow_default_scheduler_name=True,
                external_load=True,
                cluster_minor=minor,
            )
        except ConfigurationError as error:
            for problem in error.problems:
                typer.echo(str(problem), err=True)
            raise typer.Exit(ExitCode.INVALID_INPUT) from error
        if embedded.title and minor is None:
            report.note(f"{self.option} {self.path}: {embedded.title}")
        for warning in configuration.warnings if minor is None else ():
            report.warn(f"warning: {warning}")
        return configuration

    def _stack(self, report: Report, minor: int | None) -> Configuration:
        configuration, problems = check_stack(self.path, self.text)
        for problem in problems:
            if problem.severity == "error":
                typer.echo(str(problem), err=True)
            elif minor is None:
                report.warn(f"warning: {problem}")
        if configuration is None or any(problem.severity == "error" for problem in problems):
            raise typer.Exit(ExitCode.INVALID_INPUT)
        return configuration
