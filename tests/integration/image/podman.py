"""Podman for tests of images."""

from __future__ import annotations

import subprocess
import zlib

from devcluster.node_agent.podman import PodmanUnavailableError, find_podman

# What runc can do where limits may not be raised above the shell's.
EVERYWHERE = ("--runtime", "runc", "--network", "host", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")


def podman(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["podman", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert not check or done.returncode == 0, f"podman {' '.join(arguments)}: {done.stderr}"
    return done.stdout + done.stderr


def run_once(image: str, *command: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """A container without any right, to its end."""
    restricted = ("--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--rm")
    return subprocess.run(
        ["podman", "run", *EVERYWHERE, *restricted, *options, image, *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def compressed_size(image: str) -> int:
    """Bytes of the image as an archive that is compressed as a whole."""
    compressor, size = zlib.compressobj(6), 0
    with subprocess.Popen(["podman", "save", image], stdout=subprocess.PIPE) as saving:
        assert saving.stdout is not None
        while chunk := saving.stdout.read(1 << 20):
            size += len(compressor.compress(chunk))
    assert saving.returncode == 0
    return size + len(compressor.flush())


def unusable() -> str:
    """Why no container can be run here; empty if one can."""
    try:
        find_podman()
    except PodmanUnavailableError as error:
        return str(error)
    return ""
