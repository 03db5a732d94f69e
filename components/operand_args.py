"""What a scheduler is, whoever creates it, an operator or this program; and what runs beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from scheduler.catalog import OPERAND, CredentialRules
from scheduler.config import Configuration, SchedulerSettings

from .metric_credentials import MetricAccess, SecretKeyReference


@dataclass(frozen=True)
class OperandArgs:
    """Attributes:
    namespace: where the scheduler runs.
    image, flavour: the scheduler's image, and its flavour where the name does not show it.
    config_map_name: the ConfigMap with its configuration; the name changes with the content.
    configuration_hash: hash of that configuration.
    settings: what is the same however it is installed.
    scheduler_names: of the profiles.
    metric_credentials: Secret with the credentials for the metric source, if any.
    credential_rules: what the scheduler may do with credentials for it.
    metric_audience: audience of a token of the ServiceAccount that is the credential instead of a Secret.
    priority_class_name: priority of its pods.
    resources: requests and limits of its container; None for the default.
    env: environment variables of its container.
    needs: what must exist before the scheduler starts, and outlive it: its ClusterRoles and its bindings to them, or
        the operator, which removes the scheduler when the resource is deleted.
    """

    namespace: pulumi.Input[str]
    image: pulumi.Input[str]
    config_map_name: pulumi.Input[str]
    configuration_hash: str
    settings: SchedulerSettings = field(default_factory=SchedulerSettings)
    flavour: str = ""
    scheduler_names: Sequence[str] = ()
    metric_credentials: SecretKeyReference | None = None
    credential_rules: CredentialRules = field(default_factory=CredentialRules)
    metric_audience: str = ""
    priority_class_name: pulumi.Input[str] = ""
    resources: Mapping[str, Any] | None = None
    env: Sequence[Mapping[str, Any]] = ()
    needs: Sequence[pulumi.Resource] = ()


@dataclass(frozen=True, kw_only=True)
class BesideArgs:
    """Attributes:
    namespace: where the scheduler runs.
    operand: name of the scheduler.
    settings: of the scheduler, which hold for what is beside it, too.
    credentials: Secret with the credentials for the load source, if any.
    openshift: whether admission chooses the numeric user.
    needs: what must exist before.
    """

    namespace: pulumi.Input[str]
    operand: str = OPERAND
    settings: SchedulerSettings = field(default_factory=SchedulerSettings)
    credentials: SecretKeyReference | None = None
    openshift: bool = False
    needs: Sequence[pulumi.Resource] = ()


@dataclass(frozen=True, kw_only=True)
class ReaderArgs(BesideArgs):
    """Of what reads the scheduler's configuration, too. Attributes:
    configuration: as the scheduler loads it.
    config_map_name: the ConfigMap with it: who may get it sees it.
    access: how the load source may be read.
    """

    configuration: Configuration = field(repr=False)
    config_map_name: pulumi.Input[str]
    access: MetricAccess = field(default_factory=MetricAccess)
