"""What guards look at: a deployment, the facts that follow from it, and one subject."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mxlab.guards.facts_steps import Step
from mxlab.guards.releases import NEWEST, Release
from mxlab.hardware import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """How a model is to be served: the launch flags, the GPU, the installed packages.

    Flags keep the system's own names and defaults. ``packages`` holds what can be imported,
    ``env`` the environment variables that are set, ``settings`` what few guards look at: flags
    without their dashes and other facts, by the names in ``mxlab.guards.settings``.
    """

    gpu: str = "h200"
    system: str = "sglang"
    version: str = ""  # "" is the newest that the table knows
    tp: int = 1
    ep: int = 1
    quantization: str | None = None
    fp8_gemm_backend: str = "auto"
    moe_runner_backend: str = "auto"
    moe_a2a_backend: str = "none"
    flashinfer_a2a_dispatch_type: str | None = None
    kv_cache_dtype: str = "auto"
    page_size: int | None = None
    attention_backend: str | None = None
    dtype: str = "auto"
    architecture: str = ""  # config.json's architectures[0]; SGLang has rules for some
    draft_model: bool = False
    toolkit: str | None = None  # CUDA or ROCm version; None is the GPU's usual one
    prefill_attention_backend: str | None = None
    decode_attention_backend: str | None = None
    speculative_eagle_topk: int | None = None
    packages: frozenset[str] = frozenset({"flashinfer", "deep_gemm"})
    env: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Platform:
    """What the deployment's GPU, toolkit and packages make true, in SGLang's own terms.

    ``sm100`` is ``is_sm100_supported()``, ``blackwell`` is ``is_blackwell_supported()``,
    ``deep_gemm`` is ``ENABLE_JIT_DEEPGEMM``, ``ue8m0`` is ``DEEPGEMM_SCALE_UE8M0``.
    """

    gpu: Gpu
    capability: int | None  # major * 10 + minor
    toolkit: tuple[int, int]  # CUDA or ROCm
    cuda: bool
    hip: bool
    sm90: bool
    sm100: bool
    sm110: bool
    sm120: bool
    blackwell: bool
    gfx942: bool
    gfx95: bool
    gfx1250: bool
    flashinfer: bool
    deep_gemm: bool
    ue8m0: bool
    aiter: bool  # of the linear layers; SGLANG_USE_AITER on ROCm but gfx1250
    aiter_moe: bool  # of the experts, which do not except gfx1250
    force_block: bool  # SGLANG_FORCE_MXFP8_BLOCK_CONVERT
    force_block_dense: bool  # SGLANG_FORCE_MXFP8_BLOCK_CONVERT_DENSE
    release: Release = NEWEST  # what the asked version of SGLang takes into account


@dataclass(frozen=True, slots=True)
class ConfigFacts:
    """A checkpoint's quantization_config, or arguments of Fp8Config's constructor.

    ``values`` is None where the checkpoint has no quantization_config. ``constructor`` marks
    values that go straight to ``Fp8Config(**values)``: programs do that, checkpoints never.
    """

    values: Mapping[str, object] | None
    constructor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Quant:
    """What the flag and the checkpoint's config come to, as SGLang parses them."""

    method: str | None  # the quantization method finally used
    origin: str  # none, checkpoint, online, constructor
    values: Mapping[str, object]  # config after the ModelOpt rewrite; constructor arguments
    fp8_config: bool  # parsed by Fp8Config, the class of fp8 and mxfp8
    mxfp8: bool  # Fp8Config.use_mxfp8
    serialized: bool  # is_checkpoint_fp8_serialized
    block: object  # weight_block_size as the layers see it
    activation: object  # activation_scheme
    scale_fmt: object
    why: str  # one sentence: why it is, or is not, MXFP8


@dataclass(frozen=True, slots=True)
class Dense:
    """How dense linears run: ``kind`` is mxfp8, block-as-mxfp8, converted, fp8, none or unknown."""

    kind: str
    backend: str | None  # of the MXFP8 kinds; None where the request itself stops
    why: str


@dataclass(frozen=True, slots=True)
class Runner:
    """The MoE runner, and what the server arguments are after SGLang's start-up rules."""

    name: str
    asked: str  # before the mxfp8 constraint
    quantization: str | None  # the server argument: None where only the checkpoint knows
    fp8_gemm_backend: str
    overruled: tuple[str, ...] = ()  # the allowed runners, where ``asked`` was not one of them


@dataclass(frozen=True, slots=True)
class LinearFacts:
    """One dense linear on one rank, shape (n, k) = (output, input) features."""

    name: str
    n: int
    k: int
    shard: str = "replicated"  # column, row, replicated, vocab
    parts: tuple[int, ...] = ()
    quantized: bool = True
    why_not: str = ""  # why it is not quantised
    input_size: int | None = None  # of the whole layer; None follows from shard, k and tp
    output_size: int | None = None
    skip_block_quant_check: bool = False
    mixed_shards: str = ""  # path of a fused layer whose members disagree on being ignored
    indivisible: str = ""  # why no rank gets a part: ``num_attention_heads=14 not divisible by 4``


@dataclass(frozen=True, slots=True)
class ExpertFacts:
    """The routed experts of one layer on one rank."""

    hidden: int
    intermediate: int  # per partition
    experts: int
    gated: bool = True
    moe_tp: int = 1
    activation: str = "silu"
    quantized: bool = True
    why_not: str = ""
    indivisible: str = ""  # why no rank gets a part, as for a linear


@dataclass(frozen=True, slots=True)
class KvCacheFacts:
    """The KV cache of one rank."""

    head_dim: int
    v_head_dim: int
    kv_heads: int
    mla: bool = False
    k_scale: float | None = None  # per-tensor scales of the checkpoint; None: it has none
    v_scale: float | None = None
    size: int | None = None  # token slots of the pool; None: whole pages
    swa_head_dim: int | None = None  # of the second pool, of sliding-window layers
    swa_v_head_dim: int | None = None


@dataclass(frozen=True, slots=True)
class PrologueFacts:
    """What the fused attention prologue is handed. Shapes are None where the buffer is missing."""

    function: str  # verify, extend, decode
    dq: int
    dkv: int
    slots: int
    page_size: int
    mxfp8: bool = True
    sfk_shape: tuple[int, ...] | None = None
    sfv_shape: tuple[int, ...] | None = None
    sfk_contiguous: bool = True
    sfv_contiguous: bool = True
    # what the CUDA host code looks at besides; None: as it should be
    tokens: int = 1
    batch: int = 1
    q_num: int = 1  # of verify: draft tokens a request
    row_stride: int | None = None  # of qkvr, in elements
    last_stride: int = 1
    offsets: tuple[int, ...] = (0, 0, 0)  # of q, k, v in a row of qkvr, in elements
    k_stride: int | None = None  # of a slot of the K buffer, in elements
    v_stride: int | None = None
    conv_last_stride: int = 1
    inter_strides_equal: bool = True
    conv_strides_equal: bool = True
    si_size: int | None = None
    cu_size: int | None = None
    seq_size: int | None = None
    track_rows: int | None = None  # of extend with a track mask; None: no mask
    do_store: bool = True
    q_out_dtype: str | None = None
    kv_dtype: str = "float8_e4m3fn"
    sf_dtype: str = "uint8"  # as they are passed: views of the pool's
    q_out_contiguous: bool = True
    sfq_contiguous: bool = True
    tau_dtype: str | None = None  # None: no log_tau
    tau_contiguous: bool = True
    tau_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """One call of one library's function, as the caller hands the operands over.

    The product is (m, k) x (k, n); a batched or grouped call has ``batch`` of them, a grouped one
    the rows of each group in ``groups``. Layouts are ``row`` (the last axis contiguous) or
    ``column`` (the transposed view of a contiguous (n, k) weight); ``scale_layout`` is a name of
    ``mxlab.layout``. None means what the function asks for: a guard then says that it holds.
    """

    function: str  # the library's own name: mm_mxfp8, scaled_mm, dot_scaled
    m: int
    n: int
    k: int
    batch: int = 1
    groups: tuple[int, ...] = ()
    backend: str = "auto"  # of a function that has several
    a_dtype: str = "float8_e4m3fn"
    b_dtype: str = "float8_e4m3fn"
    scale_dtype: str | None = None
    out_dtype: str = "bfloat16"
    a_layout: str = "row"
    b_layout: str = "column"
    scale_layout: str | None = None
    declared_layout: str | None = (
        None  # what the caller says: torch's swizzle flag; None: the truth
    )
    a_scale_shape: tuple[int, ...] | None = None
    b_scale_shape: tuple[int, ...] | None = None
    b_shuffled: bool | None = None  # rows permuted for TRT-LLM's kernels
    #: DeepGEMM: rows of A, rows of B and K of one scale; () is the argument left out
    recipe: tuple[int, ...] | None = None
    scales_pow2: bool | None = None  # every float32 scale is a power of two
    scale_contiguous: bool = True
    bias: bool = False
    training: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A deployment, its platform, and the subjects that are present."""

    deployment: Deployment
    platform: Platform
    quant: Quant
    dense: Dense
    runner: Runner
    config: ConfigFacts | None = None
    linear: LinearFacts | None = None
    experts: ExpertFacts | None = None
    kv_cache: KvCacheFacts | None = None
    prologue: PrologueFacts | None = None
    call: CallFacts | None = None
    step: Step | None = None

    def has(self, subject: str) -> bool:
        """Tell whether the guards of ``subject`` can be asked."""
        if subject == "server" or getattr(self, subject, None) is not None:
            return True
        return self.step is not None and self.step.subject == subject
