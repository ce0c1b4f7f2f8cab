"""The ipywidget without a browser: traits, clamping, linking, what a saved output holds."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("anywidget")

import ipywidgets  # type: ignore[import-untyped]
import numpy as np
import traitlets

from mxlab import explorers
from mxlab.explorers import EXPLORERS, WillItRun, explorer
from mxlab.explorers.widget import ExplorerWidget, bundle


@pytest.fixture
def widget(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExplorerWidget]:
    for name in ("MXLAB_BOOK", "MXLAB_DISPLAY", "VSCODE_PID"):
        monkeypatch.delenv(name, raising=False)
    made = WillItRun()
    yield made
    made.close()


def test_every_control_is_a_synced_trait_with_its_default(widget: ExplorerWidget) -> None:
    record = explorer("will_it_run")
    assert widget.state == record.defaults()
    for control in record.controls:
        assert widget.traits()[control.name].metadata["sync"]


def test_a_change_is_answered_and_observed(widget: ExplorerWidget) -> None:
    heard: list[str] = []
    widget.observe(lambda change: heard.append(change["new"]["view"]["answer"]), names="answer")
    widget.tp = 2
    widget.gpu = "h200"
    assert len(heard) == 2
    expected = explorer("will_it_run").answer({"tp": 2, "gpu": "h200"})
    assert widget.answer == expected
    json.dumps(widget.answer, allow_nan=False)


def test_an_int_clamps_so_that_any_slider_can_be_linked(widget: ExplorerWidget) -> None:
    slider = ipywidgets.IntSlider()
    link = ipywidgets.link((widget, "tp"), (slider, "value"))
    assert slider.value == widget.tp == 1
    slider.value = 8
    assert widget.tp == 8
    widget.tp = 10**400
    assert widget.tp == 64
    link.unlink()
    slider.close()


def test_a_name_that_is_no_option_is_refused_with_the_options(widget: ExplorerWidget) -> None:
    with pytest.raises(traitlets.TraitError, match=r"expected one of .*h200"):
        widget.gpu = "h2000"
    assert widget.gpu == "b200"
    with pytest.raises(TypeError, match="no control 'gpus'"):
        WillItRun(gpus="h200")


def test_a_state_goes_round(widget: ExplorerWidget) -> None:
    widget.k = 7392
    widget.split = "row"
    for state in (widget.state, json.dumps(widget.state)):
        again = WillItRun.from_state(state)
        assert again.state == widget.state and again.answer == widget.answer
        again.close()
    mended = WillItRun.from_state({"gpu": "nonsense", "n": -1})
    assert mended.state["gpu"] == "b200" and mended.state["n"] == 1
    mended.close()


def test_the_saved_output_is_a_picture_and_a_sentence_only(widget: ExplorerWidget) -> None:
    data, _ = widget._repr_mimebundle_()
    assert set(data) == {"text/html", "text/plain"}
    assert f'id="{widget.mount}"' in data["text/html"] and "<img" in data["text/html"]
    assert data["text/plain"].startswith("Will it run? Runs, but falls back at S6")


def test_hosts_that_show_outputs_in_frames_get_the_widget_view(
    widget: ExplorerWidget, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = "application/vnd.jupyter.widget-view+json"
    monkeypatch.setenv("VSCODE_PID", "1")
    assert widget._repr_mimebundle_()[0][view]["model_id"] == widget.model_id
    monkeypatch.delenv("VSCODE_PID")
    monkeypatch.setenv("MXLAB_DISPLAY", "both")
    assert view in widget._repr_mimebundle_()[0]
    monkeypatch.setenv("MXLAB_DISPLAY", "html")
    monkeypatch.setenv("VSCODE_PID", "1")
    assert view not in widget._repr_mimebundle_()[0]


def made(name: str, **settings: object) -> ExplorerWidget:
    """A widget of an explorer by its module's name."""
    found: ExplorerWidget = getattr(explorers, EXPLORERS[name])(**settings)
    return found


@pytest.mark.parametrize("name", list(EXPLORERS))
def test_every_explorer_is_a_widget_with_a_picture_in_its_saved_output(name: str) -> None:
    one, two = made(name), made(name)
    record = explorer(name)
    assert one.state == record.defaults() and one.answer == record.answer({})
    data, _ = one._repr_mimebundle_()
    assert "data:image/svg+xml;base64," in data["text/html"]
    assert data["text/plain"].endswith(record.view(record.defaults()).answer)
    assert one.mount != two.mount  # several on one page, of one kind
    again = type(one).from_state(json.dumps(one.state))
    assert again.answer == one.answer
    box = ipywidgets.HBox([one, two])
    assert box.children == (one, two)
    for closed in (box, one, two, again):
        closed.close()


def test_a_slider_linked_to_a_code_turns_both_ways() -> None:
    byte = made("one_byte", code=0x38)
    heard: list[str] = []
    slider = ipywidgets.IntSlider(max=255)
    link = ipywidgets.link((byte, "code"), (slider, "value"))
    byte.observe(lambda change: heard.append(change["new"]["view"]["answer"]), names="answer")
    slider.value = 0x7E
    assert heard[-1].startswith("Byte 0x7E of E4M3 is 448") and len(heard) == 1
    byte.code = 0x100
    assert slider.value == byte.code == 255
    link.unlink()
    for closed in (byte, slider):
        closed.close()


def test_two_explorers_can_share_a_control() -> None:
    left, right = made("block_of_32"), made("block_of_32", rule="floor")
    link = ipywidgets.link((left, "values"), (right, "values"))
    left.values = [449, *[1.0] * 31]
    answers = [w.answer["view"]["answer"] for w in (left, right)]
    assert answers[0].startswith("Scale byte 128") and answers[1].startswith("Scale byte 127")
    link.unlink()
    for closed in (left, right):
        closed.close()


@pytest.mark.parametrize(
    ("given", "first"),
    [
        ([1, 2, 3], "1,2,3,0"),
        ((0.5, float("nan")), "0.5,nan,0,0"),
        (np.arange(40, dtype=np.float32), "0.0,1.0,2.0,3.0"),
        ("[4, 5]", "4,5,0,0"),
    ],
)
def test_numbers_are_set_from_any_list(given: object, first: str) -> None:
    block = made("block_of_32")
    block.values = given
    assert block.values.startswith(first) and block.values.count(",") == 31
    assert block.answer == explorer("block_of_32").answer({"values": block.values})
    other = made("block_of_32", values=given)
    assert other.values == block.values
    block.close()
    other.close()


def test_a_picture_is_drawn_when_the_face_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    byte = made("one_byte", code=3)
    sent: list[dict[str, str]] = []
    monkeypatch.setattr(byte, "send", sent.append)
    byte._handle_custom_msg({"want": "picture"}, None)
    byte._handle_custom_msg({"want": "money"}, None)
    assert sent == [{"svg": explorers.drawn("one_byte", '{"code":3}')}]
    assert sent[0]["svg"].startswith("<svg")
    byte.close()


def test_mounts_in_the_book_are_numbered(
    widget: ExplorerWidget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MXLAB_BOOK", "1")
    monkeypatch.setattr("mxlab.explorers.widget._numbered", [])
    ids = [re.findall(r'id="([^"]*)"', widget._repr_mimebundle_()[0]["text/html"]) for _ in "12"]
    assert ids == [["will_it_run-1"], ["will_it_run-2"]]


def test_the_bundle_is_one_module_that_node_accepts(tmp_path: Path) -> None:
    source = bundle()
    assert not re.search(r"^import ", source, re.M)
    assert re.findall(r"^export .*", source, re.M) == ["export default { render, initialize };"]
    names = re.findall(r"^(?:async )?(?:function|const|let) (\w+)", source, re.M)
    assert len(names) == len(set(names)) > 20
    if node := shutil.which("node"):
        file = tmp_path / "bundle.mjs"
        file.write_text(source, encoding="utf-8")
        subprocess.run([node, "--check", str(file)], check=True)
