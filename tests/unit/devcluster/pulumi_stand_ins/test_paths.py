from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from devcluster.pulumi_stand_ins.kubernetes_provider.values import ANY, covers, overlaps, parse, render
from tests.support.selection import tries

steps = st.lists(st.text(min_size=1).filter(lambda s: s != ANY) | st.integers(0, 99), min_size=1).filter(
    lambda path: isinstance(path[0], str)
)


@settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_a_path_is_read_as_it_was_written(path: list[str | int]) -> None:
    assert parse(render(tuple(path))) == tuple(path)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("spec.containers[0].image", ("spec", "containers", 0, "image")),
        (".spec.selector", ("spec", "selector")),
        ('metadata.annotations["a.b/c"]', ("metadata", "annotations", "a.b/c")),
        ("spec.ports[*].port", ("spec", "ports", ANY, "port")),
        ("spec.*", ("spec", ANY)),
    ],
)
def test_pulumis_notation(text: str, path: tuple[str | int, ...]) -> None:
    assert parse(text) == path


def test_an_unreadable_path_says_where() -> None:
    with pytest.raises(ValueError, match="position 4"):
        parse("spec[unclosed")


def test_a_pattern_covers_its_place_and_what_is_inside_but_not_the_parent() -> None:
    assert covers(parse("spec.list[*].a"), ("spec", "list", 3, "a", "b"))
    assert not covers(parse("spec.list"), ("spec",))
    assert not covers(parse("spec.list"), ("spec", "listing"))
    assert overlaps(parse("spec.selector"), ("spec",))
