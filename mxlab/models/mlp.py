"""Feed-forward parts: the dense MLP, routed and shared experts, and the output head."""

from dataclasses import dataclass

from mxlab.models.build import Build, Shape
from mxlab.models.layer_sets import LayerRule, every
from mxlab.models.sharding import Indivisible, divide, padded_vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseMlp:
    """A gated MLP (gate and up fused), or a plain one with ``gated=False``."""

    up: str = "gate_up_proj"
    up_sources: tuple[str, ...] = ("gate_proj", "up_proj")
    down: str = "down_proj"
    down_sources: tuple[str, ...] = ("down_proj",)
    module: str = "mlp"
    width: str = "intermediate_size"
    width_else: str = ""  # the key that stands in where ``width`` is absent
    gated: bool = True
    four_hidden: bool = False  # 4 * hidden_size when absent
    halved: bool = False  # the key counts gate and up together
    optional: bool = False  # none where the width is 0 or absent
    flag: str = ""  # key of a boolean: none where it is not true
    layers: LayerRule = every

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        indices = self.layers(build)
        if not indices or (self.flag and not build.config.flag(self.flag)):
            return
        hidden = build.hidden
        width = build.optional(self.width, int(not self.optional))
        if width is None and self.width_else:
            width = build.size(self.width_else)
        if self.optional and not width:
            return
        if width is None and self.four_hidden:
            width = 4 * hidden
            build.derive(f"{build.key(self.width)} = 4 * hidden_size = {width}")
        if width is None:
            width = build.size(self.width)
        if self.halved:
            width //= 2
            build.derive(f"width of the MLP = {build.key(self.width)} / 2 = {width}")
        lay_out_mlp(
            build,
            (self.up, self.down),
            (self.width, width),
            gated=self.gated,
            up_sources=self.up_sources,
            down_sources=self.down_sources,
            module=self.module,
            indices=indices,
        )


def lay_out_mlp(
    build: Build,
    names: tuple[str, str],
    width: tuple[str, int],
    *,
    gated: bool,
    up_sources: tuple[str, ...],
    down_sources: tuple[str, ...],
    module: str,
    indices: tuple[int, ...],
) -> None:
    """Add one MLP: column-parallel up (and gate), row-parallel down."""
    up, down = names
    at = f"{build.block}{module}." if module else build.block
    build.column(
        up,
        [width] * (2 if gated else 1),
        build.hidden,
        sources=up_sources,
        path=at + up.rsplit(".", 1)[-1],
        indices=indices,
    )
    build.row(
        down,
        build.hidden,
        width,
        sources=down_sources,
        path=at + down.rsplit(".", 1)[-1],
        indices=indices,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Routed experts, split over MoE-TP = tp / ep, and their router.

    ``shared`` names the shared expert's module, ``shared_width`` the key of its width; without the
    key the width is ``n_shared_experts`` times that of a routed expert. ``shared_gate`` names the
    one-row linear that weighs the shared expert. ``latent`` is the key of the width in which the
    experts work where it is not the hidden size.
    """

    layers: LayerRule
    count: str = "num_experts"
    width: str = "moe_intermediate_size"
    module: str = "mlp"
    router: str = "gate"
    shared: str | None = None
    shared_width: str | None = None
    shared_count: str | None = "n_shared_experts"
    shared_gate: str | None = None
    gated: bool = True
    latent: str | None = None
    experts_at: str = "experts"
    shared_times: bool = False  # shared_width is that of one of n_shared_experts
    shared_one: str = ""  # key of the width of one shared expert, where it is not a routed one's
    width_else: str = ""  # the key that stands in where ``width`` is absent
    idle: str = ""  # key of the experts without weights that the router chooses among too

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        indices = self.layers(build)
        if not indices:
            return
        hidden = build.hidden
        experts = build.size(self.count)
        width = build.optional(self.width_else) if self.width_else else None
        width = build.optional(self.width) or width or build.size(self.width)
        at = f"{build.block}{self.module}." if self.module else build.block
        inner = (build.optional(self.latent) if self.latent else None) or hidden
        moe_tp = build.tp // build.ep

        def per_partition() -> int:
            if experts % build.ep:
                raise Indivisible(f"experts={experts} not divisible by ep={build.ep}")
            return divide(self.width, width, moe_tp)

        def w13() -> Shape:
            return (per_partition(),) * (2 if self.gated else 1), inner

        def w2() -> Shape:
            return (inner,), per_partition()

        for name, shape, shard, source in (
            ("experts.w13", w13, "column", "experts.gate_up_proj" if self.gated else "up_proj"),
            ("experts.w2", w2, "row", "experts.down_proj"),
        ):
            build.add(
                name,
                shape,
                shard=shard,
                sources=(source,),
                path=at + self.experts_at,
                indices=indices,
                kind="moe",
                experts=experts,
                experts_per_rank=None if experts % build.ep else experts // build.ep,
            )
        self._lay_out_shared(build, width, indices)
        build.replicated(
            "router",
            (experts + (build.size(self.idle, 0) if self.idle else 0),),
            hidden,
            sources=(self.router,),
            path=at + self.router,
            indices=indices,
            kind="router",
        )
        if self.shared_gate and any(row.linear.startswith(f"{self.shared}.") for row in build.rows):
            build.replicated(
                self.shared_gate,
                (1,),
                hidden,
                sources=(self.shared_gate,),
                path=at + self.shared_gate,
                indices=indices,
                kind="router",
            )

    def _lay_out_shared(self, build: Build, width: int, indices: tuple[int, ...]) -> None:
        if self.shared is None:
            return
        if self.shared_width is not None:
            name, total = self.shared_width, build.size(self.shared_width, 0)
            if self.shared_times and self.shared_count is not None:
                total *= build.size(self.shared_count, 0)
        elif self.shared_count is None:
            name, total = self.width, width
        else:
            named = build.config.named(build.key(self.shared_count))
            count = build.optional(self.shared_count, 0) if named else build.size(self.shared_count)
            name = self.width
            if self.shared_one and (one := build.optional(self.shared_one)):
                name, width = self.shared_one, one
            total = width * (count or 0)
            if count and count > 1:
                name = f"{self.shared_count}*{name}"
                build.derive(f"shared expert width = {name} = {count} * {width} = {total}")
        if not total:
            return
        ups = ("gate_proj", "up_proj") if self.gated else ("up_proj",)
        fused = "gate_up_proj" if self.gated else "up_proj"
        lay_out_mlp(
            build,
            (f"{self.shared}.{fused}", f"{self.shared}.down_proj"),
            (name, total),
            gated=self.gated,
            up_sources=tuple(f"{self.shared}.{up}" for up in ups),
            down_sources=(f"{self.shared}.down_proj",),
            module=f"{self.module}.{self.shared}",
            indices=indices,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalExperts:
    """Experts that the config may do without: a flag that is not true, or none of them."""

    experts: Experts
    flag: str = ""  # key of a boolean; "" asks whether there are any

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        there = build.config.flag(self.flag) if self.flag else build.optional(self.experts.count, 0)
        if there:
            self.experts.lay_out(build)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentExperts:
    """The linears into and out of the narrower space in which Nemotron-H's experts may work."""

    layers: LayerRule

    def lay_out(self, build: Build) -> None:
        """Add the rows; none where ``moe_latent_size`` is absent."""
        indices = self.layers(build)
        width = build.optional("moe_latent_size") if indices else None
        if width is None:
            return
        hidden, at = build.hidden, f"{build.block}mixer."
        for name, n, k in (("fc1_latent_proj", width, hidden), ("fc2_latent_proj", hidden, width)):
            build.replicated(name, (n,), k, sources=(name,), path=at + name, indices=indices)


def lay_out_head(build: Build, path: str, *, tied: bool) -> None:
    """Add the output head: the vocabulary padded to 64, then split."""
    vocabulary = build.size("vocab_size")
    rows = padded_vocabulary(vocabulary, build.tp)
    if rows != vocabulary:
        multiple = 64 if rows == -(-vocabulary // 64) * 64 else 64 * build.tp
        build.derive(f"lm_head rows = vocab_size {vocabulary} padded to {rows} ({multiple}s)")
    build.add(
        "lm_head",
        lambda: ((rows // build.tp,), build.hidden),
        shard="vocab",
        sources=("embed_tokens (tied)" if tied else "lm_head",),
        path=path,
        indices=(),
        kind="lm_head",
        count=1,
    )
