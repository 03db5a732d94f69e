"""Specs that pass the schema and still describe no valid revision: the operator keeps what runs."""

from collections.abc import Iterator

from scheduler.catalog import lookup
from scheduler.config import SecondarySchedulerSpec, UnknownFlavourError, flavour_named
from scheduler.operand import is_fixed_flag
from secondary_scheduler.operator.reconcile.configuration import InstanceProblem


def refusals(spec: SecondarySchedulerSpec) -> Iterator[InstanceProblem]:
    """Everything of that kind, by field."""
    if not spec.scheduler_image:
        yield InstanceProblem("ImageMissing", "spec.schedulerImage is empty: name the scheduler's image")
    try:
        known = not spec.flavour or bool(flavour_named(spec.flavour))
    except UnknownFlavourError as error:
        known = False
        yield InstanceProblem("SpecInvalid", f"spec.flavour: {error}")
    if known:
        yield from _of_extra_plugins(spec)
    for index, argument in enumerate(spec.extra_args):
        if is_fixed_flag(argument):
            yield InstanceProblem(
                "SpecInvalid",
                f"spec.extraArgs[{index}]: {argument.partition('=')[0]} is set by the operator and must not be given: "
                "spec.schedulerConfig names the configuration, spec.leaderElection sets the timings",
            )


def _of_extra_plugins(spec: SecondarySchedulerSpec) -> Iterator[InstanceProblem]:
    flavour = spec.image_flavour
    if spec.extra_plugins and flavour.family != "custom":
        yield InstanceProblem(
            "SpecInvalid",
            f"spec.extraPlugins is only for custom images, and this one is {flavour.name}: "
            "set spec.flavour to custom if you built it",
        )
    for index, plugin in enumerate(spec.extra_plugins):
        descriptor = lookup(plugin.name)
        if descriptor is not None and descriptor.points:
            yield InstanceProblem(
                "SpecInvalid",
                f'spec.extraPlugins[{index}].name: "{plugin.name}" is a plugin of the catalogue and needs no '
                "entry here: remove it",
            )
