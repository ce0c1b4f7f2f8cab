"""Reference page of checkpoint formats: what is recognised, what is stored, what can be wrong."""

from book.site.markdown import code, plain, table
from mxlab.checkpoints.kinds import KINDS
from mxlab.checkpoints.names import SCALES

#: (format, recognised by, weight, scale, a model that has it): read from public copies of these
#: models' config.json, and from the exporters and loaders that file_formats.md names
FORMATS: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "native MXFP8",
        'quant_method: "mxfp8"',
        "weight: F8_E4M3 (N, K)",
        "weight_scale_inv: U8 (N, K/32)",
        "MiniMax-M3-MXFP8",
    ),
    (
        "ModelOpt MXFP8",
        'quant_method: "modelopt", quant_algo: "MXFP8" (flat, nested, or in hf_quant_config.json)',
        "weight: F8_E4M3 (N, K)",
        "weight_scale: U8 (N, K/32)",
        "OpenMath2-Llama3.1-8B-MXFP8",
    ),
    (
        "ModelOpt mixed",
        'quant_algo: "MIXED_PRECISION", quantized_layers: {module: {quant_algo}}',
        "by module",
        "by module",
        "MiniMax-M3-NVFP4",
    ),
    (
        "compressed-tensors MXFP8",
        'quant_method: "compressed-tensors", format "mxfp8-quantized", group_size 32, '
        "scale_dtype torch.uint8",
        "weight: F8_E4M3 (N, K)",
        "weight_scale: U8 (N, K/32)",
        "Qwen3.5-4B-MXFP8",
    ),
    (
        "Quark MXFP8, 2-D",
        'quant_method: "quark", qscheme per_block, block_size [R, 32], scale_format e8m0',
        "weight: F8_E4M3 (N, K)",
        "one E8M0 for R x 32 values",
        "DeepSeek-V4.1-Flash",
    ),
    (
        "block FP8",
        'quant_method: "fp8", weight_block_size: [128, 128]',
        "weight: F8_E4M3 (N, K)",
        "weight_scale_inv: F32 (ceil(N/128), ceil(K/128))",
        "DeepSeek-V3",
    ),
    (
        "block FP8, powers of two",
        'as above with scale_fmt: "ue8m0"',
        "weight: F8_E4M3 (N, K)",
        "weight_scale_inv: F32 or F8_E8M0",
        "DeepSeek-V3.2",
    ),
    (
        "per-tensor FP8",
        'quant_method: "fp8", weight_block_size: null; or ModelOpt "FP8"',
        "weight: F8_E4M3 (N, K)",
        "one number for the tensor",
        "Devstral-Small-2",
    ),
    (
        "MXFP4",
        'quant_method: "mxfp4"',
        "*_blocks: U8 (E, N, K/32, 16)",
        "*_scales: U8 (E, N, K/32)",
        "gpt-oss-20b",
    ),
)


def formats_page() -> list[str]:
    """Return the formats, the endings that name a scale, and the mistakes that are looked for."""
    return [
        *table(
            ["format", "recognised by", "weight, then scale"],
            [
                (
                    f"{plain(name)}, for example {plain(model)}",
                    code(recognised),
                    "<br>".join(dict.fromkeys((code(weight), code(scale)))),
                )
                for name, recognised, weight, scale, model in FORMATS
            ],
        ),
        "## Names of scales",
        "",
        "A tensor with one of these endings is the scale of the weight whose name has the second "
        "ending in its place. One whose ending is certain is reported as an orphan without it.",
        "",
        *table(
            ["ending", "endings of its weight", "certain", "one number for the tensor"],
            [
                (
                    code(row.ending),
                    ", ".join(code(ending) if ending else "none" for ending in row.weights),
                    "yes" if row.certain else "beside a weight only",
                    "yes" if row.whole else "no",
                )
                for row in SCALES
            ],
        ),
        "## What is looked for",
        "",
        *table(
            ["mistake", "how bad", "what it means", "what mends it"],
            [
                (code(row.name), row.severity, plain(row.meaning), plain(row.fix))
                for row in KINDS.values()
            ],
        ),
    ]
