"""Profiles of the libraries that quantise in Python: torchao, checkpoint writers, emulators."""

from dataclasses import replace
from functools import partial

from mxlab.profiles import LibraryProfile, steps
from mxlab.profiles.steps import Round, bfloat, single

_BOTH = ("float32", "bfloat16")


def runs(name: str, dtypes: tuple[str, ...] = _BOTH) -> tuple[str, ...]:
    """Names of the recorded runs of one library."""
    return tuple(f"{name} [{dtype}]" for dtype in dtypes)


_READ = partial(LibraryProfile, amax=steps.amax_nan, cast=steps.saturating, obtained="measured")


def _torchao() -> list[LibraryProfile]:
    rows = []
    for rule in ("floor", "rceil", "ceil", "even"):
        old = steps.torchao_018(rule)
        new = steps.exact(rule, even_overflows=rule == "even")
        if rule == "rceil":
            new = steps.rceil_float(divide=True)
            old = steps.ceil_log2(nan=(255, float("nan")), zero_scale=1.0)
        rows.append(
            _READ(
                id=f"torchao-0.18-{rule}",
                library="torchao",
                version="0.18.0",
                rule="ceil(log2(amax / 448)) in float32" if rule == "rceil" else rule,
                scale=old,
                note="byte 0: elements flushed to 0" if rule == "rceil" else "byte 0: codes halved",
                source="torchao/prototype/mx_formats/mx_tensor.py to_mx",
                vectors=runs(f"torchao-0.18.0 {rule.upper()}"),
            )
        )
        rows.append(
            _READ(
                id=f"torchao-head-{rule}",
                library="torchao",
                version="HEAD 36027d8 (2026-08-21)",
                rule=rule,
                scale=new,
                note="the largest floats become NaN" if rule == "even" else "",
                source="torchao/prototype/mx_formats/mx_tensor.py to_mx",
                vectors=runs(f"torchao-HEAD-36027d8 {rule.upper()}"),
            )
        )
    return rows


def _microxcaling(rounding: str, flush: bool, rnd: Round) -> LibraryProfile:
    dtype = "float32" if rnd is single else "bfloat16"
    suffix = "-flush" * flush + "-bf16" * (rnd is bfloat)
    return _READ(
        id=f"microxcaling-{rounding}{suffix}",
        library="microxcaling",
        version="7bc4195 (2024-08-19)",
        rule=f"floor(log2 amax) - 8 in {dtype}",
        scale=steps.microxcaling(rnd, flush=flush),
        cast=steps.microxcaling_cast(rounding, rnd),
        read_back=True,
        rounding={"nearest": "nearest, ties away", "floor": "towards zero"}.get(
            rounding, "nearest even"
        )
        + ", saturating",
        dtypes=dtype,
        round_input=rnd,
        note="returns dequantised values only; the bytes are read back from them",
        source="mx/mx_ops.py _quantize_mx, mx/elemwise_ops.py",
        vectors=runs(f"microxcaling {rounding}{' flush' * flush}", (dtype,)),
    )


def _quark(rule: str, rnd: Round | None) -> LibraryProfile:
    dtype = "bfloat16" if rnd is bfloat else "float32"
    return _READ(
        id=f"quark-0.13-{rule}" + "-bf16" * (rnd is bfloat),
        library="amd-quark",
        version="0.13",
        rule=rule if rule == "even" else f"{rule}(log2 amax) - 8 in {dtype}",
        scale=steps.quark(rule, rnd or single),
        dtypes="float32, bfloat16" if rnd is None else dtype,
        round_input=rnd or single,
        note="element step transliterated; a float scale of Inf or NaN is shown as byte 255",
        source="OCP_MXFP8E4M3Spec",
        vectors=runs(f"Quark 0.13 {rule}", _BOTH if rnd is None else (dtype,)),
    )


def _quark_observer(rule: str) -> LibraryProfile:
    """Quark's own observer on a bfloat16 tensor: float32's epsilon, not bfloat16's."""
    return replace(
        _quark(rule, bfloat),
        id=f"quark-0.13-observer-{rule}-bf16",
        scale=steps.quark(rule, bfloat, 2.0**-23),
        note="a scale of 0 becomes 2^-23; the recorded runs of a copy of it used bfloat16's 2^-7",
        source="quark/torch/quantization/observer/observer.py PerBlockMXObserver",
        vectors=(),
    )


FRAMEWORKS: tuple[LibraryProfile, ...] = (
    *_torchao(),
    _READ(
        id="torch-2.13-testing",
        library="torch",
        version="2.13.0",
        rule="ceil(log2(amax / 448)) in float32",
        scale=steps.ceil_log2(nan=(255, 2.0**128), zero_scale=1.0),
        note="byte 0: elements flushed to 0",
        source="torch/testing/_internal/common_quantized.py to_mxfp",
        vectors=runs("torch-2.13 testing.to_mxfp RCEIL(log2)"),
    ),
    *(
        _microxcaling(rounding, flush, rnd)
        for rounding in ("nearest", "floor", "even")
        for flush in (False, True)
        for rnd in (single, bfloat)
    ),
    _READ(
        id="compressed-tensors-0.20",
        library="compressed-tensors",
        version="0.20.1",
        rule="e - 8 + (m >= 0x600000): exactly 448 * 2^n goes up too",
        scale=steps.compressed_tensors,
        cast=steps.plain_zero,
        note="half a step of FP4's mantissa is added",
        source="compressed_tensors generate_mx_scales",
        vectors=runs("compressed-tensors 0.20.1 MXFP8"),
    ),
    _READ(
        id="modelopt-0.47",
        library="nvidia-modelopt",
        version="0.47.0",
        rule="ceil(log2(amax / 448)) in float32",
        scale=steps.ceil_log2(),
        note="NaN: byte 0, which multiplies the other values by 2^127",
        source="MXFP8QTensor.quantize, PyTorch path",
        vectors=runs("ModelOpt 0.47.0 MXFP8QTensor.quantize"),
    ),
    _quark("even", None),
    *(_quark(rule, rnd) for rule in ("floor", "ceil") for rnd in (single, bfloat)),
    *(_quark_observer(rule) for rule in ("floor", "ceil")),
    _READ(
        id="gfloat-0.5",
        library="gfloat",
        version="0.5.2",
        rule="floor",
        scale=steps.gfloat,
        dtypes="float32",
        note="NaN raises",
        source="gfloat.block.compute_scale_amax",
        vectors=runs("gfloat 0.5.2 compute_scale_amax", ("float32",)),
    ),
    _READ(
        id="vllm-newer",
        library="vLLM",
        version="torch quantizer, newer",
        rule="ceil(log2(amax / 448)) in float32",
        scale=steps.ceil_log2(clamp=steps.TINY, nan=(0, float("nan"))),
        obtained="transliterated",
        source="mxfp8_utils._mxfp8_e4m3_quantize_torch",
        vectors=runs("vLLM torch quantizer (newer: ceil log2(amax/448))"),
    ),
    _READ(
        id="vllm-older",
        library="vLLM",
        version="torch quantizer, older",
        rule="floor(log2 amax), without -8",
        scale=steps.vllm_older,
        note="wastes 8 exponents of E4M3: the maximum lands in [1, 2)",
        obtained="transliterated",
        source="mxfp8_utils._mxfp8_e4m3_quantize_torch",
        vectors=runs("vLLM torch quantizer (older: floor log2(amax), no -8)"),
    ),
    _READ(
        id="mlx-0.31-cpu",
        library="MLX",
        version="0.31.2 (CPU, one block a call)",
        rule="round(log2(amax / 448)) in float32",
        scale=steps.mlx,
        cast=steps.nan_by_sign,
        rounding="nearest even, saturating, NaN to 448",
        dtypes="float32",
        note="the byte is not clamped: tiny blocks wrap round to large bytes",
        source="mx.quantize(mode='mxfp8'); ml-explore/mlx pull request 4353 rounds up instead",
    ),
)
