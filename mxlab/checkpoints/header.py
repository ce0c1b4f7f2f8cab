"""Read a safetensors header: 8 bytes of length, then JSON; nothing else of the file is touched.

The safetensors library reads headers too, and the tests hold this reader against it: both accept
and refuse the same files. It is not used here because a person who inspects a checkpoint has the
base install (no NumPy, no torch), because its errors do not name the tensor, because it keeps the
last of two entries of one name without a word, and because its NumPy side cannot read E8M0.
"""

from collections.abc import Mapping
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

from mxlab.checkpoints.tensors import DTYPE_BITS, Tensor
from mxlab.errors import InputError, nearest, quote
from mxlab.models.config import parse_json, type_name

#: bytes of a header: the format's own limit
MAX_HEADER = 100_000_000
#: tensors of a whole checkpoint: twenty times the 91,000 of the largest public ones
MAX_TENSORS = 2_000_000
MAX_NAME = 1_000
_MAX_AXES = 32
_MAX_COUNT = 2**63


def strict_json(data: bytes, name: str, what: str) -> dict[str, Any]:
    """Return the JSON object in ``data``; messages begin with ``name`` and say it is no ``what``.

    Raises InputError as ``parse_json`` does, or when the value is not an object.

    >>> strict_json(b'{"a": 1}', "'x'", "an index")
    {'a': 1}
    """
    try:
        value = parse_json(data, name)
    except InputError as error:
        raise InputError(str(error).replace("expected a config.json", f"expected {what}")) from None
    if not isinstance(value, dict):
        raise InputError(f"{name} is {type_name(value)}: expected {what}, a JSON object")
    return value


def check_name(name: str, where: str) -> str:
    """Return a tensor's name, or raise InputError where no writer could have written it."""
    if len(name) > MAX_NAME:
        raise InputError(
            f"{where} names a tensor of {len(name)} characters: expected at most {MAX_NAME}"
        )
    surrogate = not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name)
    if "\0" in name or surrogate:
        raise InputError(f"{where} names the tensor {ascii(name)[:80]}: expected Unicode text")
    return name


def _whole(value: object, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= high


def _numbers(value: object, high: int) -> tuple[int, ...] | None:
    """Return a list of sizes as a tuple, None where it is anything else."""
    if not isinstance(value, list) or not all(_whole(item, high) for item in value):
        return None
    return tuple(value)


def _tensor(name: str, entry: object, file: str, where: str, start: int) -> Tensor:
    at = f"{where}: tensor {quote(name)}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise InputError(f"{at} is {type_name(entry)}: expected dtype, shape and data_offsets")
    dtype = entry["dtype"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        hint = nearest(dtype, DTYPE_BITS) if isinstance(dtype, str) else ""
        hint = hint.upper().replace("; DID YOU MEAN", "; did you mean")
        shown = quote(dtype) if isinstance(dtype, str) else type_name(dtype)
        raise InputError(f"{at} has dtype {shown}: expected one of safetensors'{hint}")
    shape = _numbers(entry["shape"], _MAX_COUNT)
    if shape is None or len(shape) > _MAX_AXES or prod(shape) > _MAX_COUNT:
        raise InputError(
            f"{at} has an impossible shape: expected at most {_MAX_AXES} sizes from 0, "
            "of at most 2^63 elements"
        )
    offsets = _numbers(entry["data_offsets"], _MAX_COUNT)
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise InputError(f"{at} has impossible data_offsets: expected [begin, end], 0 <= begin")
    begin, end = offsets
    bits = prod(shape) * DTYPE_BITS[dtype]
    if bits % 8 or bits // 8 != end - begin:
        raise InputError(
            f"{at} has {end - begin} bytes: expected {-(-bits // 8)} for {dtype} {list(shape)}"
        )
    return Tensor(name, file, dtype, shape, start + begin, end - begin)


def _check_metadata(value: object, where: str) -> None:
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for text in value.values()):
        raise InputError(f"{where}: __metadata__ is not an object of strings")


def _check_layout(tensors: list[Tensor], start: int, size: int, where: str) -> None:
    """Refuse what a writer never writes: overlaps, holes, data that ends before or after the file.

    Source: the safetensors format, "the byte buffer needs to be entirely indexed".
    """
    ordered = sorted(tensors, key=lambda t: (t.offset or 0, t.nbytes or 0))
    if ordered and ordered[0].offset != start:
        raise InputError(
            f"{where}: tensor {quote(ordered[0].name)} begins at byte "
            f"{(ordered[0].offset or 0) - start} of the data: expected 0"
        )
    for before, after in pairwise(ordered):
        end = (before.offset or 0) + (before.nbytes or 0)
        if after.offset != end:
            fault = "overlaps" if (after.offset or 0) < end else "leaves a hole after"
            raise InputError(
                f"{where}: tensor {quote(after.name)} begins at byte {(after.offset or 0) - start} "
                f"of the data and {fault} {quote(before.name)}: expected byte {end - start}"
            )
    end = (ordered[-1].offset or 0) + (ordered[-1].nbytes or 0) if ordered else start
    if end != size:
        fault = "it is cut short" if size < end else "bytes are left over"
        raise InputError(f"{where} holds {size} bytes and its header describes {end}: {fault}")


def read_header(path: Path, file: str) -> list[Tensor]:
    """Return the tensors of one safetensors file, in the header's order.

    ``file`` is the name that messages and tensors carry. Reads 8 bytes and the header, at most
    100 MB. Raises InputError: no such file, no safetensors, a header that lies about the file.
    Source: safetensors 0.8, format and checks.
    """
    where = quote(file)
    try:
        with path.open("rb") as stream:
            size = path.stat().st_size
            start = stream.read(8)
            length = int.from_bytes(start, "little")
            if len(start) < 8:
                raise InputError(f"{where} holds {size} bytes: expected a safetensors file")
            if not 2 <= length <= MAX_HEADER:
                raise InputError(
                    f"{where} names a header of {length} bytes: expected 2..{MAX_HEADER}; "
                    "this is not a safetensors file"
                )
            if 8 + length > size:
                raise InputError(
                    f"{where} holds {size} bytes and names a header of {length}: it is cut short, "
                    "or not a safetensors file"
                )
            data = stream.read(length)
    except OSError as error:
        raise InputError(f"cannot read {where}: {error.strerror or 'unreadable'}") from None
    if not data.startswith(b"{"):
        raise InputError(f"{where} has no JSON header: expected a safetensors file")
    header = strict_json(data, where, "a safetensors header")
    metadata = header.pop("__metadata__", None)
    if metadata is not None:
        _check_metadata(metadata, where)
    if len(header) > MAX_TENSORS:
        raise InputError(f"{where} names {len(header)} tensors: expected at most {MAX_TENSORS}")
    tensors = [
        _tensor(check_name(name, where), entry, file, where, 8 + length)
        for name, entry in header.items()
    ]
    _check_layout(tensors, 8 + length, size, where)
    return tensors
