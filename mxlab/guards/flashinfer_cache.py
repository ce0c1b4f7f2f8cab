"""FlashInfer's paged attention: what it takes a uint8 KV cache for."""

from mxlab.guards.call_rows import Library
from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import judge

DECODE = "trtllm_batch_decode_with_kv_cache"
_FLASHINFER = Library("flashinfer", "flashinfer_python 0.7.2")


def _storage(facts: Facts, c: CallFacts) -> Finding:
    because = (
        f"the cache is {c.b_dtype}: a head of {c.k} values takes {c.k} bytes in FP8 and "
        f"{c.k // 2} in packed FP4, and uint8 says neither"
    )
    return judge(c.b_dtype == "uint8" and c.b_scale_shape is None, because)


GUARDS: tuple[Guard, ...] = (
    _FLASHINFER.row(
        "fi-kv-uint8",
        DECODE,
        "C2",
        "ValueError",
        "kv_cache_sf must be provided for NVFP4 KV cache.",
        _storage,
        predicate="the cache tensor (b_dtype) is uint8 and no scales come with it; k is head_dim",
        meaning="The logical format and the dtype of the storage are two things. FlashInfer takes "
        "every uint8 cache for packed NVFP4; an FP8 cache that is stored as bytes must be viewed "
        "as FP8 first, as vLLM 0.33 does. Bytes alone cannot tell.",
        fixes=(
            "kv_cache.view(torch.float8_e4m3fn): the format travels with the tensor",
            "for an NVFP4 cache pass kv_cache_sf",
        ),
        source="flashinfer/decode.py:3295,4640, prefill.py:4954,8869",
        related=("vllm-kv-scale-default",),
    ),
)
