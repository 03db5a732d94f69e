"""The untyped edge: protobuf structs to JSON and back, statuses with details, and the engine's log."""

from typing import Any, NoReturn

import grpc
from google.protobuf import struct_pb2
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, provider_pb2, status_pb2

from devcluster.pulumi_stand_ins.kubernetes_provider.operations import PartialFailure
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object
from devcluster.pulumi_stand_ins.serving import engine_channel


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


class _Status(grpc.Status):  # type: ignore[misc]
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
    context.abort_with_status(_Status(failure.reasons[0], status.SerializeToString()))
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
