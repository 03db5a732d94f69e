"""Builds the image with podman: `make image`.

All that the build needs is fetched here, so that the build itself uses no network: indices, mirrors and certificates
are those that this machine's pip is configured for.

    python tools/image.py [--base IMAGE] [--builder IMAGE] [--python PATH] [--tag NAME ...]
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGE = ROOT / "image"
WHEELS = IMAGE / "wheels"
FETCHED = WHEELS / ".locks"
LOCKS = ("requirements.txt", "requirements-build.txt")
LOCAL_BASE = f"localhost/secondary-scheduler/base:python{sys.version_info.major}.{sys.version_info.minor}"


class BuildError(Exception):
    """One line for the user."""


def version() -> str:
    """The project's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def default_tags() -> list[str]:
    """Under which the stack `local` names the image: one for each entry point."""
    return [f"localhost/secondary-scheduler/{name}:{version()}" for name in ("kube-scheduler", "operator")]


def run(*command: str | Path) -> None:
    """Run a command; its failure ends the build."""
    done = subprocess.run([str(part) for part in command], check=False)
    if done.returncode:
        raise BuildError(f"{Path(command[0]).name} {command[1]} failed with exit code {done.returncode}; see above")


def fetch_wheels() -> None:
    """Fill image/wheels with exactly the locked files for this machine's platform and Python, if they changed."""
    locks = b"".join((IMAGE / lock).read_bytes() for lock in LOCKS)
    wanted = hashlib.sha256(f"{sys.version_info[:2]} ".encode() + locks).hexdigest()
    if FETCHED.exists() and FETCHED.read_text(encoding="utf-8") == wanted:
        return
    for file in WHEELS.glob("*.whl"):
        file.unlink()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"]
    pip += ["--require-hashes", "--no-deps", "--only-binary", ":all:"]
    for lock in LOCKS:
        run(*pip, "--dest", WHEELS, "--requirement", IMAGE / lock)
    FETCHED.write_text(wanted, encoding="utf-8")


def ensure_local_base(podman: str) -> str:
    """Make the base image out of this machine's Python, if it is not there yet."""
    exists = subprocess.run([podman, "image", "exists", LOCAL_BASE], check=False).returncode == 0
    if not exists:
        print(f"image: making {LOCAL_BASE} from {sys.base_prefix}", flush=True)
        run(sys.executable, ROOT / "tools/base_image.py", LOCAL_BASE)
    return LOCAL_BASE


def build(podman: str, base: str, builder: str, python: str, tags: Sequence[str]) -> None:
    """Build the image on `base` (with `builder` for the wheels, if it differs) and give it the tags."""
    arguments = {"BASE": base, "BUILDER": builder or base, "PIP_NO_INDEX": "1", "VERSION": version()}
    if python:
        arguments["PYTHON"] = python
    run(
        *(podman, "build", "--quiet", "--isolation", "chroot", "--file", IMAGE / "Containerfile"),
        *(part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")),
        *(part for tag in tags for part in ("--tag", tag)),
        ROOT,
    )


def main(argv: Sequence[str]) -> int:
    """Build as the options say; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", default="", help="image with Python (default: made from this machine's Python)")
    parser.add_argument("--builder", default="", help="image with the same Python and ensurepip (default: the base)")
    parser.add_argument("--python", default="", help="where Python is in the base (default: /usr/local/bin/python3)")
    parser.add_argument("--tag", action="append", default=[], help=f"names (default: {', '.join(default_tags())})")
    options = parser.parse_args(argv)
    podman = shutil.which("podman")
    try:
        if podman is None:
            raise BuildError("podman is not on PATH; on Debian: apt-get install podman runc")
        fetch_wheels()
        base = options.base or ensure_local_base(podman)
        tags = options.tag or default_tags()
        build(podman, base, options.builder, options.python, tags)
    except BuildError as failure:
        print(f"image: {failure}", file=sys.stderr)
        return 1
    print("\n".join(f"image: built {tag}" for tag in tags))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
