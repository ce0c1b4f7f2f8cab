"""Read a bounded, evenly spaced part of a tensor's bytes.

Offsets come from a header whose every number was checked against the file, so a plain read serves
where the safetensors library would need torch: its NumPy side has no E8M0, E4M3 or bfloat16. The
tests hold these bytes against the library's.
"""

import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mxlab.checkpoints.tensors import Tensor
from mxlab.errors import InputError, quote

#: bytes read of one tensor, and of all of them
PER_TENSOR = 64 << 10
TOTAL = 32 << 20
_CHUNKS = 16
_UNIT = 8  # chunks begin and end at a multiple of this many bytes: whole elements of any dtype


@dataclass(frozen=True, slots=True)
class Sample:
    """Some of a tensor's bytes; ``complete`` when they are all of them."""

    tensor: Tensor
    data: bytes
    complete: bool


def spans(nbytes: int, budget: int) -> list[tuple[int, int]]:
    """Return (begin, length) of evenly spaced chunks of at most ``budget`` bytes in all.

    >>> spans(100, 200), spans(1 << 20, 1024)[:2]
    ([(0, 100)], [(0, 64), (69896, 64)])
    """
    if nbytes <= budget:
        return [(0, nbytes)]
    length = max(_UNIT, budget // _CHUNKS // _UNIT * _UNIT)
    count = max(1, budget // length)
    last = (nbytes - length) // _UNIT
    return [(last * at // max(1, count - 1) * _UNIT, length) for at in range(count)]


def share(tensors: int, total: int = TOTAL) -> int:
    """Return the bytes that each of some tensors may have read."""
    return max(512, min(PER_TENSOR, total // max(1, tensors)))


def read_samples(
    tensors: Iterable[Tensor], paths: dict[str, Path], budget: int
) -> Iterator[Sample]:
    """Yield a sample of each tensor, in file order. Raises InputError when one cannot be read."""
    placed = [t for t in tensors if t.offset is not None and t.nbytes and t.file in paths]
    files: dict[str, list[Tensor]] = {}
    for tensor in sorted(placed, key=lambda t: (t.file, t.offset or 0)):
        files.setdefault(tensor.file, []).append(tensor)
    for file, members in files.items():
        try:
            with paths[file].open("rb", buffering=0) as stream:
                for tensor in members:
                    parts = []
                    for begin, length in spans(tensor.nbytes or 0, budget):
                        stream.seek((tensor.offset or 0) + begin)
                        parts.append(stream.read(length))
                    data = b"".join(parts)
                    if len(data) < min(budget, tensor.nbytes or 0) // 2:
                        raise InputError(f"{quote(file)} was cut short while it was read")
                    yield Sample(tensor, data, len(data) == tensor.nbytes)
        except OSError as error:
            reason = error.strerror or "unreadable"
            raise InputError(f"cannot read {quote(file)}: {reason}") from None


def words(data: bytes, width: int) -> "array[int]":
    """Return little-endian unsigned words of 2, 4 or 8 bytes.

    >>> list(words(b"\\x00\\x00\\x80\\x3f", 4)) == [0x3F800000]
    True
    """
    found: array[int] = array({2: "H", 4: "I", 8: "Q"}[width])
    found.frombytes(data[: len(data) // width * width])
    if sys.byteorder == "big":
        found.byteswap()
    return found
