"""``mxlab compare``: one tensor under every rule and profile."""

import argparse
from typing import Any

from mxlab.cli import values
from mxlab.cli.result import Result, table
from mxlab.errors import InputError, quote

EXAMPLES = """examples:
  mxlab compare weight.npy
  mxlab compare model.safetensors --tensor model.layers.0.mlp.up_proj.weight --plot out.svg
  mxlab compare weight.npy --rule floor,rceil --profile none --axis 0
  mxlab compare weight.npy --profile deepgemm,transformer-engine --sample 4096

The rules quantise every block. The profiles run in plain Python on --sample blocks (default 256)
drawn evenly at random with a fixed seed; the rules' figures on the same blocks stand beside them.
A block with Inf or NaN is counted (nonfinite_blocks) and left out of every figure.
Worst relative error: |error| / |value|, over values that are not 0; of amax: |error| over the
block's maximum. JSON: sqnr_db is null where nothing was lost."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("path", help=".npy, .npz, .safetensors, a checkpoint's folder or index")
    parser.add_argument("--tensor", help="the tensor of a checkpoint, or the array of an .npz")
    parser.add_argument("--rule", help="rules, separated by commas (default: all)")
    parser.add_argument("--profile", help="profiles, separated by commas; all (default) or none")
    parser.add_argument("--format", default="e4m3", help="e4m3 or e5m2")
    parser.add_argument("--axis", default="-1", help="the axis of the blocks (default -1)")
    parser.add_argument("--pad", action="store_true", help="fill the last block with zeros")
    parser.add_argument("--sample", default="256", help="blocks for the profiles (default 256)")
    parser.add_argument("--plot", metavar="FILE", help="write a picture: .svg or .png")


def _open(args: argparse.Namespace) -> tuple[Any, str]:
    from mxlab.array_files import open_npy, open_npz, open_tensors

    lower = args.path.lower()
    if lower.endswith(".npy"):
        if args.tensor is not None:
            raise InputError(f"--tensor is {quote(args.tensor)}: a .npy file holds one array")
        return open_npy(args.path), args.path
    if args.tensor is None:
        raise InputError(f"{quote(args.path)} holds many tensors: expected --tensor NAME")
    if lower.endswith(".npz"):
        found = open_npz(args.path, [args.tensor])
        if args.tensor not in found:
            raise InputError(f"{quote(args.path)} has no array {quote(args.tensor)}")
        return found[args.tensor], args.tensor
    array, dtype = open_tensors(args.path, [args.tensor])[args.tensor]
    if dtype.startswith("F8") or array.dtype.kind in "ui":
        raise InputError(
            f"tensor {quote(args.tensor)} is {dtype}, quantised already: expected F32, F16, BF16 "
            "or F64"
        )
    return array, args.tensor


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]


def run(args: argparse.Namespace) -> Result:
    """Answer the verb."""
    from mxlab.compare import compare
    from mxlab.compare_plot import check_target, write

    target = None if args.plot is None else check_target(args.plot)
    array, name = _open(args)
    chosen = _names(args.profile)
    if chosen == ["all"]:
        chosen = None
    elif chosen == ["none"]:
        chosen = []
    found = compare(
        array,
        args.format,
        values.whole(args.axis, "--axis"),
        rules=_names(args.rule),
        profile_names=chosen,
        pad=args.pad,
        sample=values.whole(args.sample, "--sample"),
    )
    data: dict[str, Any] = {
        "tensor": name,
        "shape": list(found.shape),
        "dtype": found.dtype,
        "format": found.format,
        "axis": found.axis,
        "padded": found.padded,
        "blocks": found.blocks,
        "nonfinite_blocks": found.nonfinite,
        "zero_blocks": found.zeros,
        "rules": [_row(score) for score in found.rules],
        "sampled_blocks": found.sampled,
        "sampled_rules": [_row(score) for score in found.sampled_rules] if found.profiles else [],
        "profiles": [_row(score) for score in found.profiles],
    }
    text = _text(found, name)
    if target is not None:
        write(found, target, ascii(name)[1:-1][:80])
        data["plot"] = str(target)
        text += f"\n\nwritten to {quote(str(target))}"
    return Result(data, text)


def _row(score: Any) -> dict[str, Any]:
    keys = ("max_rel_error", "max_error_of_amax", "saturated", "underflowed", "nan_blocks")
    return {
        "name": score.name,
        "blocks": score.blocks,
        "sqnr_db": score.sqnr_db,
        **{key: getattr(score, key) for key in keys},
        "scale_bytes": [score.lowest, score.highest] if score.blocks else None,
    }


_HEADER = ["SQNR dB", "worst relative", "of amax", "saturated", "became 0", "NaN blocks", "scales"]


def _table(first: str, scores: Any) -> str:
    rows = [
        (
            score.name,
            "exact" if score.sqnr_db is None else f"{score.sqnr_db:.2f}",
            f"{score.max_rel_error:.2%}",
            f"{score.max_error_of_amax:.2%}",
            f"{score.saturated:,}",
            f"{score.underflowed:,}",
            f"{score.nan_blocks:,}",
            f"{score.lowest}..{score.highest}" if score.blocks else "-",
        )
        for score in scores
    ]
    return table([first, *_HEADER], rows)


def _text(found: Any, name: str) -> str:
    shape = " x ".join(map(str, found.shape))
    lines = [
        f"{quote(name)}: {found.dtype} {shape}, {found.blocks:,} blocks of 32 along axis "
        f"{found.axis}, {found.format}"
    ]
    if found.padded:
        lines.append(f"every line was filled up with {found.padded} zeros")
    lines.append(
        f"{found.nonfinite:,} blocks hold Inf or NaN (left out of every figure), {found.zeros:,} "
        "are all zeros"
    )
    lines += ["", _table("rule", found.rules)]
    if found.profiles:
        part = "all" if found.sampled == found.blocks else f"{found.sampled:,} blocks"
        lines += ["", f"profiles, on {part} (the rules on the same blocks first)", ""]
        lines.append(_table("profile", [*found.sampled_rules, *found.profiles]))
    return "\n".join(lines)
