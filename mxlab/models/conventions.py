"""What the names of stored weights mean by convention: members of a fused linear, and its shard.

Where a family has no recipe these names are all there is. They are the module names of the model
classes of transformers 5.24.0 and of the loaders of SGLang 0.5.23 (``stacked_params_mapping``).
"""

from dataclasses import dataclass


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


COLUMN = _names(
    "q_proj k_proj v_proj qkv_proj qkv q k v query key value query_key_value c_attn Wqkv "
    "wqkv wq wk wv gate_proj up_proj gate_up_proj fc1 fc_in c_fc dense_h_to_4h linear_fc1 "
    "lin1 w1 w3 wi wi_0 wi_1 q_b_proj kv_b_proj in_proj_qkv in_proj_z in_proj_qkvz "
    "in_proj_a in_proj_b in_proj_ba"
)
ROW = _names(
    "o_proj out_proj dense dense_4h_to_h down_proj w2 wo o fc2 fc_out c_proj linear_fc2 lin2 proj"
)
#: small projections to a latent: every rank holds them whole
REPLICATED = _names("q_a_proj kv_a_proj_with_mqa fused_qkv_a_proj_with_mqa")
HEADS = _names("lm_head embed_out proj_out")
ROUTERS = _names("gate router shared_expert_gate")
_EMBEDDINGS = _names("wte wpe tok_embeddings shared relative_attention_bias")

#: attention's members, by what their width counts
QUERIES = _names("q_proj query wq q")
KEYS = _names("k_proj v_proj key value wk wv k v")
FUSED_ON_DISK = _names("qkv_proj qkv query_key_value c_attn Wqkv wqkv")
OUTPUTS = _names("o_proj out_proj wo o dense proj c_proj")

#: members of one fused linear, in the order in which they lie along N, and its name
FUSED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("q_proj", "k_proj", "v_proj"), "qkv_proj"),
    (("query", "key", "value"), "qkv_proj"),
    (("wq", "wk", "wv"), "qkv_proj"),
    (("q", "k", "v"), "qkv_proj"),
    (("gate_proj", "up_proj"), "gate_up_proj"),
    (("w1", "w3"), "gate_up_proj"),
    (("wi_0", "wi_1"), "gate_up_proj"),
    (("q_a_proj", "kv_a_proj_with_mqa"), "fused_qkv_a_proj_with_mqa"),
    (("in_proj_qkv", "in_proj_z"), "in_proj_qkvz"),
    (("in_proj_b", "in_proj_a"), "in_proj_ba"),
)
_TOWERS = _names("visual vision vision_tower vision_model vision_encoder vision_embed_tokens")


def is_embedding(leaf: str) -> bool:
    """Tell a table that is looked up from a weight that is multiplied.

    >>> is_embedding("embed_tokens"), is_embedding("embed_out"), is_embedding("wte")
    (True, False, True)
    """
    other = leaf in HEADS or "unembed" in leaf
    return leaf in _EMBEDDINGS or ("embed" in leaf and not other)


def in_tower(path: str) -> bool:
    """Tell a module of a vision tower from one of the decoder.

    >>> in_tower("model.visual.blocks.0.attn.qkv"), in_tower("model.layers.0.self_attn")
    (True, False)
    """
    return not _TOWERS.isdisjoint(path.split("."))


def kind_of(leaf: str) -> tuple[str, str, bool]:
    """Return (kind, shard, it was guessed) of a linear with this name.

    >>> kind_of("down_proj"), kind_of("frobnicate")
    (('linear', 'row', False), ('linear', 'replicated', True))
    """
    if leaf in HEADS:
        return "lm_head", "vocab", False
    if leaf in ROUTERS:
        return "router", "replicated", False
    if leaf in COLUMN:
        return "linear", "column", False
    if leaf in ROW:
        return "linear", "row", False
    return "linear", "replicated", leaf not in REPLICATED


@dataclass(frozen=True, slots=True)
class HeadCounts:
    """How many query and KV heads the config names; None where it does not."""

    queries: int | None = None
    keys: int | None = None
