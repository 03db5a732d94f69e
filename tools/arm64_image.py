"""Builds the images for linux/arm64 on a machine that cannot run their programs: nothing of the target is run.

    tools/arm64_image.py [--part cli] [--tag NAME]

The base is made of Debian's packages for arm64, from the sources, and with the keys, that this machine's apt has. The
dependencies are the wheels for arm64 that the lock names. The rest is the last stage of the image's own Containerfile.
Byte code does not depend on the machine, only on Python's version, so this machine's Python compiles it: it has to be
Debian's, 3.11. Two builds from the same packages and commit have the same digest.
"""

from __future__ import annotations

import argparse
import io
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.base_image import CONTAINERFILE, DIRECTORIES, FILES  # noqa: E402
from tools.image import PARTS, ImagePart, run  # noqa: E402
from tools.locked_wheels import WheelTarget, fetch, unpack  # noqa: E402
from tools.sbom import write as write_sbom  # noqa: E402
from tools.version import version  # noqa: E402
from tools.wheels import BuildError, build as build_wheel, source_date_epoch  # noqa: E402

PLATFORM = "linux/arm64"
TARGET = WheelTarget("3.11", "aarch64", glibc=36)
PYTHON = f"/usr/bin/python{TARGET.python}"
# What they depend on comes with them.
PACKAGES = (f"python{TARGET.python}-minimal", f"libpython{TARGET.python}-stdlib", "libstdc++6", "libgcc-s1")
# For its files: what it depends on makes the bundle of them when it is installed, and is a shell and Perl.
CERTIFICATES = "ca-certificates"
BASE = f"localhost/secondary-scheduler/base-arm64:python{TARGET.python}"
WHEELS = ROOT / "build/arm64-wheels"
# What others depend on for their installation, or for a terminal: nothing here runs them.
NOT_UNPACKED = {"dpkg", "tar", "install-info", "readline-common"}
LEFT_OUT = re.compile(
    r"^usr/share/(?:man|locale|lintian|info|bug|doc/[^/]+/(?!copyright))|^etc/(?:init|apt|dpkg|profile|bash)|"
    r"^usr/lib/python3[^/]*/(?:test|tests|idlelib|tkinter|turtledemo|lib2to3|config-[^/]*)/|__pycache__/"
)
_TOP = ("bin", "lib", "sbin", "lib64")
build_py = runpy.run_path(str(ROOT / "image/build.py"))


def download(directory: Path) -> list[Path]:
    """Have apt fetch and verify the packages and all that they depend on, apart from this machine's own state.

    Raises BuildError when apt fails.
    """
    state = directory / "state"
    for name in ("lists/partial", "cache/archives/partial"):
        (state / name).mkdir(parents=True)
    (state / "status").touch()
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "Debug::NoLocking": "true",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    debs = directory / "debs"
    debs.mkdir()
    _quiet(*apt, "update")
    _quiet(*apt, "--yes", "--download-only", "install", *PACKAGES)
    _quiet(*apt, "download", CERTIFICATES, cwd=debs)
    for file in (state / "cache/archives").glob("*.deb"):
        file.rename(debs / file.name)
    return sorted(debs.glob("*.deb"))


def _quiet(*command: str, cwd: Path | None = None) -> bytes:
    done = subprocess.run(command, capture_output=True, cwd=cwd, check=False)
    if done.returncode:
        reason = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        raise BuildError(f"{command[0]} failed with exit code {done.returncode}: {reason}")
    return done.stdout


def write_rootfs(archive: tarfile.TarFile, debs: Sequence[Path]) -> None:
    """Write the root file system of these packages, of which none is configured; sorted, of root, without times."""
    entries: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
    for name in (*DIRECTORIES, "var/lib/dpkg/status.d"):
        directory = tarfile.TarInfo(name)
        directory.type, directory.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
        entries[name] = (directory, b"")
    for top in _TOP:
        link = tarfile.TarInfo(top)
        link.type, link.linkname, link.mode = tarfile.SYMTYPE, f"usr/{top}", 0o777
        entries[top] = (link, b"")
    authorities: list[bytes] = []
    for deb in debs:
        package = deb.name.partition("_")[0]
        if package in NOT_UNPACKED:
            continue
        control = _quiet("dpkg-deb", "--field", str(deb))
        # Where scanners look for the packages of an image without dpkg.
        _put(entries, f"var/lib/dpkg/status.d/{package}", control, 0o644)
        with tarfile.open(fileobj=io.BytesIO(_quiet("dpkg-deb", "--fsys-tarfile", str(deb)))) as content:
            if package == CERTIFICATES:
                authorities += _certificates(content)
            else:
                _merge(entries, content)
    _put(entries, "etc/ssl/certs/ca-certificates.crt", b"".join(authorities), 0o644)
    for name, text in FILES.items():
        _put(entries, name, text.encode(), 0o644)
    for name in sorted(entries):
        entry, content_bytes = entries[name]
        archive.addfile(entry, io.BytesIO(content_bytes))


def _merge(entries: dict[str, tuple[tarfile.TarInfo, bytes]], content: tarfile.TarFile) -> None:
    for member in content:
        path = _merged(member.name)
        if not path or LEFT_OUT.search(f"{path}/" if member.isdir() else path) or path in entries:
            continue
        entry = tarfile.TarInfo(path)
        # A hard link becomes a file of its own: sorted, it might come before what it is a link to.
        entry.type, entry.mode = tarfile.REGTYPE if member.islnk() else member.type, member.mode & 0o1777
        file = None if member.issym() or member.isdir() else content.extractfile(member)
        data = file.read() if file else b""
        if member.issym():
            entry.linkname = member.linkname
        entry.size = len(data)
        entries[path] = (entry, data)


def _merged(name: str) -> str:
    """A path in a package where /lib and its kind are links into /usr; "" for these themselves."""
    path = name.removeprefix("./").strip("/")
    if path in (*_TOP, "."):
        return ""
    return f"usr/{path}" if path.partition("/")[0] in _TOP else path


def _certificates(content: tarfile.TarFile) -> list[bytes]:
    members = sorted((member for member in content if member.name.endswith(".crt")), key=lambda member: member.name)
    return [file.read() for member in members if (file := content.extractfile(member))]


def _put(entries: dict[str, tuple[tarfile.TarInfo, bytes]], name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    entries[name] = (entry, content)


def build_base(podman: str) -> None:
    """Make the base image. Raises BuildError."""
    with tempfile.TemporaryDirectory() as path:
        directory, context = Path(path), Path(path, "context")
        context.mkdir()
        debs = download(directory)
        with tarfile.open(context / "rootfs.tar", mode="w", format=tarfile.GNU_FORMAT) as archive:
            write_rootfs(archive, debs)
        (context / "Containerfile").write_text(CONTAINERFILE, encoding="utf-8")
        run(podman, "build", *_options("0"), "--tag", BASE, context)


def assemble(part_name: str, part: ImagePart, directory: Path) -> None:
    """Write what the image gets beside its base into an empty directory. Raises BuildError."""
    wheels = fetch(part.lock, TARGET, WHEELS / part_name)
    unpack(wheels, directory / "dependencies")
    with tempfile.TemporaryDirectory() as path:
        source, built = Path(path, "source"), Path(path, "built")
        source.mkdir()
        build_py["copy_sources"](ROOT, source, part_name)
        unpack([file for file in build_wheel(built, [str(source)]) if file.suffix == ".whl"], directory / "product")
    for name in ("dependencies", "product"):
        target = directory / name
        paths = ("-s", target, "-p", f"{build_py['INSTALLED']}/{name}")
        run(sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", *paths, target)
    build_py["write_entry_points"](directory / "bin", PYTHON, part_name)
    (directory / "licenses").mkdir()
    shutil.copy(ROOT / "LICENSE", directory / "licenses")
    write_sbom(directory / "licenses/sbom.cdx.json", part.lock, WHEELS / part_name)


def _options(timestamp: str) -> list[str]:
    return [
        *("--quiet", "--isolation", "chroot", "--platform", PLATFORM, "--no-cache", "--pull=never"),
        *("--timestamp", timestamp, "--identity-label=false"),
    ]


def last_stage(containerfile: str) -> str:
    """The stage of a Containerfile that becomes the image, with what its build stage would have put into /out taken
    from the directory of the build: what `assemble` has written."""
    first, final = containerfile.split("\nFROM ${BASE}\n")
    assert "FROM ${BUILDER} AS build" in first
    return "ARG BASE\nFROM ${BASE}\n" + final.replace("COPY --from=build /out/", "COPY ")


def build(podman: str, part_name: str, tags: Sequence[str]) -> None:
    """Build base and image. Raises BuildError."""
    part = PARTS[part_name]
    build_base(podman)
    with tempfile.TemporaryDirectory() as path:
        directory = Path(path)
        assemble(part_name, part, directory)
        (directory / "Containerfile").write_text(last_stage(part.containerfile.read_text(encoding="utf-8")))
        arguments = {"BASE": BASE, "VERSION": version(), "PYTHON": PYTHON}
        run(
            *(podman, "build", *_options(source_date_epoch())),
            *(part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")),
            *(part for tag in tags for part in ("--tag", tag)),
            directory,
        )


def main(argv: Sequence[str]) -> int:
    """Build as the options say; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=tuple(PARTS), default="daemons", help="which image (default: the daemons')")
    parser.add_argument("--tag", action="append", default=[], help="names (default: those of the part, with -arm64)")
    options = parser.parse_args(argv)
    tags = options.tag or [f"{tag}-arm64" for tag in PARTS[options.part].tags()]
    try:
        podman = shutil.which("podman")
        for program in ("podman", "apt-get", "dpkg-deb"):
            if shutil.which(program) is None:
                raise BuildError(f"{program} is not on PATH: this needs Debian, with podman")
        if sys.version_info[:2] != tuple(map(int, TARGET.python.split("."))):
            raise BuildError(f"the byte code has to be of Python {TARGET.python}: run it with that one")
        build(str(podman), options.part, tags)
    except BuildError as failure:
        print(f"arm64_image: {failure}", file=sys.stderr)
        return 1
    print("\n".join(f"arm64_image: built {tag}" for tag in tags))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
