"""A preview starts `secondary-scheduler plan` on the stack's snapshot, and goes on whatever becomes of that."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.config import Configuration, load_configuration
from stacks import applied
from stacks.applied import log_plan, plan_lines
from stacks.settings import PlanSettings
from tests.support.waiting import eventually

TOKEN = "canary-token-27182818"
KEY = base64.b64encode(b"canary-key-31415926").decode()
ROOT = Path(__file__).resolve().parents[3]


def configuration(target: int) -> Configuration:
    text = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: https://extender.example.com
  filterVerb: filter
  ignorable: true
  managedResources: [{{name: example.com/none}}]
  tlsConfig: {{certData: {KEY}, keyData: {KEY}}}
profiles:
- schedulerName: secondary-scheduler
  plugins: {{score: {{enabled: [{{name: TargetLoadPacking}}]}}}}
  pluginConfig:
  - name: TargetLoadPacking
    args:
      targetUtilization: {target}
      metricProvider: {{type: Prometheus, address: "https://prometheus:9090", token: {TOKEN}}}
"""
    return load_configuration(text, source="test", allow_token_in_config_map=True)


OLD, NEW = configuration(40), configuration(60)


class Logged:
    def __init__(self) -> None:
        self.messages: list[str] = []


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Logged:
    log = Logged()
    monkeypatch.setattr(applied.pulumi.log, "info", log.messages.append)
    return log


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "cluster.json").write_text("{}")
    return tmp_path


def settings(directory: Path, script: str, **more: object) -> PlanSettings:
    """The setting with a fake command: a Python script beside the snapshot."""
    command = directory / "fake"
    command.write_text(f"#!{sys.executable}\n{script}\n")
    command.chmod(0o755)
    source = {} if "recording" in more else {"snapshot": "cluster.json"}
    return PlanSettings.model_validate({**source, "command": "./fake", **more})


SHOW_FILES = "import sys; print(open(sys.argv[3]).read(), open(sys.argv[5]).read(), file=open('seen', 'w')); print('x')"


def test_the_command_is_asked_for_a_summary_of_both_configurations(directory: Path) -> None:
    plan = settings(directory, "import sys; print(*sys.argv[1:])", over="all")
    (line,) = plan_lines(plan, directory, OLD, NEW)
    words = line.split()
    assert words[0::2] == ["plan", *words[2::2]]
    options = dict(zip(words[1::2], words[2::2], strict=False))
    assert options["--snapshot"] == str(directory / "cluster.json")
    assert options["--over"] == "all"
    assert words[-1] == "--summary"
    assert not Path(options["--old"]).exists()


def test_both_configurations_are_handed_over_without_credentials(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    assert plan_lines(settings(directory, SHOW_FILES), directory, OLD, NEW) == ["x"]
    seen = (directory / "seen").read_text()
    assert "targetUtilization: 40" in seen
    assert "targetUtilization: 60" in seen
    assert TOKEN not in seen
    assert f"keyData: {KEY}" not in seen


def test_the_command_does_not_see_the_secrets_of_the_environment(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_CONFIG", TOKEN)
    monkeypatch.setenv("KUBECONFIG", TOKEN)
    plan = settings(directory, "import os; print(sorted(os.environ))")
    (line,) = plan_lines(plan, directory, OLD, NEW)
    assert "PATH" in line
    assert "PULUMI_CONFIG" not in line
    assert "KUBECONFIG" not in line


@pytest.mark.parametrize("code", [0, 3, 4])
def test_what_it_prints_is_logged_whether_or_not_there_are_differences(
    directory: Path, logged: Logged, code: int
) -> None:
    plan = settings(directory, f"import sys; print('one'); print('two'); sys.exit({code})")
    log_plan(plan, directory, OLD, NEW)
    assert logged.messages == ["plan:\n  one\n  two"]


@pytest.mark.parametrize("code", [1, 2, 4])
def test_a_failure_is_one_line_with_its_first_message(directory: Path, code: int) -> None:
    script = f"import sys; print('this is why', file=sys.stderr); print('more', file=sys.stderr); sys.exit({code})"
    (line,) = plan_lines(settings(directory, script), directory, OLD, NEW)
    assert line.endswith(f"ended with exit code {code}: this is why")


def test_no_more_than_five_lines_of_text_reach_the_log(directory: Path, logged: Logged) -> None:
    script = "for _ in range(10000): print('\\x1b[31m<{%reset%}>' + 'x' * 1000)"
    log_plan(settings(directory, script), directory, OLD, NEW)
    (message,) = logged.messages
    lines = message.splitlines()
    assert len(lines) == 6
    assert all(len(line) < 450 for line in lines)
    assert "\x1b" not in message
    assert "<{%" not in message


def test_a_command_that_hangs_is_stopped_with_what_it_started(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = directory / "child"

    class OnceStarted(subprocess.Popen[bytes]):
        """The time limit ends when the command has started something, however long that takes here."""

        def wait(self, timeout: float | None = None) -> int:
            if timeout is not None:
                eventually(lambda: started.exists() and started.read_text(), "the command starts a child")
                timeout = 0
            return super().wait(timeout)

    monkeypatch.setattr(applied.subprocess, "Popen", OnceStarted)
    script = (
        "import os, subprocess, sys, threading\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import threading; threading.Event().wait()'])\n"
        f"open({str(started)!r}, 'w').write(str(child.pid))\n"
        "threading.Event().wait()"
    )
    (line,) = plan_lines(settings(directory, script, timeoutSeconds=7), directory, OLD, NEW)
    assert line == "stopped after 7 s without a result; plan.timeoutSeconds allows more"
    state = Path("/proc", started.read_text(), "stat")

    def runs_no_more() -> bool:
        # It may wait for whoever reaps orphans here.
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX"

    eventually(runs_no_more, "what the command started has ended")


def test_a_missing_command_or_snapshot_is_one_line(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(directory))
    (line,) = plan_lines(PlanSettings(snapshot="cluster.json"), directory, OLD, NEW)
    assert line.startswith("secondary-scheduler is not there to compare placements: install it")
    plan = settings(directory, "", snapshot="absent.json")
    (line,) = plan_lines(plan, directory, OLD, NEW)
    assert line.startswith("the snapshot absent.json is not there: secondary-scheduler snapshot --file ")


def test_a_command_that_cannot_be_started_is_one_line(directory: Path) -> None:
    plan = settings(directory, "")
    (directory / "fake").write_text("#!/absent/interpreter\n")
    (line,) = plan_lines(plan, directory, OLD, NEW)
    assert line == f"{directory / './fake'} cannot be started: No such file or directory"


def test_nothing_is_started_where_nothing_changes_or_nothing_is_applied(directory: Path, logged: Logged) -> None:
    plan = settings(directory, f"open({str(directory / 'started')!r}, 'w')")
    log_plan(plan, directory, OLD, OLD)
    assert logged.messages == []
    log_plan(plan, directory, None, NEW)
    assert logged.messages == ["plan: no applied configuration is known, so there is nothing to compare with"]
    assert not (directory / "started").exists()


def test_the_real_command_reads_what_is_handed_over(directory: Path) -> None:
    (directory / "cluster.json").write_text(
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulerName": '
        '"secondary-scheduler", "containers": [{"name": "c", "image": "i"}]}}'
    )
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "sys.argv[0] = 'secondary-scheduler'\n"
        "from secondary_scheduler.cli.app import main; main()"
    )
    lines = plan_lines(settings(directory, script, timeoutSeconds=300), directory, OLD, NEW)
    assert lines == ["1 pending pods: no placement differs (1 unschedulable with both)"]


@pytest.mark.parametrize("more", [{}, {"over": "recording"}])
def test_a_recording_is_replayed(directory: Path, more: dict[str, object]) -> None:
    (directory / "cluster.recording").write_text("{}")
    plan = settings(directory, "import sys; print(*sys.argv[1:])", recording="cluster.recording", **more)
    (line,) = plan_lines(plan, directory, OLD, NEW)
    assert f"--recording {directory / 'cluster.recording'} --over recording --summary" in line
    assert "--snapshot" not in line


def test_a_recording_that_is_not_there_is_said_with_the_command_that_makes_one(directory: Path) -> None:
    (line,) = plan_lines(settings(directory, "", recording="absent.recording"), directory, OLD, NEW)
    assert line.startswith("the recording absent.recording is not there: secondary-scheduler snapshot --record")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "needs a snapshot or a recording"),
        ({"snapshot": "a", "recording": "b"}, "exclude each other"),
        ({"snapshot": "a", "over": "recording"}, "over: recording is of a recording"),
        ({"recording": "a", "over": "all"}, "over: all is of a snapshot"),
    ],
)
def test_a_setting_that_names_no_source_or_two_is_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PlanSettings.model_validate(values)
