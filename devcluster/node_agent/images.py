"""The image map: which host commands stand for the executables of an image. Pure.

JSON, by image repository, which stands for every tag and digest; or by a whole reference, which stands for itself::

    {"localhost/secondary-scheduler/kube-scheduler": {
        "executables": {"/bin/kube-scheduler": ["/venv/bin/python", "-m", "scheduler"]},
        "entrypoint": ["/bin/kube-scheduler"],
        "appendArgs": {"/bin/kube-scheduler": ["--bind-address=$(POD_IP)"]},
        "user": 65532,
        "env": {"PYTHONUNBUFFERED": "1"},
        "hostPaths": ["/opt/more"]}}

``entrypoint`` (used when the pod gives no command), ``appendArgs``, ``user`` (the image's numeric USER, else root),
``env`` (the image's ENV) and ``hostPaths`` (host paths that stay visible even under /tmp) are optional. appendArgs may
use ``$(POD_IP)``, ``$(POD_NAME)``, ``$(POD_NAMESPACE)`` and ``$(NODE_NAME)``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from devcluster.node_agent.environment import expand


class ImageMapError(ValueError):
    """The image map is not usable; the message names the place."""


class NoSuchExecutableError(LookupError):
    """The image has no such executable."""


@dataclass(frozen=True, slots=True)
class Image:
    """What the map says of one repository; see the module's description."""

    executables: Mapping[str, tuple[str, ...]]
    entrypoint: tuple[str, ...] = ()
    append_args: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    user: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    host_paths: tuple[str, ...] = ()

    def command_line(
        self, command: Sequence[str], args: Sequence[str], variables: Mapping[str, str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(host command that stands for the executable, arguments) for a container's command and args.

        Raises NoSuchExecutableError as a runtime would: the image is asked, not the host.
        """
        line = (*command, *args) if command else (*self.entrypoint, *args)
        if not line:
            raise NoSuchExecutableError("no command specified")
        name = self._lookup(line[0])
        extra = self.append_args.get(name, ())
        return self.executables[name], (*line[1:], *(expand(text, variables) for text in extra))

    def exec_line(self, command: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The same for a further command in a running container: nothing is appended."""
        if not command:
            raise NoSuchExecutableError("no command specified")
        return self.executables[self._lookup(command[0])], tuple(command[1:])

    def _lookup(self, name: str) -> str:
        if name in self.executables:
            return name
        paths = sorted(path for path in self.executables if PurePosixPath(path).name == name)
        if not paths:
            raise NoSuchExecutableError(f'exec: "{name}": stat {name}: no such file or directory')
        return paths[0]


def repository(reference: str) -> str:
    """An image reference without its tag and digest."""
    bare = reference.partition("@")[0]
    head, colon, tag = bare.rpartition(":")
    return head if colon and "/" not in tag else bare


class ImageMap:
    """All images this node can "pull"."""

    def __init__(self, images: Mapping[str, Image]) -> None:
        self._images = dict(images)

    def find(self, reference: str) -> Image | None:
        """The image for a reference, or None, which the agent reports as ErrImagePull."""
        return self._images.get(reference) or self._images.get(repository(reference))

    def names(self) -> list[str]:
        """The repositories and references, sorted, for the Node's status."""
        return sorted(self._images)


def _strings(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ImageMapError(f"{place} must be a list of strings")
    return tuple(value)


def _mapping(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ImageMapError(f"{place} must be an object")
    return value


def _image(value: Any, place: str) -> Image:
    entry = _mapping(value, place)
    unknown = set(entry) - {"executables", "entrypoint", "appendArgs", "user", "env", "hostPaths"}
    if unknown:
        raise ImageMapError(f"{place}: unknown key {sorted(unknown)[0]!r}")
    executables = _mapping(entry.get("executables", {}), f"{place}.executables")
    append = _mapping(entry.get("appendArgs", {}), f"{place}.appendArgs")
    user = entry.get("user")
    if user is not None and (not isinstance(user, int) or isinstance(user, bool) or user < 0):
        raise ImageMapError(f"{place}.user must be a numeric user id")
    image = Image(
        executables={path: _strings(argv, f"{place}.executables[{path!r}]") for path, argv in executables.items()},
        entrypoint=_strings(entry.get("entrypoint", []), f"{place}.entrypoint"),
        append_args={path: _strings(args, f"{place}.appendArgs[{path!r}]") for path, args in append.items()},
        user=user,
        env={str(name): str(text) for name, text in _mapping(entry.get("env", {}), f"{place}.env").items()},
        host_paths=_strings(entry.get("hostPaths", []), f"{place}.hostPaths"),
    )
    for path, argv in image.executables.items():
        if not argv:
            raise ImageMapError(f"{place}.executables[{path!r}] must name a host command")
    return image


def parse_image_map(text: str) -> ImageMap:
    """Read the JSON text; raise ImageMapError naming the first fault."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ImageMapError(f"line {error.lineno}: not JSON: {error.msg}") from error
    images = _mapping(document, "the image map")
    return ImageMap({name: _image(value, name) for name, value in images.items()})
