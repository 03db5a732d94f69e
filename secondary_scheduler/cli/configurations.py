"""What decides on a snapshot: the configuration of the file that an option names, else of the snapshot, else of the
installed scheduler; and what else decisions depend on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import typer

from scheduler.config import (
    Configuration,
    ConfigurationError,
    Problem,
    find_configuration,
    load_configuration,
)
from secondary_scheduler.cli.errors import CommandError, ExitCode, InputError, explained, printable, printable_lines
from secondary_scheduler.cli.snapshotoptions import InstalledPlace, SnapshotRequest
from secondary_scheduler.cli.stackfile import examine_stack, is_stack_file
from secondary_scheduler.cli.storedconfigurations import InstalledConfiguration, stored_configurations
from secondary_scheduler.files import read_text
from secondary_scheduler.simulation.cluster import PodSelection, read_load
from secondary_scheduler.simulation.documents import read_objects
from secondary_scheduler.simulation.extenderanswers import read_recording
from secondary_scheduler.simulation.objects import RecordedObjects
from secondary_scheduler.simulation.report import InputReport
from secondary_scheduler.simulation.settingup import Conditions, taken_over

_NAME_LIMIT = 5


class NoConfigurationError(CommandError):
    """Nobody has a configuration to decide with.

    Attributes:
        reason: without what to do about it.
        answered: whether the cluster says so; else it could not be asked.
    """

    def __init__(self, reason: str, option: str, *, answered: bool = False) -> None:
        self.reason = printable(reason)
        self.answered = answered
        super().__init__(f"{self.reason}; give {option}", ExitCode.INVALID_INPUT)


def chosen_configuration(
    option: str,
    file: Path | None,
    place: InstalledPlace,
    objects: RecordedObjects,
    report: InputReport,
    sibling: Path | None = None,
) -> Configuration:
    """Return the configuration that decides about a snapshot's pods, and say which it is unless an option names it.

    Args:
        option: that names a file, such as `--config`.
        file: what it names; None where it is left out.
        place: of the scheduler otherwise.
        objects: the snapshot; a cluster that has just been read holds no configuration.
        report: gets what a reader has to know.
        sibling: a file of the project that `file` belongs to, if it is a stack file that lies in none.

    Raises:
        typer.Exit: it is not valid, and the problems are on stderr.
        NoConfigurationError: there is none.
        CommandError: there are several, or the cluster does not let us read them.
    """
    if file is not None:
        return read_configuration(option, file, report, objects.minor, sibling)
    try:
        stored = list(stored_configurations(objects))
    except (ConfigurationError, ValueError) as error:
        raise InputError(f"{error}; give {option}") from error
    if stored:
        installed, holder = _only(stored, place, "the snapshot", option), "the snapshot"
    else:
        installed, holder = _of_cluster(place, option)
    report.note(f"configuration: of the scheduler {installed.scheduler}, as {holder} has it; {option} names another")
    configuration, _ = _load_text(installed.text, installed.scheduler, report, objects.minor)
    return configuration


def _of_cluster(place: InstalledPlace, option: str) -> tuple[InstalledConfiguration, str]:
    """Return what the installed scheduler runs, and the address of its cluster."""
    # Here, since a configuration of a file or a snapshot needs no client.
    from scheduler.kube.client import ConfigError, KubeError
    from secondary_scheduler.cli.connecting import load_connection
    from secondary_scheduler.cli.installedconfigurations import read_installed
    from secondary_scheduler.clusterstatus.installations import CallerLimits

    limits = CallerLimits(option="--scheduler NAMESPACE/NAME")
    try:
        config = load_connection(place.kubeconfig, place.context)
        installed = read_installed(config, place.namespace, limits, command=place.command)
    except (ConfigError, KubeError) as error:
        raise NoConfigurationError(
            f"the snapshot holds no configuration, and no cluster is asked for one: {explained(error)}", option
        ) from error
    if not installed and limits.lines:
        # Each cut on its own: together they are longer than a line of somebody else's text may be.
        lacking = "; ".join(map(printable, limits.lines[:_NAME_LIMIT]))
        refused = printable(f"no configuration of a scheduler may be read at {config.server}")
        raise CommandError(f"{refused}: {lacking}; or give {option}")
    if not installed:
        reason = f"the snapshot holds no configuration, and {config.server} has no scheduler"
        raise NoConfigurationError(reason, option, answered=True)
    return _only(installed, place, config.server, option), config.server


def _only(
    choices: Sequence[InstalledConfiguration], place: InstalledPlace, holder: str, option: str
) -> InstalledConfiguration:
    """Return the configuration of the scheduler that the user means.

    Raises:
        CommandError: it is not there, or there are several and none is named.
    """
    matching = [choice for choice in choices if place.scheduler in (None, choice.scheduler)]
    if len(matching) == 1:
        return matching[0]
    names = [choice.scheduler for choice in choices]
    more = f" and {len(names) - _NAME_LIMIT} more" if len(names) > _NAME_LIMIT else ""
    choices_text = f"{', '.join(names[:_NAME_LIMIT])}{more}"
    problem = "several schedulers" if place.scheduler is None else f"no scheduler {place.scheduler}"
    advice = f"name one with --scheduler, or give {option}"
    raise CommandError(f"{printable(f'{holder} has {problem} ({choices_text})')}; {advice}", ExitCode.USAGE)


def selection_of(request: SnapshotRequest, configuration: Configuration) -> PodSelection:
    """Return whose pods are decided.

    Raises:
        CommandError: the request names a profile that the configuration has not.
    """
    return PodSelection(configuration.scheduler_names, taken_over(request.as_scheduler, configuration))


def conditions_of(request: SnapshotRequest, report: InputReport) -> Conditions:
    """Read what decisions depend on beside configuration and objects.

    Raises:
        InputError: a file cannot be used.
    """
    load, extenders = request.load, request.extender_recording
    return Conditions(
        request.seed,
        request.now,
        None if load is None else read_load(read_objects(load), load, report),
        read_recording(extenders, report) if extenders else None,
    )


_LENIENT: Final[dict[str, Any]] = {
    "allow_token_in_config_map": True,
    "allow_default_scheduler_name": True,
    "external_load": True,
}
"""Nothing is installed, and no token is sent."""


def read_configuration(
    option: str, file: Path, report: InputReport, minor: int | None, sibling: Path | None = None
) -> Configuration:
    """Return the configuration of a file, as it is on a cluster of a minor version.

    Args:
        option: what names the file.
        file: a KubeSchedulerConfiguration, a ConfigMap that holds one, or a stack file from which one follows.
        report: gets what a reader has to know.
        minor: None: the version is not known.
        sibling: another file of the project that `file` belongs to, if it is a stack file that lies in none.

    Raises:
        typer.Exit: it is not valid, and the problems are on stderr.
        InputError: it cannot be read.
        CommandError: it is a stack file without its project.
    """
    text = read_text(file, option=option)
    if is_stack_file(file, text):
        return _of_stack(file, text, report, minor, sibling)
    configuration, title = _load_text(text, str(file), report, minor)
    if title:
        report.note(f"{option} {file}: {title}")
    return configuration


def _of_stack(file: Path, text: str, report: InputReport, minor: int | None, sibling: Path | None) -> Configuration:
    stack = examine_stack(file, text, sibling)
    if stack.configuration is None or stack.errors:
        _refuse(stack.errors)
    for problem in stack.problems:
        report.warn_of(problem)
    if minor is None:
        return stack.configuration
    try:
        # As the scheduler will read it there: a version that the stack names is written in it where it has effect.
        return load_configuration(
            stack.configuration.data,
            source=stack.configuration.source,
            flavour=stack.configuration.flavour,
            cluster_minor=minor,
            **_LENIENT,
        )
    except ConfigurationError as error:
        _refuse(error.problems, error)


def _load_text(text: str, source: str, report: InputReport, minor: int | None) -> tuple[Configuration, str]:
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
