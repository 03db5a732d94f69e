"""What `pulumi up` creates: one ComponentResource per module.

Membership: an Args dataclass, a component and its typed outputs per module. A component takes everything through its
Args: it reads no stack configuration, no environment and no file outside this package, exports nothing, and never
imports `stacks`. It may import `scheduler.catalog`, `scheduler.config` and `scheduler.operand`, which are pure.
Children have the component as parent and names that begin with the component's; every object has an explicit name and,
unless cluster-scoped, an explicit namespace, because a name or namespace guessed by the provider differs when the
cluster cannot be reached.
"""

from components.admission import AdmissionPolicies, AdmissionPoliciesArgs
from components.alerts import SchedulerAlerts, SchedulerAlertsArgs
from components.catalog_source import CatalogSource, CatalogSourceArgs
from components.crd import PluginCrds, PluginCrdsArgs, SecondarySchedulerCrd, SecondarySchedulerCrdArgs
from components.direct_scheduler import DirectScheduler, DirectSchedulerArgs
from components.document import CustomPlugin
from components.existing_operator import ExistingOperator, ExistingOperatorArgs
from components.installation import InstallMode, OlmSource
from components.installation_record import InstallationRecord, InstallationRecordArgs
from components.kube_object import ClusterProvider
from components.labels import common_labels
from components.metric_credentials import MetricCredentials, MetricCredentialsArgs, SecretKeyReference
from components.namespace import Namespace, NamespaceArgs
from components.olm_operator import OlmOperator, OlmOperatorArgs
from components.operand_rollout import OperandRollout, OperandRolloutArgs
from components.operator_install import OperatorInstall, OperatorInstallArgs
from components.operator_network import OperatorNetwork, OperatorNetworkArgs
from components.priority_class import SchedulerPriority, SchedulerPriorityArgs
from components.scheduler_configuration import SchedulerConfiguration, SchedulerConfigurationArgs
from components.scheduler_installation import (
    MetricAccess,
    OptionalObjects,
    SchedulerInstallation,
    SchedulerInstallationArgs,
)
from components.scheduler_roles import SchedulerRoles, SchedulerRolesArgs
from components.secondary_scheduler import SCHEDULER_NAME, SecondaryScheduler, SecondarySchedulerArgs
from components.upstream_operator import UpstreamOperator, UpstreamOperatorArgs
from scheduler.catalog import CredentialRules, PolicyRule

__all__ = [
    "SCHEDULER_NAME",
    "AdmissionPolicies",
    "AdmissionPoliciesArgs",
    "CatalogSource",
    "CatalogSourceArgs",
    "ClusterProvider",
    "CredentialRules",
    "CustomPlugin",
    "DirectScheduler",
    "DirectSchedulerArgs",
    "ExistingOperator",
    "ExistingOperatorArgs",
    "InstallMode",
    "InstallationRecord",
    "InstallationRecordArgs",
    "MetricAccess",
    "MetricCredentials",
    "MetricCredentialsArgs",
    "Namespace",
    "NamespaceArgs",
    "OlmOperator",
    "OlmOperatorArgs",
    "OlmSource",
    "OperandRollout",
    "OperandRolloutArgs",
    "OperatorInstall",
    "OperatorInstallArgs",
    "OperatorNetwork",
    "OperatorNetworkArgs",
    "OptionalObjects",
    "PluginCrds",
    "PluginCrdsArgs",
    "PolicyRule",
    "SchedulerAlerts",
    "SchedulerAlertsArgs",
    "SchedulerConfiguration",
    "SchedulerConfigurationArgs",
    "SchedulerInstallation",
    "SchedulerInstallationArgs",
    "SchedulerPriority",
    "SchedulerPriorityArgs",
    "SchedulerRoles",
    "SchedulerRolesArgs",
    "SecondaryScheduler",
    "SecondarySchedulerArgs",
    "SecondarySchedulerCrd",
    "SecondarySchedulerCrdArgs",
    "SecretKeyReference",
    "UpstreamOperator",
    "UpstreamOperatorArgs",
    "common_labels",
]
