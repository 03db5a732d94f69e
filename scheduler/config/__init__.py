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
    ClusterVersions,
    Incompatibility,
    OperatorRelease,
    incompatibilities,
    kubernetes_minor,
    lease_timings,
    operator_of,
    operator_of_csv,
    parse_version,
)
from scheduler.config.decode import nearest
from scheduler.config.document import Document, check_size, plain_scalar, read_document
from scheduler.config.expand import EffectiveProfile, EnabledPlugin, disables_nothing
from scheduler.config.flavours import (
    CUSTOM,
    OURS,
    ExtraPlugin,
    Flavour,
    UnknownFlavourError,
    custom_flavour,
    flavour_named,
    flavour_names,
    flavour_of,
    image_flavour,
    split_image,
)
from scheduler.config.load import Configuration, default_configuration, load_configuration
from scheduler.config.model import (
    API_VERSION,
    DEFAULT_SCHEDULER_NAME,
    KIND,
    Extender,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    LeaseFlags,
    overridden_lease_keys,
)
from scheduler.config.problems import ConfigurationError, Problem, message_without_value, path_text
from scheduler.config.render import configuration_hash, names_secret, redacted, render
from scheduler.lazy import lazy_attributes

if TYPE_CHECKING:
    from scheduler.config.bound import bound_rules
    from scheduler.config.complete import completed
    from scheduler.config.difference import differences, profile_differences
    from scheduler.config.found import (
        CONFIG_KEY,
        FoundConfiguration,
        Manifests,
        find_configuration,
    )
    from scheduler.config.rebalancing import (
        REBALANCED_RESOURCES,
        RebalancerSpec,
        RebalanceSettings,
        RebalanceSettingsError,
        read_rebalance_settings,
        read_rebalancer_spec,
        rebalancer_obstacles,
    )
    from scheduler.config.rewrite import convert_text
    from scheduler.config.spec import InvalidSpecError, SecondarySchedulerSpec, parse_spec

if not TYPE_CHECKING:
    __getattr__ = lazy_attributes(
        __name__,
        {
            "bound_rules": "bound",
            "completed": "complete",
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
            "convert_text": "rewrite",
            "InvalidSpecError": "spec",
            "SecondarySchedulerSpec": "spec",
            "parse_spec": "spec",
        },
    )

__all__ = [
    "API_VERSION",
    "CONFIG_KEY",
    "CUSTOM",
    "DEFAULT_SCHEDULER_NAME",
    "KIND",
    "OURS",
    "REBALANCED_RESOURCES",
    "ClusterVersions",
    "Configuration",
    "ConfigurationError",
    "Document",
    "EffectiveProfile",
    "EnabledPlugin",
    "Extender",
    "ExtenderTLSConfig",
    "ExtraPlugin",
    "Flavour",
    "FoundConfiguration",
    "Incompatibility",
    "InvalidSpecError",
    "KubeSchedulerConfiguration",
    "LeaseFlags",
    "Manifests",
    "OperatorRelease",
    "Problem",
    "RebalanceSettings",
    "RebalanceSettingsError",
    "RebalancerSpec",
    "SecondarySchedulerSpec",
    "UnknownFlavourError",
    "bound_rules",
    "check_size",
    "completed",
    "configuration_hash",
    "convert_text",
    "custom_flavour",
    "default_configuration",
    "differences",
    "disables_nothing",
    "find_configuration",
    "flavour_named",
    "flavour_names",
    "flavour_of",
    "image_flavour",
    "incompatibilities",
    "kubernetes_minor",
    "lease_timings",
    "load_configuration",
    "message_without_value",
    "names_secret",
    "nearest",
    "operator_of",
    "operator_of_csv",
    "overridden_lease_keys",
    "parse_spec",
    "parse_version",
    "path_text",
    "plain_scalar",
    "profile_differences",
    "read_document",
    "read_rebalance_settings",
    "read_rebalancer_spec",
    "rebalancer_obstacles",
    "redacted",
    "render",
    "split_image",
]
