"""The three states of a waiting object, and the means to look at what belongs to it."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object


class ClusterReader(Protocol):
    """Reading related objects; answers are empty where there are none or they may not be read."""

    def list(self, api_version: str, kind: str, namespace: str, selector: Object) -> list[Object]:
        """Objects of a namespace that a label selector (matchLabels, matchExpressions) selects."""

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        """One object."""

    def is_served(self, api_version: str, kind: str) -> bool:
        """Whether the API server has begun to serve a kind."""


@dataclass(frozen=True)
class Ready:
    """Nothing to wait for."""


@dataclass(frozen=True)
class Pending:
    """Not ready yet: one line for the user's display, and the reasons to report should it stay so."""

    status: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failed:
    """It will not become ready by waiting."""

    reasons: tuple[str, ...]


State: TypeAlias = Ready | Pending | Failed

READY = Ready()
