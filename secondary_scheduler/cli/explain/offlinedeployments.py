"""The pods of a Deployment in a snapshot: those of its ReplicaSets."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec import Struct

from secondary_scheduler.cli.errors import CommandError, ExitCode, printable
from secondary_scheduler.cli.explain.objects import Json, explained_first
from secondary_scheduler.clusterstatus.named import suggestion
from secondary_scheduler.simulation.objects import NamedObject, RecordedObjects


class _Owner(Struct):
    kind: str = ""
    name: str = ""


class _Meta(Struct, rename="camel"):
    owner_references: list[_Owner] | None = None


class _Owned(Struct):
    metadata: _Meta


_owned = msgspec.json.Decoder(_Owned)


def recorded_pods(objects: RecordedObjects, namespace: str, deployment: str) -> list[Json]:
    """Return the pods of a Deployment that have not ended, in the order of `explained_first`.

    By their owners, as a snapshot keeps no selectors of Deployments.

    Raises:
        CommandError: the snapshot has no such Deployment, or no pod of it.
    """
    title = f"deployment {namespace}/{deployment}"
    replica_sets = [each for each in objects.of("ReplicaSet") if each.namespace == namespace]
    sets = {each.name for each in replica_sets if _is_owned(each, "Deployment", {deployment})}
    names = {each.name for each in objects.of("Deployment") if each.namespace == namespace}
    if not sets and deployment not in names:
        elsewhere = sorted({each.namespace for each in objects.of("Deployment") if each.name == deployment})[:3]
        hint = f"; one of this name is in {' and in '.join(elsewhere)}: -n {elsewhere[0]}" if elsewhere else ""
        problem = f"{title}: the snapshot has no such Deployment{hint or suggestion(deployment, names)}"
        raise CommandError(printable(problem), ExitCode.INVALID_INPUT)
    pods: list[Json] = [
        msgspec.json.decode(each.entry.data)
        for each in objects.of("Pod")
        if each.namespace == namespace and _is_owned(each, "ReplicaSet", sets)
    ]
    if not (ordered := explained_first(pods)):
        raise CommandError(printable(f"{title} has no pods in the snapshot"), ExitCode.INVALID_INPUT)
    return ordered


def _is_owned(obj: NamedObject, kind: str, names: Collection[str]) -> bool:
    try:
        owners = _owned.decode(obj.entry.data).metadata.owner_references or ()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return any(owner.kind == kind and owner.name in names for owner in owners)
