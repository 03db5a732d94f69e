"""Decoding, defaulting and checking `pluginConfig`."""

from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.catalog import (
    DEFAULT_KUBERNETES,
    KUBERNETES_VERSIONS,
    OPTIONS,
    REMOVED_IN_V1,
    ArgsModel,
    CredentialRules,
    KubernetesVersion,
    LoadOptions,
    Loc,
    PeaksArgs,
    PluginDescriptor,
    SecondarySchedulerOptionsArgs,
    TrimaranArgs,
    credential_of,
    lookup,
    minor_of,
    nearest_kubernetes,
)
from scheduler.config.decode import Usable, nearest
from scheduler.config.document import ConfigurationDocument
from scheduler.config.flavours import OURS, Flavour
from scheduler.config.legacy import replacement
from scheduler.config.model import API_VERSION, KubeSchedulerProfile
from scheduler.config.problems import Problem
from scheduler.config.releases import FIELDS, ignores_args


class ArgsReader:
    """Reads the pluginConfig of one profile and collects its problems."""

    def __init__(
        self,
        document: ConfigurationDocument,
        usable: Usable,
        loc: Loc,
        flavour: Flavour,
        *,
        kubernetes: KubernetesVersion = DEFAULT_KUBERNETES,
        allow_token_in_config_map: bool,
        external_load: bool,
    ) -> None:
        self._kubernetes = kubernetes
        self._document = document
        self._usable = usable
        self._loc: Loc = (*loc, "pluginConfig")
        self._flavour = flavour
        self._allow_token = allow_token_in_config_map
        self._external_load = external_load
        self.problems: list[Problem] = []

    def read(self, profile: KubeSchedulerProfile) -> dict[str, ArgsModel]:
        """Return the args in the file, by plugin name; without those that have errors."""
        result: dict[str, ArgsModel] = {}
        seen: set[str] = set()
        for index, entry in enumerate(profile.plugin_config):
            at: Loc = (*self._loc, index)
            if entry.name in seen:
                self._error((*at, "name"), f'Duplicate value: "{entry.name}"')
            seen.add(entry.name)
            descriptor = self._descriptor(entry.name, (*at, "name"))
            if descriptor is None:
                continue
            args = self._args(descriptor, entry.args or {}, (*at, "args"))
            if args is not None:
                result[entry.name] = args
        return result

    def check_sources(
        self, profile: KubeSchedulerProfile, given_args: Mapping[str, ArgsModel], effective: Mapping[str, ArgsModel]
    ) -> None:
        """Report enabled plugins whose args name no load source.

        Args:
            profile: as written.
            given_args: args that decoded; a plugin with args in the profile and none here has a problem already.
            effective: args of enabled plugins, with defaults.
        """
        if self._external_load or not self._flavour.is_ours:
            return
        places = {entry.name: index for index, entry in enumerate(profile.plugin_config)}
        for name, model in effective.items():
            if not isinstance(model, PeaksArgs) or model.watcher_address or (name in places and name not in given_args):
                continue
            at: Loc = (*self._loc, places[name], "args") if name in places else self._loc
            message = f"missing, but {name} reads the nodes' load only from a load-watcher"
            self._error((*at, "WatcherAddress"), message, "give its URL")

    def check_needed(self, profile: KubeSchedulerProfile, effective: Mapping[str, ArgsModel]) -> None:
        """Report enabled plugins that have no args, though their defaults are not allowed.

        Args:
            profile: as written.
            effective: args of enabled plugins, with defaults.
        """
        written = {entry.name for entry in profile.plugin_config}
        for name, model in effective.items():
            if name not in written:
                fields = [str(below[0]) for below, _ in model.check_as(self._kubernetes)]
                if fields:
                    self._error(self._loc, f"{name} has no args, and needs {', '.join(fields)}")

    def check_credentials(
        self,
        profile: KubeSchedulerProfile,
        effective: Mapping[str, ArgsModel],
        rules: CredentialRules,
        options: LoadOptions,
    ) -> None:
        """Report credentials that the scheduler would not send, each place once.

        Args:
            profile: as written.
            effective: args of enabled plugins, with defaults.
            rules: what SecondaryScheduler or stack permit; where they are not known, what they could is a warning.
            options: how the profile reads load.
        """
        if self._external_load or not self._flavour.is_ours:
            return
        places = {entry.name: index for index, entry in enumerate(profile.plugin_config)}
        reported: set[Loc] = set()
        for name, model in effective.items():
            credential = credential_of(model, options)
            refusal = rules.refusal(credential) if credential is not None else None
            if refusal is None:
                continue
            of_options = refusal.field in ("tokenFile", "caFile")
            place = OPTIONS if of_options else name
            at: Loc = (*self._loc, places[place], "args") if place in places else self._loc
            if place in places:
                at = (*at, *_place_of(model, refusal.field))
            if at in reported:
                continue
            reported.add(at)
            (self._warn if refusal.undecided else self._error)(at, refusal.message, refusal.hint)

    def _error(self, loc: Loc, message: str, hint: str = "") -> None:
        self.problems.append(self._document.problem(loc, message, hint=hint))

    def _warn(self, loc: Loc, message: str, hint: str = "") -> None:
        self.problems.append(self._document.problem(loc, message, hint=hint, severity="warning"))

    def _descriptor(self, name: str, loc: Loc) -> PluginDescriptor | None:
        if name in REMOVED_IN_V1 and self._flavour.find(name) is None:
            self._error(loc, f'Invalid value: "{name}": was invalid in version "v1"', replacement(name))
            return None
        if name == OPTIONS:
            if not self._flavour.is_ours:
                self._warn(loc, f"only this project's own scheduler has {OPTIONS}: {self._flavour.name} ignores it")
            return lookup(OPTIONS)
        descriptor = self._flavour.find(name)
        if descriptor is not None:
            return descriptor
        hint = replacement(name) or nearest(name, (*self._flavour.names(), OPTIONS))
        if self._flavour.is_ours or lookup(name) is not None:
            self._error(loc, missing_plugin(name, self._flavour), hint)
        else:
            self._warn(loc, f'args of "{name}", which {self._flavour.name} does not have, are not checked', hint)
        return None

    def _args(self, descriptor: PluginDescriptor, data: Mapping[str, Any], loc: Loc) -> ArgsModel | None:
        data = dict(data)
        kind = data.pop("kind", f"{descriptor.name}Args")
        if kind != f"{descriptor.name}Args":
            message = f"args for plugin {descriptor.name} were not of type {descriptor.name}Args, got {kind}"
            self._error((*loc, "kind"), message)
        version = data.pop("apiVersion", API_VERSION)
        if version != API_VERSION:
            self._error((*loc, "apiVersion"), f'"{version}" is not {API_VERSION}')
        if descriptor.args_model is None or ignores_args(descriptor.name, self._flavour.release):
            if data and (descriptor.name in self._flavour.extra or lookup(descriptor.name) is None):
                self._warn(loc, f"args of {descriptor.name} are passed through unchecked")
            elif data and self._flavour.is_ours:
                self._error(loc, f"plugin {descriptor.name} takes no args", "remove them")
            elif data:
                self._warn(loc, f"plugin {descriptor.name} takes no args: these have no effect", "remove them")
            return None
        ignored = ("kind", "apiVersion", *self._fields_of_image(descriptor.name, descriptor.args_model))
        args, whole = self._usable.decode(descriptor.args_model, loc, ignored)
        if args is None:
            return None
        for below, message in args.check_as(self._kubernetes):
            self._error((*loc, *below), message, _remedy(descriptor.name, below, message, ours=self._flavour.is_ours))
        self._check_token(args, loc)
        return args if whole else None

    def _fields_of_image(self, plugin: str, model: type[ArgsModel]) -> Iterator[str]:
        """Fields that the release of the image has and the model has not."""
        release = self._flavour.release
        if release is None:
            return
        aliases = {info.alias for info in model.model_fields.values()}
        for field, span in FIELDS.get(plugin, {}).items():
            if field not in aliases and span.covers(release.number, None):
                yield field

    def _check_token(self, args: ArgsModel, loc: Loc) -> None:
        if not isinstance(args, TrimaranArgs) or not args.metric_provider.token:
            return
        at: Loc = (*loc, "metricProvider", "token")
        message = "a token in a ConfigMap can be read by everyone who can read ConfigMaps"
        if self._allow_token:
            self._warn(at, message)
        elif self._flavour.is_ours:
            self._error(
                at, message, "put it into a Secret (metricCredentials), or set allowTokenInConfigMap to accept that"
            )
        else:
            hint = "give watcherAddress instead, or set allowTokenInConfigMap: this image can read it from nowhere else"
            self._error(at, message, hint)


_LIST_CONSTRAINTS = (
    "add defaultingType: List, which the constraints need, or remove them to keep the built-in ones of System"
)


_SINCE_VERSION = {("DynamicResources", "bindingTimeout"): "1.36", ("VolumeBinding", "shape"): "1.37"}
"""Fields that newer versions of kube-scheduler take only, with the first."""


def _remedy(plugin: str, field: Loc, message: str, *, ours: bool) -> str:
    """What to do about a value whose problem is worded as kube-scheduler words it."""
    since = _SINCE_VERSION.get((plugin, str(field[0]))) if len(field) == 1 and "disabled" in message else None
    if since is not None:
        own = f', or set kubernetesVersion: "{since}" or later in the args of {OPTIONS}' if ours else ""
        return f"remove it{own}"
    if plugin == "PodTopologySpread" and field == ("defaultingType",):
        if "defaultConstraints" in message:
            return _LIST_CONSTRAINTS
        return "write System for the built-in constraints, or List with defaultConstraints"
    return ""


def _place_of(args: ArgsModel, field: str) -> Loc:
    """Where a field that concerns credentials stands below the args of the plugin, or of the options."""
    if field in ("tokenFile", "caFile"):
        return ("load", field)
    if field == "address" and isinstance(args, PeaksArgs):
        return ("WatcherAddress",)
    if field == "address" and isinstance(args, TrimaranArgs) and args.watcher_address:
        return ("watcherAddress",)
    return ("metricProvider", field)


def missing_plugin(name: str, flavour: Flavour, kind: str = "plugin") -> str:
    """Return the message about a plugin that the image does not have."""
    if flavour.is_ours or lookup(name) is None:
        return f'{kind} "{name}" does not exist'
    return f'{kind} "{name}" does not exist in {flavour.name}'


def with_defaults(
    given_args: Mapping[str, ArgsModel],
    enabled: tuple[str, ...],
    flavour: Flavour = OURS,
    kubernetes: KubernetesVersion = DEFAULT_KUBERNETES,
) -> dict[str, ArgsModel]:
    """Return the args, with the defaults of a version, of every enabled plugin that takes any."""
    result: dict[str, ArgsModel] = {}
    for name in enabled:
        descriptor = flavour.find(name)
        if descriptor is not None and descriptor.args_model is not None:
            args = given_args[name] if name in given_args else descriptor.args_model.model_validate({})
            result[name] = args.completed_as(kubernetes)
    return result


def options_of(given_args: Mapping[str, ArgsModel]) -> SecondarySchedulerOptionsArgs:
    """Return a profile's `SecondarySchedulerOptions`; defaults if the file has none."""
    options = given_args.get(OPTIONS)
    return options if isinstance(options, SecondarySchedulerOptionsArgs) else SecondarySchedulerOptionsArgs()


def kubernetes_of(profile: KubeSchedulerProfile, flavour: Flavour, cluster: int | None) -> KubernetesVersion:
    """Return the version of kube-scheduler that a profile behaves as: the one its options name, else the cluster's.

    Args:
        profile: as written; options with a version that is not known are refused elsewhere.
        flavour: of the image; others than ours behave as what they are built from.
        cluster: minor version of the cluster; None where it is not known.
    """
    if not flavour.is_ours:
        return nearest_kubernetes(flavour.kubernetes)
    for entry in profile.plugin_config:
        named = (entry.args or {}).get("kubernetesVersion") if entry.name == OPTIONS else None
        minor = minor_of(named) if isinstance(named, str) else None
        if minor is not None and minor in KUBERNETES_VERSIONS:
            return KUBERNETES_VERSIONS[minor]
    return DEFAULT_KUBERNETES if cluster is None else nearest_kubernetes(cluster)
