"""The lines that can do harm: writes their map into docs/security.md, and refuses one that is not on it.

    tools/harm.py           writes the map
    tools/harm.py --check   exit code 1 if a place is not on it, or docs/security.md is not current

A place is found by its name in the syntax tree (`tools.harmsites`), the functions that may have places are in
`tools.harmfunctions`. Findings are printed one a line: file:line: what.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.harmfunctions import HARMLESS, PROVEN, TABLES, HarmFunction  # noqa: E402
from tools.harmsites import COLLECTIONS, WAYS, Site, findings  # noqa: E402
from tools.linting import between_marks  # noqa: E402

PAGE = ROOT / "docs" / "security.md"
PRODUCTION = ("scheduler", "secondary_scheduler", "components", "stacks", "policy", "__main__.py")
BEGIN, END = "<!-- begin: make harm -->\n", "<!-- end: make harm -->\n"
_FUNCTIONS = {function.place: function for table in TABLES.values() for function in table}


def production() -> dict[str, str]:
    """The text of every module that runs at users', by its path."""
    command = ["git", "ls-files", "--", *PRODUCTION]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in listed if path.endswith(".py")}


def found(modules: Mapping[str, str]) -> dict[str, list[Site]]:
    """The places in each function, `path::Class.method`, in the order of their lines."""
    places: dict[str, list[Site]] = defaultdict(list)
    for path, source in modules.items():
        for site in findings(path, source).sites:
            places[f"{path}::{site.function}"].append(site)
    return {place: sorted(of_function) for place, of_function in places.items()}


def problems(
    modules: Mapping[str, str], functions: Mapping[str, HarmFunction], harmless: Mapping[str, str]
) -> Iterator[str]:
    """Yield what is not on the map, and what is on it without being there, as file:line: what."""
    places = found(modules)
    for place, of_function in places.items():
        path, _, name = place.partition("::")
        function = functions.get(place)
        if place in harmless:
            continue
        for site in of_function:
            if function is None:
                yield (
                    f"{path}:{site.line}: {site.text} {WAYS[site.way]}: let it go through a function of "
                    f"tools/harmfunctions.py, or add {name} there, with what bounds it"
                )
            elif site.way not in function.ways:
                yield f"{path}:{site.line}: {site.text} {WAYS[site.way]}, which {name} is not said to do"
    for place, function in functions.items():
        path, _, name = place.partition("::")
        ways = {site.way for site in places.get(place, ())}
        if set(function.ways) - ways:
            yield f"{path}:1: {name} does not do it any more: {', '.join(sorted(set(function.ways) - ways))}"
        elif not ways and f"def {name.rpartition('.')[2]}(" not in modules.get(path, ""):
            yield f"{path}:1: there is no {name}"
    for place in harmless:
        if place not in places:
            yield f"{place.partition('::')[0]}:1: {place.partition('::')[2]} has nothing to be excused"


def unused_collections(modules: Mapping[str, str]) -> Iterator[str]:
    """Yield exceptions that nothing needs any more."""
    for path, text in sorted(COLLECTIONS):
        if text not in modules.get(path, ""):
            yield f"{path}:1: there is no {text}; take it out of COLLECTIONS"


def rendered(modules: Mapping[str, str]) -> str:
    """The map as Markdown."""
    places = found(modules)
    lines = [
        f"{len(PROVEN)} functions write to the API server or handle a credential: those of the first three tables.",
    ]
    for title, table in TABLES.items():
        heading = "asks for" if title.startswith("Who") else "does"
        lines += ["", f"### {title}", "", f"| {heading} | function | lines | what bounds it |", "|---|---|---|---|"]
        for function in table:
            numbers = ", ".join(str(line) for line in sorted({site.line for site in places.get(function.place, ())}))
            lines.append(f"| {function.harm} | `{function.place}` | {numbers or '–'} | {function.bound} |")
    lines += ["", "### What Pulumi creates", "", "| kind | functions and lines |", "|---|---|"]
    objects: dict[str, list[str]] = defaultdict(list)
    for path, source in modules.items():
        for kind, site in findings(path, source).resources:
            objects[kind].append(f"`{path}::{site.function}` {site.line}")
    lines += [f"| {kind} | {', '.join(objects[kind])} |" for kind in sorted(objects)]
    return "".join(f"{line}\n" for line in lines)


def page(text: str, content: str) -> str:
    """The page with the map between its marks."""
    return between_marks(text, f"\n{content}\n", begin=BEGIN, end=END)


def main(arguments: list[str]) -> int:
    """Check, or write the page."""
    modules = production()
    refused = [*problems(modules, _FUNCTIONS, HARMLESS), *unused_collections(modules)]
    current = PAGE.read_text(encoding="utf-8")
    text = page(current, rendered(modules))
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
    elif text != current:
        refused.append(f"{PAGE.relative_to(ROOT)}:1: the map of what can do harm is not current; run make harm")
    print("\n".join(refused), end="\n" if refused else "")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
