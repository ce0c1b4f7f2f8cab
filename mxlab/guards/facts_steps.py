"""What guards look at besides a deployment and a layer: one step that the server takes.

A step is one tensor loaded, one scale converted, one activation handed to a kernel, one store to
the cache. Each class names the subject that its guards carry; dtypes are torch's names, shapes are
those of the tensors as they are handed over.
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFacts:
    """One tensor of the checkpoint loaded into one parameter of an MXFP8 linear.

    ``n`` and ``k`` are the weight's on this rank: the scale parameter is uint8 (n, ceil(k / 32)),
    the weight E4M3 (n, k). ``kind`` is the loader: column, row, merged or qkv.
    """

    subject: ClassVar[str] = "load"
    target: str  # weight, scale
    kind: str
    n: int
    k: int
    loaded_shape: tuple[int, ...]
    loaded_dtype: str
    tp_rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockScaleFacts:
    """The scale of a block-FP8 weight (n, k), on its way to E8M0 bytes.

    ``values`` are the scales row by row; empty where only the shape is of interest. ``conversion``
    is mxfp8 (32-wide blocks to one byte a row and block), mxscale (the 128x128 variant of
    DeepSeek-V4), gfx95 (the native kernel of gfx950) or npu.
    """

    subject: ClassVar[str] = "block_scale"
    n: int
    k: int
    block_n: int
    block_k: int
    shape: tuple[int, ...]
    values: tuple[float, ...] = ()
    dtype: str = "float32"
    conversion: str = "mxfp8"


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmInputFacts:
    """An activation handed to a dense linear (n, k), with its scale where it is quantised already.

    ``route`` is the kernel's entry point; ``scale_shape`` and ``scale_stride`` are in elements.
    """

    subject: ClassVar[str] = "gemm_input"
    route: str
    m: int
    n: int
    k: int
    input_k: int | None = None  # None: that of the weight
    dtype: str = "bfloat16"
    weight_dtype: str = "float8_e4m3fn"
    ndim: int = 2
    contiguous: bool = True
    scale_dtype: str | None = None  # None: not quantised yet
    scale_shape: tuple[int, ...] | None = None
    scale_stride: tuple[int, ...] | None = None
    weight_scale_dtype: str = "uint8"
    weight_scale_shape: tuple[int, ...] | None = None  # None: what the kernel expects
    weight_contiguous: bool = True
    block_n: int = 128  # of block-FP8 weights
    block_k: int = 128
    swizzled_input: bool = False  # a Mxfp8SwizzledInput


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizerFacts:
    """A tensor handed to one of the functions that quantise to MXFP8 or to groups."""

    subject: ClassVar[str] = "quantizer"
    function: str
    shape: tuple[int, ...]
    dtype: str = "bfloat16"
    contiguous: bool = True
    last_stride: int = 1
    cuda: bool = True
    group_size: int = 32
    column_major_scales: bool = False
    scale_ue8m0: bool = False
    scale_tma_aligned: bool = False
    cutedsl: bool = True  # nvidia-cutlass-dsl is installed


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertCallFacts:
    """What one call hands to the experts: the layout contract of a MoE runner.

    ``scale_shapes`` are those of the scales of w13 and w2; None where they are as the runner wants
    them.
    """

    subject: ClassVar[str] = "expert_call"
    runner: str  # cutlass, deep_gemm, flashinfer_trtllm, triton, aiter
    hidden: int
    intermediate: int
    experts: int
    top_k: int = 2
    routing: str = "default"  # default, DeepSeekV3, Llama4
    n_group: int = 1
    block: tuple[int, ...] = (1, 32)
    block_is_list: bool = True
    scale_dtype: str = "uint8"
    scale_shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    activation_dtype: str = "bfloat16"
    activation_contiguous: bool = True
    activation_block: int | None = None  # None: that of the weights
    activation_scale_width: int | None = None  # int32 words a token; None: as expected
    dispatched_fp8: bool = False  # the tokens arrive quantised, through an all-to-all
    dispatched_scales: bool = True
    expert_specialized: bool = True
    no_combine: bool = False
    bias: bool = False
    router_weight_on_input: bool = False
    shuffled_weight: bool = True
    major_k: bool = True
    weight: str = "w2"  # whose GEMM: w13, w2


@dataclass(frozen=True, slots=True, kw_only=True)
class KvStoreFacts:
    """K and V of some tokens on their way into the paged MXFP8 cache.

    ``function`` is set_kv_buffer (the pool's), quant_store_kv_mxfp8 or store_sf_interleaved (the
    kernels behind it) or set_kv_buffer_prefix_valid.
    """

    subject: ClassVar[str] = "kv_store"
    function: str
    page_size: int
    heads: int
    head_dim: int
    v_head_dim: int | None = None
    k_dtype: str = "bfloat16"
    scales: bool = True  # both K and V scales are handed over
    dcp_mask: bool = False
    store_kernel: bool = True  # the JIT store kernel can be built for these rows
    inner_stride: int = 1
    cache_contiguous: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPoolFacts:
    """HiCache's copy of the MXFP8 cache in host memory."""

    subject: ClassVar[str] = "host_pool"
    layout: str = "page_first"
    scales: str | None = "interleaved"  # the device's scale layout: interleaved, token, None
    page_size: int = 128
    device_page_size: int = 128
    head_dim: int = 128
    v_head_dim: int = 128
    draft: bool = False
    staged_kernel: bool = True  # the write-back kernel can be built for these sizes
    io_backend: str = "kernel"
    storage: bool = False  # a storage tier (L3) behind host memory
    mxfp8: bool = True  # the MXFP8 host pool; False: the pool of plain K and V heads


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionFacts:
    """One call of FA4 over an MXFP8 cache: what the attention layer hands over."""

    subject: ClassVar[str] = "attention"
    head_dim: int = 128
    v_head_dim: int = 128
    page_size: int | None = 128  # None: no paged cache
    q_dtype: str = "float8_e4m3fn"
    k_dtype: str = "float8_e4m3fn"
    v_dtype: str = "float8_e4m3fn"
    sfq_dtype: str | None = "float8_e8m0fnu"  # None: not given
    sfk_dtype: str | None = "float8_e8m0fnu"
    sfv_dtype: str | None = "float8_e8m0fnu"
    sf_vec_size: int | None = None  # None: 32, where the scales are E8M0
    tile_n: int = 128  # tokens of K and V that the kernel takes at a time
    sfq_interleaved: bool = False
    varlen_q: bool = True
    grad: bool = False
    new_kv: bool = False  # K and V to be appended in place
    rotary: bool = False


Step = (
    LoadFacts
    | BlockScaleFacts
    | GemmInputFacts
    | QuantizerFacts
    | ExpertCallFacts
    | KvStoreFacts
    | HostPoolFacts
    | AttentionFacts
)
STEPS: tuple[type[Step], ...] = (
    LoadFacts,
    BlockScaleFacts,
    GemmInputFacts,
    QuantizerFacts,
    ExpertCallFacts,
    KvStoreFacts,
    HostPoolFacts,
    AttentionFacts,
)
