"""What a rebalancer needs of its files: the configuration with the one load source that its plugins read, settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scheduler.config import Configuration, ConfigurationError, find_configuration, read_document
from scheduler.load import LoadSettings, configured_sources
from secondary_scheduler.rebalancer.options import Options
from secondary_scheduler.rebalancing import RebalanceSettings, SettingsError, read_settings

_MOST_BYTES = 1 << 20
"""What a ConfigMap can hold."""


class SetupError(ValueError):
    """A file cannot be used: what is wrong in each line."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What the files say.

    Attributes:
        source: key of the load source (`ArgsModel.source_key`).
        load: how it is read.
    """

    configuration: Configuration
    settings: RebalanceSettings
    source: str
    load: LoadSettings


def read_setup(options: Options, cluster_minor: int | None) -> Setup:
    """Read the files, for a cluster of this minor version of Kubernetes 1.x; None where that is not known.

    Raises:
        SetupError: a file cannot be read, is not valid, or names no load source, or several.
    """
    configuration = _configuration(options, cluster_minor)
    sources, _ = configured_sources(configuration.profiles, options.rules)
    if len(sources) != 1:
        number = f"{len(sources)} load sources" if sources else "no load source"
        raise SetupError(
            f"--config {options.config}: its plugins read {number}; a rebalancer needs the one by which pods are placed"
        )
    ((source, load),) = sources.items()
    return Setup(configuration, _settings(options.settings), source, load)


def _configuration(options: Options, cluster_minor: int | None) -> Configuration:
    text = options.extract(_text(options.config, "--config"))
    try:
        return find_configuration(text, str(options.config)).load(
            allow_token_in_config_map=True,  # as for the scheduler: the preview has judged it
            allow_default_scheduler_name=True,
            credential_rules=options.rules,
            cluster_minor=cluster_minor,
        )
    except ConfigurationError as error:
        raise SetupError(str(error)) from error


def _settings(path: Path | None) -> RebalanceSettings:
    if path is None:
        return RebalanceSettings()
    text = _text(path, "--settings")
    try:
        document = read_document(text, str(path))
        if document.problems:
            raise ConfigurationError(document.problems)
        return read_settings(document.data)
    except (SettingsError, ConfigurationError) as error:
        raise SetupError("\n".join(f"--settings {path}: {line}" for line in str(error).splitlines())) from error


def unchanged(options: Options) -> Callable[[], bool]:
    """Return what tells whether the files are as they were: a ConfigMap's content may change while it is mounted."""
    former = _contents(options)
    return lambda: _contents(options) == former


def _contents(options: Options) -> tuple[str, ...]:
    try:
        settings = _text(options.settings, "--settings") if options.settings is not None else ""
        return _text(options.config, "--config"), settings
    except SetupError:
        # A file that is being replaced is there again in a moment.
        return ()


def _text(path: Path, option: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise SetupError(f"{option} {path}: larger than 1 MiB, which is the most that is read")
        return data.decode("utf-8")
    except OSError as error:
        raise SetupError(f"{option} {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SetupError(f"{option} {path}: not UTF-8 text") from error
