"""DeepSeek-V4's attention: one latent KV head, grouped output projections, compressors, indexers.

Shapes and names are those of sglang 0.5.23, srt/models/deepseek_v4.py and
srt/layers/attention/dsv4 (compressor.py, indexer.py, dsv41_sparse.py), with its default of
SGLANG_OPT_FUSE_WQA_WKV=1.
"""

from dataclasses import dataclass

from mxlab.errors import InputError
from mxlab.models.build import Build, layer_ranges
from mxlab.models.config import MAX_LAYERS
from mxlab.models.sharding import divide

_TYPES = {
    "sliding_attention": 0,
    "compressed_sparse_attention": 4,
    "heavily_compressed_attention": 128,
}
_EINSUM = "SGLang multiplies wo_a as a batched GEMM of its own, outside the linear method"
_PLAIN = "SGLang keeps the compressor and the indexer's weights_proj in 16 bit"

#: transformers' and the checkpoint's names -> those that SGLang gives them when it loads
ALIASES: tuple[tuple[str, str], ...] = (
    (".attn", ".self_attn"),
    (".ffn", ".mlp"),
    (".compressor.indexer.kv_proj", ".indexer.compressor.wkv"),
    (".compressor.indexer.gate_proj", ".indexer.compressor.wgate"),
    (".compressor.indexer.q_b_proj", ".indexer.wq_b"),
    (".compressor.indexer.scorer.weights_proj", ".indexer.weights_proj"),
    (".compressor.kv_proj", ".compressor.wkv"),
    (".compressor.gate_proj", ".compressor.wgate"),
    (".self_attn.q_a_proj", ".self_attn.wq_a"),
    (".self_attn.q_b_proj", ".self_attn.wq_b"),
    (".self_attn.kv_proj", ".self_attn.wkv"),
    (".self_attn.o_a_proj", ".self_attn.wo_a"),
    (".self_attn.o_b_proj", ".self_attn.wo_b"),
    (".shared_experts.w1", ".shared_experts.gate_proj"),
    (".shared_experts.w2", ".shared_experts.down_proj"),
    (".shared_experts.w3", ".shared_experts.up_proj"),
    (".head", ".lm_head"),
)


def _ratios(build: Build) -> tuple[int, ...]:
    """Return how many tokens each layer's compressor pools; 0 where it has none."""
    ratios = build.config.numbers("compress_ratios")
    if ratios is None:
        types = build.per_layer("layer_types")
        if types is None:
            build.lacks("compress_ratios")
            return ()
        ratios = tuple(_TYPES.get(name, -1) for name in types)
    if not build.missing and len(ratios) < build.depth:
        raise InputError(
            f"{build.config.at('compress_ratios')} has {len(ratios)} entries: "
            f"expected at least {build.depth}, one a layer"
        )
    for index, ratio in enumerate(ratios[: build.depth]):
        if ratio not in (0, 1, 2, 4, 128):
            raise InputError(
                f"{build.config.at('compress_ratios')}[{index}] is {ratio}: "
                "expected 0, 1, 2, 4 or 128"
            )
    return ratios[: build.depth]  # the entries after the last layer are the draft layers'


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedMqa:
    """Every layer's latent attention, and in some a compressor and an indexer."""

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        hidden, heads, dim = build.hidden, build.size("num_attention_heads"), build.size("head_dim")
        q_lora, o_lora = build.size("q_lora_rank"), build.size("o_lora_rank")
        groups = build.size("o_groups")
        layers, at = build.layers, f"{build.block}self_attn."
        if heads % groups and not build.missing:
            raise InputError(
                f"{build.config.at('o_groups')} is {groups}: "
                f"expected a divisor of num_attention_heads = {heads}"
            )
        build.replicated(
            "wqkv_a",
            (q_lora, dim),
            hidden,
            sources=("wq_a", "wkv"),
            path=at + "wqkv_a",
            indices=layers,
        )
        build.add(
            "wq_b",
            lambda: ((divide("num_attention_heads", heads, build.attn_tp) * dim,), q_lora),
            shard="column",
            sources=("wq_b",),
            path=at + "wq_b",
            indices=layers,
        )
        build.add(
            "wo_a",
            lambda: ((divide("o_groups", groups, build.attn_tp) * o_lora,), heads // groups * dim),
            shard="column",
            sources=("wo_a",),
            path=at + "wo_a",
            indices=layers,
            unquantized=_EINSUM,
        )
        build.row(
            "wo_b",
            hidden,
            ("o_groups", groups),
            unit=o_lora,
            sources=("wo_b",),
            path=at + "wo_b",
            indices=layers,
            ranks=build.attn_tp,
        )
        self._compressors(build, at, dim)

    def _compressors(self, build: Build, at: str, dim: int) -> None:
        ratios = _ratios(build)
        owners = _listed(build, "kv_source_layer_ids")
        askers = _listed(build, "index_source_layer_ids")
        low = [index for index, ratio in enumerate(ratios) if ratio in (1, 2)]
        for ratio, members in ((128, 1), (4, 2), (2, 1), (1, 1)):
            having = [i for i, found in enumerate(ratios) if found == ratio]
            if ratio < 4:
                having = [index for index in having if index in owners]
            one = ratio == 1  # pools nothing: a key and value, no gate
            name, kept = ("wkv", ("wkv",)) if one else ("wkv_gate", ("wkv", "wgate"))
            _plain(
                build,
                f"compressor.{name}",
                (members * dim,) * len(kept),
                build.hidden,
                tuple(f"compressor.{member}" for member in kept),
                at,
                tuple(having),
            )
        four = tuple(index for index, ratio in enumerate(ratios) if ratio == 4)
        asking = tuple(sorted({*four, *(index for index in low if index in askers)}))
        if asking:
            self._indexers(build, at, four, asking, tuple(i for i in asking if i in owners))
        engram = build.config.numbers("engram_layer_ids")
        if engram:
            build.unknown.append(
                f"layers {layer_ranges(sorted(set(engram))[:MAX_LAYERS])}: engram.* (no rule)"
            )

    def _indexers(
        self,
        build: Build,
        at: str,
        four: tuple[int, ...],
        asking: tuple[int, ...],
        owning: tuple[int, ...],
    ) -> None:
        heads, size = build.size("index_n_heads"), build.size("index_head_dim")
        build.replicated(
            "indexer.wq_b",
            (heads * size,),
            build.size("q_lora_rank"),
            sources=("indexer.wq_b",),
            path=at + "indexer.wq_b",
            indices=asking,
        )
        for name, parts, k, sources, indices in (
            ("weights_proj", (heads,), build.hidden, ("weights_proj",), asking),
            ("wk", (size,), build.size("head_dim"), ("wk",), owning),
            (
                "compressor.wkv_gate",
                (2 * size, 2 * size),
                build.hidden,
                ("compressor.wkv", "compressor.wgate"),
                four,
            ),
        ):
            found = tuple(f"indexer.{source}" for source in sources)
            _plain(build, f"indexer.{name}", parts, k, found, at, indices)


def _plain(
    build: Build,
    name: str,
    parts: tuple[int, ...],
    k: int,
    sources: tuple[str, ...],
    at: str,
    indices: tuple[int, ...],
) -> None:
    build.replicated(
        name, parts, k, sources=sources, path=at + name, indices=indices, unquantized=_PLAIN
    )


def _listed(build: Build, key: str) -> frozenset[int]:
    return frozenset(build.config.numbers(key) or ())
