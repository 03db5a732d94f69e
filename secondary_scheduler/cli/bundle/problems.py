"""What could not be read, and why: the file problems.txt."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.kube.client import Forbidden, KubeError, NotFound, Unauthorized


class Right(NamedTuple):
    """What a request needs, in the words of RBAC; `place` is ` in namespace X`, or empty."""

    verb: str
    resource: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{self.place}"


class Problems:
    """Collects one line per part that is missing or incomplete."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, part: str, reason: str) -> None:
        """Note why a part is missing, or what of it is."""
        line = f"{part}: {' '.join(reason.split())}"
        if line not in self.lines:
            self.lines.append(line)

    def add_error(self, part: str, error: KubeError, right: Right) -> None:
        """Note a request that failed."""
        if isinstance(error, Forbidden):
            self.add(part, f"not read, missing right: {right}")
        elif isinstance(error, Unauthorized):
            self.add(part, f"not read, the API server does not know this user any more: {error}")
        elif isinstance(error, NotFound):
            self.add(part, f"not there: {error}")
        else:
            self.add(part, f"not read: {error}")

    def text(self) -> str:
        """The content of problems.txt."""
        return "".join(f"{line}\n" for line in self.lines) or "Everything was read.\n"
