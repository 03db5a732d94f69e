"""Runs inside the build stage of image/Containerfile: fills /out with what the image gets.

Standard library only, and no shell, so that the base image needs neither. `dependencies` installs the locked
packages; `product` builds our wheel, installs it, and writes the entry points. PART in the environment says which image
it is for: `daemons`, `scheduler` (the scheduler alone) or `cli` (the command line).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = Path(os.environ.get("OUT", "/out"))
TOOLS = Path("/build/tools")
QUIET = ("--disable-pip-version-check", "--no-cache-dir", "--quiet")
SBOM = "sbom.cdx.json"
INSTALLED = "/opt/secondary-scheduler"
ENTRY_POINTS = {
    "kube-scheduler": "scheduler.__main__",
    "secondary-scheduler-operator": "secondary_scheduler.operator.__main__",
    "load-watcher": "secondary_scheduler.loadwatcher.__main__",
    "rebalancer": "secondary_scheduler.rebalancer.__main__",
    "secondary-scheduler-page": "secondary_scheduler.page.__main__",
}
SOURCES = (
    *("pyproject.toml", "README.md", "LICENSE"),
    *(
        "scheduler",
        "secondary_scheduler/__init__.py",
        "secondary_scheduler/operator",
        "secondary_scheduler/loadwatcher",
        "secondary_scheduler/rebalancer",
        "secondary_scheduler/rebalancing",
        "secondary_scheduler/clusterstatus",
        "secondary_scheduler/clustersnapshot",
        "secondary_scheduler/simulation",
        "secondary_scheduler/views",
        "secondary_scheduler/page",
        *(f"secondary_scheduler/{name}.py" for name in ("balance", "errors", "files", "importing", "kubeobjects")),
        *(f"secondary_scheduler/{name}.py" for name in ("nodeload", "rebalancestatus", "serving", "yamltext")),
    ),
)
"""What our wheel is built from for the daemons. The command line is for a person's machine, or an image of its own."""
LOCKS = {
    "daemons": "requirements.txt",
    "scheduler": "requirements-scheduler.txt",
    "cli": "requirements-cli.txt",
}
ALL_SOURCES = {
    "daemons": SOURCES,
    "scheduler": ("pyproject.toml", "README.md", "LICENSE", "scheduler"),
    "cli": ("pyproject.toml", "README.md", "LICENSE", "scheduler", "secondary_scheduler"),
}
ALL_ENTRY_POINTS = {
    "daemons": ENTRY_POINTS,
    "scheduler": {"kube-scheduler": ENTRY_POINTS["kube-scheduler"]},
    "cli": {"secondary-scheduler": "secondary_scheduler.cli.__main__"},
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
    options = [*QUIET, "--root-user-action", "ignore"]
    run(TOOLS / "bin/python", "-m", "pip", "install", *options, "--find-links", HERE / "wheels", *arguments)


def install(target: Path, *arguments: str | Path) -> None:
    """Install into a directory and compile it there, so that nothing depends on the files' times."""
    pip("--no-compile", "--no-deps", "--target", target, *arguments)
    # Console scripts of the packages: they name the build stage's Python.
    shutil.rmtree(target / "bin", ignore_errors=True)
    paths_at_run_time = ("-s", target, "-p", f"{INSTALLED}/{target.name}")
    checking = ("--invalidation-mode", "unchecked-hash")
    # By one process: byte code depends on what its process has compiled before, and several share the files by chance.
    run(TOOLS / "bin/python", "-m", "compileall", "-q", *checking, *paths_at_run_time, target)


def dependencies(part: str) -> None:
    """The locked closure of a part; every file must have a hash of the lock."""
    run(sys.executable, "-m", "venv", TOOLS)
    install(OUT / "dependencies", "--require-hashes", "--only-binary", ":all:", "-r", HERE / LOCKS[part])


def copy_sources(checkout: Path, target: Path, part: str) -> None:
    """Copy what an image's part of us consists of, and what is needed to build a wheel of it."""
    for name in ALL_SOURCES[part]:
        source, copied = checkout / name, target / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copied, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, copied)


def product(part: str) -> None:
    """Our own wheel, of what the part needs, and one executable per entry point."""
    pip("--require-hashes", "-r", HERE / "requirements-build.txt")
    with tempfile.TemporaryDirectory() as directory:
        # A wheel of less, rather than files deleted after the installation: its RECORD stays true.
        copy_sources(HERE.parent, Path(directory), part)
        built = Path(directory, "built")
        run(
            TOOLS / "bin/python",
            "-m",
            "pip",
            "wheel",
            *QUIET,
            "--no-deps",
            "--no-build-isolation",
            "-w",
            built,
            directory,
        )
        # By name: from a path, pip would record where this build happened to stand.
        install(OUT / "product", "--no-index", "--find-links", built, "secondary-scheduler")
    (OUT / "licenses").mkdir()
    for name in ("LICENSE", SBOM):
        # A build without `make image` has no bill of materials.
        if (HERE.parent / name).exists():
            shutil.copy(HERE.parent / name, OUT / "licenses" / name)
    write_entry_points(OUT / "bin", os.environ.get("PYTHON") or sys.executable, part)


def write_entry_points(directory: Path, python: str, part: str) -> None:
    """Write the executables of an image into a new directory."""
    directory.mkdir()
    for name, module in ALL_ENTRY_POINTS[part].items():
        file = directory / name
        file.write_text(SCRIPT.format(python=python, installed=INSTALLED, module=module), encoding="utf-8")
        file.chmod(0o755)


if __name__ == "__main__":
    {"dependencies": dependencies, "product": product}[sys.argv[1]](os.environ["PART"])
