"""The KV page: where a token's codes and scale bytes land in the cache, and what refuses them."""

from mxlab.attention.pages import BLOCK, HEAD_DIM, PAGE, KVShape
from mxlab.explorers import kv_page_grids as grids
from mxlab.explorers.controls import Choice, Int, State, command
from mxlab.explorers.kv_page_grids import Place
from mxlab.explorers.kv_page_guards import (
    FLAT,
    INTERLEAVED,
    SGLANG,
    Asked,
    Case,
    asked,
    case_of,
    conclusion,
    head_sizes,
    panel,
)
from mxlab.explorers.panels import AnyPanel, Facts, View
from mxlab.explorers.protocol import Explorer
from mxlab.guards import Deployment
from mxlab.hardware import GPUS

_CACHE, _TOKEN, _WHO = "The cache of one layer on one rank", "One value", "Who writes and reads it"
_SERVER = ("scale_layout", (SGLANG,))
CONTROLS = (
    Int(name="head_dim", label="head_dim", default=128, low=1, high=1024, slider=(32, 256, 32),
        group=_CACHE, help="Values of a head of K. Only 128 works from end to end."),
    Int(name="v_head_dim", label="v_head_dim", default=0, low=0, high=1024, group=_CACHE,
        help="Values of a head of V; 0: as many as K's."),
    Int(name="kv_heads", label="KV heads", default=2, low=1, high=1024, slider=(1, 16, 1),
        group=_CACHE),
    Int(name="q_heads", label="Query heads", default=8, low=1, high=1024, group=_CACHE,
        help="The fused prologue looks at them; the cache does not hold them."),
    Int(name="page_size", label="Tokens in a page", default=128, low=1, high=1024,
        slider=(32, 256, 32), group=_CACHE),
    Int(name="pages", label="Pages", default=4, low=1, high=2**20, group=_CACHE,
        help="With the page of slot 0, which SGLang allocates on top of the tokens."),
    Choice(name="which", label="K or V", default="k", options=(("k", "K"), ("v", "V")),
           group=_TOKEN),
    Int(name="slot", label="Slot of the token", default=200, low=0, high=2**30,
        slider=(0, 511, 1), group=_TOKEN, help="Or click a cell below."),
    Int(name="head", label="KV head", default=1, low=0, high=1023, group=_TOKEN),
    Int(name="dim", label="Value in the head", default=3, low=0, high=1023, group=_TOKEN),
    Choice(
        name="scale_layout",
        label="Scale layout",
        default=SGLANG,
        options=(
            (SGLANG, "as SGLang's pool has it"),
            (INTERLEAVED, "interleaved, your own call"),
            (FLAT, "flat, your own call"),
        ),
        group=_WHO,
        help="The pool's are interleaved in pages of 128, else flat.",
    ),
    Choice(name="function", label="Prologue", default="extend",
           options=tuple((name, name) for name in ("verify", "extend", "decode")), group=_WHO),
    Choice(name="store", label="Store", default="fused", when=_SERVER, group=_WHO,
           options=(("fused", "the pool quantises"),
                    ("given", "the layer gives scales")),
           help="Where the prologue does not store itself: "
           "SGLANG_OPT_INKLING_MXFP8_FUSED_QUANT_STORE."),
    Choice(name="model", label="Model", default="inkling", when=_SERVER, group=_WHO,
           options=(("inkling", "Inkling"), ("other", "another, such as Llama")),
           help="Only Inkling's attention quantises Q, which FA4 needs."),
    Choice(name="page_rule", label="--page-size", default="kept", when=_SERVER, group=_WHO,
           options=(("kept", "kept (EAGLE top-k 2)"), ("fa4", "FA4 makes it 128 (default)"))),
    Choice(name="gpu", label="GPU", default="b200", group=_WHO,
           options=tuple((gpu.name, gpu.label) for gpu in GPUS.values())),
)  # fmt: skip


def view(state: State) -> View:
    """Return where one value and its scale lie, what the cache costs, and every guard."""
    case = case_of(state)
    about = asked(case)
    which = str(state["which"]).upper()
    shape = _shape(case, about, which)
    status, sign, said = conclusion(case)
    sizes = head_sizes(case, int(state["v_head_dim"]))
    panels: list[AnyPanel] = [panel(case)]
    changed = _changed(case, about)
    if isinstance(shape, KVShape):
        place, mended = _place(state, shape)
        code = shape.code_offset(place.slot, place.head, place.dim)
        scale = shape.scale_offset(place.slot, place.head, place.block)
        answer = (
            f"{changed}{mended}{which} of slot {place.slot:,}, head {place.head}, value "
            f"{place.dim}: its code is byte {code:,}, its scale byte {scale:,}; {said}."
        )
        panels += [
            _address(shape, which, place),
            sizes,
            grids.logical(shape, which, place),
            grids.physical(shape, which, place),
            _bytes(case, about),
            grids.codes(shape, which, place),
            grids.pages(shape, place),
        ]
        if mended and status == "passes":
            status, sign = "warns", "!"
    else:
        answer = f"{changed}No page can hold {which}: {shape}; {said}."
        place = None
        panels.append(sizes)
    return View(
        status=status,
        sign=sign,
        answer=answer,
        panels=tuple(panels),
        cli=command("kv_page", CONTROLS, state),
        python=_python(about, shape, place),
    )


def _shape(case: Case, about: Asked, which: str) -> KVShape | str:
    """Return the cache of K or V, or why there is none."""
    for name, dim in (("head_dim", case.head_dim), ("v_head_dim", case.v_head_dim)):
        if dim % BLOCK:
            return f"{name} = {dim} % 32 = {dim % BLOCK}"
    if about.interleaved and about.page % 32:
        return f"interleaved scales, and page size = {about.page} % 32 = {about.page % 32}"
    return KVShape(
        slots=case.pages * about.page,
        kv_heads=case.kv_heads,
        head_dim=case.head_dim if which == "K" else case.v_head_dim,
        page_size=about.page,
        interleaved=about.interleaved,
    )


def _place(state: State, shape: KVShape) -> tuple[Place, str]:
    """Return the chosen value; what lies outside becomes the nearest, and is said."""
    asked_for = int(state["slot"]), int(state["head"]), int(state["dim"])
    last = shape.slots - 1, shape.kv_heads - 1, shape.head_dim - 1
    place = Place(*(min(one, most) for one, most in zip(asked_for, last, strict=True)))
    gone = [
        f"{name} {one:,} (the last is {most:,})"
        for name, one, most in zip(("slot", "head", "value"), asked_for, last, strict=True)
        if one > most
    ]
    return place, f"There is no {', no '.join(gone)}. " if gone else ""


def _changed(case: Case, about: Asked) -> str:
    if about.page == case.page:
        return ""
    return f"FA4 makes the page size {about.page}, not {case.page}. "


def _address(shape: KVShape, which: str, place: Place) -> Facts:
    """Return the two addresses, each as the sum that it is."""
    slot, head, dim, block = place.slot, place.head, place.dim, place.block
    heads, size, groups = shape.kv_heads, shape.head_dim, shape.scales_per_head
    code, scale = shape.code_offset(slot, head, dim), shape.scale_offset(slot, head, block)
    page, row = divmod(slot, shape.page_size)
    index = shape.scale_index(slot, head, block)
    names = "[page, head, row % 32, row // 32, group]"
    sinks = "an ordinary slot"
    if slot == 0:
        sinks = "SGLang's sink for padding: its Triton stores skip it, the prologue writes it"
    if shape.interleaved:
        tile, run = shape.page_size * groups, shape.page_size // 32 * groups
        how = (f"({page:,} x {heads} + {head}) x {tile:,} + {row % 32} x {run} + {row // 32} x "
               f"{groups} + {block}")  # fmt: skip
        number = page * heads + head
        square = (shape.page_size, size) == (PAGE, HEAD_DIM)
        kind = "one 128x4 tile" if square else "not the 128x4 tile of 512 that attention reads"
        inside = f"byte {scale % tile:,} of {tile:,}; page x {heads} + head"
        more = [("tile", f"{number:,}", f"{inside}: {kind}")]
    else:
        names = "[slot, head, group]"
        how = f"({slot:,} x {heads} + {head}) x {groups} + {block}"
        more = [("tile", "none", "flat scales: SGLang allocates them and never writes them")]
    return Facts(
        id="address",
        title="From slot to byte",
        alt=f"Slot {slot:,} is row {row} of page {page:,}; {which}'s code is byte {code:,}, its "
        f"scale is byte {scale:,}, index {list(index)}.",
        rows=(
            ("page, row", f"{page:,}, {row}", f"slot {slot:,} = {page:,} x {shape.page_size} + "
             f"{row}; {sinks}"),
            ("code", f"{code:,}", f"({slot:,} x {heads} + {head}) x {size} + {dim}"),
            ("group", str(block), f"value {dim} // 32: 32 codes share the scale"),
            ("index", "", f"{list(index)} = {names} of {list(shape.scale_shape)}"),
            ("scale", f"{scale:,}", how),
            *more,
        ),
    )  # fmt: skip


def _bytes(case: Case, about: Asked) -> Facts:
    """Return what a token costs, and the buffers of K and V."""
    heads, page = case.kv_heads, about.page
    both = [
        KVShape(slots=case.pages * page, kv_heads=heads, head_dim=dim, page_size=page,
                interleaved=about.interleaved)
        for dim in (case.head_dim, case.v_head_dim)
    ]  # fmt: skip
    token = sum(shape.bytes_per_token for shape in both)
    wide = 2 * heads * (case.head_dim + case.v_head_dim)
    rows = [
        (f"a token's {name}", f"{shape.bytes_per_token:,}", f"{heads} x ({shape.head_dim} codes + "
         f"{shape.scales_per_head} scales)")
        for name, shape in zip("KV", both, strict=True)
    ]  # fmt: skip
    rows += [
        ("a token", f"{token:,}", f"in bfloat16 {wide:,}: {token / wide:.3f} of it"),
        ("a page", f"{token * page:,}", f"{page} tokens"),
    ]
    for name, shape in zip("KV", both, strict=True):
        codes = shape.slots * heads * shape.head_dim
        sizes = [shape.slots, heads, shape.head_dim]
        rows += [
            (f"codes of {name}", f"{codes:,}", f"{sizes}: a slot every {heads * shape.head_dim:,}"),
            (f"scales of {name}", f"{codes // BLOCK:,}", f"{list(shape.scale_shape)}, no padding; "
             "zeros at first: 255 would be NaN"),
        ]  # fmt: skip
    sink = f"{page} slots, of which slot 0 takes the padding tokens' K and V"
    rows.append(("page 0", f"{token * page:,}", sink))
    return Facts(
        id="bytes",
        title="What it costs, in bytes",
        alt=f"A token takes {token:,} bytes of K and V with their scales, {wide:,} in bfloat16; a "
        f"page of {page} tokens {token * page:,}.",
        rows=tuple(rows),
    )


def _python(about: Asked, shape: KVShape | str, place: Place | None) -> str:
    """Return code that prints both addresses and every guard that speaks."""
    found = about.facts
    parts = {"kv_cache": found.kv_cache, "prologue": found.prologue, "step": found.step}
    given = {name: value for name, value in parts.items() if value is not None}
    names = sorted({type(value).__name__ for value in given.values()} | {"Deployment", "check"})
    lines = [f"from mxlab.guards import {', '.join(names)}"]
    if isinstance(shape, KVShape) and place:
        lines += [
            "from mxlab.attention import KVShape",
            "",
            f"shape = {shape!r}",
            f"print(shape.code_offset({place.slot}, {place.head}, {place.dim}))",
            f"print(shape.scale_offset({place.slot}, {place.head}, {place.block}))",
        ]
    lines += ["", "verdicts = check("]
    lines.append(f"    {_plain(found.deployment, Deployment())},")
    lines += [f"    {name}={_plain(value)}," for name, value in given.items()]
    lines += [
        ")",
        "for verdict in verdicts:",
        '    if verdict.status in ("stops", "silent", "warns"):',
        "        print(verdict.guard, verdict.status, verdict.because, sep=': ')",
    ]
    return "\n".join(lines)


def _plain(value: object, default: object = None) -> str:
    """Return a record as Python, without the fields that are at their defaults."""
    fields = type(value).__dataclass_fields__  # type: ignore[attr-defined]
    base = {name: field.default for name, field in fields.items()}
    if default is not None:
        base = {name: getattr(default, name) for name in fields}
    shown = [
        f"{name}={getattr(value, name)!r}" for name in fields if getattr(value, name) != base[name]
    ]
    return f"{type(value).__name__}({', '.join(shown)})"


EXPLORER = Explorer(
    name="kv_page",
    title="The KV page",
    question="Where in the cache do this token's codes and scales lie, and which guard refuses "
    "them first?",
    controls=CONTROLS,
    view=view,
)
