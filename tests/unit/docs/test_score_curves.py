"""The picture of the scores is that of the plugins as they are now."""

from __future__ import annotations

from tools import score_curves


def test_the_committed_picture_is_current() -> None:
    assert score_curves.PICTURE.read_text(encoding="utf-8") == score_curves.picture(), "run: make curves"


def test_a_node_at_its_target_gets_the_full_score_and_none_when_it_is_full() -> None:
    for target, curve in zip((40, 60, 80), score_curves.target_load_packing().curves, strict=True):
        assert (curve.scores[target], curve.scores[100]) == (100, 0)
