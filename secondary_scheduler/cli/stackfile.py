"""Checking a stack file without an engine: with the models of the project that the file belongs to.

The models of stack settings, loaded at run time from the project that a stack file belongs to.

Only this module knows the package `stacks`: it is part of the Pulumi program, not of this distribution, and the project
decides which settings a stack may have. A static import would tie the command line to one checkout.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from scheduler.config import Configuration, ConfigurationError, Problem
from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.files import read_text

PROJECT = "secondary-scheduler"
"""The name in the project's Pulumi.yaml, and the prefix of its keys in a stack file."""


class StackModels(NamedTuple):
    """What a project knows about its stack files.

    Attributes:
        directory: what the settings' relative paths are relative to.
        check: `stacks.checking.check`; it raises ConfigurationError.
        locate: `stacks.problems.locate`: problems with the lines of a stack file.
        opt_in: `stacks.checking.opt_in_of`: what opts pods in; None in a project of an earlier version.
    """

    directory: Path
    check: Callable[..., tuple[Any, Any, Any]]
    locate: Callable[..., Any]
    opt_in: Callable[..., Any] | None = None


def load_stack_models(file: Path, sibling: Path | None = None) -> StackModels:
    """Import the models of the project that a stack file belongs to: the one whose Pulumi.yaml stands above the file.

    A copy of a stack file, such as a former one from git, may lie anywhere: it belongs to the project of the working
    directory, or to that of another file.

    Args:
        file: the stack file.
        sibling: another file of the same project; None where there is none.

    Raises:
        CommandError: there is no such project, or it cannot be imported.
    """
    above = file.resolve().parents
    places = [*above, Path.cwd(), *Path.cwd().parents, *(sibling.resolve().parents if sibling is not None else ())]
    directory = next((place for place in places if (place / "Pulumi.yaml").is_file()), None)
    if directory is None:
        raise CommandError(
            f"{file}: a stack file is checked with its project, but neither above it nor above the working directory "
            "is a Pulumi.yaml; go to a clone of the project",
            ExitCode.INVALID_INPUT,
        )
    project = _project(file, directory)
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    try:
        checking = importlib.import_module("stacks.checking")
        problems = importlib.import_module("stacks.problems")
    except ImportError as error:
        raise CommandError(
            f"{file}: the stack settings of the project in {directory} cannot be loaded: {error}"
        ) from error
    own = directory in above and is_named_as_stack(file)
    settings = file.resolve().parent if own else directory / str(project.get("stackConfigDir") or "")
    return StackModels(settings, checking.check, problems.locate, getattr(checking, "opt_in_of", None))


def is_named_as_stack(file: Path) -> bool:
    """Return whether the engine would take a file for that of a stack: `Pulumi.<stack>.yaml`."""
    return file.name.startswith("Pulumi.") and file.name not in ("Pulumi.yaml", "Pulumi.yml")


def _project(file: Path, directory: Path) -> Mapping[str, Any]:
    """Return the content of a directory's Pulumi.yaml, if it is this project's."""
    project = directory / "Pulumi.yaml"
    try:
        document = YAML(typ="safe", pure=True).load(read_text(project))
    except YAMLError as error:
        raise CommandError(f"{project}: not valid YAML", ExitCode.INVALID_INPUT) from error
    name = document.get("name") if isinstance(document, dict) else None
    if name != PROJECT:
        raise CommandError(
            f"{file}: belongs to the project {name!r} of {project}, not to {PROJECT}", ExitCode.INVALID_INPUT
        )
    return dict(document)


_PREFIX = f"{PROJECT}:"
_CONFIG = re.compile("^config:", re.MULTILINE)
_ASSUMED_URL = "https://assumed.invalid"


def is_stack_file(path: Path, text: str) -> bool:
    """Tell a stack file by its name (`Pulumi.<stack>.yaml`) and by its keys of this project under `config`."""
    return is_named_as_stack(path) or (_PREFIX in text and _CONFIG.search(text) is not None)


ENCRYPTED = "encrypted"
"""What stands in for a value that only the engine can decrypt."""


class ExaminedStack(NamedTuple):
    """What a stack file says.

    Attributes:
        configuration: the scheduler's; None if the file is wrong.
        problems: what is wrong with the file.
        credentials: for the metric source (`stacks.checking.MetricCredentialValues`); a token that stands encrypted
            is `ENCRYPTED`.
        source: the configuration that names the metric source: that of the stack's load-watcher, if it runs one.
        opt_in: what opts pods in (`components.settings.OptInPlan`); None if nothing does.
    """

    configuration: Configuration | None
    problems: tuple[Problem, ...]
    credentials: Any = None
    source: Configuration | None = None
    opt_in: Any = None

    @property
    def errors(self) -> list[Problem]:
        """The problems that make the file wrong."""
        return [problem for problem in self.problems if problem.severity == "error"]


def examine_stack(path: Path, text: str, sibling: Path | None = None) -> ExaminedStack:
    """Return what a stack file says, and what is wrong with it.

    What stands encrypted or in an environment variable that is not set here is assumed to be good, with a warning.

    Args:
        path, text: the file.
        sibling: another file of its project, if it may lie in none.

    Raises:
        CommandError: the file's project, whose models decide what it may say, does not exist or cannot be loaded.
    """
    source = str(path)
    try:
        document = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
        message = "not valid YAML: " + " ".join(str(getattr(error, "problem", error)).split())
        return ExaminedStack(None, (Problem((), message, line, column, source=source),))
    config = document.get("config") if isinstance(document, Mapping) else None
    if not isinstance(config, Mapping):
        hint = f"set one with: pulumi config set {_PREFIX}schedulerImage IMAGE"
        problem = Problem(("config",), "the stack file holds no configuration", 1, 1, "error", hint, source)
        return ExaminedStack(None, (problem,))
    models = load_stack_models(path, sibling)
    values, encrypted = _engine_values(config)
    names = sorted(set(_environment_references(config)))
    missing = [name for name in names if not os.environ.get(name[1])]
    with tempfile.NamedTemporaryFile("w", suffix=".assumed") as file:
        file.write("assumed")
        file.flush()
        assumed = {name: file.name if kind == "fromFileInEnv" else _ASSUMED_URL for kind, name in missing}
        try:
            # The kubeconfig may be encrypted or differ on the machine that runs the update: it is not checked here.
            environment = {**os.environ, **assumed}
            checked = models.check(values, encrypted, environment, models.directory, with_kubeconfig=False)
            settings, profile, credentials = checked
        except ConfigurationError as error:
            return ExaminedStack(None, tuple(models.locate(error.problems, path, PROJECT, source=source)))
    located = models.locate(profile.warnings, path, PROJECT, source=source)
    notes = [
        Problem(
            (),
            f"the environment variable {name} is not set here: it is assumed to hold what is needed",
            severity="warning",
            source=source,
        )
        for _, name in missing
    ]
    if not is_named_as_stack(path) and settings.configuration_file is not None:
        # A former stack file beside a former configuration would be one thing; this is another.
        message = f"{settings.configuration_file} is read as it is in {models.directory} now, not as it was then"
        hint = "give the former configuration itself"
        notes.append(Problem(("configurationFile",), message, 0, 0, "warning", hint, source))
    watcher = getattr(profile, "load_watcher", None)  # the project may be of an earlier version
    reader = watcher.configuration if watcher is not None else profile.configuration
    opt_in = models.opt_in(settings, profile) if models.opt_in is not None else None
    return ExaminedStack(profile.configuration, (*located, *notes), credentials, reader, opt_in)


def read_stack_file(path: Path, text: str) -> ExaminedStack:
    """Return what a stack file says whose source of load is to be asked: nothing about that is assumed.

    Raises:
        CommandError: it is not valid, or refers to environment variables that are not set.
    """
    if missing := _missing_variables(text):
        raise CommandError(
            f"{path}: refers to {', '.join(missing)}, which is not set; for the local cluster:"
            ' eval "$(secondary-scheduler cluster env)"'
        )
    examined = examine_stack(path, text)
    if examined.source is None or examined.errors:
        raise CommandError("\n".join(map(str, examined.errors)), ExitCode.INVALID_INPUT)
    return examined


def _missing_variables(text: str) -> list[str]:
    """The environment variables that a stack file refers to and that are not set here."""
    try:
        document = YAML(typ="safe", pure=True).load(text)
    except YAMLError:
        return []
    return sorted({name for _, name in _environment_references(document) if not os.environ.get(name)})


def _engine_values(config: Mapping[str, Any]) -> tuple[dict[str, str], set[str]]:
    """The values as the engine hands them over: text, structured ones as JSON; and which are encrypted."""
    values: dict[str, str] = {}
    encrypted: set[str] = set()
    for key, value in config.items():
        if not str(key).startswith(_PREFIX):
            continue
        name = str(key).removeprefix(_PREFIX)
        if '"secure"' in json.dumps(value, default=str):
            encrypted.add(name)
        if isinstance(value, Mapping) and set(value) == {"secure"}:
            values[name] = ENCRYPTED
        else:
            values[name] = value if isinstance(value, str) else json.dumps(value, default=str)
    return values, encrypted


def _environment_references(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key in ("fromEnv", "fromFileInEnv") and isinstance(item, str):
                yield key, item
            else:
                yield from _environment_references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _environment_references(item)
