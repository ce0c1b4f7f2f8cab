"""Random inputs for SGLang's checks, as likely to trip them as to pass."""

from collections.abc import Callable
from random import Random
from typing import Any

FLAGS = (
    *("auto", "deep_gemm", "flashinfer_trtllm", "flashinfer_cutlass", "flashinfer_cutedsl"),
    *("flashinfer_deepgemm", "cutlass", "triton", "aiter"),
)
RUNNERS = (
    *("auto", "deep_gemm", "triton", "triton_kernel", "flashinfer_trtllm", "cutlass", "aiter"),
    *("flashinfer_trtllm_routed", "flashinfer_cutlass", "flashinfer_cutedsl", "marlin"),
    *("flashinfer_mxfp4", "flashinfer_megamoe", "humming", "hpc_ops"),
)
METHODS = (
    *("fp8", "mxfp8", "MXFP8", "awq", "gptq", "modelopt", "modelopt_fp8", "modelopt_fp4", "what"),
    *("modelopt_mixed", "w4afp8", "quark", "mxfp4", "compressed-tensors", "minimax_m3_nvfp4"),
    *("w8a8_fp8", "w8a8_int8", "petit_nvfp4", "nvfp4_online", "auto-round"),
)
BLOCKS: tuple[Any, ...] = (
    *(None, [1, 32], [128, 128], [32, 32], [1, 128], [64, 128], [1, 16], [32, 64], [128]),
    *([], [1, 32, 1], {"tuple": [1, 32]}, {"tuple": [128, 128]}),
)
WORDS = (
    *("model", "layers", "0", "1", "self_attn", "mlp", "experts", "q_proj", "k_proj", "v_proj"),
    *("qkv_proj", "gate_proj", "up_proj", "gate_up_proj", "down_proj", "o_proj", "lm_head", "x"),
)


def _near(rng: Random, multiple: int, most: int) -> int:
    """Return a size that is a multiple, or just off one, or neither."""
    size = multiple * rng.randint(1, max(1, most // multiple))
    return max(1, size + rng.choice((0, 0, 0, 1, -1, multiple // 2, multiple // 4, 16, 8)))


def _some(rng: Random, **values: Any) -> dict[str, Any]:
    """Keep each key with a chance of two in three."""
    return {key: value for key, value in values.items() if rng.random() < 2 / 3}


def _path(rng: Random) -> str:
    parts = [rng.choice(WORDS) for _ in range(rng.randint(1, 5))]
    return ("." * (rng.random() < 0.05)).join(parts) if rng.random() < 0.05 else ".".join(parts)


def _scheme(rng: Random) -> Any:
    return rng.choice(("dynamic", "dynamic", "dynamic", "static", "Dynamic", ""))


def constructor(rng: Random) -> dict[str, Any]:
    kwargs = _some(
        rng,
        is_checkpoint_fp8_serialized=rng.random() < 0.8,
        activation_scheme=_scheme(rng),
        weight_block_size=rng.choice(BLOCKS),
        use_mxfp8=rng.random() < 0.6,
    )
    return {"kwargs": kwargs}


def config(rng: Random) -> dict[str, Any]:
    values = _some(
        rng,
        quant_method=rng.choice((*METHODS, "mxfp8", "fp8", "mxfp8")),
        weight_block_size=rng.choice(BLOCKS),
        scale_fmt=rng.choice((None, "ue8m0", "float")),
        ignored_layers=[_path(rng) for _ in range(rng.randint(0, 3))],
        modules_to_not_convert=[_path(rng) for _ in range(rng.randint(0, 3))],
    )
    if rng.random() < 0.9:
        values["activation_scheme"] = _scheme(rng)
    return {"config": values}


def capability(rng: Random) -> dict[str, Any]:
    return {
        "use_mxfp8": rng.random() < 0.5,
        "is_checkpoint_fp8_serialized": rng.random() < 0.5,
    }


def verify(rng: Random) -> dict[str, Any]:
    checkpoint = None
    if rng.random() < 0.8:
        checkpoint = _some(
            rng,
            quant_method=rng.choice((*METHODS, "gptq", "awq", "gptq")),
            quant_algo=rng.choice(("FP8", "MXFP8", "NVFP4", "FP4", "")),
            bits=rng.choice((4, 4, 4, 8, 3)),
            group_size=rng.choice((128, 128, 32, -1, 16)),
            sym=rng.random() < 0.8,
            desc_act=False,
            zero_point=rng.random() < 0.8,
            checkpoint_format=rng.choice(("gptq", "gptq", "marlin")),
        )
    flag = rng.choice((None, None, *METHODS))
    return {
        "quantization": flag,
        "checkpoint": checkpoint,
        "is_draft_model": rng.random() < 0.3,
    }


def parse(rng: Random) -> dict[str, Any]:
    algos = ("MXFP8", "FP8", "NVFP4", "W4A16_NVFP4", "MIXED_PRECISION", "W4A8", None, "")
    inner = _some(
        rng,
        quant_algo=rng.choice(algos),
        group_size=rng.choice((16, 32, 64)),
        exclude_modules=[_path(rng)],
        ignore=[_path(rng)],
        kv_cache_quant_algo=rng.choice((None, "FP8")),
        kv_cache_scheme=rng.choice((None, {"type": "float", "num_bits": 8}, {"type": "int"})),
        quantized_layers={_path(rng): {"quant_algo": rng.choice(("FP8", "NVFP4", "nvfp4"))}},
    )
    return {"config": {"quantization": inner}}


def skipped(rng: Random) -> dict[str, Any]:
    ignored = [_path(rng) + rng.choice(("", "", ".", "..")) for _ in range(rng.randint(0, 4))]
    prefix = _path(rng)
    if ignored and rng.random() < 0.5:  # one that is near
        head = rng.choice(ignored).rstrip(".")
        prefix = rng.choice((head, f"{head}.{rng.choice(WORDS)}", f"model.{head}", head + "x"))
        prefix = prefix.replace("gate_proj", "gate_up_proj").replace("q_proj", "qkv_proj")
    mapping: Any = rng.choice((None, None, {}, {"qkv_proj": ["q_proj", "k_proj"]}, {"x": []}))
    return {"prefix": prefix, "ignored_layers": ignored, "fused_mapping": mapping}


def flag(rng: Random) -> dict[str, Any]:
    return {"fp8_gemm_backend": rng.choice(FLAGS)}


def block_flag(rng: Random) -> dict[str, Any]:
    pairs = [block for block in BLOCKS if block is None or len(block) == 2 or "tuple" in block]
    return {
        **flag(rng),
        "weight_block_size": rng.choice(pairs),
        "act_scale_ue8m0": rng.random() < 0.5,
        "scale_fmt": rng.choice((None, "ue8m0", "float")),
    }


def method(rng: Random) -> dict[str, Any]:
    serialized = rng.random() < 0.8
    blocks = (None, [128, 128], [32, 32], [1, 32], [1, 128]) if serialized else (None,)
    values: dict[str, Any] = {"is_checkpoint_fp8_serialized": serialized}
    if rng.random() < 0.5:
        values |= {"use_mxfp8": True}
    else:
        values |= {"weight_block_size": rng.choice(blocks)}
        values |= _some(rng, scale_fmt=rng.choice((None, "ue8m0")))
    return {**flag(rng), "config": values}


def block_shapes(rng: Random) -> dict[str, Any]:
    tp = rng.choice((None, 1, 2, 3, 4, 8))
    block = rng.choice(([1, 32], [1, 32], [128, 128], [32, 32], [64, 96]))
    width = tp or 1
    part_k, part_n = _near(rng, block[1], 4096), _near(rng, max(block[0], 16), 4096)
    kind = rng.choice(("row", "column", "merged", "odd", "replicated"))
    whole_k = part_k * width if kind == "row" else part_k
    parts = [part_n]
    if kind == "merged":
        parts = [_near(rng, max(block[0], 16), 2048) for _ in range(rng.randint(2, 3))]
    whole_n = sum(parts) * (width if kind in ("column", "merged") else 1)
    if kind == "odd":
        whole_k, whole_n = rng.randint(1, 8192), rng.randint(1, 8192)
    return {
        "input_size": whole_k,
        "input_size_per_partition": part_k,
        "output_size": whole_n,
        "output_partition_sizes": parts,
        "tp_size": tp,
        "weight_block_size": block,
        "skip_block_quant_check": rng.random() < 0.1,
    }


def block_variant(rng: Random) -> dict[str, Any]:
    return {**block_shapes(rng), "skip_block_quant_check": False}  # it has no such flag


def scale(rng: Random) -> dict[str, Any]:
    """``flashinfer_trtllm`` shuffles in FlashInfer's own code, which is a stand-in here."""
    chosen = rng.choice([name for name in FLAGS if name != "flashinfer_trtllm"])
    return {"fp8_gemm_backend": chosen, "n": _near(rng, 64, 1024), "k": _near(rng, 128, 1024)}


def runner(rng: Random) -> dict[str, Any]:
    return {
        "quantization": rng.choice((None, "mxfp8", "mxfp8", "fp8", "modelopt_fp4", "awq")),
        "moe_runner_backend": rng.choice(RUNNERS),
        "moe_a2a_backend": rng.choice(("none", "deepep", "flashinfer", "flashinfer_megamoe")),
    }


def expert_method(rng: Random) -> dict[str, Any]:
    return {
        "moe_runner_backend": rng.choice(RUNNERS),
        "config": method(rng)["config"],
    }


def expert_info(rng: Random) -> dict[str, Any]:
    return {"use_mxfp8": True, "block_shape": [1, 32]}


def kv_dtype(rng: Random) -> dict[str, Any]:
    return {"kv_cache_dtype": rng.choice(("mxfp8", "mxfp8", "auto", "fp8_e4m3", "bfloat16"))}


def fa4_page(rng: Random) -> dict[str, Any]:
    backends = (None, "fa4", "fa3", "triton", "flashinfer")
    return {
        "attention_backend": rng.choice(backends[1:]),
        "prefill_attention_backend": rng.choice((None, None, *backends)),
        "decode_attention_backend": rng.choice((None, None, *backends)),
        "mla": rng.random() < 0.3,
        "speculative_eagle_topk": rng.choice((None, 0, 1, 2, 4)),
        "page_size": rng.choice((1, 16, 64, 128, 256)),
    }


def pool(rng: Random) -> dict[str, Any]:
    page = rng.choice((1, 16, 64, 128, 256))
    return {
        "size": page * rng.randint(0, 2),
        "page_size": page,
        "head_num": rng.randint(1, 4),
        "head_dim": rng.choice((32, 64, 72, 80, 96, 100, 112, 128, 192, 256)),
        "v_head_dim": rng.choice((None, None, 64, 80, 96, 128, 512)),
        "layer_num": 1,
    }


def prologue(rng: Random) -> dict[str, Any]:
    function = rng.choice(("verify", "extend", "decode"))
    page, pages = rng.choice((32, 64, 128, 48, 256)), rng.randint(1, 4)
    dq, dkv = (rng.choice((128, 256, 512, 1024, 64, 200)) for _ in range(2))
    rows = page * pages + rng.choice((0, 0, 0, 1, page // 2))
    right = [rows // page, dkv // 128, 32, page // 32, 4]

    def scales() -> Any:
        if rng.random() < 0.1:
            return None
        shape = list(right)
        if rng.random() < 0.3:
            shape[rng.randrange(5)] += rng.choice((1, -1, 3))
        return {"shape": [max(0, size) for size in shape], "contiguous": rng.random() < 0.85}

    return {
        "function": function,
        "dq": dq,
        "dkv": max(128, dkv),
        "page_size": page,
        "k_buf_rows": rows,
        "mxfp8_quant": rng.random() < 0.85,
        "sfk": scales(),
        "sfv": scales(),
    }


#: function -> (inputs, how often on one machine)
INPUTS: dict[str, tuple[Callable[[Random], dict[str, Any]], int]] = {
    "Fp8Config.__init__": (constructor, 200),
    "Fp8Config.from_config": (config, 300),
    "Fp8Config.get_min_capability": (capability, 4),
    "ModelConfig._verify_quantization": (verify, 300),
    "ModelConfig._parse_modelopt_quant_config": (parse, 100),
    "quantization.utils.is_layer_skipped": (skipped, 600),
    "fp8_utils.initialize_fp8_gemm_config": (flag, 20),
    "fp8_utils.resolve_mxfp8_dense_gemm_backend": (flag, 30),
    "fp8_utils.resolve_block_fp8_mxfp8_backend": (flag, 30),
    "fp8_utils.dispatch_w8a8_mxfp8_linear": (flag, 30),
    "fp8_utils.can_serve_block_fp8_as_mxfp8": (block_flag, 100),
    "fp8_utils.dispatch_w8a8_block_fp8_linear": (block_flag, 150),
    "Fp8LinearMethod.__init__": (method, 150),
    "Fp8LinearMethod.validate_block_quant_shapes": (block_shapes, 300),
    "fp8_utils.validate_fp8_block_shape": (block_variant, 200),
    "Fp8LinearMethod._process_mxfp8_linear_weight_scale": (scale, 150),
    "overrides._moe_runner_backend_quant_constraints": (runner, 150),
    "Fp8MoEMethod.__init__": (expert_method, 100),
    "DeepGemmMoeQuantInfo": (expert_info, 1),
    "kv_cache_hook.handle_mxfp8_kv_cache_compatibility": (kv_dtype, 10),
    "overrides._fa4_page_constraint": (fa4_page, 60),
    "MHATokenToKVPoolMXFP8.__init__": (pool, 60),
    "inkling_attn_prologue": (prologue, 300),
}


#: what the older version does not have
_NEWER = {
    "ModelConfig._parse_modelopt_quant_config",
    "fp8_utils.can_serve_block_fp8_as_mxfp8",
    "fp8_utils.resolve_block_fp8_mxfp8_backend",
}
_NEWER_WORDS = ("flashinfer_megamoe", "nvfp4_online")


def _older(case: dict[str, Any]) -> bool:
    """Leave out what the older version's command line or constructor cannot be given."""
    given = case["input"]
    for key in ("kwargs", "config"):
        if isinstance(given.get(key), dict):
            given[key].pop("scale_fmt", None)
    return not any(value in _NEWER_WORDS for value in given.values() if isinstance(value, str))


def some(rng: Random, *, older: bool = False) -> list[dict[str, Any]]:
    """Return the cases of one machine, fewer for the older version."""
    cases = [
        {"fn": name, "input": make(rng)}
        for name, (make, count) in INPUTS.items()
        for _ in range(-(-count // 2) if older else count)
        if not (older and name in _NEWER)
    ]
    return [case for case in cases if not older or _older(case)]
