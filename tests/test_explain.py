"""explain: every message of the table is found again in what a log makes of it."""

import json
import random
import re
from collections.abc import Callable, Iterable
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxlab.errors import InputError
from mxlab.explain import COSTS, explain
from mxlab.explain_index import Template, index
from mxlab.explain_table import every_message
from mxlab.explain_text import typed
from mxlab.guards import STAGES
from mxlab.guards.engine import fill

GUARDS = every_message()
TEMPLATES = index(GUARDS).templates
IDS = [f"{one.guard.id}-{one.number}" for one in TEMPLATES]
VALUES = (
    "80",
    "1344",
    "0",
    "-1",
    "(2, 128)",
    "[1, 128]",
    "torch.Size([16, 8, 32, 4, 4])",
    "None",
    "True",
    "torch.bfloat16",
    "mxfp8",
    "model.layers.3.self_attn.qkv_proj",
    "['quant_method']",
)


def filled(one: Template, choose: Callable[[], str]) -> tuple[str, dict[str, str]]:
    """Fill a message; a name that comes twice has one value, one in quotes holds no quote.

    Where letters alone stand between two names, as in {m}x{k}, no value holds them: mxfp8x80 has
    two readings.
    """
    values = {name: choose() for name in one.fields}
    between = [text for text in re.split(r"\{\w+\}", one.text)[1:-1] if text.isalpha()]
    for name, value in values.items():
        if any(text in value for text in between):
            values[name] = "80"
    for name, quoted in zip(one.fields, one.quoted, strict=True):
        if quoted:
            values[name] = values[name].replace("'", "")
    return fill(one.text, values), values


def rivals(one: Template) -> set[str]:
    """The guards that have this very text; nothing in the text can tell them apart."""
    shape = re.sub(r"\{\w+\}", "{}", one.text)
    return {g.id for g in GUARDS if shape in {re.sub(r"\{\w+\}", "{}", m) for m in g.messages}}


def held(text: str | bytes, one: Template, values: dict[str, str]) -> None:
    """The guard, and only guards with the same text, are found with exactly these values."""
    matches = explain(text).matches
    assert {match.guard.id for match in matches} == rivals(one), text
    mine = next(match for match in matches if match.guard.id == one.guard.id)
    assert mine.complete
    assert dict(mine.values) == {name: typed(value) for name, value in values.items()}


def test_the_table_is_worth_testing() -> None:
    assert len(TEMPLATES) > 40
    assert sum(bool(one.fields) for one in TEMPLATES) > 15
    texts = {guard.id for guard in GUARDS if guard.messages}
    assert {one.guard.id for one in TEMPLATES} == texts
    assert set(COSTS) == set(STAGES)


@pytest.mark.parametrize("one", TEMPLATES, ids=IDS)
def test_round_trip(one: Template) -> None:
    draw = random.Random(one.text)
    for _ in range(6):
        text, values = filled(one, lambda: draw.choice(VALUES))
        held(text, one, values)
        held(f"Traceback (most recent call last):\n  ...\n{one.guard.error}: {text}\n", one, values)


def wrapped(text: str, width: int, spared: Iterable[str]) -> str:
    """Break as a terminal does, anywhere; but not inside a value at either end of the message."""
    lines, line = [], ""
    first, last = 0, len(text)
    for value in spared:
        if 0 <= text.find(value) <= 1:  # there may be a quote before it
            first = len(value) + 2
        if text.rfind(value) + len(value) >= len(text) - 2:
            last = text.rfind(value) - 1
    for i, c in enumerate(text):
        if len(line) >= width and first < i < last:
            lines.append(line)
            line = ""
        line += c
    return "\n".join([*lines, line])


def boxed(text: str) -> str:
    lines = text.split("\n")
    width = max(map(len, lines))
    body = [f"│ {line:<{width}} │" for line in lines]
    return "\n".join([f"╭{'─' * (width + 2)}╮", *body, f"╰{'─' * (width + 2)}╯"])


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(TEMPLATES),
    st.lists(st.sampled_from(VALUES), min_size=9, max_size=9),
    st.integers(30, 120),
    st.sampled_from(["", "[2026-11-30 10:00:01 TP3] ", "(worker pid=12) ", "\ufffd\x00 "]),
    st.sampled_from(["plain", "wrap", "box", "json", "go json", "repr", "crlf", "source column"]),
    st.booleans(),
)
def test_noise_of_logs(
    one: Template, drawn: list[str], width: int, prefix: str, kind: str, failed_at: bool
) -> None:
    take = cycle(drawn)
    text, values = filled(one, lambda: next(take))
    head = f"{one.guard.error}: " if one.guard.error else ""
    if failed_at:
        head = f"RuntimeError: Failed at /x/inkling_attn_prologue_fused.cuh:405: {head}"
    whole = prefix + head + text
    if kind == "wrap":
        whole = prefix + head + "\n" + wrapped(text, width, values.values())
    elif kind == "box":
        whole = boxed(head.rstrip() + "\n" + wrapped(text, width, values.values()))
    elif kind == "json":
        whole = json.dumps({"level": "error", "message": head + text, "exc": "T\nx"})
    elif kind == "go json":  # as Docker writes its log files
        whole = json.dumps({"log": head + text + "\n", "stream": "stderr"})
        for sign in "<>&'":
            whole = whole.replace(sign, f"\\u{ord(sign):04x}")
    elif kind == "repr":
        whole = f"{one.guard.error}({text!r})"
    elif kind == "crlf":
        whole = f"before\r\n{whole}\r\nafter\r\n"
    elif kind == "source column":
        words = text.split(" ")
        cut = next((i for i, word in enumerate(words) if i and word not in drawn), 1)
        whole = " ".join(words[:cut]) + "     fp8.py:373\n      " + " ".join(words[cut:])
    held(whole, one, values)


def test_colours_inside_a_message() -> None:
    text = "\x1b[31mValueError\x1b[0m: MXFP8 KV cache requires head\x1b[1m_dim\x1b[0m divisible "
    text += "by \x1b[1;36m32\x1b[0m, got \x1b[1;36m80\x1b[0m."
    for form in (text, json.dumps(text), text.replace("\x1b", "^["), text.replace("\x1b", "\\x1b")):
        (match,) = explain(form).matches
        assert (match.guard.id, dict(match.values)) == ("kv-hd32", {"hd": 80})


@pytest.mark.parametrize(
    ("part", "guard", "values"),
    [
        ("needs N % 64 == 0 and K % 128 == 0", "wsp-deepgemm", {}),
        ("requires head_dim divisible by 32", "kv-hd32", {}),
        ("requires v_head_dim divisible by 32", "kv-vhd32", {}),
        ("RuntimeError: MXFP8 KV cache requires the FA4", "fa4-required", {}),
        (
            "=deep_gemm cannot serve MXFP8 weight shape (2880, 576) (needs N % 64 ==",
            "wsp-deepgemm",
            {"n": 2880, "k": 576},
        ),
        ("cannot serve MXFP8 weight shape (2880, 57", "wsp-deepgemm", {"n": 2880}),
    ],
)
def test_fragments(part: str, guard: str, values: dict[str, int]) -> None:
    matches = explain(part).matches
    assert [match.guard.id for match in matches] == [guard]
    assert not matches[0].complete
    assert dict(matches[0].values) == values


def test_a_fragment_of_a_text_that_checks_share_gives_them_all() -> None:
    matches = explain("Weight input_size_per_partition = 1344 is not divisible by").matches
    assert {match.guard.system for match in matches} == {"sglang", "vllm"}
    assert {match.guard.id for match in matches} >= {"lin-tp-row", "vllm-block-row"}
    assert all(not match.complete for match in matches)


def test_the_longer_message_wins() -> None:
    def found(text: str) -> set[str]:
        return {match.guard.id for match in explain(text).matches}

    assert "act-grp-k32" in found("AssertionError: k=80 must be divisible by 32")
    assert "fwd-fi-k32" not in found("AssertionError: k=80 must be divisible by 32")
    assert found("ValueError: K=80 must be divisible by 32 for MXFP8.") == {"fwd-fi-k32"}


def test_numbers_are_said() -> None:
    (match,) = explain(
        "--fp8-gemm-backend=deep_gemm cannot serve MXFP8 weight shape (2880, 576) (needs N % 64 "
        "== 0 and K % 128 == 0), and this device has no FlashInfer MXFP8 fallback kernel."
    ).matches
    assert match.because == ("N = 2880 % 64 = 0", "K = 576 % 128 = 64")
    assert match.meaning.endswith("Here N = 2880 % 64 = 0, K = 576 % 128 = 64.")
    matches = explain(
        "Weight input_size_per_partition = 1360 is not divisible by weight quantization "
        "block_k = 32."
    ).matches
    match = next(match for match in matches if match.guard.id == "lin-tp-row")
    assert match.because == ("input_size_per_partition = 1360 % (block_k = 32) = 16",)
    matches = explain(
        "MXFP8 requires n >= 128 and k >= 128 for CUTLASS MXFP8. got m=6, n=32, k=1024."
    ).matches
    assert {m.guard.system for m in matches} == {"sglang", "flashinfer"}
    assert {m.because for m in matches} == {("n = 32 < 128",)}


def test_several_guards_and_ranks() -> None:
    rows = []
    for rank in range(8):
        rows += [
            f"[2026-11-30 10:00:0{rank} TP{rank}] Scheduler hit an exception: "
            "Traceback (most recent call last):",
            '  File "/srv/fp8.py", line 594, in validate_block_quant_shapes',
            '    raise ValueError(f"Weight input_size_per_partition = {input_size_per_partition} "',
            "ValueError: Weight input_size_per_partition = 1360 is not divisible by weight "
            "quantization block_k = 32.",
        ]
    log = "\n".join(
        [
            "[10:00:00] MXFP8 overriding weight_block_size=[1, 128] from config.json -> [1, 32].",
            *rows,
            "[10:00:09 DP1 TP2] MXFP8 KV cache requires head_dim divisible by 32, got 80.",
            "[10:00:09 DP1 TP2] MXFP8 KV cache requires head_dim divisible by 32, got 72.",
        ]
    )
    found = explain(log)
    assert found.lines == 35
    twins = rivals(next(one for one in TEMPLATES if one.guard.id == "lin-tp-row"))
    assert len(twins) > 1  # a text of several checks, each with the same numbers
    first = [m for m in found.matches if m.guard.id in twins]
    assert {m.guard.id for m in first} == twins and tuple(first) == found.matches[: len(twins)]
    assert {(m.line, m.count, len(m.ranks)) for m in first} == {(5, 8, 8)}
    rest = [m for m in found.matches if m.guard.id not in twins or m.guard.id == "lin-tp-row"]
    got = [(m.guard.id, m.line, m.count, dict(m.ranks)) for m in rest]
    assert got == [  # what stops comes first, in the order of the log; then the warning
        ("lin-tp-row", 5, 8, {f"TP{rank}": 1 for rank in range(8)}),
        ("kv-hd32", 34, 1, {"DP1 TP2": 1}),
        ("kv-hd32", 35, 1, {"DP1 TP2": 1}),
        ("cfg-mxfp8-override", 1, 1, {}),
    ]
    assert rest[3].values == {"block": [1, 128]}


def test_the_source_of_a_message_is_not_the_message() -> None:
    source = 'raise ValueError(f"MXFP8 KV cache requires head_dim divisible by 32, got {self.hd}.")'
    assert all(not match.complete for match in explain(source).matches)
    (match,) = explain(
        f"    {source}\nValueError: MXFP8 KV cache requires head_dim divisible by 32, got 80.\n"
    ).matches
    assert (match.values, match.line, match.count) == ({"hd": 80}, 2, 1)


def test_a_value_that_is_missing_is_empty() -> None:
    (match,) = explain("Unsupported activation scheme \nINFO the next line").matches
    assert match.values == {"scheme": ""}


def test_nothing_known_names_the_nearest() -> None:
    found = explain(
        "RuntimeError: MXFP8 weight dims not divisible for the deep_gemm fallback kernel"
    )
    assert not found.matches
    assert found.nearest[0].guard.id == "wsp-deepgemm"
    assert 0 < found.nearest[-1].score <= found.nearest[0].score < 1
    assert explain("CUDA out of memory. Tried to allocate 2.00 GiB.").matches == ()
    assert explain("zzz").nearest == ()


def test_ordinary_text_matches_nothing() -> None:
    from pydoc_data import topics

    prose = "\n".join(topics.topics.values())
    assert len(prose) > 400_000
    assert explain(prose).matches == ()
    log = "".join(
        f"[2026-11-30 10:00:{i % 60:02d} TP{i % 8}] Decode batch. #running-req: {i}, #token: "
        f"{i * 37}, token usage: 0.{i % 99:02d}, gen throughput (token/s): {i * 1.37:.2f}\n"
        '  File "/srv/sglang/srt/layers/quantization/fp8.py", line 1101, in forward\n'
        "server_args=ServerArgs(quantization='mxfp8', kv_cache_dtype='mxfp8', "
        "fp8_gemm_backend='deep_gemm', moe_runner_backend='flashinfer_trtllm', page_size=128)\n"
        "TypeError: unsupported operand; k must be an int; shape mismatch of (4, 3)\n"
        for i in range(500)
    )
    assert explain(log).matches == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("80", 80),
        ("-3", -3),
        ("0.5", 0.5),
        ("9" * 30, int("9" * 30)),
        ("9" * 41, "9" * 41),
        ("1e999", "1e999"),
        ("nan", "nan"),
        ("None", None),
        ("True", True),
        ("'x y'", "x y"),
        ("(1,)", [1]),
        ("()", []),
        ("[[1, 2], ['a, b', None]]", [[1, 2], ["a, b", None]]),
        ("torch.Size([])", []),
        ("6, 100", [6, 100]),
        ("(1, 2", "(1, 2"),
        ("(1, 2]", "(1, 2]"),
        ("([)]", "([)]"),
        ("[" * 40 + "]" * 40, None),
        ("{'a': 1}", "{'a': 1}"),
        ("", ""),
    ],
)
def test_typed(text: str, value: object) -> None:
    got = typed(text)
    json.dumps(got, allow_nan=False)
    if not text.startswith("[[[["):
        assert got == value and type(got) is type(value)


@pytest.mark.parametrize("source", [None, 5, ["text"]])
def test_what_is_no_text_is_bad_input(source: Any) -> None:
    with pytest.raises(InputError, match="expected text, bytes or an open file"):
        explain(source)


def test_older_versions_speak_too() -> None:
    old = next(g for g in GUARDS if g.id == "imp-flashinfer")
    found = {m.guard.id: m.versions for m in explain(old.messages[0]).matches}
    assert found["imp-flashinfer"] == ("0132848349",)
    (match,) = explain("MXFP8 requires input dimension to be divisible by 32, got 80.").matches
    assert (match.guard.id, match.because) == ("vllm-mx-k32", ("dimension = 80 % 32 = 16",))
    assert len(match.versions) > 1  # the row is in both, with another text


def test_a_word_inside_a_value_is_no_word_of_the_message() -> None:
    text = (
        "backend='cake' requires float16 or bfloat16 input on a device of exact compute capability "
        "10.0 or 10.3; got dtype=None on Nonesuch"
    )
    (match,) = explain(text).matches
    assert match.values == {"dtype": None, "gpu": "Nonesuch"}
    (match,) = explain(text.replace("None on", "half_on on")).matches
    assert match.values == {"dtype": "half_on", "gpu": "Nonesuch"}


def test_a_value_on_lines_of_its_own() -> None:
    (match,) = explain(
        "ValueError: Failed to find a kernel that can implement the MXFP8 linear layer. Reasons: \n"
        "FlashInferCutlass: K = 80 is too small\nMarlin: no"
    ).matches
    assert match.values == {"reasons": "FlashInferCutlass: K = 80 is too small"}
