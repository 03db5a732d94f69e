"""The bundle and the catalog for OLM as images: opm reads the one from a registry and serves the other."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.ports import allocate
from devcluster.probes import accepts
from devcluster.progress import SilentReporter
from devcluster.toolchain.binaries import ensure
from tests.integration.image.podman import EVERYWHERE, podman, run_once, unusable
from tests.support.waiting import eventually
from tools.olm_bundle import OUTPUT, PACKAGE, BundleRelease

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1800)]

NAME = f"localhost/secondary-scheduler-test/olm-{os.getpid()}"
BUILD = ("build", "--quiet", "--isolation", "chroot", "--no-cache", "--timestamp", "0", "--identity-label=false")


@pytest.fixture(scope="module")
def opm() -> Path:
    if reason := unusable():
        pytest.skip(reason)
    return ensure(["opm"], SilentReporter())["opm"]


def built(file: str, tag: str, *options: str) -> str:
    """Build an image of deploy/olm; returns its digest."""
    image = f"{NAME}:{tag}"
    podman(*BUILD, *options, "--file", str(OUTPUT / file), "--tag", image, str(OUTPUT))
    return podman("image", "inspect", "--format", "{{.Digest}}", image).strip()


@pytest.fixture(scope="module")
def digests(opm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """Bundle and catalog, each built twice; what the catalog stands on is opm and nothing else."""
    context = tmp_path_factory.mktemp("opm")
    (context / "opm").write_bytes(opm.read_bytes())
    (context / "Containerfile").write_text("FROM scratch\nCOPY --chmod=755 opm /bin/opm\n")
    podman(*BUILD, "--tag", f"{NAME}:opm", str(context))
    base = f"OPM={NAME}:opm"
    yield {
        "bundle": {built("bundle.Containerfile", f"bundle{number}") for number in (1, 2)},
        "catalog": {built("catalog.Containerfile", f"catalog{number}", "--build-arg", base) for number in (1, 2)},
    }
    tags = ("opm", *(f"{part}{number}" for part in ("bundle", "catalog") for number in (1, 2)))
    podman("rmi", "--force", *(f"{NAME}:{tag}" for tag in tags), check=False)


@pytest.mark.parametrize("part", ["bundle", "catalog"])
def test_two_builds_have_the_same_digest(digests: dict[str, set[str]], part: str) -> None:
    assert len(digests[part]) == 1


def test_opm_renders_the_bundle_from_a_registry(digests: dict[str, set[str]], opm: Path) -> None:
    crane = ensure(["crane"], SilentReporter())["crane"]
    with subprocess.Popen(
        [crane, "registry", "serve", "--address", "127.0.0.1:0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as registry:
        try:
            assert registry.stderr is not None
            image = f"127.0.0.1:{registry.stderr.readline().split()[-1]}/bundle:1"
            podman("push", "--tls-verify=false", f"{NAME}:bundle1", f"docker://{image}")
            done = subprocess.run(
                [opm, "render", "--use-http", image, "-o", "json"], capture_output=True, text=True, check=False
            )
        finally:
            registry.kill()
    assert done.returncode == 0, done.stderr
    rendered = json.loads(done.stdout)
    assert (rendered["name"], rendered["package"]) == (BundleRelease().csv_name, PACKAGE)


def test_the_catalog_is_valid_and_is_served(digests: dict[str, set[str]]) -> None:
    image = f"{NAME}:catalog1"
    validated = run_once(image, "validate", "/configs")
    assert validated.returncode == 0, validated.stderr
    port = allocate(["opm"], {})["opm"]
    command = ("serve", "/configs", f"--port={port}", "--pprof-addr=", "--termination-log=/tmp/termination.log")
    container = podman("run", "--detach", *EVERYWHERE, "--read-only", "--tmpfs", "/tmp", image, *command).split()[-1]
    try:
        eventually(accepts(port), "the catalog is served", diagnosis=lambda: podman("logs", container))
    finally:
        podman("rm", "--force", container)
