"""Builds the image with podman: `make image`.

All that the build needs is fetched here, so that the build itself uses no network: indices, mirrors and certificates
are those that this machine's pip is configured for.

    python tools/image.py [--base IMAGE] [--builder IMAGE] [--python PATH] [--tag NAME ...]
    python tools/image.py --part scheduler      the same for the image of the scheduler alone
    python tools/image.py --part cli            the same for the image of the command line
    python tools/image.py --lock IMAGE ...      record the digests that these tags have now, in image/base.lock

An image from a registry is used by its digest: the one in its name, else the one that image/base.lock has for it.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.version import version  # noqa: E402
from tools.wheels import BuildError, source_date_epoch  # noqa: E402

IMAGE = ROOT / "image"
BASE_LOCK = IMAGE / "base.lock"
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
BUILD_LOCK = IMAGE / "requirements-build.txt"
LOCAL_BASE = f"localhost/secondary-scheduler/base:python{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class ImagePart:
    """An image of ours: what it is built from, its names, and what its tag ends with."""

    containerfile: Path
    lock: Path
    wheels: Path
    sbom: Path
    names: tuple[str, ...]
    tag_suffix: str = ""

    def tags(self) -> list[str]:
        """Names under which it is built; the stack `local` has those of the daemons."""
        return [f"localhost/secondary-scheduler/{name}:{version()}{self.tag_suffix}" for name in self.names]


PARTS = {
    "daemons": ImagePart(
        IMAGE / "Containerfile",
        IMAGE / "requirements.txt",
        IMAGE / "wheels",
        IMAGE / "sbom.cdx.json",
        ("kube-scheduler", "operator"),
    ),
    "scheduler": ImagePart(
        IMAGE / "Containerfile",
        IMAGE / "requirements-scheduler.txt",
        IMAGE / "wheels",
        IMAGE / "scheduler/sbom.cdx.json",
        ("kube-scheduler",),
        "-slim",
    ),
    "cli": ImagePart(
        IMAGE / "cli.Containerfile",
        IMAGE / "requirements-cli.txt",
        IMAGE / "wheels-cli",
        IMAGE / "cli/sbom.cdx.json",
        ("cli",),
    ),
}


def run(*command: str | Path) -> None:
    """Run a command; its failure ends the build."""
    done = subprocess.run([str(part) for part in command], check=False)
    if done.returncode:
        raise BuildError(f"{Path(command[0]).name} {command[1]} failed with exit code {done.returncode}; see above")


def fetch_wheels(part: ImagePart) -> None:
    """Fill a part's folder with exactly the locked files for this machine's platform and Python, if they changed."""
    locks = b"".join(lock.read_bytes() for lock in (part.lock, BUILD_LOCK))
    fetched = part.wheels / ".locks"
    part.wheels.mkdir(exist_ok=True)
    digest = hashlib.sha256(f"{sys.version_info[:2]} ".encode() + locks).hexdigest()
    if fetched.exists() and fetched.read_text(encoding="utf-8") == digest:
        return
    for file in part.wheels.glob("*.whl"):
        file.unlink()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"]
    pip += ["--require-hashes", "--no-deps", "--only-binary", ":all:"]
    for lock in (part.lock, BUILD_LOCK):
        run(*pip, "--dest", part.wheels, "--requirement", lock)
    fetched.write_text(digest, encoding="utf-8")


def write_sbom(part: ImagePart) -> None:
    """Write the bill of materials that the build puts into the image."""
    from tools.sbom import write

    part.sbom.parent.mkdir(exist_ok=True)
    write(part.sbom, part.lock, part.wheels)


def locked_digests(lock: Path) -> dict[str, str]:
    """Read a lock: image by its name with the tag, to the same with its digest; empty where there is no lock."""
    if not lock.exists():
        return {}
    lines = (line.strip() for line in lock.read_text(encoding="utf-8").splitlines())
    images = [line for line in lines if line and not line.startswith("#")]
    for image in images:
        if not _DIGEST.search(image):
            raise BuildError(f"{lock.name}: {image} has no digest; write NAME:TAG@sha256:DIGEST")
    return {image.partition("@")[0]: image for image in images}


def by_digest(image: str, lock: Path = BASE_LOCK) -> str:
    """Return the image's name with a digest, as a tag may mean another image tomorrow. One of this machine stays."""
    if not image or image.startswith("localhost/") or _DIGEST.search(image):
        return image
    locked = locked_digests(lock).get(image)
    if locked is None:
        raise BuildError(
            f"{image} has no digest, and {lock.name} none for it: run tools/image.py --lock {image} where its registry "
            "can be reached, or name NAME@sha256:DIGEST"
        )
    return locked


def write_lock(podman: str, images: Sequence[str], lock: Path = BASE_LOCK) -> None:
    """Pull images, and record the digest that each has now; others in the lock stay."""
    digests = locked_digests(lock)
    for image in images:
        run(podman, "pull", "--quiet", image)
        inspect = [podman, "image", "inspect", "--format", "{{.Digest}}", image]
        digest = subprocess.run(inspect, capture_output=True, text=True, check=False).stdout.strip()
        if not _DIGEST.search(f"@{digest}"):
            raise BuildError(f"{image}: podman names no digest for it")
        digests[image] = f"{image}@{digest}"
    head = "# Base images by digest, for make image. Written by: tools/image.py --lock IMAGE ...\n"
    lock.write_text(head + "".join(f"{digests[name]}\n" for name in sorted(digests)), encoding="utf-8")


def ensure_local_base(podman: str) -> str:
    """Make the base image out of this machine's Python, if it is not there yet."""
    exists = subprocess.run([podman, "image", "exists", LOCAL_BASE], check=False).returncode == 0
    if not exists:
        print(f"image: making {LOCAL_BASE} from {sys.base_prefix}", flush=True)
        run(sys.executable, ROOT / "tools/base_image.py", LOCAL_BASE)
    return LOCAL_BASE


def build(
    podman: str, part_name: str, base: str, builder: str, python: str, tags: Sequence[str], clean: bool = False
) -> None:
    """Build the image on `base` (with `builder` for the wheels, if it differs) and give it the tags.

    Its times are those of the commit (or SOURCE_DATE_EPOCH), so that two builds of one commit on one base are the same
    image; `clean` takes nothing from podman's cache.
    """
    part = PARTS[part_name]
    # A pattern, as the build files have it: one that matches nothing is no error.
    bill = re.sub(r".$", r"[\g<0>]", str(part.sbom.relative_to(ROOT)))
    arguments = {"PART": part_name, "BILL": bill, "BASE": base, "BUILDER": builder or base}
    arguments |= {"PIP_NO_INDEX": "1", "VERSION": version()}
    if python:
        arguments["PYTHON"] = python
    run(
        *(podman, "build", "--quiet", "--isolation", "chroot", "--file", part.containerfile),
        *("--timestamp", source_date_epoch(), "--identity-label=false", *(["--no-cache"] if clean else [])),
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
    parser.add_argument(
        "--lock", nargs="+", default=[], metavar="IMAGE", help="record their digests, and build nothing"
    )
    parser.add_argument("--part", choices=tuple(PARTS), default="daemons", help="which image (default: the daemons')")
    parser.add_argument("--clean", action="store_true", help="take nothing from podman's cache")
    parser.add_argument("--tag", action="append", default=[], help="names (default: localhost/secondary-scheduler/...)")
    options = parser.parse_args(argv)
    podman, part = shutil.which("podman"), PARTS[options.part]
    try:
        if podman is None:
            raise BuildError("podman is not on PATH; on Debian: apt-get install podman runc")
        if options.lock:
            write_lock(podman, options.lock)
            print(f"image: wrote {BASE_LOCK.relative_to(ROOT)}; keep it under version control")
            return 0
        chosen, builder = by_digest(options.base), by_digest(options.builder)
        fetch_wheels(part)
        write_sbom(part)
        base = chosen or ensure_local_base(podman)
        tags = options.tag or part.tags()
        build(podman, options.part, base, builder, options.python, tags, options.clean)
    except BuildError as failure:
        print(f"image: {failure}", file=sys.stderr)
        return 1
    print("\n".join(f"image: built {tag}" for tag in tags))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
