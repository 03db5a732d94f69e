"""The shell commands of the CI examples, as they stand there, with the real engine and without any network.

Left out: the steps that install (they need a package registry) and the actions of others. `gh` and `curl`, which would
bring the comment to the forge, are fakes that keep what they are given.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.fleet import CHECKOUT, Fleet, dead_kubeconfig

pytestmark = [pytest.mark.e2e]

EXAMPLES = CHECKOUT / "examples" / "ci"
INSTALLING = ("pip install", "pulumi install", "GITHUB_PATH")
PROGRAM = """
import pulumi
if pulumi.Config().get("fail"):
    raise pulumi.RunError("it is broken")
pulumi.export("a", "b")
"""
# Keeps its arguments and the file that it would send; answers a GET with the notes of the merge request.
FAKE = """#!/bin/bash
printf '%s\\n' "$@" >> "$RECORD/arguments"
cp comment.md "$RECORD/comment.md"
case "$*" in *per_page*) echo "$NOTES";; esac
"""


def github(job: str) -> list[tuple[str, str]]:
    """Name and script of each step of a job that runs commands."""
    steps = yaml.safe_load((EXAMPLES / "github-actions.yaml").read_text())["jobs"][job]["steps"]
    return [(step["name"], step["run"]) for step in steps if "run" in step]


def gitlab(job: str) -> list[str]:
    """The script of a job."""
    script: list[str] = yaml.safe_load((EXAMPLES / "gitlab-ci.yaml").read_text())[job]["script"]
    return script


class Runner:
    """Runs scripts as a CI runner does, with fakes of what speaks to the forge."""

    def __init__(self, fleet: Fleet, directory: Path, options: str) -> None:
        self.fleet = fleet
        self.record = directory / "record"
        self.record.mkdir()
        fakes = directory / "fakes"
        fakes.mkdir()
        for name in ("gh", "curl"):
            (fakes / name).write_text(FAKE)
            (fakes / name).chmod((fakes / name).stat().st_mode | stat.S_IXUSR)
        self.environment = fleet.environment | {
            "PATH": f"{fakes}{os.pathsep}{fleet.environment['PATH']}",
            "RECORD": str(self.record),
            "STACKS": "prod-*",
            "FLEET_OPTIONS": options,
            "NOTES": "[]",
            "GITHUB_OUTPUT": str(self.record / "output"),
            "GITHUB_STEP_SUMMARY": str(self.record / "summary"),
            "PULL_REQUEST": "7",
            "CI_API_V4_URL": "https://gitlab.invalid/api/v4",
            "CI_PROJECT_ID": "1",
            "CI_MERGE_REQUEST_IID": "7",
            "FLEET_TOKEN": "glpat-canary",
        }

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.fleet.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def kept(self, name: str) -> str:
        return (self.record / name).read_text()


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    fleet = Fleet.of_program(tmp_path, PROGRAM)
    fleet.add("prod-a", {"fleet:wave": "canary"})
    fleet.add("prod-b")
    return Runner(fleet, tmp_path, "--no-gate --cluster-timeout 0")


@pytest.fixture
def project(tmp_path: Path) -> Runner:
    """This project, with a stack of the settings that are made for OpenShift, whose cluster nobody can reach."""
    fleet = Fleet.of_this_project(tmp_path)
    settings: dict[str, Any] = yaml.safe_load((CHECKOUT / "stacks" / "Pulumi.openshift-prod.yaml").read_text())
    fleet.environment["KUBECONFIG"] = str(dead_kubeconfig(tmp_path / "dead"))
    fleet.add("prod-eu", settings["config"])
    return Runner(fleet, tmp_path, "--offline")


def test_both_examples_use_the_same_commands() -> None:
    for job, command in (("preview", "fleet preview"), ("deploy", "fleet up")):
        in_github = [line for _, script in github(job) for line in script.splitlines() if command in line]
        in_gitlab = [line for script in gitlab(job) for line in script.splitlines() if command in line]
        assert len(in_github) == len(in_gitlab) == 1
        assert in_github[0].split(" ||")[0] == in_gitlab[0].split(" ||")[0]


@pytest.mark.slow
def test_github_previews_this_project_and_comments(project: Runner) -> None:
    ran = []
    for name, script in github("preview"):
        if name == "Install":
            assert all(any(word in line for word in INSTALLING) for line in script.splitlines())
            continue
        done = project.run(script)
        assert done.returncode == 0, done.stdout + done.stderr
        ran.append(name)
    assert ran == ["Check the settings", "Preview", "Comment"]
    assert project.kept("output") == "changes=true\n"
    assert project.kept("arguments").split() == (
        ["pr", "comment", "7", "--edit-last", "--create-if-none", "--body-file", "comment.md"]
    )
    assert "| prod-eu | rest | openshift-prod | ✏️ changes |" in project.kept("comment.md")


def test_github_fails_where_a_stack_does_and_the_comment_says_why(runner: Runner) -> None:
    runner.fleet.set("prod-b", "fail", "yes")
    runner.environment["FLEET_OPTIONS"] = "--offline"
    steps = dict(github("preview"))
    assert runner.run(steps["Preview"]).returncode == 1
    assert runner.run(steps["Comment"]).returncode == 0
    assert "it is broken" in runner.kept("comment.md")


@pytest.mark.slow
def test_github_updates_in_waves_and_keeps_a_summary(runner: Runner) -> None:
    done = runner.run(dict(github("deploy"))["Update in waves"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "### Fleet up: 2 stacks: 2 done" in runner.kept("summary")


def test_gitlab_previews_and_makes_one_note_which_later_runs_replace(runner: Runner) -> None:
    runner.environment["FLEET_OPTIONS"] = "--offline"
    # Settings that only this project knows are checked with this project, above.
    script = "\n".join(line for line in gitlab("preview") if "validate" not in line)
    first = runner.run(script)
    assert first.returncode == 0, first.stdout + first.stderr
    notes = "https://gitlab.invalid/api/v4/projects/1/merge_requests/7/notes"
    assert runner.kept("arguments").split()[-5:] == ["--request", "POST", "--form", "body=<comment.md", notes]
    runner.environment["NOTES"] = json.dumps(
        [{"id": 1, "body": "hello"}, {"id": 42, "body": runner.kept("comment.md")}]
    )
    second = runner.run(script)
    assert second.returncode == 0, second.stdout + second.stderr
    assert runner.kept("arguments").split()[-5:] == ["--request", "PUT", "--form", "body=<comment.md", f"{notes}/42"]
    assert "glpat-canary" not in first.stdout + second.stdout


@pytest.mark.slow
def test_gitlab_updates_in_waves(runner: Runner) -> None:
    done = runner.run("\n".join(gitlab("deploy")))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Fleet up: 2 stacks: 2 done" in done.stdout
