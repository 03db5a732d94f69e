"""`load_configuration`: the one way to a valid configuration, for the scheduler, operator, Pulumi program and CLI."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from scheduler.catalog import CredentialRules, ExtensionPoint, KubernetesVersion, Loc, credential_of, is_subdomain
from scheduler.config.args import ArgsReader, kubernetes_of, options_of, with_defaults
from scheduler.config.beta import convert, is_converted, version_of
from scheduler.config.checks import check_profiles, check_shadows, check_top_level, shadow_names, warn_of_load_limits
from scheduler.config.decode import Usable
from scheduler.config.document import (
    NOT_FINITE_MESSAGE,
    PLACEHOLDER_MESSAGE,
    ConfigurationDocument,
    document_of,
    read_document,
)
from scheduler.config.expand import EffectiveProfile, Expander
from scheduler.config.extenders import check_ignored, ignored_resources, without_ignored
from scheduler.config.flavours import OURS, Flavour, UnknownFlavourError, flavour_named, with_unknown_plugins
from scheduler.config.legacy import CONVERTED_VERSIONS
from scheduler.config.model import (
    API_VERSION,
    DEFAULT_SCHEDULER_NAME,
    KIND,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
)
from scheduler.config.problems import UNKNOWN_FIELD, ConfigurationError, Problem, Severity
from scheduler.config.render import hash_of


@dataclass(frozen=True)
class Configuration:
    """A valid configuration.

    Attributes:
        source: where it came from, as given by the caller.
        data: what the caller gave, as plain data, before conversion and defaults.
        version: API version of that data: `v1`, or one that was converted.
        flavour: of the image it was checked for.
        hash: `configuration_hash` of that data.
        model: every top-level field with its default filled in.
        profiles: what runs, one per scheduler name, in the order of the file; shadows of others included.
        warnings: what is accepted but probably not intended.
        cluster_minor: minor version of the cluster that it was loaded for; None where that was not known.
    """

    source: str
    data: Mapping[str, Any]
    version: str
    flavour: Flavour
    hash: str
    model: KubeSchedulerConfiguration
    profiles: tuple[EffectiveProfile, ...]
    warnings: tuple[Problem, ...]
    cluster_minor: int | None = None

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        """Return the scheduler names whose pods are scheduled, in the order of the file."""
        return tuple(profile.scheduler_name for profile in self.served)

    @property
    def served(self) -> tuple[EffectiveProfile, ...]:
        """Return the profiles that schedule pods: all that are no shadow of another one."""
        shadows = shadow_names(self.profiles, self.flavour)
        return tuple(profile for profile in self.profiles if profile.scheduler_name not in shadows)

    def bound_rules(self, rules: CredentialRules) -> CredentialRules:
        """Return the rules with the address that this configuration sends tokens of files to.

        A token of a Secret may go to several addresses, the ServiceAccount's own to the first one only.
        """
        return _bound(rules, self.profiles) if self.flavour.is_ours else rules

    def profile(self, scheduler_name: str) -> EffectiveProfile:
        """Return the profile of a scheduler name; KeyError when there is none."""
        for profile in self.profiles:
            if profile.scheduler_name == scheduler_name:
                return profile
        raise KeyError(scheduler_name)


def load_configuration(
    content: str | Mapping[str, Any],
    *,
    source: str,
    flavour: Flavour | str = OURS,
    allow_token_in_config_map: bool = False,
    allow_default_scheduler_name: bool = False,
    into_cluster: bool = False,
    external_load: bool = False,
    converting: bool = False,
    credential_rules: CredentialRules | None = None,
    with_own_address: bool = False,
    cluster_minor: int | None = None,
    feature_gates: Mapping[str, bool] = MappingProxyType({}),
) -> Configuration:
    """Decode, convert, default, validate and expand a `KubeSchedulerConfiguration`.

    Args:
        content: YAML or JSON text, or the data itself; of v1 or of an older version that is converted with a warning.
            Only problems in a text have a line and a column. The data is not changed.
        source: name of the file or object, for messages.
        flavour: the image the configuration is for, or the name of its flavour.
        allow_token_in_config_map: accept a literal metric token, with a warning.
        allow_default_scheduler_name: accept a profile named `default-scheduler`, with a warning.
        into_cluster: for who brings a configuration into a cluster: refuse a schedulerName that is no DNS-1123
            subdomain, instead of a warning, and files that the scheduler's pod does not have. Whoever reads what is
            there already, or runs it elsewhere, takes it as it is.
        external_load: the nodes' load comes from elsewhere, so args need not name a load source.
        converting: the text will be rewritten as v1, so the image need not read its present version.
        credential_rules: refuse credentials for a metric source that these do not let the scheduler send; None where
            only the scheduler itself judges, as it does each time.
        with_own_address: for who writes the rules by what this configuration says: they permit its own address, as
            `Configuration.bound_rules` has it.
        cluster_minor: of the cluster's Kubernetes 1.x, which profiles follow that name no version; None where it is
            not known.
        feature_gates: as chosen on the command line; some add default plugins.

    Raises:
        ConfigurationError: with every error found, in the order of the file.
    """
    try:
        chosen = flavour_named(flavour) if isinstance(flavour, str) else flavour
    except UnknownFlavourError as error:
        raise ConfigurationError([Problem((), str(error), source=source)]) from None
    document = read_document(content, source) if isinstance(content, str) else document_of(content, source)
    if converting:
        chosen = with_unknown_plugins(chosen, document.data)
    data, digest, version = document.data, hash_of(document.data), version_of(document.data)
    if is_converted(version):
        # Converting edits the tree in place; copying the whole document keeps the identities that positions rely on.
        document = copy.deepcopy(document)
    usable = Usable(document)
    model, problems = _decode_model(document, usable, chosen, converting=converting)
    if model is None:
        raise ConfigurationError(_without_consequences(problems, usable))
    problems += check_top_level(document, model, chosen)
    profiles, readers, all_sets = [], [], True
    ignored = ignored_resources(model)
    for index, profile in enumerate(_named_profiles(model)):
        loc: Loc = ("profiles", index)
        problems += _check_scheduler_name(
            document, profile, loc, default_allowed=allow_default_scheduler_name, strict=into_cluster
        )
        kubernetes = kubernetes_of(profile, chosen, cluster_minor).with_gates(feature_gates)
        whole = not usable.lacks_below((*document.original(loc), "plugins"))
        all_sets = all_sets and whole
        expander = Expander(document, profile, loc, chosen, kubernetes, whole=whole)
        points = expander.expand()
        reader = ArgsReader(
            document,
            usable,
            loc,
            chosen,
            kubernetes=kubernetes,
            allow_token_in_config_map=allow_token_in_config_map,
            external_load=external_load,
        )
        given_args = reader.read(profile)
        effective = _effective_profile(model, profile, points, given_args, expander.left_out, chosen, kubernetes)
        reader.check_sources(profile, given_args, effective.plugin_args)
        reader.check_needed(profile, effective.plugin_args)
        readers.append((reader, profile, effective))
        problems += expander.problems
        if chosen.is_ours:
            problems += check_ignored(document, effective.plugin_args, ignored, loc)
            effective = replace(effective, plugin_args=without_ignored(effective.plugin_args, ignored))
        profiles.append(effective)
    rules = (
        _bound(credential_rules, profiles)
        if credential_rules and with_own_address and chosen.is_ours
        else credential_rules
    )
    problems += _problems_of_args(readers, rules)
    problems += check_profiles(document, profiles, all_sets=all_sets)
    problems += check_shadows(document, profiles, chosen)
    if into_cluster:
        from scheduler.config.files import check_files  # here, as the scheduler takes its configuration as it is

        judged = {problem.loc for problem in problems}
        problems += [each for each in check_files(document, model, profiles, chosen) if each.loc not in judged]
    problems = _without_consequences(problems, usable)
    if any(problem.severity == "error" for problem in problems):
        raise ConfigurationError(problems)
    problems += _warn_of_left_out(document, profiles)
    problems += warn_of_load_limits(document, model, profiles, chosen)
    return Configuration(source, data, version, chosen, digest, model, tuple(profiles), tuple(problems), cluster_minor)


def _problems_of_args(
    readers: Iterable[tuple[ArgsReader, KubeSchedulerProfile, EffectiveProfile]], rules: CredentialRules | None
) -> Iterator[Problem]:
    for reader, profile, effective in readers:
        if rules is not None:
            reader.check_credentials(profile, effective.plugin_args, rules, effective.options.load)
        yield from reader.problems


def _bound(rules: CredentialRules, profiles: Sequence[EffectiveProfile]) -> CredentialRules:
    credentials = [
        credential_of(args, profile.options.load)
        for profile in profiles
        for plugin in profile.enabled
        if (args := profile.args(plugin)) is not None
    ]
    addresses = list(dict.fromkeys(c.address for c in credentials if c is not None and c.token_file is not None))
    if not addresses or (len(addresses) > 1 and rules.service_account_token is None):
        return rules
    return replace(rules, address=addresses[0])


def _without_consequences(problems: list[Problem], usable: Usable) -> list[Problem]:
    """Return the problems and those of decoding, without others about a value that was not decoded, is an unresolved
    placeholder or no finite number."""
    kept = [*(problem for problem in problems if not usable.is_consequence(problem)), *usable.problems]
    unusable = (PLACEHOLDER_MESSAGE, NOT_FINITE_MESSAGE)
    unfilled = {problem.loc for problem in kept if problem.message.startswith(unusable)}
    stays = (*unusable, UNKNOWN_FIELD)
    kept = [problem for problem in kept if problem.loc not in unfilled or problem.message.startswith(stays)]
    # What the image does not know may be unknown anyway.
    unknown: set[Loc] = set()
    result = []
    for problem in kept:
        if problem.message.startswith(UNKNOWN_FIELD):
            if problem.loc in unknown:
                continue
            unknown.add(problem.loc)
        result.append(problem)
    return result


def default_configuration(
    fields: Mapping[str, object] = MappingProxyType({}),
    *,
    allow_default_scheduler_name: bool = False,
    cluster_minor: int | None = None,
    feature_gates: Mapping[str, bool] = MappingProxyType({}),
) -> Configuration:
    """Return what kube-scheduler runs without a file: one profile with the default plugins.

    Args:
        fields: top-level fields that have another value than by default, as deprecated flags give them.
        allow_default_scheduler_name, cluster_minor, feature_gates: as for `load_configuration`.

    Raises:
        ConfigurationError: a field has a value that it may not have.
    """
    return load_configuration(
        {"apiVersion": API_VERSION, "kind": KIND, **fields},
        source="default configuration",
        allow_default_scheduler_name=allow_default_scheduler_name,
        cluster_minor=cluster_minor,
        feature_gates=feature_gates,
    )


def _effective_profile(
    model: KubeSchedulerConfiguration,
    profile: KubeSchedulerProfile,
    points: dict[ExtensionPoint, Any],
    given_args: dict[str, Any],
    left_out: tuple[str, ...],
    flavour: Flavour,
    kubernetes: KubernetesVersion,
) -> EffectiveProfile:
    bare = EffectiveProfile(profile.scheduler_name, points, {}, options_of(given_args))
    percentage = profile.percentage_of_nodes_to_score
    return EffectiveProfile(
        profile.scheduler_name,
        points,
        with_defaults(given_args, bare.enabled, flavour, kubernetes),
        bare.options,
        left_out,
        model.percentage_of_nodes_to_score if percentage is None else percentage,
        given_args,
        kubernetes,
    )


def _decode_model(
    document: ConfigurationDocument, usable: Usable, flavour: Flavour, *, converting: bool
) -> tuple[KubeSchedulerConfiguration | None, list[Problem]]:
    data, problems = document.data, list(document.problems)
    if not isinstance(data, dict):
        kind = "is empty" if data is None else "is not a map"
        problems.append(document.problem((), f"the file {kind}", hint=f"it starts with apiVersion: {API_VERSION}"))
        return None, problems
    problems += _check_type_meta(document, data)
    # What has no kind or no version is taken for v1; of another kind or version, nothing is known.
    if data.get("kind") not in (None, "", KIND) or (data.get("apiVersion") and not _is_known(data)):
        return None, problems
    version = version_of(data)
    if not converting and version:
        problems += _check_version(document, version, flavour)
        if flavour.reads(version):
            problems += _check_image(document, data, flavour, version)
    if is_converted(version):
        notes = _convert(document, data)
        if not flavour.is_ours and not converting:
            # An image that reads the old version gets the file unchanged. It is known what scheduler-plugins refuses;
            # for others, what cannot be converted is refused.
            notes = [note for note in notes if note.severity == "error" and flavour.release is None]
        problems += notes
    if converting and flavour.reads("v1"):
        problems += _check_image(document, data, flavour, "v1")
    elif converting:
        message = f"{flavour.name} does not read v1 and would not start with it: it reads {', '.join(flavour.versions)}"
        hint = "give the file to that image as it is, or convert it for the image that comes next"
        problems.append(document.problem(("apiVersion",), message, hint=hint))
    model, _ = usable.decode(KubeSchedulerConfiguration, ())
    return model, problems


def _check_image(
    document: ConfigurationDocument, data: dict[str, Any], flavour: Flavour, version: str
) -> list[Problem]:
    if flavour.release is None:
        return []
    # Here, since our scheduler needs none of it.
    from scheduler.config.checks import check_release

    return list(check_release(document, data, flavour.name, flavour.release, version))


def _convert(document: ConfigurationDocument, data: dict[str, Any]) -> list[Problem]:
    notes: list[Problem] = []

    def report(container: object, key: str | int | None, message: str, hint: str, severity: Severity) -> None:
        place = document.location_of(container)
        loc = place if key is None else (*place, key)
        notes.append(document.problem(loc, message, hint=hint, severity=severity))

    convert(data, report)
    document.track_moves()
    return notes


def _check_version(document: ConfigurationDocument, version: str, flavour: Flavour) -> Iterator[Problem]:
    if flavour.is_ours or flavour.reads(version):
        return
    readable = ", ".join(flavour.versions)
    if flavour.family == "custom":
        message = (
            f"it is not known whether the image reads {version}: kube-scheduler 1.29 and later reads only {readable}"
        )
        yield document.problem(("apiVersion",), message, severity="warning")
        return
    hint = "run: secondary-scheduler convert FILE" if "v1" in flavour.versions else f"write one of {readable}"
    message = f"{flavour.name} does not read {version} and would not start: it reads {readable}"
    yield document.problem(("apiVersion",), message, hint=hint)


def _check_type_meta(document: ConfigurationDocument, data: dict[str, Any]) -> Iterator[Problem]:
    kind, version = data.get("kind"), data.get("apiVersion")
    if not kind:
        yield document.problem((), "Object 'Kind' is missing", hint=f"add kind: {KIND}")
    elif kind != KIND:
        yield document.problem(("kind",), f'no kind "{kind}" is known', hint=f"write kind: {KIND}")
    if not version:
        yield document.problem((), "apiVersion is missing", hint=f"add apiVersion: {API_VERSION}")
    elif not _is_known(data):
        message = f'no kind "{KIND}" is registered for version "{version}"'
        hint = f"write {API_VERSION}; {', '.join(CONVERTED_VERSIONS)} are converted"
        yield document.problem(("apiVersion",), message, hint=hint)


def _is_known(data: dict[str, Any]) -> bool:
    return data.get("apiVersion") == API_VERSION or is_converted(version_of(data))


def _named_profiles(model: KubeSchedulerConfiguration) -> list[KubeSchedulerProfile]:
    """Apply the default name, which upstream gives only to a single profile."""
    profiles = model.profiles or [KubeSchedulerProfile()]
    if len(profiles) == 1 and not profiles[0].scheduler_name:
        return [profiles[0].model_copy(update={"scheduler_name": DEFAULT_SCHEDULER_NAME})]
    return profiles


_SHOWN_NAME = 80


def _check_scheduler_name(
    document: ConfigurationDocument, profile: KubeSchedulerProfile, loc: Loc, *, default_allowed: bool, strict: bool
) -> Iterator[Problem]:
    at: Loc = (*loc, "schedulerName")
    hint = "give the profile a name of its own, such as secondary-scheduler"
    if not default_allowed:
        hint += ", or allow it explicitly (allowDefaultSchedulerName, --allow-default-scheduler-name)"
    if not profile.scheduler_name:
        yield document.problem(at, "is required when there are several profiles")
    elif profile.scheduler_name == DEFAULT_SCHEDULER_NAME:
        yield document.problem(
            at,
            "a second scheduler named default-scheduler competes with the cluster's own for every pod",
            hint=hint,
            severity="warning" if default_allowed else "error",
        )
    elif not is_subdomain(profile.scheduler_name):
        name_start = profile.scheduler_name[:_SHOWN_NAME]
        yield document.problem(
            at,
            f'Invalid value: "{name_start}": must be a DNS-1123 subdomain: lower case letters, digits, "-" and ".", '
            "beginning and ending with a letter or digit, at most 253 characters",
            hint="rename the profile, and with it spec.schedulerName of the pods that name it",
            severity="error" if strict else "warning",
        )


def _warn_of_left_out(document: ConfigurationDocument, profiles: list[EffectiveProfile]) -> Iterator[Problem]:
    for index, profile in enumerate(profiles):
        if profile.left_out:
            names = ", ".join(profile.left_out)
            message = f"default plugins that this scheduler does not implement yet are left out: {names}"
            hint = "disable them by name if they are not needed"
            yield document.problem(("profiles", index, "plugins"), message, hint=hint, severity="warning")
