"""What the Python environment of a program holds: Pulumi packages and installed distributions."""

import json
from dataclasses import dataclass
from importlib import metadata

_PLUGIN_FILE = "pulumi-plugin.json"


@dataclass(frozen=True, order=True)
class Package:
    """A Pulumi package whose SDK is installed; `version` is that of the provider plugin."""

    name: str
    version: str
    server: str


def required_packages() -> list[Package]:
    """The packages whose SDKs ship a `pulumi-plugin.json` that says they need a resource plugin."""
    found = set()
    for distribution in metadata.distributions():
        for file in distribution.files or ():
            if file.name != _PLUGIN_FILE or len(file.parts) != 2:
                continue
            described = json.loads(file.read_text())
            if described.get("resource") and described.get("name"):
                version = described.get("version") or distribution.version
                found.add(Package(described["name"], f"v{version}", described.get("server", "")))
    return sorted(found)


def installed(*, transitive: bool) -> list[tuple[str, str]]:
    """Name and version of the installed distributions; without `transitive`, only those nothing else requires."""
    versions = {d.metadata["Name"]: d.version for d in metadata.distributions()}
    if not transitive:
        needed = {
            _requirement_name(requirement)
            for distribution in metadata.distributions()
            for requirement in distribution.requires or ()
        }
        versions = {name: version for name, version in versions.items() if _canonical(name) not in needed}
    return sorted(versions.items())


def _requirement_name(requirement: str) -> str:
    end = next((i for i, c in enumerate(requirement) if not (c.isalnum() or c in "-_.")), len(requirement))
    return _canonical(requirement[:end])


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
