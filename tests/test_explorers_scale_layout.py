"""Where a scale lives: every cell shown is where ``interleave`` puts it, in every layout."""

import json
import random
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest

from mxlab import interleave, layout
from mxlab.cli import main
from mxlab.explorers import answer, explorer
from mxlab.explorers.picture import picture
from mxlab.explorers.scale_window import Window, physical, size, window
from mxlab.layout import LAYOUTS

RECORD = explorer("scale_layout")
STATES: list[dict[str, Any]] = [
    {},
    {"rows": 1, "k": 2880, "at": "0,89"},
    {"rows": 130, "k": 320, "batches": 3, "at": "1,129,9"},
    {"rows": 257, "k": 544, "at": "256,16"},
    {"rows": 96, "k": 100, "at": "700"},
]


def view(state: dict[str, Any]) -> dict[str, Any]:
    result = json.loads(answer("scale_layout", json.dumps(state)))
    assert "error" not in result, result
    found: dict[str, Any] = result["view"]
    return found


def panel(name: str, shown: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(p for p in shown["panels"] if p["id"] == name)
    return found


def numbers(state: dict[str, Any]) -> tuple[Any, int, int, int]:
    """The layout, its batches, and rows and columns of its scale matrix."""
    s: dict[str, Any] = RECORD.clean(state)
    found = layout(s["scale_layout"])
    if found.name == "kv_paged":
        dims = int(s["head_dim"]) // 32
        found = layout(found, page_size=int(s["page_size"]), scales_per_head=dims)
    rows, cols = s["rows"], -(-s["k"] // 32)
    if found.name == "te_columnwise":
        rows, cols = -(-s["rows"] // 32), s["k"]
    return found, s["batches"], rows, cols


def memory(state: dict[str, Any]) -> list[int]:
    """For each scale of the buffer: 1 + the number of its cell, 0 for padding."""
    found, batches, rows, cols = numbers(state)
    cells = np.arange(1, batches * rows * cols + 1).reshape(batches, rows, cols)
    if found.itemsize > 1:  # scales that are floats: their places, from the closed form
        each = found.nbytes(rows, cols) // 4
        flat = [0] * (batches * each)
        for b, r, c in np.ndindex(cells.shape):
            flat[b * each + found.offset(r, c, rows, cols) // 4] = int(cells[b, r, c])
        return flat
    parts = [interleave((cells >> shift & 255).astype(np.uint8), found) for shift in (0, 8, 16)]
    whole = sum(part.reshape(-1).astype(int) << 8 * i for i, part in enumerate(parts))
    return [int(number) for number in np.asarray(whole)]


@pytest.mark.parametrize("name", list(LAYOUTS))
@pytest.mark.parametrize("place", range(len(STATES)))
def test_both_grids_are_where_interleave_puts_the_scales(name: str, place: int) -> None:
    state = {**STATES[place], "scale_layout": name}
    found, _, rows, cols = numbers(state)
    shown, held, step = view(state), memory(state), found.itemsize
    cells, memory_lines = panel("logical", shown), panel("physical", shown)
    batch = int(re.sub(r".*batch (\d+).*|.*", r"\1", shown["answer"]) or 0)
    first = int(cells["rows"][0]), int(cells["columns"][0])
    bytes_: dict[int, str] = {}
    for start, texts, keys in zip(
        memory_lines["rows"], memory_lines["text"], memory_lines["key"], strict=True
    ):
        for i, (text, key) in enumerate(zip(texts, keys, strict=True)):
            byte = int(start) + i * step
            if byte // step >= len(held):
                assert (text, key) == ("", -1)
                continue
            assert key == byte
            number = held[byte // step] - 1
            other, inside = divmod(number, rows * cols)
            if byte // found.nbytes(rows, cols) != batch:
                assert text == f"batch {byte // found.nbytes(rows, cols)}"
            elif number < 0:
                assert text == "pad"
            else:
                assert other == batch and text == "{},{}".format(*divmod(inside, cols))
            bytes_[key] = text
    filled = 0
    for r, (texts, keys, tones) in enumerate(
        zip(cells["text"], cells["key"], cells["tone"], strict=True), first[0]
    ):
        for c, (text, key, tone) in enumerate(zip(texts, keys, tones, strict=True), first[1]):
            assert key in bytes_, "every cell of the window has its byte beside it"
            if r < rows and c < cols:
                filled += 1
                assert tone >= 0 and text == str(key)
                assert held[key // step] == batch * rows * cols + r * cols + c + 1
            else:
                assert (text, tone) == ("", -1) and bytes_[key] == "pad"
    assert filled or "is padding" in shown["answer"]
    assert len(memory_lines["rows"]) <= 64 and 0 < len(cells["rows"]) * len(cells["columns"]) <= 512
    buffer = {row[0]: row[1:] for row in panel("buffer", shown)["rows"]}
    spare = held.count(0) * step
    assert buffer["bytes"][0] == f"{len(held) * step:,}"
    assert buffer["bytes"][1].startswith(f"{spare:,} of them padding")
    assert f"{len(held) * step:,} bytes, {spare:,} of them padding" in shown["answer"]


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_a_chosen_cell_is_found_again_from_either_side(name: str) -> None:
    chance = random.Random(name)
    for _ in range(6):
        state: dict[str, Any] = {
            "scale_layout": name,
            "rows": chance.randint(1, 400),
            "k": chance.randint(1, 700),
            "batches": chance.choice((1, 1, 3)),
            "page_size": chance.choice(("32", "64", "256")),
            "head_dim": chance.choice(("64", "96", "256")),
        }
        found, batches, rows, cols = numbers(state)
        batch, row, col = (chance.randrange(n) for n in (batches, rows, cols))
        asked = f"{row},{col}" if batches == 1 else f"{batch},{row},{col}"
        first = view({**state, "at": asked})
        byte = batch * found.nbytes(rows, cols) + found.offset(row, col, rows, cols)
        assert f"is byte {byte:,};" in first["answer"] and first["status"] == "passes"
        for shown in (first, view({**state, "at": str(byte)})):
            assert shown == first
            for name_, wanted in (("logical", asked), ("physical", str(byte))):
                grid = panel(name_, shown)
                [(r, c)] = grid["chosen"]
                assert grid["sets"] == "at" and grid["values"][r][c] == wanted
                assert grid["key"][r][c] == byte
        digits = panel("digits", first)["rows"]
        *parts, total = [int(value.replace(",", "")) for _, value, _ in digits]
        assert sum(parts) == total == byte
        target = chance.choice([v for line in panel("windows", first)["values"] for v in line])
        there = panel("windows", view({**state, "at": target}))
        [(r, c)] = there["chosen"]
        assert there["values"][r][c] == target


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_the_bits_make_the_offset(name: str) -> None:
    seen = 0
    for row in (0, 1, 77, 255):
        state: dict[str, Any] = {
            "scale_layout": name,
            "rows": 256,
            "k": 512,
            "at": f"{row},{row % 16}",
        }
        if name == "te_columnwise":
            state |= {"rows": 512, "at": f"{row % 16},{row}"}
        shown = view(state)
        if not any(p["id"] == "bits" for p in shown["panels"]):
            continue
        seen += 1
        found, _, rows, cols = numbers(state)
        wanted = found.offset(*map(int, state["at"].split(",")), rows, cols)
        alt = panel("bits", shown)["alt"]
        assert alt.startswith(f"The offset is {wanted:,}, in binary ")
        assert int(alt.split("binary ")[1].split(".")[0], 2) == wanted
    assert seen == 4


def test_where_bits_carry_the_tile_is_shown_or_nothing() -> None:
    shown = panel("bits", view({"k": 320, "at": "299,9"}))
    inside = layout("tile_128x4").offset(299, 9, 300, 10) % 512
    assert shown["alt"].startswith(f"The offset inside its tile is {inside}, ")
    flat = view({"scale_layout": "linear", "k": 320})
    assert [p["id"] for p in flat["panels"]] == [
        *("buffer", "digits", "logical", "physical", "windows"),
    ]


def test_padding_can_be_asked_about() -> None:
    shown = view({"at": "3071"})
    assert shown["answer"].startswith(
        "Byte 3,071 is padding: it would be row 383, column 7, outside 300 x 8; tile_128x4 takes "
        "3,072 bytes, 672 of them padding (21.9 %)."
    )
    assert shown["status"] == "warns"
    assert panel("logical", shown)["values"][-1][-1] == "3071"


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("9999,0", "There is no 9999,0: the nearest is taken. The scale of row 299, column 0 is"),
        ("0,99", "There is no 0,99: the nearest is taken. The scale of row 0, column 7 is"),
        ("4,0,0", "There is no 4,0,0: the nearest is taken. The scale of row 0, column 0 is"),
        ("99999999", "The last byte is 3,071, not 99,999,999. Byte 3,071 is padding"),
        ("", "'' is no ROW,COLUMN and no byte: row 0, column 0. The scale of row 0, column 0 is"),
        ("1,2,3,4", "'1,2,3,4' is no ROW,COLUMN and no byte"),
        ("-1,2", "'-1,2' is no ROW,COLUMN and no byte"),
        ("9" * 40, f"{'9' * 40!r} is no ROW,COLUMN and no byte"),
        ("<b>\ud800", "'<b>\ufffd' is no ROW,COLUMN and no byte"),
    ],
)
def test_a_place_that_is_none_is_mended_and_said(at: str, said: str) -> None:
    shown = view({"at": at})
    assert shown["answer"].startswith(said) and shown["status"] == "warns"


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_command_and_python_say_the_same(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    states: tuple[dict[str, Any], ...]
    states = ({}, {"at": "2,1,3", "batches": 4, "head_dim": "64"}, {"rows": 5, "k": 96, "at": "9"})
    for state in states:
        shown = view({**state, "scale_layout": name})
        byte = int(re.findall(r"[Bb]yte ([\d,]+)", shown["answer"])[0].replace(",", ""))
        padding = "is padding" in shown["answer"]
        assert main([*shown["cli"].split()[1:], "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert (
            printed["coord"] is None and printed["asked_offset"] == byte
            if padding
            else (printed["offset"] == byte)
        )
        cute = {row[0]: row[2] for row in panel("buffer", shown)["rows"]}["CuTe layout"]
        assert printed["cute"] == cute
        exec(compile(shown["python"], "snippet", "exec"), {})
        wanted = "None" if padding else str(byte)
        assert capsys.readouterr().out.split() == [str(printed["nbytes"]), wanted]


def test_the_largest_sizes_are_windowed() -> None:
    for name in LAYOUTS:
        for at in ("1000000,1000", str(2**60), "3,1000000,32000"):
            state = {"scale_layout": name, "rows": 2**20, "k": 2**20, "batches": 4096, "at": at}
            result = answer("scale_layout", json.dumps(state))
            assert "error" not in json.loads(result) and len(result) < 120_000


def test_windows_are_whole_tiles_or_parts_of_one() -> None:
    assert {name: size(LAYOUTS[name], 1000, 1000) for name in LAYOUTS} == {
        "linear": (32, 16),
        "tile_128x4": (128, 4),
        "tile_8x4": (32, 16),
        "amd_32x8": (32, 16),
        "deepgemm_packed": (128, 4),
        "deepgemm_float32": (32, 4),
        "kv_paged": (128, 4),
        "te_columnwise": (4, 128),
    }
    assert size(layout("kv_paged", page_size=256, scales_per_head=8), 512, 16) == (64, 8)
    last = window(LAYOUTS["linear"], 33, 17, 32, 16)
    assert (last.high, last.wide, last.padding()) == (1, 1, 0)
    beyond = physical(Window(LAYOUTS["linear"], 1, 3, 0, 0, 1, 3))
    assert beyond.nothing.startswith("padding or past the end")


def test_the_picture_has_the_lines_of_memory() -> None:
    shown = RECORD.view(RECORD.defaults())
    svg = ElementTree.fromstring(picture(RECORD.title, shown))
    texts = {node.text for node in svg.iter() if node.tag.endswith("text")}
    assert {"0,0", "96,3", "127,3", "+15", "r8", "c0"} <= texts


def test_every_panel_has_its_numbers_in_words() -> None:
    for state in STATES:
        for shown in view(state)["panels"]:
            assert shown["alt"].endswith(".") and re.search(r"\d", shown["alt"])
