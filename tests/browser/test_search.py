"""The search page: an error's text, whole or in part, leads to its guard. Hit rates are printed.

`mxlab explain`, which reads messages with regular expressions in Python, says which guards are
right; the page's script knows nothing of it.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from drive import watch
from playwright.sync_api import Browser, Page

from book.site import search_messages
from mxlab.explain import explain
from mxlab.guards.data import every_row, pattern

pytestmark = pytest.mark.browser

#: as people reported them (the numbers are theirs), and lines of logs around them
REAL = (
    "Weight input_size_per_partition = 64 is not divisible by weight quantization block_k = 128.",
    "Weight output_partition_size = 8 is not divisible by weight quantization block_n = 128.",
    "The output_size of gate's and up's weight = 192 is not divisible by weight quantization "
    "block_n = 128.",
    "start (4) + length (1) exceeds dimension size (4).",
    "mm_mxfp8 requires N >= 128, got N=32",
    "Currently only block_len = 128 is supported",
    "MXFP8 (for all gemm layouts) is not supported on 12.0+ architectures yet.",
    "the last dimension of shape torch.Size([65536, 16]) must be divisible by block_size 32",
    "kv_cache_sf must be provided for NVFP4 KV cache.",
    "module 'torch' has no attribute 'float8_e8m0fnu'",
    "type fp8e4nv not supported in this architecture. The supported fp8 dtypes are "
    "('fp8e4b15', 'fp8e5')",
    "MXFP8 KV cache requires head_dim divisible by 32, got 1234.",
    "ValueError: MXFP8 KV cache requires head_dim divisible by 32, got 80.",
    "The quantization method mxfp8 is not supported for the current GPU. Minimum capability: 100. "
    "Current capability: 90.",
    "[2026-11-30 02:11:07 TP3] Scheduler hit an exception: RuntimeError: "
    "--fp8-gemm-backend=deep_gemm cannot serve MXFP8 weight shape (8640, 2880) (needs N % 64 == 0 "
    "and K % 128 == 0), and this device has no FlashInfer MXFP8 fallback kernel.",
    "(EngineCore pid=211) ERROR 11-30 02:11:07 [core.py:708] ValueError: Weight "
    "input_size_per_partition = 4711 is not divisible by weight quantization block_k = 32.",
    "FP8 is only supported on SM100 (compute capability 10.x) for FA4 CuTe.",
    "M, N must be multiples of 16 and K must be multiple of 128 for block-wise scaling",
    "GEMM K dimension must be multiple of 128 for MXFP8 scaling (got K=576)",
    "Assertion error (csrc/jit_kernels/impls/runtime_utils.hpp:7): "
    "num_gmem_outer_stride_bytes % 16u == 0u",
)

FIRST = """async (queries) => {
  while (!Search._index) await new Promise((done) => setTimeout(done, 20));
  const begun = performance.now();
  const found = queries.map((query) => {
    history.replaceState(null, "", "?q=" + encodeURIComponent(query));
    const results = Search._performSearch(...Search._parseQuery(query));
    return [results.length, results.at(-1)?.[0] ?? ""];
  });
  return [found, (performance.now() - begun) / queries.length];
}"""


def words(text: str) -> str:
    """A text as a search compares it: words, numbers and comparisons, in any case."""
    found = re.findall(r"[a-z_][a-z0-9_]*|\d+|[%=<>!*]+|\{", text.lower())
    return f" {' '.join(found)} "


@pytest.fixture(scope="module")
def page(browser: Browser, site: str) -> Iterator[Page]:
    context = browser.new_context()
    watched = watch(context)
    watched.page.goto(f"{site}/search.html?q=x")
    yield watched.page
    assert watched.clean()
    context.close()


def first(page: Page, queries: list[str]) -> list[str]:
    """Return the page that comes first for each query, by the guard's id or its name."""
    found, each = page.evaluate(FIRST, queries)
    assert each < 300, "milliseconds of one search, on a busy machine"
    return [name.rpartition("/")[2] for _, name in found]


def right(text: str) -> set[str]:
    """Return the guards that ``mxlab explain`` names for a message."""
    return {match.guard.id for match in explain(text).matches}


def middle(text: str, count: int) -> str:
    """Return some words from the middle of the longest stretch of a message without numbers."""
    runs = [run.split() for run in re.split(r"\S*\d\S*", text)]
    parts = max(runs, key=len)
    at = max(0, (len(parts) - count) // 2)
    return " ".join(parts[at : at + count])


def test_twenty_messages_as_people_paste_them(page: Page) -> None:
    wanted = [right(text) for text in REAL]
    assert len(REAL) == 20 and all(wanted), [t for t, w in zip(REAL, wanted, strict=True) if not w]
    found = first(page, list(REAL))
    missed = [(t, f) for t, f, w in zip(REAL, found, wanted, strict=True) if f not in w]
    assert missed == []


@pytest.mark.parametrize("count", [4, 5])
def test_some_words_from_the_middle_of_each_are_enough(page: Page, count: int) -> None:
    """Where other messages hold the same words, one of those may be first."""
    queries = [middle(text, count) for text in REAL]
    texts = [
        (id, words(text)) for id, known in search_messages.messages().items() for text in known
    ]
    found = first(page, queries)
    missed = []
    for text, query, id in zip(REAL, queries, found, strict=True):
        wanted = right(text) | {one for one, known in texts if words(query) in known}
        if id not in wanted:
            missed.append((query, id))
    assert missed == []


def fixed_part(message: str, count: int) -> str:
    """Return ``count`` words that no field interrupts, from the middle; "" where there are none."""
    runs = [part.split() for part in re.split(r"\{[^{}]*\}", " ".join(message.split()))]
    found = [run[i : i + count] for run in runs for i in range(len(run) - count + 1)]
    return " ".join(found[len(found) // 2]) if found else ""


def test_every_message_of_every_guard_is_found(page: Page) -> None:
    """Whole, with other numbers, in a line of a log, and by 3 to 5 words that it has."""
    texts = [(id, text) for id, known in search_messages.messages().items() for text in known]
    patterns = [(i, re.compile(pattern(t), re.DOTALL | re.IGNORECASE)) for i, t in texts]
    asked: list[tuple[str, str, set[str]]] = []
    for number, (own, text) in enumerate(texts):
        filled = re.sub(r"\{[^{}]*\}", lambda at: str(37 + 61 * (at.start() % 97)), text)
        wanted = {own} | {i for i, known in patterns if known.match(filled)}
        asked.append(("whole", filled, wanted))
        if number % 8 == 0:
            log = f"[2026-11-30 02:11:07 TP3] Scheduler hit an exception: ValueError: {filled}"
            asked.append(("in a log", log, wanted))
        for count in (3, 4, 5):
            part = fixed_part(text, count)
            if part and (number + count) % 4 == 0:
                holders = {i for i, t in texts if words(part) in words(t)}
                asked.append((f"{count} words", part, holders))
    found = first(page, [query for _, query, _ in asked])
    total, hits = Counter(kind for kind, _, _ in asked), Counter[str]()
    missed: dict[str, list[Any]] = {}
    for (kind, query, wanted), id in zip(asked, found, strict=True):
        hits[kind] += id in wanted
        if id not in wanted:
            missed.setdefault(kind, []).append((query, id, sorted(wanted)[:3]))
    rates = {kind: hits[kind] / total[kind] for kind in total}
    print("\nfirst hit right: " + ", ".join(f"{k} {hits[k]} of {n}" for k, n in total.items()))
    assert sum(total.values()) > 900
    floors = {"whole": 0.99, "in a log": 0.99, "5 words": 0.99, "4 words": 0.97, "3 words": 0.95}
    low = {kind: missed[kind] for kind, floor in floors.items() if rates[kind] < floor}
    assert low == {}


@pytest.mark.parametrize(
    ("query", "page_name"),
    [
        ("kv-hd32", "kv-hd32"),
        ("glossary", "glossary"),
        ("library profiles", "profiles"),
        ("scale layouts", "layouts"),
        ("What does it cost?", "09_what_does_it_cost"),
    ],
)
def test_other_searches_find_other_pages(page: Page, query: str, page_name: str) -> None:
    assert first(page, [query]) == [page_name]


@pytest.mark.parametrize(
    "query",
    ["", " ", "%", "{", "}{", "\\", "<img src=x onerror=alert(1)>", "x" * 9000, "1 " * 5000],
)
def test_odd_queries_end(page: Page, query: str) -> None:
    found, each = page.evaluate(FIRST, [query])
    assert len(found) == 1 and each < 2000


def test_a_message_is_in_the_page_s_script_as_it_is_in_the_table() -> None:
    rows = {name.rpartition("/")[2]: texts for name, *texts in search_messages.rows()}
    assert {guard.id for guard, _ in every_row() if guard.messages} <= rows.keys()
    assert len(rows) > 400 and any("mm_mxfp8 requires N" in t for t in rows["vllm-mx-minimum"])
    assert search_messages.script().count("const MESSAGES = [[") == 1
