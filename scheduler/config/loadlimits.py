"""Warnings about hard limits on the nodes' load: who else has to know of them."""

from collections.abc import Iterator

from scheduler.catalog import OPTIONS, HighLoadFilterArgs, Loc
from scheduler.config.document import Document
from scheduler.config.expand import EffectiveProfile
from scheduler.config.flavours import Flavour
from scheduler.config.model import KubeSchedulerConfiguration
from scheduler.config.problems import Problem

_PLUGIN = "HighLoadFilter"
_AUTOSCALERS = (
    "pods wait where every node that they fit is above its limit, and no node is added for them: Cluster Autoscaler "
    "and Karpenter compare requests only, find that the pod fits where it was refused, and do nothing"
)


def warn_of_load_limits(
    document: Document, model: KubeSchedulerConfiguration, profiles: list[EffectiveProfile], flavour: Flavour
) -> Iterator[Problem]:
    """Yield a warning for each profile whose limit can keep pods waiting."""
    for index, profile in enumerate(profiles):
        args = profile.args(_PLUGIN) if _PLUGIN in profile.enabled else None
        if not isinstance(args, HighLoadFilterArgs):
            continue
        at: Loc = ("profiles", index)
        options = profile.options
        if not flavour.is_ours:
            yield _warning(document, at, _AUTOSCALERS, "only this project's own scheduler can leave the limit out then")
            continue
        of_options = _args_of(model, index, OPTIONS)
        if options.compatibility == "upstream":
            hint = "with compatibility: safe, load.limit.whenAllExceed: leaveOut places such pods nevertheless"
            yield _warning(document, (*of_options, "compatibility"), _AUTOSCALERS, hint)
        elif options.load.limit.when_all_exceed == "reject":
            hint = "whenAllExceed: leaveOut places such pods nevertheless"
            yield _warning(document, (*of_options, "load", "limit", "whenAllExceed"), _AUTOSCALERS, hint)


def _args_of(model: KubeSchedulerConfiguration, index: int, plugin: str) -> Loc:
    """Return where a profile's args of a plugin stand; the profile where they are not written."""
    entries = model.profiles[index].plugin_config if model.profiles else []
    places = [place for place, entry in enumerate(entries) if entry.name == plugin]
    return ("profiles", index, "pluginConfig", places[0], "args") if places else ("profiles", index)


def _warning(document: Document, loc: Loc, message: str, hint: str) -> Problem:
    return document.problem(loc, message, hint=hint, severity="warning")
