"""The settings that become a validated configuration of the scheduler: plugins, metric source, image, credentials.

Membership: the models of these settings, the rules between them, and the configuration that follows from them, with
every problem at the key that causes it. A component takes such settings as its Args; a stack file holds them and more.
Pure: it registers no resource, and reads no environment, file or stack configuration. It does not import pulumi: the
command line reads stack files without it. It imports nothing of `components` outside this package.
"""

from .credentials import (
    CREDENTIALS,
    TOKEN_IN_CONFIG_MAP,
    CredentialFiles,
    MetricCredentialValues,
    mounted_credentials,
    unset_variable,
)
from .flavour import flavour_of_settings
from .load_watcher import LOAD_WATCHER_PORT, ManagedLoadWatcher, load_watcher_name
from .metric_settings import CredentialSettings, ExistingSecret, MetricProviderSettings
from .opt_in import DEFAULT_SCHEDULER, OptInPlan, OptInSettings, OptInTarget, plan_opt_in
from .page import PagePlan, PageSettings, plan_page
from .partition import NodePartitionSettings, SharedNodesSettings
from .problems import from_validation_error, shown_value
from .profile import CheckedConfiguration, build_profile, checked_configuration
from .profile_settings import ExtraPluginSettings, PluginChoice, PluginSettings, ProfileSettings, ShadowSettings
from .reading import ReadSettings, read_settings
from .rebalance import RebalancerPlan, RebalancerSettings, plan_rebalancer, pruned_by
from .scraping import scrape_problems
from .selectors import LabelSelectorSettings
from .values import (
    SECRET_ARGUMENT,
    FileName,
    Image,
    ObjectName,
    Repository,
    ResourceQuantity,
    SecretDataKey,
    ServerAddress,
    SettingsModel,
    Subdomain,
    Version,
    absent_if_empty,
)

__all__ = [
    "CREDENTIALS",
    "DEFAULT_SCHEDULER",
    "LOAD_WATCHER_PORT",
    "SECRET_ARGUMENT",
    "TOKEN_IN_CONFIG_MAP",
    "CheckedConfiguration",
    "CredentialFiles",
    "CredentialSettings",
    "ExistingSecret",
    "ExtraPluginSettings",
    "FileName",
    "Image",
    "LabelSelectorSettings",
    "ManagedLoadWatcher",
    "MetricCredentialValues",
    "MetricProviderSettings",
    "NodePartitionSettings",
    "ObjectName",
    "OptInPlan",
    "OptInSettings",
    "OptInTarget",
    "PagePlan",
    "PageSettings",
    "PluginChoice",
    "PluginSettings",
    "ProfileSettings",
    "ReadSettings",
    "RebalancerPlan",
    "RebalancerSettings",
    "Repository",
    "ResourceQuantity",
    "SecretDataKey",
    "ServerAddress",
    "SettingsModel",
    "ShadowSettings",
    "SharedNodesSettings",
    "Subdomain",
    "Version",
    "absent_if_empty",
    "build_profile",
    "checked_configuration",
    "flavour_of_settings",
    "from_validation_error",
    "load_watcher_name",
    "mounted_credentials",
    "plan_opt_in",
    "plan_page",
    "plan_rebalancer",
    "pruned_by",
    "read_settings",
    "scrape_problems",
    "shown_value",
    "unset_variable",
]
