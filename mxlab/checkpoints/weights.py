"""Which format each weight is in, from dtypes, shapes and the names of its scales."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

from mxlab.checkpoints.finding import Problem
from mxlab.checkpoints.geometry import Geometry, ceil, exponent_geometry, number_geometry
from mxlab.checkpoints.names import Folded, ScaleName, fold, is_weight, module_of, scale_of
from mxlab.checkpoints.tensors import EXPONENTS, FLOATS, FP8, Checkpoint, Tensor

Block = tuple[int, int]

#: formats of weights that are not quantised
PLAIN = ("BF16", "F16", "F32", "F64")
NAMES_ONLY = "names only"
#: the scale is in another shard: what it is was not looked at
ELSEWHERE = "FP8, scale in another shard"
#: formats that say nothing which could contradict a claim
UNSEEN = (NAMES_ONLY, ELSEWHERE)


@dataclass(slots=True, kw_only=True)
class Weight:
    """One linear's weight with its scales.

    ``n`` and ``k`` are logical sizes (packed FP4 is unpacked), ``experts`` the leading dimension of
    a 3-D weight. ``format`` is as ``Quantization.weights`` spells it, or what is wrong.
    """

    module: str
    folded: Folded
    weight: Tensor
    scale: Tensor | None = None
    spelling: str = ""  # the scale's ending: weight_scale_inv
    whole: Tensor | None = None  # NVFP4's second, per-tensor scale
    format: str = NAMES_ONLY
    block: Block | None = None
    n: int | None = None
    k: int | None = None
    experts: int | None = None
    problems: list[Problem] = field(default_factory=list)

    @property
    def quantized(self) -> bool:
        """Whether the weight holds codes that need a scale."""
        return self.format not in PLAIN and (
            self.format != NAMES_ONLY or self.scale is not None or self.whole is not None
        )

    def report(self, kind: str, numbers: str, tensor: Tensor | None = None) -> None:
        """Note a mistake in this weight's scale, or in the tensor given."""
        at = tensor or self.scale or self.weight
        self.problems.append(Problem(kind, at.name, numbers))


def shape_text(shape: tuple[int, ...] | None) -> str:
    """Return a shape for people.

    >>> shape_text((4096, 128)), shape_text(None)
    ('(4096, 128)', '?')
    """
    return "?" if shape is None else f"({', '.join(map(str, shape))})"


def _sizes(found: Weight, shape: tuple[int, ...], packed: int = 1) -> tuple[int, ...]:
    """Set n, k, experts from a stored shape whose last dimension packs some elements."""
    *lead, n, k = shape
    found.n, found.k = n, k * packed
    found.experts = prod(lead) if lead else None
    return (*lead, n, found.k)


def _explain(found: Weight, geometry: Geometry, scale: Tensor, claimed: Block | None) -> None:
    """Turn what an E8M0 scale's shape says into a format, and a mistake where it is one."""
    n, k = found.n or 0, found.k or 0
    groups = ceil(k, 32)
    stored, right = shape_text(scale.shape), f"(N, K/32) = ({n}, {groups})"
    found.format, found.block = "MXFP8, scale misplaced", None
    if geometry.kind == "block" and geometry.block is not None:
        rows, cols = found.block = geometry.block
        found.format = "MXFP8" if cols == 32 else "FP8 block"
        if geometry.block not in ((1, 32), claimed):
            hint = ""
            if (
                rows == 1
                and cols in (8, 16)
                and k // 32 * (32 // cols) == (scale.shape or (0,))[-1]
            ):
                width = 32 // cols
                hint = f"; or {width}-byte floats viewed as uint8, {width} x {groups} bytes a row"
            if geometry.layouts:
                hint += f"; or padded for {' or '.join(geometry.layouts)}"
            text = f"scale {stored} for weight ({n}, {k}) is one for {rows} x {cols} values{hint}"
            # E8M0 bytes for squares are block FP8: wrong only where the claim is another
            severity = "warning" if rows > 1 and claimed is None else None
            text += f"; expected {right}"
            found.problems.append(Problem("block-not-32", scale.name, text, severity))
        if k % 32 and cols == 32:
            found.report("k-not-multiple-of-32", f"K = {k} % 32 = {k % 32}", found.weight)
    elif geometry.kind == "tensor":
        found.format = "FP8 tensor"
        found.report("block-not-32", f"one scale for the whole weight ({n}, {k}); expected {right}")
    elif geometry.kind == "transposed":
        found.report("transposed-scale", f"scale {stored} is (K/32, N); expected {right}")
    elif geometry.kind == "columnwise":
        also = "; or the weight is stored as (K, N)" if n % 32 == 0 else ""
        found.report(
            "columnwise-scale",
            f"scale {stored} for weight ({n}, {k}) is (N/32, K){also}; expected {right}",
        )
    elif geometry.kind == "tiled":
        names = " or ".join(geometry.layouts)
        found.report("tiled-as-linear", f"scale {stored} is a {names} buffer; expected {right}")
    elif geometry.kind == "flat":
        names = " or ".join(geometry.layouts)
        tell = ", the length cannot tell which" if len(geometry.layouts) > 1 else ""
        found.report("flat-scale", f"scale {stored} is {names}{tell}; expected {right}")
    else:
        found.format = "FP8, scale unexplained"
        found.report("scale-shape", f"scale {stored} for weight ({n}, {k}); expected {right}")


def _fp8(found: Weight, claimed: Block | None) -> None:
    weight, scale = found.weight, found.scale
    shape = _sizes(found, weight.shape or (0, 0))
    if scale is None or scale.shape is None:
        found.format = "FP8, no scale" if scale is None else ELSEWHERE
        return
    if scale.dtype in EXPONENTS:
        _explain(found, exponent_geometry(shape, scale.shape, claimed), scale, claimed)
        if scale.dtype == "F8_E8M0":
            found.report("dtype-e8m0", f"scale is F8_E8M0 {shape_text(scale.shape)}")
        if weight.dtype != "F8_E4M3" and found.format == "MXFP8":
            found.report("weight-dtype", f"weight is {weight.dtype}: expected F8_E4M3", weight)
        return
    if scale.dtype not in FLOATS:
        found.format = "FP8, scale unexplained"
        found.report("scale-dtype", f"scale is {scale.dtype}: expected U8")
        return
    geometry = number_geometry(shape, scale.shape, claimed)
    found.block = geometry.block
    found.format = {
        "block": "FP8 block",
        "tensor": "FP8 tensor",
        "channel": "FP8 channel",
    }.get(geometry.kind, "FP8, scale unexplained")
    if geometry.block == (1, 32):
        found.format = "MXFP8, float scales"
        found.report(
            "scale-dtype",
            f"scale is {scale.dtype} {shape_text(scale.shape)}, one for 32 values: expected U8",
        )
    elif geometry.kind == "transposed":
        stored = shape_text(scale.shape)
        found.problems.append(
            Problem(
                "transposed-scale",
                scale.name,
                f"scale {stored} for weight ({found.n}, {found.k}) is turned: expected "
                f"({', '.join(map(str, reversed(scale.shape)))})",
            )
        )
    elif geometry.kind == "none":
        found.report(
            "scale-shape", f"scale {shape_text(scale.shape)} for weight ({found.n}, {found.k})"
        )


def _blocks_and_scales(found: Weight) -> bool:
    """gpt-oss: (..., N, K/32, 16) packed bytes and (..., N, K/32) scales."""
    shape = found.weight.shape or ()
    if not found.weight.name.endswith("_blocks") or len(shape) < 3 or shape[-1] != 16:
        return False
    *lead, n, groups, _ = shape
    found.n, found.k, found.experts = n, groups * 32, prod(lead) if lead else None
    found.format, found.block = "MXFP4", (1, 32)
    if found.scale is not None and found.scale.shape not in (None, shape[:-1]):
        stored, right = shape_text(found.scale.shape), shape_text(shape[:-1])
        found.report("scale-shape", f"scale {stored}; expected {right}")
    return True


def _packed(found: Weight) -> None:
    """Bytes or words that hold several codes: FP4 (two a byte), MLX (words), integers."""
    weight, scale = found.weight, found.scale
    shape = weight.shape or (0, 0)
    found.format = "unknown"
    if weight.dtype in ("I32", "U32", "I64"):
        found.format = "INT4"
        if scale is not None and scale.shape and scale.dtype == "U8" and weight.dtype == "U32":
            per_word = scale.shape[-1] * 32 / shape[-1] if shape[-1] else 0
            if per_word in (4, 8):
                found.format, found.block = ("MXFP8" if per_word == 4 else "MXFP4"), (1, 32)
                _sizes(found, shape, int(per_word))
                return
        _sizes(found, shape)
        found.n = found.k = None  # how many codes a word holds is not written in the file
        return
    if scale is None or not scale.shape or len(scale.shape) < 2:
        _sizes(found, shape)
        found.format = "INT8" if weight.dtype == "I8" and scale is not None else "unknown"
        return
    ratio = shape[-1] / scale.shape[-1] if scale.shape[-1] else 0
    if scale.dtype == "F8_E4M3" and ratio == 8:
        found.format, found.block = "NVFP4", (1, 16)
        _sizes(found, shape, 2)
    elif scale.dtype in EXPONENTS and ratio == 16:
        found.format, found.block = "MXFP4", (1, 32)
        _sizes(found, shape, 2)
    elif scale.dtype in EXPONENTS and ratio == 32:
        found.format, found.block = "MXFP8", (1, 32)
        _sizes(found, shape)
        found.report(
            "weight-dtype",
            f"weight is {weight.dtype} {shape_text(shape)} with one scale for 32 bytes: E4M3 codes "
            "stored as raw bytes, or packed FP4 with blocks of 64; expected F8_E4M3",
            weight,
        )
    else:
        _sizes(found, shape)
        found.format = "INT8" if weight.dtype == "I8" and scale.dtype in FLOATS else "unknown"


def classify(found: Weight, claimed: Block | None) -> None:
    """Set the format, block and sizes of one weight, and note mistakes in its scale's shape."""
    weight = found.weight
    if weight.shape is None:
        return
    if weight.dtype in FP8:
        _fp8(found, claimed)
    elif weight.dtype in FLOATS:
        found.format = weight.dtype or ""
        _sizes(found, weight.shape)
        if found.scale is not None:
            found.report("orphan-scale", f"{weight.dtype} weight with a scale ({found.spelling})")
    elif not _blocks_and_scales(found):
        _packed(found)


def _has_linear_shape(tensor: Tensor) -> bool:
    """Tell a matrix (or a stack of them for experts) from norms, biases and convolutions."""
    if tensor.shape is None:
        leaf = module_of(tensor.name).rsplit(".", 1)[-1]
        return "norm" not in leaf
    if tensor.dtype in FLOATS:
        stacked = len(tensor.shape) == 3 and "experts" in tensor.name
        return len(tensor.shape) == 2 or stacked
    return len(tensor.shape) >= 2


def pair(
    checkpoint: Checkpoint, block_of: Callable[[str], Block | None] = lambda module: None
) -> tuple[list[Weight], list[Problem]]:
    """Return every linear's weight with its scales, classified, and the scales without a weight.

    ``block_of`` gives the block that the config claims for a module.
    """
    known: Mapping[str, Tensor] = checkpoint.tensors
    names = known.keys() | checkpoint.elsewhere
    scales: dict[str, list[tuple[ScaleName, Tensor]]] = {}
    problems: list[Problem] = []
    spent: set[str] = set()
    unsure = bool(checkpoint.part) and not checkpoint.elsewhere
    milder = "warning" if unsure else None
    for name, tensor in known.items():
        if "scale" not in name:
            continue
        role = scale_of(name, names)
        if role is None:
            continue
        spelling, owner = role
        spent.add(name)
        if owner is None:
            dtype = f"{tensor.dtype} {shape_text(tensor.shape)}, " if tensor.dtype else ""
            text = f"{dtype}no weight of that module in the checkpoint"
            problems.append(Problem("orphan-scale", name, text, milder))
        else:
            scales.setdefault(owner, []).append((spelling, tensor))
    weights = []
    for name, tensor in known.items():
        mine = scales.get(name, ())
        if name in spent or not (is_weight(name) or mine) or not _has_linear_shape(tensor):
            continue
        module = module_of(name)
        found = Weight(module=module, folded=fold(module), weight=tensor)
        for spelling, scale in mine:
            if spelling.whole:
                found.whole = scale
            else:
                found.scale, found.spelling = scale, spelling.ending.lstrip("._")
        classify(found, block_of(found.module))
        if found.format == "FP8, no scale":
            _note_missing(found, checkpoint, milder)
        weights.append(found)
    return weights, problems


def _note_missing(found: Weight, checkpoint: Checkpoint, milder: str | None) -> None:
    base = found.weight.name
    if milder:
        found.format = ELSEWHERE
    if any(base + ending in checkpoint.elsewhere for ending in ("_scale", "_scale_inv")):
        found.format = ELSEWHERE
        return
    text = f"{found.weight.dtype} {shape_text(found.weight.shape)} without a weight_scale(_inv)"
    found.problems.append(Problem("missing-scale", base, text, milder))
