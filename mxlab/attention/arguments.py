"""What a prologue is called with, under the upstream names, and the sizes that follow from it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mxlab.attention.containers import Buffer, describe
from mxlab.errors import InputError

HEAD = 128


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of one call; those of another mode are None.

    Arrays are NumPy's or torch's: see ``containers``.
    """

    mode: str  # verify, extend, decode
    qkvr: Any
    q_off: int
    k_off: int
    v_off: int
    dq: int
    dkv: int
    k_cache: Any
    v_cache: Any
    cache_indices: Any
    cache_mask: Any
    k_weight: Any
    v_weight: Any
    q_gamma: Any
    k_gamma: Any
    eps: float
    loc: Any
    k_buf: Any
    v_buf: Any
    activation: str | None = None
    use_residual: bool = True
    do_store: bool = True
    mxfp8_quant: bool = False
    sfk: Any = None
    sfv: Any = None
    page_size: int = 128
    log_scaling_tau: Any = None
    draft_token_num: int = 0
    k_inter: Any = None
    v_inter: Any = None
    cu: Any = None
    si: Any = None
    has_initial_state: Any = None
    track_rows: Any = None
    track_mask: Any = None
    track_dst: Any = None
    track_indices: Any = None
    do_cache_update: bool = True
    max_heads: int = 64

    @cached_property
    def buffers(self) -> dict[str, Buffer]:
        """Name -> shape, strides and kind of every array that was given."""
        names = (
            *("qkvr", "k_cache", "v_cache", "cache_indices", "cache_mask", "k_weight", "v_weight"),
            *("q_gamma", "k_gamma", "loc", "k_buf", "v_buf", "sfk", "sfv", "log_scaling_tau"),
            *("k_inter", "v_inter", "cu", "si", "has_initial_state", "track_rows", "track_mask"),
            *("track_dst", "track_indices"),
        )
        given = {name: getattr(self, name) for name in names}
        return {name: describe(name, x) for name, x in given.items() if x is not None}

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array, or raise InputError where it is missing."""
        if name not in self.buffers:
            raise InputError(f"{name} is missing: prologue_{self.mode} needs it")
        return self.buffers[name].shape

    @property
    def tokens(self) -> int:
        """T."""
        return self.shape("qkvr")[0]

    @property
    def sequences(self) -> int:
        """B."""
        return self.shape("cache_indices")[0]

    @property
    def taps(self) -> int:
        """W."""
        return self.shape("k_weight")[1]

    @property
    def q_heads(self) -> int:
        """Query heads on this rank."""
        return self.dq // HEAD

    @property
    def kv_heads(self) -> int:
        """KV heads on this rank."""
        return self.dkv // HEAD

    @property
    def slots(self) -> int:
        """Rows of the K buffer."""
        return self.shape("k_buf")[0]

    @property
    def silu(self) -> bool:
        """Whether the convolution is activated."""
        return self.activation is not None

    @property
    def tracks(self) -> bool:
        """Whether a snapshot of the history is asked for."""
        return self.track_mask is not None and 0 not in self.buffers["track_mask"].shape
