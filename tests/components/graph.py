"""Runs the program, or a component, against a recording engine and returns what it registered."""

from __future__ import annotations

import functools
import json
import runpy
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import json_format
from pulumi.runtime import mocks as pulumi_mocks
from pulumi.runtime.config import set_all_config
from pulumi.runtime.settings import SETTINGS, set_root_resource
from pulumi.runtime.stack import run_in_stack

from tools.pulumi_loop import program_loop

ROOT = Path(__file__).resolve().parents[2]
PROJECT = "secondary-scheduler"
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"
PROVIDER_TYPE = "pulumi:providers:kubernetes"
STATUS = {
    "SecondaryScheduler": {"readyReplicas": 1},
    "Deployment": {"readyReplicas": 1},
    "Subscription": {
        "installPlanRef": {"name": "install-abcde"},
        "currentCSV": "operator.v1",
        "installedCSV": "operator.v1",
        "state": "AtLatestKnown",
    },
}
"""Statuses that the cluster reports for objects that the program waits for."""


@dataclass(frozen=True)
class Registered:
    """One resource as the engine was asked to register it."""

    urn: str
    type: str
    name: str
    parent: str
    inputs: dict[str, Any]
    dependencies: frozenset[str]
    property_dependencies: dict[str, frozenset[str]]
    provider: str
    protect: bool
    retain_on_delete: bool
    timeouts: dict[str, str]
    secret_outputs: frozenset[str]

    @property
    def is_object(self) -> bool:
        return self.type.startswith("kubernetes:")

    @property
    def manifest(self) -> dict[str, Any]:
        """The inputs without the wrapping of secrets."""
        return unwrapped(self.inputs)

    @property
    def object_name(self) -> str:
        return str(self.manifest["metadata"]["name"])


@dataclass
class Graph:
    resources: list[Registered] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)

    @property
    def objects(self) -> list[Registered]:
        return [resource for resource in self.resources if resource.is_object]

    def of(self, kind: str) -> list[Registered]:
        return [resource for resource in self.objects if resource.type.endswith(f":{kind}")]

    def only(self, kind: str) -> Registered:
        (resource,) = self.of(kind)
        return resource

    def before(self, resource: Registered) -> set[str]:
        """URNs of all resources that must exist before a resource: its dependencies, transitively."""
        by_urn = {other.urn: other for other in self.resources}
        resources: set[str] = set()
        waiting = set(resource.dependencies)
        while waiting:
            urn = waiting.pop()
            if urn not in resources:
                resources.add(urn)
                waiting |= by_urn[urn].dependencies if urn in by_urn else set()
        return resources


class Engine(pulumi_mocks.Mocks):
    """Names objects without a name as the provider does, and answers with the inputs and a status."""

    def __init__(
        self, statuses: Mapping[str, Mapping[str, Any]] | None, state: Mapping[str, Any] | None = None
    ) -> None:
        self._statuses = dict(statuses or {})
        self._state = dict(state or {})

    def call(self, args: pulumi_mocks.MockCallArgs) -> tuple[dict[str, Any], list[Any]]:
        assert args.token == "pulumi:pulumi:readStackResourceOutputs", f"the program called {args.token}"
        return {"name": args.args["stackName"], "outputs": self._state}, []

    def new_resource(self, args: pulumi_mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        state = dict(args.inputs)
        if args.typ.startswith("kubernetes:"):
            metadata = dict(state.get("metadata", {}))
            metadata.setdefault("name", f"{args.name}-1a2b3c4d")
            state["metadata"] = metadata
            status = self._statuses.get(args.typ.rpartition(":")[2])
            if status is not None:
                state["status"] = dict(status)
        return f"{args.name}-id", state


class RecordingMonitor(pulumi_mocks.MockMonitor):
    def __init__(self, engine: Engine, graph: Graph) -> None:
        super().__init__(engine)
        self._graph = graph

    def RegisterResource(self, request: Any) -> Any:
        response = super().RegisterResource(request)
        if request.type == "pulumi:pulumi:Stack":
            return response
        timeouts = request.customTimeouts
        self._graph.resources.append(
            Registered(
                urn=response.urn,
                type=request.type,
                name=request.name,
                parent=request.parent,
                inputs=json_format.MessageToDict(request.object),
                dependencies=frozenset(request.dependencies),
                property_dependencies={
                    name: frozenset(dependencies.urns) for name, dependencies in request.propertyDependencies.items()
                },
                provider=request.provider or request.providers.get("kubernetes", ""),
                protect=request.protect,
                retain_on_delete=request.retainOnDelete,
                timeouts={"create": timeouts.create, "update": timeouts.update, "delete": timeouts.delete},
                secret_outputs=frozenset(request.additionalSecretOutputs),
            )
        )
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:
        if "pulumi:pulumi:Stack" in request.urn:
            self._graph.outputs.update(json_format.MessageToDict(request.outputs))
        return super().RegisterResourceOutputs(request)


def register(
    program: Callable[[], Any],
    *,
    config: Mapping[str, str],
    encrypted: Collection[str] = (),
    stack: str = "local",
    preview: bool = False,
    status: Mapping[str, Any] | None = None,
    other: Mapping[str, str] | None = None,
    graph: Graph | None = None,
    state: Mapping[str, Any] | None = None,
    statuses: Mapping[str, Mapping[str, Any]] | None = None,
) -> Graph:
    """Run a function as the engine runs a program; keys are without the project's name, those in `other` with one.

    `state` is what the engine has of the last update: type and outputs by URN. `status` is the SecondaryScheduler's,
    `statuses` are those of any kind."""
    if status is not None:
        statuses = {**(statuses or {}), "SecondaryScheduler": status}
    graph = Graph() if graph is None else graph
    with program_loop() as loop:
        # Several outputs may fail for one reason. Those that were left when the first one ended a program are not of
        # the next one.
        SETTINGS.outputs.clear()
        SETTINGS.rpc_manager.clear()
        monitor = RecordingMonitor(Engine(statuses, state), graph)
        pulumi_mocks.set_mocks(monitor.mocks, project=PROJECT, stack=stack, preview=preview, monitor=monitor)
        values = {f"{PROJECT}:{key}": value for key, value in config.items()} | dict(other or {})
        set_all_config(values, [f"{PROJECT}:{key}" for key in encrypted])
        set_root_resource(None)  # set_mocks makes a stack of its own, which would take no outputs
        loop.run_until_complete(run_in_stack(program))
    return graph


def run_program(config: Mapping[str, str], **options: Any) -> Graph:
    return register(lambda: runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__"), config=config, **options)


def stack_values(stack: str) -> dict[str, str]:
    """A stack file's values over Pulumi.yaml's defaults, as the engine hands them to the program."""
    return dict(_stack_values(stack))


@functools.cache
def _stack_values(stack: str) -> Mapping[str, str]:
    """The same, read once."""
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    values = {key: declared["default"] for key, declared in project["config"].items()}
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())
    prefix = f"{PROJECT}:"
    values |= {key.removeprefix(prefix): value for key, value in document["config"].items() if key.startswith(prefix)}
    # Gangs are tested by themselves: elsewhere, their CRD and role would be in every expectation.
    if isinstance(plugins := values.get("plugins"), dict):
        plugins.pop("multiPoint", None)
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}


def unwrapped(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get(_SIGNATURE) == _SECRET:
            return unwrapped(value["value"])
        return {key: unwrapped(item) for key, item in value.items()}
    return [unwrapped(item) for item in value] if isinstance(value, list) else value


def clear_values(value: Any) -> Iterator[Any]:
    """Every scalar that is not inside a secret."""
    if isinstance(value, dict):
        if value.get(_SIGNATURE) != _SECRET:
            for item in value.values():
                yield from clear_values(item)
    elif isinstance(value, list):
        for item in value:
            yield from clear_values(item)
    else:
        yield value


def is_secret(value: Any) -> bool:
    return isinstance(value, dict) and value.get(_SIGNATURE) == _SECRET
