"""The image's locks and Containerfile say what the rest of the repository says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FORBIDDEN = {"pulumi", "pulumi-kubernetes", "kubernetes", "typer", "rich", "pytest", "grpcio"}


def pins(name: str) -> dict[str, set[str]]:
    """Hashes by requirement line."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / name).read_text().splitlines():
        if "==" in line:
            hashes = found.setdefault(line.removesuffix(" \\"), set())
        elif line.strip().startswith("--hash="):
            hashes.add(line.strip().removesuffix(" \\"))
    return found


def names(name: str) -> set[str]:
    return {line.partition("==")[0] for line in pins(name)}


@pytest.mark.parametrize("lock", ["image/requirements.txt", "image/requirements-build.txt"])
def test_what_is_in_the_image_is_what_the_tests_ran_with(lock: str) -> None:
    tested = {re.sub(r" ; .*", "", line): hashes for line, hashes in pins("requirements-dev.txt").items()}
    locked = {re.sub(r" ; .*", "", line): hashes for line, hashes in pins(lock).items()}
    assert locked
    assert {line: hashes for line, hashes in locked.items() if tested.get(line) != hashes} == {}
    assert all(locked.values()), "every file has a hash"


def test_the_image_has_the_daemons_packages_and_none_of_the_program_or_the_tests() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [
        one for extra in ("scheduler", "operator") for one in project["optional-dependencies"][extra]
    ]
    locked = names("image/requirements.txt")
    direct = {re.split(r"[<>=!~\[ ]", one)[0].lower().replace(".", "-") for one in wanted}
    assert direct <= locked
    assert locked & FORBIDDEN == set()


def test_the_image_is_labelled_with_the_projects_version_and_runs_as_a_number() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    text = (ROOT / "image/Containerfile").read_text()
    assert f"ARG VERSION={version}\n" in text
    users = re.findall(r"^USER (.*)$", text, re.MULTILINE)
    assert [re.fullmatch(r"[1-9]\d*:[1-9]\d*", user) is not None for user in users] == [True]


def test_nothing_in_the_containerfile_needs_a_shell() -> None:
    text = (ROOT / "image/Containerfile").read_text()
    commands = re.findall(r"^(?:RUN|CMD|ENTRYPOINT) (.*)$", text, re.MULTILINE)
    assert commands
    assert [command for command in commands if not command.startswith("[")] == []
