"""A registry takes the image and gives it back by its digest: go-containerregistry's, on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.image.podman import podman

# The registry is a Go program, fetched from the module proxy and compiled.
pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

MODULE = "github.com/google/go-containerregistry/cmd/registry@v0.20.6"
WITHOUT_TLS = "--tls-verify=false"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of an empty registry."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not Path(go).exists():
        pytest.skip("go is not on PATH")
    binaries = tmp_path_factory.mktemp("go")
    environment = {**os.environ, "GOBIN": str(binaries), "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    subprocess.run([go, "install", MODULE], env=environment, timeout=600, check=True)
    serving = subprocess.Popen([binaries / "registry", "-port", "0"], stderr=subprocess.PIPE, text=True)
    assert serving.stderr is not None
    try:
        for line in serving.stderr:
            if match := re.search(r"port (\d+)", line):
                yield f"127.0.0.1:{match[1]}"
                break
        else:
            pytest.fail("the registry ended before it served")
    finally:
        serving.send_signal(signal.SIGTERM)
        serving.wait(30)
        serving.stderr.close()


def test_what_is_pulled_by_digest_is_what_was_pushed(images: dict[str, str], registry: str, tmp_path: Path) -> None:
    name, digest_file = f"{registry}/secondary-scheduler/operator", tmp_path / "digest"
    pushed = ["push", WITHOUT_TLS, "--digestfile", str(digest_file), images["operator"]]
    podman(*pushed, f"docker://{name}:first")
    digest = digest_file.read_text().strip()
    # A second push compresses again, and gives the same digest.
    podman(*pushed, f"docker://{name}:second")
    assert digest_file.read_text().strip() == digest
    identity = podman("image", "inspect", "--format", "{{.Id}}", images["operator"]).strip()
    with contextlib.ExitStack() as stack:
        stack.callback(podman, "rmi", f"{name}@{digest}", check=False)
        podman("pull", "--quiet", WITHOUT_TLS, f"{name}@{digest}")
        assert podman("image", "inspect", "--format", "{{.Id}}", f"{name}@{digest}").strip() == identity
