"""The KV page's guards: against calls of the prologue and of the pool, and in the code's order."""

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kv_page_views import RECORD, State, items, loud, view

from mxlab.attention import prologue_decode, prologue_verify
from mxlab.attention.cache import PagedKVCache
from mxlab.attention.checks import GuardTripped
from mxlab.attention.order import order
from mxlab.guards import guard

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
