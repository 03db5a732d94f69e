"""Settings of a stack for traces: they become environment variables of the scheduler, under OpenTelemetry's names."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from components.settings import SecretDataKey, SettingsModel, Subdomain
from scheduler.catalog import address_problem

_EVERY_ATTEMPT: Final = 1_000_000
_PORTS: Final = {"http": 80, "https": 443}


def _endpoint(value: str) -> str:
    if "@" in value or "?" in value:
        raise ValueError("must not hold a user, a password or a query; put credentials into headersSecret")
    if address_problem(value) is not None:
        raise ValueError("is not a URL; write http://HOST:4318, where the collector takes OTLP over HTTP")
    return value


class HeadersSecret(SettingsModel):
    """A Secret in the scheduler's namespace, managed elsewhere, with HTTP headers: NAME=VALUE, separated by commas."""

    name: Subdomain
    key: SecretDataKey = "headers"


class TracingSettings(SettingsModel):
    """Where the scheduler's traces go.

    Attributes:
        endpoint: of a collector that takes OTLP over HTTP; `/v1/traces` is added.
        sampling_rate_per_million: how many of a million attempts are traced.
        headers_secret: credentials for the collector.
    """

    endpoint: Annotated[str, AfterValidator(_endpoint)]
    sampling_rate_per_million: int = Field(_EVERY_ATTEMPT, ge=0, le=_EVERY_ATTEMPT)
    headers_secret: HeadersSecret | None = None

    @property
    def port(self) -> int:
        """The collector's TCP port."""
        address = urlsplit(self.endpoint)
        return address.port or _PORTS[address.scheme]

    def environment(self) -> list[dict[str, Any]]:
        """Return the environment variables, as a container has them."""
        variables: list[dict[str, Any]] = [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": self.endpoint}]
        if self.sampling_rate_per_million < _EVERY_ATTEMPT:
            ratio = f"{self.sampling_rate_per_million / _EVERY_ATTEMPT:.6f}"
            variables.append({"name": "OTEL_TRACES_SAMPLER", "value": "traceidratio"})
            variables.append({"name": "OTEL_TRACES_SAMPLER_ARG", "value": ratio})
        if (secret := self.headers_secret) is not None:
            source = {"secretKeyRef": {"name": secret.name, "key": secret.key}}
            variables.append({"name": "OTEL_EXPORTER_OTLP_HEADERS", "valueFrom": source})
        return variables
