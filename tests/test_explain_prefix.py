"""Tags of log collectors: before every line of a wrapped message, and before a short one."""

import html
import random
import textwrap
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_explain import TEMPLATES, filled, held, rivals

from mxlab.explain import explain
from mxlab.explain_prefix import strip_prefixes
from mxlab.explain_text import strip_noise

#: what comes before each line, as the tools write it
TAGS = {
    "torchrun": "[rank3]: ",
    "ray": "(RayWorkerWrapper pid=123, ip=10.0.0.1) ",
    "vllm": "(EngineCore_DP0 pid=88) ERROR 08-01 12:00:00 [core.py:700] ",
    "kubernetes": "2026-08-01T12:00:00.123456789Z stderr F ",
    "actions": "2026-08-01T12:00:00.1234567Z ##[error]",
    "compose": "sglang-1  | ",
    "journald": "Aug 01 12:00:00 node1 sglang[123]: ",
    "pytest": "E       ",
    "mail": "> ",
    "mail twice": "> > ",
}
SAMPLE = TEMPLATES[::4]


def choose(seed: str) -> Callable[[], str]:
    draw = random.Random(seed)
    return lambda: draw.choice(("80", "1344", "8640", "(2, 128)", "bfloat16"))


def unambiguous(text: str) -> bool:
    return "x(" not in text and "bfloat16x" not in text and "x1344" not in text


@pytest.mark.parametrize("tag", TAGS)
def test_a_wrapped_message_with_a_tag_on_every_line(tag: str) -> None:
    tried = 0
    for one in SAMPLE:
        text, values = filled(one, choose(tag + one.text))
        lines = textwrap.wrap(text, 60, break_long_words=False, break_on_hyphens=False)
        if any(" " in v for v in values.values()) or not unambiguous(text) or len(lines) < 2:
            continue  # a value that is broken itself has tests of its own
        held("\n".join(TAGS[tag] + line for line in lines), one, values)
        tried += 1
    assert tried > 40


LOGURU = "\x1b[32m2026-08-01 12:00:00.000\x1b[0m | \x1b[31mERROR   \x1b[0m | m:f:12 - "


@pytest.mark.parametrize(
    "before",
    [*TAGS.values(), LOGURU, "2026-08-01 - ERROR - ", "Loading:  40%|####  | 4/10 [00:01<00:02]\r"],
)
def test_a_short_message_after_a_tag(before: str) -> None:
    """A short text counts only where it stands alone, and a tag is not company."""
    short = [one for one in TEMPLATES if one.short]
    assert len(short) > 20
    for one in short:
        text, _ = filled(one, lambda: "1344")
        found = explain(before + text).matches
        assert {match.guard.id for match in found} == rivals(one), before + text


@pytest.mark.parametrize("before", ["layers, size (a) ", "foo(x) ", "see 3 - ", "and "])
def test_a_short_message_inside_prose_is_none(before: str) -> None:
    assert not explain(before + "80 is not divisible by 1344 and so on").matches


def test_the_rank_stays_where_a_message_begins() -> None:
    log = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/x/server.py", line 3, in run\n'
        "[rank1]: ValueError: MXFP8 KV cache requires head_dim divisible\n"
        "[rank1]: by 32, got 80.\n"
        "[rank2]: ValueError: MXFP8 KV cache requires head_dim divisible by 32, got 80.\n"
    )
    found = explain(log).matches
    assert [match.guard.id for match in found] == ["kv-hd32"]
    assert found[0].count == 2 and found[0].ranks == {"rank1": 1, "rank2": 1}
    assert found[0].line == 3 and dict(found[0].values) == {"hd": 80}


def test_what_is_no_tag_stays() -> None:
    for raw in (
        b"a > b\nc | d\n(see pid) x\n[ranked]: y\nE x\n2026-08-01 z\nAug 01 z",
        b"[2026-08-01 12:00:00 TP3] text",
        b"torch.Size([2, 3])",
    ):
        assert strip_prefixes(raw) == raw


def test_signs_of_a_page() -> None:
    for one in SAMPLE[::3]:
        text, values = filled(one, lambda: "1344")
        if unambiguous(text):
            held(f"<pre>\n{html.escape(text)}\n</pre>", one, values)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*TAGS.values(), "\n", "ValueError: ", "x ", "&lt;", "&amp;"])))
def test_twice_is_the_same_as_once(parts: list[str]) -> None:
    """Chunks overlap, and what is in both is stripped twice: places in the log would shift."""
    once = strip_noise("".join(parts).encode())
    assert strip_noise(once) == once


HOSTILE = (
    "\n" + "> " * 5000,
    "\n[rank",
    "\n(a pid=1",
    "\na        | ",
    "\n[rank1]: " + "a" * 100,
    "\nAug 01 12:00:00 a a",
    "\n" + "2026-08-01T12:00:00.123456789Z " * 3,
    "&amp;amp;",
)


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_tags_take_no_time(unit: str) -> None:
    from time import process_time

    raw = unit.encode() * (1_000_000 // len(unit))
    start = process_time()
    strip_noise(raw)
    assert process_time() - start < 1  # 0.05 s in practice; a backtracking pattern takes minutes


def test_a_comparison_at_the_start_of_a_line_is_no_quoted_mail() -> None:
    text = "MXFP8 requires n >= 128 and k\n>= 128 for CUTLASS MXFP8. got m=80, n=80, k=80."
    found = {match.guard.id: match for match in explain(text).matches}
    assert found["fi-mm-min"].complete
    assert found["fi-mm-min"].values == {"m": 80, "n": 80, "k": 80}
