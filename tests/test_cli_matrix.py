"""``mxlab matrix``: JSON, CSV, and a table that fits 100 columns."""

import csv
import io
import re

import pytest
from command import Capture, ask, call, refuse

from mxlab.cli.matrix import WORDS
from mxlab.matrix import GPUS, matrix


def test_json_is_flat(capsys: Capture) -> None:
    answer = ask(capsys, "matrix", "2880", "2880", "--gpu", "b200,gb10", "--m", "6")
    assert (answer["m"], answer["n"], answer["k"]) == (6, 2880, 2880)
    rows = answer["rows"]
    assert rows == [c.to_json() for c in matrix(2880, 2880, m=6, gpus=["b200", "gb10"])]
    one = next(r for r in rows if (r["backend"], r["gpu"]) == ("b12x", "gb10"))
    assert one["status"] == "stops"
    assert one["guard"] == "fi-mm-b12x"
    assert "K = 2880 % 128 = 64" in one["because"]


def test_csv_holds_every_cell(capsys: Capture) -> None:
    code, out, err = call(capsys, "matrix", "2880", "2880", "--system", "flashinfer", "--csv")
    assert (code, err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(out)))
    cells = matrix(2880, 2880, systems=["flashinfer"])
    assert len(rows) == len(cells) == 7 * len(GPUS)
    for row, cell in zip(rows, cells, strict=True):
        assert (row["backend"], row["gpu"]) == (cell.row.backend, cell.gpu)
        assert (row["status"], row["guard"]) == (cell.status.value, cell.guard)
        assert row["because"] == cell.because


@pytest.mark.parametrize("sizes", [("2880", "2880"), ("520", "584"), ("128", "128"), ("7", "5")])
def test_the_table_fits_and_every_number_is_explained(
    capsys: Capture, sizes: tuple[str, str]
) -> None:
    _, out, _ = call(capsys, "matrix", *sizes)
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    end = lines.index("")  # after the title
    table = lines[end + 1 : lines.index("", end + 1)]
    assert table[0].split() == list(GPUS)
    words = "|".join(re.escape(word) for word in WORDS.values())
    used: set[str] = set()
    for line in table[1:]:
        if line.startswith("  "):
            found = re.findall(rf"(?<!\S)({words})(\d*)(?!\S)", line)
            assert len(found) == len(GPUS), line
            used |= {f"{number} {word}" for word, number in found if word != "ok"}
    explained = {
        f"{m[1]} {m[2]}" for line in lines if (m := re.match(rf" ?(\d+) ({words})  \S", line))
    }
    assert used == explained
    assert used


def test_many_gpus_are_cut_into_blocks(capsys: Capture) -> None:
    names = "t4,a100,a10,l4,l40s,rtx4090,h100,h20,h200,gh200,b200,gb200,b300,gb300,thor,rtx5090"
    _, out, _ = call(capsys, "matrix", "2880", "2880", "--gpu", names, "--system", "flashinfer")
    assert max(map(len, out.splitlines())) <= 100
    heads = [line.split() for line in out.splitlines() if line.startswith("      ")]
    assert [name for head in heads for name in head if name in names.split(",")] == names.split(",")
    assert out.count("FlashInfer 0.7.2, mm_mxfp8\n") == len(heads) >= 2


def test_rows_that_say_the_same_are_folded(capsys: Capture) -> None:
    _, out, _ = call(capsys, "matrix", "2880", "2880", "--gpu", "a100", "--system", "sglang")
    assert "auto +8" in out
    assert "SGLang auto +8: also deep_gemm, flashinfer_trtllm" in out
    names = {c.row.backend for c in matrix(2880, 2880, gpus=["a100"], systems=["sglang"])}
    assert all(name in out for name in names)


def test_the_exit_code_says_whether_anything_runs(capsys: Capture) -> None:
    asked = ("matrix", "2880", "2880", "--system", "flashinfer", "--gpu")
    assert call(capsys, *asked, "a100")[0] == 1
    assert call(capsys, *asked, "a100,b200")[0] == 0


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("2880",), "required: k"),
        (("2880", "x"), "invalid int value"),
        (("0", "128"), "n is 0: expected 1 to"),
        (("128", "9" * 5000), ""),
        (("128", "128", "--gpu", "b20O"), "did you mean 'b200'"),
        (("128", "128", "--gpu", ""), "unknown GPU ''"),
        (("128", "128", "--gpu", "\x00,b200"), "unknown GPU"),
        (("128", "128", "--system", "deepgem"), "did you mean 'deepgemm'"),
        (("128", "128", "--system", "deepgemm@9"), "54e2261"),
        (("128", "128", "--cuda", "thirteen"), "MAJOR.MINOR"),
        (("128", "128", "--m", "-1"), "m is -1"),
        (("128", "128", "--gpu", "b200," * 100), "101 GPUs: expected 1 to 64"),
    ],
)
def test_bad_input(capsys: Capture, argv: tuple[str, ...], text: str) -> None:
    assert text in refuse(capsys, "matrix", *argv)
