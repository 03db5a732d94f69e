"""Versioned configuration: decode, default, validate, expand, render.

Membership: everything that says whether a configuration, or the spec of a SecondaryScheduler, is valid and what it
means. May import pydantic, ruamel.yaml, `scheduler.catalog` and `scheduler.kube.primitives`. It does no I/O beyond its
own table of versions and reads no clock and no environment: what passes in `pulumi preview` is what the scheduler
loads.

What no scheduler needs is imported when it is asked for: the settings of the operator and of the rebalancer, the
comparison and the conversion of configurations.
"""

from typing import TYPE_CHECKING

from scheduler.config.compatibility import (
    ClusterVersions as ClusterVersions,
    Incompatibility as Incompatibility,
    OperatorRelease as OperatorRelease,
    incompatibilities as incompatibilities,
    kubernetes_minor as kubernetes_minor,
    lease_timings as lease_timings,
    operator_of as operator_of,
    operator_of_csv as operator_of_csv,
    parse_version as parse_version,
)
from scheduler.config.decode import field_names as field_names, nearest as nearest
from scheduler.config.document import (
    ConfigurationDocument as ConfigurationDocument,
    check_size as check_size,
    plain_scalar as plain_scalar,
    read_document as read_document,
)
from scheduler.config.expand import (
    EffectiveProfile as EffectiveProfile,
    EnabledPlugin as EnabledPlugin,
    disables_nothing as disables_nothing,
)
from scheduler.config.flavours import (
    CUSTOM as CUSTOM,
    OURS as OURS,
    ExtraPlugin as ExtraPlugin,
    Flavour as Flavour,
    UnknownFlavourError as UnknownFlavourError,
    custom_flavour as custom_flavour,
    flavour_named as flavour_named,
    flavour_names as flavour_names,
    flavour_of as flavour_of,
    image_flavour as image_flavour,
    split_image as split_image,
)
from scheduler.config.load import (
    Configuration as Configuration,
    default_configuration as default_configuration,
    load_configuration as load_configuration,
)
from scheduler.config.model import (
    API_VERSION as API_VERSION,
    DEFAULT_SCHEDULER_NAME as DEFAULT_SCHEDULER_NAME,
    KIND as KIND,
    Extender as Extender,
    ExtenderTLSConfig as ExtenderTLSConfig,
    KubeSchedulerConfiguration as KubeSchedulerConfiguration,
    LeaseFlags as LeaseFlags,
    overridden_lease_keys as overridden_lease_keys,
)
from scheduler.config.problems import (
    ConfigurationError as ConfigurationError,
    Problem as Problem,
    closest as closest,
    describe_value as describe_value,
    is_shown as is_shown,
    message_of as message_of,
    path_text as path_text,
)
from scheduler.config.render import (
    configuration_hash as configuration_hash,
    names_secret as names_secret,
    redacted as redacted,
    render as render,
)
from scheduler.lazy import lazy_attributes

if TYPE_CHECKING:
    from scheduler.config.complete import completed as completed
    from scheduler.config.difference import (
        changed_plugins as changed_plugins,
        differences as differences,
        profile_differences as profile_differences,
    )
    from scheduler.config.found import (
        CONFIG_KEY as CONFIG_KEY,
        FoundConfiguration as FoundConfiguration,
        Manifests as Manifests,
        find_configuration as find_configuration,
    )
    from scheduler.config.rebalancing import (
        REBALANCED_RESOURCES as REBALANCED_RESOURCES,
        RebalancerSpec as RebalancerSpec,
        RebalanceSettings as RebalanceSettings,
        RebalanceSettingsError as RebalanceSettingsError,
        read_rebalance_settings as read_rebalance_settings,
        read_rebalancer_spec as read_rebalancer_spec,
        rebalancer_obstacles as rebalancer_obstacles,
    )
    from scheduler.config.rewrite import adapt_text as adapt_text, convert_text as convert_text
    from scheduler.config.settings import (
        LogLevel as LogLevel,
        OptionalObjects as OptionalObjects,
        Port as Port,
        Replicas as Replicas,
        SchedulerSettings as SchedulerSettings,
        SettingsModel as SettingsModel,
    )
    from scheduler.config.spec import (
        InvalidSpecError as InvalidSpecError,
        SecondarySchedulerSpec as SecondarySchedulerSpec,
        SpecExtensions as SpecExtensions,
        parse_spec as parse_spec,
    )

if not TYPE_CHECKING:
    __getattr__ = lazy_attributes(
        __name__,
        {
            "completed": "complete",
            "changed_plugins": "difference",
            "differences": "difference",
            "profile_differences": "difference",
            "CONFIG_KEY": "found",
            "FoundConfiguration": "found",
            "Manifests": "found",
            "find_configuration": "found",
            "REBALANCED_RESOURCES": "rebalancing",
            "RebalancerSpec": "rebalancing",
            "RebalanceSettings": "rebalancing",
            "RebalanceSettingsError": "rebalancing",
            "read_rebalance_settings": "rebalancing",
            "read_rebalancer_spec": "rebalancing",
            "rebalancer_obstacles": "rebalancing",
            "adapt_text": "rewrite",
            "convert_text": "rewrite",
            "LogLevel": "settings",
            "OptionalObjects": "settings",
            "Port": "settings",
            "Replicas": "settings",
            "SchedulerSettings": "settings",
            "SettingsModel": "settings",
            "InvalidSpecError": "spec",
            "SecondarySchedulerSpec": "spec",
            "SpecExtensions": "spec",
            "parse_spec": "spec",
        },
    )
