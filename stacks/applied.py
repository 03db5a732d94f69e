"""How the stack changes the previously applied scheduler configuration, as lines for the preview.

The engine's function `readStackResourceOutputs` reads the stack's own state. A StackReference would be stored in that
state, and an output would itself show up as a change. The cluster is not contacted.

What the stack's change of the configuration would do to a recorded cluster, as lines for the preview.

`secondary-scheduler plan` is started as a process: it needs the scheduler's core, and this program has neither that nor
numpy in its environment. Nothing here fails a preview.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi

from scheduler.config import (
    CUSTOM,
    OURS,
    Configuration,
    ConfigurationError,
    differences,
    flavour_of,
    load_configuration,
    redacted,
    render,
)
from stacks.settings import PlanSettings

_READ_STATE = "pulumi:pulumi:readStackResourceOutputs"
_CONFIGURATION_KEY = "config.yaml"
_KIND = "kind: KubeSchedulerConfiguration"


@dataclass(frozen=True)
class Applied:
    """The configuration that a stack applied last.

    Attributes:
        in_state: whether the stack's state holds one.
        configuration: as loaded; None if there is none, or it cannot be read.
    """

    in_state: bool = False
    configuration: Configuration | None = None


def applied(state: Mapping[str, Any], new: Configuration) -> Applied:
    """Return what a stack's state holds.

    Args:
        state: outputs of every resource, by URN, as the engine hands them over.
        new: what the stack is about to apply, whose image is tried, too.
    """
    text = next(iter(_configurations(state)), None)
    return Applied() if text is None else Applied(True, _load(text, _images(state), new))


def log_changes(old: Applied, new: Configuration) -> None:
    """Log what changes in the scheduler's profiles; log nothing if there is no change or no previous configuration."""
    lines = changes(old, new)
    if lines:
        pulumi.log.info("\n".join(["the scheduler's behaviour changes:", *(f"  {line}" for line in lines)]))


def changes(old: Applied, new: Configuration) -> list[str]:
    """Return one line per change; empty if nothing changes."""
    if not old.in_state:
        return []
    if old.configuration is None:
        return ["the previously applied configuration cannot be read"]
    return [] if old.configuration.hash == new.hash else differences(old.configuration, new)


def own_state() -> Mapping[str, Any]:
    """Return the outputs of every resource in the running stack's state, by URN; empty if it cannot be read."""
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    try:
        answer: Any = pulumi.runtime.invoke(_READ_STATE, {"stackName": name}).value
    except Exception as error:  # the comparisons only protect and help: an update must not fail for lack of them
        pulumi.log.warn(f"the stack's own state cannot be read, so nothing says what this update removes: {error}")
        return {}
    outputs = answer.get("outputs") if isinstance(answer, Mapping) else None
    return outputs if isinstance(outputs, Mapping) else {}


def _outputs(state: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    for resource in state.values():
        if isinstance(resource, Mapping) and str(resource.get("type", "")).endswith(f":{kind}"):
            outputs = resource.get("outputs")
            if isinstance(outputs, Mapping):
                yield outputs


def _configurations(state: Mapping[str, Any]) -> list[str]:
    """The configurations in the state, the one in use first: after a failed update there are two."""
    used = set(_config_maps_in_use(state))
    ranked = []
    for outputs in _outputs(state, "ConfigMap"):
        text = (outputs.get("data") or {}).get(_CONFIGURATION_KEY)
        if isinstance(text, str) and _KIND in text:
            ranked.append(((outputs.get("metadata") or {}).get("name") not in used, text))
    return [text for _, text in sorted(ranked)]


def _config_maps_in_use(state: Mapping[str, Any]) -> Iterator[str]:
    """Names of the ConfigMaps that a SecondaryScheduler, or a Deployment of the stack, refers to."""
    for outputs in _outputs(state, "SecondaryScheduler"):
        yield str((outputs.get("spec") or {}).get("schedulerConfig", ""))
    for outputs in _outputs(state, "Deployment"):
        pod = ((outputs.get("spec") or {}).get("template") or {}).get("spec") or {}
        yield from (str((volume.get("configMap") or {}).get("name", "")) for volume in pod.get("volumes") or ())


def _images(state: Mapping[str, Any]) -> Iterator[str]:
    """The scheduler images in the state: of a SecondaryScheduler, or of a Deployment of the stack."""
    for outputs in _outputs(state, "SecondaryScheduler"):
        yield str((outputs.get("spec") or {}).get("schedulerImage", ""))
    for outputs in _outputs(state, "Deployment"):
        pod = ((outputs.get("spec") or {}).get("template") or {}).get("spec") or {}
        yield from (str(container.get("image", "")) for container in pod.get("containers") or ())


def _load(text: str, images: Iterator[str], new: Configuration) -> Configuration | None:
    """Load a configuration that was accepted before, perhaps for another image than the new one."""
    for flavour in (*(flavour_of(image) for image in images), new.flavour, OURS, CUSTOM):
        try:
            return load_configuration(
                text,
                source="the previously applied configuration",
                flavour=flavour,
                allow_token_in_config_map=True,
                allow_default_scheduler_name=True,
                external_load=True,
            )
        except ConfigurationError:
            continue
    return None


_COMMAND = "secondary-scheduler"
_MAX_LINES = 5
_MAX_BYTES = 8192
_MAX_LINE_LENGTH = 400
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
        text = stream.read(_MAX_BYTES).decode("utf-8", "replace")
    lines = ["".join(char if char.isprintable() else "�" for char in line) for line in text.splitlines()]
    return [line[:_MAX_LINE_LENGTH] for line in lines if line.strip()][:_MAX_LINES]
