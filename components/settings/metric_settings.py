"""The settings of the metric source: its address and the credentials for it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from scheduler import __version__
from scheduler.config import SettingsModel

from .values import EnvironmentName, Image, SecretDataKey, Subdomain, source_url

OUR_IMAGE = f"REGISTRY/secondary-scheduler/operator:{__version__}"
"""What to write where this project's image is asked for; it holds scheduler, operator and load-watcher."""


class FromFileInEnvironment(SettingsModel):
    """A file whose path is the value of an environment variable of the `pulumi` process."""

    from_file_in_env: EnvironmentName


def _token_source(value: object) -> object:
    if isinstance(value, dict):
        return value
    # The message does not quote the value: it may be the token itself.
    raise ValueError("must be {secretKey: prometheusToken} or {fromFileInEnv: VARIABLE}; a literal token is refused")


def _file_source(value: object) -> object:
    if isinstance(value, dict):
        return value
    raise ValueError("must be {fromFileInEnv: VARIABLE}")


class TokenSource(SettingsModel):
    """Where the token comes from.

    Attributes:
        secret_key: an encrypted key of the stack: `pulumi config set --secret prometheusToken`.
        from_file_in_env: the environment variable that holds the path of a file with the token.
    """

    secret_key: Literal["prometheusToken"] | None = None
    from_file_in_env: EnvironmentName | None = None

    @model_validator(mode="after")
    def _exactly_one_source(self) -> Self:
        if (self.secret_key is None) == (self.from_file_in_env is None):
            raise ValueError("must hold either secretKey or fromFileInEnv")
        return self


class ExistingSecret(SettingsModel):
    """A Secret in the scheduler's namespace that is managed elsewhere.

    Attributes:
        name: its name.
        key: key of the token in it.
        ca_key: key of the certificate authority in it; default: the system's authorities are trusted.
    """

    name: Subdomain
    key: SecretDataKey = "token"
    ca_key: SecretDataKey | None = None


class ServiceAccountAccess(SettingsModel):
    """The scheduler's own projected token: nobody has to create, store or rotate one.

    Attributes:
        cluster_role: ClusterRole that the metric source requires; the scheduler's ServiceAccount is bound to it.
        ca_key: file with the certificate authority next to the token; OpenShift's service CA is mounted there.
        audience: send a token for this audience, which the API server does not accept; default: its own.
    """

    cluster_role: str = Field("cluster-monitoring-view", min_length=1)
    ca_key: SecretDataKey = "service-ca.crt"
    audience: str | None = Field(None, min_length=1, max_length=253)


class CredentialSettings(SettingsModel):
    """The scheduler's credentials for the metric source, from exactly one of three origins.

    Attributes:
        token: {secretKey: prometheusToken} or {fromFileInEnv: VARIABLE}; a literal token is refused.
        ca_file: certificate authority beside a token: {fromFileInEnv: VARIABLE}.
        existing_secret: a Secret in the scheduler's namespace that is managed elsewhere.
        service_account: the pod's own projected token, for example with cluster-monitoring-view on OpenShift; it is
            sent to metricProvider.address only, which must be https.
        allow_insecure: send the token over HTTP too, to any address. The ServiceAccount's own token never is.
        allow_token_in_config_map: write the token into the ConfigMap, where everybody who may read ConfigMaps finds it;
            the preview says so. The Go plugins of scheduler-plugins read it from nowhere else.
    """

    token: Annotated[TokenSource, BeforeValidator(_token_source)] | None = None
    ca_file: Annotated[FromFileInEnvironment, BeforeValidator(_file_source)] | None = None
    existing_secret: ExistingSecret | None = None
    service_account: ServiceAccountAccess | None = None
    allow_insecure: bool = False
    allow_token_in_config_map: bool = False

    @model_validator(mode="after")
    def _exactly_one_way(self) -> Self:
        ways = [way for way in (self.token, self.existing_secret, self.service_account) if way is not None]
        if len(ways) != 1:
            raise ValueError("must hold exactly one of token, existingSecret, serviceAccount")
        if self.ca_file is not None and self.token is None:
            raise ValueError("caFile is only for token; existingSecret and serviceAccount have caKey")
        if self.allow_token_in_config_map and self.token is None:
            raise ValueError("allowTokenInConfigMap is only for token: the program does not know any other one")
        return self


class LoadWatcherSettings(SettingsModel):
    """A load-watcher that the installation runs beside the scheduler. It alone has the credentials.

    Attributes:
        image: this project's, under the name of scheduler or operator (required).
    """

    image: Image | None = None


def _address(value: object) -> object:
    if isinstance(value, str):
        return {"url": value}
    if isinstance(value, dict):
        return value
    raise ValueError("must be a URL or {fromEnv: VARIABLE}")


class Address(SettingsModel):
    """A URL, or the environment variable of the `pulumi` process that holds it."""

    url: Annotated[str, AfterValidator(source_url)] | None = None
    from_env: EnvironmentName | None = None

    @model_validator(mode="after")
    def _exactly_one_source(self) -> Self:
        if (self.url is None) == (self.from_env is None):
            raise ValueError("must be a URL or {fromEnv: VARIABLE}")
        return self


class MetricProviderSettings(SettingsModel):
    """The source of the nodes' load, shared by all plugins.

    Attributes:
        type: what is asked. It may be absent only if a configuration file names the source; then only credentials are
            allowed. KubernetesMetricsServer needs no address.
        address: URL of Prometheus, or of SignalFx where it is not the public one; or {fromEnv: VARIABLE}.
        credentials: of the scheduler for the metric source, in one of three ways: token, existingSecret,
            serviceAccount.
        load_watcher: for images that can read no Secret: plugins ask it, and it alone gets the credentials and asks
            Prometheus. See docs/stack-settings.md#images.
        window: averaging window of the queries, as a Prometheus duration.
        refresh_seconds: interval between two reads.
        max_age_seconds: older samples count as stale.
        timeout_seconds, when_stale, when_absent, when_none_fresh, node_label, queries, limit: how series are queried
            and matched, what replaces a missing load, and a limit on the load, as `SecondarySchedulerOptions` has them
            under `load`, where they are checked. See docs/load.md.
    """

    type: Literal["Prometheus", "KubernetesMetricsServer", "SignalFx"] | None = None
    address: Annotated[Address | None, BeforeValidator(_address)] = None
    credentials: CredentialSettings | None = None
    load_watcher: LoadWatcherSettings | None = None
    window: str = "15m"
    refresh_seconds: int = 30
    max_age_seconds: int = 300
    timeout_seconds: int | None = None
    when_stale: str | None = None
    when_absent: str | None = None
    when_none_fresh: str | None = None
    node_label: str | None = None
    queries: dict[str, str] | None = None
    limit: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _requirements_of_type(self) -> Self:
        if self.type is None and self.model_fields_set != {"credentials"}:
            raise ValueError("must hold type; allowed: Prometheus, KubernetesMetricsServer, SignalFx")
        if self.type == "Prometheus" and self.address is None:
            raise ValueError("must hold address; write http://HOST:PORT or https://HOST:PORT")
        if self.type == "KubernetesMetricsServer" and (self.address or self.credentials):
            raise ValueError(
                "needs neither address nor credentials with type KubernetesMetricsServer; the cluster's own is read"
            )
        if self.type == "SignalFx" and self.credentials is None:
            raise ValueError("must hold credentials; SignalFx requires a token")
        return self
