"""Writes what is derived from the models of the settings: the JSON Schemas that editors check stack files and
configurations with, the keys that Pulumi.yaml declares, the components' Args, the component package's inputs, this
project's fields in the CRD of SecondaryScheduler, and the table of docs/stack-settings.md.

An editor sees types, names and ranges; what the validators say beyond that, `secondary-scheduler validate` reports.

    tools/schemas.py           writes them
    tools/schemas.py --check   exit code 1 if what is checked in differs
"""

from __future__ import annotations

import builtins
import inspect
import itertools
import json
import re
import sys
import textwrap
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # stacks is not installed

import yaml  # noqa: E402
from pydantic import BaseModel  # noqa: E402
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema  # noqa: E402
from rich.console import Console  # noqa: E402

from components.settings import PluginChoice  # noqa: E402
from scheduler.catalog import ArgsModel, descriptors, out_of_tree_descriptors  # noqa: E402
from scheduler.config import (  # noqa: E402
    API_VERSION,
    KIND,
    KubeSchedulerConfiguration,
    OptionalObjects,
    RebalancerSpec,
    SchedulerSettings,
    SpecExtensions,
)
from stacks.settings import StackSettings  # noqa: E402
from tools.linting import between_marks  # noqa: E402

DIRECTORY = ROOT / "docs" / "schemas"
PROJECT = ROOT / "Pulumi.yaml"
ARGS, PACKAGED = ROOT / "components" / "settings_args.py", ROOT / "components" / "packaged.py"
PACKAGE = ROOT / "components" / "package" / "schema.json"
CRD = ROOT / "components" / "crds" / "operator.openshift.io_secondaryschedulers.yaml"
STACK_PAGE = ROOT / "docs" / "stack-settings.md"
_BEGIN, _END = "# begin: make schemas\n", "# end: make schemas\n"
_PAGE_BEGIN, _PAGE_END = "<!-- begin: make schemas -->\n", "<!-- end: make schemas -->\n"
_EXTENSION = "Extension: "
STACK, CONFIGURATION = "stack.schema.json", "kubeschedulerconfiguration.schema.json"
_DRAFT = "http://json-schema.org/draft-07/schema#"
_PREFIX = "secondary-scheduler:"
_SECRETS = {
    "prometheusToken": "Bearer token for the metric source: pulumi config set --secret prometheusToken",
    "kubeconfig": "Kubeconfig of the cluster, instead of $KUBECONFIG: pulumi config set --secret kubeconfig < FILE",
}
_DURATION = {"type": "string", "pattern": r"^[-+]?(0|([0-9]*\.?[0-9]+(ns|us|µs|ms|s|m|h))+)$"}
_FIELD = re.compile(r"^ {4}(?P<names>\w+(?:, \w+)*): (?P<text>.*)$")


class _SettingsGenerator(GenerateJsonSchema):
    """Without titles, which only repeat names; with the docstrings' attributes as descriptions of properties."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def function_before_schema(self, schema: Any) -> JsonSchemaValue:
        inner = super().function_before_schema(schema)
        # What these turn into the inner type, a file may hold as well.
        match getattr(schema["function"]["function"], "__name__", ""):
            case "parse_duration":
                return dict(_DURATION)
            case "_quantity":
                return {"type": ["string", "number"]}
            case "_address":
                return {"anyOf": [{"type": "string"}, *inner.get("anyOf", [inner])]}
            case "absent_if_empty":
                return {"anyOf": [*inner.get("anyOf", [inner]), {"type": "object", "maxProperties": 0}]}
        return inner

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        content = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        content.pop("title", None)
        summary, descriptions = _documentation(model)
        if summary:
            content["description"] = summary
        for name, field in model.model_fields.items():
            described = content["properties"].get(field.alias or name)
            if described is not None and name in descriptions:
                described["description"] = descriptions[name]
        for described in content["properties"].values():
            if isinstance(described.get("default", 0), dict | list | None):
                del described["default"]  # what an editor would insert
            if described.get("pattern") == _DURATION["pattern"] and isinstance(described.get("default"), float):
                described["default"] = f"{described['default']:g}s"
        if model.__name__ == "PluginConfig" or issubclass(model, PluginChoice):
            content["allOf"] = list(_args_by_plugin(complete=not issubclass(model, PluginChoice)))
        return content


def derived() -> Iterator[tuple[Path, str]]:
    """The text of every file that is derived from the models; one may follow from those before it."""
    yield DIRECTORY / STACK, _json(_stack())
    yield DIRECTORY / CONFIGURATION, _json(_configuration())
    yield PROJECT, _project(PROJECT.read_text())
    yield ARGS, _args_module()
    yield PACKAGED, _packaged(PACKAGED.read_text())
    yield PACKAGE, _json(_package_schema(json.loads(PACKAGE.read_text())))
    yield CRD, _crd(CRD.read_text())
    yield STACK_PAGE, _stack_page(STACK_PAGE.read_text())


def _json(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _wrapped(text: str, first: int, others: int) -> list[str]:
    return textwrap.wrap(text, 120, initial_indent=" " * first, subsequent_indent=" " * others, break_on_hyphens=False)


def _args_module() -> str:
    """The settings as a dataclass: its fields take what a program has, and are checked in the component."""
    descriptions = _documentation(SchedulerSettings)[1]
    documentation = [
        line for name in SchedulerSettings.model_fields for line in _wrapped(f"{name}: {descriptions[name]}", 4, 8)
    ]
    fields = []
    for name, info in SchedulerSettings.model_fields.items():
        default = info.get_default(call_default_factory=True)
        text = json.dumps(default) if isinstance(default, str) else repr(default)
        if isinstance(default, dict | BaseModel):
            text = f"field(default_factory={'OptionalObjects' if isinstance(default, OptionalObjects) else 'dict'})"
        optional = " | None" if default is None else ""
        fields.append(f"    {name}: {_python_type(info.annotation, 'Sequence', 'Mapping')}{optional} = {text}")
    abstract = "Mapping, Sequence" if any("Mapping[" in line for line in fields) else "Sequence"
    lines = [
        '"""The settings among the Args of `SchedulerInstallation`. Written by `make schemas`."""',
        "",
        "from __future__ import annotations",
        "",
        f"from collections.abc import {abstract}",
        "from dataclasses import dataclass, field",
        *(["from typing import Any"] if any("Any]" in line for line in fields) else []),
        "",
        "from scheduler.config import OptionalObjects as OptionalObjects, SchedulerSettings as SchedulerSettings",
        "",
        "",
        "@dataclass(frozen=True, kw_only=True)",
        "class SettingsArgs:",
        '    """Attributes:',
    ]
    return "\n".join([*lines, *documentation, '    """', "", *fields, ""])


def _packaged(text: str) -> str:
    """The module of the package's inputs, with those that are settings: what the analyzer can read."""
    parts = []
    for model in (OptionalObjects, SchedulerSettings):
        descriptions = _documentation(model)[1]
        lines = []
        for name, field in model.model_fields.items():
            described = _sentence(descriptions[name])
            default = field.get_default()
            if isinstance(default, bool | int | str) and default is not False:
                described += f" Default: {default if isinstance(default, str) else json.dumps(default)}."
            key = "protect_objects" if name == "protect" else name  # which is an option of every resource
            lines.append(f"    {key}: {_python_type(field.annotation, 'list', 'dict')} | None")
            lines.append(f'    """{described}"""')  # in one line, because the schema keeps the breaks
        parts.append("".join(f"{line}\n" for line in lines))
    return between_marks(text, *parts, begin=_BEGIN, end=_END)


def _stack_page(text: str) -> str:
    """The page of the stack's settings, with a table of all keys: what nests is below it, by the names of its keys."""
    schema = _stack()
    definitions = schema["$defs"]
    settings = {
        key.removeprefix(_PREFIX): content
        for key, content in schema["properties"]["config"]["properties"].items()
        if key.removeprefix(_PREFIX) not in _SECRETS
    }
    lines = ["| key | meaning | value | default |", "|---|---|---|---|", *_rows(settings, definitions)]
    return between_marks(text, "".join(f"{line}\n" for line in lines), begin=_PAGE_BEGIN, end=_PAGE_END)


def _rows(
    properties: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str = "", required: Collection[str] = ()
) -> Iterator[str]:
    """A row for the keys of which the model says one thing, followed by those of what nests in it. Plugins have a
    section, and profiles repeat them."""
    resolved = {key: _resolved(content, definitions) for key, content in properties.items()}
    for _, group in itertools.groupby(resolved, lambda key: resolved[key].get("description", key)):
        keys = list(group)
        names, schema = [f"{prefix}{key}" for key in keys], resolved[keys[0]]
        described = _PARTS.fullmatch(schema.get("description", ""))
        assert described is not None, "every text has these parts, if need be empty ones"
        text, default, pages = described.groups("")
        default = default or _default(schema)
        if keys[0] in required or text.endswith(" (required)"):
            text, default = text.removesuffix(" (required)"), "required"
        shapes = dict.fromkeys(_values(resolved[key]) for key in keys)
        cells = (", ".join(f"`{name}`" for name in names), _linked(text + pages), "; ".join(shapes), _linked(default))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        if "properties" in schema and names[0] not in _IN_SECTIONS:
            yield from _rows(schema["properties"], definitions, f"{names[0]}.", schema.get("required", ()))


_PARTS = re.compile(r"(?s)(.*?)\.?(?:(?:[;.] |^)[Dd]efault: (.*?)\.?)?((?:\. |^)See .*)?")
_IN_SECTIONS = frozenset(
    {
        "plugins",
        "shadow",
        "metricProvider.address",
        "optIn.namespaceSelector",
        "optIn.podSelector",
        "rebalance.podSelector",
    }
)
_PAGE_LINK = re.compile(r"\b([Ss]ee) docs/((?:[\w-]+/)*([\w-]+\.md))((?:#[\w-]+)?)")


def _linked(text: str) -> str:
    """The text with what it says of a page as a link to it, and without the full stop at its end."""

    def link(page: re.Match[str]) -> str:
        see, path, name, anchor = page.groups()
        return f"{see} [below]({anchor})" if name == STACK_PAGE.name else f"{see} [{name}]({path}{anchor})"

    return _PAGE_LINK.sub(link, text).removesuffix(".")


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a value that is present, without references; what is said of the key goes before what its model
    says."""
    content = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}
    if "$ref" in schema:
        return {**definitions[schema["$ref"].rpartition("/")[2]], **content}
    if "anyOf" in schema:
        typed = [each for each in schema["anyOf"] if each.get("type") != "null" and each.get("maxProperties") != 0]
        return {**_resolved(typed[-1] if "$ref" in typed[-1] else typed[0], definitions), **content}
    return content


def _values(schema: Mapping[str, Any]) -> str:
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    match schema.get("type"):
        case "integer" | "number" if "maximum" in schema:
            low = schema.get("minimum", schema.get("exclusiveMinimum"))
            return f"{'above ' if 'exclusiveMinimum' in schema else ''}{low} to {schema['maximum']}"
        case "boolean":
            return "`true`, `false`"
        case "array":
            return f"list, at most {schema['maxItems']}" if "maxItems" in schema else "list"
        case "object" if "properties" not in schema:
            return "map"
        case "object":
            return ""
        case kind:
            return str(kind or "")


def _default(schema: Mapping[str, Any]) -> str:
    match schema.get("default"):
        case None:
            return ""
        case bool(value):
            return f"`{json.dumps(value)}`"
        case value:
            return f"`{value}`"


def _crd(text: str) -> str:
    """The CRD with this project's fields after upstream's, which it has as they are."""
    models = [(SpecExtensions, "validation"), (RebalancerSpec, "validation")]
    _, schema = models_json_schema(models, by_alias=True, schema_generator=_SettingsGenerator)  # type: ignore[arg-type]
    definitions = schema["$defs"]
    described = _documentation(SpecExtensions)[1]
    properties = _structural(definitions[SpecExtensions.__name__], definitions)["properties"]
    for name, field in SpecExtensions.model_fields.items():
        key = str(field.alias)
        properties[key] = {**properties[key], "description": f"{_EXTENSION}{described[name]}"}
    written = yaml.dump(properties, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=100)
    return between_marks(text, textwrap.indent(written, " " * 16), begin=_BEGIN, end=_END)


class _Plain(yaml.SafeDumper):
    """Without anchors: every field in full, as `kubectl get crd` shows it."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _structural(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as a CRD has it: without references, and with the defaults only that the API server is to store."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _structural({**definitions[name], **{key: schema[key] for key in schema if key != "$ref"}}, definitions)
    match schema.get("anyOf"):
        case [present, {"type": "null"}]:
            return _structural({**present, **{key: schema[key] for key in schema if key != "anyOf"}}, definitions)
    content = {key: schema[key] for key in schema if key not in ("description", "title")}
    if description := schema.get("description"):
        content = {"description": description[0].upper() + description[1:], **content}
    if not content.pop("x-stored-default", False):
        content.pop("default", None)
    if content.get("type") == "integer" and "maximum" not in content:
        content = {"type": "integer", "format": "int32", **content}
    if "properties" in content:
        content.pop("additionalProperties", None)  # what a CRD does not name, it prunes
        content["properties"] = {key: _structural(each, definitions) for key, each in content["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in content:
            content[key] = _structural(content[key], definitions)
    return content


def _python_type(annotation: Any, sequence: str, mapping: str) -> str:
    """The type of an argument: what the analyzer of component packages knows, and a program has."""
    arguments = [
        _python_type(argument, sequence, mapping) for argument in get_args(annotation) if not isinstance(argument, str)
    ]
    match get_origin(annotation):
        case None if _is_model(annotation) and annotation is not OptionalObjects:
            return f"{mapping}[str, Any]"
        case None:
            return str(getattr(annotation, "__name__", annotation))
        case builtins.tuple:
            return f"{sequence}[{arguments[0]}]"
        case builtins.dict:
            return f"{mapping}[{', '.join(arguments)}]"
        case typing.Annotated:
            return arguments[0]
        case typing.Literal:
            return "str"
    return " | ".join(argument for argument in arguments if argument != "NoneType")


def _package_schema(former: Mapping[str, Any]) -> dict[str, Any]:
    """What `pulumi package get-schema ./components/package` prints."""
    from pulumi.provider.experimental.analyzer import Analyzer
    from pulumi.provider.experimental.schema import generate_schema

    from components import packaged

    analysis = Analyzer(packaged.NAME).analyze([packaged.SchedulerInstallation])
    components, types = analysis["component_definitions"], analysis["type_definitions"]
    schema = generate_schema(packaged.NAME, "", None, components, types, [*analysis["dependencies"]]).to_json()
    return {**former, **{key: _as_printed(schema[key], former[key]) for key in ("types", "resources")}}


def _as_printed(schema: Any, former: Any, within: str = "") -> Any:
    """In the order that the engine prints, and without what it drops: the analyzer repeats the description of a list
    in its items."""
    if not isinstance(schema, Mapping):
        return schema
    former = former if isinstance(former, Mapping) else {}
    keys = dict.fromkeys([*(key for key in former if key in schema), *schema])
    if within in ("items", "additionalProperties"):
        keys.pop("description", None)
    return {key: _as_printed(schema[key], former.get(key), key) for key in keys}


def _project(text: str) -> str:
    """Pulumi.yaml with the keys of `StackSettings`, which Pulumi can make optional only by an empty default."""
    lines = [text[: text.index("\nconfig:\n")], "config:"]
    descriptions = _documentation(StackSettings)[1]
    for name, field in StackSettings.model_fields.items():
        kinds = (field.annotation, *get_args(field.annotation))
        default = field.get_default()
        if not isinstance(default, bool | int | str):
            origins = {get_origin(kind) for kind in kinds}
            default = [] if tuple in origins else {} if dict in origins or any(map(_is_model, kinds)) else ""
        lines += [
            f"  {field.alias}:",
            "    description: >-",
            *_wrapped(_described(descriptions[name], kinds), 6, 6),
            f"    default: {json.dumps(default) if default == '' or not isinstance(default, str) else default}",
        ]
    return "\n".join([*lines, ""])


def _described(text: str, kinds: Sequence[Any]) -> str:
    """A setting's description with the keys or the words that it may hold."""
    text = _sentence(text)
    for model in filter(_is_model, kinds):
        text += f" Keys: {', '.join(field.alias or name for name, field in model.model_fields.items())}."
    words = [kind for kind in kinds if isinstance(kind, str)]
    return text if all(word in text for word in words) else f"{text} One of {', '.join(words)}."


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _configuration() -> dict[str, Any]:
    content = _definition(KubeSchedulerConfiguration)
    definitions = content.pop("$defs")
    content["properties"] |= {"apiVersion": {"const": API_VERSION}, "kind": {"const": KIND}}
    content["required"] = sorted({*content.get("required", ()), "apiVersion", "kind"})
    return {"$schema": _DRAFT, "title": f"{KIND} of {API_VERSION}", **content, "$defs": definitions}


def _stack() -> dict[str, Any]:
    content = _definition(StackSettings)
    definitions = content.pop("$defs")
    properties: dict[str, Any] = {f"{_PREFIX}{key}": _or_text(schema) for key, schema in content["properties"].items()}
    for key, description in _SECRETS.items():
        encrypted = {"type": "object", "properties": {"secure": {"type": "string"}}, "required": ["secure"]}
        properties[f"{_PREFIX}{key}"] = {"anyOf": [encrypted, {"type": "string"}], "description": description}
    config = {
        "type": "object",
        "properties": properties,
        "required": [f"{_PREFIX}{key}" for key in content.get("required", ())],
        # Keys of Pulumi itself and of other programs.
        "patternProperties": {f"^(?!{_PREFIX})": {}},
        "additionalProperties": False,
    }
    return {
        "$schema": _DRAFT,
        "title": "Stack file of the project secondary-scheduler",
        "type": "object",
        "properties": {"config": config},
        "required": ["config"],
        "$defs": definitions,
    }


def _or_text(schema: dict[str, Any]) -> dict[str, Any]:
    """With the text that `pulumi config set` writes for a number or a boolean."""
    texts = {"boolean": {"enum": ["true", "false"]}, "integer": {"type": "string", "pattern": "^[0-9]+$"}}
    if schema.get("type") not in texts:
        return schema
    notes: dict[str, Any] = {key: schema.pop(key) for key in ("description", "default") if key in schema}
    return {"anyOf": [schema, texts[schema["type"]]], **notes}


def _definition(model: type[BaseModel]) -> dict[str, Any]:
    """A model's schema with its `$defs`, the args of every plugin among them."""
    models = [(each, "validation") for each in (model, *_args_models())]
    _, combined = models_json_schema(models, by_alias=True, schema_generator=_SettingsGenerator)  # type: ignore[arg-type]
    definitions: dict[str, Any] = combined["$defs"]
    content = definitions.pop(model.__name__)
    used = _reachable(content, definitions)
    return {**content, "$defs": {name: schema for name, schema in sorted(definitions.items()) if name in used}}


def _reachable(content: Any, definitions: Mapping[str, Any]) -> set[str]:
    names: set[str] = set()
    waiting = [content]
    while waiting:
        for name in re.findall(r'"#/\$defs/(\w+)"', json.dumps(waiting.pop())):
            if name not in names:
                names.add(name)
                waiting.append(definitions[name])
    return names


def _args_models() -> list[type[ArgsModel]]:
    return list(dict.fromkeys(model for _, model in _plugins()))


def _plugins() -> Iterator[tuple[str, type[ArgsModel]]]:
    # What happens to be installed here beside the built-in ones does not belong into a file that is checked in.
    foreign = {descriptor.name for descriptor in out_of_tree_descriptors()}
    for descriptor in descriptors():
        if descriptor.args_model is not None and descriptor.name not in foreign:
            yield descriptor.name, descriptor.args_model


def _args_by_plugin(*, complete: bool) -> Iterator[dict[str, Any]]:
    """What `args` may be where `name` is a plugin that we know. In a stack file the metric source stands elsewhere."""
    for name, model in _plugins():
        args: dict[str, Any] = {"$ref": f"#/$defs/{model.__name__}"}
        if complete:
            args = {"anyOf": [args, {"type": "null"}]}
        else:
            args = {"allOf": [args, {"properties": {"metricProvider": False}}]}
        condition = {"properties": {"name": {"const": name}}, "required": ["name"]}
        yield {"if": condition, "then": {"properties": {"args": args}}}


def _documentation(model: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """A docstring's text, and what it and those of the bases say of the attributes by their names in Python."""
    descriptions: dict[str, str] = {}
    text = ""
    for documented in reversed(model.__mro__[: model.__mro__.index(BaseModel)]):
        text, _, attributes = inspect.cleandoc(vars(documented).get("__doc__") or "").partition("Attributes:\n")
        names: list[str] = []
        for line in attributes.splitlines():
            if begun := _FIELD.match(line):
                names = begun["names"].split(", ")
                descriptions |= dict.fromkeys(names, begun["text"])
            elif line.strip():
                descriptions |= {name: f"{descriptions[name]} {line.strip()}" for name in names}
    return " ".join(text.split()), descriptions


def main() -> int:
    """Write the files, or compare them with what is checked in."""
    console = Console(highlight=False)
    code = 0
    for file, text in derived():
        if "--check" not in sys.argv[1:]:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
            console.print(f"{file.relative_to(ROOT)}: {len(text)} bytes")
        elif not file.exists() or file.read_text() != text:
            console.print(f"{file.relative_to(ROOT)}: is not current; run make schemas")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
