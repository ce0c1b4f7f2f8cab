"""The KV page: addresses against NumPy's, the bytes of the cache, what it says in words."""

import contextlib
import io
import json
import random
import re
import shlex
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest
from kv_page_views import RECORD, State, loud, view
from numpy.typing import NDArray

from mxlab.attention.cache import PagedKVCache
from mxlab.cli import main
from mxlab.explorers import answer
from mxlab.explorers.picture import picture


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
    assert (keys == np.repeat(scales[slot, head], 2)[:, None]).all() and keys.shape[1] == 16
    assert grid["chosen"] == [list(divmod(dim, 16))]

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
