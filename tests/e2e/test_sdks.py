"""SDKs of the component package for TypeScript and Go, by the engine's generators, and the examples checked with them.

That the examples run is in tests/e2e/test_programs_in_other_languages.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.languages.building import compiler, generated_sdks, go_program, run, typescript_program

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("npm") is None or shutil.which("go") is None, reason="needs npm and Go"),
]


@pytest.fixture(scope="module")
def sdks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an SDK for each language."""
    return generated_sdks(tmp_path_factory.mktemp("sdks"))


def test_the_typescript_sdk_builds_and_the_example_type_checks(sdks: Path, tmp_path: Path) -> None:
    program = typescript_program(sdks, tmp_path / "program")
    run(program, compiler(program), "--noEmit")
    wrong = (program / "index.ts").read_text().replace("settings: {", "setting: {")
    (program / "index.ts").write_text(wrong)
    with pytest.raises(AssertionError, match="'setting' does not exist"):
        run(program, compiler(program), "--noEmit")


def test_the_go_sdk_builds_and_go_vet_accepts_the_example(sdks: Path, tmp_path: Path) -> None:
    program = go_program(sdks, tmp_path / "program")
    run(program, "go", "vet", "./...")
    wrong = (program / "main.go").read_text().replace("Settings:", "Setting:")
    (program / "main.go").write_text(wrong)
    with pytest.raises(AssertionError, match="unknown field Setting"):
        run(program, "go", "vet", "./...")
