"""What an update would delete that a live stack's pods depend on, read from the stack's own state.

The engine decides what to delete after the program has ended, and knows no setting that would make it refuse: `protect`
also blocks `pulumi destroy`, and a hook before deletion is part of the state, so a program that no longer registers the
object has none. So the program compares what the state holds with what its settings keep, before it registers anything:
nothing has been deleted by then, also in an update without a preview. The cluster is not contacted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from components.settings import CheckedConfiguration
from stacks.settings import StackSettings

_PROVIDER: Final = "pulumi:providers:kubernetes"
_COMPONENTS: Final = "secondary-scheduler:components:"
_RECORD: Final = ("InstallationRecord", "ConfigMap")


@dataclass(frozen=True)
class Removal:
    """An object that goes.

    Attributes:
        shown: its kind, namespace and name, and what goes with it.
        reason: the setting because of which it goes, and how that changes.
    """

    shown: str
    reason: str


def check_removals(
    state: Mapping[str, Any], settings: StackSettings, profile: CheckedConfiguration, cluster_identifier: str
) -> None:
    """Refuse an update that would delete what pods depend on; with `allowRemoval` only name it.

    Args:
        state: type and outputs of every resource, by URN; empty for a new stack, and where it cannot be read.
        settings, profile: what the stack is about to become.
        cluster_identifier: the name by which the engine will know the cluster.

    Raises:
        pulumi.RunError: it would, and `allowRemoval` is not set; or the namespace is another one, which cannot be
            changed in one update.
    """
    if moved := _moved(state, settings.namespace):
        raise pulumi.RunError(moved)
    gone = removals(state, settings, profile, cluster_identifier)
    if not gone:
        if settings.allow_removal:
            pulumi.log.warn("allowRemoval: nothing is removed; remove this key from the stack file")
        return
    if settings.allow_removal:
        lines = _by_reason("allowRemoval: this update deletes", gone)
        pulumi.log.warn("\n".join([*lines, "remove this key after the update"]))
        return
    last = "undo that change; or, if it is meant, allow it for one update: pulumi config set allowRemoval true"
    raise pulumi.RunError("\n".join([*_by_reason("this update would delete", gone), last]))


def _by_reason(head: str, gone: Iterable[Removal]) -> Iterator[str]:
    """Lines that name the objects below the reason for which they go."""
    by_reason: dict[str, list[str]] = {}
    for removal in gone:
        by_reason.setdefault(removal.reason, []).append(f"  {removal.shown}")
    for reason, objects in by_reason.items():
        yield f"{head}, because {reason}:"
        yield from objects
        head = "and"


def removals(
    state: Mapping[str, Any], settings: StackSettings, profile: CheckedConfiguration, cluster_identifier: str
) -> list[Removal]:
    """Return operator, scheduler, CRDs and namespace that the state holds and the settings do not keep."""
    live = list(_live(state))
    wanted = _DesiredParts(settings, profile.crds if settings.install_plugin_crds else (), _modes(live))
    elsewhere = _another_cluster(state, cluster_identifier)
    gone = []
    for item in live:
        part = _PARTS.get((item.component, item.kind))
        if part is None:
            continue
        reason = elsewhere or part.reason(wanted, item.name)
        if reason:
            stays = " (it stays if an earlier update applied retainCrds)" if part.is_crd and settings.keeps_crds else ""
            gone.append(Removal(f"{item.shown}, {part.loss.format(kind=item.served_kind)}{stays}", reason))
    return gone


def _moved(state: Mapping[str, Any], namespace: str) -> str:
    """Why the namespace cannot change; "" if it does not.

    Every object would be replaced, the SecondaryScheduler while its operator goes, and the names of those without a
    namespace follow from it.
    """
    for was in namespaces_in(state):
        if was not in ("", namespace):
            return (
                f"namespace is {namespace}, and this stack lives in {was}: an update cannot move it; keep {was}, or "
                f"move in two steps: pulumi destroy, then pulumi up with namespace {namespace} (running pods stay, new "
                "ones wait in between)"
            )
    return ""


def namespaces_in(state: Mapping[str, Any]) -> list[str]:
    """Return the namespaces of what a stack registers first, "" where one is not known; none of a new stack.

    These are its Namespace, which it does not have in install mode none, and its record.
    """
    named = [item.name for item in _live(state) if (item.component, item.kind) == ("Namespace", "Namespace")]
    return named + [item.namespace for item in _live(state) if (item.component, item.kind) == _RECORD]


@dataclass(frozen=True)
class _DesiredParts:
    """What the stack is about to become; each method says why a part of it goes, "" if it stays.

    Attributes:
        plugin_crds: those that the stack installs, as `plural.group`.
        recorded: the install modes in the state; two after a switch that failed halfway.
    """

    settings: StackSettings
    plugin_crds: Collection[str]
    recorded: Collection[str]

    @property
    def switch(self) -> str:
        """The change of install mode, before which everything that belongs to the old one goes; "" for none."""
        mode = self.settings.install_mode
        others = sorted(set(self.recorded) - {mode})
        return f"installMode is {mode} and was {', '.join(others)}" if others else ""

    def our_operator(self, _: str) -> str:
        return self._in_modes("manifests") or ("operator.flavour is upstream" if self._upstream else "")

    def upstream_operator(self, _: str) -> str:
        return self._in_modes("manifests") or ("" if self._upstream else "operator.flavour is ours")

    def subscription(self, name: str) -> str:
        package = self.settings.operator.package_in(self.settings.install_mode)
        return self.switch or self._in_modes("olm", "catalog") or self._unless(name == package, f"operator: {package}")

    def resource(self, _: str) -> str:
        return self.switch or self._in_modes("manifests", "none", "olm", "catalog")

    def deployment(self, _: str) -> str:
        return self._in_modes("direct")

    def crd(self, _: str) -> str:
        return self._in_modes("manifests")

    def namespace(self, _: str) -> str:
        return self._in_modes("manifests", "direct", "olm", "catalog")

    def plugin_crd(self, name: str) -> str:
        why = "no enabled plugin reads it" if self.settings.install_plugin_crds else "installPluginCrds is false"
        return self._unless(name in self.plugin_crds, why)

    @property
    def _upstream(self) -> bool:
        return self.settings.operator.is_upstream(self.settings.install_mode)

    def _in_modes(self, *modes: str) -> str:
        mode = self.settings.install_mode
        return self._unless(mode in modes, self.switch or f"installMode is {mode}")

    @staticmethod
    def _unless(kept: bool, reason: str) -> str:
        return "" if kept else reason


@dataclass(frozen=True)
class _Part:
    """An object that pods depend on: what goes with it, and why it goes."""

    loss: str
    reason: Callable[[_DesiredParts, str], str]
    is_crd: bool = False


_CRD_LOSS: Final = "and with it every {kind} of the cluster"
_RUNNING: Final = "and with it the running scheduler"
_PARTS: Final = {
    ("OperatorInstall", "Deployment"): _Part("the operator", _DesiredParts.our_operator),
    ("UpstreamOperator", "Deployment"): _Part("the operator", _DesiredParts.upstream_operator),
    ("OlmOperator", "Subscription"): _Part("and with it the operator", _DesiredParts.subscription),
    ("SecondaryScheduler", "SecondaryScheduler"): _Part(_RUNNING, _DesiredParts.resource),
    ("DirectScheduler", "Deployment"): _Part("the running scheduler", _DesiredParts.deployment),
    ("SecondarySchedulerCrd", "CustomResourceDefinition"): _Part(_CRD_LOSS, _DesiredParts.crd, is_crd=True),
    ("PluginCrds", "CustomResourceDefinition"): _Part(_CRD_LOSS, _DesiredParts.plugin_crd, is_crd=True),
    ("Namespace", "Namespace"): _Part("and with it everything in it", _DesiredParts.namespace),
}
"""By the component that registers it, and its kind."""


@dataclass(frozen=True)
class _Object:
    """An object in the state, with the component that registered it."""

    component: str
    kind: str
    outputs: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(_mapping(self.outputs, "metadata").get("name", ""))

    @property
    def namespace(self) -> str:
        return str(_mapping(self.outputs, "metadata").get("namespace") or "")

    @property
    def shown(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def served_kind(self) -> str:
        """The kind that a CRD serves."""
        return str(_mapping(self.outputs, "spec", "names").get("kind", "object"))


def _live(state: Mapping[str, Any]) -> Iterator[_Object]:
    for urn, resource in state.items():
        # …::TYPE$TYPE$TYPE::NAME, the types of the parents first.
        types = urn.split("::")[2].split("$") if urn.count("::") >= 3 else []
        if len(types) >= 2 and types[-2].startswith(_COMPONENTS) and isinstance(resource, Mapping):
            component = types[-2].removeprefix(_COMPONENTS)
            yield _Object(component, types[-1].rpartition(":")[2], _mapping(resource, "outputs"))


def _modes(live: Collection[_Object]) -> set[str]:
    records = [item for item in live if (item.component, item.kind) == _RECORD]
    return {str(_mapping(record.outputs, "data").get("installMode", "")) for record in records} - {""}


def _another_cluster(state: Mapping[str, Any], cluster_identifier: str) -> str:
    """Why every object goes: the engine takes the cluster for another one; "" if it does not."""
    for resource in state.values():
        if isinstance(resource, Mapping) and resource.get("type") == _PROVIDER:
            was = _mapping(resource, "outputs").get("clusterIdentifier")
            if isinstance(was, str) and was != cluster_identifier:
                return f"cluster.clusterIdentifier is {cluster_identifier} and was {was}"
    return ""


def _mapping(value: Any, *path: str) -> Mapping[str, Any]:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}
