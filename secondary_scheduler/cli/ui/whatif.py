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
    completed,
    default_configuration,
    load_configuration,
    redacted,
)
from scheduler.framework import FloatArray
from secondary_scheduler.simulation.results import PLACED
from secondary_scheduler.views.arguments import Argument, arguments_of
from secondary_scheduler.views.nodes import ESTIMATED, REQUESTED, RESOURCES
from secondary_scheduler.views.runs import Limits, PodDecision, Run
from secondary_scheduler.views.scenes import Scene

LIMITS = Limits(explained=0.0, total=30.0)
_MOST_MOVES = 500
_MOST_VALUE = 200
_MOST_WEIGHT = 1_000_000
_META = ("apiVersion", "kind")
_OF_THE_SOURCE = frozenset({"metricProvider", "watcherAddress", "metricsUpdateIntervalSeconds"})
"""Args about where the load is read: here it is the snapshot's, whatever they say."""
_OF_SCORING = frozenset({ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE})
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
class Move:
    """A pod that would fare differently; a node is None where it gets none."""

    number: int
    key: str
    before: PodDecision
    after: PodDecision


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly the nodes would be used: means and standard deviations in percent; None where nothing is known."""

    title: str
    mean: tuple[float | None, float | None]
    spread: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changes.

    Attributes:
        moves: at most some hundreds; `moved` counts all.
        placed, lost: pods that would get a node and have none now, and the reverse.
        undecided: pods that time did not suffice for.
    """

    moves: tuple[Move, ...]
    moved: int
    placed: int
    lost: int
    undecided: int
    pods: int
    balances: tuple[Balance, ...]
    seconds: float


def usual_pods(scene: Scene) -> str:
    """Return which pods are compared unless the user says otherwise: all where none waits."""
    return ALL if scene.place_again is not None and not scene.run.decisions else PENDING


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
    chosen = _chosen(effective, configuration.cluster_minor) or frozenset({*args, *(each.label for each in weights)})
    return Form(profile, configuration.scheduler_names, weights, args, chosen)


def _chosen(profile: EffectiveProfile, cluster_minor: int | None) -> frozenset[str]:
    usual = default_configuration(allow_default_scheduler_name=True, cluster_minor=cluster_minor).profiles[0]
    weights, usual_weights = (
        {plugin.name: plugin.weight for plugin in each.plugins(ExtensionPoint.SCORE)} for each in (profile, usual)
    )

    def is_usual(name: str) -> bool:
        args = [each.plugin_args[name].to_dict() if name in each.plugin_args else {} for each in (profile, usual)]
        return name in usual.enabled and weights.get(name) == usual_weights.get(name) and args[0] == args[1]

    return frozenset(name for name in profile.enabled if not is_usual(name))


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


def compare(before: Run, after: Run) -> Comparison:
    """Return which pods fare differently in the second run."""
    by_key = {decision.key: decision for decision in before.decisions}
    moves = [
        Move(decision.number, decision.key, by_key[decision.key], decision)
        for decision in after.decisions
        if decision.key in by_key and (decision.node, decision.result) != _fate(by_key[decision.key])
    ]
    return Comparison(
        tuple(moves[:_MOST_MOVES]),
        len(moves),
        sum(move.after.result == PLACED != move.before.result for move in moves),
        sum(move.before.result == PLACED != move.after.result for move in moves),
        sum(decision.message.startswith("not decided: ") for decision in after.decisions),
        len(after.decisions),
        tuple(_balances(before, after)),
        after.seconds,
    )


def _fate(decision: PodDecision) -> tuple[str | None, str]:
    return decision.node, decision.result


def _balances(before: Run, after: Run) -> list[Balance]:
    titles = {"cpu": "CPU", "memory": "memory"}
    balances = []
    for measure, title in ((ESTIMATED, "Estimated load"), (REQUESTED, "Requests")):
        for resource in RESOURCES:
            columns = [run.after.shares[measure, resource] for run in (before, after)]
            (mean, spread), (new_mean, new_spread) = map(_statistics, columns)
            balances.append(Balance(f"{title} of {titles[resource]}", (mean, new_mean), (spread, new_spread)))
    return balances


def _statistics(values: FloatArray) -> tuple[float | None, float | None]:
    known = values[values == values]
    return (float(known.mean()), float(known.std())) if len(known) else (None, None)


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
    if leaf.path[0] in _OF_THE_SOURCE:
        return False
    if any(each.name == plugin for each in profile.plugins(ExtensionPoint.SCORE)):
        return True
    descriptor = lookup(plugin)
    only_scores = descriptor is not None and descriptor.points <= _OF_SCORING
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
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= _MOST_WEIGHT):
        raise ValueError(f"a number from 1 to {_MOST_WEIGHT:,}")
    return int(text)


def _value(leaf: Argument, text: str) -> Any:
    if len(text) > _MOST_VALUE:
        raise ValueError(f"at most {_MOST_VALUE} characters")
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
