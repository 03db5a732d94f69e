"""The program runs in the environment of `pulumi install`: with what requirements.txt locks and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import distributions as installed
from pathlib import Path

from tests.components.graph import ROOT

# Imports everything that the program imports and prints the top-level packages that are not of the standard library.
SCRIPT = """
import sys

BLOCKED = {"numpy", "scipy", "aiohttp", "kopf", "kubernetes", "msgspec", "prometheus_api_client", "requests", "uvloop",
           "structlog", "typer", "rich", "psutil", "cryptography", "pulumi_kubernetes"}

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
