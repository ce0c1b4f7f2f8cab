"""Two axes, two answers: one matrix quantised with its blocks along rows and along columns."""

from mxlab.block import BLOCK
from mxlab.explorers import colours
from mxlab.explorers.controls import Choice, Int, State, command
from mxlab.explorers.one_byte_line import shown
from mxlab.explorers.panels import Drawing, Facts, Grid, Shape, View
from mxlab.explorers.protocol import Explorer
from mxlab.explorers.two_axes_matrix import Both
from mxlab.explorers.two_axes_matrix import both as both_axes
from mxlab.formats import ELEMENT_FORMATS
from mxlab.scale import RULES, scale_value

_SIZES = tuple((str(size), str(size)) for size in (32, 64, 96, 128))
_PATTERNS = (
    ("normal", "bell-shaped everywhere"),
    ("outlier-column", "one column far larger"),
    ("outlier-row", "one row far larger"),
    ("outlier", "one value far larger"),
    ("column-scales", "columns of different size"),
    ("row-scales", "rows of different size"),
    ("ones", "every value is 1"),
)
_LARGE = ("outlier-column", "outlier-row", "outlier", "column-scales", "row-scales")
CONTROLS = (
    Choice(name="pattern", label="Values", default="outlier-column", options=_PATTERNS,
           group="The matrix"),
    Choice(name="rows", label="Rows", default="64", options=_SIZES, group="The matrix"),
    Choice(name="columns", label="Columns", default="64", options=_SIZES, group="The matrix"),
    Int(name="strength", label="Larger by 2 to the", default=12, low=0, high=20, slider=(0, 20, 1),
        group="The matrix", help="12: 4,096 times as large.", when=("pattern", _LARGE)),
    Int(name="at", label="Where", default=5, low=0, high=127, slider=(0, 127, 1),
        group="The matrix", help="The row or column of the outlier.",
        when=("pattern", _LARGE[:3])),
    Int(name="seed", label="Seed", default=1, low=0, high=9999, group="The matrix"),
    Choice(name="format", label="Elements", default="e4m3", group="The quantiser",
           options=tuple((fmt.name, fmt.name.upper()) for fmt in ELEMENT_FORMATS.values())),
    Choice(name="rule", label="Scale rule", default="rceil", group="The quantiser",
           options=tuple((rule.name, rule.name.upper()) for rule in RULES.values())),
    Int(name="tile", label="Tile shown", default=0, low=0, high=15, slider=(0, 15, 1),
        group="The map", help="Of 32 x 32 values, counted along rows of tiles."),
)  # fmt: skip
#: tones of the two answers, and of no difference
_BY_ROWS, _BY_COLUMNS, _EQUAL = 0, 1, colours.REFERENCE
_LEGEND = ("R by rows is nearer", "C by columns is nearer", "~ same error, another code",
           "= same code")  # fmt: skip
_TONES = (_BY_ROWS, _BY_COLUMNS, colours.KEPT, _EQUAL)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def view(state: State) -> View:
    """Return both answers, their errors, and the map of where they part."""
    rows, columns = int(state["rows"]), int(state["columns"])
    chosen = (str(state["pattern"]), rows, columns, int(state["seed"]), int(state["strength"]),
              int(state["at"]))  # fmt: skip
    fmt, rule = str(state["format"]), str(state["rule"])
    both = both_axes(*chosen, fmt, rule)
    tile = min(int(state["tile"]), rows * columns // BLOCK**2 - 1)
    top, left = (part * BLOCK for part in divmod(tile, columns // BLOCK))
    losses = (
        f"a value is off by {_percent(both.errors[0])} on average with blocks along rows, by "
        f"{_percent(both.errors[1])} along columns"
    )
    return View(
        status="warns" if both.codes else "passes",
        sign="≠" if both.codes else "=",
        answer=f"{both.codes:,} of {rows * columns:,} codes differ and {both.parted:,} values come "
        f"back different: {losses}, so a transpose needs a quantisation of its own."
        if both.codes
        else f"Every code is the same along both axes: {losses}.",
        panels=(
            _facts(both),
            _map(both, top, left),
            _bytes(both, top, left),
            _tiles(both, tile),
        ),
        cli=command("two_axes", CONTROLS, state),
        python="import mxlab\nimport numpy as np\n"
        "from mxlab.explorers.two_axes_matrix import matrix\n\n"
        f"x = np.array(matrix{chosen!r}, np.float32)\n"
        "for axis in (1, 0):\n"
        f'    q = mxlab.quantize(x, "{fmt}", rule="{rule}", axis=axis)\n'
        "    lost = abs(mxlab.dequantize(q, np.float64) - x)[x != 0]\n"
        "    share = (lost / abs(x[x != 0])).mean()\n"
        '    print(f"axis {axis}: scales {q.scales.shape}, {100 * share:.3g} %")',
    )


def _facts(both: Both) -> Facts:
    rows, columns = len(both.values), len(both.values[0])
    errors, gone = both.errors, both.flushed
    r, c = both.farthest
    value, first, second = (
        shown(part[r][c], 6) for part in (both.values, both.rows.decoded, both.columns.decoded)
    )
    farthest = (
        "farthest apart",
        value,
        f"row {r}, column {c}: by rows {first} (byte {both.rows.bytes[r][c // BLOCK]}), by columns "
        f"{second} (byte {both.columns.bytes[c][r // BLOCK]})",
    )
    return Facts(
        id="errors",
        title="How far off a value is, on average",
        alt=f"By rows {_percent(errors[0])}, and {gone[0]:,} values become 0; by columns "
        f"{_percent(errors[1])}, and {gone[1]:,}; by columns of the row-wise copy "
        f"{_percent(errors[2])}.",
        rows=(
            ("by rows", _percent(errors[0]), f"axis=1: {rows} x {columns // BLOCK} scales; "
             f"{gone[0]:,} values become 0"),
            ("by columns", _percent(errors[1]), f"axis=0: {rows // BLOCK} x {columns} scales; "
             f"{gone[1]:,} values become 0"),
            ("columns of that", _percent(errors[2]), "quantised by rows, decoded, quantised by "
             "columns: a transpose made from the copy"),
            ("other codes", f"{both.codes:,}", f"of {rows * columns:,}: the bytes to store"),
            ("other values", f"{both.parted:,}", f"of {rows * columns:,} come back different"),
            *((farthest,) if both.parted else ()),
        ),
        tones=(_BY_ROWS, _BY_COLUMNS, -1, -1, -1, -1),
    )  # fmt: skip


def _bytes(both: Both, top: int, left: int) -> Drawing:
    """Return the scale bytes that the tile's 1,024 values share: 32 by rows, 32 by columns."""
    by_rows = [both.rows.bytes[r][left // BLOCK] for r in range(top, top + BLOCK)]
    by_columns = [both.columns.bytes[c][top // BLOCK] for c in range(left, left + BLOCK)]
    low, high = min(by_rows + by_columns) - 1, max(by_rows + by_columns)
    width, base, tall, pitch = 720, 128, 100, 10
    shapes, said = [], []
    for x, name, first, tone, bytes_ in (
        (36, "row", top, _BY_ROWS, by_rows),
        (390, "column", left, _BY_COLUMNS, by_columns),
    ):
        for place, byte in enumerate(bytes_):
            size = tall * (byte - low) / (high - low)
            shapes.append(
                Shape(kind="box", at=(x + pitch * place, base - size, pitch - 1, size), tone=tone,
                      strong=True, say=f"{name} {first + place}: byte {byte}, "
                      f"scale {shown(scale_value(byte), 4)}")
            )  # fmt: skip
        shapes.append(Shape(kind="line", at=(x - 4, base, x + pitch * BLOCK, base), tone=-2))
        shapes += [
            Shape(kind="text", at=(x - 6, y), text=str(byte), anchor="end", tone=-2)
            for byte, y in ((high, base - tall + 8), (low + 1, base - tall / (high - low) + 8))
            if byte == high or high - low > 5
        ]
        words = f"{name}s {first} to {first + BLOCK - 1}"
        shapes.append(Shape(kind="text", at=(x + pitch * BLOCK / 2, base + 18), tone=-2,
                            text=f"a bar for each block: {words}", anchor="middle"))  # fmt: skip
        ends = str(min(bytes_)) if min(bytes_) == max(bytes_) else f"{min(bytes_)} to {max(bytes_)}"
        often = max(set(bytes_), key=lambda byte: (bytes_.count(byte), byte))
        said.append(f"{words} have bytes {ends}, {bytes_.count(often)} of them {often}")
    return Drawing(
        id="bytes",
        title="The scale bytes over this tile",
        alt=f"The same 1,024 values: {'; '.join(said)}.",
        width=width,
        height=150,
        shapes=tuple(shapes),
        legend=((_BY_ROWS, "blocks along rows"), (_BY_COLUMNS, "blocks along columns")),
    )


def _nearer(first: float, second: float) -> int:
    """Return 0 where the first error is the smaller, 1 where the second is, else 3."""
    return 3 if first == second else int(first > second)


def _tiles(both: Both, chosen: int) -> Grid:
    """Return one cell for each 32 x 32 tile; choosing one shows it."""
    down, across = len(both.values) // BLOCK, len(both.values[0]) // BLOCK
    cells = []
    for row in range(down):
        line = []
        for column in range(across):
            pair = both.tile_errors(row * BLOCK, column * BLOCK, BLOCK)
            text = f"{_percent(pair[0])} / {_percent(pair[1])}"
            line.append((text, _nearer(*pair), row * across + column))
        cells.append(line)
    place = divmod(chosen, across)
    return Grid(
        id="tiles",
        title="The same in each tile, by rows / by columns",
        alt=f"{down} x {across} tiles of 32 x 32 values. Shown above: tile {chosen}, "
        f"{cells[place[0]][place[1]][0]}. Enter or a click shows another.",
        corner="row",
        columns=tuple(str(c * BLOCK) for c in range(across)),
        rows=tuple(str(r * BLOCK) for r in range(down)),
        cells=cells,
        legend=_LEGEND,
        tones=_TONES,
        say="Tile from row {row}, column {column}: {text}",
        sets="tile",
        values=tuple(tuple(r * across + c for c in range(across)) for r in range(down)),
        chosen=(place,),
    )


def _map(both: Both, top: int, left: int) -> Grid:
    """Return which answer is nearer to each of 32 x 32 values."""
    cells = []
    counts = [0, 0, 0, 0]
    for r in range(top, top + BLOCK):
        line = []
        for c in range(left, left + BLOCK):
            value = both.values[r][c]
            which = _nearer(
                abs(both.rows.decoded[r][c] - value), abs(both.columns.decoded[r][c] - value)
            )
            if which == 3 and both.rows.elements[r][c] != both.columns.elements[r][c]:
                which = 2
            counts[which] += 1
            line.append(("RC~="[which], which, -1))
        cells.append(line)
    return Grid(
        id="map",
        title="Which answer is nearer, value by value",
        alt=f"Rows {top} to {top + BLOCK - 1}, columns {left} to {left + BLOCK - 1}: by rows is "
        f"nearer for {counts[0]} values, by columns for {counts[1]}, {counts[2]} differ in "
        f"their code alone and {counts[3]} not at all.",
        corner="row",
        columns=tuple(str(c) for c in range(left, left + BLOCK)),
        rows=tuple(str(r) for r in range(top, top + BLOCK)),
        cells=cells,
        legend=_LEGEND,
        tones=_TONES,
        say="Row {row}, column {column}: {legend}",
        drawn=True,
        sample=tuple(range(0, BLOCK, 8)),
    )


EXPLORER = Explorer(
    name="two_axes",
    title="Two axes, two answers",
    question="Does it matter whether the blocks of 32 run along rows or along columns?",
    controls=CONTROLS,
    view=view,
)
