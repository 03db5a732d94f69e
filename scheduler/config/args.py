"""Decoding, defaulting and checking `pluginConfig`."""

from collections.abc import Mapping
from typing import Any

from scheduler.catalog import (
    OPTIONS,
    REMOVED_IN_V1,
    ArgsModel,
    Loc,
    PluginDescriptor,
    SecondarySchedulerOptionsArgs,
    TrimaranArgs,
    known_names,
    lookup,
)
from scheduler.config.decode import decode, nearest
from scheduler.config.document import Document
from scheduler.config.model import API_VERSION, Profile
from scheduler.config.problems import Problem


class ArgsReader:
    """Reads the pluginConfig of one profile and gathers what is wrong with it."""

    def __init__(self, document: Document, loc: Loc, *, allow_token_in_config_map: bool) -> None:
        self._document = document
        self._loc: Loc = (*loc, "pluginConfig")
        self._allow_token = allow_token_in_config_map
        self.problems: list[Problem] = []

    def read(self, profile: Profile) -> dict[str, ArgsModel]:
        """Return the args the file gives, by plugin name."""
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

    def _error(self, loc: Loc, message: str, hint: str = "") -> None:
        self.problems.append(self._document.problem(loc, message, hint=hint))

    def _descriptor(self, name: str, loc: Loc) -> PluginDescriptor | None:
        if name in REMOVED_IN_V1:
            self._error(loc, f'Invalid value: "{name}": was invalid in version "v1"', "NodeVolumeLimits covers it")
            return None
        descriptor = lookup(name)
        if descriptor is None:
            self._error(loc, f'plugin "{name}" does not exist', nearest(name, (*known_names(), OPTIONS)))
        return descriptor

    def _args(self, descriptor: PluginDescriptor, data: Mapping[str, Any], loc: Loc) -> ArgsModel | None:
        data = dict(data)
        kind = data.pop("kind", f"{descriptor.name}Args")
        if kind != f"{descriptor.name}Args":
            message = f"args for plugin {descriptor.name} were not of type {descriptor.name}Args, got {kind}"
            self._error((*loc, "kind"), message)
        version = data.pop("apiVersion", API_VERSION)
        if version != API_VERSION:
            self._error((*loc, "apiVersion"), f'"{version}" is not {API_VERSION}')
        if descriptor.args_model is None:
            if data:
                self._error(loc, f"plugin {descriptor.name} takes no args", "remove them")
            return None
        args = decode(self._document, data, descriptor.args_model, loc, self.problems)
        if args is None:
            return None
        for below, message in args.check():
            self._error((*loc, *below), message)
        self._check_token(args, loc)
        return args

    def _check_token(self, args: ArgsModel, loc: Loc) -> None:
        if not isinstance(args, TrimaranArgs) or not args.metric_provider.token:
            return
        at: Loc = (*loc, "metricProvider", "token")
        message = "a token in a ConfigMap can be read by everyone who can read ConfigMaps"
        if self._allow_token:
            self.problems.append(self._document.problem(at, message, severity="warning"))
        else:
            self._error(
                at, message, "put it into a Secret (metricCredentials), or set allowTokenInConfigMap if it must be so"
            )


def with_defaults(given: Mapping[str, ArgsModel], enabled: tuple[str, ...]) -> dict[str, ArgsModel]:
    """Return the args of every enabled plugin that has an args model, defaults filled in."""
    result: dict[str, ArgsModel] = {}
    for name in enabled:
        descriptor = lookup(name)
        if descriptor is not None and descriptor.args_model is not None:
            result[name] = given[name] if name in given else descriptor.args_model.model_validate({})
    return result


def options_of(given: Mapping[str, ArgsModel]) -> SecondarySchedulerOptionsArgs:
    """Return our own options of a profile; the defaults where the file has none."""
    options = given.get(OPTIONS)
    return options if isinstance(options, SecondarySchedulerOptionsArgs) else SecondarySchedulerOptionsArgs()
