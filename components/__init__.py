"""What `pulumi up` creates: one ComponentResource per module.

Membership: an Args dataclass, a component and its typed outputs per module. A component takes everything through its
Args: it reads no stack configuration, no environment and no file outside this package, exports nothing, and never
imports `stacks`. It may import `scheduler.catalog`, `scheduler.config` and `scheduler.operand`, which are pure.
Children have the component as parent and names that begin with the component's; every object has an explicit name and,
unless cluster-scoped, an explicit namespace, because a name or namespace guessed by the provider differs when the
cluster cannot be reached.

A component is imported when it is asked for: `components.settings` is also read where there is no pulumi.
"""

from typing import TYPE_CHECKING

from ._shared import lazy_attributes

if TYPE_CHECKING:
    from scheduler.config import OptionalObjects, SchedulerSettings

    from .admission import AdmissionPolicies, AdmissionPoliciesArgs
    from .alerts import SchedulerAlerts, SchedulerAlertsArgs
    from .catalog_source import CatalogSource, CatalogSourceArgs
    from .crd import PluginCrds, PluginCrdsArgs, SecondarySchedulerCrd, SecondarySchedulerCrdArgs
    from .dashboard import SchedulerDashboard, SchedulerDashboardArgs
    from .described import custom_plugins
    from .direct_scheduler import DirectScheduler, DirectSchedulerArgs
    from .document import CredentialRules, CustomPlugin, PolicyRule
    from .drift import ForceConflicts
    from .installation import InstallMode, OlmSource
    from .installation_record import InstallationRecord, InstallationRecordArgs
    from .kube_object import ClusterProvider
    from .labels import common_labels, common_labels_transform
    from .load_watcher import LoadWatcher, LoadWatcherArgs
    from .metric_credentials import MetricAccess, MetricCredentials, MetricCredentialsArgs, SecretKeyReference
    from .namespace import Namespace, NamespaceArgs
    from .olm_operator import OlmOperator, OlmOperatorArgs
    from .operand_rollout import OperandRollout, OperandRolloutArgs
    from .operator_install import ExistingOperator, ExistingOperatorArgs, OperatorInstall, OperatorInstallArgs
    from .operator_monitor import OperatorMonitor, OperatorMonitorArgs
    from .operator_network import OperatorNetwork, OperatorNetworkArgs
    from .opt_in import OptIn, OptInArgs, OptInRecord, OptInRecordArgs
    from .page import Page, PageArgs
    from .priority_class import SchedulerPriority, SchedulerPriorityArgs
    from .rebalancer import Rebalancer, RebalancerArgs
    from .scheduler_configuration import SchedulerConfiguration, SchedulerConfigurationArgs
    from .scheduler_installation import SchedulerInstallation, SchedulerInstallationArgs
    from .scheduler_roles import SchedulerRoles, SchedulerRolesArgs
    from .secondary_scheduler import SCHEDULER_NAME, SecondaryScheduler, SecondarySchedulerArgs
    from .upstream_operator import UpstreamOperator, UpstreamOperatorArgs
    from .workloads import schedule_by


if not TYPE_CHECKING:
    __getattr__ = lazy_attributes(
        __name__,
        {
            "AdmissionPolicies": "admission",
            "AdmissionPoliciesArgs": "admission",
            "SchedulerAlerts": "alerts",
            "SchedulerAlertsArgs": "alerts",
            "CatalogSource": "catalog_source",
            "CatalogSourceArgs": "catalog_source",
            "PluginCrds": "crd",
            "PluginCrdsArgs": "crd",
            "SecondarySchedulerCrd": "crd",
            "SecondarySchedulerCrdArgs": "crd",
            "SchedulerDashboard": "dashboard",
            "SchedulerDashboardArgs": "dashboard",
            "custom_plugins": "described",
            "DirectScheduler": "direct_scheduler",
            "DirectSchedulerArgs": "direct_scheduler",
            "CredentialRules": "document",
            "CustomPlugin": "document",
            "PolicyRule": "document",
            "ForceConflicts": "drift",
            "ExistingOperator": "operator_install",
            "ExistingOperatorArgs": "operator_install",
            "InstallMode": "installation",
            "OlmSource": "installation",
            "InstallationRecord": "installation_record",
            "InstallationRecordArgs": "installation_record",
            "ClusterProvider": "kube_object",
            "common_labels": "labels",
            "common_labels_transform": "labels",
            "LoadWatcher": "load_watcher",
            "LoadWatcherArgs": "load_watcher",
            "Page": "page",
            "PageArgs": "page",
            "Rebalancer": "rebalancer",
            "RebalancerArgs": "rebalancer",
            "MetricCredentials": "metric_credentials",
            "MetricCredentialsArgs": "metric_credentials",
            "SecretKeyReference": "metric_credentials",
            "Namespace": "namespace",
            "NamespaceArgs": "namespace",
            "OlmOperator": "olm_operator",
            "OlmOperatorArgs": "olm_operator",
            "OperandRollout": "operand_rollout",
            "OperandRolloutArgs": "operand_rollout",
            "OptIn": "opt_in",
            "OptInArgs": "opt_in",
            "OptInRecord": "opt_in",
            "OptInRecordArgs": "opt_in",
            "OperatorInstall": "operator_install",
            "OperatorInstallArgs": "operator_install",
            "OperatorMonitor": "operator_monitor",
            "OperatorMonitorArgs": "operator_monitor",
            "OperatorNetwork": "operator_network",
            "OperatorNetworkArgs": "operator_network",
            "SchedulerPriority": "priority_class",
            "SchedulerPriorityArgs": "priority_class",
            "schedule_by": "workloads",
            "SchedulerConfiguration": "scheduler_configuration",
            "SchedulerConfigurationArgs": "scheduler_configuration",
            "MetricAccess": "metric_credentials",
            "OptionalObjects": "settings_args",
            "SchedulerSettings": "settings_args",
            "SchedulerInstallation": "scheduler_installation",
            "SchedulerInstallationArgs": "scheduler_installation",
            "SchedulerRoles": "scheduler_roles",
            "SchedulerRolesArgs": "scheduler_roles",
            "SCHEDULER_NAME": "secondary_scheduler",
            "SecondaryScheduler": "secondary_scheduler",
            "SecondarySchedulerArgs": "secondary_scheduler",
            "UpstreamOperator": "upstream_operator",
            "UpstreamOperatorArgs": "upstream_operator",
        },
    )

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
    "ForceConflicts",
    "InstallMode",
    "InstallationRecord",
    "InstallationRecordArgs",
    "LoadWatcher",
    "LoadWatcherArgs",
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
    "OperatorMonitor",
    "OperatorMonitorArgs",
    "OperatorNetwork",
    "OperatorNetworkArgs",
    "OptIn",
    "OptInArgs",
    "OptInRecord",
    "OptInRecordArgs",
    "OptionalObjects",
    "Page",
    "PageArgs",
    "PluginCrds",
    "PluginCrdsArgs",
    "PolicyRule",
    "Rebalancer",
    "RebalancerArgs",
    "SchedulerAlerts",
    "SchedulerAlertsArgs",
    "SchedulerConfiguration",
    "SchedulerConfigurationArgs",
    "SchedulerDashboard",
    "SchedulerDashboardArgs",
    "SchedulerInstallation",
    "SchedulerInstallationArgs",
    "SchedulerPriority",
    "SchedulerPriorityArgs",
    "SchedulerRoles",
    "SchedulerRolesArgs",
    "SchedulerSettings",
    "SecondaryScheduler",
    "SecondarySchedulerArgs",
    "SecondarySchedulerCrd",
    "SecondarySchedulerCrdArgs",
    "SecretKeyReference",
    "UpstreamOperator",
    "UpstreamOperatorArgs",
    "common_labels",
    "common_labels_transform",
    "custom_plugins",
    "schedule_by",
]
