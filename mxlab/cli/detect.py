"""``mxlab detect``: which layout a scale buffer is in, and what misreading it costs."""

import argparse
from dataclasses import asdict
from typing import Any

from mxlab.cli import values
from mxlab.cli.result import Result, table
from mxlab.errors import InputError, choose, quote, whole_number
from mxlab.layout import ScaleLayout, layout

EXAMPLES = """examples:
  mxlab detect layer.npz         (arrays codes, scales; values; or activations, product)
  mxlab detect codes.npy --scales scales.npy --values weight.npy
  mxlab detect model.safetensors --tensor model.layers.0.mlp.up_proj.weight --expect linear
  mxlab detect --scales scales.npy --shape 128,4
  mxlab detect layer.npz --read-as linear

Codes are the bytes of (R, K) or (B, R, K) elements; values are the numbers before quantisation; a
product (M, R) is what activations (M, K) times the weight gave. Where the confidence stays below
threshold the outcome is "cannot tell"; it is "none" where nothing fits; then layout is null.
Exit code 1: --expect was not confirmed. JSON: damage has one object for each other way to read the
bytes (or for --read-as)."""

_ARRAYS = ("codes", "scales", "values", "activations", "product")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("path", nargs="?", help="an .npz, codes as .npy, or a checkpoint")
    for name in ("scales", "values", "activations", "product"):
        parser.add_argument(f"--{name}", metavar="FILE.npy", help=f"the array {name}")
    parser.add_argument("--tensor", help="the weight's name in a checkpoint")
    parser.add_argument("--scale-tensor", help="its scale's name (default: found by its name)")
    parser.add_argument("--shape", metavar="R,C", help="the scale matrix, where there is no data")
    parser.add_argument("--axis", default="-1", help="the quantised axis (default -1)")
    parser.add_argument("--format", default="e4m3", help="e4m3 or e5m2")
    parser.add_argument("--read-as", metavar="LAYOUT", help="what this reading would cost")
    parser.add_argument("--expect", metavar="LAYOUT", help="exit 1 unless the bytes are in it")
    parser.add_argument("--page-size", help="weigh kv_paged with this page size")
    parser.add_argument("--scales-per-head", help="weigh kv_paged with this head_dim / 32")


def _shape(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    rows, comma, cols = text.partition(",")
    if not comma:
        raise InputError(f"--shape is {quote(text)}: expected R,C of the scale matrix, as 128,4")
    return values.whole(rows, "--shape rows"), values.whole(cols, "--shape columns")


def _from_checkpoint(args: argparse.Namespace) -> dict[str, Any]:
    from mxlab.array_files import open_tensors, tensor_names
    from mxlab.checkpoints.names import scale_of

    if args.tensor is None:
        raise InputError(f"{quote(args.path)} holds many tensors: expected --tensor NAME")
    scale = args.scale_tensor
    if scale is None:
        known = tensor_names(args.path)
        of = {name: scale_of(name, known) for name in known}
        names = [name for name, row in of.items() if row and row[1] == args.tensor]
        if len(names) != 1:
            open_tensors(args.path, [args.tensor])  # a wrong name is the likelier mistake
            many = ", ".join(names) or "none"
            raise InputError(
                f"scales of {quote(args.tensor)}: {many}; expected --scale-tensor NAME"
            )
        scale = names[0]
    opened = open_tensors(args.path, [args.tensor, scale])
    (codes, dtype), (scales, _) = opened[args.tensor], opened[scale]
    if codes.dtype.name != "uint8":
        raise InputError(f"tensor {quote(args.tensor)} is {dtype}: expected F8_E4M3 or F8_E5M2")
    if dtype == "F8_E5M2":
        args.format = "e5m2"
    return {"codes": codes, "scales": scales}


def _arrays(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arrays that were named, whatever the files."""
    from mxlab.array_files import open_npy, open_npz

    found: dict[str, Any] = {}
    if args.path is not None:
        if args.path.endswith(".npz"):
            found = dict(open_npz(args.path, _ARRAYS))
        elif args.path.endswith(".npy"):
            found = {"codes": open_npy(args.path)}
        else:
            found = _from_checkpoint(args)
    for name in _ARRAYS[1:]:
        path = getattr(args, name)
        if path is not None:
            found[name] = open_npy(path)
    if "scales" not in found:
        raise InputError("there are no scales: expected --scales FILE.npy, or an .npz with scales")
    codes = found.get("codes")
    if codes is not None and codes.dtype.itemsize == 1:
        found["codes"] = codes.view("u1")
    return found


def _candidates(args: argparse.Namespace) -> list[ScaleLayout]:
    from mxlab.detect_readings import CANDIDATES

    given = {
        name: values.whole(text, f"--{name.replace('_', '-')}")
        for name in ("page_size", "scales_per_head")
        if (text := getattr(args, name)) is not None
    }
    paged = layout("kv_paged", **given)
    return [paged if found.name == "kv_paged" else found for found in CANDIDATES.values()]


def _damages(
    args: argparse.Namespace, found: Any, arrays: dict[str, Any], candidates: list[ScaleLayout]
) -> list[Any]:
    """Return what the other readings cost, or the one asked for."""
    import numpy as np

    from mxlab.damage import misread
    from mxlab.detect import scale_bytes

    by_name = {row.name: row for row in candidates}
    if args.read_as is not None:
        choose("layout", args.read_as, by_name)
    if found.verdict is None or found.batches > 1 or _axis(args) not in (-1, 1):
        return []
    others = [c.layouts[0] for c in found.ranking[1:]]
    if args.read_as is not None:
        others = [args.read_as.lower()]
    codes = arrays.get("codes")
    return [
        misread(
            scale_bytes(arrays["scales"]),
            by_name[found.verdict],
            by_name[other],
            found.rows,
            found.cols,
            codes=None if codes is None else np.asarray(codes).reshape(found.rows, -1),
            fmt=args.format,
        )
        for other in others
    ]


def _axis(args: argparse.Namespace) -> int:
    return whole_number("--axis", values.whole(args.axis, "--axis"), -3, 2)


def run(args: argparse.Namespace) -> Result:
    """Answer the verb."""
    from mxlab.detect import THRESHOLD, detect_layout

    candidates = _candidates(args)
    if args.expect is not None:
        choose("layout", args.expect, {row.name: row for row in candidates})
    rows, cols = _shape(args.shape)
    arrays = _arrays(args)
    data = {name: arrays.get(name) for name in _ARRAYS if name != "scales"}
    if data["codes"] is None and data["product"] is not None:
        raise InputError("there are no codes: expected them beside activations and product")
    found = detect_layout(
        arrays["scales"],
        rows,
        cols,
        **data,
        fmt=args.format,
        axis=_axis(args),
        candidates=candidates,
    )
    costs = _damages(args, found, arrays, candidates)
    names = () if found.verdict is None else (found.verdict, *found.alike)
    confirmed = args.expect is None or args.expect.lower() in names
    answer: dict[str, Any] = {"layout": found.verdict} | asdict(found)
    del answer["verdict"]
    answer |= {
        "threshold": THRESHOLD,
        "excluded": [{"layout": name, "why": why} for name, why in found.excluded],
        "damage": [
            {key: values.plain(v) if isinstance(v, float) else v for key, v in asdict(c).items()}
            for c in costs
        ],
    }
    if args.expect is not None:
        answer |= {"expected": args.expect.lower(), "confirmed": confirmed}
    return Result(answer, _text(args, found, costs, names, confirmed), 0 if confirmed else 1)


def _text(
    args: argparse.Namespace, found: Any, costs: list[Any], names: tuple[str, ...], confirmed: bool
) -> str:
    batches = f"{found.batches} x " if found.batches > 1 else ""
    lines = [f"{batches}{found.rows} x {found.cols} scales in {found.nbytes:,} bytes"]
    if found.rows_weighed < found.batches * found.rows:
        lines[0] += f" ({found.rows_weighed:,} rows weighed, spread evenly)"
    if names:
        alike = f", the same bytes here as {', '.join(names[1:])}" if names[1:] else ""
        lines.append(f"layout: {names[0]}{alike} (confidence {_share(found.confidence)})")
    else:
        lines.append("layout: " + ("none fits" if found.outcome == "none" else found.outcome))
    lines.append(f"because {found.why}")
    if args.read_as is not None and not costs:
        lines.append(
            f"what reading as {args.read_as.lower()} costs is known for one matrix only, "
            "quantised along its last axis, once its layout is"
        )
    if not confirmed:
        lines.append(_not_confirmed(args.expect.lower(), names))
    if found.ranking:
        rows = [
            (
                " = ".join(c.layouts),
                f"{c.dirty:,} of {c.padding:,}" if c.padding else "-",
                "-" if c.misfit is None else f"{c.misfit:.2%}",
                "-" if c.deviation is None else f"{c.deviation:.1f}",
            )
            for c in found.ranking
        ]
        header = ["read as", "padding not 0", "contradictions", "standard errors worse"]
        lines += ["", table(header, rows)]
    if costs:
        costly = [
            (
                c.read_as,
                f"{c.blocks_touched / c.blocks:.1%}",
                f"{c.rows_touched:,} of {c.rows:,}",
                f"{c.blocks_in_place / c.blocks:.1%}",
                c.nan_blocks,
                c.beyond,
                values.shown(_rounded(c.relative_error)),
                values.shown(_rounded(c.gemm_error)),
                f"{c.gemm_nan} of {c.gemm_outputs}" if c.gemm_outputs else "-",
            )
            for c in costs
        ]
        header = ["what reading it as ... costs", "blocks", "rows", "in place", "NaN"]
        header += ["past the end", "relative error", "GEMM error", "GEMM NaN"]
        lines += ["", table(header, costly)]
    return "\n".join(lines)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")


def _share(confidence: float) -> str:
    return "above 0.9999" if confidence > 0.9999 else f"{confidence:.4f}"


def _not_confirmed(expected: str, names: tuple[str, ...]) -> str:
    if not names:
        return f"expected {expected}: not confirmed"
    if names[0] == "linear":
        return f"expected {expected}: convert with mxlab.interleave(scales, {expected!r})"
    return (
        f"expected {expected}: undo with mxlab.deinterleave(scales, rows, cols, {names[0]!r})"
        + ("" if expected == "linear" else f", then mxlab.interleave(scales, {expected!r})")
    )
