"""The program runs in the environment of `pulumi install`: with what requirements.txt locks and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import distributions as installed
from pathlib import Path

import pytest

from tests.components.graph import ROOT

# Imports everything that the program imports and prints the top-level packages that are not of the standard library.
SCRIPT = """
import sys

BLOCKED = {"numpy", "scipy", "aiohttp", "kopf", "kubernetes", "msgspec", "prometheus_api_client", "requests", "uvloop",
           "structlog", "typer", "rich", "psutil", "cryptography"}

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is not part of the program's environment")

sys.meta_path.insert(0, Refuse())
sys.path.insert(0, sys.argv[1])
import ast, importlib, pathlib
for node in ast.walk(ast.parse((pathlib.Path(sys.argv[1]) / "__main__.py").read_text())):
    if isinstance(node, ast.Import):
        for alias in node.names:
            importlib.import_module(alias.name)
    elif isinstance(node, ast.ImportFrom):
        importlib.import_module(node.module)
for name, module in sorted(sys.modules.items()):
    file = getattr(module, "__file__", None)
    if file and "site-packages" in file:
        print(pathlib.Path(file).relative_to(file[: file.index("site-packages") + 13]).parts[0])
"""


def test_program_needs_nothing_beyond_its_requirements() -> None:
    command = [sys.executable, "-P", "-c", SCRIPT, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    imported = {name.removesuffix(".py").partition(".")[0] for name in done.stdout.split()}
    # A plain `python -m venv` brings setuptools, whose .pth file loads this one into every process.
    assert imported - {"_distutils_hack"} <= provided_by(locked_distributions())


# Prints which API groups of the SDK are loaded once the program is imported, and once it has run in a mode.
GROUPS = """
import sys
from tests.components.graph import run_program, stack_values

def loaded():
    # Every group is in sys.modules from the start, as a module that is loaded when an attribute of it is read.
    groups = [name.split(".") for name in sys.modules if name.startswith("pulumi_kubernetes.")]
    return ",".join(sorted({".".join(parts[1:3]) for parts in groups if parts[3:] == ["_inputs"]}))

import components, stacks.composition, stacks.loading
print(loaded())
run_program({**stack_values("local"), "installMode": sys.argv[1]})
print(loaded())
"""


@pytest.mark.usefixtures("local_environment")
@pytest.mark.parametrize(
    ("mode", "groups"),
    [
        ("direct", "apps.v1,core.v1,flowcontrol.v1,meta.v1,networking.v1,rbac.v1,scheduling.v1"),
        ("none", "core.v1,meta.v1,scheduling.v1"),
    ],
)
def test_a_module_of_the_kubernetes_sdk_is_loaded_only_where_a_component_uses_it(mode: str, groups: str) -> None:
    command = [sys.executable, "-c", GROUPS, mode]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    imported, used = done.stdout.rstrip("\n").split("\n")[-2:]
    assert imported == ""
    assert used == groups


def locked_distributions() -> set[str]:
    text = (ROOT / "requirements.txt").read_text()
    return {normalised(name) for name in re.findall(r"^([A-Za-z0-9_.-]+)==", text, re.MULTILINE)}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def provided_by(distributions: set[str]) -> set[str]:
    """Top-level names in site-packages that these distributions install."""
    names = set()
    for distribution in installed():
        if normalised(distribution.name) in distributions:
            for file in distribution.files or []:
                names.add(Path(str(file)).parts[0].removesuffix(".py").partition(".")[0])
    return names
