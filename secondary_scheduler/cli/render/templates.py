"""Manifests with places for values, and the text of the Helm templates that they become.

A place is a marker in the manifest. It survives the YAML dumper as it is, and only in the text it becomes an action of
Go's template language; so nothing that a manifest holds, such as the `{{ $labels }}` of an alert, is taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from secondary_scheduler.cli.render.manifests import dump

_SCALAR = re.compile(r'"__value_(\d+)__"')
_WITHIN = re.compile(r"__value_(\d+)__")
_ENTRY = re.compile(r'^( *)"__entry_(\d+)__": null\n', re.MULTILINE)
_OPENING = re.compile(r"\{\{")


@dataclass
class Places:
    """The places of one manifest, in the order in which they were made."""

    _values: list[str] = field(default_factory=list)
    _entries: list[Callable[[str], str]] = field(default_factory=list)

    def value(self, expression: str) -> str:
        """A marker for the result of an expression, alone or within a text."""
        self._values.append(expression)
        return f"__value_{len(self._values) - 1}__"

    def entry(self, write: Callable[[str], str]) -> dict[str, None]:
        """An entry of a mapping that stands for lines of template text; `write` gets their indentation."""
        self._entries.append(write)
        return {f"__entry_{len(self._entries) - 1}__": None}

    def optional(self, key: str, path: str) -> dict[str, None]:
        """An entry with this key, which is absent where the value is empty."""

        def write(indent: str) -> str:
            lines = (f"{{{{- with {path} }}}}", f"{key}:", f"  {{{{- toYaml . | nindent {len(indent) + 2} }}}}")
            return "".join(f"{indent}{line}\n" for line in (*lines, "{{- end }}"))

        return self.entry(write)

    def text(self, manifest: Mapping[str, Any]) -> str:
        """The template of the manifest."""
        text = _OPENING.sub('{{ "{{" }}', dump(manifest))
        text = _ENTRY.sub(lambda match: self._entries[int(match[2])](match[1]), text)
        text = _SCALAR.sub(lambda match: f"{{{{ {self._values[int(match[1])]} }}}}", text)
        return _WITHIN.sub(lambda match: f"{{{{ {self._values[int(match[1])]} }}}}", text)
