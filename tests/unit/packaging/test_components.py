"""The components as a distribution of their own, for programs that have a folder `components` themselves."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.environments import ROOT

PROGRAM = """
import sys
import components
import secondary_scheduler_pulumi
from secondary_scheduler_pulumi.crd import bundled_crds, load_manifest

assert components.OWN
for name in bundled_crds():
    load_manifest(name)
print(secondary_scheduler_pulumi.__file__)
print(secondary_scheduler_pulumi.SchedulerInstallation.__module__)
print([name for name in sys.modules if name.startswith("components.")])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel installs."""
    directory = tmp_path_factory.mktemp("wheel")
    code = f"import hatchling.build; print(hatchling.build.build_wheel({str(directory)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "components", capture_output=True, text=True, timeout=60, check=True
    )
    with zipfile.ZipFile(directory / done.stdout.split()[-1]) as archive:
        archive.extractall(directory / "installed")
    return directory / "installed"


def run(program: str, directory: Path, *path: Path) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path[:0] = {[str(directory), *map(str, path)]!r}\n{program}"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_wheel_holds_the_components_under_one_name_with_all_their_files(installed: Path) -> None:
    assert {entry.name for entry in installed.iterdir() if not entry.name.endswith(".dist-info")} == {
        "secondary_scheduler_pulumi"
    }
    package = installed / "secondary_scheduler_pulumi"
    files = {str(file.relative_to(package)) for file in package.rglob("*.*")}
    source = ROOT / "components"
    expected = {str(file.relative_to(source)) for glob in ("*.py", "crds/*.yaml") for file in source.glob(glob)}
    assert expected <= files


def test_the_wheel_brings_the_licence(installed: Path) -> None:
    (licence,) = installed.glob("*.dist-info/licenses/LICENSE")
    assert licence.read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_a_program_with_a_components_folder_of_its_own_imports_them(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "components").mkdir()
    (tmp_path / "components" / "__init__.py").write_text("OWN = True\n")
    done = run(PROGRAM, tmp_path, installed)
    assert done.returncode == 0, done.stderr
    file, module, ours = done.stdout.splitlines()
    assert Path(file).is_relative_to(installed)
    assert module == "secondary_scheduler_pulumi.scheduler_installation"
    assert ours == "[]"


def test_another_distributions_package_scheduler_is_named_in_one_line(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "scheduler").mkdir()
    theirs = tmp_path / "scheduler" / "__init__.py"
    theirs.write_text("")
    done = run("import secondary_scheduler_pulumi", tmp_path, installed)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: the package 'scheduler' that Python finds first, {theirs}, is not that of")
