"""Will it run?, of a whole model: the view is what doctor, suggestions and matrix say."""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mxlab import Deployment, doctor
from mxlab.cli import main
from mxlab.diagnosis import Report
from mxlab.errors import InputError
from mxlab.examiner import Examiner
from mxlab.explorers import answer, drawn, explorer, will_it_run_model
from mxlab.explorers.controls import State
from mxlab.guards.values import MOE_RUNNER_BACKEND
from mxlab.matrix import GPUS, matrix
from mxlab.models import shipped_models
from mxlab.models.shipped import shipped_config
from mxlab.suggest import suggestions

RECORD = explorer("will_it_run")
CALM: dict[str, object] = {
    "gpu": "b200", "backend": "auto", "kv_dtype": "auto", "attention": "auto", "page_size": 128,
}  # fmt: skip


def view(**state: object) -> dict[str, Any]:
    result = json.loads(answer("will_it_run", json.dumps({**CALM, **state})))
    assert "error" not in result, result
    found: dict[str, Any] = result["view"]
    return found


def error(**state: object) -> str:
    result = json.loads(answer("will_it_run", json.dumps({**CALM, **state})))
    assert "view" not in result, "a view where an error was expected"
    return str(result["error"])


def panel(name: str, shown: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(p for p in shown["panels"] if p["id"] == name)
    return found


def items(name: str, shown: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for run in panel(name, shown)["runs"] for item in run["items"]]


def states(count: int) -> Iterator[tuple[dict[str, object], Deployment]]:
    """Random launches of shipped models, and the deployment that each describes."""
    chance = random.Random(7)
    for number in range(count):
        tp = chance.choice((1, 2, 4, 8, 16))
        state: dict[str, object] = {
            "config": shipped_models()[number % len(shipped_models())],
            "gpu": chance.choice(("h200", "b200", "b300", "rtx5090", "mi355x")),
            "backend": chance.choice(("auto", "deep_gemm", "triton", "flashinfer_cutlass")),
            "moe": chance.choice(MOE_RUNNER_BACKEND[:8]),
            "tp": tp,
            "ep": chance.choice([n for n in (1, 2, 4) if tp % n == 0]),
            "quantization": chance.choice(("mxfp8", "mxfp8", "none")),
            "kv_dtype": chance.choice(("auto", "auto", "mxfp8", "fp8_e4m3")),
            "page_size": chance.choice((0, 64, 128)),
            "packages": chance.choice(("both", "both", "neither")),
        }
        quantization = None if state["quantization"] == "none" else "mxfp8"
        yield (
            state,
            Deployment(
                gpu=str(state["gpu"]),
                tp=tp,
                ep=int(str(state["ep"])),
                quantization=quantization,
                fp8_gemm_backend=str(state["backend"]),
                moe_runner_backend=str(state["moe"]),
                kv_cache_dtype=str(state["kv_dtype"]),
                page_size=int(str(state["page_size"])) or None,
                packages=frozenset({"flashinfer", "deep_gemm"})
                if state["packages"] == "both"
                else frozenset(),
            ),
        )


def report_of(state: dict[str, object], where: Deployment) -> Report:
    return doctor(str(state["config"]), where, suggest=False)


def test_the_answer_the_order_and_the_layers_are_the_doctors() -> None:
    outcomes, verdicts = set(), set()
    for state, where in states(64):
        report, shown = report_of(state, where), view(**state)
        outcomes.add(report.outcome)
        stops = [item for item in items("order", shown) if item["status"] == "stops"] if any(
            p["id"] == "order" for p in shown["panels"]
        ) else []  # fmt: skip
        assert [
            (s.verdict.guard, s.verdict.because, ", ".join(s.where), s.dies.when)
            for s in report.stops()
        ] == [
            (i["name"], i["because"], dict(i["notes"])["at"], dict(i["notes"])["when"])
            for i in stops
        ]
        assert (shown["status"] == "stops") == (report.outcome == "stops")
        if report.first_stop and report.dies:
            stop = report.first_stop[1]
            assert f"Stops at {stop.stage} (" in shown["answer"]
            assert stop.guard in shown["answer"] and stop.because in shown["answer"]
            assert report.dies.when in shown["answer"]
        elif report.outcome == "runs":
            assert shown["status"] == "passes" and shown["answer"].startswith("Runs: all ")
        elif report.outcome == "unknown":
            assert shown["status"] == "unknown"
        else:
            assert shown["status"] in ("silent", "falls-back", "warns")
        grid = panel("layers", shown)
        assert grid["rows"] == [layer.linear.linear for layer in report.layers]
        for texts, layer in zip(grid["text"], report.layers, strict=True):
            worst, row = layer.worst, layer.linear
            if worst:
                assert texts[0].endswith(worst.status.value.replace("-", " ")) or (
                    worst.status.value == "unknown"
                )
                assert texts[1] == worst.guard
                verdicts.add(worst.status.value)
            assert texts[2:4] == (
                ["none", "none"] if row.n is None else [f"{row.n:,}", f"{row.k:,}"]
            )
            assert texts[4] == f"{layer.coverage.layers} of {row.layers}"
    assert outcomes >= {"stops", "runs", "runs-degraded"} and "stops" in verdicts


def test_the_guards_are_those_of_the_server_the_layer_and_the_cache() -> None:
    for state, where in states(16):
        report = report_of(state, where)
        for layer in report.layers[:3]:
            shown = items("guards", view(**state, layer=layer.linear.linear))
            expected = [*report.server, *layer.verdicts, *report.kv_cache]
            assert sorted((i["name"], i["status"]) for i in shown) == sorted(
                (v.guard, v.status.value) for v in expected
            )
            assert len(expected) > 10
            stages = [item["stage"] for item in shown]
            assert stages == sorted(stages)


def test_a_click_on_a_layer_shows_it_and_a_name_that_is_not_there_shows_the_first_stop() -> None:
    state: dict[str, object] = {"config": "Qwen2.5-72B-Instruct", "tp": 8}
    grid = panel("layers", view(**state))
    assert grid["sets"] == "layer"
    assert [grid["rows"][r] for r, _ in grid["chosen"]] == ["down_proj"] * 6
    for r, name in enumerate(grid["rows"]):
        assert set(grid["values"][r]) == {name}
        shown = view(**state, layer=name)
        assert {r for r, _ in panel("layers", shown)["chosen"]} == {r}
        assert panel("guards", shown)["title"].startswith(f"Guards of {name} ")
    for name in ("nonsense", "", "</script>", "down_proj ", "x" * 10_000):
        assert panel("layers", view(**state, layer=name)) == grid


def test_a_model_at_the_start_is_asked_nothing_about_a_cache_that_nobody_asked_for() -> None:
    stopped = 0
    for name in shipped_models():
        for gpu in ("h200", "b200"):
            result = json.loads(answer("will_it_run", json.dumps({"config": name, "gpu": gpu})))
            shown = items("guards", result["view"])
            spoken = {item["name"] for item in shown if item["status"] in ("stops", "warns")}
            # where SGLang chooses FA4 by itself, it says that it chooses the page, too
            assert {g for g in spoken if g.startswith(("kv-", "fa4-"))} <= {"kv-fa4-page"}, name
            stopped += "Stops" in result["view"]["answer"]
    assert stopped > 10


def test_where_the_server_stops_first_the_layer_shown_is_one_that_stops() -> None:
    shown = view(config="Qwen3-30B-A3B", gpu="h200", backend="deep_gemm", tp=8)
    assert "cfg-min-capability" in shown["answer"]  # of the server, not of a layer
    grid = panel("layers", shown)
    chosen = {grid["rows"][r] for r, _ in grid["chosen"]}
    assert chosen == {"experts.w13"}
    assert any("stops" in grid["text"][r][0] for r, _ in grid["chosen"])
    assert "stops" not in grid["text"][0][0], "the first layer listed does not stop"


def test_the_smallest_changes_are_searched_for_only_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state: dict[str, object] = {"config": "Qwen2.5-72B-Instruct", "tp": 8}
    where = Deployment(gpu="b200", tp=8, quantization="mxfp8", page_size=128)
    examiner = Examiner(shipped_config("Qwen2.5-72B-Instruct"))
    expected = suggestions(examiner, examiner.evaluate(where))
    assert len(expected) >= 3
    shown = panel("suggestions", view(**state, suggest="yes"))
    rows = [row for row in shown["rows"] if row[0].isdigit()]
    for row, one in zip(rows, expected, strict=True):
        changes = " and ".join(one["changes"])
        assert row[1] == one["outcome"] and row[2].startswith(f"{changes}. Cost: ")
        assert changes in shown["alt"]
    with monkeypatch.context() as patch:
        patch.setattr(will_it_run_model, "suggestions", lambda *_: pytest.fail("searched"))
        assert not [p for p in view(**state)["panels"] if p["id"] == "suggestions"]
        view(**{**state, "tp": 4}, suggest="yes")  # nothing stops: nothing to search


def test_a_search_that_is_cut_short_says_so() -> None:
    state: dict[str, object] = {"config": "phi-4", "gpu": "h200", "tp": 8, "suggest": "yes"}
    rows = panel("suggestions", view(**state))["rows"]
    name, trials, how = rows[-1]
    assert name == "trials" and 30 <= int(trials) < 400 and "mxlab doctor tries up to 400" in how


@pytest.mark.parametrize(("asked", "systems"), [("sglang", ["sglang"]), ("all", None)])
def test_the_matrix_is_the_matrix_of_the_layer_shown(asked: str, systems: list[str] | None) -> None:
    state = {"config": "gpt-oss-120b", "tp": 8, "layer": "o_proj", "matrix": asked}
    shown = view(**state)
    layers = panel("layers", shown)
    n, k = (int(layers["text"][layers["rows"].index("o_proj")][c].replace(",", "")) for c in (2, 3))
    cells = matrix(n, k, systems=systems)
    grid, reasons = panel("matrix", shown), panel("reasons", shown)
    assert f"({n:,}, {k:,})" in grid["title"] and grid["columns"] == list(GPUS)
    flat = [text for row in grid["text"] for text in row]
    assert len(flat) == len(cells) > 70
    words = {"falls-back": "falls back", "unknown": "not known", "passes": "runs"}
    numbered = {row[0].split(" ", 1)[0]: row for row in reasons["rows"]}
    for text, cell, tone in zip(
        flat, cells, [tone for row in grid["tone"] for tone in row], strict=True
    ):
        word = words.get(cell.status.value, cell.status.value)
        assert text[2:].startswith(word) and grid["legend"][tone] == word
        if cell.status.value == "passes":
            continue
        reason = numbered[text.rsplit(" ", 1)[1]]
        assert reason[0].endswith(f" {cell.guard}") and reason[1] == word
        assert cell.gpu in reason[2]
    places = [place for row in grid["values"] for place in row]
    assert grid["sets"] == "backend gpu"
    mine = [f"{c.row.backend} {c.gpu}" if c.row.system == "sglang" else None for c in cells]
    assert places == mine
    chosen = [(grid["rows"][r], grid["columns"][c]) for r, c in grid["chosen"]]
    assert len(chosen) == 1 and chosen[0][1] == "b200" and chosen[0][0].endswith("auto")
    typed = view(config="layer", n=n, k=k, split="replicated", matrix=asked)
    assert panel("matrix", typed)["text"] == grid["text"]


def test_a_pasted_config_is_the_shipped_one() -> None:
    for name in ("Llama-3.1-8B", "DeepSeek-V3", "gpt-oss-120b"):
        text = json.dumps(shipped_config(name), indent=2)
        shipped = view(config=name, tp=8, kv_dtype="mxfp8")
        pasted = view(config="pasted", config_json=text, tp=8, kv_dtype="mxfp8")
        assert pasted["panels"] == shipped["panels"] and pasted["answer"] == shipped["answer"]
        assert " config.json " in pasted["cli"] and f" {name} " in shipped["cli"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the box is empty"),
        (" \n", "the box is empty"),
        ("{", "is not JSON"),
        ("[]", "expected a JSON object"),
        ("7", "expected a JSON object"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1, "a": 2}', "twice"),
        ("[" * 400_000, "nests too deep"),
        ('{"a": ' + "9" * 9000 + "}", "digits"),
        ('{"a": "\ud800"}', "neither architectures nor model_type"),
        ('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}', "hidden_size"),
        (
            '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": -1, '
            '"intermediate_size": 1, "num_hidden_layers": 1, "num_attention_heads": 1, '
            '"vocab_size": 1}',
            "hidden_size is -1: expected a whole number 1..16777216; the nearest is 1",
        ),
        ('{"quantization_config": {"quant_method": "mxfp8", "weight_block_size": [0, 0]}}', ""),
        ('{"architectures": [{}], "model_type": []}', ""),
        ("{" + ",".join(f'"k{n}": {n}' for n in range(60_000)) + "}", ""),
    ],
)
def test_what_is_no_config_is_one_sentence(text: str, said: str) -> None:
    start = time.monotonic()
    result = json.loads(
        answer("will_it_run", json.dumps({"config": "pasted", "config_json": text}))
    )
    assert time.monotonic() - start < 2
    shown = result.get("error") or result["view"]["answer"]
    assert said in shown and "fault in mxlab" not in shown and "\n" not in shown


def test_no_path_is_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(shipped_config("phi-4")))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Llama-3.1-8B").write_text("{}")  # a file of a model's name
    assert "LlamaForCausalLM" in json.dumps(view(config="Llama-3.1-8B")["panels"])
    assert "is not JSON" in error(config="pasted", config_json="config.json")


def test_an_ep_that_does_not_divide_is_a_sentence() -> None:
    assert error(config="Mixtral-8x7B", tp=4, ep=3) == (
        "ep is 3: expected a divisor of tp = 4; the nearest is 2"
    )


def test_what_no_recipe_knows_is_not_known() -> None:
    shown = view(config="pasted", config_json='{"architectures": ["Foo"], "model_type": "foo"}')
    assert shown["status"] == "unknown" and "no recipe for 'Foo'" in shown["answer"]


def test_the_command_and_the_python_say_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, (state, where) in enumerate(states(16)):
        report = report_of(state, where)
        if number % 2:
            (tmp_path / "config.json").write_text(json.dumps(shipped_config(str(state["config"]))))
            text = (tmp_path / "config.json").read_text()
            state = {**state, "config": "pasted", "config_json": text}
        shown = view(**state)
        code = main([*shown["cli"].split()[1:], "--json"])
        printed = json.loads(capsys.readouterr().out)
        assert code == int(shown["status"] == "stops")
        assert printed["outcome"] == report.outcome
        guards = [entry["guard"] for entry in printed["order_of_failure"]]
        assert guards == [stop.verdict.guard for stop in report.stops()]
        assert printed["layers"] == [layer.to_json() for layer in report.layers]
        exec(compile(shown["python"], "snippet", "exec"), {})
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == report.outcome
        assert lines[1 : len(guards) + 1] == [
            f"{s.verdict.stage} {s.verdict.guard} {s.where} {s.verdict.because}"
            for s in report.stops()
        ]


def test_many_kinds_of_linear_are_shown_in_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate = Examiner.evaluate

    def many(self: Examiner, *args: Any, **more: Any) -> Report:
        report = evaluate(self, *args, **more)
        layers = tuple(
            replace(layer, linear=replace(layer.linear, linear=f"{layer.linear.linear}.{n}"))
            for n in range(70)
            for layer in report.layers
        )
        return replace(report, layers=layers)

    monkeypatch.setattr(Examiner, "evaluate", many)
    state: dict[str, object] = {"config": "Llama-3.1-8B", "tp": 8}
    first = panel("layers", view(**state))
    assert len(first["rows"]) == 100 and "Rows 0 to 99." in first["alt"]
    later = panel("layers", view(**state, row=325))
    assert len(later["rows"]) == 25 and "Rows 325 to 349." in later["alt"]
    assert len(panel("layers", view(**state, row=10**5))["rows"]) == 1
    assert "350 kinds of linear" in first["alt"]


def test_every_panel_says_its_numbers_and_the_picture_shows_layers_and_matrix() -> None:
    state = {"config": "Qwen2.5-72B-Instruct", "tp": 8, "matrix": "sglang", "suggest": "yes"}
    shown = view(**state)
    assert [p["id"] for p in shown["panels"]] == [
        *("model", "order", "layers", "suggestions", "guards", "matrix", "reasons"),
    ]
    for found in shown["panels"]:
        assert found["title"] and found["alt"].endswith(".")
    assert "145 GB, 18.2 GB a rank" in panel("model", shown)["alt"]
    assert "down_proj stop" in panel("layers", shown)["alt"]
    svg = drawn("will_it_run", json.dumps({**CALM, **state}))
    for text in ("down_proj", "lin-tp-row", "3,696", "flashinfer_cutlass", "mi355x"):
        assert f">{text}</text>" in svg


def test_a_view_of_a_model_is_quick() -> None:
    for name in ("Llama-3.1-8B", "MiniMax-M3-MXFP8"):
        took = []
        for tp in (1, 2, 4, 8, 2, 4):
            state: State = RECORD.clean({**CALM, "config": name, "tp": tp})
            start = time.perf_counter()
            RECORD.view(state)
            took.append(time.perf_counter() - start)
        assert min(took) < 0.05


def test_a_suggestion_without_room_is_bounded() -> None:
    examiner = Examiner(shipped_config("phi-4"))
    report = examiner.evaluate(Deployment(gpu="h200", tp=8, quantization="mxfp8"))
    assert report.outcome == "stops"
    assert suggestions(examiner, report, 0) == ()
    with pytest.raises(InputError):
        will_it_run_model.view(RECORD.clean({"config": "pasted"}))


def test_a_line_that_changes_nothing_is_no_warning_of_the_whole() -> None:
    state: dict[str, object] = {
        "config": "layer", "gpu": "b200", "backend": "auto", "kv_dtype": "mxfp8",
        "attention": "fa4", "model": "inkling", "head_dim": 128,
    }  # fmt: skip
    same = view(**state, page_size=128)
    assert same["status"] == "passes" and "kv-fa4-page only logs a line" in same["answer"]
    assert "--page-size is 128 already" in json.dumps(panel("guards", same))
    other = view(**state, page_size=64)
    assert other["status"] == "warns" and "--page-size 64 becomes 128" in other["answer"]
