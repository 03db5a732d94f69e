"""A load-watcher that the installation runs: for images that can neither read a Secret nor send a token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scheduler.catalog import LOAD_WATCHER_SUFFIX, OPERAND, CredentialRules, Loc
from scheduler.config import (
    OURS,
    Configuration,
    ConfigurationError,
    Flavour,
    Problem,
    image_flavour,
    load_configuration,
    render,
)

from .credentials import TOKEN_IN_CONFIG_MAP, MetricCredentialValues
from .generated import DesiredProfile, SettingsLocations, generate, resolved_address
from .metric_settings import OUR_IMAGE
from .profile_settings import PluginSettings, ProfileSettings, ScorePluginChoice, ScorePluginSelection

LOAD_WATCHER: Loc = ("metricProvider", "loadWatcher")
LOAD_WATCHER_PORT = 2020
"""Upstream's; the Go plugins take any other one, too."""
_READER = PluginSettings(score=ScorePluginSelection(enabled=(ScorePluginChoice(name="TargetLoadPacking"),)))
_SOURCE = "load-watcher configuration"


@dataclass(frozen=True)
class ManagedLoadWatcher:
    """A load-watcher that an installation runs.

    Attributes:
        image: this project's.
        content: the configuration that names its source, as YAML.
        configuration: the same, checked.
        rules: what it may do with credentials.
    """

    image: str
    content: str = field(repr=False)
    configuration: Configuration = field(repr=False)
    rules: CredentialRules = field(default_factory=CredentialRules)


def load_watcher_name(operand: str = OPERAND) -> str:
    """Return the name of a scheduler's load-watcher: of Deployment, Service, ServiceAccount and NetworkPolicy."""
    return f"{operand}{LOAD_WATCHER_SUFFIX}"


def load_watcher_address(operand: str = OPERAND) -> str:
    """Return the address of a scheduler's load-watcher, which is in the same namespace."""
    return f"http://{load_watcher_name(operand)}:{LOAD_WATCHER_PORT}"


def unusable_load_watcher(
    settings: ProfileSettings, desired: list[DesiredProfile], flavour: Flavour
) -> Iterator[Problem]:
    """Yield what stands against running a load-watcher, if the settings ask for one."""
    provider = settings.metric_provider
    if provider is None or provider.load_watcher is None:
        return
    if flavour.is_ours:
        message = "is not needed: this image reads the source itself, with a token from a Secret; remove it"
        yield Problem(LOAD_WATCHER, message)
        return
    if provider.type not in (None, "Prometheus"):
        message = f"is for type Prometheus; plugins read {provider.type} themselves: remove it"
        yield Problem(LOAD_WATCHER, message)
    if provider.credentials is not None and provider.credentials.allow_token_in_config_map:
        message = "and metricProvider.loadWatcher are two ways to provide the token; remove one of the two"
        yield Problem(TOKEN_IN_CONFIG_MAP, message)
    if provider.load_watcher.image is None:
        yield Problem(
            (*LOAD_WATCHER, "image"), f"missing; name this project's image, which has the command: {OUR_IMAGE}"
        )
    elif image_flavour(provider.load_watcher.image).family == "scheduler-plugins":
        message = "is an image of scheduler-plugins, which has no such load-watcher; name this project's image"
        yield Problem((*LOAD_WATCHER, "image"), message)
    for profile in desired:
        for below, choice in profile.plugins.chosen():
            for key in {"watcherAddress", "WatcherAddress"} & set(choice.args) if profile.watcher else ():
                message = "conflicts with metricProvider.loadWatcher, which sets it; remove one of the two"
                yield Problem((*profile.at, *below, "args", key), message)


def managed_load_watcher(
    settings: ProfileSettings, environment: Mapping[str, str], credentials: MetricCredentialValues
) -> tuple[ManagedLoadWatcher | None, list[Problem]]:
    """Return the load-watcher that the settings ask for, or the problems of its source's settings.

    Args:
        settings: those of the scheduler.
        environment: the environment variables of the `pulumi` process.
        credentials: where the load-watcher's pod finds token and certificate authority.
    """
    provider = settings.metric_provider
    if provider is None or provider.load_watcher is None or provider.load_watcher.image is None:
        return None, []
    address, problems = resolved_address(provider, LOAD_WATCHER[:1], environment)
    if problems:
        return None, problems
    reader = DesiredProfile(
        (), "load-watcher", _READER, "safe", provider, LOAD_WATCHER[:1], address, credentials.files
    )  # fmt: skip
    data = generate([reader], OURS, {})

    try:
        configuration = load_configuration(
            data, source=_SOURCE, flavour=OURS, credential_rules=credentials.rules, with_own_address=True
        )
    except ConfigurationError as error:
        places = SettingsLocations(data, [reader], {})
        return None, [places.in_settings(problem) for problem in error.problems]
    rules = configuration.bound_rules(credentials.rules)
    return ManagedLoadWatcher(provider.load_watcher.image, render(data), configuration, rules), []
