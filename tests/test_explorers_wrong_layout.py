"""The wrong layout: scales, blocks and errors are those of NumPy's product and of ``damage``."""

import json
import random
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxlab import interleave, layout
from mxlab.cli import main
from mxlab.damage import misread as numpy_misread
from mxlab.detect import detect_layout
from mxlab.explorers import answer, explorer
from mxlab.explorers import wrong_layout_product as small
from mxlab.explorers.picture import picture
from mxlab.explorers.wrong_layout import _BYTES, _PATTERNS
from mxlab.layout import LAYOUTS

RECORD = explorer("wrong_layout")


def view(state: dict[str, Any]) -> dict[str, Any]:
    result = json.loads(answer("wrong_layout", json.dumps(state)))
    assert "error" not in result, result
    found: dict[str, Any] = result["view"]
    return found


def panel(name: str, shown: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(p for p in shown["panels"] if p["id"] == name)
    return found


def random_state(seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    return {
        "stored_as": chance.choice(list(_BYTES)),
        "read_as": chance.choice(list(_BYTES)),
        "scales": chance.choice(_PATTERNS)[0],
        "spread": chance.randint(0, 16),
        "n": chance.choice((1, 31, 64, 100, 128)),
        "blocks": chance.randint(1, 8),
        "row": chance.randint(0, 255),
    }


def chosen(state: dict[str, Any]) -> tuple[str, int, int, int]:
    s: dict[str, Any] = RECORD.clean(state)
    return s["scales"], s["spread"], s["n"], s["blocks"]


def percent(share: float) -> str:
    return f"{100 * share:,.0f} %" if 100 * share >= 1000 else f"{100 * share:.3g} %"


def test_the_weight_is_a_weight() -> None:
    """The elements are those of a quantiser: each block reaches the upper binade of E4M3."""
    codes = np.array(small.codes(40, 6), np.uint8)
    largest = abs(codes.view(ml_dtypes.float8_e4m3fn).astype(float)).reshape(40, 6, 32).max(axis=2)
    assert codes.shape == (40, 192) and (largest >= 224).all() and (largest <= 448).all()
    natural = np.array(small.scales("natural", 0, 40, 6))
    assert set(natural.flat) == {119, 120}
    for pattern, axis in (("rows", 1), ("columns", 0), ("blocks", None)):
        moved = np.array(small.scales(pattern, 6, 40, 6)) - natural
        assert moved.min() == -3 and moved.max() == 3
        if axis is not None:
            assert (np.ptp(moved, axis=axis) == 0).all()
        else:
            assert (np.ptp(moved, axis=0) > 0).all() and (np.ptp(moved, axis=1) > 0).any()
    assert small.codes(3, 2) == codes[:3, :64].tolist()


def test_a_row_that_grew_is_the_row_made_at_once() -> None:
    def everything() -> object:
        row = small._row(7, 9)
        return small.codes(8, 9), row.bytes[:9], row.products[:9], small.activations(9)

    def forget() -> None:
        small._token.cache_clear()
        small._weight.cache_clear()

    forget()
    for blocks in (3, 1, 4, 9):
        small._row(7, blocks)
    grown = everything()
    assert small._row(7, 3).bytes == small._row(7, 9).bytes and len(small._row(7, 3).bytes) == 9
    forget()
    assert everything() == grown


@pytest.mark.parametrize("seed", range(60))
def test_every_number_is_numpys(seed: int) -> None:
    state = random_state(seed)
    actual, read_as = state["stored_as"], state["read_as"]
    pattern, spread, n, blocks = chosen(state)
    right = np.array(small.scales(pattern, spread, n, blocks), np.uint8)
    codes = np.array(small.codes(n, blocks), np.uint8)
    buffer = interleave(right, actual).reshape(-1)
    assert small.stored(right.tolist(), layout(actual)) == buffer.tolist()
    found = small.misread(pattern, spread, n, blocks, layout(actual), layout(read_as))
    expected = numpy_misread(buffer, actual, read_as, n, blocks, codes=codes)
    assert found.count(small.WRONG) == expected.blocks_touched
    assert found.count(small.BEYOND) == expected.beyond
    # a block in place is own, or past the end of a buffer that is shorter: never here
    assert found.count(small.OWN) == expected.blocks_in_place

    elements = codes.view(ml_dtypes.float8_e4m3fn).astype(float).reshape(n, blocks, 32)
    tokens = np.array(small.activations(blocks))
    read = np.array([[255 if b is None else b for b in row] for row in found.read])

    def product(bytes_: Any) -> Any:
        weight = elements * np.exp2(bytes_.astype(float) - 127)[:, :, None]
        return tokens @ weight.reshape(n, -1).T

    wanted, got = product(right), product(read)
    lost, kept = ((got - wanted) ** 2).sum(axis=0), (wanted**2).sum(axis=0)
    known = np.array([error is not None for error in found.errors])
    assert (known == (np.array(found.fates) != small.BEYOND).all(axis=1)).all()
    errors = np.array([np.nan if e is None else e for e in found.errors])
    assert np.allclose(errors[known], np.sqrt(lost / kept)[known], rtol=1e-9, atol=1e-12)
    if known.any():
        total = np.sqrt(lost[known].sum() / kept[known].sum())
        assert found.product == pytest.approx(total, rel=1e-9, abs=1e-12)
    else:
        assert found.product is None

    shown = view(state)
    wrong = int((errors[known] > 0).sum())
    facts = {name: value for name, value, _ in panel("damage", shown)["rows"]}
    assert facts["outputs wrong"] == str(wrong)
    assert facts["wrong scale"] == f"{expected.blocks_touched:,}"
    assert facts["product"] == ("unknown" if found.product is None else percent(found.product))
    if wrong:
        assert shown["status"] == "silent" and facts["product"] in shown["answer"]
        assert shown["answer"].startswith(f"{wrong} of {n} outputs are wrong")
    elif not known.all():
        assert shown["status"] == "silent" and "past the end" in shown["answer"]
    else:
        hidden = found.count(small.EQUAL) > 0
        assert shown["status"] == ("warns" if hidden else "passes")
    grid = panel("scales", shown)
    top = int(grid["rows"][0])
    for r, (texts, fates) in enumerate(zip(grid["text"], grid["tone"], strict=True), top):
        for c, (text, fate) in enumerate(zip(texts, fates, strict=True)):
            numbers = [int(number) for number in re.findall(r"\d+", text)]
            assert numbers[-1] == right[r, c]
            if fate == small.WRONG:
                assert numbers == [read[r, c], right[r, c]] and read[r, c] != right[r, c]
            assert ("?" in text) == (fate == small.BEYOND)


def test_the_random_states_saw_everything() -> None:
    seen = {view(random_state(seed))["status"] for seed in range(60)}
    assert seen == {"silent", "warns", "passes"}


def test_equal_scales_hide_the_mistake_and_spread_shows_it() -> None:
    shown = view({"scales": "same"})
    assert shown["answer"].startswith("504 of 512 blocks read another block's scale, all of them")
    assert shown["status"] == "warns"
    losses = [
        small.misread("rows", spread, 128, 4, LAYOUTS["linear"], LAYOUTS["tile_128x4"]).product
        for spread in (0, 4, 8, 16)
    ]
    assert None not in losses and losses[0] < losses[1] < losses[3]  # type: ignore[operator]
    assert 0.05 < (losses[0] or 0) < 1 < (losses[3] or 0)


@pytest.mark.parametrize("name", list(_BYTES))
def test_the_right_layout_is_right(name: str) -> None:
    for n, blocks in ((128, 4), (100, 7), (1, 1)):
        state = {"stored_as": name, "read_as": name, "n": n, "blocks": blocks}
        shown = view(state)
        assert shown["status"] == "passes" and shown["answer"].endswith("every output is right.")
        assert {name: value for name, value, _ in panel("damage", shown)["rows"]}["product"] == (
            "0 %"
        )


def test_the_bars_are_the_errors() -> None:
    state = {"n": 100, "spread": 12}
    shown = view(state)
    found = small.misread(*chosen(state), LAYOUTS["linear"], LAYOUTS["tile_128x4"])
    bars = [s for s in panel("outputs", shown)["shapes"] if s[0] == "box"]
    assert len(bars) == 100
    for r, (bar, error) in enumerate(zip(bars, found.errors, strict=True)):
        said = "unknown" if error is None else f"off by {percent(error)}" if error else "right"
        assert bar[7] == r and bar[8].startswith(f"Output {r}: ") and bar[8].endswith(said)
    wrong = sorted((error, bar[1][3]) for error, bar in zip(found.errors, bars, strict=True)
                   if error)  # fmt: skip
    assert len(wrong) > 50
    assert [size for _, size in wrong] == sorted(size for _, size in wrong)
    assert {error is None for error in found.errors} == {True, False}


@pytest.mark.parametrize(
    "state",
    [
        {"n": 128, "blocks": 8, "spread": 8},
        {"scales": "same"},
        {"stored_as": "tile_128x4", "read_as": "linear", "n": 100, "blocks": 3},
        {"stored_as": "tile_8x4", "read_as": "amd_32x8", "n": 96, "blocks": 16, "scales": "blocks"},
    ],
)
def test_python_finds_the_same_and_the_command_prints_it(
    state: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    shown, clean = view(state), RECORD.clean(state)
    exec(compile(shown["python"], "snippet", "exec"), {})
    damage, finding = capsys.readouterr().out.splitlines()
    facts = {name: value for name, value, _ in panel("damage", shown)["rows"]}
    assert f"blocks_touched={facts['wrong scale'].replace(',', '')}," in damage
    assert f"blocks_in_place={facts['own scale'].replace(',', '')}," in damage
    pattern, spread, n, blocks = chosen(state)
    right = np.array(small.scales(pattern, spread, n, blocks), np.uint8)
    codes = np.array(small.codes(n, blocks), np.uint8)
    found = detect_layout(interleave(right, str(clean["stored_as"])).reshape(-1), codes=codes)
    assert finding == f"{found.outcome} {found.verdict} {found.why}"
    if pattern == "same":
        assert found.outcome == "cannot tell" and "give the same scales" in found.why
    elif found.verdict:
        assert clean["stored_as"] in (found.verdict, *found.alike)
    assert main([*shown["cli"].split()[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["view"] == shown


def test_what_would_find_it_names_the_layouts_of_that_length() -> None:
    for seed in range(12):
        state = random_state(seed)
        _, _, n, blocks = chosen(state)
        length = LAYOUTS[state["stored_as"]].nbytes(n, blocks)
        alike = [name for name in _BYTES if LAYOUTS[name].nbytes(n, blocks) == length]
        rows = {name: (value, how) for name, value, how in panel("finding", view(state))["rows"]}
        assert rows["length"][0] == f"{length:,} bytes"
        passes = state["read_as"] in alike
        assert rows["length"][1].startswith(", ".join(alike)) == passes
        assert ("would tell" in rows["length"][1]) != passes


def test_the_map_is_windowed_and_says_so() -> None:
    grid = panel("scales", view({"n": 256, "blocks": 16, "row": 250}))
    assert len(grid["rows"]) == 32 and grid["rows"][-1] == "255"
    assert grid["alt"].endswith("32 of 256 rows are shown.")


def test_the_picture_has_a_bar_for_each_output() -> None:
    shown = RECORD.view(RECORD.defaults())
    svg = ElementTree.fromstring(picture(RECORD.title, shown))
    texts = {node.text for node in svg.iter() if node.tag.endswith("text")}
    assert {"output 0", "output 127", "100 %"} <= texts
    assert len([node for node in svg.iter() if node.tag.endswith("rect")]) > 128


def test_hostile_states_are_answered() -> None:
    for text in ('{"n": 1e99, "blocks": 1e99}', '{"stored_as": "deepgemm_float32"}', "{", "[[]]"):
        assert "view" in json.loads(answer("wrong_layout", text))
    largest = view({"n": 256, "blocks": 16, "spread": 16, "scales": "blocks"})
    for shown in largest["panels"]:
        assert shown["alt"].endswith(".") and re.search(r"\d", shown["alt"])
