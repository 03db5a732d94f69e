"""The part of a SecondaryScheduler's spec that the operator acts on; the policy pack checks programs against it."""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from scheduler.catalog import LOG_VERBOSITY, SERVICE_ACCOUNT_TOKEN, CredentialRules, ExtensionPoint, address_problem
from scheduler.config.flavours import ExtraPlugin, Flavour, image_flavour
from scheduler.config.problems import messages_of
from scheduler.config.settings import Port

Json = dict[str, Any]


class InvalidSpecError(Exception):
    """The spec holds a value the operator cannot act on; the text names the field."""


class _SpecModel(BaseModel):
    # The CRD checks unknown fields: a newer CRD must not stop an older operator.
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _null_means_absent(cls, data: Any) -> Any:
        return {k: v for k, v in data.items() if v is not None} if isinstance(data, dict) else data


class LeaseTimings(_SpecModel):
    """Timings of the operand's Lease, in Go's duration notation."""

    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"


class HighlyAvailableTopology(_SpecModel):
    """Placement of several replicas."""

    max_replicas: int = Field(default=3, ge=1)
    node_selector: dict[str, str] = {}
    tolerations: list[Json] = []


class OperandTopology(_SpecModel):
    """One scheduler, or several with a leader."""

    mode: Literal["", "SingleReplica", "HighlyAvailable"] = "SingleReplica"
    highly_available_topology: HighlyAvailableTopology = HighlyAvailableTopology()


class ServiceAccountToken(_SpecModel):
    """The scheduler's own projected token: for an audience of its own, or the one that the API server accepts, too."""

    audience: str = ""


class MetricCredentialsSource(_SpecModel):
    """The token for the metric source: from a Secret in the instance's namespace, or of the ServiceAccount.

    It is sent to `address` only, if there is one. The token that the API server accepts needs an https address.
    """

    secret_name: str = ""
    key: str = "token"
    service_account: ServiceAccountToken | None = None
    address: str = ""

    @property
    def sends_own_token(self) -> bool:
        """Whether the ServiceAccount's token that the API server accepts is sent."""
        return self.service_account is not None and not self.service_account.audience

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.secret_name) == (self.service_account is not None):
            raise ValueError("needs exactly one of secretName and serviceAccount")
        if self.address and (problem := address_problem(self.address)):
            raise ValueError(f"address {problem}")
        if self.sends_own_token and not self.address.startswith("https://"):
            raise ValueError("serviceAccount without an audience needs an https address, the only place it is sent to")
        return self


class RolloutPolicy(_SpecModel):
    """How a new revision replaces the old one."""

    canary: bool = True


class DeclaredPlugin(_SpecModel):
    """A plugin that only a custom image has."""

    name: str = Field(min_length=1)
    points: tuple[ExtensionPoint, ...] = Field(min_length=1)


class SecondarySchedulerSpec(_SpecModel):
    """The desired state. Defaults repeat the CRD's, for instances that were written before the CRD had them."""

    management_state: Literal["", "Managed", "Unmanaged", "Force", "Removed"] = "Managed"
    log_level: str = "Normal"
    operator_log_level: str = "Normal"
    scheduler_config: str = ""
    scheduler_image: str = ""
    flavour: str = ""
    extra_plugins: tuple[DeclaredPlugin, ...] = ()
    topology: OperandTopology = OperandTopology()
    resources: Json | None = None
    priority_class_name: str = ""
    egress_ports: tuple[Port, ...] = ()
    scrape_namespaces: tuple[str, ...] = ()
    image_pull_secrets: list[Json] = []
    command: list[str] = []
    extra_args: list[str] = []
    env: list[Json] = []
    node_selector: dict[str, str] = {}
    tolerations: list[Json] = []
    affinity: Json | None = None
    leader_election: LeaseTimings = LeaseTimings()
    metric_credentials: MetricCredentialsSource | None = None
    rollout: RolloutPolicy = RolloutPolicy()
    without: frozenset[str] = frozenset()
    rebalance: Json | None = None
    """What `read_rebalancer_spec` reads: whatever is wrong with it concerns the rebalancer only."""
    config_policy: Literal["Validate", "PassThrough"] = "Validate"
    allow_default_scheduler_name: bool = False
    allow_token_in_config_map: bool = False
    allow_insecure_metric_credentials: bool = False

    @property
    def credential_rules(self) -> CredentialRules:
        """Where the configuration may take credentials for a metric source from, and send them to."""
        source = self.metric_credentials
        return CredentialRules(
            address=(source.address if source else "") or None,
            service_account_token=SERVICE_ACCOUNT_TOKEN if source and source.sends_own_token else None,
            allow_insecure=self.allow_insecure_metric_credentials,
        )

    @property
    def image_flavour(self) -> Flavour:
        """Flavour of the image: the one that `flavour` names, else the one its reference implies."""
        return image_flavour(self.scheduler_image, self.flavour)

    @property
    def extra_image_plugins(self) -> tuple[ExtraPlugin, ...]:
        """The plugins that the image has in addition to the catalogue's."""
        return tuple(ExtraPlugin(plugin.name, frozenset(plugin.points)) for plugin in self.extra_plugins)

    @property
    def replicas(self) -> int:
        """The number of scheduler replicas."""
        return self.topology.highly_available_topology.max_replicas if self.highly_available else 1

    @property
    def highly_available(self) -> bool:
        """Whether the topology is HighlyAvailable."""
        return self.topology.mode == "HighlyAvailable"

    @property
    def verbosity(self) -> int:
        """The scheduler's `-v`; that of Normal for a log level that is not known."""
        return LOG_VERBOSITY.get(self.log_level, LOG_VERBOSITY["Normal"])


def parse_spec(resource: Json) -> SecondarySchedulerSpec:
    """Return the spec of a SecondaryScheduler, given the whole object.

    Raises:
        InvalidSpecError: with every field that is wrong.
    """
    try:
        return SecondarySchedulerSpec.model_validate(resource.get("spec") or {})
    except ValidationError as error:
        problems = (f"spec.{'.'.join(map(str, loc))}: {message}" for loc, message in messages_of(error))
        raise InvalidSpecError("; ".join(problems)) from error
