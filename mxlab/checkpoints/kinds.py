"""The mistakes that a checkpoint can be shipped with, as a table."""

from dataclasses import dataclass

ERROR, WARNING, NOTE = "error", "warning", "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One mistake: its stable name, how bad it is, what it means and what mends it.

    ``guard`` is the id of the SGLang check that meets it, None where nothing does.
    """

    name: str
    severity: str
    meaning: str
    fix: str
    guard: str | None = None


_ROWS: tuple[Kind, ...] = (
    Kind(
        name="missing-scale",
        severity=ERROR,
        meaning="The weight holds FP8 codes and nothing says what they are to be multiplied with. "
        "Read as numbers they are wrong by the scale, often 200 times and more; SGLang leaves an "
        "MXFP8 scale that no tensor fills at byte 0.",
        fix="write the scale beside the weight: uint8, shape (N, K/32)",
    ),
    Kind(
        name="orphan-scale",
        severity=ERROR,
        meaning="A scale that no quantised weight uses: it is dropped at load, or the weight was "
        "dequantised, renamed or left out of the file.",
        fix="ship the FP8 weight that belongs to it, or remove the scale",
    ),
    Kind(
        name="transposed-scale",
        severity=ERROR,
        meaning="The scale is (K/32, N). Every row of the weight would be read with the scales of "
        "other rows.",
        fix="store scale.T.contiguous(): shape (N, K/32)",
        guard="lin-scale-shape",
    ),
    Kind(
        name="columnwise-scale",
        severity=ERROR,
        meaning="Blocks of 32 run along N: the weight was quantised column-wise, or weight and "
        "scale are both stored transposed.",
        fix="quantise along K, the last dimension of (N, K)",
        guard="lin-scale-shape",
    ),
    Kind(
        name="block-not-32",
        severity=ERROR,
        meaning="The shapes say that one scale covers another block than 1 x 32, so this is not "
        "MXFP8. SGLang's row-parallel layers cut or zero-fill such scales in silence.",
        fix="quantise with blocks of 32 along K, or declare the format that it is",
        guard="lin-scale-shape",
    ),
    Kind(
        name="tiled-as-linear",
        severity=ERROR,
        meaning="The scales are in a kernel's tiled order. Every checkpoint format stores them "
        "row-major; tiling is a step at load, and doing it twice scrambles them.",
        fix="store them row-major, shape (N, K/32): mxlab layout shows the order",
        guard="lin-scale-shape",
    ),
    Kind(
        name="flat-scale",
        severity=ERROR,
        meaning="The scales are one flat buffer. Its length cannot tell row-major from tiled.",
        fix="store them row-major with their shape (N, K/32)",
        guard="lin-scale-shape",
    ),
    Kind(
        name="scale-shape",
        severity=ERROR,
        meaning="No block size explains the shape of the scale.",
        fix="store one uint8 for 32 values along K: shape (N, K/32)",
        guard="lin-scale-shape",
    ),
    Kind(
        name="k-not-multiple-of-32",
        severity=ERROR,
        meaning="The last block of every row would be short, which MXFP8 does not have.",
        fix="leave the layer unquantised, or pad K with zeros before quantising",
        guard="wsp-k32",
    ),
    Kind(
        name="scale-dtype",
        severity=ERROR,
        meaning="One scale for 32 values, but stored as numbers instead of E8M0 exponents. "
        "SGLang's column-parallel loader refuses them, the others convert them by value: 2^5 "
        "becomes byte 32, everything below 1 becomes 0.",
        fix="store the exponent byte: 127 + log2(scale) as uint8, after requantising where a "
        "scale is no power of two",
        guard="lin-copy-dtype",
    ),
    Kind(
        name="dtype-e8m0",
        severity=WARNING,
        meaning="The bytes are right and carry their meaning in the dtype. SGLang's uint8 "
        "parameters refuse them (column-parallel) or convert them by value in silence.",
        fix="store the same bytes as uint8: scale.view(torch.uint8)",
        guard="lin-copy-dtype",
    ),
    Kind(
        name="weight-dtype",
        severity=ERROR,
        meaning="The scale is MXFP8's and the weight is not E4M3.",
        fix="store E4M3 codes with dtype F8_E4M3",
        guard="lin-copy-dtype",
    ),
    Kind(
        name="scale-not-power-of-two",
        severity=ERROR,
        meaning="The scales are declared to be powers of two (UE8M0) and are not. Rounding the "
        "scale alone changes every weight of the block.",
        fix="requantise the elements with the new scale; the conversion is lossy (about 2.6 % "
        "relative error)",
        guard="blk2mx-pow2",
    ),
    Kind(
        name="scale-not-finite",
        severity=ERROR,
        meaning="A scale that is zero, negative, infinite or NaN has no meaning.",
        fix="quantise these blocks again",
        guard="blk2mx-pow2",
    ),
    Kind(
        name="e8m0-cast-by-value",
        severity=ERROR,
        meaning="A float scale was cast to uint8 by value instead of taking its exponent: 2^5 "
        "became 32, everything below 1 became 0. Read as E8M0 these bytes are 2^-63 at most.",
        fix="write 127 + log2(scale), or view an E8M0 tensor as uint8 instead of casting it",
        guard="lin-copy-dtype",
    ),
    Kind(
        name="scale-float-in-disguise",
        severity=ERROR,
        meaning="The bytes are no exponents with bias 127: no layer has weights of that size. "
        "They are numbers, bytes of floats, or exponents without the bias.",
        fix="write the E8M0 byte: 127 + log2(scale)",
        guard="lin-copy-dtype",
    ),
    Kind(
        name="byte-255-present",
        severity=ERROR,
        meaning="Byte 255 is NaN: every weight of the block is NaN (+Inf in decoders that shift "
        "or use exp2).",
        fix="find the Inf or NaN in the original weights; finite data never needs 255",
    ),
    Kind(
        name="byte-0-present",
        severity=WARNING,
        meaning="Byte 0 is 2^-127. Blocks of zeros have it by right, yet some decoders read it as "
        "0.0 and TensorRT-LLM is reported to refuse it.",
        fix="nothing for zero blocks; byte 1 there pleases every decoder",
    ),
    Kind(
        name="fp8-values-without-scale",
        severity=ERROR,
        meaning="The 16-bit weight holds bare E4M3 numbers up to 448: it was dequantised without "
        "its scale.",
        fix="multiply by the scale when dequantising",
    ),
    Kind(
        name="config-contradicts",
        severity=ERROR,
        meaning="The config claims one format and the tensors have another. Which of the two wins "
        "depends on the system, and often nothing is said.",
        fix="make quantization_config say what the tensors are",
    ),
    Kind(
        name="config-unknown",
        severity=ERROR,
        meaning="No rule for the claim. A loader that falls back to a default reads the bytes as "
        "something else.",
        fix="name a quant_method and format that the serving system documents",
        guard="cfg-method-unknown",
    ),
    Kind(
        name="config-block-size",
        severity=WARNING,
        meaning="MXFP8 has blocks of 1 x 32 whatever the config says; SGLang warns and goes on.",
        fix='set "weight_block_size": [1, 32]',
        guard="cfg-mxfp8-override",
    ),
    Kind(
        name="unquantized-not-excluded",
        severity=WARNING,
        meaning="The config claims a quantised model and does not exclude this 16-bit weight. A "
        "loader that believes the config converts it by value or refuses it.",
        fix="add the module to the config's exclusion list",
        guard="lin-downcast",
    ),
    Kind(
        name="excluded-but-quantized",
        severity=ERROR,
        meaning="The config excludes the module, so a loader makes a 16-bit parameter and copies "
        "FP8 codes into it without their scale.",
        fix="take the module out of the exclusion list, or ship it in 16 bits",
    ),
    Kind(
        name="exclusion-matches-nothing",
        severity=WARNING,
        meaning="The entry names no module of this checkpoint: a typing mistake, or a name from "
        "another model. What it was to protect is not protected.",
        fix="correct the entry to the checkpoint's own name",
    ),
    Kind(
        name="exclusion-not-checked",
        severity=NOTE,
        meaning="The entry is an expression that mxlab does not evaluate.",
        fix="check it by hand",
    ),
    Kind(
        name="fused-members-differ",
        severity=ERROR,
        meaning="The members of a layer that servers fuse (q, k, v; gate, up) are stored in "
        "different formats.",
        fix="quantise all members or none",
        guard="cfg-fused-skip",
    ),
    Kind(
        name="scale-name",
        severity=WARNING,
        meaning="The scale is not spelt as the claimed dialect spells it; a loader that looks for "
        "the other name drops it. SGLang renames weight_scale only where the method is mxfp8.",
        fix="rename the tensor",
    ),
    Kind(
        name="shape-differs-from-config",
        severity=ERROR,
        meaning="The weight has another shape than the config's sizes give.",
        fix="ship the config that belongs to these weights",
    ),
    Kind(
        name="index-mismatch",
        severity=ERROR,
        meaning="Index and shards disagree on where a tensor is.",
        fix="write the index again from the shards",
    ),
    Kind(
        name="missing-shard",
        severity=ERROR,
        meaning="The index names a file that is not in the folder.",
        fix="download the shard",
    ),
    Kind(
        name="duplicate-tensor",
        severity=ERROR,
        meaning="Two shards hold a tensor of the same name. Which one counts depends on the order "
        "in which files are read.",
        fix="remove the one that the index does not name",
    ),
)

#: name -> kind, in the order in which findings of one severity are listed
KINDS: dict[str, Kind] = {row.name: row for row in _ROWS}
