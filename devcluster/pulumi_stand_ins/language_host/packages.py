"""What the Python environment of a program holds: Pulumi packages and installed distributions."""

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

_PLUGIN_FILE = "pulumi-plugin.json"


@dataclass(frozen=True, order=True)
class Package:
    """A Pulumi package whose SDK is installed; `version` is that of the provider plugin, empty if it is not said."""

    name: str
    version: str
    server: str


def import_path(python: str) -> list[str]:
    """Where the interpreter finds packages: our own path if it is ours, else the environment's site-packages."""
    if python == sys.executable:
        return [entry for entry in sys.path if entry]
    return [str(directory) for directory in Path(python).parent.parent.glob("lib/python*/site-packages")]


def required_packages(path: Iterable[str]) -> list[Package]:
    """The packages whose SDKs ship a `pulumi-plugin.json` that says they need a resource plugin."""
    packages = set()
    for directory in path:
        for file in Path(directory).glob(f"*/{_PLUGIN_FILE}"):
            described = json.loads(file.read_text())
            if described.get("resource") and described.get("name"):
                version = described.get("version")
                packages.add(Package(described["name"], f"v{version}" if version else "", described.get("server", "")))
    return sorted(packages)


def installed(path: Iterable[str], *, transitive: bool) -> list[tuple[str, str]]:
    """Name and version of the installed distributions; without `transitive`, only those nothing else requires."""
    distributions = list(metadata.distributions(path=list(path)))
    versions = {distribution.metadata["Name"]: distribution.version for distribution in distributions}
    if not transitive:
        needed = {_requirement_name(text) for distribution in distributions for text in distribution.requires or ()}
        versions = {name: version for name, version in versions.items() if _canonical(name) not in needed}
    return sorted(versions.items())


def _requirement_name(requirement: str) -> str:
    end = next((i for i, c in enumerate(requirement) if not (c.isalnum() or c in "-_.")), len(requirement))
    return _canonical(requirement[:end])


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
