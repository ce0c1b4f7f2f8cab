"""Where the versions of SGLang that are tables here decide differently, as data."""

from dataclasses import dataclass

from mxlab.guards import values as v


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What one version of SGLang takes into account; a row's own text and lines are its table's."""

    version: str
    commit: str = ""  # whole hash, where the version is a commit
    block_as_mxfp8: bool  # 32-wide UE8M0 block FP8 may run on the MXFP8 kernels
    block_width_first: bool  # block FP8 that is not 128 wide goes to Triton whatever the flag
    auto_triton_sm110: bool  # --fp8-gemm-backend auto becomes triton on SM110
    deep_gemm_sm120: bool  # DeepGEMM is taken on SM120, with packed scales on SM120 and SM121
    convert_dense: bool  # SGLANG_FORCE_MXFP8_BLOCK_CONVERT_DENSE is read
    megamoe: bool  # flashinfer_megamoe is a runner and an all-to-all backend
    rocm_runners: bool  # mxfp8 experts may name triton on any ROCm, and aiter on gfx95
    cutlass_raw_scales: bool  # serialised scales of the cutlass runner stay as they are
    experts_fall_back: bool  # FP8 experts on FlashInfer's CUTLASS or CuTe-DSL runner use Triton
    flat_pages: bool  # an MXFP8 KV cache of other pages than 128 can be written
    methods: tuple[str, ...]  # that it knows, in the order of its error text
    methods_rocm: tuple[str, ...]  # that run on ROCm
    absent_architectures: frozenset[str] = frozenset()  # no start-up rule of theirs


NEWEST = Release(
    version="0.5.23",
    block_as_mxfp8=True,
    block_width_first=True,
    auto_triton_sm110=True,
    deep_gemm_sm120=True,
    convert_dense=True,
    megamoe=True,
    rocm_runners=True,
    cutlass_raw_scales=True,
    experts_fall_back=True,
    flat_pages=False,
    methods=v.METHODS,
    methods_rocm=v.METHODS_ROCM,
)

_AUGUST_METHODS = tuple(
    name
    for known in v.METHODS
    if known != "minimax_m3_nvfp4"
    for name in (("gptq", known) if known == "gptq_marlin" else (known,))
)

#: a commit of 2026-08-27, between 0.5.18 and 0.5.19, whose sources agree on all of this
AUGUST = Release(
    version="0132848349",
    commit="0132848349585cfe6aae51c4941cbae872505f8a",
    block_as_mxfp8=False,
    block_width_first=False,
    auto_triton_sm110=False,
    deep_gemm_sm120=False,
    convert_dense=False,
    megamoe=False,
    rocm_runners=False,
    cutlass_raw_scales=False,
    experts_fall_back=False,
    flat_pages=True,
    methods=_AUGUST_METHODS,
    methods_rocm=("awq", "gptq", *v.METHODS_ROCM[1:]),
    absent_architectures=frozenset(
        {
            "HYV4ForCausalLM",
            "HYV4ForCausalLMNextN",
            "Glm5NextForConditionalGeneration",
            "Qwen4ExpForConditionalGeneration",
        }
    ),
)

RELEASES = (NEWEST, AUGUST)


def is_commit(version: str, commit: str) -> bool:
    """Tell whether a person's version is an abbreviation, of 7 digits or more, of a commit.

    >>> is_commit("0132848", AUGUST.commit), is_commit("013284", AUGUST.commit)
    (True, False)
    """
    return len(version) >= 7 and commit.startswith(version.lower())


def release(version: str) -> Release:
    """Return the rules of a version of SGLang; the newest for a name that has none of its own.

    >>> release("0132848349").block_as_mxfp8
    False
    """
    return next(
        (
            known
            for known in RELEASES
            if known.version == version or is_commit(version, known.commit)
        ),
        NEWEST,
    )
