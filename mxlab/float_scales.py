"""Scales as float32 numbers: 2^(byte - 127), as DeepGEMM takes them on Hopper."""

import numpy as np
from numpy.typing import NDArray

from mxlab.errors import InputError
from mxlab.mxarray import Bytes
from mxlab.scale import MANTISSA

_SUBNORMAL, _NAN = 0x00400000, 0x7FC00000  # 2^-127, and the quiet NaN

#: byte -> float32 bits
_BITS = np.arange(256, dtype="<u4") << np.uint32(MANTISSA)
_BITS[0], _BITS[255] = _SUBNORMAL, _NAN


def to_words(scales: Bytes) -> NDArray[np.uint32]:
    """Return the float32 bits of E8M0 bytes: exact, 0 a subnormal, 255 NaN; the same shape.

    >>> [hex(word) for word in to_words(np.array([0, 127, 255], np.uint8))]
    ['0x400000', '0x3f800000', '0x7fc00000']
    """
    return np.asarray(_BITS[scales], np.uint32)


def from_words(words: NDArray[np.uint32]) -> Bytes:
    """Return the E8M0 bytes of float32 bits.

    Raises InputError where one is no power of two from 2^-127 to 2^127 and no NaN: E8M0 has no
    byte for it, for 0.0 (which some write in place of byte 0) and infinity neither.

    >>> from_words(np.array([0x3F800000], np.uint32)).tolist()
    [127]
    """
    found, known = parse_words(words)
    if not known.all():
        at = tuple(int(i) for i in np.argwhere(~known)[0])
        value = float(words[at].view(np.float32))
        raise InputError(
            f"float32 scale at {at} is {value!r}: expected 2^-127 to 2^127, a power of two, or NaN"
        )
    return found


def parse_words(words: NDArray[np.uint32]) -> tuple[Bytes, NDArray[np.bool_]]:
    """Return the E8M0 bytes of float32 bits, and which of them there is a byte for.

    >>> parse_words(np.array([0, 0x3F800000], np.uint32))[1].tolist()
    [False, True]
    """
    nan = (words & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    found = np.where(nan, 255, words >> np.uint32(MANTISSA)).astype(np.uint8)
    return found, nan | (to_words(found) == words)
