"""`KubeSchedulerConfiguration` of kubescheduler.config.k8s.io/v1 as kube-scheduler 1.34 decodes it: fields and
defaults."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from scheduler.catalog import Duration, ExtensionPoint, StrictModel

GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"

INT32 = (1 << 31) - 1
INT64 = (1 << 63) - 1


class _ZeroMeansDefault(StrictModel):
    """Go's zero value of a field means its default, except for booleans."""

    @model_validator(mode="before")
    @classmethod
    def _drop_zeros(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        aliases = {info.alias for info in cls.model_fields.values()}
        return {
            key: value for key, value in data.items() if key not in aliases or value not in _ZEROS or value is False
        }


_ZEROS = ("", 0, "0", "0s")


class LeaderElectionConfiguration(_ZeroMeansDefault):
    """The Lease that makes one of several replicas active; durations in seconds."""

    leader_elect: bool = True
    lease_duration: Duration = 15.0
    renew_deadline: Duration = 10.0
    retry_period: Duration = 2.0
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnectionConfiguration(_ZeroMeansDefault):
    """The API client: queries per second and burst limit the binding rate; 0 means the default."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: int = 100


class PluginEntry(StrictModel):
    """A plugin in a set; the weight matters for score plugins only, and 0 counts as 1."""

    name: str
    weight: int = 0


class PluginSet(StrictModel):
    """Plugins switched on and off at an extension point; `*` in disabled means all of the defaults."""

    enabled: list[PluginEntry] = Field(default_factory=list)
    disabled: list[PluginEntry] = Field(default_factory=list)


class Plugins(StrictModel):
    """A profile's plugin sets; `multiPoint` stands for every extension point that a plugin implements.

    The last four are for PodGroups as a whole. kube-scheduler 1.36 and later write them out, empty.
    """

    pre_enqueue: PluginSet = Field(default_factory=PluginSet)
    queue_sort: PluginSet = Field(default_factory=PluginSet)
    pre_filter: PluginSet = Field(default_factory=PluginSet)
    filter: PluginSet = Field(default_factory=PluginSet)
    post_filter: PluginSet = Field(default_factory=PluginSet)
    pre_score: PluginSet = Field(default_factory=PluginSet)
    score: PluginSet = Field(default_factory=PluginSet)
    reserve: PluginSet = Field(default_factory=PluginSet)
    permit: PluginSet = Field(default_factory=PluginSet)
    pre_bind: PluginSet = Field(default_factory=PluginSet)
    bind: PluginSet = Field(default_factory=PluginSet)
    post_bind: PluginSet = Field(default_factory=PluginSet)
    multi_point: PluginSet = Field(default_factory=PluginSet)
    placement_generate: PluginSet = Field(default_factory=PluginSet)
    placement_score: PluginSet = Field(default_factory=PluginSet)
    placement_feasible: PluginSet = Field(default_factory=PluginSet)
    pod_group_post_filter: PluginSet = Field(default_factory=PluginSet)

    def at(self, point: ExtensionPoint) -> PluginSet:
        """Return the set of one extension point."""
        plugin_set: PluginSet = getattr(self, _FIELDS[point])
        return plugin_set


POD_GROUP_SETS = ("placement_generate", "placement_score", "placement_feasible", "pod_group_post_filter")
_FIELDS = {
    point: next(name for name, field in Plugins.model_fields.items() if field.alias == point.value)
    for point in ExtensionPoint
}


class PluginConfig(StrictModel):
    """Args of one plugin; they are decoded by the plugin's own model."""

    name: str
    args: dict[str, Any] | None = None


class KubeSchedulerProfile(StrictModel):
    """One scheduler name and what it runs."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: int | None = None
    percentage_of_placements_to_score: int | None = None
    plugins: Plugins = Field(default_factory=Plugins)
    plugin_config: list[PluginConfig] = Field(default_factory=list)


class ExtenderTLSConfig(StrictModel):
    """TLS towards an extender."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = Field(default="", alias="caFile")
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = Field(default="", alias="caData")


class ExtenderManagedResource(StrictModel):
    """A resource that an extender manages."""

    name: str
    ignored_by_scheduler: bool = False


class Extender(StrictModel):
    """An HTTP extender: a service with a say in decisions. With an empty verb it is not called for that; an
    httpTimeout of 0 stands for 5 seconds."""

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = Field(default=False, alias="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Field(default=0.0, alias="httpTimeout")
    node_cache_capable: bool = False
    managed_resources: list[ExtenderManagedResource] = Field(default_factory=list)
    ignorable: bool = False


class KubeSchedulerConfiguration(StrictModel):
    """The whole file. Durations are seconds."""

    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: int = 16
    leader_election: LeaderElectionConfiguration = Field(default_factory=LeaderElectionConfiguration)
    client_connection: ClientConnectionConfiguration = Field(default_factory=ClientConnectionConfiguration)
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int | None = None
    percentage_of_placements_to_score: int | None = None
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    delay_cache_until_active: bool = False
    profiles: list[KubeSchedulerProfile] = Field(default_factory=list)
    extenders: list[Extender] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _no_contention_without_profiling(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("enableProfiling") is False:
            return {"enableContentionProfiling": False, **data}
        return data


class LeaseFlags(StrictModel):
    """The flags `--leader-elect-…`, with the field names of `leaderElection` in a configuration.

    Timings in seconds; the defaults are those that this project's operator passes.
    """

    leader_elect: bool = True
    lease_duration: Duration = 15.0
    renew_deadline: Duration = 10.0
    retry_period: Duration = 2.0
    resource_lock: str = "leases"
    resource_name: str
    resource_namespace: str


def overridden_lease_keys(data: Any, flags: LeaseFlags) -> tuple[str, ...]:
    """Return the sorted keys of `leaderElection` in a configuration's data whose values differ from the flags.

    Data that is not a mapping, or does not decode, is ignored: `load_configuration` refuses it.
    """
    election = data.get("leaderElection") if isinstance(data, Mapping) else None
    if not isinstance(election, Mapping):
        return ()
    flag_values = flags.to_dict()
    return tuple(sorted(key for key, value in election.items() if key in flag_values and _differs(key, value, flags)))


def _differs(key: str, value: Any, flags: LeaseFlags) -> bool:
    try:
        read = LeaseFlags.model_validate({**flags.to_dict(), key: value})
    except ValueError:
        return False
    return read != flags
