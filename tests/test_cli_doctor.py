"""``mxlab doctor`` as a person and as a script calls it, bad input included."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import Capture, ask, call, refuse

MODELS = Path(__file__).parent / "data/models"
LLAMA = json.loads((MODELS / "Llama-3.1-8B.json").read_text())
ISSUE = ("--gpu", "h200", "--tp", "8", "--quantization", "mxfp8", "--fp8-gemm-backend", "deep_gemm")


def test_the_text_has_the_first_stop_on_top_and_a_row_for_each_linear(capsys: Capture) -> None:
    code, out, err = call(capsys, "doctor", str(MODELS / "Llama-3.1-8B.json"), *ISSUE)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    stop = next(i for i, line in enumerate(lines) if line.startswith("STOPS in S3"))
    table = next(i for i, line in enumerate(lines) if line.startswith("layer "))
    assert stop < table and "cfg-min-capability" in lines[stop]
    assert lines[table].split() == ["layer", "layers", "N", "K", "verdict", "because"]
    rows = [line.split()[:4] for line in lines[table + 1 : table + 6]]
    assert rows[3] == ["down_proj", "32", "4096", "1792"]


def test_the_json_is_the_contract_s(capsys: Capture) -> None:
    answer = ask(capsys, "doctor", "Llama-3.1-8B", *ISSUE, code=1)
    wanted = {"deployment", "outcome", "first_stop", "layers", "kv_cache", "moe", "suggestions"}
    assert wanted <= answer.keys()
    verdict = answer["layers"][0]["verdicts"][0]
    assert set(verdict) == {
        *("guard", "system", "version", "status", "stage"),
        *("message", "because", "fixes", "source"),
    }
    assert answer["kv_cache"]["head_dim"] == 128
    assert answer["deployment"]["gpu"] == "h200"


def test_packages_environment_and_toolkit_reach_the_guards(capsys: Capture) -> None:
    base = ("doctor", "Llama-3.1-8B", "--gpu", "b200", "--quantization", "mxfp8")
    assert ask(capsys, *base)["outcome"] == "runs"
    bare = ask(capsys, *base, "--without", "flashinfer", "--without", "deep_gemm", code=1)
    assert bare["first_stop"]["guard"] == "fwd-unsupported"
    old = ask(
        capsys, *base, "--fp8-gemm-backend", "flashinfer_cutlass", "--toolkit", "12.4", code=1
    )
    assert old["first_stop"]["guard"] == "res-cutlass"
    off = ("--fp8-gemm-backend", "deep_gemm", "--env", "SGLANG_ENABLE_JIT_DEEPGEMM=0")
    assert ask(capsys, *base, *off, code=1)["first_stop"]["guard"] == "res-deepgemm"


def test_an_unknown_model_is_answered_not_guessed(capsys: Capture, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"architectures": ["NoSuchForCausalLM"], "num_hidden_layers": 4}))
    answer = ask(capsys, "doctor", str(config), "--gpu", "b200")
    assert answer["outcome"] == "unknown" and answer["layers"] == []
    assert any("layers 0-3" in line for line in answer["unknown"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{not json", "JSON"),
        ("[1, 2]", "list"),
        ("", "empty"),
        ("null", "null"),
        ("{}", "architectures"),
        (json.dumps({**LLAMA, "hidden_size": None}), "hidden_size"),
        (json.dumps({k: v for k, v in LLAMA.items() if k != "hidden_size"}), "hidden_size"),
        (json.dumps({**LLAMA, "hidden_size": "4096"}), "hidden_size"),
        (json.dumps({**LLAMA, "hidden_size": -4096}), "-4096"),
        (json.dumps({**LLAMA, "intermediate_size": 0}), "intermediate_size"),
        (json.dumps({**LLAMA, "vocab_size": 1.5}), "vocab_size"),
        (json.dumps({**LLAMA, "num_hidden_layers": 10**9}), "num_hidden_layers"),
        (json.dumps({**LLAMA, "hidden_size": 10**400}), "hidden_size"),
        (json.dumps({**LLAMA, "quantization_config": [1]}), "quantization_config"),
        (json.dumps({**LLAMA, "quantization_config": {"quant_method": 8}}), "quant_method"),
        ('{"a":' * 100_000, "nest"),
    ],
)
def test_a_config_that_cannot_be_used(
    capsys: Capture, tmp_path: Path, text: str, said: str
) -> None:
    config = tmp_path / "config.json"
    config.write_text(text)
    assert said in refuse(capsys, "doctor", str(config), *ISSUE)


def test_a_config_of_100_mb_is_refused_unread(capsys: Capture, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    with config.open("wb") as file:
        file.truncate(100_000_000)
    assert "MB" in refuse(capsys, "doctor", str(config))


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--gpu", "h2000"], "h200"),
        (["--fp8-gemm-backend", "deepgemm"], "deep_gemm"),
        (["--moe-runner-backend", "tritn"], "triton"),
        (["--kv-cache-dtype", "mxfp9"], "mxfp8"),
        (["--attention-backend", "fa5"], "fa4"),
        (["--quantization", "mxfp7"], "mxfp8"),
        (["--dtype", "bfloat"], "bfloat16"),
        (["--without", "flashinfr"], "flashinfer"),
        (["--with", "deepgem"], "deep_gemm"),
        (["--system", "sglng"], "sglang"),
        (["--system", "sglang@9.9"], "0.5.23"),
        (["--tp", "0"], "nearest is 1"),
        (["--tp", "-8"], "nearest is 1"),
        (["--tp", "eight"], "eight"),
        (["--tp", "8", "--ep", "3"], "nearest is 2"),
        (["--page-size", "0"], "nearest is 1"),
        (["--env", "NOVALUE"], "NAME=VALUE"),
        (["--toolkit", "new"], "new"),
        (["--format", "htlm"], "'html'"),
        (["--format", "csv", "--json"], "--json"),
        (["--output", "report.pdf"], ".html"),
        (["--output", ""], "format"),
        (["--output", "/no/such/folder/x.html"], "No such file"),
        (["--output", "x\x00.html"], "expected a file name"),
        (["--sweep", "tp"], "no file, folder or shipped model 'tp'"),
        (["--sweep", "Llama-3.1-70B"], "no axis"),
        (["--sweep", "tp=1,2", "gpus=b200"], "did you mean 'gpu'"),
        (["--sweep", "tp=1,2", "gpu=b200", "tp=4"], "tp twice"),
        (["--sweep", "tp=all", "gpu=all", "backend=all", "moe=all"], "at most 5,000"),
        (["--sweep", "tp=1,2", "--tp", "0"], "nearest is 1"),
        (["--linear", "64", "64"], "both given"),
        (["--set", "attn-dp=2"], "did you mean 'attn-dp-size'"),
        (["--set", "attn-dp-size"], "NAME=VALUE"),
        (["--set", "attn-dp-size=two"], "'two'"),
        (["--set", "is-embedding=maybe"], "true"),
        (["--attn-dp-size", "0"], "nearest is 1"),
    ],
)
def test_flags_that_no_launch_could_have(capsys: Capture, argv: list[str], said: Any) -> None:
    assert said in refuse(capsys, "doctor", "Llama-3.1-8B", *argv)


def test_a_name_that_is_no_file_offers_the_nearest_models(capsys: Capture) -> None:
    assert "Llama-3.1-8B" in refuse(capsys, "doctor", "Llama-3.1-8b-instruct")


def test_a_tp_that_does_not_divide_the_heads_is_an_answer(capsys: Capture) -> None:
    answer = ask(capsys, "doctor", "Llama-3.1-8B", "--gpu", "b200", "--tp", "3", code=1)
    assert answer["first_stop"]["because"] == "num_attention_heads=32 not divisible by 3"
    assert "1, 2, 4, 8, 16" in answer["first_stop"]["fixes"][0]


def test_an_empty_name_is_not_the_current_folder(capsys: Capture) -> None:
    assert "Llama-3.1-8B" in refuse(capsys, "doctor", "")


GRID = ("tp=1,2,4,8,16", "gpu=h100,h200,b200,rtx5090,mi300x,mi355x")


def test_the_sweep_of_the_issue(capsys: Capture) -> None:
    flags = ("doctor", "Qwen2.5-72B-Instruct", "--quantization", "mxfp8", "--sweep", *GRID)
    code, out, err = call(capsys, *flags)
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert lines[1] == ["tp", "h100", "h200", "b200", "rtx5090", "mi300x", "mi355x"]
    assert lines[2][:3] == ["1", "S3", "[1]"] and "runs" in lines[2]
    assert "[1] S3 cfg-min-capability" in out and "K = 3696 % 32 = 16" in out
    assert out.splitlines()[-1].startswith("30 cells: ")
    answer = ask(capsys, *flags)
    assert answer["axes"]["tp"] == [1, 2, 4, 8, 16] and len(answer["cells"]) == 30
    assert sum(answer["counts"].values()) == 30
    cell = next(row for row in answer["cells"] if (row["tp"], row["gpu"]) == (8, "b200"))
    assert (cell["outcome"], cell["where"], cell["guard"]) == ("stops", "down_proj", "lin-tp-row")
    assert cell["when"] == "dies while the model is built, before reading a weight"


def test_a_sweep_in_which_nothing_runs_is_a_stop(capsys: Capture) -> None:
    flags = ("--quantization", "mxfp8", "--gpu", "h200", "--sweep", "tp=1,2")
    assert ask(capsys, "doctor", "Llama-3.1-8B", *flags, code=1)["nothing_runs"] == ["Llama-3.1-8B"]


def test_several_models_are_answered_one_by_one(capsys: Capture, tmp_path: Path) -> None:
    for name in ("Llama-3.1-8B", "phi-4"):
        (tmp_path / f"{name}.json").write_text((MODELS / f"{name}.json").read_text())
    flags = ("--gpu", "b200", "--tp", "8")
    answer = ask(capsys, "doctor", str(tmp_path), *flags, code=1)
    assert [(row["config"], row["outcome"]) for row in answer["reports"]] == [
        ("Llama-3.1-8B", "runs"),
        ("phi-4", "stops"),
    ]
    two = ask(capsys, "doctor", "Llama-3.1-8B", "Qwen3-8B", "--gpu", "b200")
    assert [row["config"] for row in two["reports"]] == ["Llama-3.1-8B", "Qwen3-8B"]
    grid = ask(capsys, "doctor", str(tmp_path), "--gpu", "b200", "--sweep", "tp=1,8", code=0)
    assert [cell["outcome"] for cell in grid["cells"]] == ["runs", "runs", "runs", "stops"]
    (tmp_path / "third.json").write_text("{not json")
    assert "'third'" in refuse(capsys, "doctor", str(tmp_path), *flags)


@pytest.mark.parametrize(
    ("name", "form", "start"),
    [
        ("report.html", None, "<!doctype html>"),
        ("report.csv", None, "model,system,version,gpu"),
        ("report.xml", None, "<?xml"),
        ("report.json", None, "{"),
        ("report.txt", None, "Llama-3.1-8B: llama"),
        ("report", "junit", "<?xml"),
        ("report.txt", "csv", "model,"),
    ],
)
@pytest.mark.parametrize("sweep", [(), ("--sweep", "tp=1,8")])
def test_the_file_holds_what_the_format_prints(
    capsys: Capture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    form: str | None,
    start: str,
    sweep: tuple[str, ...],
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    suffix = {".html": "html", ".csv": "csv", ".xml": "junit", ".json": "json", ".txt": "table"}
    shape = form or suffix[Path(name).suffix]
    base = ("doctor", "Llama-3.1-8B", "--gpu", "b200", *sweep)
    path = tmp_path / ("long" * 25) / name  # the line below it names it whole
    path.parent.mkdir()
    extra = ("--format", form) if form else ()
    code, out, err = call(capsys, *base, *extra, "--output", str(path))
    assert (code, err) == (0, "") and out.startswith(f"wrote '{path}'") and out.count("\n") == 2
    written = path.read_text()
    code, printed, err = call(capsys, *base, "--format", shape)
    assert (code, err) == (0, "")
    if shape in ("html", "junit"):  # they name the command, which is another
        assert len(printed.splitlines()) == len(written.splitlines())
    else:
        assert printed == written
    assert sweep or written.startswith(start)
    assert list(path.parent.iterdir()) == [path]


def test_a_report_of_a_model_that_stops_exits_with_1_in_every_format(
    capsys: Capture, tmp_path: Path
) -> None:
    for form in ("table", "json", "csv", "html", "junit"):
        assert call(capsys, "doctor", "Llama-3.1-8B", *ISSUE, "--format", form)[0] == 1
        place = tmp_path / f"report.{form}"
        argv = ("--format", form, "--output", str(place))
        assert call(capsys, "doctor", "Llama-3.1-8B", *ISSUE, *argv)[0] == 1
        assert place.stat().st_size > 500


def test_bad_input_leaves_the_old_report_as_it_was(capsys: Capture, tmp_path: Path) -> None:
    place = tmp_path / "report.html"
    place.write_text("old")
    refuse(capsys, "doctor", "Llama-3.1-8B", "--tp", "0", "--output", str(place))
    refuse(capsys, "doctor", "no-such-model", "--output", str(place))
    assert place.read_text() == "old"


def test_typed_linears_need_no_config(capsys: Capture) -> None:
    flags = ("--gpu", "b200", "--tp", "8", "--quantization", "mxfp8")
    answer = ask(capsys, "doctor", "--linear", "down_proj", "8192", "29568", *flags, code=1)
    assert answer["first_stop"]["guard"] == "lin-tp-row"
    both = ("--linear", "2880", "2880", "--linear", "o_proj", "2880", "4096")
    names = [row["linear"] for row in ask(capsys, "doctor", *both, *flags)["layers"]]
    assert names == ["linear1", "o_proj"]


def test_hostile_names_reach_no_terminal_raw(capsys: Capture, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    name = "Llama\x1b[31m\ud800\u202eForCausalLM"
    config.write_text(json.dumps({**LLAMA, "architectures": [name]}))
    for form in ("table", "csv", "html", "junit"):
        code, out, err = call(capsys, "doctor", str(config), "--gpu", "b200", "--format", form)
        assert (code, err) == (0, "")
        assert not set("\x1b\ud800\u202e") & set(out)


def test_a_version_of_the_system_is_asked(capsys: Capture) -> None:
    base = ("doctor", "Qwen2.5-72B-Instruct", "--gpu", "b200", "--tp", "8")
    flags = (*base, "--quantization", "mxfp8", "--system", "sglang@0132848349")
    answer = ask(capsys, *flags, code=1)
    assert answer["first_stop"]["version"] == "0132848349"
    assert "SGLang 0132848349" in call(capsys, *flags)[1]


def test_the_order_of_flags_and_models_does_not_matter(capsys: Capture) -> None:
    first = ask(capsys, "doctor", "--gpu", "b200", "--tp", "2", "Llama-3.1-8B")
    last = ask(capsys, "doctor", "Llama-3.1-8B", "--tp", "2", "--gpu", "b200")
    assert first == last


def test_data_parallel_attention_changes_the_shapes(capsys: Capture) -> None:
    base = ("doctor", "DeepSeek-V3", "--gpu", "b200", "--tp", "8")
    rows = {
        flags: {row["linear"]: row["k"] for row in ask(capsys, *base, *flags)["layers"]}
        for flags in ((), ("--attn-dp-size", "8"), ("--set", "attn-dp-size=8"))
    }
    split, whole, again = rows.values()
    assert whole == again and whole["o_proj"] == 8 * split["o_proj"]
    assert whole["down_proj"] == split["down_proj"]


def test_a_kernel_that_is_gone_is_no_reason(capsys: Capture) -> None:
    code, out, _ = call(capsys, "doctor", "MiniMax-M3-MXFP8", "--gpu", "b200", "--tp", "8")
    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("down_proj"))
    assert row.endswith("K = 1536 % 32 = 0, the weight is float8_e4m3fn")


def test_the_rows_of_a_librarys_call(capsys: Capture) -> None:
    base = ("doctor", "Qwen3-8B", "--gpu", "b200", "--tp", "4")
    other = ("--system", "transformer_engine")
    code, out, _ = call(capsys, *base, *other)
    assert code == 0 and "Transformer Engine 2.20.2, M = 128\n" in out
    code, out, _ = call(capsys, *base, *other, "--m", "16")
    assert code == 1 and "rows = 16 % 32 = 16" in out
    code, out, err = call(capsys, *base, "--m", "16")
    assert (code, out) == (2, "") and err.startswith("mxlab: --m is 16: no guard of SGLang")
    code, out, err = call(capsys, *base, *other, "--m", "-1")
    assert (code, out) == (2, "") and "the nearest is 1" in err
