"""A Helm chart of what a program registered.

The values of the chart: what stays variable of a stack's settings, their schema, and values.yaml.

Why these and not more: docs/adr/0028-what-stays-variable-in-the-chart.md.

Manifests with places for values, and the text of the Helm templates that they become.

A place is a marker in the manifest. It survives the YAML dumper as it is, and only in the text it becomes an action of
Go's template language; so nothing that a manifest holds, such as the `{{ $labels }}` of an alert, is taken for one.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema

from scheduler import __version__
from scheduler.catalog import cluster_role_name, descriptors
from scheduler.config import LogLevel, Replicas
from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.render.directory import MARK, RenderedFile
from secondary_scheduler.cli.render.manifests import SYNC_WAVE, ImageReference, Manifest, RenderedObject, dump, heading

NAME = "secondary-scheduler"
_OPERATOR = "/bin/secondary-scheduler-operator"
_REBALANCER = "/bin/rebalancer"
_PAGE = "/bin/secondary-scheduler-page"
_DEPLOYMENTS = {_OPERATOR: "operator", "/bin/load-watcher": "loadWatcher", _PAGE: "page"}
"""By the command of its container, under which key a Deployment's values stand."""
_CONFIGURATION_KEY = "config.yaml"
_DIGITS = f'include "{NAME}.configuration-digits" .'
_HELPERS = """\
{{- /* The reference of an image. */ -}}
{{- define "secondary-scheduler.image" -}}
{{ .repository }}{{ with .tag }}:{{ . }}{{ end }}{{ with .digest }}@{{ . }}{{ end }}
{{- end }}

{{- /* The end of the ConfigMap's name: a changed configuration is another ConfigMap, as the program makes it. */ -}}
{{- define "secondary-scheduler.configuration-digits" -}}
{{- $data := fromYaml .Values.configuration -}}
{{- if hasKey $data "Error" }}{{ fail (printf "configuration: is not valid YAML: %v" (get $data "Error")) }}{{ end -}}
{{- if ne (toString (get $data "kind")) "KubeSchedulerConfiguration" }}
{{- fail "configuration: must be a KubeSchedulerConfiguration; give it as --set-file configuration=FILE" }}
{{- end -}}
{{- range $profile := default list (get $data "profiles") }}
{{- range $set := values (default dict (get $profile "plugins")) }}
{{- range $plugin := default list (get $set "enabled") }}
{{- if has (get $plugin "name") (list ABSENT) }}
{{- fail (printf "configuration: enables %s, whose rights this chart lacks; enable it in stack STACK and render the \
chart again" (get $plugin "name")) }}
{{- end }}{{ end }}{{ end }}{{ end -}}
{{- $data | toRawJson | sha256sum | trunc 8 -}}
{{- end }}
"""
_NOTES = """\
The operator starts the scheduler. This waits for it:
  kubectl --namespace NAMESPACE wait --for=condition=Available secondaryscheduler/INSTANCE --timeout=5m
{{- if eq .Release.Namespace "NAMESPACE" }}

The namespace is not part of this release. Give it the labels that it has otherwise:
  kubectl label namespace NAMESPACE LABELS --overwrite
{{- end }}
LEFT_OUT
Before an upgrade, apply the CRDs: Helm installs them, and does not change them.
  kubectl apply --server-side --force-conflicts --filename CHART/crds
"""
# Helm would delete the operator first: it deletes kinds that it does not know last. Nobody would remove the scheduler
# then, nor the finalizer. Before it creates an object for a hook, Helm deletes the one of that name, and waits for it.
_HOOK = """\
{{- if not .Values.argocd }}
apiVersion: API_VERSION
kind: SecondaryScheduler
metadata:
  name: INSTANCE
  namespace: NAMESPACE
  annotations:
    helm.sh/hook: pre-delete
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  managementState: Removed
{{- end }}
"""


def chart(rendered: Sequence[RenderedObject], stack: str) -> list[RenderedFile]:
    """The files of the chart. With its own values, Helm makes the objects of the rendering out of it.

    Raises:
        CommandError: the stack installs something else than our operator from manifests.
    """
    scheduler = _scheduler_of(rendered, stack)
    builder = _ChartBuilder(scheduler)
    written = [obj for obj in rendered if not obj.left_out]
    files = [
        RenderedFile("Chart.yaml", heading(stack) + dump(_about(written, stack))),
        RenderedFile("templates/_helpers.tpl", f"{{{{- /* {MARK}. */ -}}}}\n{_helpers(written, stack)}"),
    ]
    for number, obj in enumerate(written):
        name = obj.file_name(number)
        if obj.kind == "CustomResourceDefinition":
            files.append(RenderedFile(f"crds/{name}", heading(stack) + obj.text))
        else:
            files.append(RenderedFile(f"templates/{name}", heading(stack) + builder.template(obj)))
    values = builder.values()
    files += [
        RenderedFile("values.yaml", values_yaml(values, stack)),
        RenderedFile("values.schema.json", values_schema(values, stack)),
        RenderedFile("templates/NOTES.txt", _notes(rendered, scheduler)),
        RenderedFile("templates/before-uninstall.yaml", heading(stack) + _filled_in(_HOOK, scheduler)),
    ]
    return files


def _scheduler_of(rendered: Sequence[RenderedObject], stack: str) -> RenderedObject:
    schedulers = [obj for obj in rendered if obj.kind == "SecondaryScheduler"]
    operators = [obj for obj in rendered if obj.kind == "Deployment" and _command(obj.manifest) == _OPERATOR]
    if not schedulers or not operators:
        raise CommandError(
            f"--format helm: stack {stack} does not install our operator from manifests (installMode: manifests), "
            "which the chart needs; use --format kustomize or yaml",
            ExitCode.USAGE,
        )
    return schedulers[0]


def _about(rendered: Sequence[RenderedObject], stack: str) -> Mapping[str, Any]:
    # The admission policies are v1 from 1.30 on, the FlowSchemas that the operator makes from 1.29 on.
    policies = any(obj.kind == "ValidatingAdmissionPolicy" for obj in rendered)
    return {
        "apiVersion": "v2",
        "name": NAME,
        "description": f"A second scheduler with its operator, as stack {stack} describes it.",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": f">=1.{30 if policies else 29}.0-0",
    }


def _helpers(rendered: Sequence[RenderedObject], stack: str) -> str:
    """The named templates; plugins whose ClusterRole is not in the chart are refused where a configuration is given."""
    roles = {obj.manifest["metadata"]["name"] for obj in rendered if obj.kind == "ClusterRole"}
    usable = (descriptor for descriptor in descriptors() if descriptor.implemented and descriptor.rules)
    absent = sorted(group.name for group in usable if cluster_role_name(group.name) not in roles)
    return _HELPERS.replace("ABSENT", " ".join(json.dumps(name) for name in absent)).replace("STACK", stack)


def _container(manifest: Mapping[str, Any]) -> Manifest:
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    return dict(container)


def _command(manifest: Mapping[str, Any]) -> str:
    return str((_container(manifest).get("command") or [""])[0])


class _ChartBuilder:
    """Puts places for values into manifests, and collects the values that they had."""

    def __init__(self, scheduler: RenderedObject) -> None:
        self._scheduler = scheduler
        spec = scheduler.manifest["spec"]
        self._config_map = str(spec["schedulerConfig"])
        self._image = ImageValues.of(spec["schedulerImage"])
        self._pods: dict[str, PodValues] = {}
        self._configuration = ""

    def values(self) -> ChartValues:
        """The values with which the templates make the manifests that they were made from."""
        spec = self._scheduler.manifest["spec"]
        topology = spec.get("topology", {}).get("highlyAvailableTopology", {})
        scheduler = SchedulerValues(
            image=self._image,
            resources=ResourceValues.model_validate(spec.get("resources") or {}),
            replicas=topology.get("maxReplicas", 1),
            log_level=spec["logLevel"],
        )
        return ChartValues(
            scheduler=scheduler,
            operator=self._pods["operator"],
            load_watcher=self._pods.get("loadWatcher"),
            page=self._pods.get("page"),
            configuration=self._configuration,
        )

    def template(self, obj: RenderedObject) -> str:
        """The template of an object."""
        places = ValuePlaces()
        manifest = _with_optional_wave(obj, places)
        changes: dict[str, Callable[[Manifest, ValuePlaces], Manifest]] = {
            "SecondaryScheduler": self._second_scheduler,
            "ConfigMap": self._config,
            "Deployment": self._deployment,
            "ValidatingAdmissionPolicy": self._policy,
        }
        if obj.kind in changes:
            manifest = changes[obj.kind](manifest, places)
        text = places.text(manifest)
        if obj.kind == "Namespace":
            # The release's own must exist before Helm can install anything, and cannot be part of it then.
            condition = f'{{{{- if ne .Release.Namespace "{obj.manifest["metadata"]["name"]}" }}}}'
            return f"{condition}\n{text}{{{{- end }}}}\n"
        return text

    def _second_scheduler(self, manifest: Manifest, places: ValuePlaces) -> Manifest:
        spec = dict(manifest["spec"])
        for name in ("topology", "resources"):
            spec.pop(name, None)
        values = ".Values.scheduler"
        spec["schedulerConfig"] = self._config_name(places)
        spec["schedulerImage"] = places.value(f'include "{NAME}.image" {values}.image')
        spec["logLevel"] = places.value(f"{values}.logLevel")
        spec |= places.entry(_topology)
        spec |= places.optional("resources", f"{values}.resources")
        spec |= places.optional("nodeSelector", f"{values}.nodeSelector")
        spec |= places.optional("tolerations", f"{values}.tolerations")
        return {**manifest, "spec": spec}

    def _config(self, manifest: Manifest, places: ValuePlaces) -> Manifest:
        if manifest["metadata"]["name"] != self._config_map:
            return manifest
        self._configuration = manifest["data"][_CONFIGURATION_KEY]
        # As JSON's string: it holds any text, whatever its lines begin or end with.
        data = {_CONFIGURATION_KEY: places.value(".Values.configuration | toJson")}
        return {**manifest, "metadata": {**manifest["metadata"], "name": self._config_name(places)}, "data": data}

    def _config_name(self, places: ValuePlaces) -> str:
        return f"{self._config_map.rpartition('-')[0]}-{places.value(_DIGITS)}"

    def _deployment(self, manifest: Manifest, places: ValuePlaces) -> Manifest:
        if _command(manifest) == _REBALANCER:
            return self._rebalancer(manifest, places)
        key = _DEPLOYMENTS.get(_command(manifest))
        if key is None:
            return manifest
        container, template = _container(manifest), dict(manifest["spec"]["template"])
        pod = dict(template["spec"])
        self._pods[key] = PodValues(
            image=ImageValues.of(container["image"]),
            resources=ResourceValues.model_validate(container.pop("resources", {})),
            node_selector=pod.pop("nodeSelector", {}),
            tolerations=pod.pop("tolerations", []),
        )
        values = f".Values.{key}"
        container["image"] = places.value(f'include "{NAME}.image" {values}.image')
        if _command(manifest) == _PAGE:
            container["args"] = [self._of_configuration(argument, places) for argument in container["args"]]
            pod["volumes"] = self._volumes(pod["volumes"], places)
        container |= places.optional("resources", f"{values}.resources")
        pod["containers"] = [container]
        pod |= places.optional("nodeSelector", f"{values}.nodeSelector")
        pod |= places.optional("tolerations", f"{values}.tolerations")
        return {**manifest, "spec": {**manifest["spec"], "template": {**template, "spec": pod}}}

    def _rebalancer(self, manifest: Manifest, places: ValuePlaces) -> Manifest:
        """It runs the scheduler's image, unless the stack names another, and reads the scheduler's configuration."""
        container, template = _container(manifest), dict(manifest["spec"]["template"])
        if ImageValues.of(container["image"]) == self._image:
            container["image"] = places.value(f'include "{NAME}.image" .Values.scheduler.image')
        pod = {**template["spec"], "containers": [container]}
        pod["volumes"] = self._volumes(pod["volumes"], places)
        return {**manifest, "spec": {**manifest["spec"], "template": {**template, "spec": pod}}}

    def _volumes(self, volumes: list[Manifest], places: ValuePlaces) -> list[Manifest]:
        """Volumes of which one may hold the scheduler's configuration."""
        return [
            {**volume, "configMap": {**volume["configMap"], "name": self._config_name(places)}}
            if (volume.get("configMap") or {}).get("name") == self._config_map
            else volume
            for volume in volumes
        ]

    def _of_configuration(self, argument: str, places: ValuePlaces) -> str:
        """An argument that may name the ConfigMap with the scheduler's configuration."""
        before, slash, name = argument.rpartition("/")
        if not argument.startswith("--config-map=") or name != self._config_map:
            return argument
        return f"{before}{slash}{self._config_name(places)}"

    def _policy(self, manifest: Manifest, places: ValuePlaces) -> Manifest:
        """It names the repository that a SecondaryScheduler's image may be of."""
        repository = re.compile(rf"(?<![\w./:@-]){re.escape(self._image.repository)}(?![\w./:@-])")

        def replaced(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {key: replaced(item) for key, item in value.items()}
            if isinstance(value, list):
                return [replaced(item) for item in value]
            if not isinstance(value, str):
                return value
            return repository.sub(lambda _: places.value(".Values.scheduler.image.repository"), value)

        return {**manifest, "spec": replaced(manifest["spec"])}


def _topology(indent: str) -> str:
    lines = (
        "{{- if gt (int .Values.scheduler.replicas) 1 }}",
        "topology:",
        "  mode: HighlyAvailable",
        "  highlyAvailableTopology:",
        "    maxReplicas: {{ int .Values.scheduler.replicas }}",
        "{{- end }}",
    )
    return "".join(f"{indent}{line}\n" for line in lines)


def _with_optional_wave(obj: RenderedObject, places: ValuePlaces) -> Manifest:
    def annotation(indent: str) -> str:
        lines = ("{{- if .Values.argocd }}", f'{SYNC_WAVE}: "{obj.wave}"', "{{- end }}")
        return "".join(f"{indent}{line}\n" for line in lines)

    def annotations(indent: str) -> str:
        lines = ("{{- if .Values.argocd }}", "annotations:", f'  {SYNC_WAVE}: "{obj.wave}"', "{{- end }}")
        return "".join(f"{indent}{line}\n" for line in lines)

    metadata = dict(obj.manifest["metadata"])
    if "annotations" in metadata:
        metadata["annotations"] = {**metadata["annotations"], **places.entry(annotation)}
    else:
        metadata |= places.entry(annotations)
    return {**obj.manifest, "metadata": metadata}


def _notes(rendered: Sequence[RenderedObject], scheduler: RenderedObject) -> str:
    (namespace,) = (obj.manifest["metadata"] for obj in rendered if obj.kind == "Namespace")
    labels = " ".join(f"{key}={value}" for key, value in namespace["labels"].items())
    left_out = "".join(f"\n{obj.title} is not part of the chart: {obj.left_out}\n" for obj in rendered if obj.left_out)
    text = _NOTES.replace("LEFT_OUT\n", f"{left_out}\n" if left_out else "\n").replace("LABELS", labels)
    return f"{{{{- /* {MARK}. */ -}}}}\n{_filled_in(text, scheduler)}"


def _filled_in(text: str, scheduler: RenderedObject) -> str:
    manifest = scheduler.manifest
    words = {"API_VERSION": manifest["apiVersion"], "INSTANCE": manifest["metadata"]["name"]}
    for word, value in {**words, "NAMESPACE": manifest["metadata"]["namespace"]}.items():
        text = text.replace(word, value)
    return text


_SCALAR = re.compile(r'"__value_(\d+)__"')
_WITHIN = re.compile(r"__value_(\d+)__")
_ENTRY = re.compile(r'^( *)"__entry_(\d+)__": null\n', re.MULTILINE)
_OPENING = re.compile(r"\{\{")


@dataclass
class ValuePlaces:
    """The places of one manifest, in the order in which they were made."""

    _values: list[str] = field(default_factory=list)
    _entries: list[Callable[[str], str]] = field(default_factory=list)

    def value(self, expression: str) -> str:
        """A marker for the result of an expression, alone or within a text."""
        self._values.append(expression)
        return f"__value_{len(self._values) - 1}__"

    def entry(self, write: Callable[[str], str]) -> dict[str, None]:
        """An entry of a mapping that stands for lines of template text; `write` gets their indentation."""
        self._entries.append(write)
        return {f"__entry_{len(self._entries) - 1}__": None}

    def optional(self, key: str, path: str) -> dict[str, None]:
        """An entry with this key, which is absent where the value is empty."""

        def write(indent: str) -> str:
            lines = (f"{{{{- with {path} }}}}", f"{key}:", f"  {{{{- toYaml . | nindent {len(indent) + 2} }}}}")
            return "".join(f"{indent}{line}\n" for line in (*lines, "{{- end }}"))

        return self.entry(write)

    def text(self, manifest: Mapping[str, Any]) -> str:
        """The template of the manifest."""
        text = _OPENING.sub('{{ "{{" }}', dump(manifest))
        text = _ENTRY.sub(lambda match: self._entries[int(match[2])](match[1]), text)
        text = _SCALAR.sub(lambda match: f"{{{{ {self._values[int(match[1])]} }}}}", text)
        return _WITHIN.sub(lambda match: f"{{{{ {self._values[int(match[1])]} }}}}", text)


_DRAFT = "http://json-schema.org/draft-07/schema#"
_WIDTH = 110

Quantity = str | float


class _Values(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class ImageValues(_Values):
    """An image, by tag, digest or both."""

    repository: str = Field(
        pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._:-]*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$",
        description="Registry and repository, without tag and digest.",
    )
    tag: str = Field("", pattern=r"^(\w[\w.-]{0,127})?$", description="Tag, in quotes; it may be empty.")
    digest: str = Field(
        "", pattern=r"^(sha256:[0-9a-f]{64})?$", description="Digest, as sha256:…; where there is one, it decides."
    )

    @classmethod
    def of(cls, image: str) -> ImageValues:
        """The parts of a reference."""
        reference = ImageReference.parse(image)
        return cls(repository=reference.repository, tag=reference.tag, digest=reference.digest)


class ResourceValues(_Values):
    """Requests and limits of a container, as Kubernetes' quantities by resource."""

    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class TolerationValues(_Values):
    """A taint that pods tolerate."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class PodValues(_Values):
    """What every Deployment has."""

    image: ImageValues = Field(description="The image.")
    resources: ResourceValues = Field(ResourceValues(), description="Requests and limits of the container.")
    node_selector: dict[str, str] = Field({}, description="Labels of the nodes on which its pods may run.")
    tolerations: list[TolerationValues] = Field([], description="Taints that its pods tolerate.")


class SchedulerValues(PodValues):
    """The scheduler, which the operator runs."""

    resources: ResourceValues = Field(
        ResourceValues(), description="Requests and limits of the container; empty: the operator's defaults."
    )
    replicas: Replicas = Field(1, description="Number of schedulers; one leads, the others wait for the Lease.")
    log_level: LogLevel = Field("Normal", description="Its verbosity.")


class ChartValues(_Values):
    """The values of the chart."""

    scheduler: SchedulerValues = Field(description="The scheduler, which the operator runs.")
    operator: PodValues = Field(description="The operator.")
    load_watcher: PodValues | None = Field(
        None, description="The load-watcher, which serves the load to the scheduler."
    )
    page: PodValues | None = Field(None, description="The page, which shows each visitor what it may read.")
    argocd: bool = Field(
        False,
        description=(
            "Whether Argo CD applies the chart: objects get the annotation by which it applies them in order, and "
            "Helm's hook of an uninstall is left out."
        ),
    )
    configuration: str = Field(
        min_length=1,
        description=(
            "The KubeSchedulerConfiguration, as text. `secondary-scheduler validate FILE` checks one, and "
            "`--set-file configuration=FILE` takes it."
        ),
    )


def values_yaml(values: ChartValues, stack: str) -> str:
    """The file values.yaml, each value with its description."""
    return heading(stack) + "# Keep your own values in a file of your own.\n" + "".join(_described(values, ""))


def values_schema(values: ChartValues, stack: str) -> str:
    """The file values.schema.json, with which Helm checks values; only of what this chart has."""
    schema = ChartValues.model_json_schema(schema_generator=_ValuesSchema)
    for name in [name for name, value in _items(values) if value is None]:
        del schema["properties"][name]
    # Helm hands the global values of a parent chart to every chart below it.
    schema["properties"]["global"] = {"type": "object", "description": "Of a parent chart; not read."}
    return json.dumps({"$comment": f"{MARK} from stack {stack}.", "$schema": _DRAFT, **schema}, indent=2) + "\n"


class _ValuesSchema(GenerateJsonSchema):
    """Without titles, which only repeat names, without defaults, which values.yaml has, and without null."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        # For Helm, null removes a value before it is checked.
        return self.generate_inner(schema["schema"])

    def model_schema(self, schema: Any) -> dict[str, Any]:
        content = super().model_schema(schema)
        content.pop("title", None)
        return content


def _items(values: BaseModel) -> Iterator[tuple[str, Any]]:
    for name, info in type(values).model_fields.items():
        yield info.alias or name, getattr(values, name)


def _described(values: BaseModel, indent: str) -> Iterator[str]:
    for name, info in type(values).model_fields.items():
        value = getattr(values, name)
        if value is None:
            continue
        yield textwrap.fill(
            info.description or "", _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
        )
        yield f"\n{indent}{info.alias or name}:"
        if isinstance(value, _Values) and not isinstance(value, ResourceValues):
            yield "\n"
            yield from _described(value, f"{indent}  ")
        else:
            yield _leaf(value, indent)


def _leaf(value: Any, indent: str) -> str:
    plain = _plain(value)
    if plain in ({}, []):
        return f" {json.dumps(plain)}\n"
    text = dump({"x": plain}).removeprefix("x:")
    return textwrap.indent(text, indent).removeprefix(indent)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, exclude_none=True)
    if isinstance(value, Mapping):
        return dict(value)
    return [_plain(item) for item in value] if isinstance(value, list) else value
