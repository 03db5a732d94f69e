"""What `pulumi up` creates: one ComponentResource per module.

Membership: an Args dataclass, a component and its typed outputs per module. A component takes everything through its
Args: it reads no stack configuration, no environment and no file outside this package, exports nothing, and never
imports `stacks`. It may import `scheduler.catalog`, `scheduler.config` and `scheduler.operand`, which are pure.
Children have the component as parent and names that begin with the component's; every object has an explicit name and,
unless cluster-scoped, an explicit namespace, because a name or namespace guessed by the provider differs when the
cluster cannot be reached.
"""

from components.crd import PluginCrds, PluginCrdsArgs, SecondarySchedulerCrd, SecondarySchedulerCrdArgs
from components.installation import Installation, InstallationArgs, InstallMode, OlmSource, install
from components.kube_object import ClusterProvider
from components.labels import common_labels
from components.metric_credentials import MetricCredentials, MetricCredentialsArgs, SecretKeyReference
from components.namespace import Namespace, NamespaceArgs
from components.operator_install import OperatorInstall, OperatorInstallArgs
from components.scheduler import SchedulerArgs, run_scheduler
from components.scheduler_configuration import SchedulerConfiguration, SchedulerConfigurationArgs
from components.secondary_scheduler import SCHEDULER_NAME, SecondaryScheduler, SecondarySchedulerArgs

__all__ = [
    "SCHEDULER_NAME",
    "ClusterProvider",
    "InstallMode",
    "Installation",
    "InstallationArgs",
    "MetricCredentials",
    "MetricCredentialsArgs",
    "Namespace",
    "NamespaceArgs",
    "OlmSource",
    "OperatorInstall",
    "OperatorInstallArgs",
    "PluginCrds",
    "PluginCrdsArgs",
    "SchedulerArgs",
    "SchedulerConfiguration",
    "SchedulerConfigurationArgs",
    "SecondaryScheduler",
    "SecondarySchedulerArgs",
    "SecondarySchedulerCrd",
    "SecondarySchedulerCrdArgs",
    "SecretKeyReference",
    "common_labels",
    "install",
    "run_scheduler",
]
