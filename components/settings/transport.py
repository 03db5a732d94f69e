"""How the metric source's token reaches the scheduler: our image reads a Secret, the Go ones their configuration."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.catalog import OPERATOR_NAMESPACE, takes_metric_provider
from scheduler.config import Flavour, Problem

from .credentials import TOKEN_IN_CONFIG_MAP
from .generated import DesiredProfile
from .metric_settings import OUR_IMAGE
from .profile_settings import ProfileSettings

_CREDENTIALS = TOKEN_IN_CONFIG_MAP[:-1]


def sends_token(desired: DesiredProfile) -> bool:
    """Tell whether a profile's configuration holds the token."""
    return desired.token is not None and bool(_readers(desired))


def unusable_credentials(
    settings: ProfileSettings, desired: list[DesiredProfile], flavour: Flavour
) -> Iterator[Problem]:
    """Yield what makes the credentials useless to the image: pods would be placed without load, and nobody told."""
    provider = settings.metric_provider
    if provider is None or provider.credentials is None:
        return
    credentials = provider.credentials
    if flavour.is_ours:
        if credentials.allow_token_in_config_map:
            message = "is not needed: this image reads the token from a Secret; remove it"
            yield Problem(TOKEN_IN_CONFIG_MAP, message)
        return
    if credentials.allow_token_in_config_map:
        if credentials.ca_file is not None:
            message = f"has no effect: {flavour.name} trusts the authorities of its image only; remove it"
            yield Problem((*_CREDENTIALS, "caFile"), message)
        return
    if provider.load_watcher is None and any(_readers(profile) for profile in desired):
        image = flavour.name
        if flavour.family == "custom":
            # The name may also be misspelled, and then all that follows is beside the point.
            image = "schedulerImage has a name that is not known (misspelled? else set flavour), so it"
        yield Problem(
            _CREDENTIALS,
            f"{image} reads a token from its configuration only; choose one of two: metricProvider.loadWatcher: "
            f"{{image: {OUR_IMAGE}}}, which runs a load-watcher that reads it from a Secret, or "
            "allowTokenInConfigMap: true beside token, which everybody who may read ConfigMaps can then read",
        )


def token_warnings(desired: list[DesiredProfile]) -> list[Problem]:
    """Return warnings about how the token is transported, at most one per location."""
    warnings: dict[Problem, None] = {}
    for profile in desired:
        if profile.files.token is None and not sends_token(profile):
            continue
        if profile.address is not None and not profile.address.startswith("https://"):
            message = "the token is sent unencrypted; use https"
            warnings[Problem((*profile.provider_at, "address"), message)] = None
        if sends_token(profile):
            message = (
                "the token is written in clear into a ConfigMap: whoever may get, list or watch ConfigMaps in the "
                f"namespace {OPERATOR_NAMESPACE} can read it, such as everybody bound to the ClusterRoles view, edit, "
                "admin or cluster-reader, and so can whoever reads etcd or its backups; the Go plugins do not verify "
                "the server's certificate. Give it no right but to query, and a short life"
            )
            warnings[Problem(TOKEN_IN_CONFIG_MAP, message)] = None
    return list(warnings)


def _readers(desired: DesiredProfile) -> list[str]:
    """The plugins that ask the metric source themselves."""
    chosen = (choice for _, choice in desired.plugins.chosen())
    return [
        choice.name
        for choice in chosen
        if takes_metric_provider(choice.name) and not (desired.watcher or choice.args.get("watcherAddress"))
    ]
