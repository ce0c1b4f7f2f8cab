"""Checkpoints as their exporters write them: formats, rows, claims, and no finding that is not."""

import json
import os
import time
from pathlib import Path
from typing import Any

import checkpoint_files as files
import pytest
import torch
from checkpoint_files import codes, floats, names, scales

from mxlab.checkpoints import KINDS, Report, inspect
from mxlab.cli import main
from mxlab.guards import GUARDS


def formats(report: Report) -> dict[str, int]:
    return {entry["format"]: entry["linears"] for entry in report.formats()}


@pytest.mark.parametrize("sample", [False, True])
@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize(
    ("scale", "claim", "dialect"),
    [
        ("weight_scale", files.MODELOPT, "ModelOpt MXFP8, flat"),
        ("weight_scale", files.COMPRESSED, "compressed-tensors"),
        ("weight_scale_inv", files.NATIVE, "native MXFP8"),
    ],
)
def test_a_good_mxfp8_checkpoint_has_no_finding(
    tmp_path: Path, scale: str, claim: dict[str, Any], dialect: str, shards: int, sample: bool
) -> None:
    tensors = files.llama(scale)
    report = inspect(
        files.write(tmp_path, tensors, files.with_config(claim), shards=shards),
        sample_bytes=sample,
    )
    assert report.findings == []
    assert not report.stops
    assert formats(report) == {"MXFP8": 21, "BF16": 2}
    assert {row.dialect for row in report.rows} == {dialect, ""}
    assert report.total_bytes == sum(t.numel() * t.element_size() for t in tensors.values())
    rows = {row.pattern: row.to_json() for row in report.rows}
    assert len(rows) == 9
    down = rows["model.layers.{layer}.mlp.down_proj"]
    assert (down["n"], down["k"], down["layers"], down["layer_ranges"]) == (128, 256, 3, "0-2")
    assert (down["scale_dtype"], down["scale_shape"]) == ("U8", [128, 8])


def test_a_plain_checkpoint_and_a_plain_config(tmp_path: Path) -> None:
    report = inspect(
        files.write(tmp_path, files.plain_llama(), files.with_config(None)), sample_bytes=True
    )
    assert report.findings == []
    assert formats(report) == {"BF16": 23}


def linear(weight: torch.Tensor, scale: torch.Tensor | None, **more: Any) -> files.Tensors:
    """One quantised linear under its usual names; more tensors by their ending."""
    base = more.pop("base", "model.layers.0.mlp.down_proj")
    tensors = {f"{base}.weight": weight}
    if scale is not None:
        tensors[f"{base}.{more.pop('scale_name', 'weight_scale')}"] = scale
    return tensors | {f"{base}.{ending}": tensor for ending, tensor in more.items()}


def bytes_of(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.uint8)


def fp8_scales(*shape: int) -> torch.Tensor:
    return torch.full(shape, 0.5).to(torch.float8_e4m3fn)


FORMATS: list[tuple[str, files.Tensors, str, list[int] | None, tuple[int, int]]] = [
    ("MXFP8", linear(codes(96, 64), scales(96, 2)), "MXFP8", [1, 32], (96, 64)),
    (
        "block FP8, ragged: DeepSeek's fused_qkv_a",
        linear(codes(264, 320), torch.rand(3, 3), scale_name="weight_scale_inv"),
        "FP8 block",
        [128, 128],
        (264, 320),
    ),
    (
        "block FP8 with E8M0 bytes: DeepSeek V4",
        linear(codes(256, 512), scales(2, 4).view(torch.float8_e8m0fnu), scale_name="scale"),
        "FP8 block",
        [128, 128],
        (256, 512),
    ),
    ("per tensor", linear(codes(64, 64), torch.tensor(0.5)), "FP8 tensor", None, (64, 64)),
    ("per member", linear(codes(96, 64), torch.rand(3)), "FP8 tensor", None, (96, 64)),
    ("per channel", linear(codes(96, 64), torch.rand(96, 1)), "FP8 channel", None, (96, 64)),
    (
        "NVFP4 of ModelOpt",
        linear(bytes_of(64, 64), fp8_scales(64, 8), weight_scale_2=torch.tensor(0.1)),
        "NVFP4",
        [1, 16],
        (64, 128),
    ),
    (
        "NVFP4 of compressed-tensors",
        {
            "model.layers.0.mlp.up_proj.weight_packed": bytes_of(64, 64),
            "model.layers.0.mlp.up_proj.weight_scale": fp8_scales(64, 8),
            "model.layers.0.mlp.up_proj.weight_global_scale": torch.tensor(9.0),
        },
        "NVFP4",
        [1, 16],
        (64, 128),
    ),
    ("MXFP4 of Quark", linear(bytes_of(64, 64), scales(64, 4)), "MXFP4", [1, 32], (64, 128)),
    (
        "MXFP4 of gpt-oss",
        {
            "model.layers.0.mlp.experts.gate_up_proj_blocks": bytes_of(4, 96, 2, 16),
            "model.layers.0.mlp.experts.gate_up_proj_scales": scales(4, 96, 2),
        },
        "MXFP4",
        [1, 32],
        (96, 64),
    ),
    (
        "stacked experts of ModelOpt",
        {
            "model.layers.0.mlp.experts.gate_up_proj": codes(4, 96, 64),
            "model.layers.0.mlp.experts.gate_up_proj_weight_scale": scales(4, 96, 2),
        },
        "MXFP8",
        [1, 32],
        (96, 64),
    ),
    (
        "MLX",
        {
            "layers.0.q.weight": torch.zeros(64, 16, dtype=torch.uint32),
            "layers.0.q.scales": scales(64, 2),
        },
        "MXFP8",
        [1, 32],
        (64, 64),
    ),
    (
        "INT8",
        linear(torch.zeros(64, 64, dtype=torch.int8), torch.rand(64, 1)),
        "INT8",
        None,
        (64, 64),
    ),
    ("half", linear(floats(64, 64, dtype=torch.float16), None), "F16", None, (64, 64)),
]


@pytest.mark.parametrize(
    ("tensors", "form", "block", "size"), [row[1:] for row in FORMATS], ids=[r[0] for r in FORMATS]
)
def test_formats_of_the_dialects(
    tmp_path: Path, tensors: files.Tensors, form: str, block: Any, size: tuple[int, int]
) -> None:
    report = inspect(files.write(tmp_path, tensors))
    (row,) = [row.to_json() for row in report.rows]
    assert (row["format"], row["block"], (row["n"], row["k"])) == (form, block, size)
    if row["format"] != "FP8 block" or row["scale_dtype"] == "F32":
        assert not report.stops, report.findings
    assert "orphan-scale" not in names(report)


def test_quark_with_one_scale_for_32_rows(tmp_path: Path) -> None:
    tensors = linear(codes(96, 64), scales(3, 2))
    weight = {"dtype": "fp8_e4m3", "qscheme": "per_block", "block_size": [32, 32]}
    weight["scale_type"] = "float8_e8m0fnu"
    claim = {"quant_method": "quark", "global_quant_config": {"weight": weight}}
    report = inspect(files.write(tmp_path / "claimed", tensors, {"quantization_config": claim}))
    assert report.rows[0].weights[0].block == (32, 32)
    assert not report.stops, report.findings
    report = inspect(files.write(tmp_path / "unclaimed", tensors))
    assert names(report) == {"block-not-32"}


def test_experts_and_layers_fold_into_few_rows(tmp_path: Path) -> None:
    tensors = {}
    for layer in (3, 4, 5):
        for expert in range(4):
            for leaf, (n, k) in {"gate_proj": (64, 96), "down_proj": (96, 64)}.items():
                base = f"model.layers.{layer}.mlp.experts.{expert}.{leaf}"
                tensors[f"{base}.weight"] = codes(n, k)
                tensors[f"{base}.weight_scale_inv"] = scales(n, k // 32)
    rows = [row.to_json() for row in inspect(files.write(tmp_path, tensors)).rows]
    assert [
        (row["pattern"], row["layers"], row["layer_ranges"], row["experts"], row["count"])
        for row in rows
    ] == [
        (f"model.layers.{{layer}}.mlp.experts.{{expert}}.{leaf}", 3, "3-5", 4, 12)
        for leaf in ("down_proj", "gate_proj")
    ]


def test_a_shard_does_not_miss_what_another_shard_holds(tmp_path: Path) -> None:
    folder = files.write(tmp_path, files.llama(), files.with_config(files.MODELOPT), shards=2)
    for shard in sorted(folder.glob("*.safetensors")):
        report = inspect(shard)
        assert report.checkpoint.kind == "file"
        assert not report.stops, report.findings
        assert any("one of 2 shards" in note for note in report.notes)
    (folder / "model.safetensors.index.json").unlink()
    report = inspect(folder / "model-00001-of-00002.safetensors")
    assert {(f.name, f.severity) for f in report.findings} >= {("missing-scale", "warning")}
    assert not report.stops


def test_an_index_alone_gives_names_in_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed = {}
    for layer in range(61):
        for expert in range(256):
            for leaf in ("gate_proj", "up_proj", "down_proj"):
                base = f"model.layers.{layer}.mlp.experts.{expert}.{leaf}.weight"
                placed[base] = placed[f"{base}_scale_inv"] = f"model-{layer:05}.safetensors"
    assert len(placed) > 90_000
    path = files.write_index(tmp_path, placed)
    config = files.with_config({**files.NATIVE, "ignored_layers": ["lm_head", "*embed*", "re:.*q"]})
    (tmp_path / "config.json").write_text(json.dumps(config))
    start = time.process_time()
    assert main(["inspect", str(path), "--json"]) == 0
    assert time.process_time() - start < 3
    data = json.loads(capsys.readouterr().out)
    assert data["kind"] == "index"
    assert data["tensors"] == len(placed)
    assert len(data["linears"]) == 3
    assert data["linears"][0]["format"] == "names only"
    assert data["linears"][0]["experts"] == 256
    assert "names only" in data["notes"][0]
    assert {f["name"] for f in data["findings"]} == {"exclusion-matches-nothing"}
    assert {f["message"].split(":")[0] for f in data["findings"]} >= {"lm_head", "*embed*"}


def test_an_index_names_orphans(tmp_path: Path) -> None:
    path = files.write_index(tmp_path, {"a.b.weight_scale": "x.safetensors"})
    assert names(inspect(path)) == {"orphan-scale"}


def test_a_half_terabyte_file_is_read_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "huge.safetensors"
    n, k = 1 << 20, 1 << 19
    weight, scale = n * k, n * k // 32
    files.header_file(
        path,
        {
            "layers.0.up.weight": {
                "dtype": "F8_E4M3",
                "shape": [n, k],
                "data_offsets": [0, weight],
            },
            "layers.0.up.weight_scale": {
                "dtype": "U8",
                "shape": [n, k // 32],
                "data_offsets": [weight, weight + scale],
            },
        },
    )
    try:
        os.truncate(path, path.stat().st_size + weight + scale)
    except OSError:
        pytest.skip("this file system has no sparse file of 567 GB")
    start = time.process_time()
    report = inspect(path, sample_bytes=True)
    assert time.process_time() - start < 2
    assert report.total_bytes == weight + scale > 500e9
    assert report.bytes is not None
    assert report.bytes.read < 1 << 20
    assert [(f.name, f.severity) for f in report.findings] == [("byte-0-present", "note")]


def test_the_config_alone_is_what_it_claims(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(files.with_config(files.MODELOPT, intermediate_size=272)))
    for source in (path, tmp_path):
        report = inspect(source)
        assert report.checkpoint.kind == "config"
        assert report.claim is not None
        assert report.claim.weights == "MXFP8"
        assert [f.message.split(": ")[1] for f in report.findings] == ["K = 272 % 32 = 16"]
    path.write_text(json.dumps(files.with_config(files.MODELOPT)))
    assert inspect(path).findings == []


def test_modelopts_separate_config_is_read(tmp_path: Path) -> None:
    folder = files.write(tmp_path, files.llama())
    quant = {"quantization": {"quant_algo": "MXFP8", "exclude_modules": ["lm_head", "mtp*"]}}
    (folder / "hf_quant_config.json").write_text(json.dumps(quant))
    report = inspect(folder)
    assert report.claim is not None
    assert report.claim.weights == "MXFP8"
    assert [f.message.split(":")[0] for f in report.findings] == ["mtp*"]
    assert inspect(folder / "hf_quant_config.json").claim == report.claim


def test_the_findings_table_is_whole() -> None:
    known = {guard.id for guard in GUARDS}
    for kind in KINDS.values():
        assert kind.severity in ("error", "warning", "note")
        assert kind.guard is None or kind.guard in known, kind.guard
        assert kind.meaning.endswith(".") and not kind.fix.endswith(".")
