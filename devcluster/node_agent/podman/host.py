"""Podman on this machine: whether it can be used, which images it has, and the removal of what an agent left.

Everything here waits for podman, some tenths of a second per call.
"""

import os
import shutil
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

RUNTIME = "--runtime=runc"
AGENT_LABEL = "io.secondary-scheduler.node-agent"
"""Label of a container: the state directory of the agent that started it."""
OLDEST = 4
CGROUPS = Path("/sys/fs/cgroup")
_SECONDS = 180
_REASON_CHARACTERS = 300


class PodmanUnavailableError(RuntimeError):
    """Containers cannot be run here; one line with what to do."""


@dataclass(frozen=True, slots=True)
class PodmanHost:
    """Podman with runc as it was found."""

    program: str
    version: str
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
    # `podman info` would ask the package manager, which takes a minute on a busy machine.
    done = _run(program, RUNTIME, "version", "--format={{.Client.Version}}")
    if done.returncode != 0:
        raise PodmanUnavailableError(f"podman does not work with runc here: {last_line(done.stderr)}")
    version = done.stdout.strip()
    major = version.partition(".")[0]
    if not major.isdecimal() or int(major) < OLDEST:
        raise PodmanUnavailableError(
            f"podman is {version[:_REASON_CHARACTERS] or 'of no version'}: use {OLDEST} or newer"
        )
    return PodmanHost(program, version, cgroup_controllers(CGROUPS, os.geteuid()))


def cgroup_controllers(root: Path, uid: int) -> frozenset[str]:
    """The controllers that containers of a user can be limited by, below the directory where cgroups are mounted.

    As podman has it: with cgroups v1 only root may limit, with v2 what systemd delegates to the user.
    """
    unified = root / "cgroup.controllers"
    if not unified.exists():
        return frozenset(path.name for path in root.glob("*") if path.is_dir()) if uid == 0 else frozenset()
    if uid != 0:
        unified = root / f"user.slice/user-{uid}.slice/user@{uid}.service/cgroup.controllers"
    return frozenset(unified.read_text().split()) if unified.exists() else frozenset()


def remove_containers(program: str, directory: Path) -> int:
    """Kill and remove the containers of all agents whose state is in a directory; how many there were.

    Raises PodmanUnavailableError.
    """
    form = f'--format={{{{.ID}}}} {{{{index .Labels "{AGENT_LABEL}"}}}}'
    done = _run(program, "ps", "--all", "--no-trunc", f"--filter=label={AGENT_LABEL}", form)
    if done.returncode != 0:
        raise PodmanUnavailableError(f"podman cannot list containers: {last_line(done.stderr)}")
    marked = [line.partition(" ") for line in done.stdout.splitlines()]
    ids = [name for name, _, state in marked if Path(state).is_relative_to(directory)]
    if ids:
        removed = _run(program, "rm", "--force", "--ignore", "--volumes", "--time=0", *ids)
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
