"""What docs/supply-chain.md, .github/security-insights.yml and GOVERNANCE.md say of this repository is so."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.pages import CHECKOUT, anchor

WORKFLOWS = sorted((CHECKOUT / ".github/workflows").glob("*.y*ml"))
ACTIONS = sorted((CHECKOUT / ".github/actions").glob("*/action.y*ml"))
PAGE = (CHECKOUT / "docs/supply-chain.md").read_text(encoding="utf-8")
GOVERNANCE = (CHECKOUT / "GOVERNANCE.md").read_text(encoding="utf-8")
PUBLISHED = "https://git.example.com/platform/secondary-scheduler"
INSIGHTS: dict[str, Any] = yaml.safe_load((CHECKOUT / ".github/security-insights.yml").read_text(encoding="utf-8"))
PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
_MAGIC = (b"\x7fELF", b"MZ", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe", b"PK\x03\x04", b"!<arch>")
_COMPILED = frozenset({".pyc", ".pyd", ".so", ".o", ".a", ".dll", ".exe", ".jar", ".class", ".whl", ".wasm"})


def git(*arguments: str) -> list[str]:
    """Lines of git's answer; without a repository, as in an unpacked archive, the test is skipped."""
    done = subprocess.run(["git", "-C", str(CHECKOUT), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a clone")
    return done.stdout.splitlines()


def loaded(file: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return parsed


def triggers(workflow: Mapping[Any, Any]) -> set[str]:
    # YAML 1.1 reads the key `on` as true.
    return set(workflow[True])


def steps(file: Path) -> Iterator[dict[str, Any]]:
    document = loaded(file)
    parts = document["jobs"].values() if "jobs" in document else [document["runs"]]
    for part in parts:
        yield from part["steps"]


def name(file: Path) -> str:
    return str(file.relative_to(CHECKOUT))


# Scorecard ----------------------------------------------------------------------------------------------------------


def test_each_row_names_a_test_that_exists() -> None:
    rows = re.findall(r"^\| ([A-Z][\w-]+) \| (.+) \| (.+) \|$", PAGE.partition("## OpenSSF Scorecard")[2], re.MULTILINE)
    assert len(rows) == 11
    tests = Path(__file__).read_text(encoding="utf-8")
    for check, _, held in rows:
        for span in re.findall(r"`([^`]+)`", held):
            if span.endswith("…"):
                assert f"def {span.removesuffix('…')}" in tests, f"{check}: {span}"
            else:
                assert (CHECKOUT / span).exists(), f"{check}: {span}"


def test_no_binary_artifact_is_under_version_control() -> None:
    files = [CHECKOUT / line for line in git("ls-files")]
    assert len(files) > 500
    compiled = [
        name(file)
        for file in files
        if file.is_file() and (file.suffix in _COMPILED or file.read_bytes().startswith(_MAGIC))
    ]
    assert compiled == []


@pytest.mark.parametrize("file", [*WORKFLOWS, *ACTIONS], ids=name)
def test_no_dangerous_workflow_or_action_runs_what_a_stranger_wrote(file: Path) -> None:
    document = loaded(file)
    if "jobs" in document:
        assert not triggers(document) & {"pull_request_target", "workflow_run", "issue_comment"}
    assert list(steps(file))
    for step in steps(file):
        assert "${{" not in step.get("run", ""), f"{step.get('name')}: an input would be read as a command"


@pytest.mark.parametrize("file", WORKFLOWS, ids=name)
def test_tokens_of_workflows_read_the_content_and_nothing_else(file: Path) -> None:
    document = loaded(file)
    assert document["permissions"] == {"contents": "read"}
    for title, job in document["jobs"].items():
        assert job.get("permissions", {"contents": "read"}) == {"contents": "read"}, title
    for step in steps(file):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("file", WORKFLOWS, ids=name)
def test_workflows_pin_what_they_install(file: Path) -> None:
    for step in steps(file):
        run = step.get("run", "")
        for line in run.splitlines():
            assert "pip install" not in line or "--require-hashes" in line, line
        assert not re.search(r"\b(curl|wget|npm|npx|go install)\b", run)
    for job in loaded(file)["jobs"].values():
        assert not job["runs-on"].endswith("-latest")


def test_dependabot_covers_every_directory_with_actions() -> None:
    (update,) = loaded(CHECKOUT / ".github/dependabot.yml")["updates"]
    assert update["package-ecosystem"] == "github-actions"
    # "/" means .github/workflows.
    assert "/" in update["directories"]
    patterns = [directory.strip("/") for directory in update["directories"]]
    covered = {file for pattern in patterns if pattern for file in CHECKOUT.glob(f"{pattern}/action.y*ml")}
    assert covered == set(ACTIONS)


def test_hypothesis_is_used_for_what_is_read_from_outside() -> None:
    assert any(requirement.startswith("hypothesis") for requirement in PYPROJECT["dependency-groups"]["dev"])
    modules = [
        file
        for file in (CHECKOUT / "tests/unit").rglob("test_*.py")
        if re.search(r"^from hypothesis import .*\bgiven\b", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(modules) > 20


def test_the_licence_is_apache_2_in_file_package_and_insights() -> None:
    head = (CHECKOUT / "LICENSE").read_text(encoding="utf-8")[:400]
    assert "Apache License" in head
    assert "Version 2.0" in head
    assert PYPROJECT["project"]["license"] == INSIGHTS["repository"]["license"]["expression"] == "Apache-2.0"


def test_static_analysis_looks_for_insecure_code_in_all_production_code() -> None:
    lint = PYPROJECT["tool"]["ruff"]["lint"]
    assert "S" in lint["select"]
    spared = [pattern for pattern, rules in lint["per-file-ignores"].items() if "S" in rules]
    assert set(spared) == {"tests/**", "benchmarks/**"}


def test_the_security_policy_says_how_to_report_and_when_it_is_disclosed() -> None:
    policy = (CHECKOUT / "SECURITY.md").read_text(encoding="utf-8")
    assert re.search(r"\]\(https://\S+\)", policy)
    assert len(re.findall("vulnerab", policy, re.IGNORECASE)) > 1
    assert re.search(r"disclose it yourself \d+ days", policy)


# Security Insights ---------------------------------------------------------------------------------------------------

REQUIRED: dict[str, type | tuple[type, ...]] = {
    "header.schema-version": str,
    "header.last-updated": str,
    "header.last-reviewed": str,
    "header.url": str,
    "project.name": str,
    "project.administrators": list,
    "project.repositories": list,
    "project.vulnerability-reporting.reports-accepted": bool,
    "project.vulnerability-reporting.bug-bounty-available": bool,
    "repository.status": str,
    "repository.url": str,
    "repository.accepts-change-request": bool,
    "repository.accepts-automated-change-request": bool,
    "repository.core-team": list,
    "repository.license.url": str,
    "repository.license.expression": str,
    "repository.security.assessments.self.comment": str,
}
"""The fields that version 2.2.0 of the specification requires, and their types."""
OPTIONAL = {
    "header": {"comment", "project-si-source"},
    "project": {"homepage", "roadmap", "funding", "steward", "documentation"},
    "repository": {"bug-fixes-only", "no-third-party-packages", "documentation", "release"},
}


def insight(path: str) -> Any:
    value: Any = INSIGHTS
    for key in path.split("."):
        value = value[key]
    return value


def test_security_insights_has_what_its_specification_requires_and_nothing_else() -> None:
    for path, kind in REQUIRED.items():
        assert isinstance(insight(path), kind), path
    assert insight("header.schema-version") == "2.2.0"
    for part, optional in OPTIONAL.items():
        required = {path.split(".")[1] for path in REQUIRED if path.startswith(f"{part}.")}
        assert set(INSIGHTS[part]) - required <= optional
    updated, reviewed = (date.fromisoformat(insight(f"header.last-{verb}")) for verb in ("updated", "reviewed"))
    assert updated <= reviewed
    for people in (insight("project.administrators"), insight("repository.core-team")):
        assert [person["primary"] for person in people].count(True) == 1
    for tool in insight("repository.security.tools"):
        assert set(tool) == {"name", "type", "rulesets", "comment", "integration", "results"}
        assert tool["type"] in {"fuzzing", "container", "secret", "SCA", "SAST", "other"}
        assert set(tool["integration"]) == {"adhoc", "ci", "release"}


def addresses(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from addresses(each)
    elif isinstance(value, str) and value.startswith("http"):
        yield value


def test_the_addresses_of_security_insights_lead_to_files_and_headings() -> None:
    named = list(addresses(INSIGHTS))
    assert len(named) > 12
    for address in named:
        assert address.startswith(PUBLISHED)
        path, _, fragment = address.removeprefix(f"{PUBLISHED}/blob/main/").partition("#")
        if address == PUBLISHED:
            continue
        text = (CHECKOUT / path).read_text(encoding="utf-8")
        if fragment:
            assert fragment in {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}, address


def test_the_tools_of_security_insights_are_dependencies_of_the_project() -> None:
    locked = (CHECKOUT / "requirements-dev.txt").read_text(encoding="utf-8")
    for tool in insight("repository.security.tools"):
        assert re.search(rf"^{re.escape(tool['name'])}==", locked, re.MULTILINE), tool["name"]


# Governance ----------------------------------------------------------------------------------------------------------


def history(field: str) -> list[str]:
    """A field of each commit until the day of which GOVERNANCE.md speaks."""
    (day,) = re.findall(r"Until (\d{4}-\d\d-\d\d) every commit has one author", " ".join(GOVERNANCE.split()))
    return git("log", f"--until={day}T23:59:59Z", f"--format={field}")


def test_the_history_has_the_authors_that_governance_says() -> None:
    assert len(set(history("%ae"))) == 1


def test_who_maintains_is_said_alike() -> None:
    (account,) = re.findall(r'an account called "(\w+)"', GOVERNANCE)
    for people in (insight("project.administrators"), insight("repository.core-team")):
        assert [person["name"] for person in people] == [account]
    assert all(author.endswith(account) for author in history("%an"))
