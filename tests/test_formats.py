"""Formats against ml_dtypes' own description of them."""

from itertools import pairwise

import ml_dtypes
import pytest

from mxlab.errors import InputError
from mxlab.formats import E4M3, E5M2, E8M0, FORMATS, Format, element_format, get_format


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
def test_limits_are_those_of_ml_dtypes(fmt: Format) -> None:
    info = ml_dtypes.finfo(fmt.torch_dtype)  # type: ignore[no-untyped-call]
    assert fmt.max_value == float(info.max)
    assert fmt.emin == info.minexp
    assert fmt.mantissa_bits == info.nmant
    assert float(fmt.magnitude(1 if fmt.has_zero else 0)) == float(info.smallest_subnormal)
    assert 1 * fmt.signed + fmt.exponent_bits + fmt.mantissa_bits == 8


def test_largest_powers_of_two() -> None:
    assert (E4M3.emax, E5M2.emax, E8M0.emax) == (8, 15, 127)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda f: f.name)
def test_magnitude_codes_ascend(fmt: Format) -> None:
    values = [fmt.magnitude(code) for code in range(fmt.max_code + 2)]
    assert all(a < b for a, b in pairwise(values))


def test_names_and_aliases() -> None:
    assert get_format("E4M3") is get_format("float8_e4m3fn") is get_format(E4M3) is E4M3
    assert get_format("ue8m0") is E8M0


@pytest.mark.parametrize("bad", ["e4m4", "", "\x00", "e4m3" * 1000, 8, None, ["e4m3"]])
def test_unknown_format_is_one_line(bad: object) -> None:
    with pytest.raises(InputError, match="e4m3, e5m2, e8m0") as caught:
        get_format(bad)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


def test_scales_are_not_elements() -> None:
    with pytest.raises(InputError, match="'e8m0' holds scales: expected an element format"):
        element_format("e8m0")
