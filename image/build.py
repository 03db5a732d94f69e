"""Runs inside the build stage of image/Containerfile: fills /out with what the image gets.

Standard library only, and no shell, so that the base image needs neither. `dependencies` installs the locked
packages; `product` builds our wheel, installs it, and writes the entry points.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = Path(os.environ.get("OUT", "/out"))
TOOLS = Path("/build/tools")
INSTALLED = "/opt/secondary-scheduler"
ENTRY_POINTS = {
    "kube-scheduler": "scheduler.__main__",
    "secondary-scheduler-operator": "secondary_scheduler.operator.__main__",
}
# -I: no PYTHON* variable, no user's packages and no directory of the caller decide what is imported.
# -B: the root file system is read-only, and everything is compiled already.
SCRIPT = """\
#!{python} -IB
import sys

sys.path[:0] = ["{installed}/product", "{installed}/dependencies", "{installed}/plugins"]

from {module} import main

sys.exit(main())
"""


def run(*command: str | Path) -> None:
    """Run a command; its failure ends the build."""
    subprocess.run([str(part) for part in command], check=True)


def pip(*arguments: str | Path) -> None:
    """Run the build stage's own pip; what `make image` brought along is preferred to an index."""
    options = ["--disable-pip-version-check", "--no-cache-dir", "--quiet", "--root-user-action", "ignore"]
    run(TOOLS / "bin/python", "-m", "pip", "install", *options, "--find-links", HERE / "wheels", *arguments)


def install(target: Path, *arguments: str | Path) -> None:
    """Install into a directory and compile it there, so that nothing depends on the files' times."""
    pip("--no-compile", "--no-deps", "--target", target, *arguments)
    # Console scripts of the packages: they name the build stage's Python.
    shutil.rmtree(target / "bin", ignore_errors=True)
    paths_at_run_time = ("-s", target, "-p", f"{INSTALLED}/{target.name}")
    checking = ("--invalidation-mode", "unchecked-hash")
    run(TOOLS / "bin/python", "-m", "compileall", "-q", "-j", "0", *checking, *paths_at_run_time, target)


def dependencies() -> None:
    """The locked closure of the daemon and the operator; every file must have a hash of the lock."""
    run(sys.executable, "-m", "venv", TOOLS)
    install(OUT / "dependencies", "--require-hashes", "--only-binary", ":all:", "-r", HERE / "requirements.txt")


def product() -> None:
    """Our own wheel, and one executable per entry point."""
    pip("--require-hashes", "-r", HERE / "requirements-build.txt")
    install(OUT / "product", "--no-build-isolation", HERE.parent)
    (OUT / "bin").mkdir()
    python = os.environ.get("PYTHON") or sys.executable
    for name, module in ENTRY_POINTS.items():
        file = OUT / "bin" / name
        file.write_text(SCRIPT.format(python=python, installed=INSTALLED, module=module), encoding="utf-8")
        file.chmod(0o755)


if __name__ == "__main__":
    {"dependencies": dependencies, "product": product}[sys.argv[1]]()
