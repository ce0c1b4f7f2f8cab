"""SGLang's checks of the quantization method and its config (S2, S3)."""

from mxlab.guards import values as v
from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.findings import judge, passes, shown, skipped, stops
from mxlab.guards.quant import MX_BLOCK, min_capability, resolve_method, rewrite_modelopt
from mxlab.guards.rows import FP8, MODEL_CONFIG, row

_BASE = "srt/layers/quantization/base_config.py:262"
_LOADER = "srt/model_loader/loader.py"


def _model_config(facts: Facts) -> Finding | None:
    """Stages before the config is parsed do not see a constructor call."""
    if facts.quant.origin == "constructor":
        return skipped("Fp8Config is built directly")
    if facts.quant.origin == "none":
        return skipped(facts.quant.why)
    return None


def _parsed(facts: Facts, *origins: str) -> Finding | None:
    """Fp8Config's own checks need an Fp8Config, from one of ``origins``."""
    if not facts.quant.fp8_config:
        return skipped(facts.quant.why)
    if origins and facts.quant.origin not in origins:
        return skipped(
            f"the config is of origin {facts.quant.origin!r}, not {' or '.join(origins)}"
        )
    return None


def _mismatch(facts: Facts) -> Finding:
    skip = _model_config(facts)
    if skip:
        return skip
    d = facts.deployment
    raw = facts.config.values if facts.config else None
    if d.quantization is None or raw is None:
        return skipped("needs both --quantization and a quantization_config")
    found = resolve_method(
        d.quantization, rewrite_modelopt(raw), facts.platform, draft=d.draft_model
    )
    because = f"--quantization {d.quantization}, the checkpoint comes to {found.name}"
    if found.mismatch:
        m, q = found.mismatch
        return stops(because, m=m, q=q)
    return passes(because)


def _unknown_method(facts: Facts) -> Finding:
    skip = _model_config(facts)
    if skip:
        return skip
    p, q = facts.platform, facts.quant.method
    known = (*p.release.methods, *(("mxfp4",) if p.cuda or p.gfx95 else ()))
    return judge(q not in known, f"method {q!r}", q=q, list=list(known))


def _rocm(facts: Facts) -> Finding:
    skip = _model_config(facts)
    if skip:
        return skip
    if not facts.platform.hip:
        return skipped(f"{facts.platform.gpu.label} is not a ROCm GPU")
    q = facts.quant.method
    return judge(q not in facts.platform.release.methods_rocm, f"method {q!r} on ROCm", q=q)


def _not_optimized(facts: Facts) -> Finding:
    skip = _model_config(facts)
    if skip:
        return skip
    q, p = facts.quant.method, facts.platform
    because = f"method {q!r}, SM100 family with CUDA >= 12.8: {p.sm100}"
    if q in v.METHODS_OPTIMIZED or (q in ("mxfp4", "mxfp8") and p.sm100):
        return passes(because)
    return Finding(Status.WARNS, because, {"q": q}, notice=True)


def _key_missing(facts: Facts) -> Finding:
    skip = _parsed(facts, "checkpoint")
    if skip:
        return skip
    keys = [key for key in ("quant_method", "activation_scheme") if key not in facts.quant.values]
    if keys:
        return stops(f"{keys[0]!r} is not in quantization_config", keys=[keys[0]])
    return passes("quant_method and activation_scheme are present")


def _override(facts: Facts) -> Finding:
    skip = _parsed(facts, "checkpoint")
    if skip:
        return skip
    if not facts.quant.mxfp8:
        return skipped(facts.quant.why)
    block = facts.quant.values.get("weight_block_size")
    because = f"weight_block_size = {shown(block)} against [1, 32]"
    if block is None or block == MX_BLOCK:
        return passes(because)
    return Finding(
        Status.WARNS, f"{because}: read as [1, 32] all the same", {"block": shown(block)}
    )


def _activation(facts: Facts) -> Finding:
    skip = _parsed(facts)
    if skip:
        return skip
    scheme = facts.quant.activation
    return judge(
        scheme not in ("static", "dynamic"),
        f"activation_scheme = {shown(scheme)!r}",
        scheme=shown(scheme),
    )


def _given_block(facts: Facts) -> object:
    """Return the block size that reaches the constructor, before its MXFP8 default."""
    q = facts.quant
    return q.values.get("weight_block_size") if q.origin == "constructor" else q.block


def _block_not_serialized(facts: Facts) -> Finding:
    skip = _parsed(facts)
    if skip:
        return skip
    block, serialized = _given_block(facts), facts.quant.serialized
    if facts.quant.origin == "online":
        block = None  # --quantization alone passes no block size
    because = f"weight_block_size = {shown(block)}, FP8-serialised: {serialized}"
    return judge(block is not None and not serialized, because)


def _block_ndim(facts: Facts) -> Finding:
    skip = _parsed(facts)
    if skip:
        return skip
    block = _given_block(facts)
    if block is None:
        return skipped("no weight_block_size")
    if not isinstance(block, list | tuple | str | dict):
        text = f"weight_block_size = {shown(block)} is not a list: len() raises a TypeError"
        return Finding(Status.STOPS, text, message=None)
    length = len(block)
    return judge(
        length != 2, f"weight_block_size = {shown(block)} has {length} numbers", ndim=length
    )


def _block_static(facts: Facts) -> Finding:
    skip = _parsed(facts)
    if skip:
        return skip
    scheme, block = facts.quant.activation, _given_block(facts)
    if block is None or facts.quant.origin == "online":
        return skipped("no weight_block_size")
    because = f"weight_block_size = {shown(block)}, activation_scheme = {shown(scheme)!r}"
    return judge(scheme != "dynamic", because, scheme=shown(scheme))


def _mxfp8_block(facts: Facts) -> Finding:
    skip = _parsed(facts, "constructor")
    if skip:
        return skip
    if not facts.quant.mxfp8:
        return skipped("use_mxfp8 is False")
    block = _given_block(facts)
    return judge(
        block is not None and block != MX_BLOCK,
        f"weight_block_size = {shown(block)} (a tuple is not a list here) against [1, 32]",
    )


#: what helps on Hopper, on SM80 to SM89, anywhere with MXFP8, below SM80, with block FP8
_CAPABLE = (
    "on Hopper, serve a block-FP8 [128, 128] checkpoint of the same model",
    "serve a block-FP8 [128, 128] checkpoint, which SM80 to SM89 take (below 8.9 weight-only)",
    "use a Blackwell GPU, MI350 or MI355X; MI300X converts at load",
    "serve the model in 16 bits, or an INT8 or INT4 checkpoint of it",
    "use a GPU of capability 8.0 or more",
)


def _min_capability(facts: Facts) -> Finding:
    skip = _parsed(facts)
    if skip:
        return skip
    p = facts.platform
    if p.capability is None:
        return skipped("no GPU: the capability is unknown and the check is skipped")
    mxfp8, cap = facts.quant.mxfp8, p.capability
    least = min_capability(p, mxfp8=mxfp8)
    because = f"{p.gpu.label} has capability {cap}, {facts.quant.method} needs {least}"
    if cap >= least:
        return passes(because)
    values = {"quantization": facts.quant.method, "min": least, "cap": cap}
    helps = (mxfp8 and cap // 10 == 9, mxfp8 and cap // 10 == 8, mxfp8, cap < 80, not mxfp8)
    idle = tuple(fix for fix, fits in zip(_CAPABLE, helps, strict=True) if not fits)
    return Finding(Status.STOPS, because, values, done=idle)


def _act_dtype(facts: Facts) -> Finding:
    skip = _parsed(facts)
    if skip:
        return skip
    flag = facts.deployment.dtype
    name = v.DTYPE.get(flag, flag)
    because = f"--dtype {flag}" + (" (taken as bfloat16)" if flag == "auto" else "")
    return judge(
        name not in ("bfloat16", "float16"),
        because,
        dtype=f"torch.{name}",
        quantization=facts.quant.method,
        list="[torch.bfloat16, torch.float16]",
    )


def _act_assert(facts: Facts) -> Finding:
    skip = _parsed(facts)
    if skip:
        return skip
    q = facts.quant
    if not q.mxfp8 and q.block is None:
        return skipped("no block quantisation")
    because = f"activation_scheme = {shown(q.activation)!r} with block quantisation"
    if q.activation == "dynamic":
        return passes(because)
    return Finding(Status.STOPS, because, message=None)


GUARDS: tuple[Guard, ...] = (
    row(
        "cfg-method-mismatch",
        "config",
        "S2",
        "ValueError",
        "Quantization method specified in the model config ({m}) does not match the quantization "
        "method specified in the `quantization` argument ({q}).",
        _mismatch,
        predicate="--quantization given, differs from the checkpoint's quant_method, and the pair "
        "is not one SGLang calls compatible; a draft model takes the checkpoint's instead",
        meaning="The flag asks for one format and the checkpoint is stored in another. SGLang does "
        "not convert an FP8 checkpoint to MXFP8 or back.",
        fixes=("drop --quantization: the checkpoint says what it is", "use the other checkpoint"),
        source=f"{MODEL_CONFIG}:2143",
        related=("cfg-method-unknown", "cfg-key-missing"),
    ),
    row(
        "cfg-method-unknown",
        "config",
        "S2",
        "ValueError",
        "Unknown quantization method: {q}. Must be one of {list}.",
        _unknown_method,
        predicate="the method is not registered",
        meaning="Neither the flag nor the checkpoint names a method that this SGLang has. An empty "
        "name means that quantization_config has no quant_method.",
        fixes=('add "quant_method": "mxfp8" to quantization_config', "upgrade SGLang"),
        source=f"{MODEL_CONFIG}:2152",
        related=("cfg-method-mismatch",),
    ),
    row(
        "cfg-rocm",
        "config",
        "S2",
        "ValueError",
        "{q} quantization is currently not supported in ROCm.",
        _rocm,
        predicate="ROCm and the method is not in its list (fp8 and mxfp8 are)",
        hardware="AMD GPUs",
        meaning="This format has no ROCm kernels in SGLang.",
        fixes=("use an fp8, mxfp8 or quark checkpoint on AMD",),
        source=f"{MODEL_CONFIG}:2157",
    ),
    row(
        "cfg-not-optimized",
        "config",
        "S2",
        "warning",
        "{q} quantization is not fully optimized yet. The speed can be slower than non-quantized "
        "models.",
        _not_optimized,
        predicate="mxfp8 and not the SM100 family (B200, GB200, B300) with CUDA >= 12.8",
        hardware="everything but SM100 and SM103",
        meaning="A plain notice. MXFP8 runs, or fails, for other reasons.",
        fallback="goes on",
        fixes=("ignore it",),
        source=f"{MODEL_CONFIG}:2166",
    ),
    row(
        "cfg-key-missing",
        "config",
        "S3",
        "ValueError",
        "Cannot find any of {keys} in the model's quantization config.",
        _key_missing,
        predicate="quant_method or activation_scheme is absent from quantization_config",
        meaning="SGLang needs both keys spelt out, also where only one value is possible. MXFP8 "
        "exports without activation_scheme stop here.",
        fixes=('add "activation_scheme": "dynamic" to quantization_config in config.json',),
        source=f"{_BASE}, from {FP8}:347,350",
        related=("cfg-act-scheme",),
    ),
    row(
        "cfg-mxfp8-override",
        "config",
        "S3",
        "warning",
        "MXFP8 overriding weight_block_size={block} from config.json -> [1, 32].",
        _override,
        predicate='"mxfp8" in quant_method and weight_block_size is neither null nor [1, 32]',
        meaning="The checkpoint claims another block size and SGLang reads it as [1, 32] anyway. "
        "If the scales really have another group size, column-parallel layers fail a shape check "
        "at load, and row-parallel ones are cut or zero-filled in silence.",
        fallback="goes on with [1, 32]",
        fixes=(
            "if the scales are one per 32 values, correct weight_block_size to [1, 32]",
            "if they are not, quantise the checkpoint again with group size 32",
        ),
        source=f"{FP8}:373",
        related=("cfg-mxfp8-block",),
    ),
    row(
        "cfg-act-scheme",
        "config",
        "S3",
        "ValueError",
        "Unsupported activation scheme {scheme}",
        _activation,
        predicate='activation_scheme is not "static" or "dynamic" (case matters)',
        meaning="The config names an activation scheme that SGLang does not know.",
        fixes=('set "activation_scheme": "dynamic": the only one that MXFP8 takes',),
        source=f"{FP8}:286",
        related=("cfg-block-static", "cfg-key-missing"),
    ),
    row(
        "cfg-block-not-serialized",
        "config",
        "S3",
        "ValueError",
        "The block-wise quantization only supports fp8-serialized checkpoint for now.",
        _block_not_serialized,
        predicate="weight_block_size is given and the checkpoint is not FP8-serialised "
        '("fp8" not in quant_method)',
        meaning="A block size describes scales stored in a checkpoint; 16-bit weights that are "
        "quantised at load have none.",
        fixes=("leave weight_block_size out for online quantisation",),
        source=f"{FP8}:304",
        related=("cfg-block-ndim",),
    ),
    row(
        "cfg-block-ndim",
        "config",
        "S3",
        "ValueError",
        "The quantization block size of weight must have 2 dimensions, but got {ndim} dimensions.",
        _block_ndim,
        predicate="len(weight_block_size) != 2; an mxfp8 checkpoint is read as [1, 32] before",
        meaning="A block is rows by columns: two numbers.",
        fixes=("write two numbers, such as [128, 128]",),
        source=f"{FP8}:308",
        related=("cfg-mxfp8-override",),
    ),
    row(
        "cfg-block-static",
        "config",
        "S3",
        "ValueError",
        "The block-wise quantization only supports dynamic activation scheme for now, but got "
        "{scheme} activation scheme.",
        _block_static,
        predicate='weight_block_size is given and activation_scheme != "dynamic"',
        meaning="With block scales, activations are quantised as they come, so static scales have "
        "no place. Every MXFP8 checkpoint has a block size: static always stops.",
        fixes=('set "activation_scheme": "dynamic"',),
        source=f"{FP8}:312",
        related=("cfg-act-scheme",),
    ),
    row(
        "cfg-mxfp8-block",
        "config",
        "S3",
        "ValueError",
        "MXFP8 requires weight_block_size=[1, 32].",
        _mxfp8_block,
        predicate="use_mxfp8 and weight_block_size is neither None nor the list [1, 32] "
        "(the tuple (1, 32) trips too); only code that builds Fp8Config itself gets here",
        meaning="MXFP8 is defined with one scale per 32 values along K. From a checkpoint the same "
        "mistake is only a warning.",
        fixes=("pass weight_block_size=[1, 32] or None",),
        source=f"{FP8}:319",
        related=("cfg-mxfp8-override",),
    ),
    row(
        "cfg-min-capability",
        "config",
        "S3",
        "ValueError",
        "The quantization method {quantization} is not supported for the current GPU. Minimum "
        "capability: {min}. Current capability: {cap}.",
        _min_capability,
        predicate="capability (major * 10 + minor) below 100 for mxfp8, 95 on gfx95, 94 where "
        "MXFP8 is converted to block FP8, 80 for fp8",
        hardware="SM80, SM89 and SM90 with mxfp8",
        meaning="SGLang refuses ordinary MXFP8 checkpoints below Blackwell, Hopper included, "
        "although its kernels and other messages name Hopper with DeepGEMM.",
        fixes=_CAPABLE,
        source=f"{_LOADER}:259, {FP8}:329",
        related=("silent-hopper-gate", "wsp-deepgemm"),
    ),
    row(
        "cfg-act-dtype",
        "config",
        "S3",
        "ValueError",
        "{dtype} is not supported for quantization method {quantization}. Supported dtypes: {list}",
        _act_dtype,
        predicate="the model's dtype is neither bfloat16 nor float16",
        meaning="Activations enter the FP8 kernels as 16-bit floats.",
        fixes=("--dtype bfloat16 (float16 then meets fwd-dg-noswz or fi-mm-size)",),
        source=f"{_LOADER}:267",
        related=("fwd-dg-noswz", "fi-mm-size"),
    ),
    row(
        "cfg-act-assert",
        "config",
        "S4",
        "AssertionError",
        (),
        _act_assert,
        predicate='block quantisation and activation_scheme != "dynamic"; met where the config let '
        "it through: MXFP8 at load, built by a program",
        meaning="The assertion has no text. Usually cfg-block-static stops before; online MXFP8 "
        "has no block size yet when its config is built, so that check does not see it.",
        fixes=('pass activation_scheme="dynamic"',),
        source=f"{FP8}:670,1748",
        related=("cfg-block-static", "moe-static-online"),
    ),
)
