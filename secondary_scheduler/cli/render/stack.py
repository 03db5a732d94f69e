"""A stack's configuration as the engine would hand it over, read without one."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.files import read_text

ENCRYPTED = "encrypted"
"""What stands in for a value that only the engine can decrypt."""


@dataclass(frozen=True)
class StackValues:
    """Attributes:
    root: the project's directory.
    project, stack: their names.
    values: full keys, as `secondary-scheduler:logLevel`; structured values as JSON.
    secrets: keys whose values the stack keeps encrypted.
    virtualenv: the environment that Pulumi.yaml names, relative to the root.
    """

    root: Path
    project: str
    stack: str
    values: Mapping[str, str]
    secrets: frozenset[str]
    virtualenv: str | None

    @property
    def python(self) -> Path | None:
        """The interpreter of the project's environment, where it was made."""
        file = self.root / self.virtualenv / "bin" / "python" if self.virtualenv else None
        return file if file is not None and file.exists() else None


def read_stack(directory: Path, stack: str, *, decrypt: bool) -> StackValues:
    """Read Pulumi.yaml of this directory, or of the nearest above it, and the stack's file.

    Args:
        directory: where to begin.
        stack: the stack's name; its file need not be known to a backend.
        decrypt: have `pulumi config` decrypt the secrets; otherwise `ENCRYPTED` stands for them.

    Raises:
        CommandError: a file is missing or cannot be read.
    """
    root = _project_directory(directory)
    project = _load(root / "Pulumi.yaml")
    name = str(project.get("name") or "")
    file = root / str(project.get("stackConfigDir") or ".") / f"Pulumi.{stack}.yaml"
    if not file.is_file():
        others = sorted(other.name for other in file.parent.glob("Pulumi.*.yaml"))
        names = ", ".join(name.removeprefix("Pulumi.").removesuffix(".yaml") for name in others) or "none"
        raise CommandError(f"--stack {stack}: there is no {file}; stacks there: {names}", ExitCode.USAGE)
    values, secrets = _defaults(project, name), set()
    for key, value in (_load(file).get("config") or {}).items():
        full = str(key)
        if '"secure"' in json.dumps(value, default=str):
            secrets.add(full)
        values[full] = ENCRYPTED if isinstance(value, Mapping) and set(value) == {"secure"} else _text(value)
    if decrypt and secrets:
        values |= _decrypted(root, stack, secrets)
    runtime = project.get("runtime")
    options = runtime.get("options") if isinstance(runtime, Mapping) else None
    virtualenv = options.get("virtualenv") if isinstance(options, Mapping) else None
    return StackValues(root, name, stack, values, frozenset(secrets), virtualenv)


def _project_directory(directory: Path) -> Path:
    start = directory.resolve()
    for candidate in (start, *start.parents):
        if (candidate / "Pulumi.yaml").is_file():
            return candidate
    raise CommandError(f"no Pulumi.yaml in {start} or above it; name the project: --project DIR", ExitCode.USAGE)


def _load(file: Path) -> Mapping[str, Any]:
    try:
        document = YAML(typ="safe", pure=True).load(read_text(file))
    except YAMLError as error:
        reason = " ".join(str(getattr(error, "problem", None) or error).split())
        raise CommandError(f"{file}: not valid YAML: {reason}", ExitCode.INVALID_INPUT) from error
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise CommandError(f"{file}: must be a mapping", ExitCode.INVALID_INPUT)
    return document


def _defaults(project: Mapping[str, Any], name: str) -> dict[str, str]:
    declared = project.get("config") or {}
    return {
        str(key) if ":" in str(key) else f"{name}:{key}": _text(entry["default"])
        for key, entry in declared.items()
        if isinstance(entry, Mapping) and "default" in entry
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _decrypted(root: Path, stack: str, secrets: set[str]) -> dict[str, str]:
    pulumi = shutil.which("pulumi")
    if pulumi is None:
        raise CommandError(f"--show-secrets: only the Pulumi CLI can decrypt {', '.join(sorted(secrets))}; install it")
    command = [pulumi, "config", "--stack", stack, "--show-secrets", "--json", "--non-interactive"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise CommandError(f"--show-secrets: `pulumi config --stack {stack}` failed: {reason}")
    entries: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return {key: str(entries[key]["value"]) for key in secrets if "value" in entries.get(key, {})}
