"""Which stacks are those of production, by their names."""

from __future__ import annotations

import pytest

from stacks.installing import is_production


@pytest.mark.parametrize(
    ("stack", "production"),
    [
        ("prod", True),
        ("prod-eu-1", True),
        ("production", True),
        ("openshift-prod", True),
        ("eu_PROD2", True),
        ("nonprod", False),
        ("reproduction", False),
        ("local", False),
        ("staging", False),
    ],
)
def test_a_word_that_begins_with_prod_tells(stack: str, production: bool) -> None:
    assert is_production(stack) is production
