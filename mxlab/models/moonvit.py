"""Kimi's vision tower (MoonViT) and its projector, as SGLang 0.5.23 builds them: in 16 bit."""

from dataclasses import dataclass

from mxlab.models.build import Build, Shape
from mxlab.models.config import MAX_LAYERS, Section
from mxlab.models.sharding import divide

_SIZES = ("vt_hidden_size", "vt_intermediate_size", "vt_num_attention_heads", "text_hidden_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoonVit:
    """Attention is split by head; the MLP and the projector are whole on every rank."""

    block: str = "vision_tower.encoder.blocks.{layer}."

    def lay_out(self, build: Build, vision: Section | None) -> None:
        """Add the tower's rows; a tower that the config does not describe becomes unknown."""
        if vision is None:
            build.unknown.append("vision tower (the config has no vision_config)")
            return
        sizes = [vision.whole(key) for key in _SIZES]
        depth = vision.whole("vt_num_hidden_layers", 1, MAX_LAYERS)
        kernel = vision.numbers("merge_kernel_size") or ()
        absent = [
            vision.at(key)
            for key, value in zip((*_SIZES, "vt_num_hidden_layers"), (*sizes, depth), strict=True)
            if value is None
        ]
        if absent or len(kernel) != 2 or not all(0 < side <= 64 for side in kernel):
            missing = ", ".join(absent) or f"two sides in {vision.at('merge_kernel_size')}"
            build.unknown.append(f"vision tower (the config lacks {missing})")
            return
        hidden, width, heads, text = (size or 1 for size in sizes)
        if hidden % heads:
            build.unknown.append(
                f"vision tower ({vision.at('vt_hidden_size')} = {hidden} is not a multiple of "
                f"vt_num_attention_heads = {heads})"
            )
            return
        self._lay_out_blocks(build, hidden, width, heads, tuple(range(depth or 1)))
        merged = hidden * kernel[0] * kernel[1]
        for name, n in (("linear_1", merged), ("linear_2", text)):
            build.replicated(
                f"visual.mm_projector.{name}",
                (n,),
                merged,
                sources=(f"mm_projector.{name}",),
                path=f"mm_projector.{name}",
                indices=(),
                count=1,
            )

    def _lay_out_blocks(
        self, build: Build, hidden: int, width: int, heads: int, indices: tuple[int, ...]
    ) -> None:
        dim = hidden // heads

        def qkv() -> Shape:
            return (divide("num_attention_heads", heads, build.tp) * dim,) * 3, hidden

        build.add(
            "visual.attn.qkv_proj",
            qkv,
            shard="column",
            sources=("wqkv",),
            path=f"{self.block}attn.qkv_proj",
            indices=indices,
        )
        build.row(
            "visual.attn.proj",
            hidden,
            ("num_attention_heads", heads),
            unit=dim,
            sources=("wo",),
            path=f"{self.block}attn.proj",
            indices=indices,
        )
        for name, n, k in (("mlp.fc0", width, hidden), ("mlp.fc1", hidden, width)):
            build.replicated(
                f"visual.{name}",
                (n,),
                k,
                sources=(name,),
                path=self.block + name,
                indices=indices,
            )
