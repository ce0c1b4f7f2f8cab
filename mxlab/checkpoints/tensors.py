"""What is known of a checkpoint's tensors before any of their data is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from mxlab.checkpoints.finding import Problem

#: dtype as safetensors spells it -> bits of one element (safetensors 0.8)
DTYPE_BITS: Mapping[str, int] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}

#: 16-, 32- and 64-bit floats: weights that are not quantised, scales that are numbers
FLOATS = ("F16", "BF16", "F32", "F64")
#: E4M3, E5M2 and AMD's variants of them
FP8 = ("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ")
#: dtypes whose bytes can be E8M0 exponents
EXPONENTS = ("U8", "F8_E8M0")


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a file; dtype, shape and place are None where only an index names it.

    ``offset`` counts bytes from the start of the file, ``nbytes`` is the length of the data.
    """

    name: str
    file: str
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    offset: int | None = None
    nbytes: int | None = None

    @property
    def count(self) -> int:
        """Number of elements, 0 where unknown."""
        return prod(self.shape) if self.shape is not None else 0


@dataclass(slots=True, kw_only=True)
class Checkpoint:
    """The tensors of one checkpoint and what the files beside them say.

    ``kind`` is file, folder, index (names only) or config. ``elsewhere`` holds the names that an
    index places in files that were not opened. ``part`` says so when the file is one shard of a
    larger checkpoint, else it is "".
    """

    path: str
    kind: str
    tensors: dict[str, Tensor] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    config: Mapping[str, Any] | None = None
    elsewhere: frozenset[str] = frozenset()
    part: str = ""
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
