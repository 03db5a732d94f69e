"""Says of advisories about locked packages whether they concern this project, as OpenVEX 0.2.0: docs/supply-chain.md.

    tools/vex.py add CVE-2026-12345 --package NAME --status not_affected --justification JUSTIFICATION --note TEXT
    tools/vex.py ignored                            options for pip-audit: the advisories that are no concern

A statement is about the version that is locked when it is made. After an update of the package the audit asks again.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.sbom import locked  # noqa: E402
from tools.version import version  # noqa: E402

FILE = ROOT / "image/vex.json"
LOCKS = (ROOT / "requirements.txt", ROOT / "image/requirements.txt", ROOT / "image/requirements-cli.txt")
CONTEXT = "https://openvex.dev/ns/v0.2.0"
STATUSES = ("not_affected", "affected", "fixed", "under_investigation")
JUSTIFICATIONS = (
    "component_not_present",
    "vulnerable_code_not_present",
    "vulnerable_code_not_in_execute_path",
    "vulnerable_code_cannot_be_controlled_by_adversary",
    "inline_mitigations_already_exist",
)
_NO_CONCERN = frozenset({"not_affected", "fixed"})
_ADVISORY = re.compile(r"CVE-\d{4}-\d{4,}|GHSA(-[0-9a-z]{4}){3}|PYSEC-\d{4}-\d+")
_MAX_BYTES = 1 << 20
Document = dict[str, Any]


class VexError(Exception):
    """One line for the user."""


def pins(locks: Sequence[Path] = LOCKS) -> dict[str, str]:
    """Version by name, of all packages that the locks have."""
    return {name: number for lock in locks for name, number in locked(lock).items()}


def read(file: Path) -> Document:
    """The document; without a file one that has no statement yet, which must not be published."""
    if not file.exists():
        return {
            "@context": CONTEXT,
            "@id": "urn:secondary-scheduler:vex",
            "author": "The maintainers of secondary-scheduler",
            "timestamp": _now(),
            "version": 0,
            "statements": [],
        }
    if file.stat().st_size > _MAX_BYTES:
        raise VexError(f"{file.name} has more than {_MAX_BYTES >> 20} MiB: is it a VEX document of tools/vex.py?")
    try:
        document: Document = json.loads(file.read_text(encoding="utf-8"))
        for each in document["statements"]:
            _about(each)
    except (ValueError, LookupError, TypeError) as error:
        raise VexError(f"{file.name} is no VEX document of tools/vex.py: {type(error).__name__} {error}") from None
    return document


def statement_about(
    advisory: str, package: str, status: str, justification: str, note: str, versions: dict[str, str]
) -> Document:
    """A statement about the locked version of a package. Raises VexError with what is missing."""
    if not _ADVISORY.fullmatch(advisory):
        raise VexError(f"{advisory} is no advisory: name a CVE, GHSA or PYSEC id")
    if package not in versions:
        raise VexError(f"{package} is in no lock file, so no advisory about it concerns this project")
    if (status == "not_affected") != bool(justification):
        raise VexError(f"status {status}: a justification belongs to not_affected, and to nothing else")
    if status == "affected" and not note:
        raise VexError("status affected: --note must say what users do")
    product = {
        "@id": f"pkg:pypi/secondary-scheduler@{version()}",
        "subcomponents": [{"@id": f"pkg:pypi/{package}@{versions[package]}"}],
    }
    statement: Document = {
        "vulnerability": {"name": advisory},
        "products": [product],
        "status": status,
        "timestamp": _now(),
    }
    if justification:
        statement["justification"] = justification
    if note:
        statement["action_statement" if status == "affected" else "status_notes"] = note
    return statement


def add(document: Document, statement: Document) -> Document:
    """The document with a statement, which takes the place of one about the same advisory and package."""
    kept = [each for each in document["statements"] if _about(each)[:2] != _about(statement)[:2]]
    return document | {
        "timestamp": _now(),
        "version": document["version"] + 1,
        "statements": sorted([*kept, statement], key=lambda each: _about(each)[:2]),
    }


def ignored(document: Document, versions: dict[str, str]) -> Iterator[str]:
    """The advisories that are no concern for the version that is locked now."""
    for each in document["statements"]:
        advisory, package, number, status = _about(each)
        if status in _NO_CONCERN and versions.get(package) == number:
            yield advisory


def _about(statement: Document) -> tuple[str, str, str, str]:
    """Advisory, package, its version, and status."""
    (product,) = statement["products"]
    (part,) = product["subcomponents"]
    match = re.fullmatch(r"pkg:pypi/([^@/]+)@([^@/]+)", part["@id"])
    advisory, status = statement["vulnerability"]["name"], statement["status"]
    if match is None or status not in STATUSES or not _ADVISORY.fullmatch(advisory):
        raise ValueError(f"statement about {advisory!r}")
    return advisory, match[1], match[2], status


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def main(argv: Sequence[str]) -> int:
    """Do as the options say; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", type=Path, default=FILE, help="the document (default: image/vex.json)")
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("add", help="add a statement")
    adding.add_argument("advisory")
    adding.add_argument("--package", required=True)
    adding.add_argument("--status", required=True, choices=STATUSES)
    adding.add_argument("--justification", default="", choices=JUSTIFICATIONS)
    adding.add_argument("--note", default="", help="how that was found; with affected: what users do")
    commands.add_parser("ignored", help="print options for pip-audit")
    options = parser.parse_args(argv)
    try:
        versions, document = pins(), read(options.file)
        if options.command == "ignored":
            print(" ".join(f"--ignore-vuln {advisory}" for advisory in ignored(document, versions)))
            return 0
        statement = statement_about(
            options.advisory, options.package, options.status, options.justification, options.note, versions
        )
        options.file.write_text(json.dumps(add(document, statement), indent=1) + "\n", encoding="utf-8")
    except VexError as failure:
        print(f"vex: {failure}", file=sys.stderr)
        return 1
    print(f"vex: wrote {options.file.name}; keep it under version control, and sign it with the release")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
