"""Flavours of scheduler images: what the binary reads, which plugins it has, how it is started.

What each release of scheduler-plugins has is in `releases`; how it is started was read from its
build/scheduler/Dockerfile.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from scheduler.catalog import ExtensionPoint, PluginDescriptor, PolicyRule, descriptors, lookup
from scheduler.config.decode import nearest
from scheduler.config.legacy import replacement
from scheduler.config.problems import closest
from scheduler.config.releases import VERSIONS, Release, plugin_span

Family = Literal["ours", "scheduler-plugins", "custom"]

_OUR_REPOSITORY = re.compile(r"(^|/)secondary-scheduler/kube-scheduler$")
_PLUGINS_REPOSITORY = re.compile(r"(^|[/-])scheduler-plugins[/-](kube-)?scheduler$")
_RELEASE = re.compile(r"v?0\.(\d+)(\.\d+)?([-+_.].*)?")
_NON_ROOT = 65532


@dataclass(frozen=True, slots=True)
class ExtraPlugin:
    """A plugin that only a custom image has. Its args are passed through unchecked.

    Attributes:
        name: name in the configuration.
        points: extension points it implements.
        rules: what it needs from the API server.
        crds: names of the CustomResourceDefinitions it reads.
    """

    name: str
    points: frozenset[ExtensionPoint]
    rules: tuple[PolicyRule, ...] = ()
    crds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Flavour:
    """What is valid for an image, and how it is started.

    Attributes:
        name: `ours`, `scheduler-plugins@0.NN` or `custom`.
        family: the part before the `@`.
        versions: API versions its binary decodes (`v1`, …); ours converts the older ones.
        kubernetes: minor version of the Kubernetes 1.x it is built from.
        command: how the container is started.
        user: numeric user of the image; 0 means that it runs as root unless told otherwise.
        release: of scheduler-plugins; None: it may have every plugin of the catalogue.
        extra: further plugins of a custom image, by name.
    """

    name: str
    family: Family
    versions: tuple[str, ...]
    kubernetes: int
    command: tuple[str, ...] = ("/bin/kube-scheduler",)
    user: int = _NON_ROOT
    release: Release | None = None
    extra: Mapping[str, ExtraPlugin] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_ours(self) -> bool:
        """Whether the image is this project's scheduler."""
        return self.family == "ours"

    def reads(self, version: str) -> bool:
        """Tell whether the image's binary decodes `kubescheduler.config.k8s.io/<version>`."""
        return version in self.versions

    def find(self, name: str) -> PluginDescriptor | None:
        """Return the plugin of this name if the image knows it, whether or not it can run it."""
        extra = self.extra.get(name)
        if extra is not None:
            return PluginDescriptor(extra.name, extra.points, rules=extra.rules, crds=extra.crds, implemented=True)
        if self.release is not None:
            return self.release.find(name)
        descriptor = lookup(name)
        return descriptor if descriptor is not None and descriptor.points else None

    def runs(self, descriptor: PluginDescriptor) -> bool:
        """Tell whether the image can run a plugin that it knows."""
        return descriptor.implemented or not self.is_ours

    def names(self) -> tuple[str, ...]:
        """Return the plugin names that are valid in a plugin set."""
        if self.release is not None:
            return tuple(self.release.names())
        return (*(descriptor.name for descriptor in descriptors() if descriptor.points), *self.extra)


class UnknownFlavourError(ValueError):
    """The name is not in the table of flavours; the message lists the names or the closest one."""


OURS = Flavour("ours", "ours", ("v1", "v1beta3", "v1beta2", "v1beta1"), 34)
CUSTOM = Flavour("custom", "custom", ("v1",), 34)

_DISTROLESS_SINCE = 29
_COMMAND_OF_RELEASE = {"0.29.7": ("/kube-scheduler",)}
"""Releases whose binary has another path than the others'."""


def _release(minor: int) -> Flavour:
    release = Release(minor)
    return Flavour(
        name=f"scheduler-plugins@0.{minor}",
        family="scheduler-plugins",
        versions=release.versions,
        kubernetes=minor,
        user=_NON_ROOT if minor >= _DISTROLESS_SINCE else 0,
        release=release,
    )


_TABLE: dict[str, Flavour] = {
    flavour.name: flavour for flavour in (OURS, CUSTOM, *(_release(minor) for minor in VERSIONS))
}


def flavour_names() -> tuple[str, ...]:
    """Return the names that `flavour_named` takes."""
    return tuple(_TABLE)


def flavour_named(name: str) -> Flavour:
    """Return the flavour of a name: `ours`, `custom`, `scheduler-plugins@0.34`, or with a patch level at the end.

    Raises:
        UnknownFlavourError: there is no such flavour.
    """
    family, _, release = name.partition("@")
    match = _RELEASE.fullmatch(release) if family == "scheduler-plugins" else None
    flavour = _TABLE.get(f"{family}@0.{match[1]}" if match else name)
    if flavour is None:
        hint = nearest(name, _TABLE) or f"known flavours: {', '.join(_TABLE)}"
        raise UnknownFlavourError(f'flavour "{name}" is not known; {hint}')
    return _of_patch(flavour, match) if match else flavour


def flavour_of(image: str, named: str = "") -> Flavour:
    """Return the flavour of an image reference, by its tag and the end of its repository, so that mirrors work too.

    `…/secondary-scheduler/kube-scheduler` is ours; `…/scheduler-plugins/kube-scheduler:v0.NN.P` is that release, and
    without a version tag (a digest, `latest`), or with a release that is not in the table, it is custom, as is any
    other image. `named` is the name of a flavour that overrides all this.

    Raises:
        UnknownFlavourError: there is no flavour called `named`.
    """
    if named:
        return flavour_named(named)
    repository, tag = split_image(image)
    if _OUR_REPOSITORY.search(repository):
        return OURS
    match = _RELEASE.fullmatch(tag) if _PLUGINS_REPOSITORY.search(repository) else None
    if match is None:
        return CUSTOM
    return _of_patch(_TABLE.get(f"scheduler-plugins@0.{match[1]}", CUSTOM), match)


def image_flavour(image: str, named: str = "") -> Flavour:
    """Return the flavour of an image as `flavour_of` does, and never raise.

    A name that is not in the table is ignored and the image reference decides: an older operator may read a name that
    a newer one wrote.
    """
    try:
        return flavour_of(image, named)
    except UnknownFlavourError:
        return flavour_of(image)


def _of_patch(flavour: Flavour, match: re.Match[str]) -> Flavour:
    """The flavour as that patch release has it."""
    if flavour.release is None or not match[2]:
        return flavour
    command = _COMMAND_OF_RELEASE.get(f"0.{match[1]}{match[2]}", flavour.command)
    return replace(flavour, command=command, release=Release(flavour.release.minor, int(match[2][1:])))


def custom_flavour(plugins: Iterable[ExtraPlugin]) -> Flavour:
    """Return the flavour of a custom image that has these plugins in addition to the catalogue's."""
    extra = {plugin.name: plugin for plugin in plugins}
    return Flavour("custom", "custom", CUSTOM.versions, CUSTOM.kubernetes, extra=MappingProxyType(extra))


def with_unknown_plugins(flavour: Flavour, data: Any) -> Flavour:
    """Return the flavour with the plugins of a configuration that nobody knows, where it enables them: converting keeps
    them. A name that is like a known one is taken for a mistake."""
    points: dict[str, set[ExtensionPoint]] = {}
    profiles = data.get("profiles") if isinstance(data, dict) else None
    for profile in profiles if isinstance(profiles, list) else ():
        plugins = profile.get("plugins") if isinstance(profile, dict) else None
        for at, plugin_set in plugins.items() if isinstance(plugins, dict) else ():
            enabled = plugin_set.get("enabled") if isinstance(plugin_set, dict) else None
            for entry in enabled if isinstance(enabled, list) else ():
                name = entry.get("name") if isinstance(entry, dict) else None
                if isinstance(name, str) and flavour.find(name) is None and not _is_known(name, flavour):
                    points.setdefault(name, set()).update(point for point in ExtensionPoint if point.value == at)
    extra = {name: ExtraPlugin(name, frozenset(own)) for name, own in points.items()}
    return replace(flavour, extra=MappingProxyType({**flavour.extra, **extra})) if extra else flavour


def _is_known(name: str, flavour: Flavour) -> bool:
    is_named = lookup(name) is not None or plugin_span(name) is not None or bool(replacement(name))
    return is_named or bool(closest(name, flavour.names()))


def split_image(image: str) -> tuple[str, str]:
    """Return repository (registry included) and tag of an image reference; the digest is dropped."""
    reference = image.partition("@")[0]
    head, slash, last = reference.rpartition("/")
    name, _, tag = last.partition(":")
    return head + slash + name, tag
