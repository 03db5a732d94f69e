"""Versioned configuration: decode, default, validate, expand, render.

May import pydantic, ruamel.yaml, `scheduler.catalog` and `secondary_scheduler.kube.primitives`; does no I/O. What
passes here in `pulumi preview` is what the scheduler loads.
"""

from scheduler.config.expand import EffectiveProfile, EnabledPlugin
from scheduler.config.load import Configuration, default_configuration, load_configuration
from scheduler.config.model import API_VERSION, KIND, KubeSchedulerConfiguration
from scheduler.config.problems import ConfigurationError, Problem
from scheduler.config.render import configuration_hash, render

__all__ = [
    "API_VERSION",
    "KIND",
    "Configuration",
    "ConfigurationError",
    "EffectiveProfile",
    "EnabledPlugin",
    "KubeSchedulerConfiguration",
    "Problem",
    "configuration_hash",
    "default_configuration",
    "load_configuration",
    "render",
]
