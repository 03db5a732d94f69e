"""Which Kubernetes a control plane can run: one row per minor release whose modules the Go module proxy serves.

A row beside the default's is built when it is asked for, by `--kubernetes`, or by `$SECONDARY_SCHEDULER_KUBERNETES`,
which the tests, the demo and the benchmarks obey.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from devcluster.errors import SpecError

VARIABLE = "SECONDARY_SCHEDULER_KUBERNETES"
DEFAULT = "1.34"
"""What `make test` and the demo run: the peer from scheduler-plugins is built from the same modules."""
API_SERVER, CONTROLLER_MANAGER, SCHEDULER = "kube-apiserver", "kube-controller-manager", "kube-scheduler"
COMPONENTS = frozenset({API_SERVER, CONTROLLER_MANAGER, SCHEDULER})
PEERS: Mapping[str, str] = {"scheduler-plugins": "1.34", "scheduler-plugins-0.35": "1.35"}
"""Each scheduler-plugins that is built, with the minor of Kubernetes that it is made of."""
_VERSION = re.compile(r"v?(\d+\.\d+)(\.\d+(?:-\w+\.\d+)?)?")


@dataclass(frozen=True)
class KubernetesRelease:
    """A patch release of Kubernetes, the only one of its minor that is built here.

    Attributes:
        version: `1.36.3`, or `1.38.0-beta.0` before a minor is released.
        borrowed: components that cannot be built at this version, with the minor whose build takes their place.
        peer: of `PEERS`, the scheduler-plugins that fits best.
    """

    version: str
    borrowed: Mapping[str, str] = field(default_factory=dict)
    peer: str = "scheduler-plugins"

    @property
    def minor(self) -> str:
        """`1.36`."""
        return ".".join(self.version.split(".")[:2])

    @property
    def serves(self) -> bool:
        """Whether there is an API server of this release; else its kube-scheduler runs on another's."""
        return API_SERVER not in self.borrowed

    @property
    def ldflags(self) -> str:
        """What tells a binary its version; without them it says v0.0.0, and checks of versions fail."""
        fields = {"gitVersion": f"v{self.version}", "gitMajor": "1", "gitMinor": self.minor.partition(".")[2]}
        return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in fields.items())

    @property
    def modules(self) -> str:
        """Directory of its go.mod in `modules`."""
        return "kubernetes" if self.minor == DEFAULT else f"kubernetes-{self.minor}"


RELEASES: Mapping[str, KubernetesRelease] = {
    release.minor: release
    for release in (
        KubernetesRelease("1.29.6", {API_SERVER: "1.30", CONTROLLER_MANAGER: "1.30"}),
        KubernetesRelease("1.30.14"),
        KubernetesRelease("1.32.13", {CONTROLLER_MANAGER: "1.30"}),
        KubernetesRelease("1.33.13"),
        KubernetesRelease("1.34.4"),
        KubernetesRelease("1.35.4", peer="scheduler-plugins-0.35"),
        KubernetesRelease("1.36.3", peer="scheduler-plugins-0.35"),
        KubernetesRelease("1.37.0", peer="scheduler-plugins-0.35"),
        # Its API server and controller manager need modules that the proxy lacks: modules/kubernetes-1.38/go.mod.
        KubernetesRelease(
            "1.38.0-beta.0", {API_SERVER: "1.37", CONTROLLER_MANAGER: "1.37"}, peer="scheduler-plugins-0.35"
        ),
    )
}
CONTROL_PLANES = tuple(minor for minor, release in RELEASES.items() if release.serves)
"""Minors with an API server that can be built."""
UNOBTAINABLE: Mapping[str, str] = {
    "1.31": "the Go module proxy lacks kube-aggregator, dynamic-resource-allocation and more of its modules",
}
"""Minors between those of the table, with the reason why they cannot be built."""


def chosen() -> str:
    """The minor that `$SECONDARY_SCHEDULER_KUBERNETES` asks for, else the default. Raises SpecError."""
    text = os.environ.get(VARIABLE) or DEFAULT
    try:
        return release_of(text).minor
    except SpecError as error:
        raise SpecError(f"{VARIABLE}: {error}") from error


def release_of(text: str) -> KubernetesRelease:
    """The release of `1.36`, `v1.36` or `1.36.3`.

    Raises SpecError with one line for a text that is no version, a minor that cannot be built, and another patch level.
    """
    names = ", ".join(RELEASES)
    match = _VERSION.fullmatch(text)
    if match is None:
        raise SpecError(f"Kubernetes {text!r} is no version: use {names}")
    minor, patch = match.groups()
    if minor in UNOBTAINABLE:
        raise SpecError(f"Kubernetes {minor} cannot be built: {UNOBTAINABLE[minor]}; use {names}")
    release = RELEASES.get(minor)
    if release is None:
        raise SpecError(f"Kubernetes {minor} is not in the table of what can be built: use {names}")
    if patch is not None and release.version != f"{minor}{patch}":
        raise SpecError(f"Kubernetes {minor}{patch} cannot be built, only {release.version} of that minor: use {minor}")
    return release


def control_plane_of(text: str) -> KubernetesRelease:
    """As `release_of`, for a release with an API server of its own. Raises SpecError."""
    release = release_of(text)
    if not release.serves:
        other = release.borrowed[API_SERVER]
        raise SpecError(
            f"Kubernetes {release.minor} has no API server that can be built, only its kube-scheduler "
            f"{release.version}, which runs on {other}'s: use {other}"
        )
    return release
