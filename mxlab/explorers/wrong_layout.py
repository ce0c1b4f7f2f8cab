"""The wrong layout: a small product whose weight scales are read as if they lay elsewhere."""

from math import log10

from mxlab.explorers import colours
from mxlab.explorers.controls import Choice, Int, State, command
from mxlab.explorers.panels import Drawing, Facts, Grid, Shape, View
from mxlab.explorers.protocol import Explorer
from mxlab.explorers.wrong_layout_product import (
    BEYOND,
    EQUAL,
    OWN,
    TOKENS,
    WRONG,
    Misread,
    misread,
)
from mxlab.layout import LAYOUTS

_BYTES = {name: found for name, found in LAYOUTS.items() if found.itemsize == 1}
_NAMES = tuple((name, name) for name in _BYTES)
_PATTERNS = (
    ("rows", "rows differ"),
    ("columns", "columns differ"),
    ("blocks", "every block differs"),
    ("natural", "as bell-shaped values give them"),
    ("same", "all the same"),
)
CONTROLS = (
    Choice(name="stored_as", label="The buffer is in", default="linear", options=_NAMES,
           group="The layouts", help="What the checkpoint or the quantiser wrote."),
    Choice(name="read_as", label="It is read as", default="tile_128x4", options=_NAMES,
           group="The layouts", help="What the kernel takes it for."),
    Choice(name="scales", label="Scales", default="rows", options=_PATTERNS,
           group="The weight", help="How much they differ decides how much shows."),
    Int(name="spread", label="Binades between them", default=4, low=0, high=16, slider=(0, 16, 1),
        group="The weight", when=("scales", ("rows", "columns", "blocks"))),
    Int(name="n", label="Outputs N", default=128, low=1, high=256, slider=(8, 256, 8),
        group="The weight"),
    Int(name="blocks", label="K / 32", default=4, low=1, high=16, slider=(1, 16, 1),
        group="The weight"),
    Int(name="row", label="Scales from row", default=0, low=0, high=255, slider=(0, 255, 1),
        group="The map"),
)  # fmt: skip
_MOST_CELLS = 512
_TONES = (colours.RIGHT, colours.FLUSHED, colours.WRONG, colours.REFERENCE)
#: of an output
_UNKNOWN = "reads past the end of the buffer: unknown"


def view(state: State) -> View:
    """Return which scales are read, and what becomes of the product."""
    actual, read_as = str(state["stored_as"]), str(state["read_as"])
    n, blocks = int(state["n"]), int(state["blocks"])
    chosen = str(state["scales"]), int(state["spread"]), n, blocks
    found = misread(*chosen, _BYTES[actual], _BYTES[read_as])
    status, sign, sentence = _answer(found, actual, read_as)
    return View(
        status=status,
        sign=sign,
        answer=sentence,
        panels=(
            _facts(found, actual, read_as),
            _scales(found, int(state["row"])),
            _outputs(found),
            _finding(found, actual, read_as),
        ),
        cli=command("wrong_layout", CONTROLS, state),
        python="import numpy as np\n"
        "from mxlab.damage import misread\n"
        "from mxlab.detect import detect_layout\n"
        "from mxlab.explorers.wrong_layout_product import codes, scales, stored\n"
        "from mxlab.layout import layout\n\n"
        f"elements = np.array(codes({n}, {blocks}), np.uint8)\n"
        f'buffer = stored(scales{chosen!r}, layout("{actual}"))\n'
        "buffer = np.array(buffer, np.uint8)\n"
        f'print(misread(buffer, "{actual}", "{read_as}", {n}, {blocks}, codes=elements))\n'
        f"found = detect_layout(buffer, {n}, {blocks}, codes=elements)\n"
        "print(found.outcome, found.verdict, found.why)",
    )


def _damaged(found: Misread) -> int:
    return sum(bool(error) for error in found.errors)


def _unknown(found: Misread) -> int:
    return sum(error is None for error in found.errors)


def _percent(share: float | None) -> str:
    if share is None:
        return "unknown"
    percent = 100 * share
    return f"{percent:,.0f} %" if percent >= 1000 else f"{percent:.3g} %"


def _answer(found: Misread, actual: str, read_as: str) -> tuple[str, str, str]:
    n, cells = len(found.right), len(found.right) * len(found.right[0])
    damaged, unknown = _damaged(found), _unknown(found)
    if found.count(OWN) == cells:
        same = f"{actual} and {read_as} place" if actual != read_as else f"{actual} places"
        return "passes", "=", f"{same} these {cells:,} scales alike: every output is right."
    past = f"{unknown} of {n} outputs read scales past the end of the buffer" if unknown else ""
    if not damaged:
        if unknown:
            return "silent", "⚠", f"{past}: what they get is unknown, and nothing says so."
        return (
            "warns",
            "!",
            f"{cells - found.count(OWN):,} of {cells:,} blocks read another block's scale, all of "
            "them equal to their own: every output is right, and the mistake stays hidden.",
        )
    more = f"; {past}" if past else ""
    return (
        "silent",
        "⚠",
        f"{damaged} of {n} outputs are wrong and nothing says so: the product is off by "
        f"{_percent(found.product)}{more}.",
    )


def _facts(found: Misread, actual: str, read_as: str) -> Facts:
    n, blocks = len(found.right), len(found.right[0])
    own, equal, wrong, beyond = (found.count(fate) for fate in (OWN, EQUAL, WRONG, BEYOND))
    bytes_ = [byte for row in found.right for byte in row]
    known = [(error, r) for r, error in enumerate(found.errors) if error is not None]
    worst, at = max(known, default=(None, 0), key=lambda pair: (pair[0], -pair[1]))
    ends = f"{min(bytes_)}" if len(set(bytes_)) == 1 else f"{min(bytes_)} to {max(bytes_)}"
    rows: list[tuple[str, str, str]] = [
        ("outputs wrong", f"{_damaged(found)}", f"of {n}: the rows of the weight"),
        ("own scale", f"{own:,}", f"of {n * blocks:,} blocks: at the same byte in both layouts"),
        ("equal by chance", f"{equal:,}", "read another block's scale, of the same value"),
        ("wrong scale", f"{wrong:,}", "read a scale of another value, or padding"),
    ]
    tones = [-1, *_TONES[:3]]
    if beyond:
        rows.append(("past the end", f"{beyond:,}", f"{read_as} reaches to byte "
                     f"{found.needed - 1:,} of {found.nbytes:,}"))  # fmt: skip
        tones.append(_TONES[BEYOND])
    rows += [
        ("product", _percent(found.product), f"root of error energy over signal energy, {TOKENS} "
         f"tokens, K = {blocks * 32}, summed in float64"),
        ("worst output", _percent(worst), f"row {at}" if known else "no output is known"),
        ("scale bytes", ends, f"{len(set(bytes_))} values: the fewer, the less shows"),
    ]  # fmt: skip
    return Facts(
        id="damage",
        title=f"What {actual} read as {read_as} costs",
        alt=f"{_damaged(found)} of {n} outputs are wrong, {wrong:,} of {n * blocks:,} blocks have "
        f"a wrong scale, {equal:,} an equal one by chance, {own:,} their own"
        + (f", {beyond:,} are read past the end" if beyond else "")
        + f"; the product is off by {_percent(found.product)}.",
        rows=tuple(rows),
        tones=tuple(tones),
    )


def _outputs(found: Misread) -> Drawing:
    """Return each output's error, on a logarithmic axis."""
    known = [error for error in found.errors if error]
    low = min([-1, *(_power(error) for error in known)])
    high = max([2, *(_power(error) + 1 for error in known)])
    width, left, right, top, base = 720, 72, 712, 12, 172
    pitch = (right - left) / len(found.errors)
    gap = 1 if pitch > 4 else 0.3
    shapes = []
    at: tuple[float, ...]
    for power in range(low, high + 1, 1 if high - low <= 8 else 2):
        y = base - (base - top) * (power - low) / (high - low)
        shapes.append(Shape(kind="line", at=(left, y, right, y), tone=-2, dashed=power != low))
        text = f"{10**power:,} %" if power >= 0 else f"{10.0**power:g} %"
        if power >= 6 or power <= -4:
            text = f"1e{power} %"
        shapes.append(Shape(kind="text", at=(left - 6, y + 4), text=text, anchor="end", tone=-2))
    for r, error in enumerate(found.errors):
        x = left + pitch * r
        if error is None:
            at, tone, say = (x, top, pitch - gap, base - top), colours.REFERENCE, _UNKNOWN
        elif error == 0:
            at, tone, say = (x, base - 3, pitch - gap, 6), colours.RIGHT, "right"
        else:
            size = (base - top) * min(max((log10(100 * error) - low) / (high - low), 0.02), 1)
            at, tone = (x, base - size, pitch - gap, size), colours.WRONG
            say = f"off by {_percent(error)}"
        shapes.append(Shape(kind="box", at=at, tone=tone, strong=error is not None, key=r,
                            say=f"Output {r}: {say}"))  # fmt: skip
    n = len(found.errors)
    shapes += [
        Shape(kind="text", at=(left, base + 20), text="output 0", tone=-2),
        Shape(kind="text", at=(right, base + 20), text=f"output {n - 1}", anchor="end", tone=-2),
    ]
    ends = f", from {_percent(min(known))} to {_percent(max(known))}" if known else ""
    return Drawing(
        id="outputs",
        title="How far off each output is",
        alt=f"{n - len(known) - _unknown(found)} of {n} outputs are right, {len(known)} are wrong"
        f"{ends}, {_unknown(found)} are unknown.",
        width=width,
        height=base + 28,
        shapes=tuple(shapes),
        legend=((colours.RIGHT, "right"), (colours.WRONG, "wrong"),
                *(((colours.REFERENCE, "unknown"),) if _unknown(found) else ())),
    )  # fmt: skip


def _power(error: float) -> int:
    """Return floor(log10) of a share in percent, within what a double can hold."""
    return int(f"{100 * error:.16e}".partition("e")[2])


def _scales(found: Misread, first: int) -> Grid:
    """Return each block's scale as it is read, and its own where that is another."""
    n, blocks = len(found.right), len(found.right[0])
    many = min(n, _MOST_CELLS // blocks)
    top = min(first, n - many)
    cells = []
    for r in range(top, top + many):
        line = []
        for true, got, fate in zip(found.right[r], found.read[r], found.fates[r], strict=True):
            text = (f"{true}", f"{true}~", f"{got}≠{true}", f"?≠{true}")[fate]
            line.append((text, fate, r))
        cells.append(line)
    rest = "" if many == n else f" {many} of {n} rows are shown."
    wrong = sum(fate == WRONG for row in found.fates[top : top + many] for fate in row)
    return Grid(
        id="scales",
        title="The scale that each block gets",
        alt=f"Rows {top} to {top + many - 1}: {wrong:,} of {many * blocks:,} blocks get a byte "
        f"that is not theirs, such as 123≠120 for 123 in place of 120.{rest}",
        corner="row",
        columns=tuple(f"block {c}" for c in range(blocks)),
        rows=tuple(str(r) for r in range(top, top + many)),
        cells=cells,
        legend=("its own", "~ another's, equal by chance", "≠ another's", "? past the end"),
        tones=_TONES,
        say="Row {row}, {column}: {text}",
        sample=tuple(range(0, many, max(1, many // 16))),
    )


def _finding(found: Misread, actual: str, read_as: str) -> Facts:
    """Say what the buffer itself gives away, and the command that decides."""
    n, blocks = len(found.right), len(found.right[0])
    alike = [name for name, row in _BYTES.items() if row.nbytes(n, blocks) == found.nbytes]
    padding = found.nbytes - n * blocks
    values = len({byte for row in found.right for byte in row})
    fits = found.needed == found.nbytes
    length = (
        f"{', '.join(alike)} take as many: a check of the length passes"
        if fits
        else f"{read_as} takes {found.needed:,}: a check of the length would tell"
    )
    rows = (
        ("length", f"{found.nbytes:,} bytes", length),
        ("padding", f"{padding:,} bytes", "are 0: a reading that finds other bytes there is wrong"
         if padding else "nothing to look at"),
        ("values", f"{values}", "every reading gives the same scales" if values == 1 else
         "codes and scales of neighbouring blocks change together in the right reading alone"),
        ("to decide", "", f"mxlab detect WEIGHT.npz --expect {read_as} (codes and scales)"),
        ("to convert", "", _convert(actual, read_as, n, blocks)),
    )  # fmt: skip
    return Facts(
        id="finding",
        title="What would find it",
        alt=f"{found.nbytes:,} bytes fit {len(alike)} layouts, {padding:,} of them are padding, "
        f"and the scales have {values} values.",
        rows=rows,
    )


def _convert(actual: str, read_as: str, n: int, blocks: int) -> str:
    if actual == read_as:
        return "nothing to convert"
    plain = "scales"
    if actual != "linear":
        plain = f'mxlab.deinterleave(scales, {n}, {blocks}, "{actual}")'
    return plain if read_as == "linear" else f'mxlab.interleave({plain}, "{read_as}")'


EXPLORER = Explorer(
    name="wrong_layout",
    title="The wrong layout",
    question="What happens to a product whose scales are read in a layout they are not in?",
    controls=CONTROLS,
    view=view,
)
