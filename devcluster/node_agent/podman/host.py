"""Podman on this machine: whether it can be used, which images it has, and the removal of what an agent left.

Everything here waits for podman, some tenths of a second per call.
"""

import json
import shutil
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

RUNTIME = "--runtime=runc"
AGENT_LABEL = "io.secondary-scheduler.node-agent"
"""Label of a container: the state directory of the agent that started it."""
_SECONDS = 60
_REASON_CHARACTERS = 300


class PodmanUnavailableError(RuntimeError):
    """Containers cannot be run here; one line with what to do."""


@dataclass(frozen=True, slots=True)
class PodmanHost:
    """Podman with runc as it was found."""

    program: str
    version: str
    rootless: bool
    controllers: frozenset[str]
    """Cgroup controllers that containers can be limited by: memory, cpu, pids …"""

    def missing_images(self, references: Collection[str]) -> list[str]:
        """Which of these images are not on this machine. Raises PodmanUnavailableError."""
        return [name for name in references if _run(self.program, "image", "exists", "--", name).returncode != 0]


def find_podman() -> PodmanHost:
    """Podman and runc on this machine. Raises PodmanUnavailableError."""
    program = shutil.which("podman")
    if program is None:
        raise PodmanUnavailableError("podman is not on PATH; on Debian: apt-get install podman runc")
    done = _run(program, RUNTIME, "info", "--format=json")
    if done.returncode != 0:
        raise PodmanUnavailableError(f"podman does not work with runc here: {last_line(done.stderr)}")
    try:
        info = json.loads(done.stdout)
        return PodmanHost(
            program=program,
            version=str(info["version"]["Version"]),
            rootless=bool(info["host"]["security"]["rootless"]),
            controllers=frozenset(info["host"].get("cgroupControllers") or ()),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PodmanUnavailableError(f"`podman info` has no {error}: use podman 4 or newer") from error


def remove_containers(program: str, directory: Path) -> int:
    """Kill and remove the containers of all agents whose state is in a directory; how many there were.

    Raises PodmanUnavailableError.
    """
    form = f'--format={{{{.ID}}}} {{{{index .Labels "{AGENT_LABEL}"}}}}'
    done = _run(program, "ps", "--all", "--no-trunc", f"--filter=label={AGENT_LABEL}", form)
    if done.returncode != 0:
        raise PodmanUnavailableError(f"podman cannot list containers: {last_line(done.stderr)}")
    found = [line.partition(" ") for line in done.stdout.splitlines()]
    ids = [name for name, _, state in found if Path(state).is_relative_to(directory)]
    if ids:
        removed = _run(program, "rm", "--force", "--volumes", "--time=0", *ids)
        if removed.returncode != 0:
            raise PodmanUnavailableError(f"podman cannot remove containers: {last_line(removed.stderr)}")
    return len(ids)


def last_line(text: str) -> str:
    """What podman says at its end, as a reason: one line of bounded length."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else "it says nothing").removeprefix("Error: ")[:_REASON_CHARACTERS]


def _run(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PodmanUnavailableError(f"podman does not answer: {error}") from error
