"""What a rebalancer keeps over a restart: the same comes back, it is bounded, and what cannot be read is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from secondary_scheduler.rebalancing import (
    History,
    Memory,
    MoveOutcome,
    PastMove,
    UnreadableMemory,
    decode_memory,
    encode_memory,
)
from secondary_scheduler.rebalancing.history import MAX_BYTES

NAMES = st.text("abcdefgh-.", min_size=1, max_size=20)
TIMES = st.floats(min_value=0, max_value=4e9)


@st.composite
def past_moves(draw: st.DrawFn) -> PastMove:
    outcome = draw(st.none() | st.sampled_from(list(MoveOutcome)))
    return PastMove(
        (draw(NAMES), draw(NAMES), draw(NAMES)),
        draw(NAMES),
        draw(NAMES),
        draw(NAMES),
        draw(NAMES),
        draw(TIMES),
        math.nan if outcome is None else draw(TIMES),
        outcome,
        tuple(draw(st.lists(NAMES, max_size=10))) if outcome is None else (),
        draw(st.booleans()),
        draw(NAMES),
        draw(NAMES),
        draw(st.text(max_size=50)),
    )


@given(
    st.lists(past_moves(), max_size=5),
    st.dictionaries(NAMES, st.integers(1, 100), max_size=5),
    TIMES,
    st.none() | TIMES,
)
def test_what_was_kept_comes_back(
    moves: list[PastMove], overloaded: dict[str, int], at: float, trusted: float | None
) -> None:
    history = History(
        overloaded=overloaded, moves=tuple(moves), trusted_since=-math.inf if trusted is None else trusted
    )
    kept = decode_memory(encode_memory(Memory(history, at)))
    # The longest overload first. NaN is not equal to itself, and so are the moves in flight.
    ordered = dict(sorted(overloaded.items(), key=lambda entry: (-entry[1], entry[0])))
    history = replace(history, overloaded=ordered)
    assert repr(kept) == repr(Memory(history, at))


def test_moves_in_flight_are_kept_when_there_are_too_many() -> None:
    def move(number: int, outcome: MoveOutcome | None) -> PastMove:
        name = f"{number:04}-{'x' * 240}"
        return PastMove(("Deployment", name, name), name, name, name, name, float(number), outcome=outcome)

    ended = [move(number, MoveOutcome.LANDED) for number in range(990)]
    flying = [move(number, None) for number in range(990, 1000)]
    text = encode_memory(Memory(History(moves=(*flying, *ended))))
    assert len(text.encode()) <= MAX_BYTES
    kept = decode_memory(text).history
    assert [past.uid for past in kept.in_flight] == [past.uid for past in flying]
    # The newest are left.
    assert kept.moves[-1].uid == ended[-1].uid


def test_of_many_equally_good_nodes_ten_are_named_and_the_rest_counts_as_planned() -> None:
    targets = tuple(f"n{number}" for number in range(100))
    past = PastMove(("Deployment", "a", "b"), "a/p", "u", "hot", "n0", 1.0, targets=targets)
    (kept,) = decode_memory(encode_memory(Memory(History(moves=(past,))))).history.moves
    assert len(kept.targets) == 10
    assert not kept.all_targets


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"roundAt": "now"}', '{"roundAt": 1e999}', '{"moves": [{}]}', '{"overloaded": [1]}']
)
def test_what_somebody_else_wrote_is_refused(text: str) -> None:
    with pytest.raises(UnreadableMemory):
        decode_memory(text)
