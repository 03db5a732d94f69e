"""What would be decided with other weights or args: the form, the changed configuration, and the pods that move."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from scheduler.catalog import ExtensionPoint, lookup
from scheduler.config import (
    Configuration,
    ConfigurationError,
    EffectiveProfile,
    changed_plugins,
    completed,
    default_configuration,
    load_configuration,
    redacted,
)
from secondary_scheduler.balance import LOAD, REQUESTS, FigureSpread
from secondary_scheduler.simulation.comparing import ComparedPod, ComparedSide, Comparison, compare as compare_sides
from secondary_scheduler.views.arguments import Argument, arguments_of
from secondary_scheduler.views.pagemodels import PageModel
from secondary_scheduler.views.runs import Limits, SimulationRun

LIMITS = Limits(explained=0.0, total=30.0)
_MOVE_LIMIT = 500
_MAX_VALUE_LENGTH = 200
_MAX_WEIGHT = 1_000_000
_META = ("apiVersion", "kind")
_SOURCE_ARGS = frozenset({"metricProvider", "watcherAddress", "metricsUpdateIntervalSeconds"})
"""Args about where the load is read: here it is the snapshot's, whatever they say."""
_SCORING_POINTS = frozenset({ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE})
PENDING, ALL = PODS = ("pending", "all")
"""Which pods are compared: those that wait, or also those that run, placed again; as `plan --over` names them."""


class BadChange(Exception):
    """A field of the form cannot be used; `lines` say why."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = tuple(lines)


@dataclass(frozen=True, slots=True)
class Field:
    """An input of the form.

    Attributes:
        name: of the form's field: `weight:PLUGIN` or `arg:PLUGIN:INDEX`.
        label: what it is, for people.
        kind: `number`, `boolean` or `text`.
        value: as the configuration has it.
        entered: as the user left it.
    """

    name: str
    label: str
    kind: str
    value: str
    entered: str

    @property
    def changed(self) -> bool:
        """Whether the user changed it."""
        return self.entered != self.value


@dataclass(frozen=True, slots=True)
class Form:
    """The inputs for one profile: weights, and args by plugin.

    Attributes:
        chosen: plugins that the configuration switches on, or gives another weight or other args than by default; all
            where there are none.
    """

    profile: str
    profiles: tuple[str, ...]
    weights: tuple[Field, ...]
    args: Mapping[str, tuple[Field, ...]]
    chosen: frozenset[str]

    @property
    def others_changed(self) -> bool:
        """Whether the user changed an input of a plugin that is not among those chosen."""
        weights = any(field.changed for field in self.weights if field.label not in self.chosen)
        return weights or any(
            field.changed for name, group in self.args.items() if name not in self.chosen for field in group
        )

    @property
    def changes(self) -> list[Field]:
        """The inputs that the user changed."""
        fields = [*self.weights, *(field for group in self.args.values() for field in group)]
        return [field for field in fields if field.changed]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What changes.

    Attributes:
        undecided: pods that time did not suffice for.
        seconds: how long deciding again took.
    """

    comparison: Comparison
    undecided: int
    seconds: float

    @property
    def counts(self) -> Mapping[str, int]:
        """How many pods there are of each change, by its name in small letters."""
        return {change.name.lower(): count for change, count in self.comparison.counts.items()}

    @property
    def moves(self) -> list[ComparedPod]:
        """The first of the pods that fare differently."""
        return self.comparison.differing[:_MOVE_LIMIT]

    @property
    def balances(self) -> list[tuple[str, FigureSpread, FigureSpread]]:
        """How evenly the nodes would be used, by a title."""
        titles = {LOAD: "Estimated load", REQUESTS: "Requests", "cpu": "CPU", "memory": "memory"}
        return [
            (f"{titles[kind]} of {titles[resource]}", old, new)
            for kind, resource, old, new in self.comparison.spreads()
        ]


def usual_pods(page_model: PageModel) -> str:
    """Return which pods are compared unless the user says otherwise: all where none waits."""
    return ALL if page_model.place_again is not None and not page_model.run.decisions else PENDING


def form_of(configuration: Configuration, profile: str, entered: Mapping[str, str]) -> Form:
    """Return the form for a profile of the configuration, filled with what the user entered."""
    effective = configuration.profile(profile)

    def field(name: str, label: str, kind: str, value: str) -> Field:
        return Field(name, label, kind, value, entered.get(name, value).strip())

    weights = tuple(
        field(f"weight:{plugin.name}", plugin.name, "number", str(plugin.weight))
        for plugin in effective.plugins(ExtensionPoint.SCORE)
    )
    args = {}
    for name, leaves in sorted(_editable(completed_data(configuration), configuration, profile).items()):
        inputs = (field(f"arg:{name}:{index}", leaf.name, leaf.kind, leaf.shown) for index, leaf in leaves)
        if fields := tuple(inputs):
            args[name] = fields
    usual = default_configuration(
        allow_default_scheduler_name=True, cluster_minor=configuration.cluster_minor
    ).profiles[0]
    chosen = changed_plugins(usual, effective) or frozenset({*args, *(weight.label for weight in weights)})
    return Form(profile, configuration.scheduler_names, weights, args, chosen)


def completed_data(configuration: Configuration) -> dict[str, Any]:
    """Return the configuration with all defaults, as plain data."""
    data: dict[str, Any] = yaml.safe_load(completed(configuration))
    if configuration.model.percentage_of_nodes_to_score is None:
        # Upstream writes 0, which says the same.
        data.pop("percentageOfNodesToScore", None)
    return data


def changed_configuration(configuration: Configuration, form: Form) -> Configuration:
    """Return the configuration with the changes of a form.

    Raises:
        BadChange: it is not valid with them.
    """
    data = completed_data(configuration)
    leaves = {name: dict(fields) for name, fields in _editable(data, configuration, form.profile).items()}
    profile = _profile_of(data, configuration, form.profile)
    problems: list[str] = []
    for field in form.changes:
        kind, _, rest = field.name.partition(":")
        plugin, _, index = rest.rpartition(":") if kind == "arg" else (rest, "", "")
        try:
            if kind == "weight":
                _set_weight(profile, plugin, _weight(field.entered))
            else:
                leaf = leaves[plugin][int(index)]
                entry = next(entry for entry in profile["pluginConfig"] if entry["name"] == plugin)
                _set_leaf(entry["args"], leaf, _value(leaf, field.entered))
        except ValueError as error:
            problems.append(f"{plugin} {field.label if kind == 'arg' else 'weight'}: {error}")
    if problems:
        raise BadChange(problems)
    try:
        return load_configuration(
            data,
            source=configuration.source,
            flavour=configuration.flavour,
            allow_token_in_config_map=True,
            allow_default_scheduler_name=True,
            external_load=True,
            cluster_minor=configuration.cluster_minor,
        )
    except ConfigurationError as error:
        raise BadChange([str(problem) for problem in error.problems if problem.severity == "error"]) from error


def compare(before: SimulationRun, after: SimulationRun) -> WhatIf:
    """Return which pods fare differently in the second run. A replay that was ended has not come to all pods: what is
    missing on one side is left out."""
    decided = [{decision.pod: decision for decision in run.decisions} for run in (before, after)]
    old, new = (
        ComparedSide(run.configuration, {key: own[key] for key in decided[1] if key in decided[0]}, run.figures)
        for run, own in zip((before, after), decided, strict=True)
    )
    undecided = sum((decision.message or "").startswith("not decided: ") for decision in after.decisions)
    return WhatIf(compare_sides(old, new), undecided, after.seconds)


def _profile_of(data: dict[str, Any], configuration: Configuration, name: str) -> dict[str, Any]:
    profile: dict[str, Any] = data["profiles"][
        [profile.scheduler_name for profile in configuration.profiles].index(name)
    ]
    return profile


def _editable(data: dict[str, Any], configuration: Configuration, name: str) -> dict[str, list[tuple[int, Argument]]]:
    """The leaves that can be changed, by plugin, each with its index; those with secrets cannot. Those that change no
    decision of the profile are left out."""
    profile = _profile_of(data, configuration, name)
    effective = configuration.profile(name)
    running = set(effective.enabled)
    editable = {}
    for entry in profile.get("pluginConfig", ()):
        if entry["name"] not in running:
            continue
        args = {key: value for key, value in entry["args"].items() if key not in _META}
        pairs = zip(arguments_of(args), arguments_of(redacted(args)), strict=True)
        editable[entry["name"]] = [
            (index, leaf)
            for index, (leaf, masked) in enumerate(pairs)
            if leaf.kind and leaf == masked and _has_effect(leaf, entry["name"], effective)
        ]
    return editable


def _has_effect(leaf: Argument, plugin: str, profile: EffectiveProfile) -> bool:
    """Whether a simulation may depend on an arg: not on the load's source, nor on how a plugin scores that does not."""
    if leaf.path[0] in _SOURCE_ARGS:
        return False
    if any(scoring.name == plugin for scoring in profile.plugins(ExtensionPoint.SCORE)):
        return True
    descriptor = lookup(plugin)
    only_scores = descriptor is not None and descriptor.points <= _SCORING_POINTS
    return not only_scores and leaf.path[0] != "scoringStrategy"


def _set_weight(profile: dict[str, Any], plugin: str, weight: int) -> None:
    plugins = profile["plugins"]
    # What stands under score counts before what stands under multiPoint.
    for point in ("score", "multiPoint"):
        for entry in plugins.get(point, {}).get("enabled", ()):
            if entry["name"] == plugin:
                entry["weight"] = weight
                return
    raise ValueError("the plugin does not score")


def _set_leaf(args: dict[str, Any], leaf: Argument, value: Any) -> None:
    parent: Any = args
    for part in leaf.path[:-1]:
        parent = parent[part]
    parent[leaf.path[-1]] = copy.copy(value)


def _weight(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= _MAX_WEIGHT):
        raise ValueError(f"a number from 1 to {_MAX_WEIGHT:,}")
    return int(text)


def _value(leaf: Argument, text: str) -> Any:
    if len(text) > _MAX_VALUE_LENGTH:
        raise ValueError(f"at most {_MAX_VALUE_LENGTH} characters")
    if leaf.kind == "boolean":
        if text not in ("true", "false"):
            raise ValueError("true or false")
        return text == "true"
    if leaf.kind == "text":
        return text
    try:
        return int(text) if isinstance(leaf.value, int) else float(text)
    except ValueError:
        raise ValueError("a whole number" if isinstance(leaf.value, int) else "a number") from None
