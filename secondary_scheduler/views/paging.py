"""Pages of long tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

PAGE = 100
"""Rows of one."""
_Row = TypeVar("_Row")


def page_of(rows: Sequence[_Row], page: int) -> tuple[Sequence[_Row], int, int]:
    """Return the rows of a page, its number and how many there are: from 1, the last one for a larger number."""
    pages = max(1, -(-len(rows) // PAGE))
    page = min(page, pages)
    return rows[(page - 1) * PAGE : page * PAGE], page, pages
