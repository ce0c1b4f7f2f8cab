"""Vision towers: the encoder's linears when it is sharded like the decoder.

Serving systems can also run the encoder data-parallel; then every linear has its TP 1 shape.
"""

from dataclasses import dataclass, replace

from mxlab.models.build import Build, Shape
from mxlab.models.config import MAX_LAYERS, Section
from mxlab.models.sharding import divide

_HEADS = "num_attention_heads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """One kind of vision encoder: key names, row names, module paths."""

    depth: str
    heads: str
    qkv: str
    qkv_sources: tuple[str, ...]
    out: str
    out_source: str
    gated: bool
    up: str
    up_sources: tuple[str, ...]
    down: str
    down_source: str
    block: str  # module path of one layer
    attention: str  # module of the attention inside a layer
    mlp: str = "mlp"
    merger: tuple[str, str] | None = None  # the two linears of the patch merger
    deepstack: bool = False  # one more merger a listed layer
    hidden: str = "hidden_size"
    width: str = "intermediate_size"
    ratio: str = ""  # key of the MLP's width in hidden sizes, where that is how it is said
    merged: str = "out_hidden_size"
    projector: str = ""  # what joins tower and decoder and SGLang keeps in 16 bit

    def lay_out(self, build: Build, vision: Section | None) -> None:
        """Add the tower's rows; a tower that the config does not describe becomes unknown."""
        if self.projector:
            build.notes.append(f"{self.projector}: not listed, SGLang keeps it in 16 bit")
        if vision is None:
            build.unknown.append("vision tower (the config has no vision_config)")
            return
        sizes = {
            key: vision.whole(key, 1, MAX_LAYERS if key == self.depth else 1 << 24)
            for key in (self.hidden, self.ratio or self.width, self.depth, self.heads)
        }
        absent = [vision.at(key) for key, value in sizes.items() if value is None]
        if absent:
            build.unknown.append(f"vision tower (the config lacks {', '.join(absent)})")
            return
        hidden, width, depth, heads = (value or 1 for value in sizes.values())
        if self.ratio:
            width *= hidden
        if hidden % heads:
            build.unknown.append(
                f"vision tower ({vision.at(self.hidden)} = {hidden} is not a multiple of "
                f"{self.heads} = {heads})"
            )
            return
        self._lay_out_block(build, hidden, width, heads, tuple(range(depth)))
        if self.merger:
            self._lay_out_merger(build, vision, hidden)

    def _lay_out_block(
        self, build: Build, hidden: int, width: int, heads: int, indices: tuple[int, ...]
    ) -> None:
        dim = hidden // heads

        def qkv() -> Shape:
            return (divide(_HEADS, heads, build.tp) * dim,) * 3, hidden

        at, attention = self.block, f"{self.block}{self.attention}."
        build.add(
            f"visual.{self.qkv}",
            qkv,
            shard="column",
            sources=self.qkv_sources,
            path=f"{attention}qkv_proj",
            indices=indices,
        )
        build.row(
            f"visual.{self.out}",
            hidden,
            (_HEADS, heads),
            unit=dim,
            sources=(self.out_source,),
            path=f"{attention}proj",
            indices=indices,
        )
        member = ("intermediate_size", width)
        build.column(
            f"visual.{self.up}",
            [member] * (2 if self.gated else 1),
            hidden,
            sources=self.up_sources,
            path=f"{at}{self.mlp}.{self.up.rsplit('.', 1)[-1]}",
            indices=indices,
        )
        build.row(
            f"visual.{self.down}",
            hidden,
            member,
            sources=(self.down_source,),
            path=f"{at}{self.mlp}.{self.down.rsplit('.', 1)[-1]}",
            indices=indices,
        )

    def _lay_out_merger(self, build: Build, vision: Section, hidden: int) -> None:
        merge, out = vision.whole("spatial_merge_size", 1, 64), vision.whole(self.merged)
        if merge is None or out is None or self.merger is None:
            build.unknown.append(
                f"visual.merger (the config lacks {vision.at('spatial_merge_size')} or "
                f"{vision.at(self.merged)})"
            )
            return
        wide = hidden * merge**2
        root = self.block.split("blocks.", 1)[0]
        mergers = [("merger", 1)]
        if self.deepstack:
            taps = vision.numbers("deepstack_visual_indexes") or ()
            mergers.append(("deepstack_merger_list", min(len(taps), MAX_LAYERS)))
        for name, count in mergers:
            first, second = (f"{name}.{linear}" for linear in self.merger)
            where = f"{root}{name}" + (".{layer}" if name != "merger" else "")
            build.add(
                f"visual.{first}",
                lambda: ((divide("merger width", wide, build.tp),), wide),
                shard="column",
                sources=(first,),
                path=f"{where}.{self.merger[0]}",
                indices=tuple(range(count)) if name != "merger" else (),
                count=count,
            )
            build.add(
                f"visual.{second}",
                lambda: ((out,), divide("merger width", wide, build.tp)),
                shard="row",
                sources=(second,),
                path=f"{where}.{self.merger[1]}",
                indices=tuple(range(count)) if name != "merger" else (),
                count=count,
            )


def clip_tower(block: str, projector: str) -> Tower:
    """Return the tower of CLIP and SigLIP encoders: separate q, k, v; a plain MLP."""
    return Tower(
        depth="num_hidden_layers",
        heads="num_attention_heads",
        qkv="qkv_proj",
        qkv_sources=("q_proj", "k_proj", "v_proj"),
        out="out_proj",
        out_source="out_proj",
        gated=False,
        up="fc1",
        up_sources=("fc1",),
        down="fc2",
        down_source="fc2",
        block=block,
        attention="self_attn",
        projector=projector,
    )


#: Qwen2.5-VL: fused qkv on disk, a gated MLP, a two-linear patch merger
QWEN2_5_VL = Tower(
    depth="depth",
    heads="num_heads",
    qkv="attn.qkv_proj",
    qkv_sources=("attn.qkv",),
    out="attn.proj",
    out_source="attn.proj",
    gated=True,
    up="mlp.gate_up_proj",
    up_sources=("visual.mlp.gate_proj", "visual.mlp.up_proj"),
    down="mlp.down_proj",
    down_source="visual.mlp.down_proj",
    block="visual.blocks.{layer}.",
    attention="attn",
    merger=("mlp.0", "mlp.2"),
)


def qwen3_vl_tower(block: str) -> Tower:
    """Return the tower of Qwen3-VL and Qwen3.5: a plain MLP, mergers at several depths."""
    return Tower(
        depth="depth",
        heads="num_heads",
        qkv="attn.qkv_proj",
        qkv_sources=("attn.qkv",),
        out="attn.proj",
        out_source="attn.proj",
        gated=False,
        up="mlp.linear_fc1",
        up_sources=("mlp.linear_fc1",),
        down="mlp.linear_fc2",
        down_source="mlp.linear_fc2",
        block=block,
        attention="attn",
        merger=("linear_fc1", "linear_fc2"),
        deepstack=True,
    )


#: Qwen2-VL: embed_dim is the tower's width, hidden_size that of the decoder
QWEN2_VL = replace(
    QWEN2_5_VL,
    hidden="embed_dim",
    ratio="mlp_ratio",
    merged="hidden_size",
    gated=False,
    up="mlp.fc1",
    up_sources=("visual.mlp.fc1",),
    down="mlp.fc2",
    down_source="visual.mlp.fc2",
)

#: Pixtral: Llama's layer without a cache
PIXTRAL = Tower(
    depth="num_hidden_layers",
    heads="num_attention_heads",
    qkv="attention.qkv_proj",
    qkv_sources=("q_proj", "k_proj", "v_proj"),
    out="attention.o_proj",
    out_source="o_proj",
    gated=True,
    up="feed_forward.gate_up_proj",
    up_sources=("gate_proj", "up_proj"),
    down="feed_forward.down_proj",
    down_source="down_proj",
    block="vision_tower.transformer.layers.{layer}.",
    attention="attention",
    mlp="feed_forward",
    projector="multi_modal_projector",
)
