"""LFM2: short convolutions between attention layers, and an MLP whose width is adjusted.

Source: sglang 0.5.23, srt/models/lfm2.py:73 and :287; the config class of transformers 5.24.0.
"""

from dataclasses import dataclass

from mxlab.errors import InputError, quote
from mxlab.models.build import Build
from mxlab.models.layer_sets import LayerRule


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortConv:
    """The linears around a gated short convolution: B, C and x in one, then the output."""

    layers: LayerRule

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        hidden, indices = build.hidden, self.layers(build)
        at = f"{build.block}conv."
        build.column(
            "conv.in_proj",
            [("hidden_size", hidden)] * 3,
            hidden,
            sources=("conv.in_proj",),
            path=at + "in_proj",
            indices=indices,
        )
        build.row(
            "conv.out_proj",
            hidden,
            ("hidden_size", hidden),
            sources=("conv.out_proj",),
            path=at + "out_proj",
            indices=indices,
        )


def _adjusted(build: Build) -> int:
    """Return the width of the MLP: two thirds of what is written, times a factor, rounded up."""
    config = build.config
    width = config.whole("block_ff_dim") or build.size("intermediate_size")
    if config.flag("block_auto_adjust_ff_dim") is False:
        return width
    factor = config.get("block_ffn_dim_multiplier")
    if factor is None:
        factor = 1
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor <= 64:
        raise InputError(
            f"{config.at('block_ffn_dim_multiplier')} is {quote(factor)}: expected a number above "
            "0 and up to 64"
        )
    multiple = build.optional("block_multiple_of") or 256
    wanted = int(factor * int(2 * width / 3))
    found = -(-wanted // multiple) * multiple or multiple
    build.derive(f"width of the MLP = 2/3 of {width} in multiples of {multiple} = {found}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustedMlp:
    """A gated MLP whose gate (w1) and up (w3) SGLang keeps apart."""

    def lay_out(self, build: Build) -> None:
        """Add the rows."""
        hidden, indices = build.hidden, build.layers
        member = ("width of the MLP", _adjusted(build))
        at = f"{build.block}feed_forward."
        for name in ("w1", "w3"):
            build.column(name, [member], hidden, sources=(name,), path=at + name, indices=indices)
        build.row("w2", hidden, member, sources=("w2",), path=at + "w2", indices=indices)
