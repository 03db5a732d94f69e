"""The pre-commit hook, the GitHub actions and the GitLab template: their shell, run as the services run it.

Programs that ask a service or an engine are stand-ins which record how they were called; `validate` is the real one.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
CONFIGURATION = (ROOT / "examples/configurations/load-aware.yaml").read_text()
RECORDING = """#!/bin/sh
printf '%s' "$(basename "$0")" >> "{log}"
for word in "$@"; do printf ' [%s]' "$word" >> "{log}"; done
echo >> "{log}"
{rest}
"""
PREVIEWED = 'for word in "$@"; do last="$word"; done; echo "<!-- marker -->" > "$last"; exit {code}'


class Runner:
    """A job's directory, PATH and environment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.work = directory / "work"
        self.log = directory / "log"
        self.bin = directory / "bin"
        for path in (self.work, self.bin):
            path.mkdir()
        self.log.touch()
        (self.directory / "output").touch()
        program = self.bin / "secondary-scheduler"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m secondary_scheduler.cli "$@"\n')
        program.chmod(0o755)
        (self.bin / "python").symlink_to(sys.executable)

    def stand_in(self, name: str, rest: str = "") -> None:
        program = self.bin / name
        program.unlink(missing_ok=True)
        program.write_text(RECORDING.format(log=self.log, rest=rest))
        program.chmod(0o755)

    def run(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "HOME": str(self.directory),
            "RUNNER_TEMP": str(self.directory),
            "GITHUB_OUTPUT": str(self.directory / "output"),
            "GITHUB_PATH": str(self.directory / "path"),
        }
        # Both services run bash so that a command that fails ends the script.
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script],
            cwd=self.work,
            env={**variables, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def action(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / f".github/actions/{name}/action.yaml").read_text())
    return document


def step(name: str, title: str) -> dict[str, Any]:
    (chosen,) = [each for each in action(name)["runs"]["steps"] if each.get("name") == title]
    assert chosen["shell"] == "bash"
    return chosen


def gitlab(job: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "deploy/ci/gitlab.yaml").read_text())
    return document[job]


def test_the_action_validates_and_marks_the_place(runner: Runner) -> None:
    (runner.work / "good.yaml").write_text(CONFIGURATION)
    script = step("validate", "Validate")["run"]
    annotate = str(ROOT / ".github/actions/validate/annotate.py")
    done = runner.run(script, FILES="*.yaml", IMAGE="", ANNOTATE=annotate)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    (runner.work / "bad.yaml").write_text(CONFIGURATION.replace("targetUtilization", "targetUtilisation"))
    done = runner.run(script, FILES="*.yaml", IMAGE="", ANNOTATE=annotate)
    assert done.returncode == 4
    (line,) = done.stdout.splitlines()
    number = CONFIGURATION[: CONFIGURATION.index("targetUtilization")].count("\n") + 1
    assert re.match(rf"::error file=bad\.yaml,line={number},col=\d+::profiles\[0\]\.\S+: unknown field", line)
    assert 'did you mean "targetUtilization"?' in line


def test_an_image_of_the_action_decides_what_is_valid(runner: Runner) -> None:
    ours = "      - name: SecondarySchedulerOptions\n        args: {load: {window: 5m}}\n"
    (runner.work / "a.yaml").write_text(CONFIGURATION + ours)
    done = runner.run(
        step("validate", "Validate")["run"],
        FILES="a.yaml",
        IMAGE="registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7",
        ANNOTATE=str(ROOT / ".github/actions/validate/annotate.py"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("::warning file=a.yaml,line=")
    assert "only this project's own scheduler has SecondarySchedulerOptions" in done.stdout


@pytest.mark.parametrize(("code", "ended", "changes"), [(0, 0, "false"), (3, 0, "true"), (1, 1, "false")])
def test_the_action_previews_every_stack_and_says_whether_there_are_changes(
    runner: Runner, code: int, ended: int, changes: str
) -> None:
    runner.stand_in("secondary-scheduler", PREVIEWED.format(code=code))
    (runner.work / "prod-file").touch()
    comment = str(runner.directory / "comment.md")
    environment = {"STACKS": "prod-* canary", "OPTIONS": "--offline --parallel 2", "COMMENT": comment}
    done = runner.run(step("preview", "Preview")["run"], **environment)
    assert done.returncode == ended, done.stderr
    assert runner.calls == [
        "secondary-scheduler [fleet] [preview] [--stacks] [prod-*] [--stacks] [canary] [--offline] [--parallel] [2] "
        f"[--markdown] [{comment}]"
    ]
    assert (runner.directory / "output").read_text() == f"changes={changes}\n"
    runner.stand_in("gh")
    done = runner.run(step("preview", "Comment")["run"], COMMENT=comment, PULL_REQUEST="7", GH_TOKEN="t")
    assert done.returncode == 0, done.stderr
    assert runner.calls[1:] == [f"gh [pr] [comment] [7] [--edit-last] [--create-if-none] [--body-file] [{comment}]"]


def test_without_a_result_there_is_no_comment(runner: Runner) -> None:
    runner.stand_in("gh")
    comment = str(runner.directory / "absent.md")
    assert runner.run(step("preview", "Comment")["run"], COMMENT=comment, PULL_REQUEST="7").returncode == 0
    assert runner.calls == []


def test_the_command_line_is_installed_from_the_action_s_own_repository(runner: Runner) -> None:
    (runner.bin / "python").unlink()
    install = (
        'mkdir -p "$3/bin"; printf "#!/bin/sh\\necho pip \\"\\$@\\" >> {log}\\n" > "$3/bin/pip"; chmod +x "$3/bin/pip"'
    )
    runner.stand_in("python", install.format(log=runner.log))
    done = runner.run(step("validate", "Install")["run"], SOURCE="/action/../../..")
    assert done.returncode == 0, done.stderr
    assert runner.calls[-1] == "pip install --quiet /action/../../..[cli]"
    assert (runner.directory / "path").read_text() == f"{runner.directory}/secondary-scheduler/bin\n"


@pytest.mark.parametrize("chosen", ["", "secondary-scheduler[cli]==0.2.0"])
def test_the_gitlab_job_installs_the_copy_or_what_another_project_names(runner: Runner, chosen: str) -> None:
    job = gitlab(".secondary-scheduler-validate")
    runner.stand_in("python3", MAKE_ENVIRONMENT)
    package = chosen or job["variables"]["PACKAGE"]
    done = runner.run("\n".join(job["before_script"]), PACKAGE=package)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"pip [install] [--quiet] [{chosen or '.[cli]'}]\n"


def test_the_gitlab_job_validates(runner: Runner) -> None:
    job = gitlab(".secondary-scheduler-validate")
    (runner.work / "a.yaml").write_text(CONFIGURATION)
    script = "\n".join(job["script"])
    assert runner.run(script, FILES="*.yaml", IMAGE="").returncode == 0
    (runner.work / "b.yaml").write_text("kind: x\n")
    done = runner.run(script, FILES="*.yaml", IMAGE="")
    assert done.returncode == 4
    assert "b.yaml" in done.stderr


@pytest.mark.parametrize(("code", "ended"), [(0, 0), (3, 0), (1, 1)])
@pytest.mark.parametrize(
    ("existing", "request_"),
    [("[]", "[--request] [POST]"), ('[{"id": 5, "body": "<!-- marker --> old"}]', "[--request] [PUT]")],
)
def test_the_gitlab_job_previews_and_replaces_its_comment(
    runner: Runner, code: int, ended: int, existing: str, request_: str
) -> None:
    runner.stand_in("secondary-scheduler", PREVIEWED.format(code=code))
    runner.stand_in("curl", f"case \"$*\" in *per_page*) echo '{existing}' ;; esac")
    (runner.bin / "python3").symlink_to(sys.executable)
    environment = {
        "STACKS": "prod-*",
        "OPTIONS": "--offline",
        "FLEET_TOKEN": "t",
        "CI_API_V4_URL": "https://gitlab/api",
    }
    environment |= {"CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "2"}
    done = runner.run("\n".join(gitlab(".secondary-scheduler-preview")["script"]), **environment)
    assert done.returncode == ended, done.stderr
    assert runner.calls[0].startswith("secondary-scheduler [fleet] [preview] [--stacks] [prod-*] [--offline]")
    assert request_ in runner.calls[-1]


def test_the_hook_takes_stack_files_and_runs_a_command_that_there_is(runner: Runner) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["additional_dependencies"] == [".[cli]"]
    for name in (
        "stacks/Pulumi.prod.yaml",
        "Pulumi.a.yml",
        "kube-scheduler-config.yaml",
        "x/kubeschedulerconfig-a.yaml",
    ):
        assert re.search(hook["files"], name), name
    for name in ("Pulumi.yaml", "deployment.yaml", "config.yaml.bak"):
        assert not re.search(hook["files"], name), name
    (runner.work / "good.yaml").write_text(CONFIGURATION)
    assert runner.run(shlex.join([*hook["entry"].split(), "good.yaml"])).returncode == 0
    (runner.work / "bad.yaml").write_text("kind: x\n")
    assert runner.run(shlex.join([*hook["entry"].split(), "good.yaml", "bad.yaml"])).returncode == 4


SETUP = ROOT / ".github/actions/setup-secondary-scheduler/action.yml"
# `python -m venv DIR`: an environment whose pip records what it is to install.
MAKE_ENVIRONMENT = """
mkdir -p "$3/bin"
printf '#!/bin/sh\\nprintf "pip"; for word in "$@"; do printf " [%%s]" "$word"; done; echo\\n' > "$3/bin/pip"
printf '#!/bin/sh\\necho "Client Version: 9.9.9"\\n' > "$3/bin/secondary-scheduler"
chmod +x "$3/bin/pip" "$3/bin/secondary-scheduler"
"""


def installs(runner: Runner, **variables: str) -> subprocess.CompletedProcess[str]:
    runner.stand_in("python", MAKE_ENVIRONMENT)
    (step,) = (step for step in yaml.safe_load(SETUP.read_text())["runs"]["steps"] if step.get("name") == "Install")
    return runner.run(step["run"], **{"WHEEL": "", "SHA256": "", "SOURCE": str(ROOT), **variables})


def test_setup_installs_a_wheel_whose_sum_is_right_and_puts_it_on_path(runner: Runner) -> None:
    wheel = runner.work / "secondary_scheduler-9.9.9-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    done = installs(runner, WHEEL=str(wheel), SHA256=hashlib.sha256(b"wheel").hexdigest())
    assert done.returncode == 0, done.stderr
    assert f"[{wheel}[cli]]" in done.stdout
    assert (runner.directory / "path").read_text() == f"{runner.directory}/secondary-scheduler/bin\n"
    assert (runner.directory / "output").read_text() == "version=9.9.9\n"


def test_setup_without_a_wheel_installs_the_actions_own_checkout(runner: Runner) -> None:
    done = installs(runner)
    assert done.returncode == 0, done.stderr
    assert f"[{ROOT}[cli]]" in done.stdout


def test_setup_refuses_a_wheel_with_another_sum_and_a_url_without_one(runner: Runner) -> None:
    wheel = runner.work / "wheel.whl"
    wheel.write_bytes(b"tampered")
    done = installs(runner, WHEEL=str(wheel), SHA256=hashlib.sha256(b"wheel").hexdigest())
    assert (done.returncode, done.stdout) == (1, "")
    assert "compare it with SHA256SUMS" in done.stderr
    done = installs(runner, WHEEL="https://registry.example.com/wheel.whl")
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs its sha256" in done.stderr


def test_setup_takes_a_wheel_from_a_url_of_https_only(runner: Runner) -> None:
    done = installs(runner, WHEEL="http://registry.example.com/wheel.whl", SHA256="0" * 64)
    assert (done.returncode, done.stdout) == (2, "")
    assert "must begin with https://" in done.stderr


def test_setup_names_a_fetched_wheel_by_its_file_without_the_urls_query(runner: Runner) -> None:
    runner.stand_in("curl", 'while [ "$1" != --output ]; do shift; done; printf wheel > "$2"')
    name = "secondary_scheduler-9.9.9-py3-none-any.whl"
    url = f"https://registry.example.com/{name}?token=a/b#c"
    done = installs(runner, WHEEL=url, SHA256=hashlib.sha256(b"wheel").hexdigest())
    assert done.returncode == 0, done.stderr
    assert f"[{runner.directory}/{name}[cli]]" in done.stdout


def test_the_dev_container_owns_its_volume_before_it_builds_into_it() -> None:
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    (mount,) = container["mounts"]
    volume = dict(part.split("=") for part in mount.split(","))
    # Docker makes the volume and the directories above it, and root owns them.
    owned, _, rest = container["postCreateCommand"].partition(" && ")
    assert owned.startswith("sudo chown -R vscode: ")
    assert Path(volume["target"]).is_relative_to(owned.split()[-1])
    assert rest == "make setup"
