"""Writes the Grafana dashboard of the scheduler to deploy/grafana from the table of panels in the components.

With `--check` it compares with what is checked in, and ends with 1 where that is not current.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from components._dashboard import dashboard_text

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "deploy" / "grafana" / "secondary-scheduler.json"


def main(arguments: list[str]) -> int:
    """Write the file, or compare it."""
    console, name, text = Console(highlight=False), OUTPUT.relative_to(ROOT), dashboard_text()
    if "--check" not in arguments:
        OUTPUT.parent.mkdir(parents=True, exist_ok=True)
        OUTPUT.write_text(text, encoding="utf-8")
        console.print(f"{name}: {len(text)} bytes")
    elif not OUTPUT.exists() or OUTPUT.read_text(encoding="utf-8") != text:
        console.print(f"{name}: is not current; run make dashboard")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
