"""Profiles that are decided beside others and never bound: which these are, and what is wrong with them."""

from collections.abc import Iterator, Sequence

from scheduler.catalog import Loc
from scheduler.config.document import Document
from scheduler.config.expand import EffectiveProfile
from scheduler.config.flavours import Flavour
from scheduler.config.problems import Problem


def shadow_names(profiles: Sequence[EffectiveProfile], flavour: Flavour) -> frozenset[str]:
    """Return the scheduler names of the profiles that are shadows; other images than ours know none."""
    if not flavour.is_ours:
        return frozenset()
    return frozenset(profile.options.shadow.profile for profile in profiles if profile.options.shadow is not None)


def check_shadows(document: Document, profiles: Sequence[EffectiveProfile], flavour: Flavour) -> Iterator[Problem]:
    """Yield what is wrong with shadows, and which schedulerNames are not served because of them."""
    indexes = {profile.scheduler_name: index for index, profile in enumerate(profiles)}
    for index, profile in enumerate(profiles):
        shadow = profile.options.shadow
        if shadow is None:
            continue
        loc: Loc = ("profiles", index, "pluginConfig")
        if shadow.profile == profile.scheduler_name:
            yield document.problem(loc, f'shadow.profile: "{shadow.profile}" is this profile; name another one')
        elif shadow.profile not in indexes:
            message = f'shadow.profile: no profile has the schedulerName "{shadow.profile}"'
            yield document.problem(loc, message, hint=f"add it; there are: {', '.join(indexes)}")
        elif profiles[indexes[shadow.profile]].options.shadow is not None:
            message = f'shadow.profile: "{shadow.profile}" has a shadow itself, so nothing would schedule its pods'
            yield document.problem(loc, message, hint="remove its shadow")
        elif not flavour.is_ours:
            message = f'{flavour.name} ignores shadow: it schedules the pods of "{shadow.profile}"'
            yield document.problem(loc, message, severity="warning")
        else:
            message = (
                f'is the shadow of "{profile.scheduler_name}": its decisions are compared and never bound, and pods '
                "with this schedulerName are not scheduled"
            )
            yield document.problem(("profiles", indexes[shadow.profile], "schedulerName"), message, severity="warning")
