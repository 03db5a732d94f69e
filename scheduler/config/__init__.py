"""Versioned configuration: decode, default, validate, expand, render.

May import pydantic, ruamel.yaml, `scheduler.catalog` and `secondary_scheduler.kube.primitives`; does no I/O. What
passes here in `pulumi preview` is what the scheduler loads.
"""

from scheduler.config.complete import completed
from scheduler.config.expand import EffectiveProfile, EnabledPlugin
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
)
from scheduler.config.load import Configuration, default_configuration, load_configuration
from scheduler.config.model import API_VERSION, DEFAULT_SCHEDULER_NAME, KIND, KubeSchedulerConfiguration
from scheduler.config.problems import ConfigurationError, Problem
from scheduler.config.render import configuration_hash, render
from scheduler.config.rewrite import convert_text

__all__ = [
    "API_VERSION",
    "CUSTOM",
    "DEFAULT_SCHEDULER_NAME",
    "KIND",
    "OURS",
    "Configuration",
    "ConfigurationError",
    "EffectiveProfile",
    "EnabledPlugin",
    "ExtraPlugin",
    "Flavour",
    "KubeSchedulerConfiguration",
    "Problem",
    "UnknownFlavourError",
    "completed",
    "configuration_hash",
    "convert_text",
    "custom_flavour",
    "default_configuration",
    "flavour_named",
    "flavour_names",
    "flavour_of",
    "load_configuration",
    "render",
]
