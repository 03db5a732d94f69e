"""The configurations in a file: alone, in a ConfigMap, in a List, or among other documents; and what else a file is.

Everything that reads configurations of users goes through here, so that each reader takes the same files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from scheduler.config.document import check_size, is_too_deep
from scheduler.config.load import Configuration, load_configuration
from scheduler.config.model import API_VERSION, GROUP, KIND, KubeSchedulerConfiguration
from scheduler.config.problems import ConfigurationError, Problem

CONFIG_KEY = "config.yaml"
"""The key of a ConfigMap that the operator reads."""
CONFIG_MAP = "ConfigMap"
_FIELDS = frozenset(str(field.alias) for field in KubeSchedulerConfiguration.model_fields.values()) - {
    "apiVersion",
    "kind",
}
_OF_CHARTS = frozenset(
    {
        "affinity", "controller", "fullnameOverride", "global", "image", "nameOverride", "nodeSelector",
        "podAnnotations", "replicaCount", "resources", "scheduler", "serviceAccount", "tolerations",
    }
)  # fmt: skip
"""Top-level keys by which the values of a Helm chart are known."""
_KNOWN = {
    "Chart": "a Helm chart's Chart.yaml",
    "Config": "a kubeconfig",
    "Kustomization": "a Kustomization",
    "Policy": "a Policy of kube-scheduler, which was removed in Kubernetes 1.23",
}


@dataclass(frozen=True)
class FoundConfiguration:
    """A configuration in a file, and how its lines and columns are found there.

    Attributes:
        source: name of the file.
        kind: of the object that holds it: `KubeSchedulerConfiguration` or `ConfigMap`.
        title: which one of the file it is; empty for a file that is one configuration and nothing else.
        text: the configuration.
        owner: name of the ConfigMap.
        key: of the ConfigMap, where the text stands.
        line: of the file, where the text begins, from 1.
        column: by which its first line is shifted there.
        indent: by which its other lines are.
        is_block: whether its lines are lines of the file; else all of its problems stand at its beginning.
    """

    source: str
    kind: str
    title: str
    text: str
    owner: str = ""
    key: str = ""
    line: int = 1
    column: int = 0
    indent: int = 0
    is_block: bool = True

    def load(self, **options: Any) -> Configuration:
        """Return what it means; problems and warnings have their place in the file.

        Raises:
            ConfigurationError: as `load_configuration`, whose options these are.
        """
        try:
            configuration = load_configuration(self.text, source=self.source, **options)
        except ConfigurationError as error:
            raise ConfigurationError(map(self.in_file, (*error.problems, *error.warnings))) from error
        return replace(configuration, warnings=tuple(map(self.in_file, configuration.warnings)))

    def in_file(self, problem: Problem) -> Problem:
        """Return a problem of the text with its place in the file."""
        loc = ("data", self.key, *problem.loc) if self.key else problem.loc
        if not self.is_block or not problem.line:
            return replace(problem, loc=loc, line=self.line, column=1)
        shift = self.column if problem.line == 1 else self.indent
        return replace(problem, loc=loc, line=problem.line + self.line - 1, column=problem.column + shift)


class Manifests:
    """The objects of a file: its documents, and the elements of its Lists. It is parsed once, when it is first asked.

    Args:
        text: the file.
        source: its name.
    """

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source

    @cached_property
    def _roots(self) -> list[Node | None] | None:
        """The documents; None where it is no YAML, or cannot be parsed."""
        if is_too_deep(self._text):
            return None
        try:
            return list(YAML(pure=True).compose_all(self._text))
        except (YAMLError, ValueError, RecursionError):
            return None

    @cached_property
    def _objects(self) -> list[MappingNode]:
        return [each for root in self._roots or () if root is not None for each in _objects(root)]

    def of_kind(self, kind: str) -> list[MappingNode]:
        """Return the objects of a kind; none if it is no YAML."""
        return [each for each in self._objects if text_of(each, "kind") == kind]

    def configurations(self) -> list[FoundConfiguration]:
        """Return the configurations, at least one.

        Of a file that is no YAML, or says itself that it is a configuration, the whole text is one: loading it says
        what is wrong.

        Raises:
            ConfigurationError: it holds none; the message says what it is.
        """
        text, source = self._text, self._source
        check_size(text, source)
        whole = [FoundConfiguration(source, KIND, "", text)]
        roots, objects = self._roots, self._objects
        if roots is None:
            return whole
        if not objects and len(roots) <= 1 and not isinstance(next(iter(roots), None), MappingNode | SequenceNode):
            return whole
        if len(roots) == 1 and objects == roots and _is_configuration(objects[0]):
            return whole
        configurations = [each for node in objects for each in _found_in(text, source, node)]
        if not configurations:
            raise ConfigurationError(_explained(objects, roots, source))
        return configurations


def find_configuration(text: str, source: str) -> FoundConfiguration:
    """Return the only configuration of a file.

    Raises:
        ConfigurationError: it holds none, or several.
    """
    configurations = Manifests(text, source).configurations()
    if len(configurations) > 1:
        titles = "; ".join(each.title for each in configurations)
        message = f"holds {len(configurations)} configurations; give one ({titles})"
        raise ConfigurationError([Problem((), message, source=source)])
    return configurations[0]


def _objects(root: Node) -> Iterator[MappingNode]:
    """Yield a document, or the elements of a List."""
    if not isinstance(root, MappingNode):
        return
    items = _child(root, "items")
    if text_of(root, "kind").endswith("List") and isinstance(items, SequenceNode):
        for item in items.value:
            yield from _objects(item)
    else:
        yield root


def _is_configuration(node: MappingNode) -> bool:
    """Whether an object says that it is a configuration, or has the fields of one and says nothing else."""
    kind, version = text_of(node, "kind"), text_of(node, "apiVersion")
    if kind == KIND or version.partition("/")[0] == GROUP:
        return True
    return not kind and not version and any(str(key.value) in _FIELDS for key, _ in node.value)


def _found_in(text: str, source: str, node: MappingNode) -> Iterator[FoundConfiguration]:
    if _is_configuration(node):
        yield _sliced(text, source, node)
    elif text_of(node, "kind") == CONFIG_MAP and (entry := _entry(node)) is not None:
        key, value = entry
        name, namespace = _name(node)
        title = f"{CONFIG_MAP} {f'{namespace}/' if namespace else ''}{name or 'without a name'}, key {key}"
        inner, line, indent = str(value.value), value.start_mark.line + 1, 0
        if value.style == "|":
            lines = text.splitlines()[line:]
            outer = next((each for each in lines if each.strip()), "")
            first = next((each for each in inner.splitlines() if each.strip()), "")
            indent = len(outer) - len(outer.lstrip()) - (len(first) - len(first.lstrip()))
            line += 1
        yield FoundConfiguration(
            source, CONFIG_MAP, title, inner, name, key, line, indent, indent, is_block=value.style == "|"
        )


def _sliced(text: str, source: str, node: MappingNode) -> FoundConfiguration:
    """The part of a text that is one object, with its comments."""
    line, column = node.start_mark.line + 1, node.start_mark.column
    part = text[node.start_mark.index : node.end_mark.index]
    indent = 0
    if not node.flow_style and column:
        indent = column
        first, *others = part.splitlines()
        part = "\n".join([first, *(each[indent:] if not each[:indent].strip() else each for each in others)]) + "\n"
    title = f"the {KIND} in line {line}"
    return FoundConfiguration(source, KIND, title, part, line=line, column=column, indent=indent)


def _entry(node: MappingNode) -> tuple[str, ScalarNode] | None:
    """The key of a ConfigMap that holds a configuration: the one that the operator reads, else the first."""
    data = _child(node, "data")
    entries = {str(key.value): value for key, value in data.value} if isinstance(data, MappingNode) else {}
    texts = {key: value for key, value in entries.items() if isinstance(value, ScalarNode)}
    chosen = CONFIG_KEY if CONFIG_KEY in texts else next((key for key in texts if KIND in str(texts[key].value)), None)
    return (chosen, texts[chosen]) if chosen is not None else None


def _explained(objects: Sequence[MappingNode], roots: Sequence[Node | None], source: str) -> Iterator[Problem]:
    """Yield what a file is that holds no configuration."""
    hint = f"a configuration starts with apiVersion: {API_VERSION} and kind: {KIND}"
    maps = [node for node in objects if text_of(node, "kind") == CONFIG_MAP]
    for node in maps:
        data = _child(node, "data")
        keys = ", ".join(str(key.value) for key, _ in data.value) if isinstance(data, MappingNode) else ""
        message = f"the ConfigMap has no key {CONFIG_KEY} (its keys: {keys or 'none'})"
        line = node.start_mark.line + 1
        yield Problem(("data",), message, line, 1, "error", f"put the {KIND} there as text", source)
    if maps:
        return
    kinds: dict[str, None] = dict.fromkeys(map(_what_it_is, objects))
    line = objects[0].start_mark.line + 1 if objects else 1
    if not objects:
        kinds = {"an empty List" if isinstance(roots[0], MappingNode) else "a list": None}
    named = ", ".join(list(kinds)[:5]) + (f" and {len(kinds) - 5} more" if len(kinds) > 5 else "")
    verb = "these are" if len(objects) > 1 or named.startswith("Helm") else "this is"
    yield Problem((), f"{verb} {named}, no configuration", line, 1, "error", hint, source)


def _what_it_is(node: MappingNode) -> str:
    """Return what an object is that is no configuration, in a few words."""
    kind, version = text_of(node, "kind"), text_of(node, "apiVersion")
    keys = {str(key.value) for key, _ in node.value}
    if kind:
        article = "an" if kind[:1] in "AEIO" else "a"
        return _KNOWN.get(kind) or f"{article} {kind}{f' of {version}' if version else ''}"
    if {"apiVersion", "name", "version"} <= keys:
        return _KNOWN["Chart"]
    if {"name", "runtime"} <= keys:
        return "a Pulumi project (the settings are in Pulumi.STACK.yaml)"
    if "config" in keys or "encryptionsalt" in keys:
        return "a stack file of Pulumi"
    if keys & _OF_CHARTS:
        return "Helm values"
    listed = ", ".join(sorted(keys)[:6])
    return f"a map without apiVersion and kind (its keys: {listed or 'none'})"


def _name(node: MappingNode) -> tuple[str, str]:
    metadata = _child(node, "metadata")
    if not isinstance(metadata, MappingNode):
        return "", ""
    return text_of(metadata, "name"), text_of(metadata, "namespace")


def _child(node: MappingNode, key: str) -> Node | None:
    """Return the value of a key of a map; None where there is none."""
    return next((value for name, value in node.value if str(name.value) == key), None)


def text_of(node: MappingNode, key: str) -> str:
    """Return the text of a key of a map; empty where there is none."""
    value = _child(node, key)
    return str(value.value) if isinstance(value, ScalarNode) else ""
