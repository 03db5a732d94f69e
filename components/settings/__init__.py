"""The settings that become a validated configuration of the scheduler: plugins, metric source, image, credentials.

Membership: the models of these settings, the rules between them, and the configuration that follows from them, with
every problem at the key that causes it. A component takes such settings as its Args; a stack file holds them and more.
Pure: it registers no resource, and reads no environment, file or stack configuration. It does not import pulumi: the
command line reads stack files without it. It imports nothing of `components` outside this package.
"""

from .credentials import (
    CREDENTIALS as CREDENTIALS,
    TOKEN_IN_CONFIG_MAP as TOKEN_IN_CONFIG_MAP,
    CredentialFiles as CredentialFiles,
    MetricCredentialValues as MetricCredentialValues,
    mounted_credentials as mounted_credentials,
    unset_variable as unset_variable,
)
from .flavour import flavour_of_settings as flavour_of_settings
from .load_watcher import (
    LOAD_WATCHER_PORT as LOAD_WATCHER_PORT,
    ManagedLoadWatcher as ManagedLoadWatcher,
    load_watcher_name as load_watcher_name,
)
from .metric_settings import (
    CredentialSettings as CredentialSettings,
    ExistingSecret as ExistingSecret,
    MetricProviderSettings as MetricProviderSettings,
)
from .opt_in import (
    DEFAULT_SCHEDULER as DEFAULT_SCHEDULER,
    OptInPlan as OptInPlan,
    OptInSettings as OptInSettings,
    OptInTarget as OptInTarget,
    plan_opt_in as plan_opt_in,
)
from .page import PagePlan as PagePlan, PageSettings as PageSettings
from .partition import NodePartitionSettings as NodePartitionSettings, SharedNodesSettings as SharedNodesSettings
from .problems import from_validation_error as from_validation_error, shown_value as shown_value
from .profile import (
    CheckedConfiguration as CheckedConfiguration,
    build_profile as build_profile,
    checked_configuration as checked_configuration,
    plan_beside as plan_beside,
)
from .profile_settings import (
    ExtraPluginSettings as ExtraPluginSettings,
    PluginChoice as PluginChoice,
    PluginSettings as PluginSettings,
    ProfileSettings as ProfileSettings,
    ShadowSettings as ShadowSettings,
)
from .reading import ReadSettings as ReadSettings, read_settings as read_settings
from .rebalance import (
    RebalancerPlan as RebalancerPlan,
    RebalancerSettings as RebalancerSettings,
)
from .selectors import LabelSelectorSettings as LabelSelectorSettings
from .values import (
    SECRET_ARGUMENT as SECRET_ARGUMENT,
    FileName as FileName,
    Image as Image,
    ObjectName as ObjectName,
    Repository as Repository,
    ResourceQuantity as ResourceQuantity,
    SecretDataKey as SecretDataKey,
    ServerAddress as ServerAddress,
    Subdomain as Subdomain,
    Version as Version,
    absent_if_empty as absent_if_empty,
)
