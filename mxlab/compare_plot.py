"""A comparison as a picture: SQNR, and what saturates or underflows, rule by rule."""

import os
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from mxlab.compare import Comparison, Score
from mxlab.errors import InputError, quote

SUFFIXES = (".svg", ".png")
_RULE, _PROFILE, _SATURATED, _UNDERFLOWED = "#1f6f8b", "#8aa8b3", "#b5462f", "#c9962b"


def check_target(path: str) -> Path:
    """Return the path to write, or raise InputError before anything is computed.

    >>> check_target("out.pdf")
    Traceback (most recent call last):
    mxlab.errors.InputError: --plot is 'out.pdf': expected a name that ends in .svg or .png
    """
    try:
        found = Path(path)
        if found.suffix.lower() not in SUFFIXES:
            raise InputError(f"--plot is {quote(path)}: expected a name that ends in .svg or .png")
        if "\0" in path or not found.parent.is_dir() or found.is_dir():
            raise InputError(f"--plot is {quote(path)}: expected a file in a folder that exists")
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"--plot is {quote(path)}: no such name can exist") from None
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            "--plot needs matplotlib: install the extra 'lab' of mxlab, or leave --plot out"
        ) from None
    return found


def _bars(axes: Any, scores: list[Score], rules: int) -> None:
    found = [score.sqnr_db for score in scores]
    bars = axes.barh(
        range(len(scores)),
        [value or 0.0 for value in found],
        color=[_RULE if i < rules else _PROFILE for i in range(len(scores))],
    )
    axes.bar_label(bars, ["exact" if v is None else f"{v:.2f}" for v in found], padding=3)
    axes.set_yticks(range(len(scores)), [score.name for score in scores])
    axes.invert_yaxis()
    axes.set_xlabel("SQNR in dB, higher is better")
    axes.margins(x=0.12, y=0.01)


def _counts(axes: Any, scores: list[Score]) -> None:
    values = [max(1, 32 * (score.blocks - score.nan_blocks)) for score in scores]
    parts = (
        ("saturated", _SATURATED, [s.saturated for s in scores]),
        ("became 0", _UNDERFLOWED, [s.underflowed for s in scores]),
    )
    for at, (label, colour, counts) in enumerate(parts):
        shares = [100 * count / total for count, total in zip(counts, values, strict=True)]
        places = [i + (at - 0.5) * 0.4 for i in range(len(scores))]
        axes.barh(places, shares, height=0.4, color=colour, label=label)
    axes.set_xlabel("share of values in %")
    axes.legend(loc="lower right", frameon=False)


def write(found: Comparison, path: Path, title: str) -> None:
    """Write the picture whole or not at all; svg or png by the name's ending.

    Raises InputError where the file cannot be written.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    whole = not found.profiles
    scores = list(found.rules if whole else found.sampled_rules) + list(found.profiles)
    kind = path.suffix.lower().removeprefix(".")
    sampled = "all blocks" if whole else f"{found.sampled:,} of {found.blocks:,} blocks"
    # text stays text in an SVG, and the same data gives the same file
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "mxlab"}):
        figure = Figure(figsize=(11, 1.6 + 0.24 * len(scores)), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        _bars(left, scores, len(found.rules))
        _counts(right, scores)
        # a tensor's name is no mathematical text
        figure.suptitle(f"{title}, {found.format}, {sampled}", parse_math=False)
        buffer = BytesIO()
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(buffer, format=kind, dpi=120, metadata=metadata)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=path.suffix)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(buffer.getvalue())
            mask = os.umask(0)
            os.umask(mask)
            Path(name).chmod(0o666 & ~mask)  # mkstemp's is private
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"cannot write {quote(str(path))}: {error.strerror}") from None
