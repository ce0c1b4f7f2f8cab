"""explain with a model: the layer that has the message's numbers, and what no layer has."""

import re
from typing import Any

import pytest

from mxlab.errors import InputError
from mxlab.explain import explain
from mxlab.guards.engine import fill


def layers(text: str, config: Any, **sizes: Any) -> set[tuple[str, tuple[int, ...]]]:
    """The layers that are named for a text, with the TP sizes at which they have its numbers."""
    matches = explain(text, config=config, **sizes).matches
    assert matches
    return {(fit.linear, fit.tp) for match in matches for fit in match.layers}


DEEP_GEMM = (
    "--fp8-gemm-backend=deep_gemm cannot serve MXFP8 weight shape ({n}, {k}) (needs N % 64 == 0 "
    "and K % 128 == 0), and this device has no FlashInfer MXFP8 fallback kernel."
)


@pytest.mark.parametrize(("model", "tp"), [("Llama-3.1-8B", 8), ("Qwen3-30B-A3B", 4)])
def test_a_layer_is_named_by_its_numbers(model: str, tp: int) -> None:
    """Every linear is led back to itself; whatever else is named has the same N and K."""
    from mxlab.models import shapes

    rows = [row for row in shapes(model, tp).layers if not row.unquantized]
    assert len(rows) >= 4
    for row in rows:
        text = fill(DEEP_GEMM, {"n": row.n, "k": row.k})
        named = {linear for linear, _ in layers(text, model, tp=tp)}
        assert named == {one.linear for one in rows if (one.n, one.k) == (row.n, row.k)}
        assert any(tp in sizes for name, sizes in layers(text, model) if name == row.linear)


def test_layers_of_one_number() -> None:
    block = "is not divisible by weight quantization block_k = 128."
    row = f"Weight input_size_per_partition = {{}} {block}"
    assert layers(row.format(1792), "Llama-3.1-8B") == {("down_proj", (8,))}
    assert layers(row.format(4096), "Llama-3.1-8B", tp=8) >= {("qkv_proj", (8,))}
    head = "MXFP8 KV cache requires head_dim divisible by 32, got {}."
    assert {name for name, _ in layers(head.format(128), "Llama-3.1-8B", tp=2)} == {"kv_cache"}
    down = f"The input_size of down's weight = {{}} {block}"
    gate = (
        "The output_size of gate's and up's weight = {} is not divisible by weight quantization "
        "block_n = 128."
    )
    assert layers(down.format(96), "Qwen3-30B-A3B") == {("experts.w2", (8,))}
    assert layers(gate.format(96), "Qwen3-30B-A3B") == {("experts.w13", (8,))}


def test_numbers_that_no_layer_has_are_said() -> None:
    (match,) = explain(
        "MXFP8 KV cache requires head_dim divisible by 32, got 80.", config="Llama-3.1-8B", tp=4
    ).matches
    assert match.layers == ()
    assert match.no_layer == "no layer of the config has head_dim = 80 on one rank at TP 4"
    (match,) = explain(fill(DEEP_GEMM, {"n": 4096, "k": 1791}), config="Llama-3.1-8B").matches
    assert "N = 4096, K = 1791" in match.no_layer and match.layers == ()
    (match,) = explain("MXFP8 KV cache requires head_dim divisible by 32, got 80.").matches
    assert (match.layers, match.no_layer) == ((), "")  # nobody asked


def test_ranks_in_the_log_bound_the_tp_size() -> None:
    text = fill(DEEP_GEMM, {"n": 28672, "k": 4096})
    assert layers(text, "Llama-3.1-8B") == {("gate_up_proj", (1,))}
    assert layers(f"[10:00:00 TP0] {text}", "Llama-3.1-8B") == {("gate_up_proj", (1,))}
    (match,) = explain(f"[10:00:00 TP3] {text}", config="Llama-3.1-8B").matches
    assert match.layers == ()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"config": "no such model"}, "no file, folder or shipped model"),
        ({"config": "Llama-3.1-8B", "tp": 0}, "tp is 0: expected 1 to 1024"),
        ({"config": "Llama-3.1-8B", "ep": 3}, "ep is 3"),
        ({"config": "Llama-3.1-8B", "tp": 8, "ep": 3}, "expected a divisor of tp = 8"),
        ({"config": "Llama-3.1-8B", "ep": "x"}, "ep is 'x'"),
    ],
)
def test_a_model_that_cannot_be(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        explain("MXFP8 KV cache requires head_dim divisible by 32, got 80.", **more)
