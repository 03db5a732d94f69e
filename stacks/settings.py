"""The settings of a stack: what stands under `secondary-scheduler:` in `stacks/Pulumi.<stack>.yaml`.

Names are camelCase in the file; nothing is coerced and an unknown key is an error. Secrets are keys of their own
(`prometheusToken`, `kubeconfig`) and never part of these models: Pulumi keeps a structured value in clear as soon as
the program has read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

_IMAGE = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::[0-9]+)?/)?"  # registry
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"  # repository
    r"(?::\w[\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_ARGUMENT = re.compile(r"token|password|secret|bearer|credential", re.IGNORECASE)
_LATER_INSTALL_MODES = ("olm", "catalog", "none", "direct")


class _Settings(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)


def _image(value: str) -> str:
    if not _IMAGE.fullmatch(value):
        raise ValueError("is not an image; write registry/repository:tag or registry/repository@sha256:digest")
    return value


def _subdomain(value: str) -> str:
    if len(value) > 253 or not _DNS_SUBDOMAIN.fullmatch(value):
        raise ValueError("must consist of lower case letters, digits, '-' and '.', at most 253 of them")
    return value


def _environment_name(value: str) -> str:
    if not _ENVIRONMENT_NAME.fullmatch(value):
        raise ValueError("must be the name of an environment variable")
    return value


def _install_mode(value: object) -> object:
    if value in _LATER_INSTALL_MODES:
        raise ValueError("comes with a later version; allowed: manifests")
    return value


def _absent_if_empty(value: object) -> object:
    """Pulumi.yaml can say "optional" of a mapping only by giving it an empty one as its default."""
    return None if value == {} else value


def source_url(value: str) -> str:
    """Return the address of a metric source if it is a plain URL.

    Raises:
        ValueError: it is none, or carries a password. The text does not repeat it: what is wrong may be secret.
    """
    try:
        url = urlsplit(value)
        port_is_valid = url.port is None or url.port > 0
    except ValueError:
        raise ValueError("is not a URL; write http://HOST:PORT or https://HOST:PORT") from None
    if url.username is not None or url.password is not None:
        raise ValueError("must not hold a user or password; give the token under credentials")
    if url.scheme not in ("http", "https") or not url.hostname or not port_is_valid or url.query or url.fragment:
        raise ValueError("is not a URL; write http://HOST:PORT or https://HOST:PORT")
    return value


Image = Annotated[str, AfterValidator(_image)]
Subdomain = Annotated[str, AfterValidator(_subdomain)]
EnvironmentName = Annotated[str, AfterValidator(_environment_name)]
SecretDataKey = Annotated[str, Field(pattern=f"^{_SECRET_KEY.pattern}$")]


class FromFileInEnvironment(_Settings):
    """A file whose path stands in an environment variable where `pulumi` runs."""

    from_file_in_env: EnvironmentName


def _token_source(value: object) -> object:
    if isinstance(value, dict):
        return value
    # The value is not repeated: it may be the token itself.
    raise ValueError("must be {secretKey: prometheusToken} or {fromFileInEnv: VARIABLE}; a literal token is refused")


def _file_source(value: object) -> object:
    if isinstance(value, dict):
        return value
    raise ValueError("must be {fromFileInEnv: VARIABLE}")


class TokenSource(_Settings):
    """Where the token comes from.

    Attributes:
        secret_key: an encrypted key of the stack: `pulumi config set --secret prometheusToken`.
        from_file_in_env: a file whose path stands in this environment variable where `pulumi` runs.
    """

    secret_key: Literal["prometheusToken"] | None = None
    from_file_in_env: EnvironmentName | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.secret_key is None) == (self.from_file_in_env is None):
            raise ValueError("must hold either secretKey or fromFileInEnv")
        return self


class ExistingSecret(_Settings):
    """A Secret in the scheduler's namespace that somebody else keeps.

    Attributes:
        key: key of the token in it.
        ca_key: key of the certificate authority in it; the system's authorities are trusted if absent.
    """

    name: Subdomain
    key: SecretDataKey = "token"
    ca_key: SecretDataKey | None = None


class ServiceAccountAccess(_Settings):
    """The scheduler's own projected token: nothing is made, stored or rotated by hand.

    Attributes:
        cluster_role: ClusterRole that the metric source asks for; the scheduler's ServiceAccount is bound to it.
        ca_key: certificate authority beside the token; OpenShift puts the one of its services there.
    """

    cluster_role: str = Field("cluster-monitoring-view", min_length=1)
    ca_key: SecretDataKey = "service-ca.crt"


class Credentials(_Settings):
    """How the scheduler proves itself to the metric source: exactly one of the three ways."""

    token: Annotated[TokenSource, BeforeValidator(_token_source)] | None = None
    ca_file: Annotated[FromFileInEnvironment, BeforeValidator(_file_source)] | None = None
    existing_secret: ExistingSecret | None = None
    service_account: ServiceAccountAccess | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = [way for way in (self.token, self.existing_secret, self.service_account) if way is not None]
        if len(ways) != 1:
            raise ValueError("must hold exactly one of token, existingSecret, serviceAccount")
        if self.ca_file is not None and self.token is None:
            raise ValueError("caFile goes with token only; the other ways have caKey")
        return self


def _address(value: object) -> object:
    if isinstance(value, str):
        return {"url": value}
    if isinstance(value, dict):
        return value
    raise ValueError("must be a URL or {fromEnv: VARIABLE}")


class Address(_Settings):
    """A URL, given as it is or by the environment variable that holds it where `pulumi` runs."""

    url: Annotated[str, AfterValidator(source_url)] | None = None
    from_env: EnvironmentName | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.url is None) == (self.from_env is None):
            raise ValueError("must be a URL or {fromEnv: VARIABLE}")
        return self


class MetricProvider(_Settings):
    """Where the nodes' load is read, once for all plugins.

    Attributes:
        address: of Prometheus, or of SignalFx where it is not the public one.
        window: averaging window of the queries as a Prometheus duration.
        refresh_seconds: pause between two reads.
        max_age_seconds: an older sample is not used for scores.
        timeout_seconds, when_stale, when_absent, when_none_fresh, node_label, queries: as `SecondarySchedulerOptions`
            has them under `load`, where they are checked.
    """

    type: Literal["Prometheus", "KubernetesMetricsServer", "SignalFx"]
    address: Annotated[Address | None, BeforeValidator(_address)] = None
    credentials: Credentials | None = None
    window: str = "15m"
    refresh_seconds: int = 30
    max_age_seconds: int = 300
    timeout_seconds: int | None = None
    when_stale: str | None = None
    when_absent: str | None = None
    when_none_fresh: str | None = None
    node_label: str | None = None
    queries: dict[str, str] | None = None

    @model_validator(mode="after")
    def _what_the_type_needs(self) -> Self:
        if self.type == "Prometheus" and self.address is None:
            raise ValueError("must hold address; write http://HOST:PORT or https://HOST:PORT")
        if self.type == "KubernetesMetricsServer" and (self.address or self.credentials):
            raise ValueError("of the metrics server needs neither address nor credentials; the cluster's own is asked")
        if self.type == "SignalFx" and self.credentials is None:
            raise ValueError("must hold credentials; SignalFx answers nobody without a token")
        return self


def _plugin_args(value: dict[str, Any]) -> dict[str, Any]:
    if "metricProvider" in value:
        raise ValueError("must not hold metricProvider; the metric source stands once, under the key metricProvider")
    for key, nested in value.items():
        if _SECRET_ARGUMENT.search(key) and isinstance(nested, str):
            raise ValueError(f"must not hold {key}: it would stand in a ConfigMap; use metricProvider.credentials")
        if isinstance(nested, dict):
            _plugin_args(nested)
    return value


class PluginChoice(_Settings):
    """A plugin at an extension point, and its args under upstream's names. They count wherever the plugin runs, so
    that they are given once."""

    name: str = Field(min_length=1)
    args: Annotated[dict[str, Any], AfterValidator(_plugin_args)] = Field(default_factory=dict)


class ScorePlugin(PluginChoice):
    """A plugin that may score, and its weight in the sum of scores."""

    weight: int = Field(1, ge=1, le=100)


class PluginSelection(_Settings):
    """What runs at an extension point beside the default plugins, and which of these do not; `*` stands for all."""

    enabled: tuple[PluginChoice, ...] = ()
    disabled: tuple[str, ...] = ()


class ScorePlugins(_Settings):
    """What scores beside the default plugins, and which of these do not."""

    enabled: tuple[ScorePlugin, ...] = ()
    disabled: tuple[str, ...] = ()


class Plugins(_Settings):
    """Plugins by extension point; `multiPoint` stands for every point that a plugin implements."""

    multi_point: ScorePlugins = ScorePlugins()
    pre_enqueue: PluginSelection = PluginSelection()
    queue_sort: PluginSelection = PluginSelection()
    pre_filter: PluginSelection = PluginSelection()
    filter: PluginSelection = PluginSelection()
    post_filter: PluginSelection = PluginSelection()
    pre_score: PluginSelection = PluginSelection()
    score: ScorePlugins = ScorePlugins()
    reserve: PluginSelection = PluginSelection()
    permit: PluginSelection = PluginSelection()
    pre_bind: PluginSelection = PluginSelection()
    bind: PluginSelection = PluginSelection()
    post_bind: PluginSelection = PluginSelection()

    def by_point(self) -> Iterator[tuple[str, PluginSelection | ScorePlugins]]:
        """Yield what is chosen, under the names that the file and upstream give the extension points."""
        for name, field in type(self).model_fields.items():
            selection: PluginSelection | ScorePlugins = getattr(self, name)
            if selection.enabled or selection.disabled:
                yield field.alias or name, selection

    def chosen(self) -> Iterator[tuple[tuple[str, str, str, int], PluginChoice]]:
        """Yield every enabled plugin with the place where it stands in the file."""
        for point, selection in self.by_point():
            for index, choice in enumerate(selection.enabled):
                yield ("plugins", point, "enabled", index), choice


class Cluster(_Settings):
    """The cluster of the stack.

    Attributes:
        cluster_identifier: a name of your choice that never changes; only a new one makes Pulumi treat the cluster as
            another one and create everything anew.
        context: context of the kubeconfig; its current one if absent.
    """

    cluster_identifier: str = Field(min_length=1)
    context: str | None = Field(None, min_length=1)


class ProfileSettings(_Settings):
    """The part of the settings that becomes the scheduler's configuration.

    Attributes:
        allow_default_scheduler_name: let schedulerName be default-scheduler, at the risk of two schedulers that place
            the same pods.
        compatibility: `upstream` switches off what our image does better than the Go one on purpose.
    """

    scheduler_name: Subdomain = "secondary-scheduler"
    allow_default_scheduler_name: bool = False
    compatibility: Literal["safe", "upstream"] = "safe"
    plugins: Plugins = Plugins()
    metric_provider: Annotated[MetricProvider | None, BeforeValidator(_absent_if_empty)] = None


class StackSettings(ProfileSettings):
    """All settings of a stack.

    Attributes:
        install_plugin_crds: install the CRDs that enabled plugins read, such as PodGroup.
        protect: refuse to delete namespace, CRDs and SecondaryScheduler, and leave the CRDs in the cluster if the stack
            goes.
    """

    cluster: Cluster
    scheduler_image: Image
    operator_image: Image
    log_level: Literal["Normal", "Debug", "Trace", "TraceAll"] = "Normal"
    install_mode: Annotated[Literal["manifests"], BeforeValidator(_install_mode)] = "manifests"
    install_plugin_crds: bool = True
    protect: bool = False
