"""What a configuration has that the image does not decode: scheduler-plugins decodes strictly and would not start."""

from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.catalog import Loc
from scheduler.config.document import Document
from scheduler.config.legacy import IGNORED_MULTI_POINT
from scheduler.config.model import API_VERSION
from scheduler.config.problems import UNKNOWN_FIELD, Problem
from scheduler.config.releases import FIELDS, VALUES, Release, Span, ignores_args, plugin_span


def check_release(
    document: Document, data: Mapping[str, Any], image: str, release: Release, version: str
) -> Iterator[Problem]:
    """Yield what a release does not have of a configuration, which is as the image will read it.

    Args:
        document: where problems are reported.
        data: of a version that the image reads.
        image: what messages call it.
        release: of scheduler-plugins.
        version: of the data, such as `v1`.
    """
    yield from _Check(document, image, release, version).run(data)


class _Check:
    def __init__(self, document: Document, image: str, release: Release, version: str) -> None:
        self._document = document
        self._image = image
        self._release = release
        self._version = version

    def run(self, data: Mapping[str, Any]) -> Iterator[Problem]:
        yield from self._fields(FIELDS[""], data, ())
        for loc, _ in _at(data, ("profiles[]", "plugins", "multiPoint"), ()) if self._version == "v1beta2" else ():
            hint = f"to run them, write apiVersion: {API_VERSION}, if the image reads it"
            yield self._document.problem(loc, IGNORED_MULTI_POINT, hint=hint, severity="warning")
        for loc, profile in _at(data, ("profiles[]",), ()):
            for at, entry in _at(profile, ("plugins", "*", "enabled[]"), loc):
                yield from self._plugin(at, entry)
            for at, entry in _at(profile, ("pluginConfig[]",), loc):
                if isinstance(entry, dict) and isinstance(entry.get("args"), dict):
                    yield from self._args(str(entry.get("name")), entry["args"], (*at, "args"))

    def _covers(self, span: Span) -> bool:
        return span.covers(self._release.number, self._version)

    def _problem(self, loc: Loc, message: str, span: Span, *, at_key: bool = False) -> Problem:
        hint = f"{self._image} would not start: {span.explained(self._release.number)}"
        return self._document.problem(loc, message, hint=hint, at_key=at_key)

    def _fields(self, spans: Mapping[str, Span], data: object, below: Loc) -> Iterator[Problem]:
        missing: set[Loc] = set()
        for path, span in spans.items():
            if self._covers(span):
                continue
            for loc, _ in _at(data, tuple(path.split(".")), below):
                # A map that is not known is one problem, whatever is in it.
                if not any(loc[: len(outer)] == outer for outer in missing):
                    missing.add(loc)
                    yield self._problem(loc, f'{UNKNOWN_FIELD} "{loc[-1]}"', span, at_key=True)

    def _plugin(self, at: Loc, entry: object) -> Iterator[Problem]:
        name = entry.get("name") if isinstance(entry, dict) else None
        span = plugin_span(name) if isinstance(name, str) else None
        # A name that the release has in no version is reported with the plugin set.
        if span is not None and span.covers(self._release.number, None) and not self._covers(span):
            yield self._problem((*at, "name"), f'plugin "{name}" cannot be enabled in {self._version}', span)

    def _args(self, plugin: str, args: Mapping[str, Any], at: Loc) -> Iterator[Problem]:
        if ignores_args(plugin, self._release):
            return
        yield from self._fields(FIELDS.get(plugin, {}), args, at)
        for path, values in VALUES.get(plugin, {}).items():
            for loc, value in _at(args, tuple(path.split(".")), at):
                span = values.get(value) if isinstance(value, str) else None
                if span is not None and not self._covers(span):
                    yield self._problem(loc, f'unknown value "{value}"', span)


def _at(value: object, path: tuple[str, ...], loc: Loc) -> Iterator[tuple[Loc, Any]]:
    """Yield the location and the value of everything at a path: `name[]` is each element of a list, `*` each value."""
    if not path:
        yield loc, value
        return
    if not isinstance(value, dict):
        return
    field, is_list = path[0].removesuffix("[]"), path[0].endswith("[]")
    for key in list(value) if field == "*" else [field] if field in value else []:
        inner = value[key]
        if not is_list:
            yield from _at(inner, path[1:], (*loc, key))
        elif isinstance(inner, list):
            for index, item in enumerate(inner):
                yield from _at(item, path[1:], (*loc, key, index))
