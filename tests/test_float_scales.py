"""Float32 scales: exact both ways, and nothing else passes for one."""

import math
import struct

import numpy as np
import pytest

from mxlab.arrays import deinterleave, interleave
from mxlab.errors import InputError
from mxlab.float_scales import from_words, to_words
from mxlab.scale import scale_value


def test_every_byte_is_its_float32() -> None:
    words = to_words(np.arange(256, dtype=np.uint8))
    for byte, word in enumerate(words.tolist()):
        value = struct.unpack("<f", struct.pack("<I", word))[0]
        assert value == scale_value(byte) or (byte == 255 and math.isnan(value))
    np.testing.assert_array_equal(from_words(words), np.arange(256))
    assert from_words(np.array([0xFFC00001], np.uint32)).tolist() == [255]  # any NaN


@pytest.mark.parametrize("value", [0.0, 0.3, -1.0, math.inf, 2.0**-128, 1.5, 1 + 2**-23])
def test_no_byte_for_it(value: float) -> None:
    buffer = interleave(np.full((3, 2), 120, np.uint8), "deepgemm_float32")
    buffer.view("<f4")[5] = value  # row 1 of column 1
    with pytest.raises(InputError, match=r"float32 scale at \(\d+,\) is .*: expected 2\^-127 to"):
        deinterleave(buffer, 3, 2, "deepgemm_float32")


def test_strides_are_those_of_deepgemm_on_hopper() -> None:
    """A (mn, K/32) float32 tensor with strides (1, round_up(mn, 4))."""
    scales = np.arange(1, 31, dtype=np.uint8).reshape(6, 5)
    numbers = interleave(scales, "deepgemm_float32").view("<f4")
    view = np.lib.stride_tricks.as_strided(numbers, (6, 5), (4, 8 * 4))
    np.testing.assert_array_equal(view, np.exp2(scales.astype(np.float32) - 127))
