"""Open arrays in .npy, .npz and .safetensors files: never unpickled, mapped where possible.

A file's own claims about its size are checked before anything is allocated.
"""

import stat
import zipfile
import zlib
from collections.abc import Collection, Iterable
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mxlab.errors import InputError, nearest, quote

MAX_MEMBER = 4 << 30  # bytes of one array inside an .npz, which cannot be mapped
_MAX_MEMBERS = 1000
_MAX_HEADER = 10_000

#: dtypes of safetensors -> NumPy's; E4M3 and E5M2 are read as codes, E8M0 as bytes
_SAFETENSORS = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "bfloat16",
    "F8_E4M3": "u1",
    "F8_E5M2": "u1",
    "F8_E8M0": "u1",
    "U8": "u1",
    "I32": "<i4",
    "U32": "<u4",
}
_DAMAGED = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    TypeError,
    SyntaxError,
    MemoryError,
    OverflowError,
    RecursionError,
    NotImplementedError,
    RuntimeError,  # an encrypted member of a zip
    zipfile.BadZipFile,
    zlib.error,
)


def _bfloat16() -> np.dtype[Any]:
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


def regular(path: str, what: str) -> Path:
    """Return the path of a regular file, or raise InputError.

    >>> regular("/dev/null", "a .npy file")
    Traceback (most recent call last):
    mxlab.errors.InputError: '/dev/null' is not a regular file: expected a .npy file
    """
    found = Path(path)
    try:
        mode = found.stat().st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no such name can exist"
        raise InputError(f"cannot read {quote(path)}: {reason}") from None
    if not stat.S_ISREG(mode):
        raise InputError(f"{quote(path)} is not a regular file: expected {what}")
    return found


def _checked(array: NDArray[Any], name: str) -> NDArray[Any]:
    if array.dtype.name.startswith("void") and array.dtype.names is None:
        if array.dtype.itemsize == 2:  # how NumPy saves ml_dtypes' bfloat16
            return array.view(_bfloat16())
        if array.dtype.itemsize == 1:  # and float8
            return array.view(np.uint8)
    if array.dtype.hasobject or array.dtype.names is not None:
        raise InputError(f"{name} holds {quote(str(array.dtype))}: expected an array of numbers")
    return array


def _npy_header(stream: BinaryIO, name: str) -> tuple[int, np.dtype[Any]]:
    """Return the number of elements and dtype of a .npy stream, read up to its data."""
    version = np.lib.format.read_magic(stream)
    reader: Any = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if reader is None:
        raise InputError(f"{name} is .npy version {version}: expected 1.0 or 2.0")
    shape, _, dtype = reader(stream, max_header_size=_MAX_HEADER)
    return prod(shape), dtype


def open_npy(path: str) -> NDArray[Any]:
    """Map a .npy file. Raises InputError: no such file, pickled objects, damaged.

    Source: NumPy's .npy format 1.0 and 2.0.
    """
    found, name = regular(path, "a .npy file"), quote(path)
    try:
        with found.open("rb") as stream:
            count, dtype = _npy_header(stream, name)
            held = found.stat().st_size - stream.tell()
        if dtype.hasobject:
            raise InputError(f"{name} holds pickled objects: expected an array of numbers")
        if count * dtype.itemsize != held:
            raise InputError(
                f"{name} has {held} bytes of data: expected {count * dtype.itemsize}, as its "
                "header says"
            )
        if count == 0:
            return _checked(np.load(found, allow_pickle=False), name)
        return _checked(np.lib.format.open_memmap(found, mode="r"), name)
    except InputError:
        raise
    except _DAMAGED as error:
        raise _no(name, "a .npy file", error) from None


def _no(name: str, what: str, error: BaseException) -> InputError:
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
    return InputError(f"{name} is not {what}, or damaged: {reason or type(error).__name__}")


def open_npz(path: str, names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return those arrays of a .npz file whose name is in ``names``.

    Raises InputError as ``open_npy`` does, for members over 4 GiB and for one that holds more or
    less than its header says.
    """
    found, name = regular(path, "a .npz file"), quote(path)
    arrays = {}
    try:
        with zipfile.ZipFile(found) as archive:
            members = archive.infolist()
            if len(members) > _MAX_MEMBERS:
                raise InputError(f"{name} has {len(members)} members: expected at most 1000")
            for member in members:
                key = member.filename.removesuffix(".npy")
                if key not in names or not member.filename.endswith(".npy"):
                    continue
                where = f"{quote(key)} in {name}"
                if member.file_size > MAX_MEMBER:
                    raise InputError(
                        f"{where} has {member.file_size} bytes: expected at most {MAX_MEMBER}; "
                        "save it as .npy, which is mapped"
                    )
                with archive.open(member) as stream:
                    count, dtype = _npy_header(stream, where)  # type: ignore[arg-type]
                    held = member.file_size - stream.tell()
                if dtype.hasobject or count * dtype.itemsize != held:
                    what = "pickled objects" if dtype.hasobject else f"{held} bytes of data"
                    raise InputError(f"{where} holds {what}: expected what its header says")
                with archive.open(member) as stream:
                    read: Any = np.lib.format.read_array(
                        stream, allow_pickle=False, max_header_size=_MAX_HEADER
                    )
                arrays[key] = _checked(read, where)
    except InputError:
        raise
    except _DAMAGED as error:
        raise _no(name, "a .npz file", error) from None
    return arrays


def open_tensors(path: str, names: Iterable[str]) -> dict[str, tuple[NDArray[Any], str]]:
    """Map tensors of a safetensors file, folder or index: name -> (array, safetensors dtype).

    Raises InputError for a name that is not there, and for dtypes that are none of floats, bytes,
    FP8 or 32-bit integers.
    """
    from mxlab.checkpoints.source import open_checkpoint

    held = open_checkpoint(path)
    arrays = {}
    for name in names:
        tensor = held.tensors.get(name)
        if tensor is None:
            raise InputError(
                f"{quote(path)} has no tensor {quote(name)}{nearest(name, held.tensors)}"
            )
        if tensor.file not in held.paths or tensor.offset is None or tensor.shape is None:
            raise InputError(f"tensor {quote(name)} is in {quote(tensor.file)}, which is not here")
        kind = _SAFETENSORS.get(tensor.dtype or "")
        if kind is None:
            raise InputError(
                f"tensor {quote(name)} is {tensor.dtype}: expected {', '.join(_SAFETENSORS)}"
            )
        dtype = _bfloat16() if kind == "bfloat16" else np.dtype(kind)
        if not prod(tensor.shape):
            arrays[name] = (np.zeros(tensor.shape, dtype), str(tensor.dtype))
            continue
        try:
            data = np.memmap(
                held.paths[tensor.file],
                np.uint8,
                mode="r",
                offset=tensor.offset,
                shape=(tensor.nbytes or 0,),
            )
        except (OSError, ValueError) as error:
            raise _no(quote(path), "a safetensors file", error) from None
        arrays[name] = (data.view(dtype).reshape(tensor.shape), str(tensor.dtype))
    return arrays


def tensor_names(path: str) -> list[str]:
    """Return the names of a checkpoint's tensors; raise InputError where it cannot be opened."""
    from mxlab.checkpoints.source import open_checkpoint

    return list(open_checkpoint(path).tensors)
