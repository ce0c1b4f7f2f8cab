"""Every mistake of the table: a checkpoint that has it, and the finding with its numbers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import checkpoint_files as files
import pytest
import torch
from checkpoint_files import codes, floats, scales
from safetensors.torch import save_file

from mxlab.checkpoints import KINDS, Finding, Report, inspect
from mxlab.layout import layout

LAYER = "model.layers.1."
DOWN = f"{LAYER}mlp.down_proj"
SCALE = f"{DOWN}.weight_scale"


def found(report: Report, name: str) -> Finding:
    """The one finding of that name."""
    (finding,) = [row for row in report.findings if row.name == name]
    return finding


def names(report: Report) -> set[str]:
    return {row.name for row in report.findings}


def broken(
    tmp_path: Path, changes: Mapping[str, torch.Tensor | None], claim: Any = files.MODELOPT
) -> Report:
    """A good checkpoint with some tensors replaced, added, or (None) left out."""
    tensors: dict[str, Any] = {**files.llama(), **changes}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    return inspect(files.write(tmp_path, kept, files.with_config(claim)), sample_bytes=True)


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


def test_config_says_nothing_and_tensors_are_mxfp8(tmp_path: Path) -> None:
    report = inspect(files.write(tmp_path, files.llama(), files.with_config(None)))
    assert names(report) == {"config-contradicts"}
    assert sum(finding.count for finding in report.findings) == 21
    assert report.stops


@pytest.mark.parametrize("claim", [files.BLOCK_FP8, files.MODELOPT, files.NATIVE, files.COMPRESSED])
def test_config_claims_fp8_and_tensors_are_bf16(tmp_path: Path, claim: Any) -> None:
    """Field report 63: decide from the stored dtypes."""
    report = inspect(files.write(tmp_path, files.plain_llama(), files.with_config(claim)))
    finding = found(report, "config-contradicts")
    assert "all 21 linears that it covers are BF16" in finding.message
    assert "remove the claim, or quantise online" in finding.message
    assert finding.guard == "lin-downcast"
    assert report.stops
    everything = {**claim, "modules_to_not_convert": ["model", "lm_head"]}
    everything = {k: v for k, v in everything.items() if k not in ("ignore", "ignored_layers")}
    report = inspect(files.write(tmp_path, files.plain_llama(), files.with_config(everything)))
    assert report.findings == []


def test_config_claims_another_format(tmp_path: Path) -> None:
    report = inspect(files.write(tmp_path, files.llama(), files.with_config(files.BLOCK_FP8)))
    assert names(report) == {"config-contradicts"}
    assert "weight is MXFP8, claimed is FP8 block 128x128" in report.findings[0].message
    block = {f"{DOWN}.weight_scale": torch.full((1, 2), 0.5)}
    report = broken(tmp_path, block)
    assert "weight is FP8 block 128x128, claimed is MXFP8" in report.findings[0].message


def block_fp8(tmp_path: Path, scale: tuple[int, ...], block: list[int] | None) -> Report:
    """DeepSeek's fused_qkv_a, (2112, 7168) in small: 17 x 56 blocks become 3 x 5."""
    tensors = {"a.b.weight": codes(264, 600), "a.b.weight_scale_inv": torch.full(scale, 0.5)}
    claim = {**files.BLOCK_FP8, "weight_block_size": block}
    config = {"quantization_config": claim} if block else None
    return inspect(files.write(tmp_path, tensors, config))


def test_block_fp8_scales_that_are_turned(tmp_path: Path) -> None:
    for at, block in enumerate(([128, 128], None)):
        assert block_fp8(tmp_path / f"right{at}", (3, 5), block).findings == []
        report = block_fp8(tmp_path / f"turned{at}", (5, 3), block)
        assert "is turned: expected (3, 5)" in found(report, "transposed-scale").message


def test_the_claimed_block_settles_what_shapes_leave_open(tmp_path: Path) -> None:
    report = block_fp8(tmp_path / "a", (9, 19), [32, 32])
    assert report.findings == []
    assert report.rows[0].weights[0].block == (32, 32)
    report = block_fp8(tmp_path / "b", (3, 5), [64, 128])
    text = "weight is FP8 block 128x128, claimed is FP8 block 64x128"
    assert text in found(report, "config-contradicts").message
    # 264 = 3 blocks of 96, 100, 112 or 128
    assert block_fp8(tmp_path / "c", (3, 5), [112, 128]).findings == []
    assert block_fp8(tmp_path / "d", (3, 6), [100, 100]).findings == []
    tensors = {"a.b.weight": codes(264, 600), "a.b.weight_scale_inv": scales(3, 5)}
    claim = {"quantization_config": {**files.BLOCK_FP8, "weight_block_size": [112, 128]}}
    assert inspect(files.write(tmp_path / "g", tensors, claim)).findings == []
    tensors = {"a.b.weight": codes(64, 96), "a.b.weight_scale_inv": torch.full((1, 1), 0.5)}
    claim = {"quantization_config": files.BLOCK_FP8}
    assert inspect(files.write(tmp_path / "e", tensors, claim)).findings == []
    (row,) = inspect(files.write(tmp_path / "f", tensors)).rows
    assert row.weights[0].format == "FP8 tensor", "without a claim (1, 1) is one number"


def test_the_two_configs_disagree(tmp_path: Path) -> None:
    folder = files.write(tmp_path, files.llama(), files.with_config(files.MODELOPT))
    (folder / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8"}}')
    finding = found(inspect(folder), "config-contradicts")
    assert "config.json says MXFP8, hf_quant_config.json says FP8 tensor" in finding.message


@pytest.mark.parametrize(
    "claim",
    [
        {"quant_method": "compressed-tensors", "format": "brand-new", "config_groups": {}},
        {"quant_method": "brand-new"},
        {"quant_method": "modelopt", "quant_algo": "FP7"},
        {"format": "mxfp8-quantized"},
    ],
)
def test_unknown_claims_are_refused_with_the_known_ones(tmp_path: Path, claim: Any) -> None:
    """Field report 61: nothing falls into a default."""
    finding = found(
        inspect(files.write(tmp_path, files.llama(), files.with_config(claim))), "config-unknown"
    )
    assert finding.severity == "error"
    assert "compressed-tensors (mxfp8-quantized" in finding.message
    assert "21 MXFP8" in finding.message


def test_four_bits_planned_and_fp8_stored(tmp_path: Path) -> None:
    """Field report 61: cross-check the plan with the stored dtypes."""
    claim = json.loads(json.dumps(files.COMPRESSED))
    claim["config_groups"]["group_0"]["weights"].update(num_bits=4, type="int")
    report = inspect(files.write(tmp_path, files.llama(), files.with_config(claim)))
    assert "weight is MXFP8, claimed is INT4" in report.findings[0].message
    assert report.stops


def test_leftover_block_size_under_mxfp8(tmp_path: Path) -> None:
    claim = {**files.NATIVE, "weight_block_size": [128, 128]}
    report = inspect(
        files.write(tmp_path, files.llama("weight_scale_inv"), files.with_config(claim))
    )
    finding = found(report, "config-block-size")
    assert (finding.severity, finding.guard) == ("warning", "cfg-mxfp8-override")
    assert "[128, 128]" in finding.message
    assert not report.stops


@pytest.mark.parametrize(
    ("entry", "idle"),
    [
        ("lm_head", False),
        ("model.layers.1.self_attn", False),
        ("layers.1.mlp.down_proj", False),
        ("model.layers.1.self_attn.qkv_proj", False),  # fused name of q, k, v
        ("norm", False),
        ("o_pro", False),  # a fragment: systems differ on it
        ("model.layers.*.self_attn", False),
        ("*lm_head", False),
        ("re:.*mlp.down_proj$", False),
        ("re:model\\.layers\\.[0-2]\\..*", False),
        ("re:.*(gate|up)_proj", False),
        ("model.layers.9.mlp", True),
        ("self_attn.indexers_proj", True),  # GLM-5: the module is indexer.weights_proj
        ("mtp*", True),
        ("vision_tower", True),
        ("re:.*mlp.down$", True),
        ("re:lm_head.+", True),
    ],
)
def test_exclusions_that_match_nothing(tmp_path: Path, entry: str, idle: bool) -> None:
    claim = {**files.MODELOPT, "ignore": ["lm_head", entry]}
    report = inspect(files.write(tmp_path, files.llama(), files.with_config(claim)))
    listed = [f for f in report.findings if f.name == "exclusion-matches-nothing"]
    assert [f.tensors for f in listed] == ([(entry,)] if idle else [])
    if idle:
        assert not report.stops


@pytest.mark.parametrize("entry", ["model.layers.1.mlp", "re:.*1.mlp", "model.layers.1.m*"])
def test_excluded_but_quantized(tmp_path: Path, entry: str) -> None:
    claim = {**files.MODELOPT, "ignore": ["lm_head", entry]}
    report = inspect(files.write(tmp_path, files.llama(), files.with_config(claim)))
    hits = [f for f in report.findings if f.name == "excluded-but-quantized"]
    assert {name for f in hits for name in f.tensors} == {
        f"{LAYER}mlp.{leaf}.weight" for leaf in ("gate_proj", "up_proj", "down_proj")
    }
    assert all(f.severity == "error" and entry in f.message for f in hits)


def test_expressions_that_are_not_evaluated(tmp_path: Path) -> None:
    claim = {**files.MODELOPT, "ignore": ["lm_head", "re:(?!x).*", "re:(a", "re:a{2}"]}
    report = inspect(files.write(tmp_path, files.llama(), files.with_config(claim)))
    assert names(report) == {"exclusion-not-checked"}
    assert len(report.findings) == 3


def test_one_plain_linear_that_is_not_excluded(tmp_path: Path) -> None:
    changes: dict[str, torch.Tensor | None] = {SCALE: None, f"{DOWN}.weight": floats(128, 256)}
    finding = found(broken(tmp_path, changes), "unquantized-not-excluded")
    assert finding.severity == "error", "the other layers have it quantised"
    assert finding.guard == "lin-downcast"
    claim = {**files.MODELOPT, "ignore": ["lm_head", DOWN]}
    assert broken(tmp_path, changes, claim).findings == []
    report = broken(tmp_path, {"model.visual.fc.weight": floats(64, 64)})
    assert [(f.name, f.severity) for f in report.findings] == [
        ("unquantized-not-excluded", "warning")
    ]


def test_members_of_a_fused_layer_differ(tmp_path: Path) -> None:
    key = f"{LAYER}self_attn.k_proj"
    changes = {f"{key}.weight_scale": None, f"{key}.weight": floats(64, 128)}
    claim = {**files.MODELOPT, "ignore": ["lm_head", key]}
    report = broken(tmp_path, changes, claim)
    finding = found(report, "fused-members-differ")
    assert finding.guard == "cfg-fused-skip"
    assert "k_proj BF16, q_proj MXFP8, v_proj MXFP8" in finding.message
    assert names(report) == {"fused-members-differ"}


def test_scale_names(tmp_path: Path) -> None:
    inv = files.llama("weight_scale_inv")
    report = inspect(files.write(tmp_path, inv, files.with_config(files.MODELOPT)))
    assert names(report) == {"scale-name"}
    assert not report.stops
    report = inspect(files.write(tmp_path, files.llama(), files.with_config(files.NATIVE)))
    assert {f.severity for f in report.findings} == {"note"}, "SGLang renames these"


def mixed(tmp_path: Path, **changes: torch.Tensor) -> Report:
    """Field report 54: attention MXFP8 with blocks of 32, experts NVFP4 with blocks of 16."""
    expert = "model.layers.0.mlp.experts.0.down_proj"
    tensors = {
        "model.layers.0.self_attn.o_proj.weight": codes(128, 128),
        "model.layers.0.self_attn.o_proj.weight_scale": scales(128, 4),
        f"{expert}.weight": torch.zeros(128, 64, dtype=torch.uint8),
        f"{expert}.weight_scale": torch.full((128, 8), 0.5).to(torch.float8_e4m3fn),
        f"{expert}.weight_scale_2": torch.tensor(0.1),
        **changes,
    }
    algorithms = {
        "model.layers.0.self_attn.o_proj": {"quant_algo": "MXFP8", "group_size": 32},
        expert: {"quant_algo": "NVFP4", "group_size": 16},
    }
    claim = {"quant_algo": "MIXED_PRECISION", "quantized_layers": algorithms}
    folder = files.write(tmp_path, tensors)
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": claim}))
    return inspect(folder)


def test_mixed_precision_is_resolved_per_layer(tmp_path: Path) -> None:
    report = mixed(tmp_path)
    assert {row.weights[0].format: row.weights[0].k for row in report.rows} == {
        "MXFP8": 128,
        "NVFP4": 128,  # 64 packed bytes hold 128 values
    }
    assert not report.stops
    assert "may be dropped" in found(report, "scale-name").message
    swapped = {"model.layers.0.self_attn.o_proj.weight_scale": scales(128, 8)}
    report = mixed(tmp_path, **swapped)
    assert "1 x 16 values" in found(report, "block-not-32").message
    extra = {"model.layers.0.self_attn.k_proj.weight": codes(64, 128)}
    extra["model.layers.0.self_attn.k_proj.weight_scale"] = scales(64, 4)
    report = mixed(tmp_path, **extra)
    assert "quantized_layers does not name it" in found(report, "config-contradicts").message


def test_packed_fp4_in_an_unpacked_buffer(tmp_path: Path) -> None:
    """Field report 54: 3072 packed bytes hold 6144 FP4 values."""
    raw = torch.zeros(128, 128, dtype=torch.uint8)
    report = broken(tmp_path, {f"{DOWN}.weight": raw, SCALE: None})
    finding = found(report, "shape-differs-from-config")
    assert "128 bytes a row hold 256 packed FP4 values" in finding.message


def test_shapes_of_another_config(tmp_path: Path) -> None:
    config = files.with_config(files.MODELOPT, intermediate_size=320)
    report = inspect(files.write(tmp_path, files.llama(), config))
    assert names(report) == {"shape-differs-from-config"}
    assert sum(f.count for f in report.findings) == 9
    texts = " ".join(f.message for f in report.findings)
    assert "stored (N, K) = (128, 256), the config gives (128, 320)" in texts
    config = files.with_config(files.MODELOPT, vocab_size=600)
    report = inspect(files.write(tmp_path, files.llama(), config))
    assert [f.tensors for f in report.findings] == [("lm_head.weight",)]


@pytest.mark.parametrize("stacked", [False, True])
def test_experts_are_held_against_the_config(tmp_path: Path, stacked: bool) -> None:
    config = {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_local_experts": 2,
        "vocab_size": 512,
        "tie_word_embeddings": False,
    }
    base = "model.layers.0.block_sparse_moe.experts"
    if stacked:
        tensors = {f"{base}.gate_up_proj": floats(2, 512, 128)}
        wrong = {f"{base}.gate_up_proj": floats(2, 256, 128)}
    else:
        tensors = {f"{base}.1.w1.weight": floats(256, 128), f"{base}.1.w2.weight": floats(128, 256)}
        wrong = {f"{base}.1.w1.weight": floats(192, 128), f"{base}.1.w2.weight": floats(128, 192)}
    assert inspect(files.write(tmp_path, tensors, config)).findings == []
    report = inspect(files.write(tmp_path, wrong, config))
    assert names(report) == {"shape-differs-from-config"}
    assert sum(f.count for f in report.findings) == len(wrong)


def test_index_and_shards_disagree(tmp_path: Path) -> None:
    folder = files.write(tmp_path, files.llama(), files.with_config(files.MODELOPT), shards=2)
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    first, second = sorted(set(index["weight_map"].values()))
    name = next(name for name, file in index["weight_map"].items() if file == first)
    index["weight_map"][name] = second
    index["weight_map"]["model.layers.7.mlp.down_proj.bias"] = first
    path.write_text(json.dumps(index))
    report = inspect(folder)
    texts = {f.tensors[0]: f.message for f in report.findings if f.name == "index-mismatch"}
    assert f"does not hold it; {first} has it" in texts[name]
    assert texts["model.layers.7.mlp.down_proj.bias"].endswith("which does not hold it")
    del index["weight_map"][name]
    path.write_text(json.dumps(index))
    texts = {f.tensors[0]: f.message for f in inspect(folder).findings}
    assert "the index does not name it" in texts[name]


def test_a_shard_that_is_not_here(tmp_path: Path) -> None:
    folder = files.write(tmp_path, files.llama(), files.with_config(files.MODELOPT), shards=3)
    gone = folder / "model-00002-of-00003.safetensors"
    gone.unlink()
    report = inspect(folder)
    assert found(report, "missing-shard").tensors == (gone.name,)
    assert "for 16 tensors" in found(report, "missing-shard").message
    assert names(report) == {"missing-shard"}, report.findings


def test_a_tensor_in_two_shards(tmp_path: Path) -> None:
    folder = files.write(tmp_path, files.llama(), files.with_config(files.MODELOPT), shards=2)
    path = folder / "model-00002-of-00002.safetensors"
    save_file({"model.norm.weight": floats(128), "lm_head.weight": floats(4, 4)}, path)
    index = {"model.norm.weight": "model-00001-of-00002.safetensors", "lm_head.weight": path.name}
    files.write_index(folder, index)
    report = inspect(folder)
    duplicates = [f for f in report.findings if f.name == "duplicate-tensor"]
    assert duplicates and all(f.severity == "error" for f in duplicates)


def test_every_finding_has_a_test() -> None:
    text = Path(__file__).read_text()
    assert [name for name in KINDS if f'"{name}"' not in text] == []
