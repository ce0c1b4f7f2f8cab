"""The verbs bits, block, rules and layout, as a person and as a script calls them."""

import math
import subprocess
import sys

import pytest
from command import Capture, ask, refuse

from mxlab.cli import main


@pytest.mark.parametrize("code", ["0x7e", "126", "0b1111110", "0X7E", " 126 "])
def test_bits_of_a_code(capsys: Capture, code: str) -> None:
    answer = ask(capsys, "bits", code, "--format", "e4m3")
    expected = {"sign": 0, "exponent": 15, "mantissa": 6, "class": "normal", "value": 448.0}
    assert expected.items() <= answer.items()
    assert answer["code"] == 0x7E and answer["rounding_error"] is None


def test_bits_of_a_value(capsys: Capture) -> None:
    answer = ask(capsys, "bits", "--value", "1.1", "--format", "e4m3")
    assert (answer["code"], answer["value"], answer["input"]) == (0x39, 1.125, 1.1)
    assert answer["rounding_error"] == 1.125 - 1.1
    assert (answer["lower"]["code"], answer["upper"]["code"]) == (0x38, 0x39)


def test_bits_e8m0(capsys: Capture) -> None:
    answer = ask(capsys, "bits", "--value", "1.5", "--format", "e8m0")
    assert answer["code"] == 128 and answer["tie"] and answer["rounding"] == "nearest-away"
    assert answer["lower"] == {"code": 127, "value": 1.0}
    assert answer["upper"] == {"code": 128, "value": 2.0}
    answer = ask(capsys, "bits", "--value", "1.5", "--format", "e8m0", "--rounding", "down")
    assert answer["code"] == 127
    assert "no zero and no sign" in refuse(capsys, "bits", "--value", "0", "--format", "e8m0")


def test_bits_infinity_and_nan_are_strict_json(capsys: Capture) -> None:
    assert ask(capsys, "bits", "0x7c", "--format", "e5m2")["value"] == "Infinity"
    assert ask(capsys, "bits", "0xff")["value"] == "NaN"
    answer = ask(capsys, "bits", "--value", "-inf")
    assert (answer["input"], answer["value"]) == ("-Infinity", -448.0)
    assert math.isinf(float(answer["input"])) and answer["saturated"]
    answer = ask(capsys, "bits", "--value", "465", "--no-saturate")
    assert answer["class"] == "nan" and answer["rounding_error"] is None


@pytest.mark.parametrize("text", ["-1,2,0x1.8p0", " -1, 2 ,1.5"])
@pytest.mark.parametrize("joined", [True, False])
def test_block_first_value_negative(capsys: Capture, text: str, joined: bool) -> None:
    if text.startswith(" ") and not joined:
        text = text.strip().replace(" ", "")
    argv = [f"--values={text}"] if joined else ["--values", text]
    answer = ask(capsys, "block", *argv, "--rule", "rceil")
    assert answer["scale_byte"] == 120 and len(answer["codes"]) == len(answer["decoded"]) == 32
    assert answer["decoded"][:3] == [-1.0, 2.0, 1.5] and answer["zero_filled"] == 29
    assert answer["sqnr_db"] is None and answer["max_rel_error"] == 0.0


@pytest.mark.parametrize("first", ["-inf", "-nan", "-.5", "-1e5", "-0x1p3", "-0"])
def test_block_odd_negative_spellings(capsys: Capture, first: str) -> None:
    answer = ask(capsys, "block", "--values", first)
    assert answer["scale_byte"] == 255 if first in ("-inf", "-nan") else answer["scale_byte"] < 255


def test_block_of_bits(capsys: Capture) -> None:
    answer = ask(capsys, "block", "--f32-bits", "40600001,0")
    assert (answer["scale_byte"], answer["scale"], answer["codes"][0]) == (121, 2.0**-6, 0x76)
    answer = ask(capsys, "block", "--f32-bits", "0x7f800000,3f800000")
    assert answer["scale_byte"] == 255 and answer["scale"] == "NaN"
    assert answer["decoded"] == ["NaN"] * 32 and answer["max_rel_error"] is None


def test_block_text_is_readable(capsys: Capture) -> None:
    assert main(["block", "--values", "1,2,-3.5"]) == 0
    out = capsys.readouterr().out
    assert "scale byte     120" in out and "0xfe" in out and "filled up with 29 zeros" in out


def test_rules(capsys: Capture) -> None:
    answer = ask(capsys, "rules", "--amax", "449")
    rows = {row["rule"]: (row["scale_byte"], row["code"]) for row in answer["rows"]}
    assert rows["floor"] == rows["even"] == (127, 0x7E)
    assert rows["rceil"] == rows["ceil"] == (128, 0x76)
    answer = ask(capsys, "rules", "--f32-bits", "43ffffff")
    assert [row["scale_byte"] for row in answer["rows"]][:4] == [127, 128, 128, 128]
    for text in ("nan", "inf"):
        answer = ask(capsys, "rules", "--amax", text)
        assert {row["scale_byte"] for row in answer["rows"][:4]} == {255}
    answer = ask(capsys, "rules", "--amax", "0x1.cp15", "--format", "float8_e5m2")
    assert answer["format"] == "e5m2" and answer["rows"][1]["scale_byte"] == 127


def test_layout(capsys: Capture) -> None:
    argv = ["layout", "300", "10", "--layout", "tile_128x4", "--at", "130,5", "--offset", "517"]
    answer = ask(capsys, *argv)
    expected = {"rows": 300, "cols": 10, "padded_rows": 384, "padded_cols": 12, "nbytes": 4608}
    assert expected.items() <= answer.items()
    assert answer["padding_fraction"] == (4608 - 3000) / 4608
    assert answer["offset"] == 2081 == answer["offsets"][130][5]
    assert answer["coord"] == [32, 5] and answer["offsets"][32][5] == 517
    flat = [offset for row in answer["offsets"] for offset in row]
    assert len(flat) == len(set(flat)) == 3000
    assert ask(capsys, *argv[:5], "--offset", "4607")["coord"] is None


def test_layout_kv_paged(capsys: Capture) -> None:
    argv = ["layout", "128", "8", "--layout", "kv_paged", "--page-size", "64"]
    answer = ask(capsys, *argv, "--scales-per-head", "2", "--at", "65,3")
    assert answer["page_size"] == 64 and answer["scales_per_head"] == 2
    assert answer["offset"] == ((1 * 4 + 1) * 32 * 2 * 2) + 1 * 4 + 0 + 1


def test_layout_in_other_notations(capsys: Capture) -> None:
    answer = ask(capsys, "layout", "256", "8")
    assert answer["cute"] == "((32,4,2),(4,2)):((16,4,1024),(1,512))"
    assert answer["bases"]["row"] == [16, 32, 64, 128, 256, 4, 8, 1024]
    assert ask(capsys, "layout", "256", "12", "--layout", "linear")["bases"] is None
    answer = ask(capsys, "layout", "10", "8", "--layout", "deepgemm_float32", "--at", "9,7")
    assert (answer["itemsize"], answer["nbytes"], answer["offset"]) == (4, 384, 4 * (7 * 12 + 9))


def test_layout_of_batches(capsys: Capture) -> None:
    argv = ["layout", "96", "8", "--batches", "4", "--at", "1,95,7", "--offset", "4095"]
    answer = ask(capsys, *argv)
    assert [answer[key] for key in ("nbytes", "batch_nbytes", "flattened_nbytes")] == [
        4096,
        1024,
        3072,
    ]
    one = ask(capsys, "layout", "96", "8", "--at", "95,7")
    assert (answer["offset"], answer["coord"]) == (1024 + one["offset"], None)
    assert ask(capsys, *argv[:-1], "1024")["coord"] == [1, 0, 0]


def test_field_report_24_a_command_says_where_to_cut(capsys: Capture) -> None:
    cut = ask(capsys, "layout", "256", "4", "--cut", "100", "--at", "99,0")
    assert cut["cut"] == {"row": 100, "possible": False, "every": 128, "nearest": [128]}
    assert cut["offset"] == 60
    assert main(["layout", "256", "4", "--cut", "100"]) == 0
    assert "100 % 128 = 100; cut at 128, or deinterleave" in capsys.readouterr().out
    assert ask(capsys, "layout", "256", "4", "--cut", "128")["cut"]["possible"]
    linear = ask(capsys, "layout", "256", "4", "--cut", "100", "--layout", "linear")
    assert linear["cut"]["possible"]
    never = ask(capsys, "layout", "256", "8", "--cut", "128", "--layout", "deepgemm_packed")["cut"]
    assert never == {"row": 128, "possible": False, "every": None, "nearest": []}


def test_layout_full_table_has_a_limit(capsys: Capture) -> None:
    assert len(ask(capsys, "layout", "65536", "1")["offsets"]) == 65536
    answer = ask(capsys, "layout", "65537", "1", "--at", "65536,0")
    assert answer["offsets"] is None and "65537 cells" in answer["note"]
    assert answer["offset"] == 512 * 512


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["bits"], "expected either a code such as 0x7e, or --value"),
        (["bits", "1", "--value", "1"], "expected either a code"),
        (["bits", "300"], "e4m3 code is 300: expected 0 to 255; the nearest is 255"),
        (["bits", "-1"], "e4m3 code is -1"),
        (["bits", "0x"], "code is '0x': expected 0..255"),
        (["bits", "7e"], "code is '7e'"),
        (["bits", "١"], "expected 0..255"),
        (["bits", "9" * 5000], "expected 0..255"),
        (["bits", "1", "--format", "e4m4"], "did you mean 'e4m3'"),
        (["bits", "--value", "1e400"], "beyond a double"),
        (["bits", "--value", "1_0"], "expected a number"),
        (["bits", "--value", ""], "expected a number"),
        (["bits", "--value", "\ud800\x00\n"], "expected a number"),
        (["bits", "--value", "1" * 10**6], "expected a number"),
        (["bits", "--value", "1", "--rounding", "nearest"], "unknown rounding 'nearest'"),
        (["block"], "expected either --values"),
        (["block", "--values", "1", "--f32-bits", "0"], "expected either --values"),
        (["block", "--values", "1,,2"], "--values[1] is ''"),
        (["block", "--values", "1,x"], "--values[1] is 'x'"),
        (["block", "--values", ",".join("1" * 33)], "a block has 33 values: expected 1 to 32"),
        (["block", "--values", "1e39"], "values[0] is 1e+39: beyond float32"),
        (["block", "--f32-bits", "1234567890"], "expected 1 to 8 hex digits"),
        (["block", "--values", "1", "--rule", "rcel"], "did you mean 'rceil'"),
        (["block", "--values", "1", "--format", "e8m0"], "holds scales"),
        (["block", "--values", "1", "--bogus"], "unrecognized arguments: --bogus"),
        (["rules"], "expected either --amax"),
        (["rules", "--amax", "-449"], "expected a magnitude, 0 or more; the nearest is 449.0"),
        (["rules", "--f32-bits", "0,1"], "--f32-bits has 2 values: expected 1"),
        (["rules", "--amax", "1e39"], "beyond float32"),
        (["layout", "3", "0"], "cols is 0: expected 1 to"),
        (["layout", "-3", "1"], "rows is -3"),
        (["layout", "3.5", "1"], "rows is '3.5': expected a whole number"),
        (["layout", "9" * 5000, "1"], "expected a whole number"),
        (["layout", "3", "2", "--layout", "tile128"], "did you mean 'tile_128x4'"),
        (["layout", "3", "2", "--at", "3,1"], "row is 3: expected 0 to 2"),
        (["layout", "3", "2", "--at", "3"], "expected ROW,COL"),
        (["layout", "3", "2", "--at", "-1,1"], "row is -1"),
        (["layout", "3", "2", "--cut", "3"], "--cut row is 3: expected 1 to 2"),
        (["layout", "3", "2", "--batches", "0"], "batches is 0: expected 1 to"),
        (["layout", "3", "2", "--batches", "2", "--at", "1,1"], "expected BATCH,ROW,COL"),
        (["layout", "3", "2", "--batches", "2", "--at", "2,1,1"], "batch is 2: expected 0 to 1"),
        (["layout", "3", "2", "--offset", "512"], "offset is 512: expected 0 to 511"),
        (["layout", "3", "2", "--page-size", "64"], "takes no parameters: got 'page_size'"),
        (["layout", "3"], "required: cols"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(capsys: Capture, argv: list[str], text: str) -> None:
    assert text in refuse(capsys, *argv)
    assert text in refuse(capsys, *argv, "--json")


def test_the_core_needs_the_standard_library_alone() -> None:
    """Every module and verb of the core runs with NumPy, torch and ml_dtypes out of reach."""
    script = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numpy", "torch", "ml_dtypes", "torchao"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Block())
try:
    import numpy
except ModuleNotFoundError:
    print("blocked")
import mxlab
from mxlab.cli import main
assert mxlab.scale_byte(449.0, "e4m3", rule="rceil") == 128
assert mxlab.quantize_block([1.0]).codes[0] == mxlab.encode(256.0, "e4m3").code
assert mxlab.layout("kv_paged").nbytes(1, 1) == 512 and mxlab.decode(1, "e8m0").power == -126
for argv in (["bits", "1"], ["block", "--values", "1"], ["rules", "--amax", "1"],
             ["layout", "3", "2"]):
    assert main(argv) == 0
print("done", sorted({"numpy", "torch"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "blocked" and lines[-1] == "done []"
