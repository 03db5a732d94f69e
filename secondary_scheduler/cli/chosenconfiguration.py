"""Which configuration decides: the file that an option names, else what the snapshot holds, else what is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scheduler.config import Configuration, ConfigurationError
from secondary_scheduler.cli.configurationfile import ConfigurationFile, load_text
from secondary_scheduler.cli.errors import CommandError, ExitCode, InputError, printable
from secondary_scheduler.cli.snapshotoptions import InstalledPlace
from secondary_scheduler.cli.storedconfigurations import InstalledConfiguration, stored_configurations
from secondary_scheduler.simulation.objects import RecordedObjects
from secondary_scheduler.simulation.report import Report

_MOST_NAMED = 5


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
    report: Report,
    beside: Path | None = None,
) -> Configuration:
    """Return the configuration that decides about a snapshot's pods, and say which it is unless an option names it.

    Args:
        option: that names a file, such as `--config`.
        file: what it names; None where it is left out.
        place: of the scheduler otherwise.
        objects: the snapshot; a cluster that has just been read holds no configuration.
        report: gets what a reader has to know.
        beside: a file of the project that `file` belongs to, if it is a stack file that lies in none.

    Raises:
        typer.Exit: it is not valid, and the problems are on stderr.
        NoConfigurationError: there is none.
        CommandError: there are several, or the cluster does not let us read them.
    """
    if file is not None:
        return ConfigurationFile.read(option, file, beside).load(report, objects.minor)
    try:
        stored = list(stored_configurations(objects))
    except (ConfigurationError, ValueError) as error:
        raise InputError(f"{error}; give {option}") from error
    if stored:
        installed, holder = _only(stored, place, "the snapshot", option), "the snapshot"
    else:
        installed, holder = _of_cluster(place, option)
    report.note(f"configuration: of the scheduler {installed.scheduler}, as {holder} has it; {option} names another")
    configuration, _ = load_text(installed.text, installed.scheduler, report, objects.minor)
    return configuration


def _of_cluster(place: InstalledPlace, option: str) -> tuple[InstalledConfiguration, str]:
    """Return what the installed scheduler runs, and the address of its cluster."""
    # Here, since a configuration of a file or a snapshot needs no client.
    from scheduler.kube.client import ConfigError, KubeError
    from secondary_scheduler.cli.connecting import load_connection
    from secondary_scheduler.cli.installedconfigurations import read_installed
    from secondary_scheduler.cli.refusals import explained
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
        lacking = "; ".join(map(printable, limits.lines[:_MOST_NAMED]))
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
    wanted = [each for each in choices if place.scheduler in (None, each.scheduler)]
    if len(wanted) == 1:
        return wanted[0]
    names = [each.scheduler for each in choices]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    listed = f"{', '.join(names[:_MOST_NAMED])}{more}"
    problem = "several schedulers" if place.scheduler is None else f"no scheduler {place.scheduler}"
    advice = f"name one with --scheduler, or give {option}"
    raise CommandError(f"{printable(f'{holder} has {problem} ({listed})')}; {advice}", ExitCode.USAGE)
