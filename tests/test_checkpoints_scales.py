"""Mistakes in weights and scales: a checkpoint that has each, and the finding with its numbers."""

from pathlib import Path
from typing import Any

import checkpoint_files as files
import pytest
import torch
from checkpoint_files import DOWN, SCALE, broken, codes, floats, found, names, scales

from mxlab.checkpoints import inspect
from mxlab.layout import layout


def test_missing_scale(tmp_path: Path) -> None:
    """Field report 55: an FP8 weight without its scale is refused."""
    report = broken(tmp_path, {SCALE: None})
    finding = found(report, "missing-scale")
    assert (finding.severity, finding.count) == ("error", 1)
    assert finding.tensors == (f"{DOWN}.weight",)
    assert "F8_E4M3 (128, 256)" in finding.message
    assert (
        "weight is FP8, no scale, claimed is MXFP8" in found(report, "config-contradicts").message
    )


def test_missing_scale_is_gathered_over_layers(tmp_path: Path) -> None:
    gone = dict.fromkeys(f"model.layers.{i}.mlp.down_proj.weight_scale" for i in range(3))
    finding = found(broken(tmp_path, gone), "missing-scale")
    assert finding.count == 3
    assert finding.message.startswith("model.layers.{layer}.mlp.down_proj.weight:")


def test_orphan_scale_without_weight(tmp_path: Path) -> None:
    finding = found(broken(tmp_path, {f"{DOWN}.weight": None}), "orphan-scale")
    assert finding.severity == "error"
    assert finding.tensors == (SCALE,)


def test_orphan_scale_beside_a_plain_weight(tmp_path: Path) -> None:
    """Field report 55, second half: the module is BF16 and the scale key unexpected."""
    report = broken(tmp_path, {f"{DOWN}.weight": floats(128, 256)})
    assert "BF16 weight with a scale (weight_scale)" in found(report, "orphan-scale").message
    assert found(report, "unquantized-not-excluded").severity == "error"


def test_a_norms_scale_is_no_orphan(tmp_path: Path) -> None:
    assert broken(tmp_path, {"model.norm2.scale": floats(128)}).findings == []


@pytest.mark.parametrize(
    ("weight", "scale", "name", "numbers"),
    [
        ((128, 256), (8, 128), "transposed-scale", "(8, 128) is (K/32, N)"),
        ((128, 256), (4, 256), "columnwise-scale", "(4, 256)"),
        ((128, 256), (128, 16), "block-not-32", "1 x 16 values; or 2-byte floats"),
        ((128, 256), (128, 32), "block-not-32", "1 x 8 values; or 4-byte floats"),
        ((128, 256), (128, 4), "block-not-32", "1 x 64 values; expected (N, K/32) = (128, 8)"),
        ((128, 256), (128, 2), "block-not-32", "1 x 128 values"),
        ((128, 256), (1, 2), "block-not-32", "128 x 128 values"),
        ((128, 256), (128, 7), "scale-shape", "(128, 7)"),
        ((128, 256), (1024,), "flat-scale", "linear or tile_128x4 or tile_8x4"),
        ((100, 160), (128, 8), "tiled-as-linear", "(128, 8) is a tile_128x4"),
        ((128, 160), (128, 8), "tiled-as-linear", "(128, 8) is a tile_128x4"),
        ((100, 160), (1024,), "tiled-as-linear", "(1024) is a tile_128x4"),
        ((100, 160), (104, 8), "tiled-as-linear", "tile_8x4"),
        ((100, 160), (500,), "flat-scale", "(500) is linear;"),
        ((128, 200), (128, 7), "k-not-multiple-of-32", "K = 200 % 32 = 8"),
    ],
)
def test_what_the_shape_of_a_scale_tells(
    tmp_path: Path, weight: tuple[int, int], scale: tuple[int, ...], name: str, numbers: str
) -> None:
    count = torch.Size(scale).numel()
    bytes_ = (105 + torch.arange(count) * 7 % 20).to(torch.uint8).reshape(scale)
    tensors = {f"{DOWN}.weight": codes(*weight), SCALE: bytes_}
    report = inspect(files.write(tmp_path, tensors))
    finding = found(report, name)
    assert finding.severity == ("warning" if scale == (1, 2) else "error")
    assert numbers in finding.message
    assert finding.guard == ("wsp-k32" if name.startswith("k-") else "lin-scale-shape")
    assert names(report) == {name}


@pytest.mark.parametrize("experts", [1, 5])
@pytest.mark.parametrize("name", ["tile_128x4", "tile_8x4", "amd_32x8", "deepgemm_packed"])
def test_a_flat_tiled_buffer_is_named(tmp_path: Path, name: str, experts: int) -> None:
    """Shapes at which the four layouts have four lengths."""
    n, k = 33, 160
    sizes = {row: layout(row).nbytes(n, k // 32) for row in ("tile_128x4", "tile_8x4", "amd_32x8")}
    sizes["deepgemm_packed"] = layout("deepgemm_packed").nbytes(n, k // 32)
    assert len(set(sizes.values())) == 4
    base = "model.layers.0.mlp.experts.gate_up_proj"
    tensors = {
        base: codes(experts, n, k),
        f"{base}_weight_scale": torch.full((experts * sizes[name],), 117, dtype=torch.uint8),
    }
    finding = found(inspect(files.write(tmp_path, tensors)), "tiled-as-linear")
    assert f"is a {name} buffer" in finding.message


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_float_scales_in_blocks_of_32(tmp_path: Path, dtype: torch.dtype) -> None:
    report = broken(tmp_path, {SCALE: torch.full((128, 8), 0.25, dtype=dtype)})
    finding = found(report, "scale-dtype")
    assert finding.guard == "lin-copy-dtype"
    assert "one for 32 values: expected U8" in finding.message
    assert "scale-not-power-of-two" not in names(report)
    report = broken(tmp_path, {SCALE: torch.full((128, 8), 0.375, dtype=dtype)})
    assert "1024 of 1024 sampled" in found(report, "scale-not-power-of-two").message


def test_deepseek_scales_with_a_mantissa(tmp_path: Path) -> None:
    """Field report 59: 0.0025837... declared as ue8m0; both neighbours change the weights."""
    value = 0.002583741443231702
    tensors = {"a.b.weight": codes(256, 256), "a.b.weight_scale_inv": torch.full((2, 2), value)}
    claim = {**files.BLOCK_FP8, "scale_fmt": "ue8m0"}
    folder = files.write(tmp_path, tensors, {"quantization_config": claim})
    assert names(inspect(folder)) == set(), "headers alone cannot know"
    finding = found(inspect(folder, sample_bytes=True), "scale-not-power-of-two")
    assert "4 of 4" in finding.message
    assert "2^-9 (byte 118) would shrink the weights to 75.6 %" in finding.message
    assert "2^-8 (byte 119) grow them to 151 %" in finding.message
    assert "lossy" in finding.fix
    folder = files.write(tmp_path, tensors, {"quantization_config": files.BLOCK_FP8})
    report = inspect(folder, sample_bytes=True)
    assert report.findings == [], "undeclared float scales may be any number"
    assert "4 of 4 sampled float scales are no power of two" in report.notes
    tensors["a.b.weight_scale_inv"] = torch.tensor([[0.5, 2.0**-127], [4.0, 2.0**-20]])
    folder = files.write(tmp_path, tensors, {"quantization_config": claim})
    report = inspect(folder, sample_bytes=True)
    assert report.findings == []
    assert any("without loss" in note for note in report.notes)


@pytest.mark.parametrize("value", [0.0, -0.5, float("nan"), float("inf")])
def test_scales_that_are_no_scales(tmp_path: Path, value: float) -> None:
    scale = torch.full((2, 2), 0.5)
    scale[1, 1] = value
    tensors = {"a.b.weight": codes(256, 256), "a.b.weight_scale_inv": scale}
    report = inspect(files.write(tmp_path, tensors), sample_bytes=True)
    assert names(report) == {"scale-not-finite"}


def test_e8m0_dtype_is_noted(tmp_path: Path) -> None:
    report = broken(tmp_path, {SCALE: scales(128, 8).view(torch.float8_e8m0fnu)})
    finding = found(report, "dtype-e8m0")
    assert (finding.severity, finding.guard) == ("warning", "lin-copy-dtype")
    assert names(report) == {"dtype-e8m0"}


def test_u8_scales_are_exponents(tmp_path: Path) -> None:
    """Field report 57: U8 beside E4M3 with K/32 columns is E8M0, byte 115 is 2^-12."""
    report = broken(tmp_path, {SCALE: torch.full((128, 8), 115, dtype=torch.uint8)})
    assert report.findings == []
    assert report.bytes is not None
    counts = report.bytes.histograms["model.layers.{layer}.mlp.down_proj.weight_scale"].counts
    assert counts[115] >= 1024
    # float32 numbers of shape (N/128, K/128) are numbers, whatever the name
    tensors = {"a.b.weight": codes(256, 512), "a.b.weight_scale": torch.full((2, 4), 0.3)}
    (row,) = inspect(files.write(tmp_path / "b", tensors)).rows
    assert row.weights[0].format == "FP8 block"


def test_bytes_255_and_0(tmp_path: Path) -> None:
    """Field report 10's bytes: 133, 134, 135 are scales, 255 is NaN."""
    scale = scales(128, 8)
    scale[3, :3] = torch.tensor([133, 134, 135])
    assert broken(tmp_path, {SCALE: scale}).findings == []
    scale[3, 3] = 255
    assert found(broken(tmp_path, {SCALE: scale}), "byte-255-present").severity == "error"
    scale[3, 3] = 0
    assert found(broken(tmp_path, {SCALE: scale}), "byte-0-present").severity == "warning"


def as_bytes(exponents: list[float]) -> torch.Tensor:
    """Float scales 2^e, 128 x 8 of them."""
    return torch.tensor([2.0**e for e in exponents] * (1024 // len(exponents))).reshape(128, 8)


def test_cast_by_value(tmp_path: Path) -> None:
    """SGLang note 12.14: 2^5 becomes byte 32 and everything below 1 becomes 0."""
    small = as_bytes([-12.0, -9.0, -3.0, 5.0])
    report = broken(tmp_path, {SCALE: small.to(torch.uint8)})
    finding = found(report, "e8m0-cast-by-value")
    assert (finding.severity, finding.guard) == ("error", "lin-copy-dtype")
    assert "bytes 0..32" in finding.message
    assert "at most 2^-95" in finding.message
    report = broken(tmp_path, {SCALE: as_bytes([-12.0, -9.0]).to(torch.uint8)})
    assert "bytes 0..0" in found(report, "e8m0-cast-by-value").message
    right = (as_bytes([-12.0, -9.0, -3.0, 5.0]).log2() + 127).to(torch.uint8)
    assert broken(tmp_path, {SCALE: right}).findings == []


def test_zero_bytes_of_a_zero_weight_are_right(tmp_path: Path) -> None:
    zero = {SCALE: torch.zeros(128, 8, dtype=torch.uint8)}
    weight = torch.zeros(128, 256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    report = broken(tmp_path, {**zero, f"{DOWN}.weight": weight})
    assert [(f.name, f.severity) for f in report.findings] == [("byte-0-present", "note")]
    assert "e8m0-cast-by-value" in names(broken(tmp_path, {**zero}))


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        (
            torch.arange(1024).reshape(128, 8).remainder(9).to(torch.uint8),
            "largest scale is 2^-119",
        ),
        (torch.full((128, 8), 3, dtype=torch.uint8), "largest scale is 2^-124"),
        (as_bytes([-12.0, -9.0]).log2().to(torch.int8).view(torch.uint8), "exponents -12..-9"),
        (as_bytes([-12.0, 3.0])[:32].contiguous().view(torch.uint8).reshape(128, 8), "float32"),
        (as_bytes([-12.0, 3.0])[:64].bfloat16().view(torch.uint8).reshape(128, 8), "bfloat16"),
    ],
)
def test_numbers_in_disguise(tmp_path: Path, scale: torch.Tensor, text: str) -> None:
    report = broken(tmp_path, {SCALE: scale})
    assert text in found(report, "scale-float-in-disguise").message
    assert names(report) == {"scale-float-in-disguise"}


@pytest.mark.parametrize("rule", [lambda x: x.log2().floor(), lambda x: x.log2().ceil()])
def test_float_scales_made_exponents_are_silent(tmp_path: Path, rule: Any) -> None:
    """Field reports 11 and 14: whichever way it was rounded, the byte is an exponent."""
    scale = torch.tensor([0.375, 3.0] * 512).reshape(128, 8)
    assert broken(tmp_path, {SCALE: (rule(scale) + 127).to(torch.uint8)}).findings == []


def smooth(n: int, cols: int, seed: int) -> torch.Tensor:
    """Exponents as trained weights have them: rows and columns of different size, some noise."""
    made = torch.Generator().manual_seed(seed)
    grid = (
        115 + 2.0 * torch.randn(n, 1, generator=made) + 0.7 * torch.randn(1, cols, generator=made)
    )
    return (grid + 0.5 * torch.randn(n, cols, generator=made)).round().to(torch.uint8)


def tile(scale: torch.Tensor) -> torch.Tensor:
    """Put rows into 128x4 tiles, as a kernel wants them."""
    rows, cols = scale.shape
    where = layout("tile_128x4")
    out = torch.empty(rows * cols, dtype=torch.uint8)
    for row in range(rows):
        for col in range(cols):
            out[where.at(row, col, rows, cols)] = scale[row, col]
    return out.reshape(rows, cols)


def test_tiled_bytes_in_a_row_major_shape(tmp_path: Path) -> None:
    tensors = {"a.0.b.weight": codes(256, 512)}
    for seed in range(3):
        scale = smooth(256, 16, seed)
        for stored, expected in ((scale, set()), (tile(scale), {"tiled-as-linear"})):
            tensors["a.0.b.weight_scale"] = stored
            report = inspect(files.write(tmp_path, tensors), sample_bytes=True)
            assert names(report) == expected
            assert not any("cannot tell" in note for note in report.notes)


@pytest.mark.parametrize(
    "scale",
    [
        torch.full((256, 16), 117, dtype=torch.uint8),
        torch.randint(100, 125, (256, 16), generator=torch.Generator().manual_seed(1)),
    ],
)
def test_uniform_or_random_bytes_cannot_tell(tmp_path: Path, scale: torch.Tensor) -> None:
    tensors = {"a.0.b.weight": codes(256, 512), "a.0.b.weight_scale": scale.to(torch.uint8)}
    report = inspect(files.write(tmp_path, tensors), sample_bytes=True)
    assert report.findings == []
    assert any(note.startswith("cannot tell row-major from tiled") for note in report.notes)


def test_weight_dtypes(tmp_path: Path) -> None:
    weight = codes(128, 256).float().to(torch.float8_e5m2)
    report = broken(tmp_path, {f"{DOWN}.weight": weight})
    assert "weight is F8_E5M2: expected F8_E4M3" in found(report, "weight-dtype").message
    raw = codes(128, 256).view(torch.uint8)
    report = broken(tmp_path, {f"{DOWN}.weight": raw})
    assert "raw bytes" in found(report, "weight-dtype").message


def test_bare_codes_in_a_16_bit_weight(tmp_path: Path) -> None:
    """Field report 55: a maximum of 448 is the fingerprint of a scale that was left out."""
    weight = torch.arange(128 * 256).remainder(127).to(torch.uint8).reshape(128, 256)
    weight = weight.view(torch.float8_e4m3fn).bfloat16()
    tensors = {**files.plain_llama(), f"{DOWN}.weight": weight}
    report = inspect(files.write(tmp_path, tensors, files.with_config(None)), sample_bytes=True)
    assert names(report) == {"fp8-values-without-scale"}
    assert "the largest is 448" in found(report, "fp8-values-without-scale").message
    tensors[f"{DOWN}.weight"] = weight * 2.0**-12  # dequantised as it should be
    report = inspect(files.write(tmp_path, tensors, files.with_config(None)), sample_bytes=True)
    assert report.findings == []
