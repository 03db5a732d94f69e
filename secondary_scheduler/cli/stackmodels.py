"""The models of stack settings, loaded at run time from the project that a stack file belongs to.

Only this module knows the package `stacks`: it is part of the Pulumi program, not of this distribution, and the project
decides which settings a stack may have. A static import would tie the command line to one checkout.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
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
        check: `stacks.checking.check`; it raises ConfigurationError.
        locate: `stacks.problems.locate`: problems with the lines of a stack file.
        opt_in: `stacks.checking.opt_in_of`: what opts pods in; None in a project of an earlier version.
    """

    check: Callable[..., tuple[Any, Any, Any]]
    locate: Callable[..., Any]
    opt_in: Callable[..., Any] | None = None


def load_stack_models(file: Path) -> StackModels:
    """Import the models of the project whose Pulumi.yaml stands above a stack file.

    Raises:
        CommandError: there is no such project, or it cannot be imported.
    """
    directory = _project_directory(file)
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    try:
        checking = importlib.import_module("stacks.checking")
        problems = importlib.import_module("stacks.problems")
    except ImportError as error:
        raise CommandError(
            f"{file}: the stack settings of the project in {directory} cannot be loaded: {error}"
        ) from error
    return StackModels(checking.check, problems.locate, getattr(checking, "opt_in_of", None))


def _project_directory(file: Path) -> Path:
    for directory in file.resolve().parents:
        project = directory / "Pulumi.yaml"
        if not project.is_file():
            continue
        try:
            document = YAML(typ="safe", pure=True).load(read_text(project))
        except YAMLError as error:
            raise CommandError(f"{project}: not valid YAML", ExitCode.INVALID_INPUT) from error
        name = document.get("name") if isinstance(document, dict) else None
        if name != PROJECT:
            raise CommandError(
                f"{file}: belongs to the project {name!r} of {project}, not to {PROJECT}", ExitCode.INVALID_INPUT
            )
        return directory
    raise CommandError(
        f"{file}: a stack file is checked with its project, but no parent directory has a Pulumi.yaml",
        ExitCode.INVALID_INPUT,
    )
