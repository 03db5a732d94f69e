"""What the pages refer to exists: links, anchors, images, files, and the names in code that they cite."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md"), *(CHECKOUT / "examples").rglob("*.md")],
    key=str,
)
MAX_CELL_LENGTH = 200
ARCHITECTURE = CHECKOUT / "docs" / "architecture.md"
_LINK = re.compile(r"!?\[[^]]*\]\(([^)#\s]*)(#[^)\s]*)?\)")
_CODE = re.compile(r"`([^`\n]+)`")
_CITATION = re.compile(r"(?P<path>[\w./-]+)(?:::(?P<name>[\w.]+))?")


def _name(page: Path) -> str:
    return str(page.relative_to(CHECKOUT))


def _prose(page: Path) -> str:
    """The text of a page without its fenced blocks."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_relative_links_and_images_lead_to_files_and_headings(page: Path) -> None:
    for target, anchor in _LINK.findall(_prose(page)):
        if target.startswith(("http:", "https:")):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{_name(page)}: {target} does not exist"
        if anchor and file.suffix == ".md":
            assert anchor[1:] in _anchors(file), f"{_name(page)}: {target}{anchor} has no such heading"


def test_the_index_links_every_page() -> None:
    index = CHECKOUT / "docs" / "index.md"
    linked = {(index.parent / target).resolve() for target, _ in _LINK.findall(_prose(index)) if "://" not in target}
    pages = {page for page in PAGES if page.is_relative_to(CHECKOUT / "docs")} - {index}
    assert not sorted(_name(page) for page in pages - linked)
    assert "docs/index.md" in (CHECKOUT / "README.md").read_text(encoding="utf-8")


def test_decisions_have_numbers_of_their_own_and_stand_in_the_index_in_order() -> None:
    files = sorted(file.name for file in (CHECKOUT / "docs/adr").glob("*.md"))
    assert [file[:4] for file in files] == [f"{number:04}" for number in range(1, len(files) + 1)]
    assert re.findall(r"\]\(adr/([^)]+)\) \|", (CHECKOUT / "docs/index.md").read_text()) == files
    for file in files:
        title = (CHECKOUT / "docs/adr" / file).read_text().partition("\n")[0]
        assert title.startswith(f"# {int(file[:4])}. "), f"{file}: {title}"


@pytest.mark.parametrize("page", [CHECKOUT / "docs" / "differences.md"], ids=_name)
def test_no_table_cell_is_too_long_to_read(page: Path) -> None:
    rows = [line for line in _prose(page).splitlines() if line.startswith("|")]
    cells = [cell.strip() for row in rows for cell in row.strip("|").split("|")]
    assert not [cell for cell in cells if len(cell) > MAX_CELL_LENGTH]


def test_the_tests_that_differences_names_exist() -> None:
    text = (CHECKOUT / "docs" / "differences.md").read_text(encoding="utf-8")
    modules = [str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "tests").rglob("*.py")]
    files = {span for span in _CODE.findall(text) if re.fullmatch(r"[\w/]*test_\w+\.py", span)}
    assert len(files) > 40
    assert not [file for file in sorted(files) if not any(f"/{module}".endswith(f"/{file}") for module in modules)]
    last_cells = [line.rstrip(" |").rpartition("|")[2] for line in text.splitlines() if line.startswith("|")]
    parts = {span.strip("…") for cell in last_cells for span in _CODE.findall(cell) if span.endswith("…")}
    names = {
        name
        for module in modules
        for name in re.findall(r"(?:def|class) (\w+)", (CHECKOUT / module).read_text(encoding="utf-8"))
    }
    assert len(parts) > 30
    assert not [part for part in sorted(parts) if not any(part in name for name in names)]


def test_the_plots_of_the_race_are_shown() -> None:
    shown = {target for target, _ in _LINK.findall((CHECKOUT / "docs/benchmarks.md").read_text(encoding="utf-8"))}
    results = (CHECKOUT / "benchmarks/results").glob("*.svg")
    # Those of 200 nodes are what `make test` itself leaves here: its race is no measurement.
    plots = {f"../benchmarks/results/{plot.name}" for plot in results if "-200Nodes_" not in plot.name}
    assert not sorted(plots - shown)


@cache
def _defined(file: Path) -> frozenset[str]:
    """Names that a module defines: functions, classes, `Class.member`, and assigned names."""
    names: set[str] = set()

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    collect(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(prefix + node.target.id)
            elif isinstance(node, ast.Assign):
                names.update(prefix + target.id for target in node.targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.If | ast.Try | ast.With):
                collect(node.body, prefix)

    collect(ast.parse(file.read_text(encoding="utf-8")).body, "")
    return frozenset(names)


def citations(text: str) -> list[tuple[str, str]]:
    """`path` and `path::Name` in code spans: whatever has a slash, or ends like a file."""
    matches = [match for span in _CODE.findall(text) if (match := _CITATION.fullmatch(span))]
    pairs = [(match["path"], match["name"] or "") for match in matches]
    return [(path, name) for path, name in pairs if name or "/" in path or path.endswith((".py", ".md", ".toml"))]


def problem_with(path: str, name: str) -> str:
    """Why a citation leads nowhere; empty if it does lead somewhere."""
    file = CHECKOUT / path
    if not file.exists():
        return f"{path} does not exist"
    if name and name not in _defined(file):
        return f"{path} does not define {name}"
    return ""


@pytest.mark.parametrize("page", [ARCHITECTURE, CHECKOUT / "docs/glossary.md"], ids=_name)
def test_cited_files_and_names_exist(page: Path) -> None:
    cited = citations(_prose(page))
    assert len(cited) > 10
    assert not [problem for path, name in cited if (problem := problem_with(path, name))]


def test_the_architecture_page_has_a_row_for_every_package() -> None:
    cells = [
        line.split("|")[1] for line in ARCHITECTURE.read_text(encoding="utf-8").splitlines() if line.startswith("|")
    ]
    listed = {span for cell in cells for span in _CODE.findall(cell)}
    packages = {
        str(door.parent.relative_to(CHECKOUT))
        for root in ("scheduler", "scheduler/kube", "secondary_scheduler")
        for door in (CHECKOUT / root).glob("*/__init__.py")
    }
    packages |= {"stacks", "components", "policy", "devcluster", "benchmarks", "tests", "tools"}
    assert not sorted(packages - listed - {"scheduler/kube"})


def test_the_check_of_citations_sees_mistakes() -> None:
    assert citations("`a/b.py::C.d`, `x y`, `word`, `f()`, `pyproject.toml`") == [
        ("a/b.py", "C.d"),
        ("pyproject.toml", ""),
    ]
    assert problem_with("scheduler/nowhere.py", "")
    assert problem_with("scheduler/__init__.py", "no_such_name")
    assert not problem_with("scheduler/__init__.py", "__version__")
