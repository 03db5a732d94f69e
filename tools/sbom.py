"""Writes what the image consists of, as a CycloneDX bill of materials: `make image` puts it into the image.

    tools/sbom.py FILE          writes names, versions, hashes and licences of the locked packages, and of this project

Read from image/requirements.txt and from the wheels in image/wheels, which are what the build installs. The same files
and SOURCE_DATE_EPOCH give the same bytes. What the base image holds is not in it: its publisher says that.
"""

from __future__ import annotations

import email
import email.message
import hashlib
import re
import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from cyclonedx.contrib.license.factories import LicenseFactory  # noqa: E402
from cyclonedx.model import HashAlgorithm, HashType  # noqa: E402
from cyclonedx.model.bom import Bom  # noqa: E402
from cyclonedx.model.component import Component, ComponentType  # noqa: E402
from cyclonedx.output.json import JsonV1Dot6  # noqa: E402
from packageurl import PackageURL  # noqa: E402
from packaging.requirements import Requirement  # noqa: E402

from tools.version import version  # noqa: E402
from tools.wheels import BuildError, source_date_epoch  # noqa: E402

LOCK = ROOT / "image/requirements.txt"
WHEELS = ROOT / "image/wheels"
_CLASSIFIER = "License :: OSI Approved :: "


def locked(lock: Path = LOCK) -> dict[str, str]:
    """Version by name, of the packages that an image's lock has for this machine."""
    lines = (line.removesuffix("\\").strip() for line in lock.read_text(encoding="utf-8").splitlines() if "==" in line)
    requirements = (Requirement(line) for line in lines if not line.startswith("--hash"))
    return {
        _normalised(requirement.name): str(requirement.specifier).removeprefix("==")
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate()
    }


def wheels(lock: Path, directory: Path) -> Iterator[tuple[Path, email.message.Message]]:
    """The fetched wheels of a lock, with their metadata."""
    pins = locked(lock)
    for file in sorted(directory.glob("*.whl")):
        with zipfile.ZipFile(file) as archive:
            (name,) = (path for path in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", path))
            metadata = email.message_from_bytes(archive.read(name))
        if pins.get(_normalised(metadata["Name"])) == metadata["Version"]:
            yield file, metadata


def licence(metadata: email.message.Message) -> str:
    """What a package says of its licence: an expression of SPDX where it has one, else its own words in one line."""
    if expression := metadata["License-Expression"]:
        return str(expression)
    classifiers = [
        classifier.removeprefix(_CLASSIFIER)
        for classifier in metadata.get_all("Classifier") or []
        if classifier.startswith(_CLASSIFIER)
    ]
    text = " ".join(str(metadata["License"] or "").split())
    # Some put the whole text of the licence there.
    return text if 0 < len(text) <= 60 else " OR ".join(classifiers)


def bill(lock: Path = LOCK, directory: Path = WHEELS) -> Bom:
    """The bill of materials: this project as what it is about, and a component for each locked package.

    Args:
        lock: names the packages.
        directory: has a wheel of each.
    """
    factory = LicenseFactory()
    bom = Bom()
    product = Component(
        name="secondary-scheduler",
        version=version(),
        type=ComponentType.CONTAINER,
        bom_ref="secondary-scheduler",
        licenses=[factory.make_from_string("Apache-2.0")],
        purl=PackageURL("pypi", None, "secondary-scheduler", version()),
    )
    bom.metadata.component = product
    bom.metadata.timestamp = datetime.fromtimestamp(int(source_date_epoch()), UTC)
    parts = []
    for file, metadata in wheels(lock, directory):
        name, stated = _normalised(metadata["Name"]), licence(metadata)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        parts.append(
            Component(
                name=name,
                version=metadata["Version"],
                type=ComponentType.LIBRARY,
                bom_ref=name,
                licenses=[factory.make_from_string(stated)] if stated else [],
                purl=PackageURL("pypi", None, name, metadata["Version"]),
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
            )
        )
    if missing := sorted(set(locked(lock)) - {part.name for part in parts}):
        raise BuildError(f"{directory.name} has no wheel of {', '.join(missing)}: run make image, which fetches them")
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(product, parts)
    content = " ".join(f"{part.name}=={part.version}" for part in sorted(parts, key=lambda part: part.name))
    bom.serial_number = uuid5(NAMESPACE_URL, f"secondary-scheduler {version()}: {content}")
    return bom


def write(file: Path, lock: Path = LOCK, directory: Path = WHEELS) -> None:
    """Write it as JSON of CycloneDX 1.6; see `bill`."""
    file.write_text(JsonV1Dot6(bill(lock, directory)).output_as_string(indent=1) + "\n", encoding="utf-8")


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    try:
        write(Path(sys.argv[1]))
    except BuildError as failure:
        sys.exit(f"sbom: {failure}")
