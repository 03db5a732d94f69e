"""A project's stacks as read from their settings files, their selection by name, and their order in waves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.files import MAX_TEXT, read_bytes

WAVE_KEY = "fleet:wave"
"""In a stack's settings: the wave it belongs to. A namespace of its own, since the program has no use for it."""
DEFAULT_WAVE = "rest"
_WAVE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class FleetStack:
    """A stack as read from its settings file.

    Attributes:
        wave: when its turn is.
        cluster: the name its settings give the cluster; empty if none.
        context: of the kubeconfig; None for the current one.
        flavour: of the scheduler's image, as set; empty if the image's name decides.
        has_secrets: whether anything in the file is encrypted.
        token_variables: environment variables that name files with a credential.
    """

    name: str
    file: Path
    wave: str = DEFAULT_WAVE
    cluster: str = ""
    context: str | None = None
    flavour: str = ""
    has_secrets: bool = False
    token_variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Project:
    """A directory with a Pulumi.yaml, and its stacks by name."""

    directory: Path
    name: str
    stacks: Mapping[str, Path] = field(default_factory=dict)

    def read(self, name: str) -> FleetStack:
        """Read a stack's settings.

        Raises:
            CommandError: the file is not a stack's.
        """
        file = self.stacks[name]
        document = _read(file)
        config = document.get("config") or {}
        if not isinstance(config, Mapping):
            raise CommandError(f"{file}: config: must be a mapping", ExitCode.INVALID_INPUT)
        cluster = config.get(f"{self.name}:cluster")
        cluster = cluster if isinstance(cluster, Mapping) else {}
        context = cluster.get("context")
        return FleetStack(
            name,
            file,
            _wave(file, config.get(WAVE_KEY, DEFAULT_WAVE)),
            str(cluster.get("clusterIdentifier") or ""),
            str(context) if context else None,
            str(config.get(f"{self.name}:flavour") or ""),
            any(True for _ in _values_of(config, "secure")),
            tuple(str(value) for value in _values_of(config, "fromFileInEnv")),
        )


def find_project(start: Path) -> Project:
    """Find the project that `start` lies in, and its stacks wherever its `stackConfigDir` puts their settings.

    Raises:
        CommandError: there is none, or its Pulumi.yaml cannot be used.
    """
    start = start.resolve()
    for directory in (start, *start.parents):
        for suffix in _SUFFIXES:
            file = directory / f"Pulumi{suffix}"
            if file.is_file():
                return _project(directory, file)
    raise CommandError(
        f"{start}: no Pulumi.yaml here or above; go to the project, or name it with --project", ExitCode.USAGE
    )


def select(project: Project, patterns: Sequence[str]) -> list[FleetStack]:
    """The stacks whose names match any of the patterns, by name.

    Raises:
        CommandError: a pattern matches none, or a settings file cannot be used.
    """
    chosen: set[str] = set()
    for pattern in patterns:
        matching = {name for name in project.stacks if fnmatchcase(name, pattern)}
        if not matching:
            names = ", ".join(sorted(project.stacks)) or "none"
            raise CommandError(f"--stacks {pattern}: no stack matches; there are: {names}", ExitCode.USAGE)
        chosen |= matching
    return [project.read(name) for name in sorted(chosen)]


def arrange_in_waves(stacks: Sequence[FleetStack], waves: str) -> list[tuple[str, list[FleetStack]]]:
    """The waves that have stacks, in the order of `waves` (names, separated by commas).

    Raises:
        CommandError: `waves` is not such a list, or a stack belongs to a wave that it does not name.
    """
    names = [name.strip() for name in waves.split(",")]
    if not all(_WAVE.fullmatch(name) for name in names) or len(set(names)) != len(names):
        raise CommandError(f"--waves {waves}: write different names separated by commas: canary,rest", ExitCode.USAGE)
    for stack in stacks:
        if stack.wave not in names:
            raise CommandError(
                f"stack {stack.name} is in wave {stack.wave}, which --waves {waves} does not name; "
                f"add it there, or change {WAVE_KEY} in {stack.file}",
                ExitCode.USAGE,
            )
    arranged = [(name, [stack for stack in stacks if stack.wave == name]) for name in names]
    return [(name, members) for name, members in arranged if members]


def _project(directory: Path, file: Path) -> Project:
    document = _read(file)
    name = document.get("name")
    if not isinstance(name, str) or not name:
        raise CommandError(f"{file}: name: missing; this is no Pulumi project", ExitCode.INVALID_INPUT)
    settings = directory / str(document.get("stackConfigDir") or ".")
    stacks = {
        path.name.removeprefix("Pulumi.").removesuffix(path.suffix): path
        for suffix in _SUFFIXES
        for path in sorted(settings.glob(f"Pulumi.*{suffix}"))
        if path.is_file()
    }
    return Project(directory, name, stacks)


def _read(file: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(read_bytes(file, limit=MAX_TEXT))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        # The parser's own words may quote a line, and with it a secret.
        mark = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}" if mark is not None else ""
        raise CommandError(f"{file}{place}: not valid YAML", ExitCode.INVALID_INPUT) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise CommandError(f"{file}: must be a mapping", ExitCode.INVALID_INPUT)
    return document


def _wave(file: Path, value: object) -> str:
    if not isinstance(value, str) or not _WAVE.fullmatch(value):
        raise CommandError(
            f"{file}: {WAVE_KEY}: must be a name of lower case letters, digits and '-', such as canary",
            ExitCode.INVALID_INPUT,
        )
    return value


def _values_of(value: object, key: str) -> list[object]:
    """Every value under that key, however deep."""
    if isinstance(value, Mapping):
        direct = [value[key]] if key in value else []
        return direct + [nested for child in value.values() for nested in _values_of(child, key)]
    if isinstance(value, list):
        return [nested for child in value for nested in _values_of(child, key)]
    return []
