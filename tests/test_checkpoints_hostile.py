"""Hostile and damaged checkpoints: one clear line, no traceback, no file outside the folder."""

import json
import os
import random
import re
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import checkpoint_files as files
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open

from mxlab.checkpoints import inspect
from mxlab.checkpoints.automaton import Automaton, UnsupportedError, glob
from mxlab.checkpoints.header import MAX_HEADER, read_header
from mxlab.checkpoints.sample import PER_TENSOR, read_samples, spans
from mxlab.errors import InputError

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def entry(**changes: Any) -> dict[str, Any]:
    return {**F32, **changes}


#: (header, bytes of data, what the message names)
BAD: list[tuple[str, object, int, str]] = [
    ("overlap", {"a": F32, "b": entry(data_offsets=[4, 12])}, 12, "overlaps 'a'"),
    ("same place twice", {"a": F32, "b": F32}, 8, "overlaps"),
    ("hole", {"a": F32, "b": entry(data_offsets=[12, 20])}, 20, "leaves a hole after 'a'"),
    ("hole at the start", {"a": entry(data_offsets=[8, 16])}, 16, "begins at byte 8"),
    ("past the end", {"a": F32}, 4, "cut short"),
    ("bytes left over", {"a": F32}, 12, "left over"),
    ("nothing described", {}, 4, "left over"),
    ("negative offset", {"a": entry(data_offsets=[-8, 0])}, 8, "data_offsets"),
    ("turned offsets", {"a": entry(data_offsets=[8, 0])}, 8, "data_offsets"),
    ("huge offset", {"a": entry(data_offsets=[0, 2**70])}, 8, "data_offsets"),
    ("three offsets", {"a": entry(data_offsets=[0, 4, 8])}, 8, "data_offsets"),
    ("float offset", {"a": entry(data_offsets=[0, 8.0])}, 8, "data_offsets"),
    ("negative size", {"a": entry(shape=[-2])}, 8, "impossible shape"),
    ("huge shape", {"a": entry(shape=[2**40, 2**40])}, 8, "impossible shape"),
    ("boolean size", {"a": entry(shape=[True, 2])}, 8, "impossible shape"),
    ("shape of text", {"a": entry(shape="2")}, 8, "impossible shape"),
    ("wrong size", {"a": entry(shape=[3])}, 8, "expected 12 for F32 [3]"),
    ("half a byte", {"a": {"dtype": "F4", "shape": [1], "data_offsets": [0, 1]}}, 1, "expected 1"),
    ("unknown dtype", {"a": entry(dtype="F8_E4M3FN")}, 8, "did you mean 'F8_E4M3'"),
    ("dtype a number", {"a": entry(dtype=7)}, 8, "a whole number"),
    ("no dtype", {"a": {"shape": [2], "data_offsets": [0, 8]}}, 8, "expected dtype"),
    ("entry a list", {"a": []}, 0, "a list"),
    ("metadata a list", {"__metadata__": []}, 0, "__metadata__"),
    ("metadata of numbers", {"__metadata__": {"a": 1}}, 0, "__metadata__"),
    ("a list", [], 0, "no JSON header"),
    ("not JSON", b"{nope", 0, "not JSON"),
    ("not UTF-8", b'{"\xff": 1}', 0, "not UTF-8"),
    ("NaN", b'{"a": NaN}', 0, "NaN"),
    ("a huge number", b'{"a": ' + b"9" * 5000 + b"}", 0, "digits"),
    ("deep", b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 0, "nests too deep"),
    ("lone surrogate", b'{"\\ud800": {"dtype":"U8","shape":[0],"data_offsets":[0,0]}}', 0, "Uni"),
]


def refusal(path: Path) -> str:
    """The one line with which a path is refused."""
    with pytest.raises(InputError) as caught:
        inspect(path)
    text = str(caught.value)
    assert "\n" not in text and text.isprintable() and len(text) < 500, text
    return text


@pytest.mark.parametrize(("header", "data", "names"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_headers_that_lie(tmp_path: Path, header: object, data: int, names: str) -> None:
    path = files.header_file(tmp_path / "a.safetensors", header, data)
    assert names in refusal(path)
    with pytest.raises(SafetensorError), safe_open(path, "pt") as _:
        pass  # the library refuses it too


def test_one_name_twice_is_refused_here_and_taken_by_the_library(tmp_path: Path) -> None:
    text = f'{{"a": {json.dumps(F32)}, "a": {json.dumps(entry(dtype="I32"))}}}'
    path = files.header_file(tmp_path / "a.safetensors", text.encode(), 8)
    assert "names the key 'a' twice" in refusal(path)
    with safe_open(path, "pt") as opened:
        assert list(opened.keys()) == ["a"]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_the_library_accepts_and_refuses_the_same_headers(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Random layouts of up to three tensors, right and wrong ones: the library is the oracle."""
    header: dict[str, Any] = {}
    at = 0
    for name in ("a", "b", "c")[: data.draw(st.integers(0, 3))]:
        dtype, width = data.draw(st.sampled_from([("U8", 1), ("BF16", 2), ("F8_E8M0", 1)]))
        shape = data.draw(st.lists(st.integers(0, 3), max_size=3))
        length = width
        for size in shape:
            length *= size
        begin = at + data.draw(st.sampled_from([0, 0, 0, 0, -1, 1]))
        end = begin + length + data.draw(st.sampled_from([0, 0, 0, 0, 0, 1]))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        at = end
    size = max(0, at + data.draw(st.sampled_from([0, 0, 0, 1, -1])))
    path = tmp_path_factory.getbasetemp() / "random.safetensors"
    files.header_file(path, header, size)
    try:
        with safe_open(path, "pt") as opened:
            theirs = {
                k: (s.get_dtype(), tuple(s.get_shape()))
                for k in opened.keys()  # noqa: SIM118
                for s in [opened.get_slice(k)]
            }
    except SafetensorError:
        with pytest.raises(InputError):
            read_header(path, "random")
        return
    ours = {t.name: (t.dtype, t.shape) for t in read_header(path, "random")}
    assert ours == theirs


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"", "holds 0 bytes"),
        (b"1234567", "holds 7 bytes"),
        (struct.pack("<Q", 100), "cut short"),
        (struct.pack("<Q", MAX_HEADER + 1) + b"{}", "expected 2..100000000"),
        (struct.pack("<Q", 2**63) + b"{}", "expected 2..100000000"),
        (struct.pack("<Q", 0) + b"{}", "header of 0 bytes"),
        (b"PK\x03\x04" + bytes(100), "not a safetensors file"),
    ],
)
def test_files_that_are_no_safetensors(tmp_path: Path, content: bytes, names: str) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    assert names in refusal(path)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "a.pt", "a.pth", "a.ckpt", "A.PT", "pytorch_model.bin.index.json"]
)
def test_pickles_are_never_opened(tmp_path: Path, name: str) -> None:
    marker = tmp_path / "ran"
    (tmp_path / name).write_bytes(f"cos\nsystem\n(S'touch {marker}'\ntR.".encode())
    for source in (tmp_path / name, tmp_path):
        assert "never unpickles" in refusal(source)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("../../etc/passwd", "a file in the folder"),
        ("/etc/passwd", "a file in the folder"),
        ("../secret.safetensors", "a file in the folder"),
        ("a/../../secret.safetensors", "a file in the folder"),
        ("..\\secret.safetensors", "a file in the folder"),
        ("./a.safetensors\0", "a file in the folder"),
        ("", "a file in the folder"),
        ("a.bin", "never unpickles"),
        ("config.json", "a .safetensors file"),
        ("x" * 300 + ".safetensors", "a file in the folder"),
        ("\ud800.safetensors", "a file in the folder"),
        (7, "a whole number"),
        (None, "null"),
        ({"a": 1}, "an object"),
    ],
)
def test_an_index_cannot_leave_its_folder(tmp_path: Path, file: object, names: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    files.header_file(tmp_path / "secret.safetensors", {"secret.weight": F32}, 8)
    files.write_index(folder, {"a.weight": file})
    assert names in refusal(folder)


@pytest.mark.parametrize("with_index", [True, False])
def test_links_that_leave_the_folder(tmp_path: Path, with_index: bool) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    secret = files.header_file(tmp_path / "secret.safetensors", {"secret.weight": F32}, 8)
    (folder / "model.safetensors").symlink_to(secret)
    if with_index:
        files.write_index(folder, {"secret.weight": "model.safetensors"})
    assert "is a link that leaves the folder" in refusal(folder)


def test_links_of_a_hugging_face_cache_are_followed(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    files.header_file(blobs / "0123", {"a.b.weight": {**F32, "shape": [2, 1]}}, 8)
    (snapshot / "model.safetensors").symlink_to(Path("../../blobs/0123"))
    assert [row.pattern for row in inspect(snapshot).rows] == ["a.b"]
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to(Path("../../secret"))
    files.header_file(tmp_path / "secret", {"a.b.weight": F32}, 8)
    assert "leaves the folder" in refusal(snapshot)


@pytest.mark.parametrize(
    ("index", "names"),
    [
        (b"[]", "is a list"),
        (b"{}", "weight_map is null"),
        (b'{"weight_map": []}', "weight_map is a list"),
        (b'{"weight_map": {}}', "weight_map is an object"),
        (b"not json", "not JSON"),
        (b'{"weight_map": {"a": "b.safetensors", "a": "c.safetensors"}}', "twice"),
        (b"[" * 200_000, "nests too deep"),
        (b'{"weight_map": {"' + b"n" * 2000 + b'": "b.safetensors"}}', "2000 characters"),
    ],
)
def test_bad_indexes(tmp_path: Path, index: bytes, names: str) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_bytes(index)
    assert names in refusal(path)
    assert names in refusal(tmp_path)


def test_an_index_of_a_gigabyte(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.touch()
    os.truncate(path, 1 << 30)
    assert "expected at most 67108864" in refusal(path)


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "nothing")
    assert "no safetensors file, index or config.json" in refusal(tmp_path)
    assert "cannot read" in refusal(tmp_path / "a\0b")
    assert "cannot read" in refusal(tmp_path / ("x" * 5000))
    os.mkfifo(tmp_path / "pipe.safetensors")
    assert "not a regular file" in refusal(tmp_path / "pipe.safetensors")
    assert "not a regular file" in refusal(tmp_path)
    (tmp_path / "pipe.safetensors").unlink()
    for name in ("a", "b"):
        (tmp_path / f"{name}.safetensors.index.json").write_text("{}")
    assert "2 indexes: name one" in refusal(tmp_path)


@pytest.mark.parametrize(
    "claim",
    [
        [],
        "mxfp8",
        {"quant_method": 7},
        {"quant_method": "mxfp8", "weight_block_size": "x"},
        {"quant_method": "mxfp8", "ignored_layers": [1, 2]},
        {"quant_method": "mxfp8", "ignored_layers": {"a": 1}},
        {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": [1]},
    ],
)
def test_bad_claims(tmp_path: Path, claim: Any) -> None:
    config = {**files.LLAMA, "quantization_config": claim}
    assert "quantization_config" in refusal(files.write(tmp_path, files.llama(), config))


def test_names_that_would_break_the_output(tmp_path: Path) -> None:
    name = "a.\x1b[31m\n.weight"
    header = {name: {"dtype": "F8_E4M3", "shape": [2, 32], "data_offsets": [0, 64]}}
    path = files.header_file(tmp_path / "a.safetensors", header, 64)
    from mxlab.cli import _run

    text = _run(["inspect", str(path)]).text
    assert all(line.isprintable() for line in text.split("\n"))
    assert "\\x1b[31m\\n" in text


@pytest.mark.parametrize(
    "expression",
    ["(a+)+$", "(a|a)*b", "(.*a)*(.*b)*c", ".*.*.*.*.*.*.*.*.*x", "(a?)" * 50 + "a" * 50],
)
def test_expressions_made_to_backtrack_take_no_time(tmp_path: Path, expression: str) -> None:
    tensors = {f"{'a' * 900}.{i}.weight": torch.zeros(2, 32) for i in range(20)}
    claim = {**files.MODELOPT, "ignore": [f"re:{expression}"]}
    start = time.perf_counter()
    inspect(files.write(tmp_path, tensors, {"quantization_config": claim}))
    assert time.perf_counter() - start < 5


_PARTS = ["a", "b", ".", "a*", "b+", ".*", "(a|b)", "(ab|a)*", "[ab]", "[^a]+", "b?", r"\."]


def test_expressions_agree_with_re() -> None:
    """Python's own engine is the oracle, on expressions that it can take."""
    chosen = random.Random(5)
    matched = 0
    for _ in range(2_000):
        expression = "".join(chosen.choices(_PARTS, k=chosen.randint(1, 5)))
        expression += chosen.choice(["", "$", "|b$"])
        name = "".join(chosen.choices("ab.", k=chosen.randint(0, 7)))
        expected = re.match(expression, name) is not None
        assert Automaton(expression).matches(name) == expected, (expression, name)
        matched += expected
    assert 300 < matched < 1_900


@pytest.mark.parametrize(
    "expression", ["(?=a)", "(?i)a", "a{2}", r"\b", r"(a)\1", "a)", "(a", "[a", "*", "a++", "[z-a]"]
)
def test_expressions_that_are_refused(expression: str) -> None:
    with pytest.raises(UnsupportedError):
        Automaton(expression)


def test_globs() -> None:
    assert glob("model.layers.*.self_attn").matches("model.layers.11.self_attn.q_proj")
    assert glob("mtp*").matches("mtp.layers.0.eh_proj")
    assert not glob("mtp*").matches("xmtp")
    assert not glob("layers.?").matches("layers.10")
    assert not glob("a.b").matches("axb")


@pytest.mark.parametrize("nbytes", [1, 511, 512, 513, 65536, 65537, 1 << 20, (1 << 33) + 5])
@pytest.mark.parametrize("budget", [512, 4096, PER_TENSOR])
def test_spans_stay_inside_and_within_budget(nbytes: int, budget: int) -> None:
    found = spans(nbytes, budget)
    assert sum(length for _, length in found) <= max(budget, min(nbytes, budget))
    end = 0
    for begin, length in found:
        assert begin >= end
        end = begin + length
        assert end <= nbytes
    if nbytes > budget:
        assert all(begin % 8 == 0 for begin, _ in found)
        assert found[-1][0] + found[-1][1] > nbytes - 8, "the end is sampled too"


def test_sampled_bytes_are_the_librarys(tmp_path: Path) -> None:
    made = torch.Generator().manual_seed(3)
    tensors = {
        "a.weight_scale": torch.randint(0, 256, (4096, 96), dtype=torch.uint8, generator=made),
        "b.weight_scale": torch.randint(0, 256, (31, 7), dtype=torch.uint8, generator=made),
    }
    path = files.write(tmp_path, tensors) / "model.safetensors"
    placed = read_header(path, path.name)
    samples = {s.tensor.name: s for s in read_samples(placed, {path.name: path}, 8192)}
    with safe_open(path, "pt") as opened:
        for name, sample in samples.items():
            whole = opened.get_tensor(name).numpy().tobytes()
            expected = b"".join(whole[at : at + n] for at, n in spans(len(whole), 8192))
            assert sample.data == expected
            assert sample.complete == (len(whole) <= 8192)


@pytest.mark.parametrize("change", [lambda p: p.unlink(), lambda p: p.write_bytes(b"")])
def test_a_file_that_goes_away(tmp_path: Path, change: Callable[[Path], object]) -> None:
    path = files.write(tmp_path, files.llama()) / "model.safetensors"
    placed = read_header(path, path.name)
    change(path)
    with pytest.raises(InputError, match=r"cut short while it was read|No such file"):
        list(read_samples(placed, {path.name: path}, 512))
