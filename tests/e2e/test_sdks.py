"""SDKs of the component package for TypeScript and Go, by the engine's generators, and the examples checked with them.

Packages come from the registries that npm and Go are configured for. What the language plugins would add, running the
programs, is not tried: they are not on the module proxy for this engine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.live_stack import CHECKOUT

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("npm") is None or shutil.which("go") is None, reason="needs npm and Go"),
]

EXAMPLES = CHECKOUT / "examples" / "component-package"
GENERATOR = CHECKOUT / "tests" / "data" / "sdk-generator"
SCHEMA = CHECKOUT / "components" / "package" / "schema.json"
GO_SDK = "example.com/pulumi-secondary-scheduler/sdk/go/secondary-scheduler"
"""The path under which `pulumi package add` links a Go SDK of a package without a repository."""
ENGINE, KUBERNETES = "v3.220.0", "v4.30.0"
MINUTE = 60


def run(folder: Path, *command: str) -> None:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"GOWORK": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"},
        capture_output=True, text=True, check=False, timeout=20 * MINUTE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def sdks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an SDK for each language."""
    folder = tmp_path_factory.mktemp("sdks")
    run(GENERATOR, "go", "build", "-o", str(folder / "generate"), ".")
    run(folder, str(folder / "generate"), str(SCHEMA), str(folder))
    return folder


def test_the_typescript_sdk_builds_and_the_example_type_checks(sdks: Path, tmp_path: Path) -> None:
    program = shutil.copytree(EXAMPLES / "typescript", tmp_path / "program")
    sdk = shutil.copytree(sdks / "nodejs", program / "sdks" / "secondary-scheduler")
    run(program, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")
    tsc = str(program / "node_modules" / ".bin" / "tsc")
    run(sdk, tsc)  # an SDK is its compiled form: `main` of its package.json
    run(program, tsc, "--noEmit")
    wrong = (program / "index.ts").read_text().replace("settings: {", "setting: {")
    (program / "index.ts").write_text(wrong)
    with pytest.raises(AssertionError, match="'setting' does not exist"):
        run(program, tsc, "--noEmit")


def test_the_go_sdk_builds_and_go_vet_accepts_the_example(sdks: Path, tmp_path: Path) -> None:
    program = shutil.copytree(EXAMPLES / "go", tmp_path / "program")
    sdk = shutil.copytree(sdks / "go" / "secondaryscheduler", program / "sdks" / "secondary-scheduler")
    pulumi = f"require github.com/pulumi/pulumi/sdk/v3 {ENGINE}"
    (sdk / "go.mod").write_text(f"module {GO_SDK}\n\ngo 1.25.0\n\n{pulumi}\n")
    (program / "go.mod").write_text(
        f"module batch-scheduler\n\ngo 1.25.0\n\n{pulumi}\n"
        f"require github.com/pulumi/pulumi-kubernetes/sdk/v4 {KUBERNETES}\n"
        f"require {GO_SDK} v0.0.0\nreplace {GO_SDK} => ./sdks/secondary-scheduler\n"
    )
    run(program, "go", "mod", "tidy")
    run(program, "go", "vet", "./...")
    wrong = (program / "main.go").read_text().replace("Settings:", "Setting:")
    (program / "main.go").write_text(wrong)
    with pytest.raises(AssertionError, match="unknown field Setting"):
        run(program, "go", "vet", "./...")
