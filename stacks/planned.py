"""What the stack's change of the configuration would do to a recorded cluster, as lines for the preview.

`secondary-scheduler plan` is started as a process: it needs the scheduler's core, and this program has neither that nor
numpy in its environment. Nothing here fails a preview.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pulumi

from scheduler.config import Configuration, redacted, render
from stacks.settings import PlanSettings

_COMMAND = "secondary-scheduler"
_MOST_LINES = 5
_MOST_BYTES = 8192
_LONGEST_LINE = 400
_COMPARED = (0, 3, 4)
"""Exit codes with which it may have a result: no differences, differences, an object of the snapshot is not valid."""
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV")
"""What the process gets to see of the environment: the stack's secrets are in it, too."""


def log_plan(plan: PlanSettings, directory: Path, old: Configuration | None, new: Configuration) -> None:
    """Log the comparison of two configurations, or one line that says why there is none.

    Args:
        plan: the stack's setting.
        directory: what the setting's relative paths are relative to.
        old: the applied configuration; None if there is none, or it cannot be read.
        new: what the stack is about to apply.
    """
    if old is None:
        pulumi.log.info("plan: no applied configuration is known, so there is nothing to compare with")
    elif old.hash != new.hash:
        lines = plan_lines(plan, directory, old, new)
        # The engine takes <{%...%}> for a colour, and a snapshot may hold any text.
        pulumi.log.info("\n".join(["plan:", *(f"  {line}" for line in lines)]).replace("<{%", "<{"))


def plan_lines(plan: PlanSettings, directory: Path, old: Configuration, new: Configuration) -> list[str]:
    """Return what `secondary-scheduler plan --summary` says, or one line that says why it says nothing."""
    name = plan.command or _COMMAND
    command = shutil.which(directory / name if "/" in name else name)
    if command is None:
        return [
            f"{name} is not there to compare placements: install it (pip install 'secondary-scheduler[cli]' into an "
            "environment of its own), or name it in plan.command"
        ]
    kind, name, make = (
        ("snapshot", plan.snapshot, "snapshot")
        if plan.snapshot is not None
        else ("recording", plan.recording or "", "snapshot --record 2h")
    )
    file = directory / name
    if not file.is_file():
        return [f"the {kind} {name} is not there: secondary-scheduler {make} --file {file}"]
    with tempfile.TemporaryDirectory(prefix="plan-") as scratch:
        files = {side: Path(scratch, f"{side}.yaml") for side in ("old", "new")}
        for side, configuration in zip(files.values(), (old, new), strict=True):
            side.write_text(render(redacted(configuration.model.to_dict(), loadable=True)), encoding="utf-8")
        arguments = ["--old", str(files["old"]), "--new", str(files["new"]), f"--{kind}", str(file)]
        over = plan.over or ("recording" if kind == "recording" else "pending")
        return _run([command, "plan", *arguments, "--over", over, "--summary"], Path(scratch), plan.timeout_seconds)


def _run(command: list[str], scratch: Path, seconds: int) -> list[str]:
    out, err = scratch / "out", scratch / "err"
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    try:
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=environment,
                start_new_session=True,
            )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return [f"stopped after {seconds} s without a result; plan.timeoutSeconds allows more"]
        finally:
            _end(process)
    except OSError as error:
        return [f"{command[0]} cannot be started: {error.strerror or error}"]
    lines = _first_lines(out) if code in _COMPARED else []
    return lines or [f"{command[0]} ended with exit code {code}: {(_first_lines(err) or ['no message'])[0]}"]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs, with what it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _first_lines(file: Path) -> list[str]:
    with file.open("rb") as stream:
        text = stream.read(_MOST_BYTES).decode("utf-8", "replace")
    lines = ["".join(char if char.isprintable() else "�" for char in line) for line in text.splitlines()]
    return [line[:_LONGEST_LINE] for line in lines if line.strip()][:_MOST_LINES]
