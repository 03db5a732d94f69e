"""Quantities against exact rational arithmetic, and against what Kubernetes prints."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from scheduler.kube.primitives import quantity

SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip


@st.composite
def quantities(draw: st.DrawFn) -> tuple[str, Fraction]:
    sign = draw(st.sampled_from(["", "+", "-"]))
    whole = draw(st.text("0123456789", min_size=0, max_size=22))
    fraction = draw(st.none() | st.text("0123456789", min_size=0, max_size=22))
    if not whole and not fraction:
        whole = "0"
    number = whole if fraction is None else f"{whole}.{fraction}"
    exponent = draw(st.none() | st.integers(-30, 30))
    if exponent is None:
        suffix = draw(st.sampled_from(sorted(SUFFIXES)))
        factor = SUFFIXES[suffix]
    else:
        suffix = f"{draw(st.sampled_from('eE'))}{exponent}"
        factor = Fraction(10) ** exponent
    magnitude = Fraction(int(whole + (fraction or "") or "0"), 10 ** len(fraction or "")) * factor
    return f"{sign}{number}{suffix}", -magnitude if sign == "-" else magnitude


def rounded_away(exact: Fraction) -> int:
    magnitude = -(-abs(exact).numerator // abs(exact).denominator)
    magnitude = min(magnitude, 2**63 - 1)
    return -magnitude if exact < 0 else magnitude


@given(quantities())
def test_values_are_exact_rounded_away_from_zero_and_saturated(case: tuple[str, Fraction]) -> None:
    text, exact = case
    assert quantity.quantity_value(text) == rounded_away(exact)
    if abs(exact) < 2**63 - 1:  # a binary quantity is capped before it is counted in thousandths
        assert quantity.quantity_milli_value(text) == rounded_away(exact * 1000)


@given(quantities())
def test_the_canonical_form_means_the_same_and_is_stable(case: tuple[str, Fraction]) -> None:
    text, exact = case
    printed = quantity.canonical(text)
    assert quantity.canonical(printed) == printed
    again = quantity.parse_quantity(printed)
    value = Fraction(again.mantissa) * Fraction(10) ** again.exponent
    if value != exact:
        # Precision ends at nano, and binary quantities at int64.
        assert value == Fraction(rounded_away(exact * 10**9), 10**9) or abs(exact) >= 2**63 - 1


def test_values_equal_those_that_go_computes() -> None:
    lines = (Path(__file__).parent / "data" / "quantities.txt").read_text().splitlines()[1:]
    assert len(lines) == 500
    for line in lines:
        text, value, milli = line.split()
        assert (text, quantity.quantity_value(text), quantity.quantity_milli_value(text)) == (
            text,
            int(value),
            int(milli),
        )


@given(st.text("0123456789.eEinumkKMGTP+- ", max_size=12))
def test_any_text_either_has_a_value_or_a_clear_error(text: str) -> None:
    try:
        value = quantity.quantity_value(text)
    except quantity.QuantityError as error:
        value = 0 if "is not a Kubernetes quantity" in str(error) else 2**64
    assert -(2**63) < value < 2**63


@pytest.mark.parametrize(
    ("text", "value", "milli", "printed"),
    [
        # From the examples of quantity.go and quantity_test.go.
        ("0", 0, 0, "0"),
        ("1.5", 2, 1500, "1500m"),
        ("1.5Gi", 1610612736, 1610612736000, "1536Mi"),
        ("100m", 1, 100, "100m"),
        ("0.1m", 1, 1, "100u"),
        ("12e6", 12000000, 12000000000, "12e6"),
        ("1E", 10**18, 2**63 - 1, "1E"),
        ("1000Ki", 1024000, 1024000000, "1000Ki"),
        ("1024Mi", 2**30, 2**30 * 1000, "1Gi"),
        ("0.5Ki", 512, 512000, "512"),
        ("0.0001Ki", 1, 103, "102400u"),
        ("1000", 1000, 1000000, "1k"),
        ("1000k", 1000000, 1000000000, "1M"),
        ("27856273598Gi", 2**63 - 1, 2**63 - 1, "9223372036854775807"),
        ("-1.5", -2, -1500, "-1500m"),
        ("9223372036854775807Ki", 2**63 - 1, 2**63 - 1, "9223372036854775807"),
        (".5", 1, 500, "500m"),
        ("5.", 5, 5000, "5"),
        ("1e-30", 1, 1, "1e-9"),
        ("1n", 1, 1, "1n"),
        ("1e3", 1000, 1000000, "1e3"),
        ("1.1Mi", 1153434, 1153433600, "1153433600m"),
        (" 7 ", 7, 7000, "7"),
    ],
)
def test_known_quantities(text: str, value: int, milli: int, printed: str) -> None:
    assert (quantity.quantity_value(text), quantity.quantity_milli_value(text), quantity.canonical(text)) == (
        value,
        milli,
        printed,
    )


@pytest.mark.parametrize(
    "text", ["", " ", ".", "-", "Ki", "1 Gi", "1ki", "1K", "e3", "1e", "1.2.3", "0x10", "1_000", "١", "NaN", "1Ki5",
             "9" * 300]
)  # fmt: skip
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(quantity.QuantityError, match="is not a Kubernetes quantity"):
        quantity.quantity_value(text)


def test_an_error_quotes_only_the_beginning_of_a_long_text() -> None:
    with pytest.raises(quantity.QuantityError) as caught:
        quantity.quantity_value("x" * 100_000)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999", "1e99999999999999999999", "-1e999999999"])
def test_huge_exponents_cost_no_time_and_saturate(text: str) -> None:
    expected = 1 if "e-" in text else 2**63 - 1
    assert abs(quantity.quantity_value(text)) == expected
    assert abs(quantity.quantity_milli_value(text)) == expected


def test_numbers_from_hand_written_files_are_accepted_and_other_types_refused() -> None:
    assert quantity.quantity_milli_value(2) == 2000
    assert quantity.quantity_milli_value(0.5) == 500
    assert quantity.quantity_value(1e-7) == 1
    for wrong in (True, None, [1]):
        with pytest.raises(quantity.QuantityError):
            quantity.quantity_value(wrong)  # type: ignore[arg-type]


def test_amounts_are_printed_as_kubernetes_prints_them() -> None:
    assert quantity.format_value(2**34) == "16Gi"
    assert quantity.format_value(1000, quantity.QuantityFormat.DECIMAL_SI) == "1k"
    assert quantity.format_value(512) == "512"
    assert quantity.format_milli(1500) == "1500m"
    assert quantity.format_milli(2000) == "2"


@given(quantities(), quantities())
def test_exact_quantities_compare_as_the_numbers_that_they_are(
    left: tuple[str, Fraction], right: tuple[str, Fraction]
) -> None:
    # What is written in powers of two is cut at int64 as it is read.
    numbers = [
        min(max(exact, -quantity.INT64_MAX), quantity.INT64_MAX) if text.endswith("i") else exact
        for text, exact in (left, right)
    ]
    first, second = quantity.exact_quantity(left[0]), quantity.exact_quantity(right[0])
    assert (first < second, first == second) == (numbers[0] < numbers[1], numbers[0] == numbers[1])


@pytest.mark.parametrize("text", ["1e4294967297", f"1e{'9' * 200}"])
def test_an_exponent_beyond_all_bounds_makes_a_large_number_not_a_small_one(text: str) -> None:
    assert quantity.quantity_value(text) == 2**63 - 1
    assert quantity.exact_quantity(text) > quantity.exact_quantity("9E")
    assert quantity.exact_quantity(text.replace("e", "e-")) < quantity.exact_quantity("1n")
