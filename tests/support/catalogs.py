"""File-based catalogs for the operator lifecycle manager beside the one that is checked in."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tools import olm_bundle
from tools.olm_bundle import CHANNEL, PACKAGE, BundleRelease

UPSTREAM_PACKAGE = "openshift-secondary-scheduler-operator"
UPSTREAM_VERSION = "secondaryscheduleroperator.v1.5.0"


def with_upstreams_package(directory: Path, opm: Path) -> Path:
    """A catalog with this project's package, and under the name of upstream's package once more this project's bundle.

    What is tried with the latter is how a package of that name is subscribed to, installed and removed, not upstream's
    operator, whose bundle is in Red Hat's catalogue only.
    """
    olm_bundle.write(directory, BundleRelease(), opm)
    renamed = directory / "renamed"
    for path, content in olm_bundle.bundle(BundleRelease()).items():
        if content.get("kind") == "ClusterServiceVersion":
            content["metadata"]["name"] = UPSTREAM_VERSION
            content["spec"]["version"] = UPSTREAM_VERSION.partition(".v")[2]
        file = renamed / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            olm_bundle.text_of(content).replace(f"package.v1: {PACKAGE}", f"package.v1: {UPSTREAM_PACKAGE}")
        )
    rendered = subprocess.run([opm, "render", renamed, "-o", "json"], capture_output=True, text=True, check=True)
    documents = [
        {"schema": "olm.package", "name": UPSTREAM_PACKAGE, "defaultChannel": CHANNEL},
        {
            "schema": "olm.channel",
            "package": UPSTREAM_PACKAGE,
            "name": CHANNEL,
            "entries": [{"name": UPSTREAM_VERSION}],
        },
        json.loads(rendered.stdout),
    ]
    catalog = directory / "catalog"
    (catalog / UPSTREAM_PACKAGE).mkdir()
    (catalog / UPSTREAM_PACKAGE / "catalog.json").write_text("".join(json.dumps(each) + "\n" for each in documents))
    subprocess.run([opm, "validate", catalog], capture_output=True, text=True, check=True)
    return catalog
