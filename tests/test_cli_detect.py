"""``mxlab detect``: files in, a layout or "cannot tell" out; field reports are answered by it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Capture, ask, call, refuse
from safetensors.numpy import save_file

from mxlab.arrays import MXArray, dequantize, interleave, quantize


def weight(rows: int = 256, cols: int = 32, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, cols * 32)) * np.exp(rng.normal(0, 1, (rows, 1)))
    return x.astype(np.float32)


@pytest.fixture(scope="module")
def q() -> MXArray:
    return quantize(weight(), axis=1)


@pytest.fixture
def npz(tmp_path: Path, q: MXArray) -> str:
    path = tmp_path / "layer.npz"
    np.savez(path, codes=q.codes, scales=interleave(q.scales, "tile_128x4"), unused=np.ones(3))
    return str(path)


def test_codes_and_scales_in_one_file(capsys: Capture, npz: str) -> None:
    answer = ask(capsys, "detect", npz)
    assert (answer["layout"], answer["alike"], answer["outcome"]) == (
        "tile_128x4",
        ["kv_paged"],
        "found",
    )
    assert answer["evidence"] == "codes" and answer["confidence"] > answer["threshold"] == 0.999
    assert {d["read_as"] for d in answer["damage"]} == {
        c["layouts"][0] for c in answer["ranking"][1:]
    }
    linear = next(d for d in answer["damage"] if d["read_as"] == "linear")
    assert linear["actual"] == "tile_128x4" and linear["relative_error"] > 0.5
    assert linear["rows_touched"] == 256 and linear["gemm_error"] > 0.5
    text = call(capsys, "detect", npz)[1]
    assert "layout: tile_128x4, the same bytes here as kv_paged (confidence above 0.9999)" in text


def test_separate_files_values_and_products(capsys: Capture, tmp_path: Path, q: MXArray) -> None:
    x, tokens = weight(), weight(8, 32, seed=1)
    files = {
        "codes": q.codes,
        "scales": q.scales.reshape(-1),
        "values": x,
        "activations": tokens,
        "product": tokens @ x.T,
    }
    for name, array in files.items():
        np.save(tmp_path / f"{name}.npy", array)
    at = {name: str(tmp_path / f"{name}.npy") for name in files}
    given = ["detect", at["codes"], "--scales", at["scales"]]
    assert ask(capsys, *given)["layout"] == "linear"
    by_values = ask(capsys, *given, "--values", at["values"])
    assert (by_values["layout"], by_values["evidence"]) == ("linear", "values")
    assert by_values["ranking"][0]["misfit"] == 0 < by_values["ranking"][1]["misfit"]
    product = ["--activations", at["activations"], "--product", at["product"]]
    assert ask(capsys, *given, *product)["evidence"] == "product"
    alone = ask(capsys, "detect", "--scales", at["scales"], "--shape", "256,32")
    assert (alone["layout"], alone["outcome"]) == (None, "cannot tell")
    assert "linear looks likeliest" in alone["why"] and alone["damage"] == []


def test_expect_is_an_exit_code_with_the_conversion(capsys: Capture, npz: str) -> None:
    assert ask(capsys, "detect", npz, "--expect", "TILE_128x4")["confirmed"]
    assert ask(capsys, "detect", npz, "--expect", "kv_paged")["confirmed"]
    assert not ask(capsys, "detect", npz, "--expect", "linear", code=1)["confirmed"]
    code, text, _ = call(capsys, "detect", npz, "--expect", "linear")
    assert code == 1 and "mxlab.deinterleave(scales, rows, cols, 'tile_128x4')" in text


def test_a_tensor_of_a_checkpoint(capsys: Capture, tmp_path: Path, q: MXArray) -> None:
    import ml_dtypes

    path = tmp_path / "model.safetensors"
    tiled = interleave(q.scales, "tile_128x4").reshape(q.scales.shape)
    save_file(
        {
            "a.weight": q.codes.view(ml_dtypes.float8_e4m3fn),
            "a.weight_scale": q.scales,
            "b.weight": q.codes.view(ml_dtypes.float8_e4m3fn),
            "b.weight_scale_inv": tiled,
            "c.weight": np.zeros((2, 2), np.float32),
        },
        path,
    )
    given = ["detect", str(path), "--tensor"]
    assert ask(capsys, *given, "a.weight", "--expect", "linear")["layout"] == "linear"
    # tiled scales in a shape that says row-major: what checkpoints get wrong
    found = ask(capsys, *given, "b.weight", "--expect", "linear", code=1)
    assert found["layout"] == "tile_128x4"
    swapped = ask(capsys, *given, "b.weight", "--scale-tensor", "a.weight_scale")
    assert swapped["layout"] == "linear"
    assert "did you mean 'a.weight'" in refuse(capsys, *given, "a.weigt")
    assert "expected --tensor NAME" in refuse(capsys, "detect", str(path))
    assert "none; expected --scale-tensor" in refuse(capsys, *given, "c.weight")
    wrong = refuse(capsys, *given, "c.weight", "--scale-tensor", "a.weight_scale")
    assert "'c.weight' is F32: expected F8_E4M3 or F8_E5M2" in wrong


def test_field_report_16_row_major_scales_for_a_tiled_kernel(
    capsys: Capture, tmp_path: Path
) -> None:
    found = quantize(weight(128, 4), axis=1)
    np.savez(tmp_path / "a.npz", codes=found.codes, scales=found.scales, values=dequantize(found))
    given = ["detect", str(tmp_path / "a.npz")]
    answer = ask(capsys, *given, "--expect", "tile_128x4", "--read-as", "tile_128x4", code=1)
    assert answer["layout"] == "linear" and answer["nbytes"] == 512
    damage = answer["damage"][0]
    assert (damage["rows_in_place"], damage["rows"]) == (2, 128)
    assert damage["relative_error"] > 0.3
    for cell, offset in (("1,0", 16), ("32,0", 4), ("127,3", 511)):
        assert ask(capsys, "layout", "128", "4", "--at", cell)["offset"] == offset


def test_field_report_17_equal_and_varying_exponents(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    equal = quantize(np.ones((1024, 1024), np.float32))
    np.savez(path, codes=equal.codes, scales=equal.scales.reshape(-1))
    answer = ask(capsys, "detect", str(path), "--expect", "tile_128x4", code=1)
    assert answer["outcome"] == "cannot tell" and "every scale is" in answer["why"]
    varying = quantize(weight(1024, 32), axis=1)
    np.savez(path, codes=varying.codes, scales=varying.scales.reshape(-1))
    answer = ask(capsys, "detect", str(path), "--read-as", "tile_128x4")
    assert answer["layout"] == "linear"
    damage = answer["damage"][0]
    assert damage["blocks_in_place"] == 2 * 32 and damage["blocks"] == 32768  # 0.2 %


def test_field_report_19_poisoned_padding_changes_nothing(capsys: Capture, tmp_path: Path) -> None:
    for rows, nbytes in ((5760, 529_920), (2880, 270_848)):
        assert ask(capsys, "layout", str(rows), "90")["nbytes"] == nbytes
    x = weight(300, 90)  # 300 % 128 and 90 % 4 are not 0, as in gpt-oss
    found = quantize(x, axis=1)
    clean = interleave(found.scales, "tile_128x4")
    where = interleave(np.ones_like(found.scales), "tile_128x4") == 0
    answers = []
    for poison in (0, 0xFF):
        scales = np.where(where, poison, clean).astype(np.uint8)
        np.savez(tmp_path / "a.npz", codes=found.codes, scales=scales, values=x)
        answer = ask(capsys, "detect", str(tmp_path / "a.npz"), "--read-as", "tile_128x4")
        assert answer["layout"] == "tile_128x4" and where.sum() == answer["ranking"][0]["padding"]
        answers.append(answer["damage"])
        assert answer["damage"][0]["nan_blocks"] == answer["damage"][0]["blocks_touched"] == 0
    assert answers[0] == answers[1]


def test_field_report_21_the_conversion_before_the_launch(capsys: Capture, tmp_path: Path) -> None:
    found = quantize(weight(), axis=1)
    np.savez(tmp_path / "a.npz", codes=found.codes, scales=found.scales)
    code, text, _ = call(capsys, "detect", str(tmp_path / "a.npz"), "--expect", "tile_128x4")
    assert code == 1 and "convert with mxlab.interleave(scales, 'tile_128x4')" in text
    converted = interleave(found.scales, "tile_128x4")
    np.savez(tmp_path / "a.npz", codes=found.codes, scales=converted)
    assert ask(capsys, "detect", str(tmp_path / "a.npz"), "--expect", "tile_128x4")["confirmed"]
    # the element count that scaled_mm wants: round_up(M, 128) * round_up(ceil(K / 32), 4)
    assert ask(capsys, "layout", "200", "5")["nbytes"] == 256 * 8
    for name in ("linear", "amd_32x8"):  # what gfx950 takes
        assert ask(capsys, "layout", "200", "5", "--layout", name)["layout"] == name


@pytest.mark.parametrize(
    ("m", "k", "padded", "compact"),
    [(128, 256, 1024, 1024), (64, 64, 512, 128), (129, 96, 1024, 387), (1, 32, 512, 1),
     (33, 160, 1024, 165)],
)  # fmt: skip
def test_field_report_22_both_counts(
    capsys: Capture, m: int, k: int, padded: int, compact: int
) -> None:
    shape = [str(m), str(k // 32)]
    assert ask(capsys, "layout", *shape)["nbytes"] == padded
    assert ask(capsys, "layout", *shape, "--layout", "linear")["nbytes"] == compact
    # and a buffer of either length is told apart where they differ
    if padded != compact:
        assert layout_of_length(capsys, m, k // 32, padded) != "linear"


def layout_of_length(capsys: Capture, rows: int, cols: int, length: int) -> str:
    scales = np.random.default_rng(0).integers(1, 255, (rows, cols), np.uint8)
    from mxlab.detect import detect_layout

    buffer = interleave(scales, "tile_128x4")
    assert len(buffer) == length
    return str(detect_layout(buffer, rows, cols).verdict)


def test_field_report_25_a_stale_copy(capsys: Capture, tmp_path: Path) -> None:
    old, new = quantize(weight(seed=1), axis=1), quantize(weight(seed=2), axis=1)
    stale = interleave(old.scales, "tile_128x4")
    np.savez(tmp_path / "a.npz", codes=new.codes, scales=stale, values=weight(seed=2))
    answer = ask(capsys, "detect", str(tmp_path / "a.npz"), "--expect", "tile_128x4", code=1)
    assert answer["outcome"] == "none" and "stale or foreign scales?" in answer["why"]


def test_paged_scales_with_their_parameters(capsys: Capture, tmp_path: Path) -> None:
    found = quantize(weight(256, 8), axis=1)
    scales = interleave(found.scales, "kv_paged", page_size=64, scales_per_head=2)
    np.savez(tmp_path / "a.npz", codes=found.codes, scales=scales, values=dequantize(found))
    given = ["detect", str(tmp_path / "a.npz")]
    assert ask(capsys, *given)["outcome"] == "none"
    answer = ask(capsys, *given, "--page-size", "64", "--scales-per-head", "2")
    assert answer["layout"] == "kv_paged"


def test_bad_input_is_one_line(capsys: Capture, tmp_path: Path, npz: str) -> None:
    cases = [
        (["detect"], "there are no scales: expected --scales FILE.npy"),
        (["detect", npz, "--read-as", "tiles"], "unknown layout 'tiles'"),
        (["detect", npz, "--expect", "tiles"], "unknown layout 'tiles'"),
        (["detect", npz, "--format", "e9"], "e9"),
        (["detect", npz, "--axis", "7"], "--axis is 7: expected -3 to 2"),
        (["detect", npz, "--axis", "x"], "--axis is 'x': expected a whole number"),
        (["detect", npz, "--page-size", "48"], "page_size is 48: expected a multiple of 32"),
        (["detect", npz, "--shape", "3"], "expected R,C of the scale matrix"),
        (["detect", npz, "--shape", "255,32"], "rows is 255: expected 256"),
        (["detect", npz, "--values", npz], "is not a .npy file, or damaged"),
        (["detect", str(tmp_path / "no.npz")], "No such file"),
        (["detect", str(tmp_path)], "holds many tensors: expected --tensor NAME"),
        (["detect", "a\0b.npz"], "cannot read 'a\\x00b.npz'"),
    ]
    for argv, text in cases:
        assert text in refuse(capsys, *argv), argv
