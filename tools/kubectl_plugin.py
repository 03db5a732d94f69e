"""Builds the kubectl plugin as an archive that needs nothing but Python, and the manifest by which krew installs it.

    tools/kubectl_plugin.py --uri https://downloads.example.com/v0.2.0 [--output DIR] [--python 3.12 ...] [--arch amd64]

An archive for Linux on each architecture holds our wheel and its locked dependencies, unpacked: what is the same for
all of the Pythons in `lib/any`, the rest in `lib/cp312` and so on. Two builds of one commit are the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import yaml  # noqa: E402

from tools.locked_wheels import WheelTarget, fetch, unpack  # noqa: E402
from tools.version import version  # noqa: E402
from tools.wheels import BuildError, build, source_date_epoch  # noqa: E402

NAME = "secondary-scheduler"
BINARY = "kubectl-secondary_scheduler"
LOCK = ROOT / "image/requirements-cli.txt"
FETCHED = ROOT / "build/plugin-wheels"
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# It has to be understood by whatever python3 is, in order to say that this one is too old.
LAUNCHER = '''\
#!/usr/bin/env -S python3 -I
"""kubectl secondary-scheduler: finds a Python that this archive has the dependencies for."""
import os
import shutil
import sys

VERSIONS = {versions}
HERE = os.path.dirname(os.path.realpath(__file__))


def main():
    version = "%d.%d" % sys.version_info[:2]
    if version not in VERSIONS:
        for other in reversed(VERSIONS):
            path = shutil.which("python" + other)
            if path:
                os.execv(path, [path, "-I", os.path.abspath(__file__)] + sys.argv[1:])
        wanted = " or ".join(VERSIONS)
        sys.exit("{binary}: needs Python %s on PATH, where python3 is %s" % (wanted, version))
    own = os.path.join(HERE, "lib", "cp" + version.replace(".", ""))
    sys.path[:0] = [own, os.path.join(HERE, "lib", "any")]
    from secondary_scheduler.cli.__main__ import main as run

    run()


main()
'''


def assemble(pythons: Sequence[str], machine: str, directory: Path) -> None:
    """Write what the archive for a machine holds into an empty directory. Raises BuildError."""
    wheels = {python: fetch(LOCK, WheelTarget(python, machine), FETCHED / f"{machine}-{python}") for python in pythons}
    contents = {python: {wheel.name: wheel for wheel in files} for python, files in wheels.items()}
    common = (
        set.intersection(*(set(files) for files in contents.values()))
        if len(pythons) > 1
        else {name for name in contents[pythons[0]] if name.endswith("-any.whl")}
    )
    for python, files in contents.items():
        unpack(
            [file for name, file in files.items() if name not in common], directory / f"lib/cp{python.replace('.', '')}"
        )
    unpack([file for name, file in contents[pythons[0]].items() if name in common], directory / "lib/any")
    with tempfile.TemporaryDirectory() as built:
        unpack([file for file in build(Path(built), ["."]) if file.suffix == ".whl"], directory / "lib/any")
    launcher = directory / BINARY
    launcher.write_text(LAUNCHER.format(versions=tuple(pythons), binary=BINARY), encoding="utf-8")
    launcher.chmod(0o755)
    (directory / "LICENSE").write_bytes((ROOT / "LICENSE").read_bytes())


def pack(directory: Path, archive: Path) -> str:
    """Write a directory as a .tar.gz whose bytes depend on its content only; returns its SHA-256."""
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, 0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for file in sorted(path for path in directory.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(str(file.relative_to(directory)))
            content = file.read_bytes()
            entry.size, entry.mtime = len(content), int(source_date_epoch())
            entry.mode = 0o755 if file.name == BINARY else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return hashlib.sha256(archive.read_bytes()).hexdigest()


def manifest(uri: str, sums: Mapping[str, tuple[str, str]], pythons: Sequence[str]) -> dict[str, Any]:
    """Return krew's manifest.

    Args:
        uri: where the archives will be.
        sums: name and SHA-256 of an archive by architecture, as Go names these.
        pythons: what the archives hold dependencies for.
    """
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": NAME},
        "spec": {
            "version": f"v{version()}",
            "shortDescription": "Check, explain and simulate a load-aware second scheduler",
            "description": (
                "Explains why a pod is where it is, shows what a change of the scheduler's\n"
                "configuration would do to a cluster, and checks metric sources and nodes' load.\n"
            ),
            "caveats": f"Needs Python {' or '.join(pythons)} on PATH.\n",
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": "linux", "arch": arch}},
                    "uri": f"{uri.rstrip('/')}/{name}",
                    "sha256": digest,
                    "bin": BINARY,
                }
                for arch, (name, digest) in sorted(sums.items())
            ],
        },
    }


def write(uri: str, output: Path, pythons: Sequence[str], arches: Sequence[str]) -> list[Path]:
    """Write archives and manifest; returns the files. Raises BuildError."""
    output.mkdir(parents=True, exist_ok=True)
    sums: dict[str, tuple[str, str]] = {}
    files = []
    for arch in arches:
        archive = output / f"{BINARY}-{version()}-linux-{arch}.tar.gz"
        with tempfile.TemporaryDirectory() as directory:
            assemble(pythons, MACHINES[arch], Path(directory))
            sums[arch] = (archive.name, pack(Path(directory), archive))
        files.append(archive)
    # krew takes the plugin's name from that of the file.
    document = output / f"{NAME}.yaml"
    document.write_text(yaml.safe_dump(manifest(uri, sums, pythons), sort_keys=False, width=100), encoding="utf-8")
    return [*files, document]


def main(argv: Sequence[str]) -> int:
    """Build as the options say; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--uri", required=True, help="where the archives will be, without their names")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="directory (default: dist)")
    parser.add_argument("--python", nargs="+", default=PYTHONS, choices=PYTHONS, help="default: all")
    parser.add_argument("--arch", nargs="+", default=tuple(MACHINES), choices=tuple(MACHINES), help="default: all")
    options = parser.parse_args(argv)
    if not options.uri.startswith("https://"):
        parser.error(f"--uri {options.uri}: krew fetches from https:// only")
    try:
        files = write(options.uri, options.output, options.python, options.arch)
    except BuildError as failure:
        print(f"kubectl_plugin: {failure}", file=sys.stderr)
        return 1
    print("\n".join(str(file) for file in files))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
