"""Record what transformers builds for each config, as an oracle for ``test_models_weights.py``.

Not a test. Run it where torch and transformers are installed::

    python tests/record_model_weights.py

For every config of ``data/models`` and every small config of ``data/model-weights.json`` it builds
the model's own class on the meta device and sums, by input width K, the output widths N of all
matrices: {K: sum of N over layers and experts}. Embeddings, norms, convolutions and biases are left
out, and so is what mxlab says it does not derive (``unknown``): projectors and some vision towers.
"""

import json
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
#: parts that the recipes of these architectures leave out
LEFT_OUT = {
    "Gemma3ForConditionalGeneration": ("multi_modal_projector",),
    "MiniMaxM3SparseForConditionalGeneration": ("multi_modal_projector",),
    "Llama4ForConditionalGeneration": ("vision_model", "multi_modal_projector"),
    "Mistral3ForConditionalGeneration": ("multi_modal_projector",),
    "DeepseekV4ForCausalLM": ("attn_hc", "ffn_hc", "hc_head"),
    "ViTForImageClassification": ("classifier", "embeddings."),
}
#: architectures that transformers spells otherwise, and model types that it lacks
SPELT = {"KimiK25ForConditionalGeneration": "Kimi_K25ForConditionalGeneration"}
TYPES = {"kimi_k2": "deepseek_v3"}


def build(config: dict[str, Any]) -> Any:
    """Return the model of a config on the meta device; quantisation does not change shapes."""
    torch, transformers = import_module("torch"), import_module("transformers")
    kept = {k: v for k, v in config.items() if k[0] != "_" and k != "quantization_config"}
    if "text_config" in kept:
        text = {k: v for k, v in kept["text_config"].items() if k != "quantization_config"}
        if text.get("model_type") in TYPES:
            text["model_type"] = TYPES[text["model_type"]]
        kept["text_config"] = text
    made = transformers.AutoConfig.for_model(**kept)
    name = config["architectures"][0]
    with torch.device("meta"):
        return getattr(transformers, SPELT.get(name, name))(made)


def widths(model: Any, left_out: tuple[str, ...]) -> dict[str, int]:
    """Return {K: sum of N}."""
    nn = import_module("torch").nn
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    transposed = {id(m.weight) for m in model.modules() if type(m).__name__ == "Conv1D"}
    found: Counter[int] = Counter()
    for name, weight in model.named_parameters():
        owner = model.get_submodule(name.rsplit(".", 1)[0])
        skipped = (*left_out, "position", "patch_embed", "bias", "A_log")
        if id(weight) in embeddings or weight.ndim not in (2, 3):
            continue
        if any(word in name for word in skipped) or ("conv" in name and weight.ndim == 3):
            continue
        experts = 1 if weight.ndim == 2 else weight.shape[0]
        n, k = weight.shape[-2:]
        fused = (
            getattr(owner, "is_transposed", False) or type(owner).__name__ == "Llama4TextExperts"
        )
        if id(weight) in transposed or (weight.ndim == 3 and fused):
            n, k = k, n
        found[k] += n * experts
    return {str(k): found[k] for k in sorted(found)}


def main() -> None:
    """Rewrite ``data/model-weights.json``."""
    path = DATA / "model-weights.json"
    data = json.loads(path.read_text())
    data["_about"]["transformers"] = import_module("transformers").__version__
    data["models"] = {}
    for file in sorted((DATA / "models").glob("*.json")):
        config = json.loads(file.read_text())
        try:
            model = build(config)
        except (KeyError, ValueError, AttributeError, TypeError) as error:
            print(f"{file.name}: no class builds it ({type(error).__name__})")
            continue
        data["models"][file.stem] = widths(model, LEFT_OUT.get(config["architectures"][0], ()))
    for case in data["small"].values():
        left_out = case.get("left_out") or LEFT_OUT.get(case["config"]["architectures"][0], ())
        case["widths"] = widths(build(case["config"]), tuple(left_out))
    path.write_text(json.dumps(data, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
