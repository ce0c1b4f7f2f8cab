"""SGLang's checks of one tensor loaded into one parameter (S5), and what it lets through."""

from collections.abc import Callable

from mxlab.guards.engine import Finding, Guard, Status
from mxlab.guards.facts import Facts
from mxlab.guards.facts_steps import LoadFacts
from mxlab.guards.findings import judge, pad, passes, silent, skipped, stops
from mxlab.guards.platform import env_flag
from mxlab.guards.rows import row

_FILE = "srt/layers/parameter.py"
#: torch dtypes that SGLang ranks by width; one that has no rank is copied only to itself
_RANKS = {
    "float8_e4m3fn": 0,
    "float8_e4m3fnuz": 0,
    "float8_e5m2": 0,
    "float8_e5m2fnuz": 0,
    "float8_e8m0fnu": 0,
    "float16": 1,
    "bfloat16": 1,
    "float32": 2,
    "float64": 3,
}


def load_of(facts: Facts) -> LoadFacts:
    """Return the load; the engine asks these guards only where there is one."""
    assert isinstance(facts.step, LoadFacts)
    return facts.step


def parameter_shape(load: LoadFacts) -> tuple[int, int]:
    """Return the parameter's shape on this rank: (n, k), or (n, ceil(k / 32)) of a scale."""
    return load.n, load.k if load.target == "weight" else pad(load.k, 32) // 32


def parameter_dtype(load: LoadFacts) -> str:
    """Return the parameter's dtype as torch calls it."""
    return "float8_e4m3fn" if load.target == "weight" else "uint8"


def _axis(load: LoadFacts) -> int:
    """Return the sharded axis: K of a row-parallel layer, N of the others."""
    return 1 if load.kind == "row" else 0


def source_index(load: LoadFacts, row: int, column: int) -> tuple[int, int] | None:
    """Return the element of the loaded tensor that comes to (row, column), None for a zero.

    Shapes are the caller's to check. Source: sglang 0.5.23, srt/layers/parameter.py:144, 177, 253,
    300 and srt/layers/utils/common.py:20.

    >>> load = LoadFacts(target="scale", kind="row", n=2, k=64, loaded_shape=(2, 3),
    ...                  loaded_dtype="uint8", tp_rank=1)
    >>> source_index(load, 0, 0), source_index(load, 0, 1)
    ((0, 2), None)
    """
    place = [row, column]
    axis = _axis(load)
    place[axis] += load.tp_rank * parameter_shape(load)[axis]
    inside = place[axis] < load.loaded_shape[axis]
    return (place[0], place[1]) if inside else None


def _range(facts: Facts) -> Finding:
    load = load_of(facts)
    if load.kind not in ("column", "qkv") or len(load.loaded_shape) != 2:
        return skipped(f"a {load.kind} load pads a short tensor instead of refusing it")
    size = parameter_shape(load)[0]
    start, there = load.tp_rank * size, load.loaded_shape[0]
    because = f"rank {load.tp_rank} takes rows {start} to {start + size} of {there}"
    if start > there:
        return stops(because, 1, size=there, start=start)
    return judge(start + size > there, because, start=start, length=size, size=there)


def _shape(facts: Facts) -> Finding:
    load = load_of(facts)
    if len(load.loaded_shape) != 2:
        axes = f"the tensor has {len(load.loaded_shape)} axes, the parameter 2"
        return Finding(Status.STOPS, axes, message=None)
    out = _range(facts)
    if out.status is Status.STOPS:
        return skipped(f"{out.because}: lin-load-range comes first")
    wanted, axis = parameter_shape(load), _axis(load)
    loaded = tuple(wanted[i] if i == axis else size for i, size in enumerate(load.loaded_shape))
    sharded = f"axis {axis} is cut to this rank"
    because = f"the parameter is {wanted}, the tensor {load.loaded_shape}; {sharded}"
    if loaded == wanted:
        return passes(because)
    if load.kind in ("merged", "row"):
        return Finding(Status.STOPS, because, message=None)
    return stops(because, 0 if load.kind == "column" else 1, a=list(wanted), b=list(loaded))


def _copy(facts: Facts) -> Finding | tuple[str, str, int | None, int | None]:
    """Return not-reached, or (target dtype, loaded dtype, their ranks)."""
    load = load_of(facts)
    if load.kind != "column":
        return skipped(f"a {load.kind} load converts by value: see silent-load-value")
    if _range(facts).status is Status.STOPS or _shape(facts).status is Status.STOPS:
        return skipped("the shape stops first: lin-load-range or lin-scale-shape")
    target, loaded = parameter_dtype(load), load.loaded_dtype
    if target == loaded:
        return passes(f"{loaded} goes into {target}")
    return target, loaded, _RANKS.get(target), _RANKS.get(loaded)


def _copy_dtype(facts: Facts) -> Finding:
    found = _copy(facts)
    if isinstance(found, Finding):
        return found
    t, d, into, out_of = found
    because = f"{d} goes into {t}: only equal dtypes, or two floating-point ones, are copied"
    return judge(into is None or out_of is None, because, t=f"torch.{t}", d=f"torch.{d}")


def _downcast(facts: Facts) -> Finding:
    found = _copy(facts)
    if isinstance(found, Finding):
        return found
    t, d, into, out_of = found
    if into is None or out_of is None:
        return skipped(f"{d} into {t}: lin-copy-dtype comes first")
    allowed = env_flag(facts.deployment.env, "SGLANG_QUANT_ALLOW_DOWNCASTING")
    because = f"{d} (rank {out_of}) goes into {t} (rank {into}), downcasting allowed: {allowed}"
    return judge(into < out_of and not allowed, because, t=f"torch.{t}", d=f"torch.{d}")


def _width(facts: Facts) -> Finding:
    load = load_of(facts)
    if _range(facts).status is Status.STOPS or _shape(facts).status is Status.STOPS:
        return skipped("the shape stops first: lin-load-range or lin-scale-shape")
    axis, tp = _axis(load), facts.deployment.tp
    per_rank, there = parameter_shape(load)[axis], load.loaded_shape[axis]
    wanted = per_rank * tp
    because = f"axis {axis}: {there} loaded, {per_rank} x TP {tp} = {wanted} expected"
    if there == wanted:
        return passes(because)
    done = "the rest is never read" if there > wanted else "the missing ones become 0"
    return silent(f"{because}: {done}")


def _value(facts: Facts) -> Finding:
    load = load_of(facts)
    target, loaded = parameter_dtype(load), load.loaded_dtype
    if load.kind == "column":
        return skipped("a column load checks the dtypes: lin-copy-dtype, lin-downcast")
    if _shape(facts).status is Status.STOPS:
        return skipped("the shape stops first: lin-scale-shape")
    if loaded == target:
        return passes(f"{loaded} goes into {target}")
    what = "a scale of 2^5 becomes byte 32, one below 1 becomes 0" if target == "uint8" else ""
    return silent(f"{loaded} goes into {target} by value" + (f": {what}" if what else ""))


def _row(id: str, check: Callable[[Facts], Finding], **more: object) -> Guard:
    return row(id, "load", "S5", check=check, hardware="every GPU", **more)  # type: ignore[arg-type]


GUARDS: tuple[Guard, ...] = (
    _row(
        "lin-load-range",
        _range,
        error="RuntimeError",
        messages=(
            "start ({start}) + length ({length}) exceeds dimension size ({size}).",
            "start out of range (expected to be in range of [-{size}, {size}], but got {start})",
        ),
        predicate="a column-parallel or qkv tensor has fewer rows than this rank's share ends at "
        "(an IndexError where the share starts past the end)",
        meaning="torch cannot cut this rank's rows out of the tensor: the checkpoint's layer is "
        "smaller than the model's config says.",
        fixes=("compare the tensor's shape with config.json", "a smaller --tp-size"),
        source=f"{_FILE}:168,265",
        related=("lin-scale-shape", "silent-load-width"),
    ),
    _row(
        "lin-scale-shape",
        _shape,
        error="AssertionError",
        messages=(
            "target.shape=torch.Size({a}), loaded_weight.shape=torch.Size({b})",
            "param_data.shape=torch.Size({a}), loaded_weight.shape=torch.Size({b})",
        ),
        predicate="after sharding the loaded shape is not (ceil(n / block_n), ceil(k / block_k)), "
        "in the axis that is not sharded; merged and row-parallel loads assert without a text",
        meaning="The scale of the checkpoint has another group size than the config says: with "
        "MXFP8 there is one byte for 32 weights along K.",
        fixes=(
            "quantise again with groups of 32 along K",
            "correct weight_block_size or group_size in quantization_config",
        ),
        source=f"{_FILE}:57,110,223,271,336",
        related=("cfg-mxfp8-override", "silent-load-width", "lin-load-range"),
    ),
    _row(
        "lin-copy-dtype",
        _copy_dtype,
        error="ValueError",
        messages="Unsupported copy between dtypes: target.dtype={t}, loaded_weight.dtype={d}",
        predicate="a column-parallel load, the dtypes differ, and one of them is no float: an "
        "MXFP8 scale stored as float8_e8m0fnu, float32 or bfloat16 going into uint8",
        meaning="SGLang keeps MXFP8 scales as uint8 exponent bytes and does not reinterpret other "
        "dtypes. The other layers of the same model convert them by value, without a word.",
        fixes=("store the scales as uint8 exponent bytes (a view, not a cast)",),
        source=f"{_FILE}:69",
        related=("silent-load-value", "lin-downcast"),
    ),
    _row(
        "lin-downcast",
        _downcast,
        error="ValueError",
        messages="Downcasting not allowed: target.dtype={t}, loaded_weight.dtype={d}",
        predicate="a column-parallel load, both dtypes are floats, the loaded one is wider, and "
        "SGLANG_QUANT_ALLOW_DOWNCASTING is off",
        meaning="The checkpoint says that it is quantised, but this weight is stored in 16 or 32 "
        "bits.",
        fixes=(
            "name the layer in modules_to_not_convert",
            "SGLANG_QUANT_ALLOW_DOWNCASTING=1, if a cast by value is what you want",
        ),
        source=f"{_FILE}:73",
        related=("lin-copy-dtype", "silent-load-value"),
    ),
    _row(
        "silent-load-width",
        _width,
        error="",
        messages=(),
        predicate="along the sharded axis the tensor is longer or shorter than all ranks together: "
        "longer ones are cut, and merged and row-parallel loads fill short ones with 0",
        meaning="A scale with groups of 16 loses every byte past K / 32 of a rank; one with groups "
        "of 64 or 128 gets byte 0 for the missing ones. Only other layers of the same model stop "
        "(lin-scale-shape).",
        fallback="goes on with scales of other weights, or with byte 0",
        fixes=("quantise again with groups of 32 along K",),
        source=f"{_FILE}:300, srt/layers/utils/common.py:20",
        related=("lin-scale-shape", "cfg-mxfp8-override"),
    ),
    _row(
        "silent-load-value",
        _value,
        error="",
        messages=(),
        predicate="a row, merged or qkv load whose dtype is not the parameter's (uint8 scales, "
        "E4M3 weights)",
        meaning="copy_ converts numbers, not bits: a scale stored as float8_e8m0fnu, float32 or "
        "bfloat16 becomes the number it stands for, cut to a byte.",
        fallback="goes on with wrong scales, or with weights cast without their scale",
        fixes=("store the scales as uint8 exponent bytes (a view, not a cast)",),
        source=f"{_FILE}:108,223,271,336",
        related=("lin-copy-dtype", "lin-downcast"),
    ),
)
