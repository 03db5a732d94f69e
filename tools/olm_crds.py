"""Copies the CRDs of the Operator Lifecycle Manager for the local cluster, at the version that it builds.

The copies have no descriptions, which are nine tenths of the text and have no effect on a cluster. Run this after a
change of the version in `devcluster/toolchain/modules/olm/go.mod`; it needs Go and, the first time, the network.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
MODULE = "github.com/operator-framework/operator-lifecycle-manager"
CHART = "deploy/chart/crds"
TARGET = ROOT / "devcluster/olm_crds"


def main() -> int:
    """Replace the copies by those of the pinned version."""
    command = ["go", "mod", "download", "-json", MODULE]
    directory = ROOT / "devcluster/toolchain/modules/olm"
    answer = json.loads(subprocess.run(command, cwd=directory, capture_output=True, check=True).stdout)
    version = answer["Version"]
    sources = sorted((Path(answer["Dir"]) / CHART).glob("*.crd.yaml"))
    TARGET.mkdir(exist_ok=True)
    for old in TARGET.glob("*.yaml"):
        old.unlink()
    for source in sources:
        definition = without_descriptions(yaml.load(source.read_bytes(), yaml.CSafeLoader))
        header = f"# {MODULE} {version}, {CHART}/{source.name}, Apache-2.0;\n# without its descriptions.\n"
        text = yaml.dump(definition, Dumper=yaml.CSafeDumper, width=120)
        (TARGET / f"{definition['metadata']['name']}.yaml").write_text(header + text)
    print(f"{len(sources)} CRDs of {MODULE} {version} in {TARGET.relative_to(ROOT)}")
    return 0


def without_descriptions(value: Any) -> Any:
    """The value without its `description` texts. A field that has that name is described by an object, and stays."""
    if isinstance(value, dict):
        return {
            key: without_descriptions(item)
            for key, item in value.items()
            if not (key == "description" and isinstance(item, str))
        }
    return [without_descriptions(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
