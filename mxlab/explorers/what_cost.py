"""What does it cost? Measured times beside the roofline, and the bytes of any shape."""

from mxlab.explorers.controls import Choice, Int, State, command
from mxlab.explorers.panels import AnyPanel, Facts, View
from mxlab.explorers.protocol import Explorer
from mxlab.explorers.what_cost_bytes import mxfp8_bytes, panel, scale_shape
from mxlab.explorers.what_cost_data import Run, run
from mxlab.explorers.what_cost_moved import WORK, moved
from mxlab.explorers.what_cost_product import product
from mxlab.layout import LAYOUTS

_TIMES, _BYTES = "Measured times", "Bytes of one tensor"
_NOTHING = (("none", "nothing was measured"),)
_GEMM = "gemm"
_RUN = run()
_WEIGHTS = tuple(_RUN.weights()) if _RUN else ()
_OF_GEMM = ("what", (_GEMM,))
CONTROLS = (
    Choice(
        name="what",
        label="Work",
        group=_TIMES,
        default=_GEMM,
        options=((_GEMM, "matrix product"), *WORK.items()),
    ),
    Choice(
        name="weights",
        label="Weights N x K",
        group=_TIMES,
        default=_WEIGHTS[0] if _WEIGHTS else "none",
        options=tuple((name, name.replace("x", " x ")) for name in _WEIGHTS) or _NOTHING,
        when=_OF_GEMM,
    ),
    Int(
        name="m",
        label="M",
        group=_TIMES,
        default=16,
        low=1,
        high=65_536,
        slider=(1, 64, 1),
        help="rows of activations; the nearest measured one is shown",
        when=_OF_GEMM,
    ),
    Choice(
        name="lines",
        label="Lines",
        group=_TIMES,
        default="all",
        options=(
            ("all", "every kernel"),
            ("mxfp8", "MXFP8 kernels only"),
            ("best", "the fastest, beside bf16 and fp8"),
        ),
        when=_OF_GEMM,
    ),
    Choice(
        name="axis",
        label="Across",
        group=_TIMES,
        default="m",
        options=(("m", "rows M"), ("intensity", "operations a byte (roofline)")),
        when=_OF_GEMM,
    ),
    Choice(
        name="here",
        label="Time it here",
        group=_TIMES,
        default="no",
        options=(("no", "no"), ("yes", "on this machine's GPU")),
        help="in a notebook with a CUDA GPU; takes some seconds",
        when=_OF_GEMM,
    ),
    Int(
        name="rows",
        label="Rows",
        group=_BYTES,
        default=8192,
        low=1,
        high=16_777_216,
        slider=(1, 16384, 1),
    ),
    Int(
        name="k",
        label="K",
        group=_BYTES,
        default=8192,
        low=1,
        high=1_048_576,
        slider=(32, 16384, 32),
    ),
    Choice(
        name="layout",
        label="Scale layout",
        group=_BYTES,
        default="tile_128x4",
        options=tuple((name, name) for name in LAYOUTS),
    ),
)


def view(state: State) -> View:
    """Return measured times of one kind of work, their chart, and the bytes of a tensor."""
    measured = run()
    rows, k, layout = int(state["rows"]), int(state["k"]), str(state["layout"])
    share = 100 * mxfp8_bytes(rows, k, layout) / (2 * rows * k)
    size = f"A ({rows:,}, {k:,}) tensor takes {share:.4g} % of its bytes in bf16."
    panels: list[AnyPanel]
    if measured is None:
        status, sign = "unknown", "?"
        answer = f"No measurement is committed with this version of mxlab. {size}"
        panels = [panel(rows, k, layout, None, "")]
    else:
        if state["what"] == _GEMM:
            status, sign, answer, panels = product(measured, state)
        else:
            status, sign, answer, panels = moved(measured, str(state["what"]))
        answer = f"{answer} {size}"
        panels.append(panel(rows, k, layout, measured.ceilings["GB/s"], measured.gpu))
        panels.append(_origin(measured))
    return View(
        status=status,
        sign=sign,
        answer=answer,
        panels=tuple(panels),
        cli=command("what_cost", CONTROLS, state),
        python=_python(state),
    )


def _origin(measured: Run) -> Facts:
    where, versions = measured.provenance, measured.provenance["versions"]
    ceilings = measured.ceilings
    lines = (
        ("GPU", measured.gpu, f"driver {where['driver']}, CUDA {where['cuda']}"),
        ("most bytes", f"{ceilings['GB/s']:,.0f} GB/s", "a copy of 1 GiB in the same run"),
        ("most operations", f"{ceilings['TFLOP/s']:,.0f} TFLOP/s",
         "cuBLAS bf16 at 8192 x 8192 x 8192 in the same run"),
        ("versions", "", ", ".join(f"{name} {found}" for name, found in versions.items())),
        ("when", str(where["date"]), f"commit {where['commit']}"),
        ("command", "", f"{where['command']} repeats it"),
        ("MXFP8", "emulated", "a Hopper GPU has no instruction for it: codes and scales are read, "
         "and the product is made in bf16 or FP8"),
    )  # fmt: skip
    alt = f"One run on an {measured.gpu}, {where['date']}, commit {where['commit']}."
    return Facts(id="origin", title="Where the figures come from", alt=alt, rows=lines, wide=True)


def _python(state: State) -> str:
    rows, k, name = int(state["rows"]), int(state["k"]), str(state["layout"])
    shape = ", ".join(map(str, scale_shape(rows, k, name)))
    return (
        "import mxlab\n\n"
        f"values, scales = {rows} * {k}, mxlab.layout({name!r}).nbytes({shape})\n"
        f"print(values + scales, 'bytes in MXFP8,', 2 * {rows} * {k}, 'in bf16')\n"
    )


EXPLORER = Explorer(
    name="what_cost",
    title="What does it cost?",
    question="How long does it take, how far is that from the roof, and how many bytes is it?",
    controls=CONTROLS,
    view=view,
)
