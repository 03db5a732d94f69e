"""The configuration that a simulation runs: a file of its own, or what follows from a ConfigMap or a stack file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from scheduler.config import Configuration, ConfigurationError, load_configuration
from secondary_scheduler.cli.errors import CommandError, ExitCode
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
            CommandError: the file holds none, or several.
        """
        embedded = self.path.name.startswith("Pulumi.") or self.text.lstrip().startswith("config:")
        if embedded or "kind: ConfigMap" in self.text:
            return self._embedded(report, minor)
        try:
            configuration = load_configuration(
                self.text,
                source=str(self.path),
                allow_token_in_config_map=True,
                allow_default_scheduler_name=True,
                external_load=True,
                cluster_minor=minor,
            )
        except ConfigurationError as error:
            for problem in error.problems:
                typer.echo(str(problem), err=True)
            raise typer.Exit(ExitCode.INVALID_INPUT) from error
        for warning in configuration.warnings if minor is None else ():
            report.warn(f"warning: {warning}")
        return configuration

    def _embedded(self, report: Report, minor: int | None) -> Configuration:
        # Here, not above: most runs need neither.
        from secondary_scheduler.cli.checking import check_file

        results = list(check_file(self.path, self.text, None, allow_token=True, cluster_minor=minor))
        for problem in (problem for result in results for problem in result.problems):
            if problem.severity == "error":
                typer.echo(str(problem), err=True)
            elif minor is None:
                report.warn(f"warning: {problem}")
        if not all(result.valid for result in results):
            raise typer.Exit(ExitCode.INVALID_INPUT)
        valid = [result.configuration for result in results if result.configuration is not None]
        if len(valid) != 1:
            raise CommandError(
                f"{self.option} {self.path}: holds {len(valid)} configurations; give one", ExitCode.INVALID_INPUT
            )
        return valid[0]
