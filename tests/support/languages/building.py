"""SDKs of the component package by the engine's generators, the example programs with them, and a project's folder.

Packages come from the registries that npm and Go are configured for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.live_stack import CHECKOUT

EXAMPLES = CHECKOUT / "examples" / "component-package"
PACKAGE = CHECKOUT / "components" / "package"
GO_SDK = "example.com/pulumi-secondary-scheduler/sdk/go/secondary-scheduler"
"""The path under which `pulumi package add` links a Go SDK of a package without a repository."""
_GENERATOR = CHECKOUT / "tests" / "data" / "sdk-generator"
_YAML_HOST = CHECKOUT / "tests" / "data" / "language-yaml"
_ENGINE, _KUBERNETES = "v3.220.0", "v4.30.0"
_MINUTE = 60


def run(folder: Path, *command: str) -> None:
    """Run a tool; its failure fails the test."""
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"GOWORK": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"},
        capture_output=True, text=True, check=False, timeout=20 * _MINUTE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def generated_sdks(folder: Path) -> Path:
    """Fill a folder with an SDK for each language."""
    run(_GENERATOR, "go", "build", "-o", str(folder / "generate"), ".")
    run(folder, str(folder / "generate"), str(PACKAGE / "schema.json"), str(folder))
    return folder


def typescript_program(sdks: Path, program: Path) -> Path:
    """The TypeScript example with its packages; the SDK is compiled."""
    shutil.copytree(EXAMPLES / "typescript", program)
    sdk = shutil.copytree(sdks / "nodejs", program / "sdks" / "secondary-scheduler")
    run(program, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")
    # What the SDK's own script does when it is installed: its compiled form, and package.json beside it.
    run(sdk, compiler(program))
    shutil.copyfile(sdk / "package.json", sdk / "bin" / "package.json")
    return program


def compiler(program: Path) -> str:
    """The TypeScript compiler of a program."""
    return str(program / "node_modules" / ".bin" / "tsc")


def go_program(sdks: Path, program: Path) -> Path:
    """The Go example with its modules."""
    shutil.copytree(EXAMPLES / "go", program)
    sdk = shutil.copytree(sdks / "go" / "secondaryscheduler", program / "sdks" / "secondary-scheduler")
    pulumi = f"require github.com/pulumi/pulumi/sdk/v3 {_ENGINE}"
    (sdk / "go.mod").write_text(f"module {GO_SDK}\n\ngo 1.25.0\n\n{pulumi}\n")
    (program / "go.mod").write_text(
        f"module batch-scheduler\n\ngo 1.25.0\n\n{pulumi}\n"
        f"require github.com/pulumi/pulumi-kubernetes/sdk/v4 {_KUBERNETES}\n"
        f"require {GO_SDK} v0.0.0\nreplace {GO_SDK} => ./sdks/secondary-scheduler\n"
    )
    run(program, "go", "mod", "tidy")
    return program


def yaml_host(folder: Path) -> Path:
    """Pulumi's language plugin for YAML, built into a folder."""
    target = str(folder / "pulumi-language-yaml")
    run(_YAML_HOST, "go", "build", "-o", target, "github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml")
    return folder


def stand_in_hosts(folder: Path) -> Path:
    """Language plugins for Go and Node.js in a folder: see `host`."""
    for language in ("go", "nodejs"):
        file = folder / f"pulumi-language-{language}"
        module = "tests.support.languages.host"
        file.write_text(f'#!/bin/sh\nPYTHONPATH="{CHECKOUT}" exec "{sys.executable}" -m {module} {language} "$@"\n')
        file.chmod(0o755)
    return folder


def with_hosts(variables: Mapping[str, str], *folders: Path) -> dict[str, str]:
    """An environment in which the engine finds the plugins of some folders, and looks for none elsewhere."""
    return {
        **variables,
        "PATH": os.pathsep.join([*map(str, folders), variables["PATH"]]),
        "PULUMI_DISABLE_REGISTRY_RESOLVE": "1",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "1",
    }
