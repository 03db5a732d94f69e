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

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from devcluster.node_agent.environment import expand


class ImageMapError(ValueError):
    """The image map is not usable; the message names the place."""


class NoSuchExecutableError(LookupError):
    """The image has no such executable."""


class Image(BaseModel):
    """What the map says of one repository; see the module's description."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    executables: dict[str, Annotated[tuple[str, ...], Field(min_length=1)]] = {}
    entrypoint: tuple[str, ...] = ()
    append_args: dict[str, tuple[str, ...]] = {}
    user: Annotated[int, Field(ge=0, strict=True)] | None = None
    env: dict[str, str] = {}
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


_IMAGES = TypeAdapter(dict[str, Image])


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


def parse_image_map(text: str) -> ImageMap:
    """Read the JSON text; raise ImageMapError naming the first fault."""
    try:
        return ImageMap(_IMAGES.validate_json(text))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = "".join(f"[{part!r}]" for part in fault["loc"])
        raise ImageMapError(f"{place}: {fault['msg']}" if place else fault["msg"]) from error
