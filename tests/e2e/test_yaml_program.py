"""The component package from a YAML program: Pulumi's language plugin and engine, and a preview without a cluster.

The plugin comes from the module proxy. An update is in tests/e2e/test_programs_in_other_languages.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.pulumi_stand_ins import BIN
from devcluster.toolchain.binaries import BINARIES, find
from tests.components.test_offline_preview import DEAD_KUBECONFIG
from tests.support.languages.building import EXAMPLES, PACKAGE, yaml_host

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("go") is None, reason="needs Go"),
]

EXAMPLE = EXAMPLES / "yaml" / "Pulumi.yaml"
MINUTE = 60


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pulumi-language-yaml."""
    return yaml_host(tmp_path_factory.mktemp("plugin"))


@pytest.fixture
def program() -> dict[str, Any]:
    """The example."""
    document: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    assert (EXAMPLE.parent / document["packages"]["secondary-scheduler"]).resolve() == PACKAGE
    document["packages"]["secondary-scheduler"] = str(PACKAGE)
    return document


def preview(program: dict[str, Any], plugin: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    pulumi = find(BINARIES["pulumi"])
    assert pulumi is not None, "the pulumi binary is not built; run `secondary-scheduler cluster up` once"
    for name in ("state", "home", "program"):
        (folder / name).mkdir()
    (folder / "program" / "Pulumi.yaml").write_text(json.dumps(program))
    (folder / "kubeconfig").write_text(json.dumps(DEAD_KUBECONFIG))
    variables = os.environ | {
        "PATH": os.pathsep.join([os.environ["PATH"], str(plugin), str(BIN)]),
        "KUBECONFIG": str(folder / "kubeconfig"),
        "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_CONFIG_PASSPHRASE": "local",
        "PULUMI_SKIP_UPDATE_CHECK": "1",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "1",
        "PULUMI_DISABLE_REGISTRY_RESOLVE": "1",
        "PULUMI_DIY_BACKEND_NO_LEGACY_WARNING": "1",
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(pulumi), *arguments, "--non-interactive"],
            cwd=folder / "program", env=variables, capture_output=True, text=True, check=False, timeout=5 * MINUTE,
        )  # fmt: skip

    assert run("stack", "init", "tried").returncode == 0
    return run("preview", "--json")


def test_the_example_previews_the_same_objects_as_a_python_program(
    program: dict[str, Any], plugin: Path, tmp_path: Path
) -> None:
    done = preview(program, plugin, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    types = [step["urn"].split("::")[2].rpartition("$")[2] for step in json.loads(done.stdout)["steps"]]
    assert types.count("kubernetes:operator.openshift.io/v1:SecondaryScheduler") == 1
    assert types.count("kubernetes:apps/v1:Deployment") == 1
    assert len(types) > 30


def test_a_mistake_fails_the_preview_and_is_named(program: dict[str, Any], plugin: Path, tmp_path: Path) -> None:
    program["resources"]["batch"]["properties"]["settings"]["metricProvider"] = {"type": "Prometheus"}
    done = preview(program, plugin, tmp_path)
    assert done.returncode != 0
    assert "batch: settings: metricProvider" in done.stdout + done.stderr


def test_a_scheduler_name_of_two_installations_fails_the_preview(
    program: dict[str, Any], plugin: Path, tmp_path: Path
) -> None:
    batch = program["resources"]["batch"]
    second = {**batch, "properties": {**batch["properties"], "namespace": "second"}}
    program["resources"]["second"] = second
    done = preview(program, plugin, tmp_path)
    assert done.returncode != 0
    assert "schedulerName batch is that of" in done.stdout + done.stderr
