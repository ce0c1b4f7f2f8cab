"""``mxlab compare``: files in, a table, strict JSON and a picture out."""

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from command import Capture, ask, call, refuse
from safetensors.numpy import save_file

from mxlab.profiles import profiles


@pytest.fixture
def npy(tmp_path: Path) -> str:
    x = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)
    path = tmp_path / "weight.npy"
    np.save(path, x)
    return str(path)


def test_rules_and_profiles(capsys: Capture, npy: str) -> None:
    answer = ask(capsys, "compare", npy)
    assert [row["name"] for row in answer["rules"]] == ["floor", "rceil", "ceil", "even"]
    assert [row["name"] for row in answer["profiles"]] == list(profiles())
    assert (answer["shape"], answer["blocks"], answer["sampled_blocks"]) == ([32, 64], 64, 64)
    assert answer["sampled_rules"] == answer["rules"]  # the sample is everything here
    floor, rceil = answer["rules"][:2]
    assert floor["saturated"] > 0 == rceil["saturated"] and floor["sqnr_db"] < rceil["sqnr_db"]
    assert floor["max_error_of_amax"] > 0.1 > rceil["max_error_of_amax"] > 0.03
    text = call(capsys, "compare", npy)[1]
    assert f"{rceil['sqnr_db']:.2f}" in text and "0 blocks hold Inf or NaN (left out" in text
    assert "profiles, on all (the rules on the same blocks first)" in text


def test_choices(capsys: Capture, npy: str) -> None:
    given = ["compare", npy, "--rule", "rceil, floor", "--profile", "deepgemm", "--sample", "9"]
    answer = ask(capsys, *given, "--axis", "0")
    assert [row["name"] for row in answer["rules"]] == ["rceil", "floor"]
    assert [(row["name"], row["blocks"]) for row in answer["profiles"]] == [("deepgemm", 9)]
    assert answer["axis"] == 0 and answer["sampled_rules"][0]["blocks"] == 9
    assert "on 9 blocks" in call(capsys, *given)[1]
    none = ask(capsys, "compare", npy, "--profile", "none", "--format", "e5m2")
    assert none["profiles"] == [] == none["sampled_rules"] and none["format"] == "e5m2"


def test_a_tensor_of_a_checkpoint(capsys: Capture, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((32, 64)).astype(ml_dtypes.bfloat16)
    path = tmp_path / "model.safetensors"
    save_file({"a.weight": x, "codes": np.zeros((2, 32), np.uint8)}, path)
    np.savez(tmp_path / "x.npz", weight=x.astype(np.float32))
    given = ["compare", str(path), "--profile", "none", "--tensor"]
    answer = ask(capsys, *given, "a.weight")
    assert (answer["dtype"], answer["tensor"]) == ("bfloat16", "a.weight")
    folder = ask(capsys, "compare", str(tmp_path), "--profile", "none", "--tensor", "a.weight")
    assert folder["rules"] == answer["rules"]
    npz = ask(capsys, "compare", str(tmp_path / "x.npz"), *given[2:], "weight")
    assert npz["rules"] == answer["rules"]
    assert "did you mean 'a.weight'" in refuse(capsys, *given, "a.wieght")
    assert "'codes' is U8, quantised already" in refuse(capsys, *given, "codes")
    assert "expected --tensor NAME" in refuse(capsys, "compare", str(path))


def test_inf_nan_and_lossless_data_are_strict_json(capsys: Capture, tmp_path: Path) -> None:
    x = np.ones((3, 32), np.float32)
    x[0, 0], x[1, 1] = np.nan, np.inf
    np.save(tmp_path / "x.npy", x)
    answer = ask(capsys, "compare", str(tmp_path / "x.npy"))
    assert (answer["nonfinite_blocks"], answer["blocks"]) == (2, 3)
    assert answer["rules"][0]["sqnr_db"] is None and answer["rules"][0]["blocks"] == 1
    assert "exact" in call(capsys, "compare", str(tmp_path / "x.npy"))[1]
    np.save(tmp_path / "x.npy", x[:1])
    answer = ask(capsys, "compare", str(tmp_path / "x.npy"))
    assert answer["rules"][0]["scale_bytes"] is None
    call(capsys, "compare", str(tmp_path / "x.npy"))


@pytest.mark.parametrize("ending", ["svg", "PNG"])
def test_the_picture(capsys: Capture, npy: str, tmp_path: Path, ending: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"out.{ending}"
    answer = ask(capsys, "compare", npy, "--profile", "deepgemm", "--plot", str(path))
    assert answer["plot"] == str(path)
    data = path.read_bytes()
    if ending == "svg":
        text = data.decode()
        for part in ("rceil", "deepgemm", "SQNR in dB", f"{answer['rules'][1]['sqnr_db']:.2f}"):
            assert part in text
        assert "http://www.w3.org/2000/svg" in text
        ask(capsys, "compare", npy, "--profile", "deepgemm", "--plot", str(path))
        assert path.read_bytes() == data  # the same data, the same file
    else:
        assert data.startswith(b"\x89PNG")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([path.name, "weight.npy"])


def test_odd_names_in_the_picture(capsys: Capture, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    odd = tmp_path / "$x^{2}$ 漢字\n<b>.npy"
    np.save(odd, np.ones((1, 32), np.float32))
    out = str(tmp_path / "o.svg")
    ask(capsys, "compare", str(odd), "--profile", "none", "--plot", out)
    assert "<b>" not in Path(out).read_text()


def test_no_matplotlib_is_one_line(
    capsys: Capture, npy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "--plot needs matplotlib" in refuse(capsys, "compare", npy, "--plot", "x.svg")


def test_bad_input_is_one_line(capsys: Capture, npy: str, tmp_path: Path) -> None:
    np.save(tmp_path / "k40.npy", np.ones((2, 40), np.float32))
    np.save(tmp_path / "o.npy", np.array([{}], object), allow_pickle=True)
    cases: list[tuple[list[Any], str]] = [
        ([tmp_path / "k40.npy"], "expected a multiple of 32 (40 % 32 = 8); with pad, 24 zeros"),
        ([tmp_path / "o.npy"], "holds pickled objects"),
        ([tmp_path / "none.npy"], "No such file"),
        ([npy, "--tensor", "a"], "a .npy file holds one array"),
        ([npy, "--rule", "rceil,flor"], "unknown rule 'flor'"),
        ([npy, "--profile", "torch"], "unknown profile 'torch'"),
        ([npy, "--axis", "2"], "axis is 2: expected -2 to 1"),
        ([npy, "--axis", "9" * 40], "--axis is"),
        ([npy, "--sample", "0"], "sample is 0"),
        ([npy, "--format", "e3"], "'e3'"),
        ([npy, "--plot", "out.pdf"], "expected a name that ends in .svg or .png"),
        ([npy, "--plot", tmp_path / "no" / "x.svg"], "expected a file in a folder that exists"),
        ([npy, "--plot", "x\0.svg"], "expected a"),
        ([__file__], "holds many tensors: expected --tensor NAME"),
        ([__file__, "--tensor", "a"], "test_cli_compare.py"),
    ]
    for argv, text in cases:
        assert text in refuse(capsys, "compare", *map(str, argv)), argv
    padded = ask(capsys, "compare", str(tmp_path / "k40.npy"), "--pad", "--profile", "none")
    assert (padded["padded"], padded["blocks"]) == (24, 4)
