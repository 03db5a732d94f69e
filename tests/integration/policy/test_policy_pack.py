"""The policy pack under the real engine, on a program that is not ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from devcluster.progress import SilentReporter
from devcluster.pulumi_stand_ins import BIN
from devcluster.toolchain import binaries
from tests.integration.pulumi_stand_ins.engine import Engine, Manifest
from tests.unit.policy.test_rules import CONFIGURATION, OURS, ROOT, WITH_TOKEN

pytestmark = pytest.mark.integration
NS = "openshift-secondary-scheduler-operator"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """An engine without a cluster, with what runs policy packs on its PATH."""
    pulumi = binaries.ensure(["pulumi"], SilentReporter())["pulumi"]
    engine = Engine(tmp_path, None, pulumi, NS)
    analyzer = tmp_path / "bin" / "pulumi-analyzer-policy-python"
    if not analyzer.exists():
        analyzer.symlink_to(BIN / analyzer.name)
    return engine


def resources(text: str, image: str = OURS, **spec: Any) -> list[Manifest]:
    metadata = {"name": "config", "namespace": NS}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.yaml": text}}
    scheduler = {
        "apiVersion": "operator.openshift.io/v1",
        "kind": "SecondaryScheduler",
        "metadata": {"name": "cluster", "namespace": NS},
        "spec": {"schedulerConfig": {"$name": "config"}, "schedulerImage": image, **spec},
    }
    return [{"name": "config", "manifest": config_map}, {"name": "scheduler", "manifest": scheduler}]


def preview(engine: Engine, *manifests: Manifest, settings: dict[str, Any] | None = None, fails: bool = False) -> str:
    engine.write(*manifests)
    arguments = ["--policy-pack", str(ROOT / "policy")]
    if settings is not None:
        file = engine.directory / "policy.json"
        file.write_text(json.dumps(settings))
        arguments += ["--policy-pack-config", str(file)]
    return engine.preview(*arguments, fails=fails).output


def test_a_good_program_passes_and_a_bad_one_fails_with_every_violation(engine: Engine) -> None:
    assert "mandatory" not in preview(engine, *resources(CONFIGURATION))

    misspelt = WITH_TOKEN.replace("name: TargetLoadPacking}", "name: TargetLoadPackin}")
    unpinned = "registry.example.com/secondary-scheduler/kube-scheduler"
    output = preview(engine, *resources(misspelt, unpinned, schedulerImages="x"), fails=True)
    violations = output.partition("Policies:")[2]
    violated = ("configuration-is-valid", "no-token-in-config-map", "image-is-pinned", "fields-are-known")
    assert [name for name in violated if name not in violations] == [], output
    assert "TargetLoadPackin" in violations
    assert "canary-31415926" not in violations


@pytest.mark.slow
def test_enforcement_levels_and_settings_come_from_a_file(engine: Engine) -> None:
    digests = {"image-is-pinned": {"requireDigest": True}}
    assert "has no digest" in preview(engine, *resources(CONFIGURATION), settings=digests, fails=True)
    advisory = {"image-is-pinned": {"requireDigest": True, "enforcementLevel": "advisory"}}
    assert "has no digest" in preview(engine, *resources(CONFIGURATION), settings=advisory)
