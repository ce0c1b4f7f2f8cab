"""Which MoE runner SGLang ends up with, and which quantization its server arguments know."""

from collections.abc import Mapping
from dataclasses import dataclass

from mxlab.guards.facts import Deployment, Platform, Runner
from mxlab.guards.platform import env_flag
from mxlab.guards.quant import parse_modelopt
from mxlab.guards.settings import setting

#: runners that --moe-runner-backend may name for mxfp8 on CUDA (srt/arg_groups/choices.py:161)
MXFP8_RUNNERS = (
    "cutlass",
    "deep_gemm",
    "flashinfer_megamoe",
    "flashinfer_trtllm",
    "flashinfer_trtllm_routed",
)
TRTLLM = ("flashinfer_trtllm", "flashinfer_trtllm_routed")
MINIMAX_M3 = ("MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration")
_HYV4 = ("HYV4ForCausalLM", "HYV4ForCausalLMNextN")


@dataclass(frozen=True, slots=True)
class Family:
    """What an architecture's start-up rules do to the server arguments."""

    architectures: tuple[str, ...]
    copies: str  # when the checkpoint's quant_method becomes the server argument: always, sm100
    trtllm_for: tuple[str | None, ...] = ()  # methods for which auto becomes flashinfer_trtllm


#: srt/arg_groups/model_overrides and overrides.py:764
FAMILIES: tuple[Family, ...] = (
    Family(MINIMAX_M3, "always"),
    Family(
        (
            "Qwen3MoeForCausalLM",
            "Qwen3VLMoeForConditionalGeneration",
            "Qwen3NextForCausalLM",
            "Qwen3_5MoeForConditionalGeneration",
            "InternS2PreviewForConditionalGeneration",
            "Qwen3_5ForConditionalGeneration",
            "Qwen4ExpForConditionalGeneration",
        ),
        "sm100",
        ("fp8", "modelopt_fp4", "modelopt_mixed", None),
    ),
    Family(("Glm4MoeForCausalLM",), "sm100", ("modelopt_fp4", None)),
    Family(
        (
            "DeepseekV3ForCausalLM",
            "DeepseekV32ForCausalLM",
            "KimiK25ForConditionalGeneration",
            "MistralLarge3ForCausalLM",
            "PixtralForConditionalGeneration",
            "GlmMoeDsaForCausalLM",
            "Glm5NextForConditionalGeneration",
            *_HYV4,
            "Dots3NoteForCausalLM",
        ),
        "sm100",
        ("fp8", "modelopt_fp8", "modelopt_fp4", "modelopt_mixed", None),
    ),
    Family(("LongcatFlashForCausalLM", "LongcatFlashForCausalLMNextN"), "sm100"),
)
_BY_ARCHITECTURE = {name: family for family in FAMILIES for name in family.architectures}


def allowed_runners(platform: Platform, asked: str) -> tuple[str, ...]:
    """Return the runners that mxfp8 may name here (srt/arg_groups/overrides.py:1484)."""
    rules = platform.release
    triton = platform.gfx95 or (rules.rocm_runners and platform.hip and asked == "triton")
    aiter = rules.rocm_runners and platform.gfx95 and platform.aiter_moe
    named = [name for name in MXFP8_RUNNERS if rules.megamoe or name != "flashinfer_megamoe"]
    return (*named, *(("triton",) if triton else ()), *(("aiter",) if aiter else ()))


def constrain(
    platform: Platform,
    quantization: str | None,
    asked: str,
    a2a: str,
    *,
    w4a16: bool = False,
) -> tuple[str, tuple[str, ...]]:
    """Return (runner, the allowed ones where ``asked`` was overruled with a warning).

    ``w4a16`` is SGLANG_FLASHINFER_CUTEDSL_NVFP4_W4A16. Source: sglang 0.5.23,
    srt/arg_groups/overrides.py:1448.
    """
    if quantization == "mxfp8":
        default = "triton" if platform.gfx95 else "flashinfer_trtllm"
        if a2a == "flashinfer_megamoe" and platform.release.megamoe:
            default = "flashinfer_megamoe"
        allowed = allowed_runners(platform, asked)
        if asked == "auto":
            return default, ()
        if asked not in allowed:
            return default, allowed
    if quantization == "nvfp4_online" and asked == "auto":
        mega = a2a == "flashinfer_megamoe" and w4a16
        return "flashinfer_megamoe" if mega else "flashinfer_trtllm", ()
    if quantization == "modelopt_fp4" and asked == "auto" and (platform.sm110 or platform.sm120):
        return "flashinfer_cutlass", ()
    return asked, ()


def _v41_dense(d: Deployment, raw: Mapping[str, object] | None, platform: Platform) -> bool:
    """Tell whether DeepSeek-V4.1 makes ``auto`` flashinfer_cutedsl (deepseek_v4.py:29)."""
    return (
        d.architecture == "DeepseekV4ForCausalLM"
        and setting(d.settings, "model-type") == "deepseek_v41"
        and platform.release.block_as_mxfp8
        and platform.sm100
        and platform.flashinfer
        and d.fp8_gemm_backend == "auto"
        and raw is not None
        and raw.get("quant_method") == "fp8"
        and raw.get("weight_block_size") == [32, 32]
        and raw.get("scale_fmt") == "ue8m0"
    )


def runner(deployment: Deployment, raw: Mapping[str, object] | None, platform: Platform) -> Runner:
    """Return the MoE runner and the server arguments after SGLang's start-up rules.

    ``raw`` is the checkpoint's quantization_config as it is stored. The native FP8 experts of
    DeepSeek checkpoints without a quantization_config need the weights to be seen.
    """
    d, quantization = deployment, deployment.quantization
    asked, gemm = d.moe_runner_backend, d.fp8_gemm_backend
    family = _BY_ARCHITECTURE.get(d.architecture)
    if d.architecture in platform.release.absent_architectures:
        family = None
    found = raw.get("quant_method") if raw is not None else None
    stored = found if isinstance(found, str) else None
    if family and d.architecture in _HYV4 and platform.deep_gemm and raw is not None:
        parsed = parse_modelopt(raw) or {}
        if str(parsed.get("quant_algo", "")).upper() == "MXFP8":
            asked = "deep_gemm" if asked == "auto" else asked
            gemm = "deep_gemm" if gemm == "auto" else gemm
    if family and (family.copies == "always" or platform.sm100):
        quantization = quantization or stored
        if family.copies == "always" and asked == "auto" and quantization == "mxfp8":
            asked = "triton" if platform.hip else "deep_gemm" if platform.sm100 else asked
        covered = quantization in family.trtllm_for and d.moe_a2a_backend == "none"
        if covered and asked == "auto":
            asked = "flashinfer_trtllm"
    if _v41_dense(d, raw, platform):
        gemm = "flashinfer_cutedsl"
    w4a16 = env_flag(d.env, "SGLANG_FLASHINFER_CUTEDSL_NVFP4_W4A16")
    name, overruled = constrain(platform, quantization, asked, d.moe_a2a_backend, w4a16=w4a16)
    if d.moe_a2a_backend == "flashinfer_megamoe" and name == "auto":
        name = "flashinfer_megamoe"
    dispatch = d.flashinfer_a2a_dispatch_type is not None
    if d.moe_a2a_backend == "flashinfer" and dispatch and name == "flashinfer_trtllm":
        name = "flashinfer_trtllm_routed"
    return Runner(name, asked, quantization, gemm, overruled)


def executes(facts_runner: str, platform: Platform, a2a: str) -> str:
    """Return the runner that multiplies, with ``auto`` resolved (fp8.py:2941)."""
    if facts_runner == "auto":
        if platform.deep_gemm and a2a in ("deepep", "mooncake", "nixl"):
            return "deep_gemm"
        return "aiter" if platform.aiter_moe else "triton"
    other = ("flashinfer_cutlass", "flashinfer_cutedsl")
    if facts_runner in other and platform.release.experts_fall_back:
        return "triton"
    return facts_runner
