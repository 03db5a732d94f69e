"""Which configuration the scheduler runs: the user's if it is valid, else the last valid one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from scheduler import operand
from scheduler.catalog import CredentialRules
from scheduler.config import (
    DEFAULT_SCHEDULER_NAME,
    OURS,
    ConfigurationError,
    ExtraPlugin,
    InvalidSpecError,
    LeaseFlags,
    configuration_hash,
    custom_flavour,
    default_configuration,
    image_flavour,
    load_configuration,
    overridden_lease_keys,
    parse_spec,
    read_document,
    rebalancer_obstacles,
)
from secondary_scheduler.operator.reconcile import names
from secondary_scheduler.operator.reconcile.model import Json, Observed, digest
from secondary_scheduler.operator.reconcile.revision import Revision, read_run

MAX_PROBLEMS_SHOWN = 5
"""A condition is read by people: the first problems and a count of the rest."""


@dataclass(frozen=True)
class InstanceProblem:
    """Something a person must put right; `reason` is a condition reason, `message` says what, where and what to do."""

    reason: str
    message: str


@dataclass(frozen=True)
class EffectiveConfiguration:
    """A configuration that scheduler.config accepts."""

    text: str
    hash: str
    scheduler_names: tuple[str, ...]
    plugins: tuple[str, ...]
    """Names of all plugins enabled in any profile: they decide which ClusterRoles are bound."""
    warnings: tuple[str, ...] = ()
    ports: tuple[int, ...] | None = None
    """TCP ports of its metric sources and extenders; None if they are not known."""
    rebalancer_obstacles: tuple[str, ...] = (
        "needs a configuration that is validated: remove configPolicy PassThrough",
    )
    """Why a rebalancer beside its scheduler could never move anything; empty if it could."""


@dataclass(frozen=True)
class Selection:
    """The configuration to run, if there is any, and what is wrong with the user's, if anything."""

    effective: EffectiveConfiguration | None
    problem: InstanceProblem | None = None


# The same few texts are asked for at every reconcile; parsing one takes tens of milliseconds.
@lru_cache(maxsize=16)
def evaluate(
    text: str,
    source: str,
    flavour: str = "",
    image: str = "",
    extra: tuple[ExtraPlugin, ...] = (),
    *,
    allow_default_name: bool = False,
    allow_token: bool = False,
    rules: CredentialRules | None = None,
) -> EffectiveConfiguration | InstanceProblem:
    """Validate one config.yaml for an image; one that is not known yet is ours. `source` is how problems name it.

    `flavour` is what the image is, where its name does not tell; `extra` is what it has, if it is a custom one.
    `rules` say which credentials for metric sources it may send; None for any, as the scheduler judges them itself.
    """
    judged = image_flavour(image, flavour) if image or flavour or extra else OURS
    try:
        configuration = load_configuration(
            text,
            source=source,
            flavour=custom_flavour(extra) if judged.family == "custom" else judged,
            allow_default_scheduler_name=allow_default_name,
            into_cluster=True,
            allow_token_in_config_map=allow_token,
            credential_rules=rules,
        )
    except ConfigurationError as error:
        shown = [str(problem) for problem in error.problems[:MAX_PROBLEMS_SHOWN]]
        if len(error.problems) > len(shown):
            shown.append(f"and {len(error.problems) - len(shown)} more")
        return InstanceProblem("ConfigInvalid", "; ".join(shown))
    plugins = sorted({plugin for profile in configuration.profiles for plugin in profile.enabled})
    return EffectiveConfiguration(
        text=text,
        hash=configuration.hash,
        scheduler_names=tuple(configuration.scheduler_names),
        plugins=tuple(plugins),
        warnings=tuple(str(warning) for warning in configuration.warnings),
        ports=operand.source_ports(configuration),
        rebalancer_obstacles=tuple(rebalancer_obstacles(configuration)),
    )


# As above.
@lru_cache(maxsize=16)
def unchecked(text: str) -> EffectiveConfiguration:
    """The same without any judgement: what its author names is taken to exist; it may not even be YAML."""
    try:
        data = read_document(text, "configuration").data
    except ConfigurationError:
        data = None
    profiles = data.get("profiles") if isinstance(data, dict) else None
    profile_maps = [profile for profile in profiles if isinstance(profile, dict)] if isinstance(profiles, list) else []
    scheduler_names = [str(profile.get("schedulerName") or DEFAULT_SCHEDULER_NAME) for profile in profile_maps]
    plugins = set(default_configuration(allow_default_scheduler_name=True).profiles[0].enabled)
    plugins |= {name for profile in profile_maps for name in _plugin_names(profile.get("plugins"))}
    return EffectiveConfiguration(text, content_hash(text), tuple(scheduler_names), tuple(sorted(plugins)))


def content_hash(text: str) -> str:
    """The hash by which a configuration is named; of what is not YAML, that of its text."""
    try:
        return configuration_hash(text)
    except ConfigurationError:
        return digest(text)[:16]


def _plugin_names(value: Any) -> Iterator[str]:
    """Every `name` below a value."""
    if isinstance(value, dict):
        if isinstance(value.get("name"), str):
            yield value["name"]
        for part in value.values():
            yield from _plugin_names(part)
    elif isinstance(value, list):
        for part in value:
            yield from _plugin_names(part)


def lease_flag_warning(text: str, flags: Mapping[str, object]) -> str:
    """A warning about keys of `leaderElection` that say something else than the flags, which win; empty without any."""
    try:
        keys = overridden_lease_keys(read_document(text, "configuration").data, LeaseFlags.model_validate(flags))
    except (ConfigurationError, ValueError):
        # Validation of the configuration reports what is wrong with it.
        return ""
    if not keys:
        return ""
    listed = ", ".join(f"leaderElection.{key}" for key in keys)
    return (
        f"{listed} in {names.CONFIG_KEY} {'have' if len(keys) > 1 else 'has'} no effect: the flags that the operator "
        "sets from spec.leaderElection take precedence; set timings there and remove these keys"
    )


def select_configuration(observed: Observed, config_map_name: str) -> Selection:
    """The user's configuration if it is valid, else the last good one together with the problem."""
    if "ConfigMap" in observed.unreadable:
        return Selection(last_good(observed))
    result = _user_configuration(observed, config_map_name)
    if isinstance(result, EffectiveConfiguration):
        conflict = _name_conflict(observed, result)
        if conflict is None:
            return Selection(result)
        result = conflict
    fallback = last_good(observed)
    if fallback is not None:
        consequence = f"the scheduler keeps its last good configuration {fallback.hash}"
    elif observed.get("Deployment", observed.names.operand) is not None:
        consequence = "the running scheduler stays as it is"
    else:
        consequence = "no scheduler is started until this is fixed"
    return Selection(fallback, InstanceProblem(result.reason, f"{result.message} ({consequence})"))


def _name_conflict(observed: Observed, wanted: EffectiveConfiguration) -> InstanceProblem | None:
    """Whether another instance has a right to one of the scheduler names: two schedulers would place the same pods.

    Whoever serves the name keeps it; before anybody does, the older instance gets it.
    """
    for other in observed.others:
        metadata = other["metadata"]
        state = (other.get("spec") or {}).get("managementState")
        if metadata.get("deletionTimestamp") or state == "Removed":
            continue
        its_view = observed.of_other(other)
        claimed = _user_configuration(its_view, _spec(its_view, "schedulerConfig"))
        served = set((other.get("status") or {}).get("schedulerNames") or ())
        names_of_other = served | set(claimed.scheduler_names if isinstance(claimed, EffectiveConfiguration) else ())
        for name in wanted.scheduler_names:
            if name in names_of_other and _precedence(other, name) < _precedence(observed.resource, name):
                return InstanceProblem(
                    "SchedulerNameTaken",
                    f'schedulerName "{name}" belongs to SecondaryScheduler {metadata["namespace"]}/{metadata["name"]}: '
                    "give this instance's profile another name",
                )
    return None


def _precedence(resource: Json, name: str) -> tuple[bool, str, str, str]:
    metadata = resource["metadata"]
    serves = name in ((resource.get("status") or {}).get("schedulerNames") or ())
    return not serves, str(metadata.get("creationTimestamp", "")), str(metadata["namespace"]), str(metadata["name"])


def last_good(observed: Observed) -> EffectiveConfiguration | None:
    """The configuration in the copy that the Deployment mounts, or in the newest copy if there is no Deployment."""
    copies = active_copies(observed)
    deployment = observed.get("Deployment", observed.names.operand)
    if deployment is not None:
        mounted = mounted_config_map(deployment)
        copies = [copy for copy in copies if copy["metadata"]["name"] == mounted]
    if not copies:
        return None
    newest = max(copies, key=lambda copy: str(copy["metadata"].get("creationTimestamp", "")))
    text = _text(newest)
    if text is None:
        return None
    run = read_run(deployment, names.ANNOTATION_REVISION)
    image, flavour = _spec(observed, "schedulerImage"), _spec(observed, "flavour")
    if run is not None:
        image, flavour = run.revision.image, run.revision.flavour_name
    return _configuration_once_accepted(observed, text, str(newest["metadata"]["name"]), flavour, image)


def read_copy(observed: Observed, revision: Revision) -> EffectiveConfiguration | None:
    """What a revision's configuration means, read from its copy; None if that is gone."""
    name = observed.names.active_config_map(revision.configuration)
    copy = observed.get("ConfigMap", name)
    text = _text(copy) if copy is not None else None
    if text is None:
        return None
    return _configuration_once_accepted(observed, text, name, revision.flavour_name, revision.image)


def _configuration_once_accepted(
    observed: Observed, text: str, source: str, flavour: str, image: str
) -> EffectiveConfiguration:
    # What was accepted once is not refused for a permission, or a policy, that has been withdrawn since.
    extra = _extra_plugins(observed)
    result = evaluate(text, source, flavour, image, extra, allow_default_name=True, allow_token=True)
    return result if isinstance(result, EffectiveConfiguration) else unchecked(text)


def active_copies(observed: Observed) -> list[Json]:
    """The immutable copies of configurations that this operator made for the instance."""
    return [
        config_map
        for config_map in observed.of_kind("ConfigMap")
        if config_map["metadata"]["name"].startswith(observed.names.active_config_map(""))
        and observed.names.owns(config_map)
    ]


def mounted_config_map(workload: Json) -> str | None:
    """Name of the ConfigMap that a Deployment's or a Pod's configuration volume comes from."""
    spec = workload["spec"]
    pod_spec = spec["template"]["spec"] if "template" in spec else spec
    for volume in pod_spec.get("volumes") or []:
        if volume["name"] == names.CONFIG_VOLUME:
            name = (volume.get("configMap") or {}).get("name")
            return str(name) if name else None
    return None


def _user_configuration(observed: Observed, name: str) -> EffectiveConfiguration | InstanceProblem:
    if not name:
        return InstanceProblem(
            "ConfigMapNotNamed", f"spec.schedulerConfig is empty: name the ConfigMap that holds {names.CONFIG_KEY}"
        )
    source = f"ConfigMap {observed.namespace}/{name}"
    config_map = observed.get("ConfigMap", name)
    if config_map is None:
        return InstanceProblem(
            "ConfigMapMissing", f"{source}, named by spec.schedulerConfig, does not exist: create it"
        )
    text = _text(config_map)
    if text is None:
        keys = ", ".join(sorted(config_map.get("data") or {})) or "none"
        return InstanceProblem(
            "ConfigMapKeyMissing",
            f"{source} has no key {names.CONFIG_KEY} (its keys: {keys}): put the KubeSchedulerConfiguration there",
        )
    if _spec(observed, "configPolicy") == "PassThrough":
        return unchecked(text)
    return evaluate(
        text,
        f"{source} {names.CONFIG_KEY}",
        _spec(observed, "flavour"),
        _spec(observed, "schedulerImage"),
        _extra_plugins(observed),
        allow_default_name=bool(_spec(observed, "allowDefaultSchedulerName")),
        allow_token=bool(_spec(observed, "allowTokenInConfigMap")),
        rules=_credential_rules(observed),
    )


def _spec(observed: Observed, field: str) -> str:
    """A field of the instance's spec as text; empty if it is absent or false."""
    return str((observed.resource.get("spec") or {}).get(field) or "")


def _credential_rules(observed: Observed) -> CredentialRules:
    try:
        return parse_spec(observed.resource).credential_rules
    except InvalidSpecError:
        return CredentialRules()


def _extra_plugins(observed: Observed) -> tuple[ExtraPlugin, ...]:
    try:
        return parse_spec(observed.resource).extra_image_plugins
    except InvalidSpecError:
        return ()


def _text(config_map: Json) -> str | None:
    text = (config_map.get("data") or {}).get(names.CONFIG_KEY)
    return str(text) if text is not None else None
