"""The part of a SecondaryScheduler's spec that the operator acts on; the policy pack checks programs against it.

`make schemas` writes the CRD's extensions of upstream's fields from these models.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator
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


_TEXT: Final[Json] = {"type": "string"}
_TOLERATION: Final[Json] = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("key", "operator", "value", "effect"), _TEXT),
        "tolerationSeconds": {"type": "integer", "format": "int64"},
    },
}
_QUANTITIES: Final[Json] = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": True,
    },
}
_ANYTHING: Final[Json] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _crd_limits(**schema: Any) -> Any:
    """What the CRD demands of a field in addition. The operator does not: an object that was stored before the CRD had
    a limit must not stop it."""
    return Field(json_schema_extra=schema)


def _by_name(**properties: Json) -> Json:
    """The schema of a list of objects with unique names."""
    name = {"type": "string", "minLength": 1}
    item = {"type": "object", "required": ["name"], "properties": {"name": name, **properties}}
    return {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item}


ContainerResources = Annotated[
    Json, WithJsonSchema({"type": "object", "properties": {"requests": _QUANTITIES, "limits": _QUANTITIES}})
]
References = Annotated[list[Json], WithJsonSchema(_by_name())]
EnvironmentVariables = Annotated[list[Json], WithJsonSchema(_by_name(value=_TEXT, valueFrom=_ANYTHING))]
Tolerations = Annotated[list[Json], WithJsonSchema({"type": "array", "items": _TOLERATION})]
Duration = Annotated[str, _crd_limits(pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$")]
NamespaceName = Annotated[str, _crd_limits(maxLength=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
ObjectReference = Annotated[str, _crd_limits(maxLength=253)]
OptionalKinds = Annotated[
    frozenset[str],
    # A kind that only a newer CRD has does not stop an older operator.
    WithJsonSchema(
        {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {
                "type": "string",
                "enum": [
                    "FlowSchema",
                    "NetworkPolicy",
                    "PodDisruptionBudget",
                    "ServiceMonitor",
                    "ValidatingAdmissionPolicy",
                ],
            },
        }
    ),
]


class LeaseTimings(_SpecModel):
    """Timings of the operand's Lease, in Go's duration notation."""

    lease_duration: Duration = "15s"
    renew_deadline: Duration = "10s"
    retry_period: Duration = "2s"


class HighlyAvailableTopology(_SpecModel):
    """Placement of several replicas."""

    max_replicas: int = Field(default=3, ge=1)
    node_selector: dict[str, str] = {}
    tolerations: Tolerations = []


class OperandTopology(_SpecModel):
    """One scheduler, or several with a leader."""

    mode: Literal["", "SingleReplica", "HighlyAvailable"] = "SingleReplica"
    highly_available_topology: HighlyAvailableTopology = HighlyAvailableTopology()


class ServiceAccountToken(_SpecModel):
    """Send a token of the scheduler's ServiceAccount, whose rights the source must know. With an audience the API
    server does not accept the token."""

    audience: Annotated[str, _crd_limits(minLength=1, maxLength=253)] = ""


class MetricCredentialsSource(_SpecModel):
    """The token for the metric source, of a Secret or of the ServiceAccount.

    Attributes:
        address: the only address that the token is sent to, whatever the configuration says. Without an address, a
            token of a Secret goes to every source that the configuration reads with it.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "has(self.secretName) != has(self.serviceAccount)",
                    "message": "exactly one of secretName and serviceAccount must be set",
                },
                {
                    "rule": "!has(self.serviceAccount) || has(self.serviceAccount.audience) || "
                    "(has(self.address) && self.address.startsWith('https://'))",
                    "message": "serviceAccount without an audience needs an https address, the only place it is sent "
                    "to",
                },
            ]
        }
    )

    secret_name: Annotated[str, _crd_limits(minLength=1, maxLength=253)] = ""
    key: Annotated[
        str,
        _crd_limits(minLength=1, maxLength=253, pattern="^[-._a-zA-Z0-9]+$", **{"x-stored-default": True}),
    ] = "token"
    service_account: ServiceAccountToken | None = None
    address: Annotated[str, _crd_limits(maxLength=1024, pattern=r"^https?://[^@?#\s]+$")] = ""

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
    """How a new revision replaces the old one.

    Attributes:
        canary: test a configuration with a canary that must bind a pod first. True if absent.
    """

    canary: bool = True


class DeclaredPlugin(_SpecModel):
    """A plugin that only a custom image has.

    Attributes:
        name: its name in the configuration.
        points: the extension points that it implements.
    """

    name: Annotated[str, _crd_limits(maxLength=253)] = Field(min_length=1)
    points: Annotated[tuple[ExtensionPoint, ...], _crd_limits(**{"x-kubernetes-list-type": "set"})] = Field(
        min_length=1
    )


class SpecExtensions(_SpecModel):
    """Fields of a SecondaryScheduler that upstream's does not have.

    Attributes:
        resources: requests and limits of the scheduler's container.
        priority_class_name: priority class of the scheduler's pods.
        egress_ports: TCP ports that the scheduler's NetworkPolicy lets it reach, in addition to those of DNS, of API
            servers (443, 6443, 8443, 16443) and of the metric sources in its configuration.
        scrape_namespaces: namespaces whose pods alone the NetworkPolicies of scheduler and rebalancer let reach their
            ports; if absent, all sources may. The kubelet of their own node always may.
        image_pull_secrets: Secrets in this namespace for pulling the scheduler's image.
        command: the container's command, for images whose binary is not /bin/kube-scheduler.
        extra_args: arguments appended to the scheduler's own. Those that set the location of its configuration, its
            Lease or its port are reserved for the operator and refused.
        env: environment variables of the scheduler's container (core/v1 EnvVar).
        node_selector: nodes on which the scheduler may run, in every topology mode.
        tolerations: taints that the scheduler's pods tolerate, in every topology mode.
        affinity: affinity of the scheduler's pods (core/v1 Affinity); replaces the default anti-affinity.
        leader_election: timings of the scheduler's Lease; 15s, 10s and 2s if absent.
        allow_default_scheduler_name: accept a configuration with a profile named default-scheduler, at the risk of two
            schedulers that schedule the same pods.
        allow_token_in_config_map: accept a configuration with a literal metric token, which anyone who can read
            ConfigMaps can read. Prefer metricCredentials.
        allow_insecure_metric_credentials: let the scheduler send the metric source's token over HTTP, and to a server
            whose certificate is not verified. Never its ServiceAccount's own token.
        metric_credentials: the metric source's token. secretName: a Secret in this namespace with the token under the
            given key and, optionally, its certificate authority under ca.crt, which is mounted read-only into the
            scheduler. serviceAccount: a token of the scheduler's own ServiceAccount.
        rollout: how a new configuration replaces the old one.
        rebalance: a rebalancer, which moves pods of this scheduler off overloaded nodes to where the scheduler would
            put them. Absent, or with mode Off, there is none.
        without: kinds of optional objects that the operator must not create, or must remove.
        flavour: flavour of the image, where its name does not show it: ours, custom, or a release such as
            scheduler-plugins@0.34.
        extra_plugins: plugins that a custom image has in addition to the known ones. The operator grants no rights for
            them: they have no ClusterRole that it may bind.
        config_policy: Validate (if absent): an invalid configuration is not rolled out, the last good one stays.
            PassThrough: the configuration is passed to the image unchecked.
    """

    resources: ContainerResources | None = None
    priority_class_name: ObjectReference = ""
    egress_ports: Annotated[tuple[Port, ...], _crd_limits(maxItems=32)] = ()
    scrape_namespaces: Annotated[tuple[NamespaceName, ...], _crd_limits(maxItems=32)] = ()
    image_pull_secrets: References = []
    command: Annotated[list[str], _crd_limits(minItems=1)] = []
    extra_args: list[str] = []
    env: EnvironmentVariables = []
    node_selector: dict[str, str] = {}
    tolerations: Tolerations = []
    affinity: Annotated[Json, WithJsonSchema(_ANYTHING)] | None = None
    leader_election: LeaseTimings = LeaseTimings()
    allow_default_scheduler_name: bool = False
    allow_token_in_config_map: bool = False
    allow_insecure_metric_credentials: bool = False
    metric_credentials: MetricCredentialsSource | None = None
    rollout: RolloutPolicy = RolloutPolicy()
    rebalance: Annotated[Json, WithJsonSchema({"$ref": "#/$defs/RebalancerSpec"})] | None = None
    """What `read_rebalancer_spec` reads: whatever is wrong with it concerns the rebalancer only."""
    without: OptionalKinds = frozenset()
    flavour: Annotated[str, _crd_limits(maxLength=64, pattern=r"^(|ours|custom|scheduler-plugins@v?0\.[0-9].*)$")] = ""
    extra_plugins: Annotated[
        tuple[DeclaredPlugin, ...],
        _crd_limits(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
    ] = ()
    config_policy: Literal["Validate", "PassThrough"] = "Validate"


class SecondarySchedulerSpec(SpecExtensions):
    """The desired state. Defaults repeat the CRD's, for instances that were written before the CRD had them."""

    management_state: Literal["", "Managed", "Unmanaged", "Force", "Removed"] = "Managed"
    log_level: str = "Normal"
    operator_log_level: str = "Normal"
    scheduler_config: str = ""
    scheduler_image: str = ""
    topology: OperandTopology = OperandTopology()

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
