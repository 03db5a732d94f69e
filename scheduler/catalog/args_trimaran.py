"""Args of the load-aware plugins (sigs.k8s.io/scheduler-plugins v0.34.7, apis/config/v1)."""

import math
from collections.abc import Iterator
from typing import Any

from pydantic import Field, model_validator

from scheduler.catalog.metricsources import DEFAULT_ADDRESSES, Credential, address_problem
from scheduler.catalog.options import LoadOptions
from scheduler.catalog.types import ArgsModel, Loc, Quantity, StrictModel

PROVIDER_TYPES = ("KubernetesMetricsServer", "Prometheus", "SignalFx")


class MetricProvider(StrictModel):
    """The source of the load where no load-watcher is given."""

    type: str = ""
    address: str | None = None
    token: str | None = Field(default=None, repr=False)
    insecure_skip_verify: bool | None = None


class TrimaranArgs(ArgsModel):
    """Args of every load-aware plugin: a metric provider, or the address of a load-watcher.

    Defaults follow upstream: the provider's type becomes KubernetesMetricsServer only when neither it nor
    `watcherAddress` is given. `insecureSkipVerify` stays as written: upstream turns it on by itself for Prometheus,
    ours never does.
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

    def source_address(self) -> str:
        """Return the address that is asked, upstream's default included; empty for the metrics server."""
        provider = self.metric_provider
        return (self.watcher_address or provider.address or DEFAULT_ADDRESSES.get(provider.type, "")).rstrip("/")

    def check(self) -> Iterator[tuple[Loc, str]]:
        """The provider type exists, and addresses are URLs without a password."""
        provider = self.metric_provider
        if self.watcher_address:
            if problem := address_problem(self.watcher_address):
                yield ("watcherAddress",), problem
            return
        if provider.type not in PROVIDER_TYPES:
            allowed = ", ".join(PROVIDER_TYPES)
            yield (
                ("metricProvider", "type"),
                f'invalid MetricProvider.Type, got "{provider.type}": allowed are {allowed}',
            )
        if provider.address and (problem := address_problem(provider.address)):
            yield ("metricProvider", "address"), problem


class TargetLoadPackingArgs(TrimaranArgs):
    """TargetLoadPacking: pack nodes up to `targetUtilization` per cent of CPU, then spread.

    `defaultRequests` becomes `{cpu: 1000m}` only when absent; a target of 0 or less becomes 40, as upstream defaults
    it.
    """

    default_requests: dict[str, Quantity] = Field(default_factory=lambda: {"cpu": "1000m"})
    default_requests_multiplier: str = "1.5"
    target_utilization: int = 40

    def load_figures(self) -> tuple[str, ...]:
        """Return the one of CPU."""
        return ("cpu_last",)

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


class LoadVariationRiskBalancingArgs(TrimaranArgs):
    """LoadVariationRiskBalancing; a negative factor becomes 1, as upstream defaults it."""

    safe_variance_margin: float = 1.0
    safe_variance_sensitivity: float = 1.0

    @model_validator(mode="before")
    @classmethod
    def _negative_means_default(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        factors = ("safeVarianceMargin", "safeVarianceSensitivity")
        return {key: value for key, value in data.items() if not (key in factors and _below(value, 0))}


class LowRiskOverCommitmentArgs(TrimaranArgs):
    """LowRiskOverCommitment.

    As upstream defaults them: a window of 0 or less becomes 5; a weight outside 0..1 becomes 0.5, and so does the
    weight of cpu or memory that is not given.
    """

    smoothing_window_size: int = 5
    risk_limit_weights: dict[str, float] = Field(default_factory=lambda: {"cpu": 0.5, "memory": 0.5})

    @model_validator(mode="before")
    @classmethod
    def _out_of_range_means_default(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = {key: value for key, value in data.items() if not (key == "smoothingWindowSize" and _below(value, 1))}
        weights = data.get("riskLimitWeights")
        if isinstance(weights, dict):
            limit_weights = {name: 0.5 if _outside(weight) else weight for name, weight in weights.items()}
            data["riskLimitWeights"] = {"cpu": 0.5, "memory": 0.5, **limit_weights}
        return data


class UsageThresholds(StrictModel):
    """The highest predicted use of a node, in per cent of what it can allocate."""

    cpu: int = 100
    memory: int = 100


class HighLoadFilterArgs(TrimaranArgs):
    """HighLoadFilter, as proposed to scheduler-plugins (pull requests 992 and 993).

    `metricProvider` is what the other load-aware plugins have, without SignalFx, and may not stand beside
    `watcherAddress`.
    """

    usage_thresholds: UsageThresholds = Field(default_factory=UsageThresholds)
    fail_open: bool = True
    metrics_update_interval_seconds: int = 30
    node_metric_expiration_seconds: int = 180

    @model_validator(mode="before")
    @classmethod
    def _empty_means_absent(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("watcherAddress") == "":
            return {key: value for key, value in data.items() if key != "watcherAddress"}
        return data

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Yield what the proposal's validation refuses, in its words."""
        for name, percent in (("cpu", self.usage_thresholds.cpu), ("memory", self.usage_thresholds.memory)):
            if not 0 <= percent <= 100:
                yield ("usageThresholds", name), f"Invalid value: {percent}: must be between 0 and 100"
        interval, expiration = self.metrics_update_interval_seconds, self.node_metric_expiration_seconds
        if interval <= 0:
            yield ("metricsUpdateIntervalSeconds",), f"Invalid value: {interval}: must be greater than 0"
        if expiration <= 0:
            yield ("nodeMetricExpirationSeconds",), f"Invalid value: {expiration}: must be greater than 0"
        elif expiration < interval:
            message = f"Invalid value: {expiration}: must be greater than or equal to metricsUpdateIntervalSeconds"
            yield ("nodeMetricExpirationSeconds",), message
        yield from self._check_source()

    def _check_source(self) -> Iterator[tuple[Loc, str]]:
        provider = self.metric_provider
        has_details = bool(provider.address or provider.token or provider.insecure_skip_verify)
        if self.watcher_address:
            if problem := address_problem(self.watcher_address):
                yield ("watcherAddress",), f"must be an absolute HTTP or HTTPS URL: {problem}"
            if provider.type or has_details:
                yield ("metricProvider",), "must be empty when watcherAddress is set"
        elif provider.type == "KubernetesMetricsServer":
            if has_details:
                message = "address, token, and insecureSkipVerify are not supported for KubernetesMetricsServer"
                yield ("metricProvider",), message
        elif provider.type == "Prometheus":
            if problem := address_problem(provider.address or ""):
                yield ("metricProvider", "address"), f"must be an absolute HTTP or HTTPS URL: {problem}"
        else:
            allowed = '"KubernetesMetricsServer", "Prometheus"'
            yield ("metricProvider", "type"), f'Unsupported value: "{provider.type}": supported values: {allowed}'


class PowerModel(StrictModel):
    """Power of a node in watts at a CPU utilization of x per cent: k0 + k1 * e^(k2 * x)."""

    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0


class PeaksArgs(ArgsModel):
    """Peaks. Its keys begin with capital letters: the tags of upstream's Go fields are malformed, so it accepts no
    others."""

    watcher_address: str = Field(default="", alias="WatcherAddress")
    node_power_model: dict[str, PowerModel] = Field(default_factory=dict, alias="NodePowerModel")

    def load_figures(self) -> tuple[str, ...]:
        """Return the one of CPU."""
        return ("cpu_first",)

    def source_key(self) -> str:
        """Return `watcher:<address>`: upstream's Peaks reads a load-watcher only."""
        return f"watcher:{self.watcher_address.rstrip('/')}"

    def source_address(self) -> str:
        """Return the address of the load-watcher."""
        return self.watcher_address.rstrip("/")

    def check(self) -> Iterator[tuple[Loc, str]]:
        """The watcher is a URL without a password."""
        if self.watcher_address and (problem := address_problem(self.watcher_address)):
            yield ("WatcherAddress",), problem


def credential_of(args: ArgsModel, options: LoadOptions) -> Credential | None:
    """Return what a plugin's args and the profile's options send to the source; None for a source without address.

    Upstream's load-watcher asks for no token, so over plain HTTP it would only be shown to the network: it gets none.
    """
    if not isinstance(args, TrimaranArgs | PeaksArgs) or not (address := args.source_address()):
        return None
    file = options.token_file or None
    if isinstance(args, PeaksArgs) or args.watcher_address:
        return Credential(address, False, file if address.startswith("https://") else None, options.ca_file)
    provider = args.metric_provider
    # A file wins.
    literal = bool(provider.token) and file is None
    return Credential(address, literal, file, options.ca_file, not provider.insecure_skip_verify)


def _below(value: object, limit: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value < limit


def _outside(weight: object) -> bool:
    return isinstance(weight, int | float) and not isinstance(weight, bool) and not 0 <= weight <= 1
