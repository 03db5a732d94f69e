"""The Grafana dashboard against Grafana's own schema: the TypeScript types that it generates from it, which know every
field of a dashboard and every option of a panel. The package comes from the registry that npm is configured for."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components._dashboard import dashboard
from tests.support.queries import panels

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm"),
]
PACKAGES = {"@grafana/schema": "13.2.3", "typescript": "5.9.3"}
OPTIONS = {
    "compilerOptions": {
        "strict": True, "noEmit": True, "module": "nodenext", "moduleResolution": "nodenext", "target": "es2022",
        "skipLibCheck": True, "types": [],
    },
    "files": ["dashboard.ts"],
}  # fmt: skip
_TYPES = {"timeseries": "TimeSeries", "stat": "Stat"}
_MODULE = "@grafana/schema/dist/esm/raw/composable/{name}/panelcfg/x/{type}PanelCfg_types.gen"
# Enumerations of strings take no literal; in JSON there are only literals.
_PLAIN = (
    "type Plain<T> = T extends string ? `${T}` : T extends (infer U)[] ? Plain<U>[]"
    " : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the schema's package and a compiler."""
    folder = tmp_path_factory.mktemp("schema")
    package = {"name": "dashboard", "private": True, "type": "module", "dependencies": PACKAGES}
    (folder / "package.json").write_text(json.dumps(package), encoding="utf-8")
    (folder / "tsconfig.json").write_text(json.dumps(OPTIONS), encoding="utf-8")
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def program(board: dict[str, Any]) -> str:
    """A program that is correct if the dashboard, and what its panels say to their kinds, are as the schema says."""
    lines = ['import type { Dashboard } from "@grafana/schema";']
    lines += [
        f'import type * as {kind} from "{_MODULE.format(name=name, type=kind)}";' for name, kind in _TYPES.items()
    ]
    lines += [_PLAIN, f"export const board: Plain<Dashboard> = {json.dumps(board)};"]
    for panel in panels(board):
        kind, number = _TYPES[panel["type"]], panel["id"]
        lines.append(f"export const options{number}: Partial<Plain<{kind}.Options>> = {json.dumps(panel['options'])};")
        custom = panel["fieldConfig"]["defaults"].get("custom")
        if custom is not None:
            lines.append(f"export const custom{number}: Plain<{kind}.FieldConfig> = {json.dumps(custom)};")
    return "\n".join(lines) + "\n"


def compile_errors(folder: Path, board: dict[str, Any]) -> list[str]:
    (folder / "dashboard.ts").write_text(program(board), encoding="utf-8")
    compiler = str(folder / "node_modules" / ".bin" / "tsc")
    done = subprocess.run([compiler, "-p", "."], cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    return done.stdout.splitlines()


def test_the_dashboard_is_as_grafanas_schema_says(folder: Path) -> None:
    assert compile_errors(folder, dashboard()) == []


def test_what_the_schema_does_not_know_is_noticed(folder: Path) -> None:
    unknown = dashboard() | {"colour": "red"}
    assert ["'\"colour\"'" in error or "colour" in error for error in compile_errors(folder, unknown)] == [True]
    wrong = dashboard()
    panel = next(each for each in panels(wrong) if each["type"] == "timeseries")
    panel["options"]["legend"]["displayMode"] = "sideways"
    assert any("sideways" in error for error in compile_errors(folder, wrong))
