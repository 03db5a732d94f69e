"""The source that a load-watcher reads, from a scheduler's configuration."""

from __future__ import annotations

from scheduler.catalog import CredentialRules
from scheduler.config import Configuration
from scheduler.load import LoadSettings, configured_sources
from secondary_scheduler.loadwatcher.errors import WatcherError

_WATCHER = "watcher:"


def source_of(configuration: Configuration, rules: CredentialRules, name: str) -> tuple[str, LoadSettings]:
    """Return key and settings of the only source that a configuration's plugins read.

    Args:
        configuration: the scheduler's.
        rules: what may be done with credentials.
        name: of the configuration, for messages.

    Raises:
        WatcherError: there is none, or there are several. Other load-watchers do not count.
    """
    configured, _ = configured_sources(configuration.profiles, rules)
    sources = {key: settings for key, settings in configured.items() if not key.startswith(_WATCHER)}
    if len(sources) != 1:
        raise WatcherError(
            f"{name}: the configuration must name exactly one source that is not a load-watcher, and it names "
            f"{', '.join(sources) or 'none'}"
        )
    return next(iter(sources.items()))
