"""The image's locks and Containerfile say what the rest of the repository says."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scheduler import __version__

ROOT = Path(__file__).parents[3]
build = runpy.run_path(str(ROOT / "image/build.py"))
FORBIDDEN = {"pulumi", "pulumi-kubernetes", "kubernetes", "typer", "rich", "pytest", "grpcio"}


def pins(name: str) -> dict[str, set[str]]:
    """Hashes by requirement line."""
    hashes_by_line: dict[str, set[str]] = {}
    for line in (ROOT / name).read_text().splitlines():
        if "==" in line:
            hashes = hashes_by_line.setdefault(line.removesuffix(" \\"), set())
        elif line.strip().startswith("--hash="):
            hashes.add(line.strip().removesuffix(" \\"))
    return hashes_by_line


def names(name: str) -> set[str]:
    return {line.partition("==")[0] for line in pins(name)}


@pytest.mark.parametrize("lock", [f"image/requirements{suffix}.txt" for suffix in ("", "-scheduler", "-build")])
def test_what_is_in_the_image_is_what_the_tests_ran_with(lock: str) -> None:
    tested = {re.sub(r" ; .*", "", line): hashes for line, hashes in pins("requirements-dev.txt").items()}
    locked = {re.sub(r" ; .*", "", line): hashes for line, hashes in pins(lock).items()}
    assert locked
    assert {line: hashes for line, hashes in locked.items() if tested.get(line) != hashes} == {}
    assert all(locked.values()), "every file has a hash"


def test_the_image_has_the_daemons_packages_and_none_of_the_program_or_the_tests() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [
        requirement
        for extra in ("scheduler", "operator", "tracing")
        for requirement in project["optional-dependencies"][extra]
    ]
    locked = names("image/requirements.txt")
    assert {name_of(requirement) for requirement in wanted} <= locked
    assert locked & FORBIDDEN == set()


def name_of(requirement: str) -> str:
    return re.split(r"[<>=!~\[ ]", requirement)[0].lower().replace(".", "-")


def test_the_image_of_the_scheduler_alone_has_what_it_needs_and_nothing_of_pages_or_tracing() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    locked = names("image/requirements-scheduler.txt")
    assert {name_of(requirement) for requirement in project["dependencies"] + extras["scheduler"]} <= locked
    assert locked < names("image/requirements.txt")
    others = {name_of(requirement) for extra in ("page", "tracing", "cli") for requirement in extras[extra]}
    assert locked & (others - {"secondary-scheduler"}) == set()


def test_the_image_is_labelled_with_the_projects_version_and_runs_as_a_number() -> None:
    text = (ROOT / "image/Containerfile").read_text()
    assert f"ARG VERSION={__version__}\n" in text
    users = re.findall(r"^USER (.*)$", text, re.MULTILINE)
    assert [re.fullmatch(r"[1-9]\d*:[1-9]\d*", user) is not None for user in users] == [True]


def test_nothing_in_the_containerfile_needs_a_shell() -> None:
    text = (ROOT / "image/Containerfile").read_text()
    commands = re.findall(r"^(?:RUN|CMD|ENTRYPOINT) (.*)$", text, re.MULTILINE)
    assert commands
    assert [command for command in commands if not command.startswith("[")] == []


def sources_of(part: str, directory: Path) -> Path:
    """What build.py makes the wheel of."""
    build["copy_sources"](ROOT, directory, part)
    return directory


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sources_of("daemons", tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def of_the_scheduler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sources_of("scheduler", tmp_path_factory.mktemp("scheduler"))


def test_the_image_of_the_scheduler_alone_holds_that_and_nothing_else(of_the_scheduler: Path) -> None:
    tops = {path.name for path in of_the_scheduler.iterdir()}
    assert tops == {"scheduler", "pyproject.toml", "README.md", "LICENSE"}
    assert list(build["ALL_ENTRY_POINTS"]["scheduler"]) == ["kube-scheduler"]


def test_the_image_holds_the_daemons_and_nothing_else(sources: Path) -> None:
    modules = {str(path.relative_to(sources)) for path in sources.rglob("*.py")}
    packages = {
        "/".join(name.split("/")[:2]) if name.startswith("secondary") else name.split("/")[0] for name in modules
    }
    daemons = {"secondary_scheduler/operator", "secondary_scheduler/loadwatcher", "secondary_scheduler/rebalancer"}
    parts = {"rebalancing", "clusterstatus", "clustersnapshot", "simulation", "views", "page"}
    modules_beside = (
        "balance",
        "errors",
        "files",
        "importing",
        "kubeobjects",
        "nodeload",
        "rebalancestatus",
        "serving",
        "yamltext",
    )
    parts |= {f"{name}.py" for name in modules_beside}
    daemons |= {f"secondary_scheduler/{name}" for name in parts}
    assert packages == {"scheduler", "secondary_scheduler/__init__.py", *daemons}
    whole = {str(path.relative_to(ROOT)) for path in (ROOT / "scheduler").rglob("*.py")}
    assert whole <= modules


@pytest.mark.slow
def test_the_entry_points_run_from_what_the_image_holds(sources: Path) -> None:
    for name, module in build["ENTRY_POINTS"].items():
        code = f"import sys; sys.path = [entry for entry in sys.path if entry != {str(ROOT)!r}]\n"
        code += f"sys.path.insert(0, {str(sources)!r}); sys.argv = [{name!r}, '--version']\n"
        code += f"from {module} import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), name
        assert done.stdout


@pytest.mark.parametrize("part", ["sources", "of_the_scheduler"])
def test_everything_in_the_image_can_be_imported_without_what_it_leaves_out(
    part: str, request: pytest.FixtureRequest
) -> None:
    sources = request.getfixturevalue(part)
    packages = [name for name in ("scheduler", "secondary_scheduler") if (sources / name).exists()]
    code = f"""
import importlib, pkgutil, sys
sys.path = [{str(sources)!r}, *(entry for entry in sys.path if entry != {str(ROOT)!r})]
for name in {packages!r}:
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert sys.modules[name].__file__.startswith({str(sources)!r})
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["Containerfile", "cli.Containerfile"])
def test_the_image_that_is_assembled_has_the_last_stage_of_the_containerfile(name: str) -> None:
    text = (ROOT / "image" / name).read_text()
    stage = arm64_image["last_stage"](text)
    assert stage.startswith("ARG BASE\nFROM ${BASE}\n")
    assert re.findall(r"^(?:RUN|COPY --from).*", stage, re.MULTILINE) == []
    copied = re.findall(r"^COPY (\S+) (\S+)$", stage, re.MULTILINE)
    assert copied == re.findall(r"^COPY --from=build /out/(\S+) (\S+)$", text, re.MULTILINE)
    for instruction in ("LABEL", "USER", "ENTRYPOINT", "CMD"):
        assert stage.count(f"\n{instruction} ") == text.count(f"\n{instruction} ")


def test_one_containerfile_builds_both_images_of_the_scheduler() -> None:
    parts = image["PARTS"]
    assert parts["daemons"].containerfile == parts["scheduler"].containerfile
    assert not set(parts["daemons"].tags()) & set(parts["scheduler"].tags())
    assert parts["daemons"].sbom != parts["scheduler"].sbom


DIGEST = "sha256:" + "0" * 64
BASE = "docker.io/library/python:3.11-slim-bookworm"
image = runpy.run_path(str(ROOT / "tools/image.py"))
arm64_image = runpy.run_path(str(ROOT / "tools/arm64_image.py"))


def test_the_containerfile_names_no_base_by_tag() -> None:
    text = (ROOT / "image/Containerfile").read_text()
    assert "\nARG BASE\n" in text
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}", "${BUILDER}"}


def test_a_base_from_a_registry_is_used_by_digest(tmp_path: Path) -> None:
    lock = tmp_path / "base.lock"
    assert image["by_digest"](f"{BASE}@{DIGEST}", lock) == f"{BASE}@{DIGEST}"
    assert image["by_digest"]("localhost/secondary-scheduler/base:python3.11", lock).startswith("localhost/")
    assert image["by_digest"]("", lock) == ""
    lock.write_text(f"# comment\n\n{BASE}@{DIGEST}\n")
    assert image["by_digest"](BASE, lock) == f"{BASE}@{DIGEST}"


def test_a_tag_without_a_digest_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(image["BuildError"], match=r"has no digest.*run tools/image\.py --lock"):
        image["by_digest"](BASE, tmp_path / "base.lock")
    (tmp_path / "base.lock").write_text(f"{BASE}\n")
    with pytest.raises(image["BuildError"], match=r"base\.lock: .* has no digest"):
        image["by_digest"](BASE, tmp_path / "base.lock")


def test_a_lock_takes_the_digest_that_podman_names_and_keeps_the_others(tmp_path: Path) -> None:
    """The registry is played: none can be reached here."""
    podman = tmp_path / "podman"
    podman.write_text(f'#!/bin/sh\n[ "$1" = image ] && echo {DIGEST}\nexit 0\n')
    podman.chmod(0o755)
    lock = tmp_path / "base.lock"
    lock.write_text(f"example.com/other:1@{DIGEST}\n")
    image["write_lock"](str(podman), [BASE], lock)
    assert image["locked_digests"](lock) == {
        BASE: f"{BASE}@{DIGEST}",
        "example.com/other:1": f"example.com/other:1@{DIGEST}",
    }
