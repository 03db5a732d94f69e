"""The kinds of constraints a case may hold, each switchable by name. A new one goes into the module of its subject."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.features import (
    affinity,
    declared,
    labels,
    lifecycle,
    network,
    resources,
    spreading,
    taints,
    volumes,
)
from tests.conformance.features.draft import Draft, Feature

FEATURES: dict[str, Feature] = {
    feature.name: feature
    for module in (resources, labels, taints, network, lifecycle, spreading, affinity, volumes, declared)
    for feature in module.FEATURES
}


def available(implemented: Iterable[str], minor: int = 0) -> tuple[str, ...]:
    """Names of the features that API server and schedulers of a minor know, whose plugins all exist and are meant to
    agree, in a fixed order."""
    have = frozenset(implemented)
    return tuple(
        name
        for name, feature in FEATURES.items()
        if feature.needs <= have and not feature.differs and feature.since <= minor
    )


__all__ = ["FEATURES", "Draft", "Feature", "available"]
