"""SGLang's checks on Ascend NPUs, as steps: the table has no Ascend device (S4, S6, S8)."""

import re

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, modulo, passes, silent, skipped
from mxlab.guards.platform import env_flag
from mxlab.guards.rows import row
from mxlab.guards.settings import setting
from mxlab.guards.sglang_block_scale import float32_bits, scale_of
from mxlab.guards.sglang_expert_calls import expert_call, not_runner
from mxlab.guards.sglang_gemm_input import input_of, not_route

_QUANT = "srt/hardware_backend/npu/quantization"
_ASCEND = "Ascend A5"


def _linear_dtype(facts: Facts) -> Finding:
    dtype = input_of(facts).weight_dtype
    bad = dtype != "float8_e4m3fn"
    return not_route(facts, "npu") or judge(bad, f"weight {dtype}", d=f"torch.{dtype}")


def _modelslim_tp(facts: Facts) -> Finding:
    skip = not_route(facts, "npu")
    if skip:
        return skip
    s = input_of(facts)
    if s.scale_dtype is None:
        return skipped("the activation comes in 16 bits and is padded here")
    return judge(s.k % 32 != 0, f"{modulo('K', s.k, 32)}, quantised input")


def _moe_runner(facts: Facts) -> Finding:
    name = facts.deployment.moe_runner_backend
    bad = name not in ("auto", "ascend")
    return not_runner(facts, "npu") or judge(bad, f"MoE runner {name}", b=repr(name))


def _e8m0(facts: Facts) -> Finding:
    skip = not_runner(facts, "npu")
    if skip:
        return skip
    version = str(setting(facts.deployment.settings, "torch-npu"))
    numbers = re.match(r"(\d{1,3})\.(\d{1,3})", version)
    if numbers is None:
        return passes("torch_npu is taken to be 2.9 or newer")
    bad = (int(numbers[1]), int(numbers[2])) < (2, 9)
    return judge(bad, f"torch_npu {version} against 2.9", dash="\u2014")


def _act_scale(facts: Facts) -> Finding:
    skip = not_runner(facts, "npu")
    if skip:
        return skip
    c = expert_call(facts)
    width = c.hidden // 32 if c.activation_scale_width is None else c.activation_scale_width
    return judge(width % 2 != 0, modulo("scales a token", width, 2), s=("M", width))


def _w2_only(facts: Facts) -> Finding:
    weight = expert_call(facts).weight
    return not_runner(facts, "npu") or judge(weight != "w2", f"GEMM of {weight}", p=weight)


def _requant(facts: Facts) -> Finding:
    step = scale_of(facts)
    if step.conversion != "npu":
        return skipped(f"the conversion is {step.conversion}, not npu")
    on = env_flag(facts.deployment.env, "SGLANG_NPU_ARCH35_REQUANT_BLOCK_FP8")
    bad = next((v for v in step.values if float32_bits(v) & 0x807FFFFF), None)
    because = f"SGLANG_NPU_ARCH35_REQUANT_BLOCK_FP8 {on}, first scale that is no power of two {bad}"
    if on and bad is not None:
        return silent(f"{because}: decoded to bfloat16 and quantised again")
    return passes(f"{because}: exponents are taken over as they are")


GUARDS: tuple[Guard, ...] = (
    row(
        "npu-moe-runner",
        "expert_call",
        "S4",
        "ValueError",
        "MXFP8 MoE on Ascend requires --moe-runner-backend 'auto' or 'ascend', got {b}.",
        _moe_runner,
        predicate="MXFP8 experts on Ascend with another runner",
        hardware=_ASCEND,
        meaning="Another runner would make the loader swap gate and up without an error.",
        fixes=("--moe-runner-backend auto",),
        source=f"{_QUANT}/online_moe_methods.py:52",
        related=("npu-e8m0",),
    ),
    row(
        "npu-requant",
        "block_scale",
        "S6",
        "",
        (),
        _requant,
        predicate="SGLANG_NPU_ARCH35_REQUANT_BLOCK_FP8 and block scales that are no powers of two; "
        "UE8M0 scales are laid out anew without a loss",
        hardware=_ASCEND,
        meaning="Block FP8 becomes MXFP8 by way of bfloat16: other numbers than the checkpoint's.",
        fallback="MXFP8 weights, quantised a second time",
        fixes=("a checkpoint with power-of-two scales",),
        source=f"{_QUANT}/w8a8_mxfp8.py:49,104",
        related=("npu-k64", "npu-scale-shape"),
    ),
    row(
        "npu-linear-dtype",
        "gemm_input",
        "S8",
        "ValueError",
        "npu_w8a8_mxfp8_linear expects float8_e4m3fn weights, got {d}",
        _linear_dtype,
        predicate="a weight that is not float8_e4m3fn",
        hardware=_ASCEND,
        meaning="The weight was replaced after loading, or was never quantised.",
        fixes=("load the layer through SGLang's own loader",),
        source=f"{_QUANT}/linear_method_npu.py:344",
        related=("fwd-fi-dtype",),
    ),
    row(
        "npu-modelslim-tp",
        "gemm_input",
        "S8",
        "ValueError",
        "ModelSlim MXFP8 with unaligned TP shards requires unquantized inputs for block alignment.",
        _modelslim_tp,
        predicate="a ModelSlim checkpoint, K of a rank % 32 != 0, and an input that is quantised "
        "already (16-bit ones are padded)",
        hardware=_ASCEND,
        meaning="A rank's share ends inside a block of 32, so the input has to be padded before it "
        "is quantised.",
        fixes=("a --tp-size that leaves K a multiple of 32",),
        source="srt/layers/quantization/modelslim/schemes/modelslim_mxfp8.py:121",
        related=("lin-tp-row",),
    ),
    row(
        "npu-e8m0",
        "expert_call",
        "S8",
        "RuntimeError",
        # logs in JSON escape the dash, so it is a field
        "float8_e8m0fnu dtype not found {dash} MXFP8 MoE requires Ascend A5 with a torch_npu build "
        "exposing float8_e8m0fnu (torch_npu >= 2.9).",
        _e8m0,
        predicate="MXFP8 experts on Ascend and torch_npu before 2.9",
        hardware=_ASCEND,
        meaning="The scales have that dtype.",
        fixes=("torch_npu 2.9 or newer",),
        source=f"{_QUANT}/moe_methods.py:62",
        related=("kv-e8m0",),
    ),
    row(
        "npu-act-scale",
        "expert_call",
        "S8",
        "ValueError",
        "Invalid MXFP per-token scale shape: {s}",
        _act_scale,
        predicate="an odd number of scales a token, that is K % 64 != 0",
        hardware=_ASCEND,
        meaning="The A5 kernel reads scales in pairs.",
        fixes=("a --tp-size that leaves K a multiple of 64",),
        source=f"{_QUANT}/moe_methods.py:107",
        related=("npu-k64",),
    ),
    row(
        "npu-w2-only",
        "expert_call",
        "S8",
        "ValueError",
        "NPUMXFP8MoEMethod.apply only serves the w2 gmm, got '{p}'. gmm1 fuses swiglu into a "
        "single op and must go through apply_fused_gmm1_swiglu, which returns a scale too.",
        _w2_only,
        predicate="the plain grouped GEMM called for the first weight",
        hardware=_ASCEND,
        meaning="SGLang's own runner never does that.",
        fixes=("call apply_fused_gmm1_swiglu",),
        source=f"{_QUANT}/moe_methods.py:1226",
        related=("npu-moe-runner",),
    ),
)
