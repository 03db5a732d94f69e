"""Whose tests are run against ours: those of a module, at the version that fits a release of Kubernetes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import SpecError
from devcluster.releases import PEERS, KubernetesRelease
from devcluster.toolchain.binaries import BINARIES, MODULES

KUBERNETES = "k8s.io/kubernetes"
PLUGINS = "sigs.k8s.io/scheduler-plugins"
SUITES = ("kube-scheduler", "scheduler-plugins")
_FOLDERS = {
    "kube-scheduler": "test/integration/scheduler",
    "scheduler_perf": "test/integration/scheduler_perf",
    "e2e": "test",
}
"""Suites of Kubernetes itself, with the folder of their packages; the last two have commands of their own."""


@dataclass(frozen=True)
class Suite:
    """The tests of a module.

    Attributes:
        name: of `SUITES`, `scheduler_perf` or `e2e`.
        release: the Kubernetes whose scheduler they start.
        module: where the tests are.
        version: of the module, as 0.34.7.
        root: where the packages of tests are in the module.
        requirements: a directory with the go.mod and go.sum that they are built with, of the local cluster's binaries:
            the compiler's cache has most of them already.
    """

    name: str
    release: KubernetesRelease
    module: str
    version: str
    root: str
    requirements: Path

    @property
    def edited(self) -> frozenset[str]:
        """The modules that are copied and edited."""
        return frozenset({KUBERNETES, self.module})


def suite_of(name: str, release: KubernetesRelease) -> Suite:
    """The tests of that name which fit a release. Raises SpecError where there are none."""
    if name in _FOLDERS:
        requirements = MODULES / release.modules
        return Suite(name, release, KUBERNETES, release.version, _FOLDERS[name], requirements)
    row = next((BINARIES[peer] for peer, minor in PEERS.items() if minor == release.minor), None)
    if row is None:
        raise SpecError(f"no scheduler-plugins is made of Kubernetes {release.minor}: use {', '.join(PEERS.values())}")
    return Suite(name, release, PLUGINS, row.version, "test", MODULES / row.group)
