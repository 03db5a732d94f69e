"""Checking the scheduler's configuration before anything is registered, with the scheduler's own code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from scheduler.catalog import CredentialRules as CredentialRules, ExtensionPoint, PolicyRule as PolicyRule
from scheduler.config import (
    Configuration,
    ConfigurationError,
    ExtraPlugin,
    Flavour,
    UnknownFlavourError,
    check_size,
    custom_flavour,
    flavour_of,
    load_configuration,
)


@dataclass(frozen=True)
class CustomPlugin:
    """A plugin that only a custom image has; its args are not checked.

    Attributes:
        name: name in the configuration.
        points: extension points it implements, under upstream's names.
        rules: what it needs from the API server.
        crds: CRDs that it reads, as `plural.group`.
    """

    name: str
    points: Sequence[str]
    rules: Sequence[PolicyRule] = ()
    crds: Sequence[str] = ()


def load_document(
    content: str,
    *,
    source: str,
    image: str = "",
    flavour: str = "",
    custom_plugins: Sequence[CustomPlugin] = (),
    credential_rules: CredentialRules | None = None,
    allow_token_in_config_map: bool = False,
    allow_default_scheduler_name: bool = False,
) -> Configuration:
    """Return what the scheduler makes of a KubeSchedulerConfiguration.

    Args:
        content: the document as YAML.
        source: its name in messages.
        image, flavour: the image that it is for, and its flavour where the name does not show it; neither: ours.
        custom_plugins: plugins that only this image has.
        credential_rules: what the scheduler may do with credentials for its metric source; None: not checked.
        allow_token_in_config_map, allow_default_scheduler_name: as in a stack.

    Raises:
        pulumi.RunError: it is wrong; one line per problem.
    """
    try:
        chosen = _flavour(image, flavour, custom_plugins)
    except (UnknownFlavourError, ValueError) as error:
        raise pulumi.RunError(f"{source}: {error}") from None

    try:
        check_size(content, source)
        return load_configuration(
            content,
            source=source,
            flavour=chosen,
            allow_token_in_config_map=allow_token_in_config_map,
            allow_default_scheduler_name=allow_default_scheduler_name,
            into_cluster=True,
            credential_rules=credential_rules,
            with_own_address=True,
        )
    except ConfigurationError as error:
        raise pulumi.RunError("\n".join(map(str, error.problems))) from None


def _flavour(image: str, named: str, custom_plugins: Sequence[CustomPlugin]) -> Flavour:
    if not custom_plugins:
        return flavour_of(image, named) if image or named else flavour_of("", "ours")
    return custom_flavour(
        ExtraPlugin(plugin.name, frozenset(map(ExtensionPoint, plugin.points)), tuple(plugin.rules), tuple(plugin.crds))
        for plugin in custom_plugins
    )
