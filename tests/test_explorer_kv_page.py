"""The KV page: addresses against NumPy's, guards against calls of the prologue and the pool."""

import contextlib
import io
import json
import random
import re
import shlex
import xml.etree.ElementTree as ElementTree
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from mxlab.attention import prologue_decode, prologue_verify
from mxlab.attention.cache import PagedKVCache
from mxlab.attention.checks import GuardTripped
from mxlab.attention.order import order
from mxlab.cli import main
from mxlab.explorers import answer, explorer
from mxlab.explorers.picture import picture
from mxlab.guards import guard

RECORD = explorer("kv_page")
State = dict[str, Any]


def view(state: State) -> dict[str, Any]:
    result = json.loads(answer("kv_page", json.dumps(state)))
    assert "error" not in result, (state, result)
    found: dict[str, Any] = result["view"]
    return found | {"panels": {panel["id"]: panel for panel in found["panels"]}}


def items(shown: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for run in shown["panels"]["guards"]["runs"] for item in run["items"]]


def loud(shown: dict[str, Any]) -> list[tuple[str, str]]:
    """Guards that speak, with their status, in order."""
    said = ("stops", "silent", "warns")
    return [(item["name"], item["status"]) for item in items(shown) if item["status"] in said]


def buffers(state: State) -> tuple[NDArray[Any], NDArray[Any]]:
    """Offsets of codes [slots, heads, dim] and of scales [slots, heads, groups], by NumPy.

    The scales are upstream's five axes (page, head, row % 32, row // 32, group), put in the order
    of a token's row; flat ones are in that order already.
    """
    s: State = RECORD.clean(state)
    dim = s["head_dim"] if s["which"] == "k" else s["v_head_dim"] or s["head_dim"]
    page, heads, pages = s["page_size"], s["kv_heads"], s["pages"]
    interleaved = page == 128 if s["scale_layout"] == "sglang" else s["scale_layout"] != "flat"
    slots, groups = page * pages, dim // 32
    codes = np.arange(slots * heads * dim).reshape(slots, heads, dim)
    scales = np.arange(slots * heads * groups)
    if interleaved:
        tiles = scales.reshape(pages, heads, 32, page // 32, groups)
        return codes, tiles.transpose(0, 3, 2, 1, 4).reshape(slots, heads, groups)
    return codes, scales.reshape(slots, heads, groups)


def drawn(seed: int) -> State:
    chance = random.Random(seed)
    page, pages = chance.choice((32, 64, 96, 128, 128, 256, 512)), chance.randint(1, 6)
    heads, dim = chance.randint(1, 9), chance.choice((32, 64, 96, 128, 128, 256, 512))
    return {
        "head_dim": dim,
        "kv_heads": heads,
        "page_size": page,
        "pages": pages,
        "which": chance.choice("kv"),
        "slot": chance.randrange(page * pages),
        "head": chance.randrange(heads),
        "dim": chance.randrange(dim),
        "scale_layout": chance.choice(("sglang", "interleaved", "interleaved", "flat")),
    }


SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_cell_is_where_numpy_has_it(seed: int) -> None:
    state = drawn(seed)
    codes, scales = buffers(state)
    shown = view(state)
    slot, head, dim = state["slot"], state["head"], state["dim"]
    code, scale = int(codes[slot, head, dim]), int(scales[slot, head, dim // 32])
    assert f"its code is byte {code:,}, its scale byte {scale:,};" in shown["answer"]
    panels = shown["panels"]

    grid = panels["codes"]
    texts = np.array([[int(text) for text in row] for row in grid["text"]])
    assert (texts.reshape(-1) == codes[slot, head]).all()
    keys = np.array(grid["key"])
    assert (keys == scales[slot, head][:, None]).all()
    assert grid["chosen"] == [list(divmod(dim, 32))]

    grid = panels["logical"]
    read = set()
    for name, row, row_keys in zip(grid["rows"], grid["text"], grid["key"], strict=True):
        token, its_head = map(int, name.split(","))
        assert [int(text) for text in row] == scales[token, its_head].tolist() == row_keys
        read |= {*row_keys}
    [(r, c)] = grid["chosen"]
    assert grid["key"][r][c] == scale

    grid = panels["physical"]
    stored, total = {}, scales.size
    for start, row, row_keys in zip(grid["rows"], grid["text"], grid["key"], strict=True):
        for byte, (text, key) in enumerate(zip(row, row_keys, strict=True), int(start)):
            if byte >= total:
                assert (text, key) == ("", -1)
                continue
            assert key == byte == scales[tuple(map(int, text.split(",")))]
            stored[byte] = text
    assert read <= stored.keys() and min(read) < min(stored) + 16
    assert max(read) - min(read) + 1 == len(read) <= 512
    [(r, c)] = grid["chosen"]
    assert grid["key"][r][c] == scale and grid["text"][r][c] == f"{slot},{head},{dim // 32}"


def test_a_window_of_a_large_page_is_a_part_that_says_so() -> None:
    kinds = set()
    for seed in SEEDS:
        state = drawn(seed)
        grid = view(state)["panels"]["logical"]
        rows, page = len(grid["rows"]), state["page_size"]
        part = "rows are shown" in grid["alt"]
        flat = "," in grid["alt"] and len({name.split(",")[1] for name in grid["rows"]}) > 1
        assert part or rows == page
        kinds.add((part, flat))
    assert len(kinds) >= 3
    big = {"page_size": 1024, "head_dim": 1024, "scale_layout": "interleaved", "pages": 3,
           "slot": 3000, "q_heads": 1}  # fmt: skip
    shown = view(big)["panels"]
    assert len(shown["logical"]["rows"]) == 16 and len(shown["physical"]["rows"]) == 32
    assert "16 of 1,024 rows are shown; another slot or head moves them." in shown["logical"]["alt"]


@pytest.mark.parametrize("seed", range(12))
def test_a_cell_leads_there_from_every_grid(seed: int) -> None:
    state, chance = drawn(seed), random.Random(seed)
    shown = view(state)["panels"]
    for name in ("codes", "logical", "physical", "pages", "head_sizes"):
        grid = shown[name]
        each = [(r, c) for r, row in enumerate(grid["values"]) for c in range(len(row))]
        places = [(r, c) for r, c in each if grid["values"][r][c] is not None]
        r, c = chance.choice(places)
        value = grid["values"][r][c]
        parts = str(value).split() if " " in grid["sets"] else [value]
        sets = dict(zip(grid["sets"].split(), parts, strict=True))
        there = view(state | sets)["panels"].get(name)
        assert there and there["chosen"]
        assert [there["values"][y][x] for y, x in there["chosen"]].count(value) >= 1


HEADS: dict[str, tuple[State, dict[str, list[str]]]] = {
    "default": (
        {},
        {
            "64": ["passes", "passes", "unfused", "kv-sf-dim4", "passes"],
            "80": ["passes", "kv-hd32", "", "", ""],
            "96": ["passes", "passes", "unfused", "kv-sf-dim4", "fa4-v-even"],
            "128": ["passes"] * 5,
            "160": ["passes", "passes", "unfused", "kv-sf-dim4", "fa4-hd"],
            "192 / 128": ["passes", "passes", "unfused", "kv-sf-dim4", "passes"],
            "256": ["passes", "passes", "unfused", "kv-sf-dim4", "silent-fa4-256"],
        },
    ),
    "scales given": (
        {"store": "given", "head_dim": 48},
        {
            "48": ["passes", "kv-hd32", "", "", ""],
            "96": ["passes", "passes", "unfused", "kv-sf-dim4", ""],
            "128": ["passes"] * 5,
        },
    ),
    "pages of 64": (
        {"page_size": 64},
        {
            "96": ["passes", "passes", "unfused", "kv-no-scales", ""],
            "128": ["passes", "passes", "passes", "kv-no-scales", ""],
        },
    ),
    "Llama": (
        {"model": "other"},
        {"128": ["passes", "passes", "unfused", "passes", "fa4-qdescale"]},
    ),
    "H200": ({"gpu": "h200"}, {"128": ["kv-hw", "", "", "", ""]}),
    "88 heads": ({"kv_heads": 40}, {"128": ["passes", "passes", "ink-cu-block", "", ""]}),
    "your own call": (
        {"scale_layout": "interleaved"},
        {
            "64": ["ink-py-shape", ""],
            "96": ["ink-py-dims", ""],
            "128": ["passes", "passes"],
            "256": ["ink-py-shape", ""],
        },
    ),
    "your own flat call": ({"scale_layout": "flat"}, {"128": ["ink-py-shape", ""]}),
}


@pytest.mark.parametrize("name", HEADS)
def test_where_each_head_size_fails(name: str) -> None:
    state, wanted = HEADS[name]
    grid = view(state)["panels"]["head_sizes"]
    found = dict(zip(grid["rows"], grid["text"], strict=True))
    assert {label: found[label] for label in wanted} == wanted
    for label, cells in found.items():  # the table is what each size's own view says
        if "/" in label:
            continue
        said = loud(view(state | {"head_dim": int(label)}))
        stops = [id for id, status in said if status == "stops"]
        kinds = [grid["tone"][grid["rows"].index(label)][i] for i in range(len(cells))]
        first = [cell for cell, kind in zip(cells, kinds, strict=True) if kind == 3]
        assert first == stops[:1]
    for label, cells in wanted.items():
        end = next((cell for cell in cells if cell not in ("passes", "unfused", "")), "")
        assert label in grid["alt"] and end in grid["alt"]


#: what a server says, first stop and silent fault: seen with the cache itself, which fails there
POOL: list[tuple[int, int, int, str]] = [
    *((dim, v, page, store) for dim, v in ((64, 64), (80, 80), (96, 96), (128, 128), (160, 160),
                                           (192, 128), (128, 72), (256, 256))
      for page in (128, 64) for store in ("fused", "given")),
]  # fmt: skip


@pytest.mark.parametrize(("dim", "v_dim", "page", "store"), POOL)
def test_a_server_stops_where_the_paged_cache_does(
    dim: int, v_dim: int, page: int, store: str
) -> None:
    shown = view({"head_dim": dim, "v_head_dim": v_dim, "page_size": page, "store": store})
    stops = [id for id, status in loud(shown) if status == "stops"]
    fault = ""
    try:
        cache = PagedKVCache(
            2 * page,
            kv_heads=2,
            head_dim=dim,
            v_head_dim=v_dim,
            page_size=page,
            fused_store=store == "fused",
        )
        k, v = (np.ones((1, 2, size), ml_dtypes.bfloat16) for size in (dim, v_dim))
        cache.store([3], k, v)
        fault = cache.attention_fault or ""
    except GuardTripped as error:
        fault = str(error)
    assert bool(stops) is bool(fault)
    assert not stops or f"({stops[0]}: " in fault
    if not stops:
        assert (
            f"all {len([i for i in items(shown) if i['status'] == 'passes'])} guards"
            in (shown["answer"])
            or "goes wrong in silence: kv-sf-dim4" in shown["answer"]
        )


def own_call(state: State) -> tuple[str, str]:
    """The guard that a call of the prologue trips and its text, "" where it runs."""
    s: State = RECORD.clean(state)
    heads, hd, page, pages = s["kv_heads"], s["head_dim"], s["page_size"], s["pages"]
    dq, dkv, slots = s["q_heads"] * hd, heads * hd, page * pages
    shape: tuple[int, ...] = (pages, heads, 32, page // 32, hd // 32)
    if s["scale_layout"] == "flat":
        shape = (slots, heads, hd // 32)
    args: dict[str, Any] = {
        **{"q_off": 0, "k_off": dq, "v_off": dq + dkv, "dq": dq, "dkv": dkv, "eps": 1e-6},
        **{name: np.zeros((2, 3, dkv), np.uint16) for name in ("k_cache", "v_cache")},
        **{name: np.zeros((dkv, 4), np.uint16) for name in ("k_weight", "v_weight")},
        **{name: np.zeros(128, np.uint16) for name in ("q_gamma", "k_gamma")},
        **{name: np.zeros((slots, heads, hd), np.uint8) for name in ("k_buf", "v_buf")},
        **{name: np.zeros(shape, np.uint8) for name in ("sfk", "sfv")},
        "cache_indices": np.zeros(1, np.int64),
        "cache_mask": np.zeros(1, bool),
        "loc": np.zeros(1, np.int64),
        "mxfp8_quant": True,
        "page_size": page,
        "max_heads": 64,
    }
    qkvr = np.zeros((1, dq + 2 * dkv), np.uint16)
    try:
        if s["function"] == "decode":
            prologue_decode(qkvr, **args)
        else:
            inter = {name: np.zeros((1, 1, 3, dkv), np.uint16) for name in ("k_inter", "v_inter")}
            prologue_verify(qkvr, draft_token_num=1, **args, **inter)
    except GuardTripped as error:
        return error.guard, error.message
    return "", ""


def test_your_own_call_trips_what_the_prologue_trips() -> None:
    chance, met = random.Random(9), set()
    for _ in range(60):
        state = {
            "scale_layout": chance.choice(("interleaved", "interleaved", "interleaved", "flat")),
            "function": chance.choice(("decode", "verify")),
            "head_dim": chance.choice((64, 80, 96, 128, 128, 128, 256)),
            "kv_heads": chance.choice((1, 2, 4, 8, 30)),
            "q_heads": chance.choice((2, 8, 16)),
            "page_size": chance.choice((32, 48, 64, 128, 128, 256)),
            "pages": 2,
        }
        shown = view(state)
        stops = [id for id, status in loud(shown) if status == "stops"]
        tripped, text = own_call(state)
        assert stops[:1] == [tripped] if tripped else not stops, state
        said = [item["message"] for item in items(shown) if item["status"] == "stops"]
        assert said[:1] == [text] if tripped else not said
        assert (shown["status"] == "stops") is bool(tripped)
        met.add(tripped)
    assert met >= {"", "ink-py-dims", "ink-py-shape", "ink-cu-block", "ink-cu-page"}


@pytest.mark.parametrize("function", ["verify", "extend", "decode"])
def test_guards_come_in_the_order_in_which_the_code_meets_them(function: str) -> None:
    names = [item["name"] for item in items(view({"function": function}))]
    known = order(function, mxfp8=True)
    places = [(id, guard(id).source.rsplit(":")[-1].split(",")) for id in known]
    column = ("verify", "decode", "extend").index(function)
    lines = [int(of[min(column, len(of) - 1)]) for id, of in places if id.startswith("ink-cu")]
    assert lines == sorted(lines) and len(lines) > 12  # of the kernel's source
    first = names.index(known[0])
    assert tuple(names[first : first + len(known)]) == known
    assert names.index("kv-hw") < names.index("kv-hd32") < names.index("kv-vhd32") < first
    assert first + len(known) <= names.index("kv-no-scales") < names.index("kv-sf-dim4")
    assert names.index("kv-sf-dim4") < names.index("fa4-qdescale") < names.index("fa4-v-even")
    decode = items(view({"function": function, "scale_layout": "flat"}))
    message = next(item["message"] for item in decode if item["name"] == "ink-py-shape")
    assert ("fused decode prologue" in message) is (function == "decode")
    narrow = items(view({"function": function, "v_head_dim": 64}))  # stored by the backend
    names = [item["name"] for item in narrow]
    known = order(function, mxfp8=False)
    assert tuple(names[names.index(known[0]) :][: len(known)]) == known
    assert ("ink-cu-kvstride", "stops") in loud(view({"function": function, "v_head_dim": 64}))


def test_the_issue_s_example() -> None:
    shown = view({"head_dim": 96})
    assert shown["answer"] == (
        "K of slot 200, head 1, value 3: its code is byte 38,499, its scale byte 1,254; SGLang "
        "stops in the attention call: fa4-v-even, v_head_dim = 96 % 64 = 32: v_head_dim / 32 = 3; "
        "before that the store goes wrong in silence (kv-sf-dim4)."
    )
    assert loud(shown) == [("kv-sf-dim4", "silent"), ("fa4-v-even", "stops")]
    shown = view({"head_dim": 80})
    assert shown["answer"].startswith(
        "No page can hold K: head_dim = 80 % 32 = 16; SGLang stops in"
    )
    assert [*shown["panels"]] == ["guards", "head_sizes"]
    shown = view({"head_dim": 96, "scale_layout": "interleaved"})
    assert (
        "stops in the fused prologue: ink-py-dims, dq = 768 % 128 = 0, dkv = 192 % 128 = 64"
        in (shown["answer"])
    )
    shown = view({"page_size": 48, "scale_layout": "interleaved"})
    assert shown["answer"].startswith(
        "No page can hold K: interleaved scales, and page size = 48 % 32 = 16; the call stops"
    )


def test_fa4_overrules_the_page_size_and_the_page_that_is_drawn() -> None:
    shown = view({"page_size": 64, "page_rule": "fa4"})
    assert shown["answer"].startswith("FA4 makes the page size 128, not 64. K of slot 200")
    assert loud(shown) == [("kv-fa4-page", "warns")] and shown["status"] == "passes"
    same = view({})
    assert shown["panels"]["logical"] == same["panels"]["logical"]


@pytest.mark.parametrize("dims", [(128, 0), (64, 0), (192, 128), (256, 0)])
@pytest.mark.parametrize("page", [128, 64])
def test_bytes_are_those_of_the_cache(dims: tuple[int, int], page: int) -> None:
    dim, v_dim = dims
    state = {"head_dim": dim, "v_head_dim": v_dim, "kv_heads": 3, "pages": 5, "page_size": page}
    rows = {row[0]: row[1:] for row in view(state)["panels"]["bytes"]["rows"]}
    sizes: Any = {"kv_heads": 3, "head_dim": dim, "v_head_dim": v_dim or dim, "page_size": page}
    cache = PagedKVCache(4 * page, **sizes)
    wide = PagedKVCache(4 * page, **sizes, dtype="bf16").bytes_per_token
    token = cache.bytes_per_token
    assert rows["a token"] == [f"{token:,}", f"in bfloat16 {wide:,}: {token / wide:.3f} of it"]
    assert rows["a page"][0] == f"{token * page:,}"
    for name, codes, scales in (("K", cache.k_buf, cache.sfk), ("V", cache.v_buf, cache.sfv)):
        assert rows[f"codes of {name}"][0] == f"{codes.nbytes:,}"
        assert rows[f"codes of {name}"][1].startswith(f"{list(codes.shape)}: ")
        assert rows[f"scales of {name}"][0] == f"{scales.nbytes:,}"
        assert rows[f"scales of {name}"][1].startswith(f"{list(scales.shape)}, ")


def test_slot_0_is_said_to_be_the_sink() -> None:
    rows = {row[0]: row for row in view({"slot": 0})["panels"]["address"]["rows"]}
    assert "SGLang's sink for padding" in rows["page, row"][2]
    assert "sink" not in str(view({"slot": 1})["panels"]["address"])


STATES: list[State] = [
    *({}, {"head_dim": 96}, {"head_dim": 80}, {"v_head_dim": 64, "which": "v"}),
    *({"page_size": 64, "store": "given"}, {"model": "other"}, {"gpu": "mi355x"}),
    {"page_size": 64, "page_rule": "fa4", "slot": 10**6},
    {"scale_layout": "flat", "page_size": 5, "function": "decode"},
    {"scale_layout": "interleaved", "head_dim": 64, "kv_heads": 4, "slot": 7},
]


@pytest.mark.parametrize("place", range(len(STATES)))
def test_command_and_python_say_the_same(place: int, capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(answer("kv_page", json.dumps(STATES[place])))["view"]
    assert main([*shlex.split(shown["cli"])[1:], "--json"]) == int(shown["status"] == "stops")
    assert json.loads(capsys.readouterr().out)["view"] == shown
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(shown["python"], "snippet", "exec"), {})
    printed = out.getvalue().splitlines()
    if "No page can hold" not in shown["answer"]:
        byte = re.findall(r"byte ([\d,]+)", shown["answer"])[:2]
        assert [int(text.replace(",", "")) for text in byte] == [int(line) for line in printed[:2]]
        del printed[:2]
    found = {tuple(line.split(": ")[:2]) for line in printed}
    wanted = {*loud(shown | {"panels": {p["id"]: p for p in shown["panels"]}})}
    implied = {"ink-cu-lanes16", "ink-cu-32", "ink-cu-5d", "ink-cu-sfshape", "ink-cu-sfstride"}
    assert wanted <= found and {id for id, _ in found - wanted} <= implied


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"slot": 512}, "There is no slot 512 (the last is 511). K of slot 511, head 1"),
        ({"head": 9}, "There is no head 9 (the last is 1). "),
        ({"slot": 10**9, "dim": 128, "head": 2},
         "There is no slot 1,000,000,000 (the last is 511), no head 2 (the last is 1), no value "),
        ({"slot": -5}, "K of slot 0, head 1"),
        ({"slot": "x", "head_dim": None, "which": "q", "gpu": "<b>\ud800"}, "K of slot 200, "),
        ({"pages": 2**40, "slot": 2**40}, "There is no slot 1,073,741,824 (the last is 134,217,"),
    ],
)  # fmt: skip
def test_what_lies_outside_is_mended_and_said(state: State, said: str) -> None:
    shown = view(state)
    assert shown["answer"].startswith(said)
    assert shown["status"] == ("warns" if "There is no" in said else "passes")


def test_the_largest_sizes_are_bounded() -> None:
    wide: State = {"kv_heads": 1024, "q_heads": 1024, "pages": 2**20, "slot": 2**30, "head": 1023}
    for layout in ("sglang", "interleaved", "flat"):
        for page in (1, 31, 32, 96, 1000, 1024):
            for dim in (1, 32, 33, 1024):
                state = wide | {"scale_layout": layout, "page_size": page, "head_dim": dim}
                text = answer("kv_page", json.dumps(state))
                assert "error" not in json.loads(text) and len(text) < 150_000


def test_every_panel_has_its_numbers_in_words_and_links_by_key() -> None:
    for state in STATES:
        shown = view(state)
        for panel in shown["panels"].values():
            assert panel["alt"].endswith(".") and re.search(r"\d", panel["alt"])
        if "logical" in shown["panels"]:
            logical, physical, codes = (
                {key for row in shown["panels"][name]["key"] for key in row}
                for name in ("logical", "physical", "codes")
            )
            assert codes <= logical <= physical


def test_the_picture_has_the_lines_of_memory() -> None:
    shown = RECORD.view(RECORD.defaults())
    svg = ElementTree.fromstring(picture(RECORD.title, shown))
    texts = {node.text for node in svg.iter() if node.tag.endswith("text")}
    assert {"200,1,0", "128,1,0", "+15", "1664", "S7"} <= texts
