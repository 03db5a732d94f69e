"""The weekly workflow: its shell, run as GitHub runs it, with stand-ins for podman and for what asks an index."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.deploy.test_ci_parts import ROOT, Runner
from tools.version import version

WORKFLOW: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/rebuild.yaml").read_text())
BASE = "registry.example.com/python:3.11"
REPOSITORY = "registry.example.com/team"
IMAGES = ("kube-scheduler", "operator", "cli")


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A job's directory in which `.venv/bin` has recording stand-ins; `tools/version.py` tells the version."""
    runner = Runner(tmp_path)
    (runner.work / ".venv").mkdir()
    (runner.work / ".venv/bin").symlink_to(runner.bin)
    runner.stand_in("python", f'case "$1" in tools/version.py) echo {version()} ;; esac')
    return runner


def script(job: str, title: str) -> str:
    (step,) = [step for step in WORKFLOW["jobs"][job]["steps"] if step.get("name") == title]
    return str(step["run"])


def test_the_audit_asks_about_every_lock_and_leaves_out_what_a_statement_covers(runner: Runner) -> None:
    runner.stand_in("python", 'case "$*" in "tools/vex.py ignored") echo --ignore-vuln CVE-2026-1 ;; esac')
    runner.stand_in("pip-audit")
    done = runner.run(script("audit", "Audit the locked packages"))
    assert done.returncode == 0, done.stderr
    locks = " ".join(f"[-r] [{lock}]" for lock in ("requirements.txt", "image/requirements.txt"))
    assert runner.calls[-1] == (
        f"pip-audit [--strict] [--require-hashes] [--disable-pip] {locks} [-r] [image/requirements-cli.txt] "
        "[--ignore-vuln] [CVE-2026-1]"
    )


def test_the_audit_is_that_of_the_examples_but_for_the_statements() -> None:
    examples = yaml.safe_load((ROOT / "examples/ci/github-actions.yaml").read_text())["jobs"]["audit"]["steps"]
    (tested,) = [step["run"] for step in examples if step.get("name") == "Audit the locked packages"]
    assert script("audit", "Audit the locked packages").splitlines()[-1] == f".venv/bin/{tested} $ignored"


def test_a_vex_document_that_cannot_be_read_fails_the_audit(runner: Runner) -> None:
    runner.stand_in("python", "exit 1")
    runner.stand_in("pip-audit")
    assert runner.run(script("audit", "Audit the locked packages")).returncode == 1
    assert not [call for call in runner.calls if call.startswith("pip-audit")]


def test_both_images_are_built_on_the_base_s_digest_of_the_day(runner: Runner) -> None:
    done = runner.run(script("images", "Build"), BASE=BASE)
    assert done.returncode == 0, done.stderr
    assert runner.calls == [
        f"python [tools/image.py] [--lock] [{BASE}]",
        f"python [tools/image.py] [--base] [{BASE}] [--clean]",
        f"python [tools/image.py] [--base] [{BASE}] [--clean] [--part] [cli]",
    ]


def test_each_image_is_started_before_it_is_pushed(runner: Runner) -> None:
    names = [step.get("name") for step in WORKFLOW["jobs"]["images"]["steps"]]
    assert names.index("Build") < names.index("Start each program once") < names.index("Push")
    runner.stand_in("podman")
    done = runner.run(script("images", "Start each program once"))
    assert done.returncode == 0, done.stderr
    started = [re.findall(r"secondary-scheduler/([\w-]+):", call) for call in runner.calls if call.startswith("podman")]
    assert started == [[name] for name in IMAGES]
    runner.stand_in("podman", 'case "$*" in *operator*) exit 3 ;; esac')
    assert runner.run(script("images", "Start each program once")).returncode == 3


def test_images_are_pushed_under_version_and_day_and_the_password_is_no_argument(runner: Runner) -> None:
    typed = runner.directory / "typed"
    runner.stand_in("podman", f'case "$1" in login) cat > "{typed}" ;; push) printf sha256:1 > "$3" ;; esac')
    summary = runner.directory / "summary"
    done = runner.run(
        script("images", "Push"),
        REPOSITORY=REPOSITORY,
        USERNAME="robot",
        PASSWORD="s3cret",
        GITHUB_STEP_SUMMARY=str(summary),
    )
    assert done.returncode == 0, done.stderr
    login, *pushes = [call for call in runner.calls if call.startswith("podman")]
    assert login == "podman [login] [--username] [robot] [--password-stdin] [registry.example.com]"
    assert typed.read_text() == "s3cret"
    assert "s3cret" not in runner.log.read_text() + done.stdout + done.stderr + summary.read_text()
    for name, call in zip(IMAGES, pushes, strict=True):
        assert re.fullmatch(
            rf"podman \[push\] \[--digestfile\] \[digest\] \[localhost/secondary-scheduler/{name}:{version()}\] "
            rf"\[docker://{REPOSITORY}/secondary-scheduler/{name}:{version()}-\d{{8}}\]",
            call,
        )
    assert summary.read_text().splitlines() == [
        f"- `{REPOSITORY}/secondary-scheduler/{name}@sha256:1`" for name in IMAGES
    ]


def test_a_registry_that_refuses_ends_the_push(runner: Runner) -> None:
    runner.stand_in("podman", 'case "$1" in login) exit 125 ;; esac')
    environment = {"REPOSITORY": REPOSITORY, "USERNAME": "robot", "PASSWORD": "x"}
    summary = str(runner.directory / "summary")
    done = runner.run(script("images", "Push"), **environment, GITHUB_STEP_SUMMARY=summary)
    assert done.returncode == 125
    assert not [call for call in runner.calls if "[push]" in call]


def test_what_the_workflow_takes_is_in_the_page() -> None:
    text = (ROOT / ".github/workflows/rebuild.yaml").read_text()
    page = (ROOT / "docs/supply-chain.md").read_text()
    variables = set(re.findall(r"(?:vars|secrets)\.(\w+)", text))
    rows = set(re.findall(r"`([A-Z_]+)`", page.partition("| variable or secret")[2].partition("\n\n")[0]))
    assert variables == rows
