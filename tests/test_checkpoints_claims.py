"""Config, index and tensors that contradict each other, and the findings with their numbers."""

import json
from pathlib import Path
from typing import Any

import checkpoint_files as files
import pytest
import torch
from checkpoint_files import DOWN, LAYER, SCALE, broken, codes, floats, found, names, scales
from safetensors.torch import save_file

from mxlab.checkpoints import KINDS, Report, inspect


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
    folder = Path(__file__).parent
    text = "".join(path.read_text() for path in folder.glob("test_checkpoints_*.py"))
    assert [name for name in KINDS if f'"{name}"' not in text] == []
