"""The bounds that docs/security.md shows are those of the code.

`PIN=1 pytest tests/unit/docs/test_bounds.py` writes the table again.
"""

from __future__ import annotations

import os
from pathlib import Path

from scheduler.kube.model.bounds import table

PAGE = Path(__file__).parents[3] / "docs/security.md"
BEGIN, END = "<!-- bounds -->\n", "\n<!-- end of bounds -->"


def test_the_page_shows_the_bound_of_every_list_and_map() -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    shown, end, after = rest.partition(END)
    assert end, "the page has the marks between which the table stands"
    if os.environ.get("PIN") == "1":
        PAGE.write_text(f"{before}{BEGIN}{table()}{END}{after}", encoding="utf-8")
        return
    assert shown == table(), "bounds changed; write them with PIN=1 pytest tests/unit/docs/test_bounds.py"
