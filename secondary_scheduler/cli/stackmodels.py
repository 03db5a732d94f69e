"""The models of stack settings, loaded at run time from the project that a stack file belongs to.

Only this module knows the package `stacks`: it is part of the Pulumi program, not of this distribution, and the project
decides which settings a stack may have. A static import would tie the command line to one checkout.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

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


def load_stack_models(file: Path, beside: Path | None = None) -> StackModels:
    """Import the models of the project that a stack file belongs to: the one whose Pulumi.yaml stands above the file.

    A copy of a stack file, such as a former one from git, may lie anywhere: it belongs to the project of the working
    directory, or to that of another file.

    Args:
        file: the stack file.
        beside: another file of the same project; None where there is none.

    Raises:
        CommandError: there is no such project, or it cannot be imported.
    """
    above = file.resolve().parents
    places = [*above, Path.cwd(), *Path.cwd().parents, *(beside.resolve().parents if beside is not None else ())]
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
