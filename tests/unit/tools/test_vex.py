"""tools/vex.py: statements about advisories, and what the audit leaves out because of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tools import vex

LOCKED = vex.pins()
ADVISORY = "CVE-2026-12345"
NOT_AFFECTED = ("--status", "not_affected", "--justification", "vulnerable_code_not_in_execute_path")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "vex.json"


def run(file: Path, *arguments: str) -> int:
    return vex.main(["--file", str(file), *arguments])


def add(file: Path, *options: str, advisory: str = ADVISORY, package: str = "aiohttp") -> int:
    return run(file, "add", advisory, "--package", package, *options)


def document(file: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(file.read_text())
    return parsed


def test_a_statement_is_about_the_locked_version_in_the_form_of_openvex(file: Path) -> None:
    assert add(file, *NOT_AFFECTED, "--note", "we send no such header") == 0
    written = document(file)
    assert set(written) == {"@context", "@id", "author", "timestamp", "version", "statements"}
    assert (written["@context"], written["version"]) == ("https://openvex.dev/ns/v0.2.0", 1)
    (statement,) = written["statements"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", statement.pop("timestamp"))
    (product,) = statement.pop("products")
    assert product["@id"] == f"pkg:pypi/secondary-scheduler@{vex.version()}"
    assert product["subcomponents"] == [{"@id": f"pkg:pypi/aiohttp@{LOCKED['aiohttp']}"}]
    assert statement == {
        "vulnerability": {"name": ADVISORY},
        "status": "not_affected",
        "justification": "vulnerable_code_not_in_execute_path",
        "status_notes": "we send no such header",
    }


def test_a_later_statement_takes_the_place_of_an_earlier_one_about_the_same(file: Path) -> None:
    assert add(file, "--status", "under_investigation") == 0
    assert add(file, "--status", "affected", "--note", "update to 0.2.1", advisory="GHSA-aaaa-bbbb-cccc") == 0
    assert add(file, *NOT_AFFECTED) == 0
    statements = document(file)["statements"]
    assert [(each["vulnerability"]["name"], each["status"]) for each in statements] == [
        (ADVISORY, "not_affected"),
        ("GHSA-aaaa-bbbb-cccc", "affected"),
    ]
    assert statements[1]["action_statement"] == "update to 0.2.1"
    assert document(file)["version"] == 3


def test_the_audit_leaves_out_what_is_no_concern(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(file, *NOT_AFFECTED)
    add(file, "--status", "under_investigation", advisory="PYSEC-2026-7")
    capsys.readouterr()
    assert run(file, "ignored") == 0
    assert capsys.readouterr().out == f"--ignore-vuln {ADVISORY}\n"


def test_another_version_of_the_package_is_asked_about_again(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(file, *NOT_AFFECTED)
    file.write_text(file.read_text().replace(f"aiohttp@{LOCKED['aiohttp']}", "aiohttp@1.0"))
    capsys.readouterr()
    assert run(file, "ignored") == 0
    assert capsys.readouterr().out == "\n"


def test_without_a_document_nothing_is_left_out_and_none_is_written(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, "ignored") == 0
    assert capsys.readouterr().out == "\n"
    assert not file.exists()


@pytest.mark.parametrize(
    ("advisory", "package", "options", "message"),
    [
        ("CVE-26", "aiohttp", NOT_AFFECTED, "CVE-26 is no advisory"),
        ("$(touch x)", "aiohttp", NOT_AFFECTED, "is no advisory"),
        (ADVISORY, "left-pad", NOT_AFFECTED, "left-pad is in no lock file"),
        (ADVISORY, "aiohttp", ("--status", "not_affected"), "a justification belongs to not_affected"),
        (ADVISORY, "aiohttp", ("--status", "fixed", *NOT_AFFECTED[2:]), "a justification belongs to not_affected"),
        (ADVISORY, "aiohttp", ("--status", "affected"), "--note must say what users do"),
    ],
)
def test_what_is_no_statement_is_refused_in_one_line(
    file: Path,
    capsys: pytest.CaptureFixture[str],
    advisory: str,
    package: str,
    options: tuple[str, ...],
    message: str,
) -> None:
    assert add(file, *options, advisory=advisory, package=package) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not file.exists()


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"statements": [{}]}',
        '{"statements": [{"vulnerability": {"name": "x; rm"}, "status": "fixed", "products": '
        '[{"subcomponents": [{"@id": "pkg:pypi/aiohttp@1"}]}]}]}',
    ],
)
def test_a_file_that_is_no_document_of_ours_is_refused_in_one_line(
    file: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file.write_text(text)
    assert run(file, "ignored") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "vex.json is no VEX document of tools/vex.py" in line
