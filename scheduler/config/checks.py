"""Checks of a decoded configuration that need more than one field, worded as kube-scheduler words them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduler.catalog import OPTIONS, ExtensionPoint, HighLoadFilterArgs, Loc
from scheduler.config.document import ConfigurationDocument
from scheduler.config.expand import EffectiveProfile
from scheduler.config.extenders import check_extenders
from scheduler.config.flavours import Flavour
from scheduler.config.legacy import IGNORED_MULTI_POINT
from scheduler.config.model import API_VERSION, INT32, KubeSchedulerConfiguration, KubeSchedulerProfile
from scheduler.config.problems import UNKNOWN_FIELD, Problem
from scheduler.config.releases import FIELDS, VALUES, Release, ReleaseRange, ignores_args, plugin_span

_PLACEMENTS = "percentageOfPlacementsToScore"
# Upstream's words from 1.38 on, where the gate is off: here it is never on.
_PLACEMENTS_FORBIDDEN = f"Forbidden: {_PLACEMENTS} requires TopologyAwareWorkloadScheduling feature gate to be enabled"


def check_top_level(
    document: ConfigurationDocument, model: KubeSchedulerConfiguration, flavour: Flavour
) -> Iterator[Problem]:
    """Yield the problems outside the profiles."""

    def problem(message: str, *loc: str | int) -> Problem:
        return document.problem(loc, message)

    if not 0 < model.parallelism <= INT32:
        yield problem(
            f"Invalid value: {model.parallelism}: should be an integer value greater than zero", "parallelism"
        )
    percentages: list[tuple[Loc, int | None]] = []
    scopes: list[tuple[Loc, KubeSchedulerConfiguration | KubeSchedulerProfile]] = [((), model)]
    scopes += [(("profiles", index), profile) for index, profile in enumerate(model.profiles)]
    for loc, scope in scopes:
        percentages.append(((*loc, "percentageOfNodesToScore"), scope.percentage_of_nodes_to_score))
        percentages.append(((*loc, _PLACEMENTS), scope.percentage_of_placements_to_score))
    for loc, percentage in percentages:
        if percentage is not None and not 0 <= percentage <= 100:
            yield problem(f"Invalid value: {percentage}: not in valid range [0-100]", *loc)
        elif percentage is not None and loc[-1] == _PLACEMENTS and flavour.is_ours:
            yield document.problem(loc, _PLACEMENTS_FORBIDDEN, hint="remove it")
    if model.pod_initial_backoff_seconds <= 0:
        yield problem(
            f"Invalid value: {model.pod_initial_backoff_seconds}: must be greater than 0", "podInitialBackoffSeconds"
        )
    if model.pod_max_backoff_seconds < model.pod_initial_backoff_seconds:
        message = (
            f"Invalid value: {model.pod_max_backoff_seconds}: must be greater than or equal to PodInitialBackoffSeconds"
        )
        yield problem(message, "podMaxBackoffSeconds")
    if model.client_connection.burst < 0:
        yield problem(
            f"Invalid value: {model.client_connection.burst}: must be non-negative", "clientConnection", "burst"
        )
    yield from check_extenders(document, model, flavour)
    yield from _check_leader_election(document, model)


def _check_leader_election(document: ConfigurationDocument, model: KubeSchedulerConfiguration) -> Iterator[Problem]:
    election = model.leader_election
    if not election.leader_elect:
        return
    durations = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for field, seconds in durations.items():
        if seconds <= 0:
            yield document.problem(("leaderElection", field), "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        yield document.problem(("leaderElection", "leaseDuration"), "LeaseDuration must be greater than RenewDeadline")
    if election.resource_lock != "leases":
        message = f'Invalid value: "{election.resource_lock}": resourceLock value must be "leases"'
        yield document.problem(("leaderElection", "resourceLock"), message)
    for field, text in (("resourceName", election.resource_name), ("resourceNamespace", election.resource_namespace)):
        if not text:
            yield document.problem(("leaderElection", field), f"{field} is required")


def check_profiles(
    document: ConfigurationDocument, profiles: list[EffectiveProfile], *, all_sets: bool
) -> Iterator[Problem]:
    """Yield the problems between profiles: their names, and the queue they share, if all plugin sets were decoded."""
    seen: set[str] = set()
    for index, profile in enumerate(profiles):
        if profile.scheduler_name and profile.scheduler_name in seen:
            loc: Loc = ("profiles", index, "schedulerName")
            yield document.problem(loc, f'Duplicate value: "{profile.scheduler_name}"')
        seen.add(profile.scheduler_name)
        if not all_sets:
            continue
        sorters = profile.plugins(ExtensionPoint.QUEUE_SORT)
        if sorters != profiles[0].plugins(ExtensionPoint.QUEUE_SORT):
            message = "has to match for all profiles: pods of all profiles share one queue"
            yield document.problem(("profiles", index, "plugins", "queueSort"), message)
        elif any(profile.args(sorter.name) != profiles[0].args(sorter.name) for sorter in sorters):
            message = f"args of {sorters[0].name} have to match for all profiles: their pods share one queue"
            yield document.problem(("profiles", index, "pluginConfig"), message)


def check_release(
    document: ConfigurationDocument, data: Mapping[str, Any], image: str, release: Release, version: str
) -> Iterator[Problem]:
    """Yield what a release does not have of a configuration, which is as the image will read it.

    Args:
        document: where problems are reported.
        data: of a version that the image reads.
        image: what messages call it.
        release: of scheduler-plugins.
        version: of the data, such as `v1`.
    """
    yield from _Check(document, image, release, version).run(data)


class _Check:
    def __init__(self, document: ConfigurationDocument, image: str, release: Release, version: str) -> None:
        self._document = document
        self._image = image
        self._release = release
        self._version = version

    def run(self, data: Mapping[str, Any]) -> Iterator[Problem]:
        yield from self._fields(FIELDS[""], data, ())
        for loc, _ in _at(data, ("profiles[]", "plugins", "multiPoint"), ()) if self._version == "v1beta2" else ():
            hint = f"to run them, write apiVersion: {API_VERSION}, if the image reads it"
            yield self._document.problem(loc, IGNORED_MULTI_POINT, hint=hint, severity="warning")
        for loc, profile in _at(data, ("profiles[]",), ()):
            for at, entry in _at(profile, ("plugins", "*", "enabled[]"), loc):
                yield from self._plugin(at, entry)
            for at, entry in _at(profile, ("pluginConfig[]",), loc):
                if isinstance(entry, dict) and isinstance(entry.get("args"), dict):
                    yield from self._args(str(entry.get("name")), entry["args"], (*at, "args"))

    def _covers(self, span: ReleaseRange) -> bool:
        return span.covers(self._release.number, self._version)

    def _problem(self, loc: Loc, message: str, span: ReleaseRange, *, at_key: bool = False) -> Problem:
        hint = f"{self._image} would not start: {span.explained(self._release.number)}"
        return self._document.problem(loc, message, hint=hint, at_key=at_key)

    def _fields(self, spans: Mapping[str, ReleaseRange], data: object, below: Loc) -> Iterator[Problem]:
        missing: set[Loc] = set()
        for path, span in spans.items():
            if self._covers(span):
                continue
            for loc, _ in _at(data, tuple(path.split(".")), below):
                # A map that is not known is one problem, whatever is in it.
                if not any(loc[: len(outer)] == outer for outer in missing):
                    missing.add(loc)
                    yield self._problem(loc, f'{UNKNOWN_FIELD} "{loc[-1]}"', span, at_key=True)

    def _plugin(self, at: Loc, entry: object) -> Iterator[Problem]:
        name = entry.get("name") if isinstance(entry, dict) else None
        span = plugin_span(name) if isinstance(name, str) else None
        # A name that the release has in no version is reported with the plugin set.
        if span is not None and span.covers(self._release.number, None) and not self._covers(span):
            yield self._problem((*at, "name"), f'plugin "{name}" cannot be enabled in {self._version}', span)

    def _args(self, plugin: str, args: Mapping[str, Any], at: Loc) -> Iterator[Problem]:
        if ignores_args(plugin, self._release):
            return
        yield from self._fields(FIELDS.get(plugin, {}), args, at)
        for path, values in VALUES.get(plugin, {}).items():
            for loc, value in _at(args, tuple(path.split(".")), at):
                span = values.get(value) if isinstance(value, str) else None
                if span is not None and not self._covers(span):
                    yield self._problem(loc, f'unknown value "{value}"', span)


def _at(value: object, path: tuple[str, ...], loc: Loc) -> Iterator[tuple[Loc, Any]]:
    """Yield the location and the value of everything at a path: `name[]` is each element of a list, `*` each value."""
    if not path:
        yield loc, value
        return
    if not isinstance(value, dict):
        return
    field, is_list = path[0].removesuffix("[]"), path[0].endswith("[]")
    for key in list(value) if field == "*" else [field] if field in value else []:
        inner = value[key]
        if not is_list:
            yield from _at(inner, path[1:], (*loc, key))
        elif isinstance(inner, list):
            for index, item in enumerate(inner):
                yield from _at(item, path[1:], (*loc, key, index))


def shadow_names(profiles: Sequence[EffectiveProfile], flavour: Flavour) -> frozenset[str]:
    """Return the scheduler names of the profiles that are shadows; other images than ours know none."""
    if not flavour.is_ours:
        return frozenset()
    return frozenset(profile.options.shadow.profile for profile in profiles if profile.options.shadow is not None)


def check_shadows(
    document: ConfigurationDocument, profiles: Sequence[EffectiveProfile], flavour: Flavour
) -> Iterator[Problem]:
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


_PLUGIN = "HighLoadFilter"
_AUTOSCALERS = (
    "pods wait where every node that they fit is above its limit, and no node is added for them: Cluster Autoscaler "
    "and Karpenter compare requests only, find that the pod fits where it was refused, and do nothing"
)


def warn_of_load_limits(
    document: ConfigurationDocument,
    model: KubeSchedulerConfiguration,
    profiles: list[EffectiveProfile],
    flavour: Flavour,
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


def _warning(document: ConfigurationDocument, loc: Loc, message: str, hint: str) -> Problem:
    return document.problem(loc, message, hint=hint, severity="warning")
