"""Every matrix that a model's own class builds has a row, and no row is made up.

``model-weights.json`` was recorded from transformers by ``record_model_weights.py``: for each
config, {K: sum of N over layers and experts}.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from test_models_known import CONFIGS as KNOWN

from mxlab.models import Linear, read_config, shapes
from mxlab.models.families import families

DATA = Path(__file__).parent / "data"
RECORDED: dict[str, Any] = json.loads((DATA / "model-weights.json").read_text())
SMALL: dict[str, Any] = RECORDED["small"]
#: recorded with the sizes that its class invents where the config has none
LEFT_OUT = {"Hy4-preview-FP8-modelopt"}
REAL = sorted(set(RECORDED["models"]) - LEFT_OUT)
#: no class of transformers builds them: remote code, or a copy of one that is checked
UNCHECKED = {"deepseek_v41", "minicpm", "minimax_m3"} | {
    *("grok", "iquestcoder", "nemotron-nas", "orion", "sdar", "sdar_moe", "step3p5", "xverse"),
    *("llava_llama", "llava_mistral", "llava_qwen", "phi4mm", "glm_ocr_text"),
    *("qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text"),
}


def stored(row: Linear) -> int:
    """Return the N that is stored: without a copy of k as v, without k and v that nothing reads."""
    assert row.n is not None
    if row.sources == ("q_proj",) and len(row.parts) == 3:
        return row.parts[0]
    if len(row.sources) == len(row.parts):
        return sum(dict(zip(row.sources, row.parts, strict=True)).values())
    return row.n


def widths(config: dict[str, Any]) -> dict[str, int]:
    found: Counter[int] = Counter()
    for row in shapes(config).layers:
        assert row.n is not None and row.k is not None
        n = stored(row)
        if row.kind == "lm_head":
            if "tied" in row.sources[0]:
                continue
            n = (config.get("text_config") or config)["vocab_size"]  # rows here are padded
        found[row.k] += n * row.layers * (row.experts or 1)
    return {str(k): found[k] for k in sorted(found)}


@pytest.mark.parametrize("name", REAL)
def test_real_configs(name: str) -> None:
    assert widths(read_config(DATA / "models" / f"{name}.json")) == RECORDED["models"][name]


@pytest.mark.parametrize("name", SMALL)
def test_small_configs_of_the_other_families(name: str) -> None:
    assert widths(SMALL[name]["config"]) == SMALL[name]["widths"]


def test_every_family_is_checked() -> None:
    configs = [read_config(DATA / "models" / f"{name}.json") for name in REAL]
    configs += [case["config"] for case in SMALL.values()]
    configs += list(KNOWN.values())
    checked = {shapes(config).family for config in configs}
    assert len(REAL) == 44 and len(SMALL) == 144
    assert {family.name for family in families()} - checked == UNCHECKED


def test_no_name_selects_two_families() -> None:
    names = [n for family in families() for n in (*family.architectures, *family.model_types)]
    assert len(names) == len(set(names)) > 190
