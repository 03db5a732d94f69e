"""The ResourceProvider service: requests decoded, handed to the typed rooms, and their answers encoded."""

# ruff: noqa: D102 (the methods are those of the protocol, which documents them)

import json
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from devcluster.pulumi_stand_ins.kubernetes_provider import VERSION
from devcluster.pulumi_stand_ins.kubernetes_provider.diff import ChangeKind, PropertyChange, difference
from devcluster.pulumi_stand_ins.kubernetes_provider.dynamic_client import DynamicClient
from devcluster.pulumi_stand_ins.kubernetes_provider.inputs import CheckFailure, Naming, NamingMode, check
from devcluster.pulumi_stand_ins.kubernetes_provider.objects import Checkpoint
from devcluster.pulumi_stand_ins.kubernetes_provider.operations import (
    ConfiguredCluster,
    OperationError,
    Operations,
    PartialFailure,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.settings import (
    ProviderSettings,
    changed_settings,
    check_settings,
    client_config,
    provider_schema,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object, Path, parse, render, reveal
from devcluster.pulumi_stand_ins.kubernetes_provider.waiting import Cancellation
from devcluster.pulumi_stand_ins.serving import engine_address, engine_channel, serve
from scheduler.kube.client import ConfigError, KubeError

# Every resource that is waited for holds a thread.
_WORKERS = 128
_LEAVE_GRACE_SECONDS = 4.0  # the engine kills after five

_KINDS = {
    (ChangeKind.ADD, False): provider_pb2.PropertyDiff.ADD,
    (ChangeKind.ADD, True): provider_pb2.PropertyDiff.ADD_REPLACE,
    (ChangeKind.DELETE, False): provider_pb2.PropertyDiff.DELETE,
    (ChangeKind.DELETE, True): provider_pb2.PropertyDiff.DELETE_REPLACE,
    (ChangeKind.UPDATE, False): provider_pb2.PropertyDiff.UPDATE,
    (ChangeKind.UPDATE, True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
}


def connect(settings: ProviderSettings) -> ConfiguredCluster:
    """The cluster of the settings; one that cannot be reached is no error yet, since previews work without."""
    try:
        config = client_config(settings.kubeconfig, context=settings.context, cluster=settings.cluster)
    except ConfigError as error:
        return ConfiguredCluster(
            settings, None, settings.namespace or "default", f"the kubeconfig cannot be used: {error}"
        )
    namespace = settings.namespace or config.namespace
    try:
        api = DynamicClient(config)
        api.request("GET", "/version")
    except ConfigError as error:
        return ConfiguredCluster(settings, None, namespace, f"the kubeconfig cannot be used: {error}")
    except KubeError as error:
        return ConfiguredCluster(settings, None, namespace, f"{config.server}: {error}")
    return ConfiguredCluster(settings, api, namespace)


def type_of(token: str) -> tuple[str, str]:
    """apiVersion and kind of a type token `kubernetes:<group/version>:<Kind>`, the core group being `core/v1`."""
    _, module, kind = [*token.split(":", 2), "", ""][:3]
    return module.removeprefix("core/"), kind


def unsupported(token: str, kind: str) -> str | None:
    """Why the stand-in cannot serve a type, or None if it can."""
    module, type_kind = type_of(token)
    if module.startswith(("helm.sh/", "kustomize/", "yaml/")) or module == "yaml":
        return f"the stand-in provider does not know {token}; use the official plugin"
    if type_kind == f"{kind}Patch":
        return f"the stand-in provider cannot patch objects it does not own ({token}); use the official plugin"
    return None


def _ignored(paths: Iterable[str]) -> list[Path]:
    return [parse(path) for path in paths]


def _type_token(request: Any) -> str:
    return str(request.type or request.urn.split("::")[2].rpartition("$")[2])


def _failures(failures: Iterable[CheckFailure]) -> list[Any]:
    return [provider_pb2.CheckFailure(property=failure.property, reason=failure.reason) for failure in failures]


class KubernetesProvider(provider_pb2_grpc.ResourceProviderServicer):
    """Serves one provider instance. Calls that no command makes of it are UNIMPLEMENTED by the base."""

    def __init__(self, engine: str) -> None:
        self._log = EngineLog(engine)
        self.cancellation = Cancellation()
        self._cluster = ConfiguredCluster(ProviderSettings(), None, problem="the provider is not configured")

    def _operations(self) -> Operations:
        return Operations(self._cluster, self._log, self.cancellation)

    def Handshake(self, request: Any, context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True, supports_autonaming_configuration=True)

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetSchema(self, request: Any, context: Any) -> Any:
        return provider_pb2.GetSchemaResponse(schema=json.dumps(provider_schema(VERSION)))

    def Attach(self, request: Any, context: Any) -> Any:
        self._log = EngineLog(request.address)
        return empty_pb2.Empty()

    def CheckConfig(self, request: Any, context: Any) -> Any:
        failures = check_settings(decode(request.news), provider_name=request.urn.rpartition("::")[2])
        return provider_pb2.CheckResponse(inputs=request.news, failures=_failures(failures))

    def DiffConfig(self, request: Any, context: Any) -> Any:
        old = decode(request.old_inputs if len(request.old_inputs.fields) else request.olds)
        changed, replaces = changed_settings(old, decode(request.news))
        outcome = provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(changes=outcome, diffs=changed, replaces=replaces)

    def Configure(self, request: Any, context: Any) -> Any:
        self._cluster = connect(ProviderSettings.from_variables(dict(request.variables)))
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, supports_autonaming_configuration=True
        )

    def Check(self, request: Any, context: Any) -> Any:
        inputs = decode(request.news)
        reason = unsupported(_type_token(request), str(inputs.get("kind", "")))
        if reason is not None:
            return provider_pb2.CheckResponse(inputs=request.news, failures=_failures([CheckFailure("", reason)]))
        naming = Naming(request.name or request.urn.rpartition("::")[2], request.randomSeed)
        if request.HasField("autonaming"):
            mode = NamingMode(request.autonaming.mode)
            naming = Naming(naming.resource_name, naming.seed, request.autonaming.proposed_name, mode)
        checked = check(
            inputs,
            decode(request.olds),
            naming=naming,
            default_namespace=self._cluster.default_namespace,
            is_namespaced=self._cluster.is_namespaced,
        )
        return provider_pb2.CheckResponse(inputs=encode(checked.inputs), failures=_failures(checked.failures))

    def Diff(self, request: Any, context: Any) -> Any:
        old = Checkpoint.read(decode(request.olds), decode(request.old_inputs))
        new = reveal(decode(request.news))
        diff = difference(
            old.live,
            reveal(old.inputs),
            new,
            ignore=_ignored(request.ignoreChanges),
            mutable_kinds=self._cluster.settings.mutable_kinds,
            cluster_scoped=not self._cluster.is_namespaced(new["apiVersion"], new["kind"]),
        )
        outcome = provider_pb2.DiffResponse.DIFF_SOME if diff.changes else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=outcome,
            replaces=[render(change.path) for change in diff.changes if change.replaces],
            diffs=sorted({str(change.path[0]) for change in diff.changes}),
            deleteBeforeReplace=diff.delete_first,
            detailedDiff={render(change.path): _property_diff(change) for change in diff.changes},
            hasDetailedDiff=True,
        )

    def Create(self, request: Any, context: Any) -> Any:
        try:
            identifier, outputs = self._operations().create(
                request.urn, decode(request.properties), timeout=request.timeout, preview=request.preview
            )
        except OperationError as error:
            abort(context, str(error))
        except PartialFailure as failure:
            abort_partial(context, failure)
        return provider_pb2.CreateResponse(id=identifier, properties=encode(outputs))

    def Read(self, request: Any, context: Any) -> Any:
        old = Checkpoint.read(decode(request.properties), decode(request.inputs))
        kind = type_of(_type_token(request))
        try:
            identifier, outputs, inputs = self._operations().read(request.urn, request.id, old, kind)
        except OperationError as error:
            abort(context, str(error))
        except PartialFailure as failure:
            abort_partial(context, failure)
        return provider_pb2.ReadResponse(id=identifier, properties=encode(outputs), inputs=encode(inputs))

    def Update(self, request: Any, context: Any) -> Any:
        old = Checkpoint.read(decode(request.olds), decode(request.old_inputs))
        try:
            outputs = self._operations().update(
                request.urn,
                old,
                decode(request.news),
                ignore=_ignored(request.ignoreChanges),
                timeout=request.timeout,
                preview=request.preview,
            )
        except OperationError as error:
            abort(context, str(error))
        except PartialFailure as failure:
            abort_partial(context, failure)
        return provider_pb2.UpdateResponse(properties=encode(outputs))

    def Delete(self, request: Any, context: Any) -> Any:
        old = Checkpoint.read(decode(request.properties), decode(request.old_inputs))
        try:
            self._operations().delete(request.urn, request.id, old, timeout=request.timeout)
        except OperationError as error:
            abort(context, str(error))
        return empty_pb2.Empty()

    def Construct(self, request: Any, context: Any) -> Any:
        abort(context, unsupported(request.type, "") or f"the stand-in provider has no component {request.type}")

    def Invoke(self, request: Any, context: Any) -> Any:
        abort(context, f"the stand-in provider has no function {request.tok}; use the official plugin")

    def Cancel(self, request: Any, context: Any) -> Any:
        self.cancellation.cancel()
        return empty_pb2.Empty()


def _property_diff(change: PropertyChange) -> Any:
    return provider_pb2.PropertyDiff(kind=_KINDS[change.kind, change.replaces], inputDiff=False)


def main(argv: Sequence[str]) -> None:
    """Serve the provider on a port of its own until interrupted."""
    provider = KubernetesProvider(engine_address(argv))

    def register(server: grpc.Server) -> None:
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)

    serve(register, workers=_WORKERS, on_stop=provider.cancellation.cancel, grace=_LEAVE_GRACE_SECONDS)


def decode(struct: Any) -> Object:
    """A Struct as JSON. Numbers travel as doubles: whole ones become integers again, as the API server wants them."""
    return {key: _decode_value(value) for key, value in struct.fields.items()}


def _decode_value(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return decode(value.struct_value)
    if kind == "list_value":
        return [_decode_value(item) for item in value.list_value.values]
    if kind == "number_value":
        number: float = value.number_value
        return int(number) if number.is_integer() else number
    return None if kind in (None, "null_value") else getattr(value, kind)


def encode(value: Object) -> Any:
    """JSON as a Struct."""
    struct = struct_pb2.Struct()
    for key, item in value.items():
        _encode_value(struct.fields[key], item)
    return struct


def _encode_value(target: Any, value: Any) -> None:
    if value is None:
        target.null_value = struct_pb2.NULL_VALUE
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int | float):
        target.number_value = float(value)
    elif isinstance(value, str):
        target.string_value = value
    elif isinstance(value, dict):
        target.struct_value.CopyFrom(encode(value))
    else:
        target.list_value.SetInParent()
        for item in value:
            _encode_value(target.list_value.values.add(), item)


class _RpcStatus(grpc.Status):  # type: ignore[misc]
    def __init__(self, message: str, trailer: bytes) -> None:
        self.code = grpc.StatusCode.UNKNOWN
        self.details = message
        self.trailing_metadata = (("grpc-status-details-bin", trailer),)


def abort_partial(context: Any, failure: PartialFailure) -> NoReturn:
    """Answer that the resource exists but is not ready: the engine saves it with the reasons, and retries by update."""
    detail = provider_pb2.ErrorResourceInitFailed(
        id=failure.identifier,
        reasons=failure.reasons,
        properties=encode(failure.outputs),
        inputs=encode(failure.inputs),
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=failure.reasons[0])
    status.details.add().Pack(detail)
    context.abort_with_status(_RpcStatus(failure.reasons[0], status.SerializeToString()))
    raise AssertionError("abort_with_status raises")


def abort(context: Any, message: str) -> NoReturn:
    """Answer that the call failed and nothing has changed."""
    context.abort(grpc.StatusCode.UNKNOWN, message)
    raise AssertionError("abort raises")


class EngineLog:
    """Messages that the engine shows with a resource; losing one does not fail the resource."""

    def __init__(self, address: str) -> None:
        self._engine: Any = engine_pb2_grpc.EngineStub(engine_channel(address)) if address else None

    def status(self, urn: str, message: str) -> None:
        """A line that the next one replaces."""
        self._log(urn, message, engine_pb2.INFO, ephemeral=True)

    def warning(self, urn: str, message: str) -> None:
        """A lasting warning."""
        self._log(urn, message, engine_pb2.WARNING, ephemeral=False)

    def _log(self, urn: str, message: str, severity: Any, *, ephemeral: bool) -> None:
        if self._engine is None:
            return
        request = engine_pb2.LogRequest(severity=severity, message=message, urn=urn, ephemeral=ephemeral)
        try:
            self._engine.Log(request, timeout=5)
        except grpc.RpcError:
            return
