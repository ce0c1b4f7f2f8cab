"""Array files are hostile: pickles, lies about sizes, cut files, zip bombs, pipes."""

import io
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from mxlab.array_files import open_npy, open_npz, open_tensors
from mxlab.errors import InputError


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    body = text.encode("latin1") + b"\n"
    length = struct.pack("<H" if version[:1] == b"\x01" else "<I", len(body))
    return b"\x93NUMPY" + version + length + body


def descr(shape: str, dtype: str = "'<f4'") -> str:
    return f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}"


class Canary:
    """Unpickling it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def hostile(tmp_path: Path) -> dict[str, bytes]:
    good = io.BytesIO()
    np.save(good, np.ones((4, 32), np.float32))
    return {
        "empty": b"",
        "text": b"hello",
        "cut": good.getvalue()[:-1],
        "longer": good.getvalue() + b"\0",
        "header only": header(descr("(4, 32)")),
        "huge": header(descr("(99999999999, 99999999999)")) + b"\0" * 64,
        "negative": header(descr("(-4, 32)")) + b"\0" * 512,
        "huge integer": header(descr("(" + "9" * 5000 + ",)")),
        "deep": header("(" * 3000 + ")" * 3000),
        "no dict": header("[]"),
        "bad dtype": header(descr("(4,)", "'<f3'")),
        "long header": header(descr("(4,)") + " " * 20_000),
        "version 9": header(descr("(4,)"), b"\x09\x00"),
        "objects": header(descr("(1,)", "'|O'")) + pickle.dumps(Canary(tmp_path / "ran")),
        "pickle": pickle.dumps(Canary(tmp_path / "ran")),
        "code": header("__import__('os').getpid()"),
        "structured": header(descr("(1,)", "[('a', '<f4'), ('b', '<f4')]")) + b"\0" * 8,
    }


def test_hostile_npy_files_are_one_line(tmp_path: Path) -> None:
    for name, data in hostile(tmp_path).items():
        path = tmp_path / "x.npy"
        path.write_bytes(data)
        with pytest.raises(InputError) as caught:
            open_npy(str(path))
        text = str(caught.value)
        assert "\n" not in text and "x.npy" in text and len(text) < 400, name
    assert not (tmp_path / "ran").exists()


def test_hostile_npz_members_are_one_line(tmp_path: Path) -> None:
    for name, data in hostile(tmp_path).items():
        path = tmp_path / "x.npz"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("codes.npy", data)
        with pytest.raises(InputError) as caught:
            open_npz(str(path), ["codes"])
        assert "\n" not in str(caught.value) and "x.npz" in str(caught.value), name
        assert open_npz(str(path), ["scales"]) == {}  # what is not asked for is not read
    assert not (tmp_path / "ran").exists()


def test_damaged_and_boundless_archives(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, codes=np.arange(4096, dtype=np.uint8))
    data = path.read_bytes()
    for cut in (data[:-10], data[: len(data) // 2], b"PK\x03\x04", b""):
        path.write_bytes(cut)
        with pytest.raises(InputError, match=r"is not a \.npz file, or damaged"):
            open_npz(str(path), ["codes"])
    flipped = bytearray(data)
    flipped[2000] ^= 0xFF  # inside the data: the checksum tells
    path.write_bytes(bytes(flipped))
    with pytest.raises(InputError, match="Bad CRC"):
        open_npz(str(path), ["codes"])
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(1001):
            archive.writestr(f"{i}.npy", b"")
    with pytest.raises(InputError, match="has 1001 members"):
        open_npz(str(path), ["codes"])


def test_a_member_that_claims_too_much_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mxlab.array_files.MAX_MEMBER", 1000)
    np.savez_compressed(tmp_path / "x.npz", codes=np.zeros(10**6, np.uint8))
    with pytest.raises(InputError, match="expected at most 1000; save it as"):
        open_npz(str(tmp_path / "x.npz"), ["codes"])


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npy")
    for path, text in (
        (tmp_path / "pipe.npy", "is not a regular file"),
        (tmp_path, "is not a regular file"),
        (tmp_path / "none.npy", "No such file"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with pytest.raises(InputError, match=text):
            open_npy(str(path))
        with pytest.raises(InputError, match=text):
            open_npz(str(path), ["codes"])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, ">f4", np.uint8])
def test_arrays_come_back_as_they_were(tmp_path: Path, dtype: Any) -> None:
    x = np.arange(96).reshape(3, 32).astype(dtype)
    for array in (x, x.T, x[:, :0], x[0, 0]):
        np.save(tmp_path / "x.npy", array)
        np.savez(tmp_path / "x.npz", x=array)
        for found in (
            open_npy(str(tmp_path / "x.npy")),
            open_npz(str(tmp_path / "x.npz"), ["x"])["x"],
        ):
            np.testing.assert_array_equal(found, array)
            assert found.dtype.itemsize == array.dtype.itemsize
            assert found.dtype.name == array.dtype.name


def test_tensors_of_a_safetensors_file(tmp_path: Path) -> None:
    path = str(tmp_path / "m.safetensors")
    tensors = {
        "bf16": np.arange(64).astype(ml_dtypes.bfloat16).reshape(2, 32),
        "f16": np.arange(3, dtype=np.float16),
        "f64": np.arange(5, dtype=np.float64),
        "none": np.zeros((0, 32), np.float32),
        "bool": np.ones(3, np.bool_),
        "f8": np.arange(7, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn),
    }
    save_file(tensors, path)
    for name in ("bf16", "f16", "f64", "none"):
        found, _ = open_tensors(path, [name])[name]
        np.testing.assert_array_equal(found, tensors[name])
        assert found.dtype == tensors[name].dtype
    codes, dtype = open_tensors(path, ["f8"])["f8"]
    assert dtype == "F8_E4M3" and codes.tolist() == list(range(7))
    with pytest.raises(InputError, match="tensor 'bool' is BOOL: expected F64"):
        open_tensors(path, ["bool"])
    with pytest.raises(InputError, match="no tensor 'bf61'; did you mean 'bf16'"):
        open_tensors(path, ["bf61"])
