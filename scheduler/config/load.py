"""The one way from text to a configuration that the scheduler, the controller, the Pulumi program and the CLI take."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scheduler.catalog import ExtensionPoint, Loc
from scheduler.config.args import ArgsReader, options_of, with_defaults
from scheduler.config.decode import decode
from scheduler.config.document import Document, read_document
from scheduler.config.expand import EffectiveProfile, Expander
from scheduler.config.model import (
    API_VERSION,
    DEFAULT_SCHEDULER_NAME,
    GROUP,
    INT32,
    KIND,
    KubeSchedulerConfiguration,
    Profile,
)
from scheduler.config.problems import ConfigurationError, Problem
from scheduler.config.render import hash_of

OUR_FLAVOUR = "ours"


@dataclass(frozen=True)
class Configuration:
    """A valid configuration.

    Attributes:
        source: where it came from, as given by the caller.
        hash: `configuration_hash` of the text.
        model: every top-level field with its default filled in.
        profiles: what runs, one per scheduler name.
        warnings: what is accepted but probably not meant.
    """

    source: str
    hash: str
    model: KubeSchedulerConfiguration
    profiles: tuple[EffectiveProfile, ...]
    warnings: tuple[Problem, ...]

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        """Return the scheduler names, in the order of the file."""
        return tuple(profile.scheduler_name for profile in self.profiles)

    def profile(self, scheduler_name: str) -> EffectiveProfile:
        """Return the profile of a scheduler name; KeyError when there is none."""
        for profile in self.profiles:
            if profile.scheduler_name == scheduler_name:
                return profile
        raise KeyError(scheduler_name)


def load_configuration(
    text: str,
    *,
    source: str,
    flavour: str = OUR_FLAVOUR,
    allow_token_in_config_map: bool = False,
    allow_default_scheduler_name: bool = False,
) -> Configuration:
    """Decode, default, validate and expand a `KubeSchedulerConfiguration`.

    Args:
        text: YAML or JSON.
        source: name of the file or object, for messages.
        flavour: family of images the configuration is for; only `ours` so far.
        allow_token_in_config_map: accept a literal metric token, with a warning.
        allow_default_scheduler_name: accept a profile named `default-scheduler`, with a warning.

    Raises:
        ConfigurationError: with every error found, in the order of the file.
    """
    if flavour != OUR_FLAVOUR:
        raise ConfigurationError([Problem("", f'flavour "{flavour}" is not supported; write "ours"', source=source)])
    document = read_document(text, source)
    model, problems = _decode_model(document)
    if model is None:
        raise ConfigurationError(problems)
    problems += _check_top_level(document, model)
    profiles = []
    for index, profile in enumerate(_named_profiles(model)):
        loc: Loc = ("profiles", index)
        problems += _check_scheduler_name(document, profile, loc, allowed=allow_default_scheduler_name)
        expander = Expander(document, profile, loc)
        points = expander.expand()
        reader = ArgsReader(document, loc, allow_token_in_config_map=allow_token_in_config_map)
        given = reader.read(profile)
        problems += [*expander.problems, *reader.problems]
        profiles.append(_effective(model, profile, points, given, expander.left_out))
    problems += _check_profiles(document, profiles)
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise ConfigurationError(errors)
    problems += _left_out_warnings(document, profiles)
    return Configuration(source, hash_of(document.data), model, tuple(profiles), tuple(problems))


def default_configuration(*, allow_default_scheduler_name: bool = False) -> Configuration:
    """Return what kube-scheduler runs without a file: one profile with the default plugins."""
    text = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
    return load_configuration(
        text, source="default configuration", allow_default_scheduler_name=allow_default_scheduler_name
    )


def _effective(
    model: KubeSchedulerConfiguration,
    profile: Profile,
    points: dict[ExtensionPoint, Any],
    given: dict[str, Any],
    left_out: tuple[str, ...],
) -> EffectiveProfile:
    bare = EffectiveProfile(profile.scheduler_name, points, {}, options_of(given))
    percentage = profile.percentage_of_nodes_to_score
    return EffectiveProfile(
        profile.scheduler_name,
        points,
        with_defaults(given, bare.enabled),
        bare.options,
        left_out,
        model.percentage_of_nodes_to_score if percentage is None else percentage,
    )


def _decode_model(document: Document) -> tuple[KubeSchedulerConfiguration | None, list[Problem]]:
    data, problems = document.data, list(document.problems)
    if not isinstance(data, dict):
        kind = "is empty" if data is None else "is not a map"
        problems.append(document.problem((), f"the file {kind}", hint=f"it starts with apiVersion: {API_VERSION}"))
        return None, problems
    fatal = list(_check_type_meta(document, data))
    if fatal:
        return None, [*problems, *fatal]
    model = decode(document, data, KubeSchedulerConfiguration, (), problems)
    if model is None:
        problems += _problems_in_parts(document, data)
    return model, problems


def _problems_in_parts(document: Document, data: dict[str, Any]) -> Iterator[Problem]:
    """Look into the profiles of a file that does not decode as a whole, so that their mistakes show in the same
    pass."""
    profiles = data.get("profiles")
    for index, raw in enumerate(profiles if isinstance(profiles, list) else []):
        loc: Loc = ("profiles", index)
        already_reported: list[Problem] = []
        for field in ("plugins", "pluginConfig"):
            part = {field: raw.get(field)} if isinstance(raw, dict) else {}
            profile = decode(document, part, Profile, loc, already_reported)
            if profile is not None and field == "plugins":
                expander = Expander(document, profile, loc)
                expander.expand()
                yield from expander.problems
            elif profile is not None:
                reader = ArgsReader(document, loc, allow_token_in_config_map=True)
                reader.read(profile)
                yield from reader.problems


def _check_type_meta(document: Document, data: dict[str, Any]) -> Iterator[Problem]:
    kind, version = data.get("kind"), data.get("apiVersion")
    if not kind:
        yield document.problem((), "Object 'Kind' is missing", hint=f"add kind: {KIND}")
    elif kind != KIND:
        yield document.problem(("kind",), f'no kind "{kind}" is known', hint=f"write kind: {KIND}")
    if not version:
        yield document.problem((), "apiVersion is missing", hint=f"add apiVersion: {API_VERSION}")
    elif version != API_VERSION:
        message = f'no kind "{KIND}" is registered for version "{version}"'
        old = str(version).startswith(f"{GROUP}/v1beta")
        hint = f"write {API_VERSION}" + ("; default plugins and weights of that version were others" if old else "")
        yield document.problem(("apiVersion",), message, hint=hint)


def _named_profiles(model: KubeSchedulerConfiguration) -> list[Profile]:
    """Apply the default name, which upstream gives only to an only profile."""
    profiles = model.profiles or [Profile()]
    if len(profiles) == 1 and not profiles[0].scheduler_name:
        return [profiles[0].model_copy(update={"scheduler_name": DEFAULT_SCHEDULER_NAME})]
    return profiles


def _check_scheduler_name(document: Document, profile: Profile, loc: Loc, *, allowed: bool) -> Iterator[Problem]:
    at: Loc = (*loc, "schedulerName")
    if not profile.scheduler_name:
        yield document.problem(at, "is required when there are several profiles")
    elif profile.scheduler_name == DEFAULT_SCHEDULER_NAME:
        yield document.problem(
            at,
            "a second scheduler named default-scheduler competes with the cluster's own for every pod",
            hint="give the profile a name of its own, such as secondary-scheduler",
            severity="warning" if allowed else "error",
        )


def _check_top_level(document: Document, model: KubeSchedulerConfiguration) -> Iterator[Problem]:
    def problem(message: str, *loc: str | int) -> Problem:
        return document.problem(loc, message)

    if not 0 < model.parallelism <= INT32:
        yield problem(
            f"Invalid value: {model.parallelism}: should be an integer value greater than zero", "parallelism"
        )
    percentages: list[tuple[Loc, int | None]] = [(("percentageOfNodesToScore",), model.percentage_of_nodes_to_score)]
    percentages += [
        (("profiles", index, "percentageOfNodesToScore"), profile.percentage_of_nodes_to_score)
        for index, profile in enumerate(model.profiles)
    ]
    for loc, percentage in percentages:
        if percentage is not None and not 0 <= percentage <= 100:
            yield problem(f"Invalid value: {percentage}: not in valid range [0-100]", *loc)
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
    if model.extenders:
        yield document.problem(
            ("extenders",), "extenders are not supported", hint="remove them; write a plugin instead"
        )
    yield from _check_leader_election(document, model)


def _check_leader_election(document: Document, model: KubeSchedulerConfiguration) -> Iterator[Problem]:
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


def _check_profiles(document: Document, profiles: list[EffectiveProfile]) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, profile in enumerate(profiles):
        if profile.scheduler_name and profile.scheduler_name in seen:
            loc: Loc = ("profiles", index, "schedulerName")
            yield document.problem(loc, f'Duplicate value: "{profile.scheduler_name}"')
        seen.add(profile.scheduler_name)
        if profile.plugins(ExtensionPoint.QUEUE_SORT) != profiles[0].plugins(ExtensionPoint.QUEUE_SORT):
            message = "has to match for all profiles: pods of all profiles wait in one queue"
            yield document.problem(("profiles", index, "plugins", "queueSort"), message)


def _left_out_warnings(document: Document, profiles: list[EffectiveProfile]) -> Iterator[Problem]:
    for index, profile in enumerate(profiles):
        if profile.left_out:
            names = ", ".join(profile.left_out)
            message = f"default plugins this scheduler does not have yet are left out: {names}"
            hint = "disable them by name to say that they are not needed"
            yield document.problem(("profiles", index, "plugins"), message, hint=hint, severity="warning")
