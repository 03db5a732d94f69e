"""Args of the load-aware plugins (sigs.k8s.io/scheduler-plugins v0.34.7, apis/config/v1)."""

import math
from collections.abc import Iterator
from typing import Any

from pydantic import Field, model_validator

from scheduler.catalog.types import ArgsModel, Loc, Quantity, StrictModel

PROVIDER_TYPES = ("KubernetesMetricsServer", "Prometheus", "SignalFx")


class MetricProvider(StrictModel):
    """Where the load comes from when no watcher is named."""

    type: str = ""
    address: str | None = None
    token: str | None = Field(default=None, repr=False)
    insecure_skip_verify: bool | None = None


class TrimaranArgs(ArgsModel):
    """What every load-aware plugin has: a metric provider, or the address of a load-watcher.

    Defaults follow upstream: the provider's type becomes KubernetesMetricsServer only when neither it nor
    `watcherAddress` is given. `insecureSkipVerify` stays as written; upstream turns it on by itself for Prometheus,
    which `compatibility: upstream` alone repeats, in the collector.
    """

    metric_provider: MetricProvider = Field(default_factory=MetricProvider)
    watcher_address: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _default_provider(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("watcherAddress") is None:
            provider = data.get("metricProvider") or {}
            if isinstance(provider, dict) and provider.get("type") in (None, ""):
                return {**data, "metricProvider": {**provider, "type": "KubernetesMetricsServer"}}
        return data

    def source_key(self) -> str:
        """Return `watcher:<address>` or `<type>:<address>`; plugins with equal keys share one collector."""
        if self.watcher_address:
            return f"watcher:{self.watcher_address.rstrip('/')}"
        return f"{self.metric_provider.type}:{(self.metric_provider.address or '').rstrip('/')}"

    def check(self) -> Iterator[tuple[Loc, str]]:
        """The provider is one that exists, and a Prometheus has an address."""
        provider = self.metric_provider
        if self.watcher_address:
            if not self.watcher_address.startswith(("http://", "https://")):
                yield ("watcherAddress",), f'"{self.watcher_address}" is not a URL: it starts with http:// or https://'
            return
        if provider.type not in PROVIDER_TYPES:
            allowed = ", ".join(PROVIDER_TYPES)
            yield (
                ("metricProvider", "type"),
                f'invalid MetricProvider.Type, got "{provider.type}": allowed are {allowed}',
            )
        if provider.address and not provider.address.startswith(("http://", "https://")):
            yield (
                ("metricProvider", "address"),
                f'"{provider.address}" is not a URL: it starts with http:// or https://',
            )


class TargetLoadPackingArgs(TrimaranArgs):
    """TargetLoadPacking: pack nodes up to `targetUtilization` per cent of CPU, then spread.

    `defaultRequests` becomes `{cpu: 1000m}` only when absent; a target of 0 or less becomes 40, as upstream defaults
    it.
    """

    default_requests: dict[str, Quantity] = Field(default_factory=lambda: {"cpu": "1000m"})
    default_requests_multiplier: str = "1.5"
    target_utilization: int = 40

    @property
    def multiplier(self) -> float:
        """Return `defaultRequestsMultiplier` as a number."""
        return float(self.default_requests_multiplier)

    @property
    def effective_target(self) -> int:
        """Return the target with upstream's default for 0 and below."""
        return self.target_utilization if self.target_utilization > 0 else 40

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Target 1..100 (upstream accepts more and then fails every pod), multiplier a finite number of 0 or more."""
        yield from super().check()
        if not 1 <= self.target_utilization <= 100:
            yield ("targetUtilization",), f"{self.target_utilization} is not in the range 1 to 100"
        try:
            multiplier = self.multiplier
        except ValueError:
            text = self.default_requests_multiplier
            yield (
                ("defaultRequestsMultiplier",),
                f'unable to parse DefaultRequestsMultiplier: "{text}" is not a number such as "1.5"',
            )
            return
        if not math.isfinite(multiplier) or multiplier < 0:
            yield ("defaultRequestsMultiplier",), "must be a finite number of 0 or more"
