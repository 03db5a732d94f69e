"""What the wheel holds, and whether each program runs with its extra and says what is missing without it."""

from __future__ import annotations

import configparser
import functools
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.environments import ROOT, build_wheel, make_environment, required_with_extras

EXTRAS = {
    "secondary-scheduler": "cli",
    "kubectl-secondary_scheduler": "cli",
    "kubectl_complete-secondary_scheduler": "cli",
    "secondary-scheduler-operator": "operator",
    "kube-scheduler": "scheduler",
}
"""The extra of each program."""
PACKAGES = {
    "cli": ("scheduler", "secondary_scheduler.cli"),
    "operator": ("secondary_scheduler.operator",),
    "scheduler": ("scheduler",),
    "all": ("scheduler", "secondary_scheduler"),
}
"""Packages of which every module can be imported with an extra."""
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: mine
"""
ALONE = {
    "scheduler": (
        "aiohappyeyeballs aiohttp aiosignal annotated-types attrs certifi cffi charset-normalizer cryptography "
        "dateparser frozenlist google-re2 idna msgspec multidict numpy prometheus-api-client prometheus-client "
        "propcache pycparser pydantic pydantic-core python-dateutil pytz pyyaml regex requests ruamel.yaml structlog "
        "typing-extensions typing-inspection tzdata tzlocal urllib3 uvloop yarl",
        125,
    ),
    "operator": (
        "aiohappyeyeballs aiohttp aiosignal annotated-types attrs cffi cryptography frozenlist idna msgspec multidict "
        "prometheus-client propcache pycparser pydantic pydantic-core ruamel.yaml structlog typing-extensions "
        "typing-inspection yarl",
        40,
    ),
}
"""What the extra of a program brings with it, and less than how many MB that is, byte code left out."""
OF_TRACING = "scheduler.observe.otlp"
"""The only module that needs the extra `tracing`, which no program needs."""
IMPORT_ALL = """
import importlib, pkgutil, sys
without = sys.argv[1]
for name in sys.argv[2:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not module.name.endswith(".__main__") and module.name != without:
            importlib.import_module(module.name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def programs_with(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the `bin` directory of an environment with an extra, or with none for the empty name."""
    root = tmp_path_factory.mktemp("environments")

    @functools.cache
    def programs(extra: str) -> Path:
        return make_environment(root / (extra or "none"), wheel, extra)

    return programs


def run(program: Path, *arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *arguments],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", "HOME": str(directory), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_wheel_holds_the_two_packages_and_nothing_of_the_checkout_around_them(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {
        "scheduler",
        "secondary_scheduler",
    }
    assert not [name for name in names if "devcluster" in name]
    modules = {
        str(path.relative_to(ROOT))
        for package in ("scheduler", "secondary_scheduler")
        for path in (ROOT / package).rglob("*.py")
    }
    assert {name for name in names if name.endswith(".py")} == modules


def test_the_wheel_holds_the_templates_and_files_of_the_pages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if "/views/" in name}
    folder = ROOT / "secondary_scheduler/views"
    files = {path for name in ("templates", "static") for path in (folder / name).iterdir()}
    assert {"base.html", "ui.css", "ui.js"} <= {path.name for path in files}
    assert {path: packed.get(str(path.relative_to(ROOT))) for path in files} == {
        path: path.read_bytes() for path in files
    }


def test_every_program_of_the_wheel_has_an_extra_here(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        entry_points = configparser.ConfigParser(delimiters="=")
        entry_points.read_string(archive.read(name).decode())
    assert set(entry_points["console_scripts"]) == set(EXTRAS)


@pytest.mark.parametrize("program", EXTRAS)
def test_without_its_extra_a_program_says_in_one_line_what_to_install(
    programs_with: Callable[[str], Path], program: str, tmp_path: Path
) -> None:
    result = run(programs_with("") / program, "--version", directory=tmp_path)
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    named = "secondary-scheduler" if program.startswith("kubectl") else program
    assert result.stderr.startswith(f"{named}: the Python package '")
    extra = EXTRAS[program]
    assert f"it comes with the extra '{extra}': pip install 'secondary-scheduler[{extra}]'" in result.stderr


@pytest.mark.parametrize("extra", ALONE)
def test_a_program_alone_brings_these_packages_and_no_more_than_this_size(extra: str) -> None:
    names, megabytes = ALONE[extra]
    distributions = required_with_extras([f"secondary-scheduler[{extra}]"])
    assert sorted(distribution.name.lower().replace("_", "-") for distribution in distributions) == names.split()
    files = [
        Path(str(file.locate()))
        for distribution in distributions
        for file in distribution.files or ()
        if file.suffix != ".pyc"
    ]
    assert sum(file.stat().st_size for file in files if file.is_file()) < megabytes * 1e6


@pytest.mark.slow
@pytest.mark.parametrize("all_extras", [False, True])
@pytest.mark.parametrize("program", EXTRAS)
def test_with_its_extra_a_program_runs(
    programs_with: Callable[[str], Path], program: str, all_extras: bool, tmp_path: Path
) -> None:
    programs = programs_with("all" if all_extras else EXTRAS[program])
    for arguments in (["--version"], ["--help"]):
        result = run(programs / program, *arguments, directory=tmp_path)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("extra", PACKAGES)
def test_an_extra_brings_every_package_that_its_program_ever_imports(
    programs_with: Callable[[str], Path], extra: str, tmp_path: Path
) -> None:
    without = "" if extra == "all" else OF_TRACING
    result = run(programs_with(extra) / "python", "-c", IMPORT_ALL, without, *PACKAGES[extra], directory=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["validate", "configuration.yaml"], 0, "configuration.yaml: KubeSchedulerConfiguration is valid"),
        (["convert", "configuration.yaml"], 0, "schedulerName: mine"),
        (
            ["simulate", "--config", "configuration.yaml", "--snapshot", "node.yaml", "-o", "json"],
            0,
            "SimulationResult",
        ),
        (["fleet", "preview", "--stacks", "prod"], 1, "pulumi is not on PATH"),
        (["render", "--stack", "prod"], 1, "needs the Python package 'absent_package'"),
        (["cluster", "up"], 2, "pip install ./devcluster"),
    ],
)
def test_the_extra_cli_suffices_for_every_command(
    programs_with: Callable[[str], Path], arguments: list[str], code: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "configuration.yaml").write_text(CONFIGURATION)
    (tmp_path / "node.yaml").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")
    (tmp_path / "Pulumi.yaml").write_text("name: secondary-scheduler\nruntime: python\n")
    (tmp_path / "Pulumi.prod.yaml").write_text("config: {}\n")
    (tmp_path / "__main__.py").write_text("import absent_package\n")
    result = run(programs_with("cli") / "secondary-scheduler", *arguments, directory=tmp_path)
    assert result.returncode == code, result.stderr
    assert message in result.stdout + result.stderr
    assert "Traceback" not in result.stderr
