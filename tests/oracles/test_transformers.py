"""transformers' own classes on the meta device against the recipes: names, layers and sizes.

Each model is built from its config as transformers reads it. Every linear, stack of experts and
router of the module tree must be a member of a row, in the layer and with the (N, K) that the row
says, and every row must have its weights; what a recipe says it leaves out is named here.
"""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from mxlab.models import Model, read_config, read_model, shapes
from mxlab.models.families import families

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

DATA = Path(__file__).parent.parent / "data"
RECORDED: dict[str, Any] = json.loads((DATA / "model-weights.json").read_text())
SMALL: dict[str, Any] = RECORDED["small"]
#: real files: one of each way to say layers, heads and experts
REAL = (
    "DeepSeek-V3",
    "DeepSeek-V4-Pro",
    "GLM-4.5-Air",
    "Kimi-K2.5",
    "Llama-4-Maverick-17B-128E",
    "MiniMax-M3-MXFP8",
    "Nemotron-H-56B",
    "Qwen2.5-VL-7B-Instruct",
    "Qwen3.5-27B",
    "gemma-3-27b-it",
    "gpt-oss-120b",
    "gpt2",
    "vit-base-patch16-224",
    "whisper-tiny",
)
#: what rows say that they leave out, by the last parts of their names
LEFT_OUT = (
    "projector",
    "vision_adapter",
    "classifier",
    "pooler",
    "merging_layer",
    "vision_model",
    "adapter_list",
)
#: the class is another than the config's, with other names for the tower's weights
OTHER_NAMES = {"Kimi-K2.5"}


@pytest.fixture(scope="module", autouse=True)
def transformers() -> Any:
    """Import it once: two seconds and 240 MB, and warnings of what is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("transformers", "5.24")
        module.logging.set_verbosity_error()
        return module


def config_of(name: str) -> dict[str, Any]:
    if name in SMALL:
        found: dict[str, Any] = SMALL[name]["config"]
        return found
    return read_config(DATA / "models" / f"{name}.json")


@pytest.mark.parametrize("name", [*SMALL, *sorted(set(REAL) - OTHER_NAMES)])
def test_every_weight_has_its_row(name: str) -> None:
    from record_model_weights import build

    config = config_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        live = read_model(build(config))
    assert live.kind == "module" and len(live.stored) > 8
    found = shapes(Model(kind="module", config=config, stored=live.stored))
    assert [difference.text() for difference in found.differences] == []
    assert found.family in {family.name for family in families()}
    for note in found.notes:
        if "not in the recipe" in note:
            for pattern in note.partition(": ")[2].split(", "):
                left_out = (*LEFT_OUT, *SMALL.get(name, {}).get("left_out", ()))
                assert any(part in pattern for part in left_out), pattern
        assert "are read by their names" not in note


@pytest.mark.parametrize("name", sorted(RECORDED["models"].keys() & set(REAL)))
def test_the_recording_is_what_transformers_builds(name: str) -> None:
    """The recording runs everywhere; here it is made again."""
    from record_model_weights import LEFT_OUT as SKIPPED
    from record_model_weights import build, widths

    config = config_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        built = widths(build(config), SKIPPED.get(config["architectures"][0], ()))
    assert built == RECORDED["models"][name]


def test_a_wrong_size_would_be_seen() -> None:
    from record_model_weights import build

    config = config_of("glm4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        live = read_model(build(config))
    wrong = {**config, "intermediate_size": config["intermediate_size"] + 64, "head_dim": 64}
    found = shapes(Model(kind="module", config=wrong, stored=live.stored))
    changed = {difference.name for difference in found.differences}
    assert changed == {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}
    stored = {row.linear: (row.n, row.k) for row in found.layers}
    derived = {row.linear: (row.n, row.k) for row in shapes(config).layers}
    assert stored == derived  # the real shapes win
