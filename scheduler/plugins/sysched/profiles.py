"""Which system calls a pod may make, as sets of bits."""

from collections.abc import Iterable

from scheduler.framework import Objects, SeccompPaths
from scheduler.kube.model import SeccompProfileObject

_KIND = "SeccompProfile"
_MOST_CALLS = 4096
"""Names of system calls that get a bit; Linux has some five hundred."""
_ALLOWING_ACTIONS = frozenset({"SCMP_ACT_ALLOW", "SCMP_ACT_LOG"})

Name = tuple[str, str]
"""Namespace and name of a SeccompProfile."""


class Profiles:
    """Calls by what pods name, kept until a SeccompProfile changes.

    Attributes:
        version: changes when the calls of some pods have changed.
        width: bits in use.
        left_out: whether profiles name more than `_MOST_CALLS` calls: those that came last do not count.
    """

    def __init__(self, default: Name) -> None:
        self._default = default
        self._bits: dict[str, int] = {}
        self._calls: dict[SeccompPaths, int] = {}
        self._objects: Objects | None = None
        self._generation = -1
        self.version = 0
        self.left_out = False

    @property
    def width(self) -> int:
        """Number of system calls that have a bit."""
        return len(self._bits)

    def refresh(self, objects: Objects) -> None:
        """Take note of changed profiles; `version` changes only where some pod may make other calls than before."""
        generation = objects.generation(_KIND)
        if objects is self._objects and generation == self._generation:
            return
        self._objects, self._generation = objects, generation
        now = {paths: self._syscalls_of(paths) for paths in self._calls}
        if now != self._calls:
            self._calls = now
            self.version += 1

    def syscalls_of_paths(self, paths: SeccompPaths) -> int:
        """Return the calls of a pod: of all profiles that it names, or else of the default profile."""
        calls = self._calls.get(paths)
        if calls is None:
            calls = self._calls[paths] = self._syscalls_of(paths)
        return calls

    def _syscalls_of(self, paths: SeccompPaths) -> int:
        calls = 0
        for path in paths.contexts:
            calls |= self._profile(profile_name(path)) or 0
        calls |= self._syscalls_of_annotations(paths.annotations)
        return calls or self._profile(self._default) or 0

    def _syscalls_of_annotations(self, paths: Iterable[str]) -> int:
        """Return the calls that any of the annotations' profiles allows."""
        calls = 0
        for path in paths:
            calls |= self._profile(profile_name(path)) or 0
        return calls

    def _profile(self, name: Name) -> int | None:
        """Return the calls of a profile; None where it is not there."""
        if self._objects is None or not all(name):
            return None
        profile: SeccompProfileObject | None = self._objects.get(_KIND, *name)
        if profile is None:
            return None
        calls = 0
        for rule in profile.spec.syscalls:
            if rule.action in _ALLOWING_ACTIONS:
                for call in rule.names:
                    bit = self._bits.get(call)
                    if bit is None:
                        if len(self._bits) >= _MOST_CALLS:
                            self.left_out = True
                            continue
                        bit = self._bits[call] = len(self._bits)
                    calls |= 1 << bit
        return calls


def profile_name(path: str) -> Name:
    """Return the SeccompProfile behind a path such as `operator/<namespace>/<name>.json`; empty where it has no two
    parts."""
    parts = path.rsplit("/", 2)
    if len(parts) < 2:
        return "", ""
    # What follows the last dot, wherever it stands, is taken for an extension.
    stem, dot, _ = parts[-1].rpartition(".")
    return parts[-2], stem if dot else parts[-1]
