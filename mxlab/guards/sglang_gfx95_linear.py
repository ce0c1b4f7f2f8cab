"""SGLang's checks of dense linears on gfx950 (S6, S8), and where it changes kernels in silence."""

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, modulo, passes, silent, skipped, stops
from mxlab.guards.linear import linear_of, not_mxfp8, not_quantized
from mxlab.guards.platform import env_flag
from mxlab.guards.rows import FP8_UTILS, row
from mxlab.guards.settings import flag
from mxlab.guards.sglang_gemm_input import input_k, input_of, not_route

_HW = "MI350X, MI355X"
_DOT = "kernels/ops/gemm/mxfp8_amd_gfx95.py"
_NATIVE = "kernels/ops/gemm/mxfp8_native_amd_gfx95.py"
_HIP = "srt/layers/quantization/fp8_hip.py"
_GEMV_TOKENS = 32
#: rows up to which CK multiplies block FP8 of this weight on ROCm before 7.2: it gave NaN above
CK_ROWS = {(2560, 4096): 2048, (4096, 1024): 4096, (4096, 2048): 2048, (4608, 4096): 512}


def _dot_wdtype(facts: Facts) -> Finding:
    s = input_of(facts)
    because = f"weight {s.weight_dtype}, its scale {s.weight_scale_dtype}"
    skip = not_route(facts, "gfx95_dot_scaled")
    if skip:
        return skip
    if s.weight_dtype != "float8_e4m3fn":
        return stops(because)
    return judge(s.weight_scale_dtype != "uint8", because, 1)


def _dot_wrank(facts: Facts) -> Finding:
    s = input_of(facts)
    axes = 2 if s.weight_scale_shape is None else len(s.weight_scale_shape)
    skip = not_route(facts, "gfx95_dot_scaled")
    return skip or judge(axes != 2, f"the weight's scale has {axes} axes", d=axes)


def _dot_k(facts: Facts) -> Finding:
    s = input_of(facts)
    because = f"K of the input {input_k(s)}, of the weight {s.k}"
    skip = not_route(facts, "gfx95_dot_scaled")
    return skip or judge(input_k(s) != s.k, because, k=input_k(s), k_w=s.k)


def _dot_prequant(facts: Facts) -> Finding:
    skip = not_route(facts, "gfx95_dot_scaled")
    if skip:
        return skip
    s = input_of(facts)
    if s.scale_dtype is None:
        return skipped("the activation comes in 16 bits and is quantised here")
    k = input_k(s)
    if k % 128:
        return skipped(f"{modulo('K', k, 128)}: the path that dequantises takes no scale")
    wanted = (s.m, k // 32)
    because = f"input {s.dtype}, scale {s.scale_dtype} {s.scale_shape}, wanted uint8 {wanted}"
    if s.dtype != "float8_e4m3fn":
        return stops(because)
    bad = s.scale_dtype != "uint8" or s.scale_shape not in (None, wanted)
    return judge(bad, because, 1)


def _native_steps(facts: Facts) -> Finding:
    skip = not_route(facts, "gfx95_native")
    if skip:
        return skip
    s = input_of(facts)
    k, steps = input_k(s), -(-s.k // 128)
    because = f"{modulo('K', k, 32)}, ceil(K / 128) = {-(-k // 128)}, the weight has {steps} steps"
    return judge(k % 32 != 0 or -(-k // 128) != steps, because, k=k, s=steps)


def _gemv(facts: Facts) -> Finding:
    m = input_of(facts).m
    because = f"M = {m} against {_GEMV_TOKENS}"
    return not_route(facts, "gfx95_gemv") or judge(m > _GEMV_TOKENS, because, m=m)


def _flydsl(facts: Facts) -> Finding:
    skip = not_route(facts, "gfx95_flydsl")
    if skip:
        return skip
    s = input_of(facts)
    because = f"{modulo('K', input_k(s), 128)}, {modulo('N', s.n, 8)}, K of the weight {s.k}"
    bad = s.k != input_k(s) or input_k(s) % 128 != 0 or s.n % 8 != 0
    return judge(bad, because, a=(s.m, input_k(s)), b=(s.n, s.k))


def _e8m0_act(facts: Facts) -> Finding:
    skip = not_route(facts, "gfx95_fp8")
    if skip:
        return skip
    s = input_of(facts)
    if s.scale_dtype != "float8_e8m0fnu":
        return skipped(f"the input's scale is {s.scale_dtype}, not float8_e8m0fnu")
    because = f"the weight's scale is {s.weight_scale_dtype}"
    return judge(s.weight_scale_dtype != "float8_e8m0fnu", because, shape=(s.n, s.k))


def _native_skip(facts: Facts) -> Finding:
    skip = not_mxfp8(facts, "gfx95_mxfp8_native")
    if skip:
        return skip
    lin = linear_of(facts)
    because = f"{modulo('N', lin.n, 32)}, {modulo('K', lin.k, 32)}"
    if lin.n % 32 or lin.k % 32:
        return silent(f"{because}: a bfloat16 copy of the weight is kept and multiplied instead")
    return passes(because)


def _mxscale_missing(facts: Facts) -> Finding:
    d = facts.deployment
    if not env_flag(d.env, "SGLANG_DSV4_DENSE_MXSCALE"):
        return skipped("SGLANG_DSV4_DENSE_MXSCALE is not set")
    there = flag(d.settings, "aiter-mxscale")
    because = f"AITER with e8m0 block scales: {there}"
    return passes(because) if there else Finding(Status.WARNS, because)


def _ck_nan(facts: Facts) -> Finding:
    skip = not_quantized(facts)
    if skip:
        return skip
    p, lin = facts.platform, linear_of(facts)
    if (
        not (p.aiter and p.gfx95)
        or not facts.quant.fp8_config
        or facts.dense.kind not in ("fp8", "converted")
    ):
        return skipped("block FP8 on gfx950 with AITER only")
    rows = CK_ROWS.get((lin.n, lin.k))
    because = f"ROCm {p.toolkit[0]}.{p.toolkit[1]}, weight ({lin.n}, {lin.k})"
    if p.toolkit >= (7, 2) or rows is None:
        return passes(because)
    return silent(f"{because}: above {rows} tokens Triton multiplies, because CK gave NaN")


GUARDS: tuple[Guard, ...] = (
    row(
        "g95-mxscale-missing",
        "server",
        "S6",
        "warning",
        "SGLANG_DSV4_DENSE_MXSCALE is set but the installed aiter has no e8m0 mxscale bpreshuffle "
        "GEMM; keeping the fp32-scale GEMM.",
        _mxscale_missing,
        predicate="SGLANG_DSV4_DENSE_MXSCALE is on and AITER lacks get_mxscale_bpreshuffle_config",
        hardware=_HW,
        meaning="Older AITER takes exponent bytes for float32 scales and gives wrong results, so "
        "SGLang keeps the other kernel.",
        fallback="the GEMM with float32 scales",
        fixes=("a newer aiter", "unset SGLANG_DSV4_DENSE_MXSCALE"),
        source=f"{FP8_UTILS}:166",
        related=("blk2e8m0-128",),
    ),
    row(
        "g95-native-skip",
        "linear",
        "S6",
        "",
        (),
        _native_skip,
        predicate="32-wide UE8M0 block FP8 on the native route, and N % 32 != 0 or K % 32 != 0",
        hardware=_HW,
        meaning="The native kernel works on tiles of 32 x 32. Other shapes run, from a copy in 16 "
        "bits that costs twice the memory.",
        fallback="dequantises the weight to bfloat16 at load",
        fixes=("a --tp-size that mends the shape", "--fp8-gemm-backend triton"),
        source=f"{_HIP}:72, {_NATIVE}:182",
        related=("g95-native-blk", "g95-dot-fallback"),
    ),
    row(
        "silent-ck-nan",
        "linear",
        "S8",
        "",
        (),
        _ck_nan,
        predicate="block FP8 on AITER with ROCm before 7.2, and one of four weight shapes",
        hardware=_HW + " with SGLANG_USE_AITER=1",
        meaning="For these shapes SGLang prefers CK up to a number of tokens and Triton above it: "
        "speed jumps there.",
        fallback="Triton's block-FP8 kernel for more tokens",
        fixes=("ROCm 7.2",),
        source=f"{FP8_UTILS}:91",
        related=("blk-fallback",),
    ),
    row(
        "g95-dot-wdtype",
        "gemm_input",
        "S8",
        "AssertionError",
        ("MXFP8 weight must be FP8 E4M3.", "MXFP8 weight_scale must be UE8M0 uint8."),
        _dot_wdtype,
        predicate="the weight is not float8_e4m3fn, or its scale not uint8",
        hardware=_HW,
        meaning="The weight or its scale was replaced after loading.",
        fixes=("load the layer through SGLang's own loader",),
        source=f"{_DOT}:160",
        related=("g95-dot-wrank", "fwd-fi-dtype"),
    ),
    row(
        "g95-dot-wrank",
        "gemm_input",
        "S8",
        "AssertionError",
        "dot_scaled MXFP8 linear expects canonical 2D [N, K//32] weight scales, got {d}D.",
        _dot_wrank,
        predicate="the weight's scale has not two axes",
        hardware=_HW,
        meaning="A swizzled or packed scale came here; this kernel reads the row-major one.",
        fixes=("load the layer through SGLang's own loader",),
        source=f"{_DOT}:162",
        related=("g95-dot-wdtype",),
    ),
    row(
        "g95-dot-k",
        "gemm_input",
        "S8",
        "AssertionError",
        "k={k} does not match k_w={k_w}",
        _dot_k,
        predicate="the activation's last axis is not the weight's K",
        hardware=_HW,
        meaning="The layer before has another width than this weight.",
        fixes=("compare the layers' sizes with config.json",),
        source=f"{_DOT}:178",
        related=("fwd-fi-k-match",),
    ),
    row(
        "g95-dot-prequant",
        "gemm_input",
        "S8",
        "AssertionError",
        (
            "pre-quantized input must be FP8 E4M3 when input_scale is given.",
            "input_scale must be UE8M0 uint8 [M, K//32].",
        ),
        _dot_prequant,
        predicate="the activation is quantised already, K % 128 == 0, and it is not E4M3 with a "
        "uint8 scale of (M, K / 32)",
        hardware=_HW,
        meaning="A fused producer handed over another form than this kernel reads.",
        fixes=("give the layer 16-bit activations, so that it quantises itself",),
        source=f"{_DOT}:187",
        related=("g95-dot-fallback",),
    ),
    row(
        "g95-native-steps",
        "gemm_input",
        "S8",
        "AssertionError",
        "input K {k} does not match the weight's {s} K steps",
        _native_steps,
        predicate="K % 32 != 0, or ceil(K / 128) is not the number of steps of the weight",
        hardware=_HW,
        meaning="The weight was laid out in steps of 128 along K at load; the activation has "
        "another width.",
        fixes=("compare the layers' sizes with config.json",),
        source=f"{_NATIVE}:354",
        related=("g95-native-skip",),
    ),
    row(
        "g95-gemv-m",
        "gemm_input",
        "S8",
        "ValueError",
        "M={m} exceeds the skinny kernel's 32 tokens",
        _gemv,
        predicate="more than 32 tokens on the kernel for few tokens; SGLang's own dispatch never "
        "does that",
        hardware=_HW,
        meaning="The kernel for few tokens was called directly.",
        fixes=("call mxfp8_native_blockscaled_linear, which chooses by M",),
        source=f"{_NATIVE}:67",
        related=("g95-native-steps",),
    ),
    row(
        "g95-flydsl",
        "gemm_input",
        "S8",
        "ValueError",
        "need K % 128 == 0 and N % 8 == 0: a {a}, b {b}",
        _flydsl,
        predicate="K % 128 != 0, N % 8 != 0, or K differs; SGLang prepares the kernel only for "
        "weights that fit",
        hardware=_HW + " with SGLANG_OPT_HIP_FLYDSL_MXFP8",
        meaning="The FlyDSL kernel has tiles of 128 along K and 8 along N.",
        fixes=("unset SGLANG_OPT_HIP_FLYDSL_MXFP8",),
        source=f"kernels/ops/gemm/mxfp8_flydsl_gfx95.py:507, {_HIP}:172",
        related=("g95-native-skip",),
    ),
    row(
        "g95-e8m0-act",
        "gemm_input",
        "S8",
        "RuntimeError",
        "e8m0-scaled fp8 activation reached a linear without an e8m0 weight scale (weight {shape})",
        _e8m0_act,
        predicate="the activation's scale is float8_e8m0fnu and the layer keeps float32 scales",
        hardware=_HW,
        meaning="A fused producer of DeepSeek-V4 quantised for the mxscale kernel, and this layer "
        "was not prepared for it (blk2e8m0-128).",
        fixes=("unset SGLANG_DSV4_DENSE_MXSCALE",),
        source=f"{FP8_UTILS}:1687",
        related=("blk2e8m0-128", "g95-mxscale-missing"),
    ),
)
